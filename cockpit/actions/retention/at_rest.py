"""What several actions ask first: whether a job lives, what lies in the roots, who acts there."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cockpit.actions.checks.jobs import (
    alike_jobs,
    job_name,
    left_over,
    next_by_itself,
    possible_jobs,
    written_after_end,
)
from cockpit.actions.core.action import ActionContext, asked, safe
from cockpit.actions.retention.ways import FolderWays, RootError, StoreWays, Ways
from cockpit.hosts.here import host_of
from cockpit.model import check_rows as rows
from cockpit.model.observed import CheckpointsValue, Phase
from cockpit.model.place import SSH, Place, place_of
from cockpit.model.plan import Check
from cockpit.runtime.buckets import BUCKETS
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.source import Anew, Unmarked
from cockpit.store.launches import Rejections
from cockpit.store.store import StoreError
from cockpit.text.checks import blocked, finding, passed


def nothing_lives(context: ActionContext, verb: str) -> Iterator[Check]:
    """Yield what says that no job of the lineage is alive or will be, or the hard block."""
    live, job = context.live, context.report.facets.job
    if live.unlike and not live.jobs:
        yield finding(rows.MAY_WRITE, possible_jobs(live.unlike))
    yield from alike_jobs(context)
    if not live.jobs:
        yield from written_after_end(context)
    if live.jobs:
        names = ", ".join(job_name(each) for each in live.jobs)
        yield blocked(rows.AT_REST, f"still alive: {names}; stop it before a {verb}")
    elif live.unknown is not None:
        yield blocked(rows.AT_REST, f"cannot tell whether a job is alive: {live.unknown}")
    elif job.configured and (not job.known or job.value is None):
        yield blocked(rows.AT_REST, f"job state unknown: {job.why_unknown('not seen yet')}")
    elif job.value is not None and job.value.phase is Phase.UNKNOWN:
        text = f"the job's state is unknown: {job.value.reason or job.value.state}"
        yield blocked(rows.AT_REST, text)
    elif job.value is not None and not job.value.phase.terminal and context.spec.job is not None:
        yield blocked(rows.AT_REST, f"the job is {job.value.phase.value}; stop it before a {verb}")
    else:
        said = "never launched" if job.value is None else job.value.phase.value
        yield passed(rows.AT_REST, f"no job of this lineage is alive ({said}){left_over(live)}")
    yield from next_by_itself(context)


def listing(context: ActionContext) -> CheckpointsValue | Check:
    """Return the checkpoints as just listed, or the hard block that says why they are not known."""
    facet = context.report.facets.checkpoints
    if not facet.configured:
        return finding(rows.LISTED, "no checkpoints in cockpit.toml (checkpoints.path)")
    if not facet.known or facet.value is None:
        why = facet.why_unknown("not listed yet")
        return finding(rows.LISTED, f"the checkpoints are unknown: {why}")
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


class RunRoots:
    """The checkpoint roots of one run, and what acts on each."""

    def __init__(self, context: ActionContext) -> None:
        spec = context.spec.checkpoints
        self.roots: tuple[Place, ...] = spec.path if spec is not None else ()
        self._clock = context.parts.clock
        self._ways: dict[str, Ways] = {}

    def of(self, address: str | Place) -> Ways:
        """Return what acts on a path; raises ``RootError`` for a scheme that nothing acts on."""
        place = place_of(address) if isinstance(address, str) else address
        if place.endpoint not in self._ways:
            self._ways[place.endpoint] = self._made(place)
        return self._ways[place.endpoint]

    @property
    def unknown(self) -> Place | None:
        """A root that nothing acts on, if there is one."""
        known = (root.here or root.scheme in (SSH, *BUCKETS) for root in self.roots)
        return next((r for r, ok in zip(self.roots, known, strict=True) if not ok), None)

    def root_of(self, address: str) -> Place | None:
        """Return the root that a path lies in, as the run file names it."""
        place = place_of(address)
        return next((root for root in self.roots if root.contains(place)), None)

    def _made(self, place: Place) -> Ways:
        if place.here or place.scheme == SSH:
            return FolderWays(host_of(place), self.roots)
        if place.scheme in BUCKETS:
            return StoreWays(place.scheme, place.host, self._clock)
        raise RootError(f"{place} is on a system that this version only names")
