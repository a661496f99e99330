"""The log of a job on Ray: its driver's output on its node, read by the state API.

It gives the last lines of a file, no offsets: what is new in them is spooled here, so that a log
can be paged, searched and diagnosed like any file. There is no bulk form. So that requests do not
grow with the runs, a look reads the logs of at most ``AT_ONCE`` runs, those that were read longest
ago; one that has ended is read once more and then never again. Where the file is gone, what was
spooled of it is shown, or what Ray has kept with a failed job's state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, LogValue
from cockpit.model.run import RunSpec
from cockpit.platforms.ray.fetched import Fetched
from cockpit.platforms.ray.head import Head
from cockpit.platforms.ray.jobs import failed
from cockpit.platforms.ray.tail import FEWEST, FIRST, lines_for
from cockpit.runtime.http import HttpError
from cockpit.runtime.offload import offload
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.spool import Spool
from cockpit.text.safe import clean

AT_ONCE: Final = 16
TOGETHER: Final = 4
PATIENT: Final = 4.0
"""Seconds in which the logs of one look must be begun: ``check`` gives a place 6 s."""
SPOOLING: Final = 3.0
AHEAD: Final = 4
"""A look asks for so many times the lines that the former one has found new."""
Jobs = Callable[[Head, Sequence[RunSpec]], Awaitable[Mapping[str, JobValue]]]
"""Returns the jobs of runs, by name, from the head's list; raises ``HttpError``."""
Kept = Callable[[Head, str], str | None]
"""Returns what a head has kept of a job's log with the state of the job."""


class RayLogs:
    """Reads the logs of jobs; ``logs`` follows what was spooled of them."""

    def __init__(self, clock: Clock, logs: Logs, jobs: Jobs, kept: Kept) -> None:
        self._clock = clock
        self._logs = logs
        self._jobs = jobs
        self._kept = kept
        self._followed: dict[str, _Followed] = {}

    async def observe(self, head: Head, queries: Sequence[Query]) -> dict[str, Facet[LogValue]]:
        """Return the log facet of each run of one head, by run name."""
        found: dict[str, Facet[LogValue]] = {}
        own: dict[str, _Followed] = {}
        try:
            jobs = await self._jobs_of(head, queries)
        except HttpError as error:
            facet = failed(error, head.name, self._clock.now())
            return {query.name: facet for query in queries}
        for query in queries:
            job = jobs.get(query.name)
            if job is None or job.id is None or job.output is None or job.node is None:
                found[query.name] = _without(head, job, self._clock.now())
            else:
                own[query.name] = self._followed_of(head, query.name, job)
        await self._look(head, [each for each in own.values() if each.due()])
        spooled = [query for query in queries if query.name in own and own[query.name].spooled]
        places = {query.name: own[query.name].place for query in spooled}
        read = await self._logs.observe(spooled, places)
        now = self._clock.now()
        return found | {name: each.facet(head, read.get(name), now) for name, each in own.items()}

    async def _jobs_of(self, head: Head, queries: Sequence[Query]) -> dict[str, JobValue]:
        """Return each run's job as the watch knows it; at its first look, as the head lists it."""
        known = {query.name: query.job for query in queries if query.job is not None}
        rest = [query.run for query in queries if query.job is None]
        return {**known, **(await self._jobs(head, rest) if rest else {})}

    async def _look(self, head: Head, due: Sequence[_Followed]) -> None:
        turn = asyncio.Semaphore(TOGETHER)
        until = self._clock.monotonic() + PATIENT
        chosen = sorted(due, key=lambda each: each.looked_at)[:AT_ONCE]
        await asyncio.gather(*(each.look(head, turn, until, self._kept) for each in chosen))

    def _followed_of(self, head: Head, run: str, job: JobValue) -> _Followed:
        followed = self._followed.get(run)
        if followed is None or followed.key != (head.base, job.node, job.id):
            followed = self._followed[run] = _Followed(head, run, job, self._clock)
        followed.job = job
        return followed


