"""``stop --only held``: cancels what was accepted for a launch and never released, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.actions.checks.jobs import job_name
from cockpit.actions.core.action import (
    Execution,
    RefuseError,
    SkipStep,
    Step,
    StepError,
    StepUnknownError,
)
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.orders import STOPS, order, ordered, planned, spared, told_words
from cockpit.actions.core.parameters import plural, safe
from cockpit.actions.core.recording import log_step
from cockpit.actions.retention.at_rest import JOB
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.plan import Check, Draft, Plan, Request
from cockpit.model.records import EventEntry
from cockpit.platforms.base import CannotError
from cockpit.text.checks import blocked, passed

ONLY: Final = "only"
HELD: Final = "held"


def asked_for(request: Request) -> bool:
    """Tell whether only what is held is to be cancelled; raises ``RefuseError`` for other words."""
    word = (request.params.get(ONLY) or "").strip().lower()
    if word not in ("", HELD):
        raise RefuseError(f"--{ONLY} is {safe(word)!r}; expected {HELD}")
    return word == HELD


def draft(context: ActionContext, request: Request) -> Draft:
    """Return which held jobs would be cancelled; whatever else lives is spared."""
    live = context.live
    return Draft(
        words=f"stop {request.run} {HELD}",
        checks=(_held(context),),
        stops=tuple(job_name(job) for job in live.held),
        spares=tuple(job_name(job) for job in (*live.jobs, *live.possible, *live.spared)),
        facts={
            STOPS: "\n".join(job.id for job in live.held),
            ONLY: HELD,
            "why": "; ".join(dict.fromkeys(job.why for job in live.held)),
            "reason": safe(request.params.get("reason") or ""),
        },
    )


def _held(context: ActionContext) -> Check:
    live = context.live
    if live.unknown is not None:
        return blocked(JOB, f"cannot tell which jobs are held: {live.unknown}")
    if not live.held:
        return blocked(JOB, "no held job of this run: nothing to cancel")
    how = "; ".join(f"{job_name(job)}: {job.why}" for job in live.held)
    return passed(JOB, f"{plural(len(live.held), 'held job')}: {how}")


def steps(plan: Plan) -> Sequence[Step]:
    """Return: cancel, log."""
    return (
        Step("stop", cancel, seen=gone),
        log_step(_entry, f"{plan.run}: log stop of what was held", after_failure=True),
    )


async def cancel(execution: Execution) -> str:
    """Cancel exactly the held jobs of the plan that still are held."""
    jobs = _planned(execution, (await _live(execution)).held)
    if not jobs:
        raise SkipStep("no job of it is held any more")
    await order(execution, jobs)
    platform = execution.context.acting_platform
    assert platform is not None
    await platform.stop(execution.context.spec, jobs)
    return await _cancelled(execution, await _live(execution, told=True))


async def gone(execution: Execution) -> str | None:
    """Return that nothing of what was to be cancelled is held, if that is so."""
    live = await _live(execution)
    return None if _planned(execution, live.held) else await _cancelled(execution, live)


async def _cancelled(execution: Execution, live: Live) -> str:
    """Note and return what was cancelled: one that was let go meanwhile lives, and was not."""
    freed = {job.id for job in _planned(execution, (*live.jobs, *live.possible))}
    done = [each for each in ordered(execution) if each not in freed]
    await execution.note(**{STOPS: "\n".join(done)})
    if not done:
        return "no job of it is held any more, and nothing was cancelled"
    return f"{plural(len(done), 'held job')} cancelled: {', '.join(done)}"


async def _live(execution: Execution, *, told: bool = False) -> Live:
    platform, spec = execution.context.acting_platform, execution.context.spec
    if platform is None:
        raise CannotError("this kind of job is not supported yet")
    live = (await platform.live([spec]))[spec.name]
    if live.unknown is not None:
        text = f"cannot tell which jobs are held: {live.unknown}"
        raise StepUnknownError(text) if told else StepError(text)
    return live


def _planned(execution: Execution, jobs: Sequence[LiveJob]) -> tuple[LiveJob, ...]:
    wanted = planned(execution)
    return tuple(job for job in jobs if job.id in wanted)


def _entry(execution: Execution) -> EventEntry:
    trouble, by = execution.trouble, execution.entry.operator
    done, left = f"cancelled by {by}, never having run", "not held any more, so not cancelled"
    return EventEntry(
        title="stop: what was held" if trouble is None else "stop of what was held: not finished",
        at=execution.entry.begun_at,
        status=trouble or told_words(execution, done, left),
        evidence=execution.plan.facts.get("why") or "accepted for a launch and never released",
        decision=execution.facts.get("reason") or "a leftover of a launch",
        next=_next(trouble, left=bool(spared(execution))),
    )


def _next(trouble: str | None, *, left: bool) -> str:
    if trouble is not None:
        return "check whether it is still held"
    return "check whether what is no longer held is running" if left else "nothing"
