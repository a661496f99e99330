"""A-3, new lineage: a new run id, W&B id and output root, from one checkpoint of this run.

The cockpit never rewrites the run file: it launches with the new identity filled in, records
old and new in logbook and issue, and shows the ``[[run]]`` block that a person adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cockpit.actions.action import Doing, RefuseError, Step, StepError, unchanged
from cockpit.actions.at_rest import job_name
from cockpit.actions.checks import code, commands, jobs, people
from cockpit.actions.checks.material import DEADLINE, Material, gather
from cockpit.actions.checks.new_lineage import source_of, takes_identity, unused
from cockpit.actions.checks.people import for_dri
from cockpit.actions.checks.verdicts import blocked, passed, shown, warned
from cockpit.actions.command import shown as shown_command
from cockpit.actions.command import values_of
from cockpit.actions.ground import Ground
from cockpit.actions.launch_records import RESUMES_FROM, record_steps, trouble_step
from cockpit.actions.new_run import environment, new_run, run_block
from cockpit.actions.relaunch import code_fact, config_fact, template_of
from cockpit.actions.relaunch_steps import (
    CODE,
    CONFIG,
    as_planned,
    config_of,
    filled,
    nothing_lives,
)
from cockpit.actions.run_log_steps import status_step
from cockpit.actions.snapshot import snapshot_of
from cockpit.actions.submitting import confirm_step, note_snapshot, submit, verify
from cockpit.model.observed import Pick
from cockpit.model.plan import Basis, Check, Difference, Draft, Plan, Request
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.sources.offload import offload
from cockpit.store.store import run_key

WORD: Final = "new lineage"


class NewLineage:
    """Launches the same recorded command under another identity."""

    verb = "lineage"
    title = "New lineage"
    exclusive = True
    launches = True

    async def draft(self, ground: Ground, request: Request) -> Draft:
        """Return old and new side by side; raises ``RefuseError`` for what is no identity."""
        run = new_run(ground.spec, request.params)
        if not request.params.get("reason", "").strip():
            raise RefuseError("--reason is missing: why is the old lineage left?")
        material = await gather(ground)
        pick, source = source_of(ground, request.params.get("from", ""))
        template = template_of(ground.spec.resubmit)
        values = values_of(run, ground.launch_id, pick.path if pick else None,
                           pick.step if pick else None)  # fmt: skip
        command, words = commands.ready(run, ground.spec.resubmit, values)
        free = await offload(lambda: list(unused(ground, run)), deadline=DEADLINE)
        checks = [
            *people.has_dri(ground),
            *people.dri_knows(ground),
            *jobs.backend_there(ground),
            *await _nothing_yet(ground, run),
            *free,
            source,
            *takes_identity(run, template, ground.spec),
            *code.lineage(ground, material.changes, material.prior, first=True),
            *command,
            passed("reason", shown(request.params["reason"]), Basis.RECORDED),
        ]
        return Draft(
            words=f"lineage {request.run} {run.name}",
            checks=for_dri(checks, code.of_the_dri(ground, material.changes), ground.spec.dri),
            command=shown_command(words) or None,
            spares=tuple(job_name(job) for job in (*ground.live.jobs, *ground.live.spared)),
            checkpoint=pick,
            differences=tuple(_differences(ground.spec, run)),
            page=run_block(run, pick.path if pick is not None else "?"),
            facts=_facts(ground, material),
        )

    def steps(self, ground: Ground, plan: Plan) -> Sequence[Step]:
        """Return: look again, submit, verify, then the records in both places."""
        return (
            Step("checkpoint", _look_again),
            Step("submit", _go),
            Step("verify", _verify),
            *record_steps(plan.run, WORD, _key, _run, instance=False),
            status_step(_status, f"{plan.run}: log {WORD}"),
            confirm_step(),
            trouble_step(plan.run, WORD),
        )

    def still_holds(self, shown: Plan, now: Plan) -> str | None:
        """Return what has changed since it was shown, if anything that matters has."""
        return unchanged(shown, now)


def subject(run: RunSpec, plan: Plan) -> RunSpec:
    """Return the run that a planned new lineage starts: what its launch id is looked up for."""
    return new_run(run, plan.params)


def _facts(ground: Ground, material: Material) -> dict[str, str]:
    return {CODE: code_fact(ground), CONFIG: config_fact(material)}


def _differences(old: RunSpec, new: RunSpec) -> list[Difference]:
    def wandb(run: RunSpec) -> str | None:
        return run.wandb.id if run.wandb is not None else None

    def root(run: RunSpec) -> str | None:
        return None if run.output_root is None else str(run.output_root)

    pairs = (
        ("run id", old.name, new.name),
        ("W&B id", wandb(old), wandb(new)),
        ("output root", root(old), root(new)),
    )
    return [Difference(what=what, ran=_line(ran), would_run=_line(now)) for what, ran, now in pairs]


def _line(text: str | None) -> str | None:
    return None if text is None else shown(text)


async def _nothing_yet(ground: Ground, run: RunSpec) -> list[Check]:
    """Check that nothing of the new lineage lives, and say what becomes of the old one's job."""
    if ground.live.unknown is not None:
        return [blocked("C-25", f"which jobs live cannot be told: {ground.live.unknown}")]
    if ground.backend is not None:
        live = await ground.backend.live(run)
        if live.unknown is not None or live.jobs:
            left = live.unknown or ", ".join(job_name(job) for job in live.jobs)
            return [blocked("C-25", f"something of {run.name} may live already: {left}")]
    if ground.live.jobs:
        names = ", ".join(job_name(job) for job in ground.live.jobs)
        return [warned("C-25", f"the old lineage still trains and is left alone: {names}")]
    return [passed("C-25", "nothing of either lineage lives")]


async def _look_again(doing: Doing) -> str:
    run, planned = _run(doing), doing.plan.checkpoint
    await nothing_lives(doing, run)
    report = await doing.ground.parts.look(doing.ground.spec.name)
    code_now, config = report.facets.code.value, await config_of(doing.ground.spec)
    as_planned(doing, code_now, config)
    now = source_of(_as_seen(doing, report), doing.plan.params.get("from", ""))[0]
    if planned is None or now is None or now.path != planned.path:
        raise StepError("not started: the source checkpoint is not there as planned; plan again")
    words, template = filled(run, doing.ground.spec.resubmit, doing, planned)
    used = snapshot_of(
        run, code_now, words, template, config, planned,
        launch_id=doing.launch_id, action=doing.plan.action, at=doing.entry.begun_at,
    )  # fmt: skip
    await doing.note(**{RESUMES_FROM: "", "new run": run.name})
    await note_snapshot(doing, used)
    return f"begins with {planned.path}"


def _status(doing: Doing) -> str:
    run, reason = _run(doing), doing.plan.params.get("reason", "")
    return f"goes on as {run.name} in {run.output_root}, by {doing.entry.operator}: {reason}"


def _as_seen(doing: Doing, report: RunReport) -> Ground:
    return replace(doing.ground, report=report)


async def _go(doing: Doing) -> str:
    run = _run(doing)
    words, _ = filled(run, doing.ground.spec.resubmit, doing, _pick(doing))
    return await submit(doing, run, words, environment(run))


def _pick(doing: Doing) -> Pick | None:
    return doing.plan.checkpoint


async def _verify(doing: Doing) -> str:
    return await verify(doing, _run(doing))


def _run(doing: Doing) -> RunSpec:
    return new_run(doing.ground.spec, doing.plan.params)


def _key(doing: Doing) -> str:
    """Return the new run's key: where the store is asked once the run file names it."""
    return run_key(doing.ground.file.path, _run(doing).name)
