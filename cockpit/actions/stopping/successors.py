"""What starts by itself once a job is over, named by a stop and cancelled with it when wanted.

A stop is exact: it ends what was named. So what waits behind the job (SPEC J) is cancelled only
when that is asked for, the last first and all before the job, so that no end frees a next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from cockpit.actions.checks.jobs import QUEUED, job_name, queued_jobs
from cockpit.actions.core.action import Execution, SkipStep, Step, StepError, StepUnknownError
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.orders import STOPS, ids_in, order
from cockpit.actions.core.parameters import plural, safe
from cockpit.model.jobs import LiveJob
from cockpit.model.plan import Check
from cockpit.text.checks import blocked, passed, warned

SUCCESSORS: Final = "successors"
"""The option of a stop, and the fact that holds the ids of what is cancelled."""
OPTION: Final = f"--{SUCCESSORS} yes"


def to_cancel(context: ActionContext, *, wanted: bool) -> tuple[LiveJob, ...]:
    """Return what is cancelled with the job: what can be, where that is asked for.

    Waiting tasks of the very array that is stopped always: its number means all of them.
    """
    return tuple(
        job
        for job in queued_jobs(context)
        if (wanted or goes_with_it(context, job)) and why_not(job) is None
    )


def left_alone(context: ActionContext, *, wanted: bool) -> tuple[LiveJob, ...]:
    """Return what starts by itself after the stop."""
    ends = {job.id for job in to_cancel(context, wanted=wanted)}
    return tuple(job for job in queued_jobs(context) if job.id not in ends)


def only_these(facts: Mapping[str, str]) -> bool:
    """Tell whether a stop ends nothing that runs: only what would start by itself."""
    return bool(facts.get(SUCCESSORS)) and facts[SUCCESSORS] == facts.get(STOPS)


def goes_with_it(context: ActionContext, job: LiveJob) -> bool:
    """Tell whether a queued job is a part of one that lives, and ends when that is stopped."""
    return job.part_of is not None and job.part_of in {each.id for each in context.live.jobs}


def may_cancel(context: ActionContext) -> bool:
    """Tell whether there is something to cancel, and all of it can be."""
    queued = queued_jobs(context)
    return bool(queued) and all(why_not(job) is None for job in queued)


def why_not(job: LiveJob) -> str | None:
    """Return why a queued job cannot be cancelled from here; ``None``: it can."""
    return job.beyond if job.beyond or job.handle else "end it yourself"


def checks(context: ActionContext, *, wanted: bool) -> Iterator[Check]:
    """Yield what is said of each that starts by itself after the job."""
    facet = context.report.facets.job
    if wanted and facet.error is not None:
        yield blocked(QUEUED, f"cannot tell what starts by itself after it: {facet.error.message}")
        return
    queued = queued_jobs(context)
    if wanted and not queued:
        yield passed(QUEUED, "nothing starts by itself after it")
    for job in queued:
        why, what = why_not(job), f"{job_name(job)} ({job.why})"
        if wanted and why is not None:
            yield blocked(QUEUED, f"{what} cannot be cancelled from here: {why}")
        elif wanted:
            yield passed(QUEUED, f"{what} is cancelled first").model_copy(update={"value": job.id})
        elif why is None and goes_with_it(context, job):
            text = f"{what} is cancelled too: a stop of {job.part_of} ends all of its tasks"
            yield warned(QUEUED, text, value=job.id)
        else:
            ends = why or f"{OPTION} cancels it too"
            text = f"{what} starts by itself after it, and is not stopped by this; {ends}"
            if job.needs_success:
                text = f"{what} waits for its success: it never starts once this is stopped; {ends}"
            yield warned(QUEUED, text, value=job.id)


def facts(context: ActionContext, *, wanted: bool) -> dict[str, str]:
    """Return, for steps and records, what is cancelled and what starts by itself afterwards."""
    cancelled = to_cancel(context, wanted=wanted)
    told = {SUCCESSORS: "\n".join(job.id for job in cancelled)} if cancelled else {}
    names = _starting(left_alone(context, wanted=wanted))
    return told | ({QUEUED: names} if names else {})


def _starting(jobs: Iterable[LiveJob]) -> str:
    """Return the names of those that start once the job is stopped."""
    return safe(", ".join(job_name(job) for job in jobs if not job.needs_success))


async def cancel(execution: Execution) -> str:
    """Cancel what waits behind the job, the last first; nothing is stopped if one is left."""
    found, came = await _waiting(execution)
    if came:
        await execution.note(**{QUEUED: _starting(came)})
    if not found:
        raise SkipStep("none of them is waiting any more")
    await order(execution, found)
    run, platform = execution.context.spec, execution.context.acting_platform
    assert platform is not None
    for job in reversed(found):
        await platform.stop(run, [job])
    left, _ = await _waiting(execution)
    if left:
        names = ", ".join(map(job_name, left))
        raise StepError(f"still there after it was cancelled: {names}; the job was not stopped")
    names = ", ".join(map(job_name, found))
    return f"{plural(len(found), 'job')} cancelled that would have started by itself: {names}"


async def cancelled(execution: Execution) -> str | None:
    """Return that none of what was to be cancelled waits any more, if that is so."""
    found, _ = await _waiting(execution)
    return None if found else "nothing that was to be cancelled is waiting"


async def _waiting(execution: Execution) -> tuple[tuple[LiveJob, ...], tuple[LiveJob, ...]]:
    """Return what of the plan waits now, and what has come to wait since."""
    facet = (await execution.context.parts.look(execution.context.spec.name)).facets.job
    if facet.error is not None or facet.value is None:
        why = "no job is told of" if facet.error is None else facet.error.message
        raise StepUnknownError(f"cannot tell now what starts by itself: {why}")
    wanted = ids_in(execution.plan.facts, SUCCESSORS)
    ours = tuple(job for job in facet.value.queued if job.id in wanted)
    return ours, tuple(job for job in facet.value.queued if job.id not in wanted)


CANCEL: Final = Step(SUCCESSORS, cancel, seen=cancelled)
"""The step of a stop that comes before the job is told to end, where that is asked for."""
