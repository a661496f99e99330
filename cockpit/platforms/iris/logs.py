"""The log of an Iris job: fetched by cursor into a spool, then read like any other file."""

from __future__ import annotations

import asyncio
import functools
import math
import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue
from cockpit.model.place import Place
from cockpit.model.run import JobSpec
from cockpit.platforms.iris.answers import IrisLogLine, Job, phase_of
from cockpit.platforms.iris.jobs import IrisJobs, endpoint_of_run, id_of
from cockpit.platforms.iris.memory import Memory
from cockpit.platforms.iris.rpc import Controller
from cockpit.platforms.iris.trees import trains, user_of
from cockpit.platforms.table import ask_each, by_place, unanswered
from cockpit.runtime.http import HttpError, TooLongError
from cockpit.runtime.offload import offload
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.spool import Spool
from cockpit.text.progress_lines import read_raw

FULL: Final = 1000
"""Lines from which an answer may have been cut: every server gives so many."""
AT_ONCE: Final = 5000
PAGES: Final = 6
"""Answers in a row that are asked for at one look; who is further behind begins at the end."""
FEWER: Final = 8
"""By what the number of lines is divided that were too long for one answer."""
FIRST: Final = 10_000
"""Lines that are fetched of a job that is first looked at: its newest."""
JOINS: Final = 8
"""Jobs whose former lines are fetched at one look."""
QUIET: Final = 300.0
"""Seconds of silence after which another task of a job may tell its steps."""
SILENT: Final = 4
"""Of so many looks without a new line one asks how far the server has counted."""
AFTER: Final = 4
"""Looks at which lines of a job that is over are still asked for."""
WRITE: Final = 4.0
SAME: Final = 0.0005
"""Seconds by which one time may differ from itself: it comes in whole milliseconds."""


class Wanted(NamedTuple):
    """A run whose log is wanted: its job as the controller last listed it."""

    run: str
    spec: JobSpec
    own: Job
    over: bool


