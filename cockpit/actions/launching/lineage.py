"""A-3, new lineage: a new run id, W&B id and output root, from one checkpoint of this run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from cockpit.actions.checks import code, jobs, setup
from cockpit.actions.checks.code import DEADLINE, gather
from cockpit.actions.checks.jobs import job_name
from cockpit.actions.checks.lineages import looked_at, source_of, takes_identity, unused
from cockpit.actions.checks.places import places
from cockpit.actions.checks.setup import for_dri
from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    RefuseError,
    Step,
    StepError,
    step_param,
)
from cockpit.actions.core.new_run import new_run
from cockpit.actions.core.recording import status_step
from cockpit.actions.launching.launch_records import RESUMES_FROM, record_steps, trouble_step
from cockpit.actions.launching.relaunch import (
    filled,
    nothing_lives,
    planned_facts,
    prepare,
    template_of,
    values_for,
)
from cockpit.actions.launching.submitting import CONFIRM, submit, verify
from cockpit.config.check import DERIVED
from cockpit.model import check_rows as rows
from cockpit.model.observed import Pick
from cockpit.model.plan import Basis, Check, Difference, Draft, Plan, Request
from cockpit.model.run import RunSpec
from cockpit.platforms.command import shown as shown_command
from cockpit.runtime.offload import offload
from cockpit.text.checks import blocked, finding, passed, warned
from cockpit.text.scrub import scrub, shown

PARAM: Final = "fork-wandb"
VARIABLE: Final = "WANDB_FORK_FROM"
FACT: Final = "fork_from"
_AGAINST: Final = ("WANDB_RESUME", "WANDB_RESUME_FROM")
"""Variables beside which the client takes no fork."""
_BREAKS: Final = (
    "a trainer that passes resume to wandb.init ends at its start, one that passes fork_from goes"
    " by its own; which of them it is cannot be told from here"
)


def fork_of(
    run: RunSpec, params: Mapping[str, str], pick: Pick | None
) -> tuple[str | None, list[Check]]:
    """Return ``<old id>?_step=N`` and what is to be said of it; nothing unless it is asked for.

    ``run`` is the old one. Raises ``RefuseError`` for what is no step.
    """
    text = params.get(PARAM, "").strip()
    if text.lower() in ("", "no"):
        return None, []
    guessed = text.lower() == "yes"
    if guessed and pick is None:
        return None, [blocked(rows.FORK, "no checkpoint chosen, so no step to fork at")]
    step = pick.step if guessed and pick is not None else step_param(text, PARAM)
    old = run.wandb.run_id if run.wandb is not None else None
    if old is None:
        text = "no W&B id of the old run is recorded (wandb.id): nothing to fork from"
        return None, [blocked(rows.FORK, text, Basis.RECORDED)]
    if any(char in old for char in "?=&/ "):
        raise RefuseError(f"the old W&B id {shown(old)!r} cannot be named in {VARIABLE}")
    fork = f"{old}?_step={step}"
    taken = "the checkpoint's step taken for W&B's own _step" if guessed else "W&B's own _step"
    said = f"{VARIABLE}={fork} is set ({taken}): the new W&B run begins with the old one's history"
    return fork, [warned(rows.FORK, f"{said}; {_BREAKS}", Basis.INFERRED, fork)]


def fork_allowed(words: Sequence[str], fork: str | None) -> list[Check]:
    """Check that nothing that can be seen from here keeps the client from forking."""
    if fork is None:
        return []
    refuses = "the client refuses a fork beside it"
    named = [name for name in _AGAINST if any(word.startswith(f"{name}=") for word in words)]
    if named:
        return [blocked(rows.FORK_REFUSED, f"the command sets {', '.join(named)}: {refuses}")]
    here = [name for name in _AGAINST if os.environ.get(name)]
    if here:
        text = f"{', '.join(here)} is set here, and a job may inherit it: {refuses}; unset it"
        return [warned(rows.FORK_REFUSED, text)]
    return []


def fork_difference(fork: str | None) -> list[Difference]:
    """Return the row that shows it beside old and new identity."""
    return [] if fork is None else [Difference(what="W&B fork", ran=None, would_run=shown(fork))]


def fork_environment(facts: Mapping[str, str]) -> dict[str, str]:
    """Return what the client takes the planned fork from."""
    return {VARIABLE: facts[FACT]} if facts.get(FACT) else {}


def environment(run: RunSpec) -> dict[str, str]:
    """Return what a tracker's client takes the new identity from."""
    wandb_id = run.wandb.id if run.wandb is not None else None
    return {} if wandb_id is None else {"WANDB_RUN_ID": wandb_id, "WANDB_NAME": run.name}


def run_block(run: RunSpec, source: str) -> str:
    """Return the ``[[run]]`` block to add to the run file, as TOML: what differs, and the rest.

    Values that held a secret are masked: a person puts them back.
    """
    plain = run.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    for derived in DERIVED:
        plain.pop(derived, None)
    if plain.get("launch") == plain.get("resubmit"):
        plain.pop("launch", None)
    plain.setdefault("checkpoints", {})["initialize_from"] = source
    tables = {key: value for key, value in plain.items() if isinstance(value, dict)}
    flat = {key: value for key, value in plain.items() if key not in tables}
    lines = ["[[run]]", *_lines(flat)]
    for key, value in tables.items():
        inner = _lines(value)
        lines += ["", f"[run.{key}]", *inner] if inner else []
    return scrub("\n".join(lines)) + "\n"


