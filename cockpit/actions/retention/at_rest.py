"""What several actions ask first: whether anything is alive, and what lies in the roots."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from cockpit.actions.checks.jobs import (
    alike_jobs,
    job_name,
    left_over,
    next_by_itself,
    possible_jobs,
    written_after_end,
)
from cockpit.actions.core.action import asked
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.parameters import safe
from cockpit.model.observed import CheckpointsValue, Phase
from cockpit.model.plan import Check
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.source import Anew, Unmarked
from cockpit.store.launches import Rejections
from cockpit.store.store import StoreError
from cockpit.text.checks import blocked, passed, warned

JOB: Final = "job-state"
CHECKPOINT: Final = "checkpoint"


def nothing_lives(context: ActionContext, verb: str) -> Iterator[Check]:
    """Yield what says that no job of the lineage is alive or will be, or the hard block."""
    live, job = context.live, context.report.facets.job
    if live.unlike and not live.jobs:
        yield warned("C-25", possible_jobs(live.unlike))
    yield from alike_jobs(context)
    if not live.jobs:
        yield from written_after_end(context)
    if live.jobs:
        names = ", ".join(job_name(each) for each in live.jobs)
        yield blocked(JOB, f"still alive: {names}; stop it before a {verb}")
    elif live.unknown is not None:
        yield blocked(JOB, f"cannot tell whether a job is alive: {live.unknown}")
    elif job.configured and (not job.known or job.value is None):
        why = job.error.message if job.error is not None else "not seen yet"
        yield blocked(JOB, f"job state unknown: {why}")
    elif job.value is not None and job.value.phase is Phase.UNKNOWN:
        yield blocked(JOB, f"the job's state is unknown: {job.value.reason or job.value.state}")
    elif job.value is not None and not job.value.phase.terminal and context.spec.job is not None:
        yield blocked(JOB, f"the job is {job.value.phase.value}; stop it before a {verb}")
    else:
        said = "never launched" if job.value is None else job.value.phase.value
        yield passed(JOB, f"no job of this lineage is alive ({said}){left_over(live)}")
    yield from next_by_itself(context)


def listing(context: ActionContext) -> CheckpointsValue | Check:
    """Return the checkpoints as just listed, or the hard block that says why they are not known."""
    facet = context.report.facets.checkpoints
    if not facet.configured:
        return blocked(CHECKPOINT, "no checkpoints in cockpit.toml (checkpoints.path)")
    if not facet.known or facet.value is None:
        why = facet.error.message if facet.error is not None else "not listed yet"
        return blocked(CHECKPOINT, f"the checkpoints are unknown: {why}")
    return facet.value


async def relisted(
    context: ActionContext, gone: Collection[str] = (), unmarked: Unmarked | None = None
) -> CheckpointsValue | str:
    """Return the listing of a dead run anew, or why it cannot be.

    It is told as if ``gone`` were not there and the markers of ``unmarked`` had been moved aside.
    """
    store = context.parts.store
    try:
        known = () if store is None else await asked(Rejections(store).of, context.key)
        look = Anew(context.spec, context.parts.clock).look
        return await look(known, gone=frozenset(gone), unmarked=unmarked)
    except (OSError, ValueError, TimeoutError, StoreError, ListingError) as error:
        return safe(error)