class Tail:
    """The spool of one run's job, and how it stands to the cursor of all."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.joined = False
        """True while every line up to the common cursor is in the spool."""
        self.fetched = False
        """True if its lines were asked for at the last look: what the spool has is the newest."""
        self.twice: Counter[IrisLogLine] = Counter()
        """Lines of the spool that may come once more by the common cursor."""
        self.spool = Spool(wanted.run, f"{wanted.own.id} {wanted.own.submitted_at}")
        self.since: str | None = None
        self.trouble: HttpError | None = None
        """Why its own former lines could not be fetched at the last look."""
        self._tellers: dict[str, tuple[str, float]] = {}
        """The task of each job that tells its steps, and when it last did."""
        self.after = 0
        """Looks since the job was first seen to be over: its last lines come a little later."""

    @property
    def place(self) -> Place:
        """Where its lines lie."""
        return self.spool.place

    def takes(self, job_id: str) -> bool:
        """Tell whether a job's lines are the run's: its own, or those of a child that trains."""
        own = self.wanted.own.id
        if job_id == own:
            return True
        return trains(job_id[len(own) + 1 :], job_id, self.wanted.spec)

    def repeats_step(self, line: IrisLogLine) -> bool:
        """Tell whether a line is a training step that another task of its job tells already.

        Every task of a gang draws the same bar; a step must count once. What is no number, and
        what is no step at all, is kept from whichever task.
        """
        found = next((told for _, told in read_raw([_bytes(line)])), None)
        if found is None or found.step is None or not math.isfinite(found.loss or 0.0):
            return False
        job, task, at = _job_of(line), line.key.rpartition(":")[0], line.at or 0.0
        teller, last = self._tellers.get(job, (task, at))
        if task != teller and at - last < QUIET:
            return True
        self._tellers[job] = (task, at)
        return False

    def once(self, lines: Iterable[IrisLogLine]) -> list[IrisLogLine]:
        """Return the lines that did not come already when the tail was joined."""
        if not self.twice:
            return list(lines)
        fresh = []
        for line in lines:
            if self.twice[line] > 0:
                self.twice[line] -= 1
            else:
                fresh.append(line)
        return fresh


class Stream:
    """The logs of one controller. ``offset`` is its clock minus ours (s)."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._tails: dict[str, Tail] = {}
        self._cursors: dict[str, int] = {}
        self._silent: Counter[str] = Counter()
        """Looks of each user at which no line came."""
        self.offset = 0.0
        self._most = FIRST

    async def fetch(self, wanted: Sequence[Wanted]) -> Mapping[str, Tail]:
        """Fetch what is new, and return the tail of each run; raises ``HttpError``, ``OSError``."""
        self._tails = {each.run: self._tail(each) for each in wanted}
        users: dict[str, list[Tail]] = {}
        for tail in self._tails.values():
            users.setdefault(user_of(tail.wanted.own.id), []).append(tail)
        for user, tails in users.items():
            await self._follow(user, tails)
        late = [tail for tail in self._tails.values() if not tail.joined]
        for tail in self._tails.values():
            tail.fetched = tail.joined
        late.sort(key=lambda tail: tail.wanted.over)
        await asyncio.gather(*(self._joined(tail) for tail in late[:JOINS]))
        return self._tails

    async def _joined(self, tail: Tail) -> None:
        """Have a tail joined; what is wrong with its lines alone is no fault of the controller."""
        tail.trouble = None
        try:
            await self._join(tail)
            tail.fetched = True
        except HttpError as error:
            if error.kind is not ErrorKind.BAD_ANSWER or error.status is not None:
                raise
            tail.trouble = error

    async def _fetch_lines(
        self, source: str, cursor: int | None, lines: int, since: float | None = None
    ) -> tuple[list[IrisLogLine], int, int]:
        """Return lines as the controller does, and how many were asked for in the end.

        Where they are too long for one answer fewer are asked for, and for a while after.
        """
        while True:
            most = min(lines, self._most)
            try:
                found, at = await self._controller.lines(source, cursor, since=since, lines=most)
            except TooLongError:
                if most == 1:
                    raise
                self._most = max(1, most // FEWER)
                continue
            self._most = min(FIRST, self._most * 2)
            return found, at, most

    def _tail(self, wanted: Wanted) -> Tail:
        known = self._tails.get(wanted.run)
        if known is not None and known.wanted.own.key == wanted.own.key:
            known.wanted = wanted
            return known
        return Tail(wanted)

    async def _follow(self, user: str, tails: Sequence[Tail]) -> None:
        """Lay what came since the last look into the spools of those that are joined."""
        for tail in tails:
            tail.after = tail.after + 1 if tail.wanted.over and tail.joined else 0
        if all(tail.after > AFTER for tail in tails):
            return  # nothing is written any more
        sources = [f"{tail.wanted.own.id}/" for tail in tails]
        source = posixpath.commonprefix(sources)
        cursor = self._cursors.get(user)
        if cursor is None:
            with suppress(TooLongError):
                _, self._cursors[user], _ = await self._fetch_lines(source, None, 1)
            return
        for _ in range(PAGES):
            try:
                lines, found, most = await self._fetch_lines(source, cursor, AT_ONCE)
            except TooLongError:
                break  # one line alone
            cursor = self._cursors[user] = max(cursor, found)
            await self._deal(tails, lines, cursor)
            if len(lines) < min(most, FULL):
                for tail in tails:
                    tail.twice.clear()
                if lines or not await self._lost(user, tails, cursor):
                    return
                break
        self._cursors.pop(user, None)  # too far behind: each begins at its own end
        for tail in tails:
            tail.joined = False

    async def _lost(self, user: str, tails: Sequence[Tail], cursor: int) -> bool:
        """Tell whether the server counts from the start again; asked while no line comes."""
        if any(not tail.joined and tail.trouble is None for tail in tails):
            return False  # enough is asked at this look
        self._silent[user] += 1
        return self._silent[user] % SILENT == 0 and await self._counted(user) < cursor

    async def _counted(self, user: str) -> float:
        """Return the number of the newest line of all jobs of a user."""
        try:
            return (await self._fetch_lines(f"/{user}/", None, 1))[1]
        except TooLongError:  # there is one
            return math.inf

    async def _deal(self, tails: Sequence[Tail], lines: Sequence[IrisLogLine], cursor: int) -> None:
        """Give each tail its lines of an answer that ends at ``cursor``."""
        owners: dict[str, list[Tail]] = {}
        for tail in tails:
            if tail.joined:
                owners.setdefault(tail.wanted.own.id, []).append(tail)
        shares: dict[str, list[IrisLogLine]] = {}
        for line in lines:
            for tail in _owners(line, owners):
                shares.setdefault(tail.wanted.run, []).append(line)
        work = [(tail, tail.once(shares.get(tail.wanted.run, ()))) for tail in tails if tail.joined]
        work = [(tail, fresh) for tail, fresh in work if fresh]
        if work:

            def lay_all() -> None:
                for tail, fresh in work:
                    tail.joined = self._lay(tail, fresh, str(cursor))

            await offload(lay_all, deadline=WRITE)

    def _lay(
        self, tail: Tail, lines: Sequence[IrisLogLine], cursor: str, *, hole: bool = False
    ) -> bool:
        """Append lines; False if another process has come further. Blocking."""
        data = [_bytes(line) for line in lines if not tail.repeats_step(line)]
        at = max((line.at for line in lines if line.at is not None), default=0.0) - self.offset
        if not tail.spool.append(data, cursor, at, since=tail.since, hole=hole):
            return False
        tail.since = cursor
        return True

    async def _join(self, tail: Tail) -> None:
        """Fetch what came before the common cursor: all since the spool's own, or the end."""
        tail.since = await offload(tail.spool.cursor, deadline=WRITE)
        user = user_of(tail.wanted.own.id)
        reached = self._cursors.get(user, 0)
        lines, cursor, hole = await self._former(tail)
        mine = [line for line in lines if tail.takes(_job_of(line))]
        at = str(max(cursor, reached))
        lay = functools.partial(self._lay, tail, mine, at, hole=hole)
        tail.joined = await offload(lay, deadline=WRITE) and user in self._cursors
        tail.twice = Counter(mine)

    async def _former(self, tail: Tail) -> tuple[list[IrisLogLine], int, bool]:
        """Return the lines that the spool lacks, where they end, and whether some are lost."""
        source = f"{tail.wanted.own.id}/"
        since = int(tail.since) if tail.since is not None else None
        found: list[IrisLogLine] = []
        for _ in range(PAGES if since is not None else 0):
            lines, cursor, most = await self._fetch_lines(source, since, AT_ONCE)
            found += lines
            since = max(since or 0, cursor)
            if len(lines) < min(most, FULL):
                if found or not await self._anew(tail, since):
                    return found, since, False
                return await self._after(tail, source)
        begun = tail.wanted.own.submitted_at
        before = None if begun is None else begun - 1.0
        lines, cursor, most = await self._fetch_lines(source, None, FIRST, before)
        return lines, cursor, tail.since is not None or len(lines) >= most

    async def _anew(self, tail: Tail, since: int) -> bool:
        """Tell whether the server has not counted as far as the spool of a tail has come."""
        user = user_of(tail.wanted.own.id)
        return self._cursors.get(user, 0) < since and await self._counted(user) < since

    async def _after(self, tail: Tail, source: str) -> tuple[list[IrisLogLine], int, bool]:
        """Return what is newer than the last line of a spool, by time: the numbers are others."""
        newest = await offload(tail.spool.at, deadline=WRITE) + self.offset
        lines, cursor, _ = await self._fetch_lines(source, None, FIRST, newest)
        return [line for line in lines if (line.at or 0.0) > newest + SAME], cursor, True


def _job_of(line: IrisLogLine) -> str:
    """Return the job whose task has written a line: ``/user/job`` of ``/user/job/0:1``."""
    return posixpath.dirname(line.key)


def _owners(line: IrisLogLine, owners: Mapping[str, Sequence[Tail]]) -> list[Tail]:
    """Return the tails that take a line: those of its job and of the jobs above it."""
    job = root = _job_of(line)
    found: list[Tail] = []
    while root.count("/") >= 2:
        found += [tail for tail in owners.get(root, ()) if tail.takes(job)]
        root = posixpath.dirname(root)
    return found


def _bytes(line: IrisLogLine) -> bytes:
    return line.data.replace("\n", " ").encode("utf-8", "replace")


LONGEST: Final = 10.0
"""Seconds that fetching may take: reading the spools has a deadline of its own after it."""
NO_JOB: Final = "its job is unknown yet: the log is asked for after it"
IN_TURN: Final = "not fetched yet: what was written before is fetched for a few jobs at a time"
EMPTY: Final = "nothing written yet"


class IrisLogs:
    """Observes the logs of runs whose jobs ``jobs`` has looked at."""

    def __init__(self, clock: Clock, logs: Logs, jobs: IrisJobs) -> None:
        self._clock = clock
        self._logs = logs
        self._jobs = jobs
        self._streams: dict[int, Stream] = {}

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[LogValue]]:
        """Return the log facet of each run, by run name; never raises."""
        groups = by_place(queries, lambda query: endpoint_of_run(query.run))
        failed = unanswered(lambda endpoint: endpoint, self._clock)
        return await ask_each(groups, self._of_one, failed)

    async def _of_one(self, endpoint: str, queries: list[Query]) -> dict[str, Facet[LogValue]]:
        """Return the facets of runs of one controller; raises ``HttpError``."""
        place = await self._jobs.place([query.run for query in queries])
        wanted = [each for query in queries if (each := _wanted(query, place.memory))]
        stream = self._streams.setdefault(id(place), Stream(place.controller))
        stream.offset = place.clock.off
        try:
            async with asyncio.timeout(min(place.patience, LONGEST)):
                tails = dict(await stream.fetch(wanted))
        except TimeoutError:
            text = f"{endpoint} did not send its lines in time: is its tunnel up?"
            raise HttpError(ErrorKind.TIMEOUT, text) from None
        except OSError as error:
            text = f"the lines cannot be kept here: {(error.strerror or 'no').lower()}"
            raise HttpError(ErrorKind.PERMISSION, text) from None
        return await self._read(endpoint, queries, tails)

    async def _read(
        self, endpoint: str, queries: list[Query], tails: dict[str, Tail]
    ) -> dict[str, Facet[LogValue]]:
        """Read the spools as the files that they are."""
        found = {query.name: self._why(endpoint, tails.get(query.name)) for query in queries}
        fetched = {name: tail for name, tail in tails.items() if tail.fetched}
        held = {name: tail.place for name, tail in fetched.items() if tail.since is not None}
        reading = [query for query in queries if query.name in held]
        answers = await self._logs.observe(reading, held)
        named = {
            name: facet.model_copy(update={"source": endpoint}) for name, facet in answers.items()
        }
        return found | {
            name: each for name, each in named.items() if each.value is None or each.value.size
        }

    def _why(self, endpoint: str, tail: Tail | None) -> Facet[LogValue]:
        """Return why there is no log of a run."""
        kind, text = ErrorKind.NOT_FOUND, NO_JOB if tail is None else EMPTY
        if tail is not None and tail.trouble is not None:
            kind, text = tail.trouble.kind, f"its lines cannot be fetched: {tail.trouble}"
        elif tail is not None and not (tail.joined or tail.fetched):
            kind, text = ErrorKind.TIMEOUT, IN_TURN
        return unknown(kind, f"{endpoint}: {text}", endpoint, self._clock.now())


def _wanted(query: Query, memory: Memory) -> Wanted | None:
    current = query.job.id if query.job is not None else None
    own = memory.last_seen(current or id_of(query.run))
    if own is None or query.run.job is None:
        return None
    return Wanted(query.name, query.run.job, own, phase_of(own).terminal)
