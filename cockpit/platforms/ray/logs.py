"""The log of a job on Ray: its last lines are fetched and joined to a spool."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, LogValue
from cockpit.platforms.ray.head import Head
from cockpit.runtime.http import HttpError
from cockpit.runtime.offload import offload
from cockpit.sources.logs.file import show
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.spool import Spool
from cockpit.sources.logs.stamp import line_time, writes_utc
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

FIRST: Final = 60
"""Lines of a first look; where they are short more are asked for at once."""
MOST: Final = 2000
WANTED: Final = 60_000
"""Bytes that a look should bring at most; a single long line may be more."""
FEWEST: Final = 20


class Grown(NamedTuple):
    """What a look brought: the bytes that were not there before, and whether some are missing."""

    new: bytes
    gap: bool


def grown(former: bytes, now: bytes) -> Grown:
    """Return what was appended between two looks at the end of one log."""
    if not former or not now:
        return Grown(now, gap=False)
    at = _overlap(former, now)
    if at is None:
        return Grown(now, gap=True)
    return Grown(now[len(former) - at :], gap=False)


def _overlap(former: bytes, now: bytes) -> int | None:
    """Return where in ``former`` the beginning of ``now`` stands, the earliest that fits."""
    head = now[: now.find(b"\n") + 1] or now
    at = former.find(head)
    while at >= 0:
        if (at == 0 or former[at - 1 : at] == b"\n") and now.startswith(former[at:]):
            return at
        at = former.find(head, at + 1)
    at = former.rfind(b"\n") + 1
    rest = former[at:]
    return at if rest and now.startswith(rest) else None


def lines_for(data: bytes) -> int:
    """Return how many lines the next look should ask for, by how long those of this one are."""
    lines = data.count(b"\n")
    if not lines:
        return FIRST
    return max(FEWEST, min(MOST, WANTED * lines // len(data)))


COMPARED: Final = 4000
"""Lines that are kept which a fetched end is looked for in."""
STAMPED: Final = 50
"""Lines at the end of a first look in which its last time is looked for."""
_BREAKS: Final = re.compile(rb"[\r\n]+")


class Fetched:
    """One log between two looks."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._cursor: str | None = None
        self._joined = False
        """True while the bytes of the last look are the spool's end."""
        self._data = b""
        self._rest = b""
        self.any = False

    def begins_in_the_middle(self, data: bytes, asked: int) -> bool:
        """Tell whether there are lines before ``data`` of which nothing is known."""
        if self._joined:
            return grown(self._data, data).gap
        return data.count(b"\n") + (not data.endswith(b"\n")) >= asked

    def recall(self) -> bool:
        """Look whether anything is kept of it from before."""
        self.any = self.any or self._spool.cursor() is not None
        return self.any

    def take(self, data: bytes, latest: float, *, over: bool, cut: bool) -> int:
        """Spool what is new in the end of the log and return its lines' number.

        ``cut``: there may be more before ``data``.

        ``latest`` is when it can have been written at the latest (epoch s). A last line without
        line break is spooled with the next ones, or when the log is ``over``.
        """
        if not data and self.recall():
            return 0  # a log does not grow empty: that tells nothing, and what is kept stands
        news, first = self._news(data)
        pending = self._rest + news.new
        end = len(pending) if over else max(pending.rfind(b"\n"), pending.rfind(b"\r")) + 1
        lines = pending[:end].rstrip(b"\r").split(b"\n")
        lines = lines[:-1] if lines[-1] == b"" else lines
        cursor = str(int(self._cursor or "0") + 1) if lines or first else self._cursor
        at = _written_at(data, latest) if first else latest
        hole = cut and (first or news.gap)
        added = self._spool.append(lines, cursor, at, since=self._cursor, hole=hole)
        self._joined, self.any = added, True
        if added:
            self._cursor, self._data, self._rest = cursor, data, pending[end:]
        return len(lines)

    def _news(self, data: bytes) -> tuple[Grown, bool]:
        """Return what is new, and whether nothing at all was kept before."""
        if self._joined:
            return grown(self._data, data), False
        self._rest = b""
        self._cursor = self._spool.cursor()
        if self._cursor is None:
            return Grown(data, gap=False), True
        kept = b"\n".join(self._spool.last(COMPARED)) + b"\n"
        fetched = scrub(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return grown(_states(kept), _states(fetched)), False


def _states(data: bytes) -> bytes:
    return _BREAKS.sub(b"\n", data)


def _written_at(data: bytes, latest: float) -> float:
    """Return when the end of a log was written, as its last line tells; else ``latest``."""
    shown = [show(raw).plain for raw in data.splitlines()[-STAMPED:]]
    newest = [line for line in reversed(shown) if line.strip()]
    said = line_time(newest[0], latest, writes_utc(newest, latest), 0.0) if newest else None
    return latest if said is None else min(said, latest)


AT_ONCE: Final = 16
TOGETHER: Final = 4
PATIENT: Final = 4.0
"""Seconds in which the logs of one look must be begun: ``check`` gives a place 6 s."""
SPOOLING: Final = 3.0
AHEAD: Final = 4
"""A look asks for so many times the lines that the former one has found new."""
Jobs = Callable[[Head, Sequence[Query]], Awaitable[Mapping[str, JobValue]]]
"""Returns the jobs of runs, by name; raises ``HttpError``."""
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
        """Return the log facet of each run of one head, by run name; raises ``HttpError``."""
        found: dict[str, Facet[LogValue]] = {}
        own: dict[str, _Followed] = {}
        jobs = await self._jobs(head, queries)
        for query in queries:
            job = jobs.get(query.name)
            if job is None or job.id is None or job.output is None or job.node is None:
                found[query.name] = _without(head, job, self._clock.now())
            else:
                own[query.name] = self._followed_of(head, query.name, job)
        await self._fetch_due(head, [each for each in own.values() if each.due()])
        spooled = [query for query in queries if query.name in own and own[query.name].spooled]
        places = {query.name: own[query.name].place for query in spooled}
        read = await self._logs.observe(spooled, places)
        now = self._clock.now()
        return found | {name: each.facet(head, read.get(name), now) for name, each in own.items()}

    async def _fetch_due(self, head: Head, due: Sequence[_Followed]) -> None:
        turn = asyncio.Semaphore(TOGETHER)
        until = self._clock.monotonic() + PATIENT
        chosen = sorted(due, key=lambda each: each.looked_at)[:AT_ONCE]
        await asyncio.gather(*(each.fetch_tail(head, turn, until, self._kept) for each in chosen))

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

    async def fetch_tail(
        self, head: Head, turn: asyncio.Semaphore, until: float, kept: Kept
    ) -> None:
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