class _Followed:
    """The log of one job between two looks."""

    def __init__(self, head: Head, run: str, job: JobValue, clock: Clock) -> None:
        self.key = (head.base, job.node, job.id)
        self.job = job
        self.looked_at = float("-inf")
        self._clock = clock
        spool = Spool(run, f"{job.id} {job.node} {head.base}")
        self.place = spool.place
        self._fetched = Fetched(spool)
        self._lines = FIRST
        self._had_at: float | None = None
        self._error: HttpError | None = None
        self._finished = False

    @property
    def spooled(self) -> bool:
        """True once anything of it is kept here."""
        return self._fetched.any

    def due(self) -> bool:
        """Tell whether there may be anything new."""
        return not (self._finished and self.job.phase.terminal)

    async def look(self, head: Head, turn: asyncio.Semaphore, until: float, kept: Kept) -> None:
        """Read the end of the log into the spool; never raises."""
        async with turn:
            now = self._clock.monotonic()
            if now >= until:
                return
            self.looked_at = now
            over = self.job.phase.terminal
            try:
                await self._fetch(head, over)
                self._finished, self._error = over, None
            except HttpError as error:
                self._error = error
                await self._from_the_state(head, error, kept)

    async def _fetch(self, head: Head, over: bool) -> None:
        data = await self._tail(head)
        wanted = lines_for(data)
        more = self._fetched.begins_in_the_middle(data, self._lines)
        if more and wanted > 2 * self._lines:
            self._lines = wanted
            data = await self._tail(head)
        cut = self._fetched.begins_in_the_middle(data, self._lines)
        new = await self._spool(data, over, cut=cut)
        self._lines = min(lines_for(data), max(FEWEST, AHEAD * new))

    async def _tail(self, head: Head) -> bytes:
        assert self.job.node is not None and self.job.output is not None
        return await head.tail(self.job.node, self.job.output, self._lines)

    async def _from_the_state(self, head: Head, error: HttpError, kept: Kept) -> None:
        """Take what Ray has kept of the log of a failed job whose file is gone."""
        log = kept(head, self.job.id or "") if (error.status or 0) >= 500 else None
        there = self.spooled or await self._recalled()
        if log is not None and not there:
            try:
                await self._spool(log.encode("utf-8", "replace"), over=True, cut=True)
            except HttpError as full:
                self._error = full

    async def _recalled(self) -> bool:
        try:
            return await offload(self._fetched.recall, deadline=SPOOLING)
        except (OSError, TimeoutError):
            return False

    async def _spool(self, data: bytes, over: bool, *, cut: bool) -> int:
        """Add what is new; raises ``HttpError`` where nothing can be kept here."""
        now, ended = self._clock.now(), self.job.ended_at
        latest = now if ended is None else min(now, ended)
        work = lambda: self._fetched.take(data, latest, over=over, cut=cut)  # noqa: E731
        try:
            new = await offload(work, deadline=SPOOLING)
        except (OSError, TimeoutError) as error:
            why = clean(getattr(error, "strerror", None) or error, 120)
            text = f"the log cannot be kept in {clean(str(self.place), 200)}: {why}"
            raise HttpError(ErrorKind.PERMISSION, text) from None
        self._had_at = now
        return new

    def facet(self, head: Head, read: Facet[LogValue] | None, now: float) -> Facet[LogValue]:
        """Return the facet: what was spooled as of when it was fetched, or why there is none."""
        error = self._error
        source = f"{head.name}, {clean(self.job.output, 200)}"
        over = self.job.phase.terminal
        if read is not None and read.value is not None and (error is None or over):
            if error is not None:
                source = f"{source} as it was: {clean(str(error), 200)}"
            return read.model_copy(update={"source": source, "observed_at": self._had_at or now})
        if error is None:
            text = "not read yet: the logs of one head are read in turn"
            return unknown(ErrorKind.TIMEOUT, text, source, now) if read is None else read
        kind = ErrorKind.NOT_FOUND if "not found" in str(error) else error.kind
        facet: Facet[Any] = unknown(kind, clean(str(error), 400), source, now)
        return facet.model_copy(update={"retry_after": error.retry_in})


def _without(head: Head, job: JobValue | None, now: float) -> Facet[LogValue]:
    text = "Ray keeps no log of this job: it never ran, or was attached from outside"
    if job is None:
        text = "the head does not list the job: nothing tells where its log is"
    elif job.phase.lives and job.node is None:
        text = "the job has not begun: no log yet"
    return unknown(ErrorKind.NOT_FOUND, text, head.name, now)
