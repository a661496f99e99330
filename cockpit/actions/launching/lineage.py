"""A-3, new lineage: a new run id, W&B id and output root, from one checkpoint of this run.

The cockpit never rewrites the run file: it launches with the new identity filled in, records
old and new in logbook and issue, and shows the ``[[run]]`` block that a person adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cockpit.actions.checks import code, commands, jobs, people
from cockpit.actions.checks.jobs import job_name
from cockpit.actions.checks.material import DEADLINE, gather
from cockpit.actions.checks.new_lineage import looked_at, source_of, takes_identity, unused
from cockpit.actions.checks.people import for_dri
from cockpit.actions.checks.places import places
from cockpit.actions.core.action import Action, Execution, RefuseError, Step, StepError
from cockpit.actions.core.context import ActionContext
from cockpit.actions.launching.forking import (
    FACT,
    fork_allowed,
    fork_difference,
    fork_environment,
    fork_of,
)
from cockpit.actions.launching.launch_records import RESUMES_FROM, record_steps, trouble_step
from cockpit.actions.launching.new_run import environment, new_run, run_block
from cockpit.actions.launching.relaunch import template_of
from cockpit.actions.launching.relaunch_steps import (
    filled,
    nothing_lives,
    planned_facts,
    prepare,
    values_for,
)
from cockpit.actions.launching.run_log_steps import status_step
from cockpit.actions.launching.submitting import CONFIRM, submit, verify
from cockpit.model.plan import Basis, Check, Difference, Draft, Plan, Request
from cockpit.model.run import RunSpec
from cockpit.platforms.command import shown as shown_command
from cockpit.runtime.offload import offload
from cockpit.text.checks import blocked, passed, warned
from cockpit.text.scrub import shown

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
        command, words = commands.ready(context.platform, run, context.spec.resubmit, values)
        fork, forking = fork_of(context.spec, request.params, pick)
        free = await offload(lambda: list(unused(context, run)), deadline=DEADLINE)
        free = await looked_at(free, run, context.parts.clock)
        checks = [
            *people.has_dri(context),
            *people.dri_knows(context),
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
            passed("reason", shown(request.params["reason"]), Basis.RECORDED),
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


def subject(run: RunSpec, plan: Plan) -> RunSpec:
    """Return the run that a planned new lineage starts: what its launch id is looked up for."""
    return new_run(run, plan.params)


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
        return [blocked("C-25", f"cannot tell which jobs are alive: {context.live.unknown}")]
    platform = context.acting_platform
    if platform is not None:
        live = (await platform.live([run]))[run.name]
        if live.unknown is not None or live.jobs:
            left = live.unknown or ", ".join(job_name(job) for job in live.jobs)
            return [blocked("C-25", f"something of {run.name} may be alive already: {left}")]
        if live.unlike:  # the old lineage's job runs the same script
            return [warned("C-25", jobs.possible_jobs(live.unlike))]
    if context.live.jobs:
        names = ", ".join(job_name(job) for job in context.live.jobs)
        return [warned("C-25", f"the old lineage is still training and is left alone: {names}")]
    return [passed("C-25", "no job of either lineage is alive")]


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