def _lines(fields: Mapping[str, object]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in fields.items() if value not in ({}, [])]


def _toml(value: object) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_toml(each)}" for key, each in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


WORD: Final = "new lineage"


class NewLineage(Action):
    """Launches the same recorded command under another identity."""

    verb = "lineage"
    exclusive = True
    launches = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return old and new side by side; raises ``RefuseError`` for what is no identity."""
        run = new_run(context.spec, request.params)
        if not request.params.get("reason", "").strip():
            raise RefuseError("--reason is missing: why is the old lineage left?")
        material = await gather(context)
        pick, source = source_of(context, request.params.get("from", ""))
        template = template_of(context.spec.resubmit)
        values = values_for(run, context.launch_id, pick)
        command, words = setup.ready(context.platform, run, context.spec.resubmit, values)
        fork, forking = fork_of(context.spec, request.params, pick)
        free = await offload(lambda: list(unused(context, run)), deadline=DEADLINE)
        free = await looked_at(free, run, context.parts.clock)
        checks = [
            *setup.has_dri(context),
            *setup.dri_knows(context),
            *jobs.platform_acts(context),
            *await _nothing_yet(context, run),
            *free,
            source,
            *takes_identity(run, template, context.spec),
            *code.lineage(context, material.changes, material.prior, first=True),
            *command,
            *await places(context, run, words, pick),
            *forking,
            *fork_allowed(words, fork),
            finding(rows.REASON, shown(request.params["reason"])),
        ]
        return Draft(
            words=f"lineage {request.run} {run.name}",
            checks=for_dri(checks, code.of_the_dri(context, material.changes), context.spec.dri),
            command=shown_command(words) or None,
            spares=tuple(job_name(job) for job in (*context.live.jobs, *context.live.beside)),
            checkpoint=pick,
            differences=(*_differences(context.spec, run), *fork_difference(fork)),
            page=run_block(run, pick.path if pick is not None else "?"),
            facts={
                **planned_facts(context.report.facets.code.value, material.read.config),
                **({} if fork is None else {FACT: fork}),
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: look again, submit, verify, then the records in both places."""
        return (
            Step("checkpoint", _look_again),
            Step("submit", _go),
            Step("verify", lambda execution: verify(execution, _run(execution))),
            *record_steps(plan.run, WORD, _run, instance=False),
            status_step(_status, f"{plan.run}: log {WORD}"),
            CONFIRM,
            trouble_step(plan.run, WORD),
        )


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
    return [
        Difference(what=what, ran=ran and shown(ran), would_run=now and shown(now))
        for what, ran, now in pairs
    ]


async def _nothing_yet(context: ActionContext, run: RunSpec) -> list[Check]:
    """Check that nothing of the new lineage lives, and say what becomes of the old one's job."""
    if context.live.unknown is not None:
        text = f"cannot tell which jobs are alive: {context.live.unknown}"
        return [blocked(rows.NEW_LINEAGE_JOBS, text)]
    platform = context.acting_platform
    if platform is not None:
        live = (await platform.live([run]))[run.name]
        if live.unknown is not None or live.jobs:
            left = live.unknown or ", ".join(job_name(job) for job in live.jobs)
            text = f"something of {run.name} may be alive already: {left}"
            return [blocked(rows.NEW_LINEAGE_JOBS, text)]
        if live.unlike:  # the old lineage's job runs the same script
            return [warned(rows.NEW_LINEAGE_JOBS, jobs.possible_jobs(live.unlike))]
    if context.live.jobs:
        names = ", ".join(job_name(job) for job in context.live.jobs)
        text = f"the old lineage is still training and is left alone: {names}"
        return [warned(rows.NEW_LINEAGE_JOBS, text)]
    return [passed(rows.NEW_LINEAGE_JOBS, "no job of either lineage is alive")]


async def _look_again(execution: Execution) -> str:
    run, planned = _run(execution), execution.plan.checkpoint
    await nothing_lives(execution, run)
    report = await execution.context.parts.look(execution.context.spec.name)
    now = source_of(
        replace(execution.context, report=report), execution.plan.params.get("from", "")
    )[0]
    if planned is None or now is None or now.path != planned.path:
        raise StepError("not started: the source checkpoint is not there as planned; plan again")
    noted = {RESUMES_FROM: "", "new run": run.name}
    await prepare(execution, run, execution.context.spec.resubmit, report, planned, noted)
    return f"begins with {planned.path}"


def _status(execution: Execution) -> str:
    run, reason = _run(execution), execution.plan.params.get("reason", "")
    return f"goes on as {run.name} in {run.output_root}, by {execution.entry.operator}: {reason}"


async def _go(execution: Execution) -> str:
    run = _run(execution)
    words, _ = filled(run, execution.context.spec.resubmit, execution, execution.plan.checkpoint)
    env = {**environment(run), **fork_environment(execution.plan.facts)}
    return await submit(execution, run, words, env)


def _run(execution: Execution) -> RunSpec:
    return new_run(execution.context.spec, execution.plan.params)
