"""The log of a job on Ray: its driver's output on its node, read by the state API.

There is no bulk form. So that requests do not grow with the runs, a look reads the logs of at
most ``AT_ONCE`` runs, those that were read longest ago; one that has ended is read once more and
then never again. Where the node is gone, what Ray has kept of a failed job's log is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.observed import JobValue, LogValue, Row
from cockpit.model.query import Query
from cockpit.platforms.ray.head import Head
from cockpit.platforms.ray.tail import FIRST, grown, lines_for
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.file import show
from cockpit.sources.logs.source import TAIL, read_rows
from cockpit.sources.logs.stamp import line_time, writes_utc
from cockpit.text.safe import clean

AT_ONCE: Final = 16
TOGETHER: Final = 4
KEPT: Final = 262_144
"""Bytes of the end of a log that are kept to tell what is new."""
PATIENT: Final = 5.0
"""Seconds for all logs of one look: ``check`` gives a place 6 s."""


Kept = Callable[[Head, str], str | None]
"""Returns what a head has kept of a job's log with the state of the job."""


class RayLogs:
    """Reads the logs of jobs; remembers the end of each."""

    def __init__(self, clock: Clock, kept: Kept) -> None:
        self._clock = clock
        self._kept = kept
        self._followed: dict[str, _Followed] = {}

    async def observe(self, head: Head, queries: Sequence[Query]) -> dict[str, Facet[LogValue]]:
        """Return the log facet of each run of one head, by run name."""
        found: dict[str, Facet[LogValue]] = {}
        waiting: list[_Followed] = []
        for query in queries:
            job = query.job
            if job is None or job.id is None or job.output is None or job.node is None:
                found[query.name] = self._without(head, job)
                continue
            followed = self._followed_of(head, query.name, job)
            found[query.name] = followed.facet
            if followed.due(job):
                waiting.append(followed)
        waiting.sort(key=lambda each: each.looked_at)
        turn = asyncio.Semaphore(TOGETHER)
        until = self._clock.monotonic() + PATIENT
        chosen = waiting[:AT_ONCE]
        await asyncio.gather(*(each.look(head, turn, until, self._kept) for each in chosen))
        return found | {each.run: each.delivered() for each in chosen}

    def _followed_of(self, head: Head, run: str, job: JobValue) -> _Followed:
        followed = self._followed.get(run)
        if followed is None or followed.key != (head.base, job.node, job.output):
            followed = self._followed[run] = _Followed(head, run, job, self._clock)
        followed.job = job
        return followed

    def _without(self, head: Head, job: JobValue | None) -> Facet[LogValue]:
        now = self._clock.now()
        if job is None:
            return _unknown(ErrorKind.NOT_FOUND, "of the job nothing is known yet", head, now)
        if job.phase.lives and job.node is None:
            return _unknown(ErrorKind.NOT_FOUND, "the job has not begun: no log yet", head, now)
        text = "Ray keeps no log of this job: it never ran, or was attached from outside"
        return _unknown(ErrorKind.NOT_FOUND, text, head, now)


class _Followed:
    """The log of one job between two looks."""

    def __init__(self, head: Head, run: str, job: JobValue, clock: Clock) -> None:
        self.run = run
        self.key = (head.base, job.node, job.output)
        self.job = job
        self.looked_at = float("-inf")
        self.facet: Facet[LogValue] = _unknown(
            ErrorKind.TIMEOUT,
            "not read yet: the logs of a head are read in turn",
            head,
            clock.now(),
        )
        self._clock = clock
        self._data = b""
        self._lines = FIRST
        self._size = 0
        self._written_at = 0.0
        self._rows: tuple[Row, ...] = ()
        self._finished = False

    def due(self, job: JobValue) -> bool:
        """Tell whether there may be anything new."""
        return not (self._finished and job.phase.terminal)

    async def look(self, head: Head, turn: asyncio.Semaphore, until: float, kept: Kept) -> None:
        """Read the end of the log; never raises."""
        async with turn:
            over = self.job.phase.terminal
            if self._clock.monotonic() >= until:
                return
            self.looked_at = self._clock.monotonic()
            assert self.job.node is not None and self.job.output is not None
            try:
                data = await head.tail(self.job.node, self.job.output, self._lines)
            except HttpError as error:
                self._failed(head, error, kept(head, self.job.id or ""))
                return
            self._take(head, data)
            self._finished = over

    def delivered(self) -> Facet[LogValue]:
        """Return the newest facet; its rows are given out once."""
        facet, value = self.facet, self.facet.value
        if value is not None and value.rows:
            self.facet = facet.model_copy(update={"value": value.model_copy(update={"rows": ()})})
        return facet

    def _take(self, head: Head, data: bytes) -> None:
        now = self._clock.now()
        first = not self._size
        news = grown(self._data, data)
        before = self._written_at
        if news.new or first:
            self._size += len(news.new)
            self._written_at = self._wrote(data, now, first)
            self._data = data[-KEPT:]
        self._lines = lines_for(data)
        self.facet = known(self._value(head, news.new, before, first), head.name, now)

    def _wrote(self, data: bytes, now: float, first: bool) -> float:
        """Return when the log was last written: what was there at a first look may be old."""
        end = self.job.ended_at
        latest = now if end is None else min(now, end)
        if not first:
            return latest
        shown = [show(raw).plain for raw in data.splitlines()[-TAIL:]]
        newest = [line for line in reversed(shown) if line.strip()]
        said = line_time(newest[0], latest, writes_utc(newest, latest), 0.0) if newest else None
        return latest if said is None else min(said, latest)

    def _value(self, head: Head, new: bytes, before: float, first: bool) -> LogValue:
        tail = self._data.splitlines(keepends=True)[-TAIL:]
        at, starts = self._size, []
        for raw in reversed(tail):
            at -= len(raw)
            starts.append(at)
        lines = tuple(show(raw) for raw in tail)
        newest_first = [line.plain for line in reversed(lines)]
        mtime = self._written_at
        utc = writes_utc(newest_first, mtime)
        last = next((line for line in newest_first if line.strip()), None)
        said = None if last is None else line_time(last, mtime, utc, 0.0)
        states = [state for state in new.replace(b"\r", b"\n").split(b"\n") if state]
        return LogValue(
            path=f"{head.base}/{clean(self.job.output, 200)}",
            size=self._size,
            mtime=mtime,
            last_line_at=mtime if said is None else said,
            lines=lines,
            offsets=tuple(max(0, start) for start in reversed(starts)),
            rows=tuple(read_rows(states, mtime, None if first else before, utc)),
        )

    def _failed(self, head: Head, error: HttpError, kept: str | None) -> None:
        """Keep the reason; of a file or node that is gone Ray may have kept the last lines."""
        now = self._clock.now()
        if kept and not self._size and error.status is not None and error.status >= 500:
            self._take(head, kept.encode())
            kept_by = f"{head.name} (kept with the job: its file cannot be had)"
            self.facet = self.facet.model_copy(update={"source": kept_by})
            self._finished = True
            return
        kind = ErrorKind.NOT_FOUND if "not found" in str(error) else error.kind
        failed: Facet[Any] = _unknown(kind, clean(str(error), 400), head, now)
        self.facet = failed.model_copy(update={"retry_after": error.retry_in})


def _unknown(kind: ErrorKind, text: str, head: Head, now: float) -> Facet[LogValue]:
    return unknown(kind, text, head.name, now)
