"""One look at everything, within a deadline: what ``check`` does (INTERFACE "Cadences").

Every logged row through the rules' fold: in order, in chunks, politely (SPEC C).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import Facet, Problem
from cockpit.model.observed import Row
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.replay import Judgement, Standing, judge_rows
from cockpit.runtime.git import asked_anew
from cockpit.runtime.offload import offload
from cockpit.watch.asking import Answers, Asker, Key, Sources, Tracker
from cockpit.watch.fleet import Fleet
from cockpit.watch.judge import Judge
from cockpit.watch.poller import DEADLINES, Pollers
from cockpit.watch.runstate import Rows, RunState
from cockpit.watch.sweep import Supervisor, WaitingRuns

CHUNK_DEADLINE = 30.0
BREATH = 0.005
"""Seconds given to everything else after each chunk."""
RECENT = 3000
"""The newest rows, which are folded before the whole history has been read."""
FEW = 200
"""Rows that are folded at once, in a few milliseconds: another thread would cost more."""


class RowIngest:
    """Reads rows run by run, one chunk at a time, in turn; a changed fold is judged."""

    def __init__(
        self,
        tracker: Tracker,
        fleet: Fleet,
        judge: Judge,
        pollers: Pollers,
        supervisor: Supervisor,
        clock: Clock,
        rank: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self._tracker = tracker
        self._fleet = fleet
        self._judge = judge
        self._pollers = pollers
        self._supervisor = supervisor
        self._clock = clock
        self._waiting = WaitingRuns(rank)

    def offer(self, name: str) -> None:
        """Say that a run may have rows which are not folded yet."""
        self._waiting.add(name)

    async def run(self) -> None:
        """Feed until cancelled."""
        while True:
            await self._waiting.until_any()
            for name in self._waiting.take(1):
                state = self._fleet.states.get(name)
                if state is not None and not await self._chunk(state.spec, state.rows):
                    self._waiting.add(name)
            await self._clock.sleep(BREATH)

    async def _chunk(self, run: RunSpec, rows: Rows) -> bool:
        """Fold the next rows of one run; return whether that was all for now."""
        outcome = await self._supervisor.run(
            f"rows of {run.name}", CHUNK_DEADLINE, feed_chunk(self._tracker, run, rows)
        )
        if isinstance(outcome, Problem):
            rows.tried = True
            self._judge.touch(run.name)
            return True
        if outcome.changed:
            self._judge.touch(run.name)
            self._pollers.wake("tracker", run.name)
        return outcome.caught_up


class Chunk(NamedTuple):
    """Whether one chunk changed what is folded, and whether it was the last for now."""

    changed: bool
    caught_up: bool


async def feed_chunk(tracker: Tracker, run: RunSpec, rows: Rows) -> Chunk:
    """Fold the next rows of ``run`` into ``rows``; until all are read, the newest stand in."""
    got = await tracker.more_rows(run)
    if got.restarted:
        rows.full, rows.standing, rows.complete = Trend(), Standing(), False
    found = await _folded(rows.full, rows.standing, got.rows, run)
    rows.full, rows.standing = found.trend, found.standing
    rows.note(found.over)
    # Files that cannot be read now give no rows and cover nothing: that is not the whole run.
    whole = got.caught_up and (rows.complete or got.share > 0.0)
    if got.later and got.share < 1.0:
        rows.complete = False  # far more was logged since the last look than has come so far
    finished = whole and not rows.complete
    if whole:
        rows.complete, rows.skipped = True, 0.0
    if rows.complete:
        rows.trend = rows.full
    elif not rows.any or got.later:
        recent = await tracker.recent(run, RECENT)
        newest = await _folded(Trend(), Standing(), recent.rows, run)
        former, rows.trend = rows.trend, newest.trend
        rows.skipped = max(0.0, 1.0 - recent.share)
        finished = rows.trend != former
    rows.any = rows.any or bool(got.rows)
    rows.tried = True
    return Chunk(bool(got.rows) or finished, got.caught_up or got.later or bool(got.unread))


async def _folded(
    trend: Trend, standing: Standing, rows: tuple[Row, ...], run: RunSpec
) -> Judgement:
    if len(rows) <= FEW:
        return judge_rows(trend, standing, rows, run)
    work = functools.partial(judge_rows, trend, standing, rows, run)
    return await offload(work, deadline=CHUNK_DEADLINE)


ROWS_BUDGET = 8.0
SHARE_OF_FACET = 0.3
"""Three facets wait for one another (tracker, job, checkpoints): each may take this share."""
SHARE_FOR_ASKING = 0.9
"""The rest of the deadline is for judging and printing."""
READERS = 4
HOST_ROUNDS = 2
"""Times that rows are read of files on a host, and the host is asked for more."""
TOGETHER = 0.6
"""Share of a facet's time in which a bulk may answer here; then its runs are asked apart."""


class OnePass:
    """Asks for every facet of some runs once; a slow one is unknown, never waited for."""

    def __init__(
        self, fleet: Fleet, sources: Sources, supervisor: Supervisor, clock: Clock, deadline: float
    ) -> None:
        self._fleet = fleet
        self._sources = sources
        self._asker = Asker(sources, fleet.states, clock)
        self._supervisor = supervisor
        self._clock = clock
        self._share = deadline * SHARE_OF_FACET
        self._end = clock.monotonic() + deadline * SHARE_FOR_ASKING
        self._readers = asyncio.Semaphore(READERS)

    async def run(self, runs: Sequence[RunSpec], *, feed: bool) -> None:
        """Fill the runs' states; ends within the deadline given, with or without answers.

        What an action does rests on this: no answer is one that git gave some time ago.
        """
        after = [run for run in runs if self._log_needs_job(run)]
        before = [run for run in runs if not self._log_needs_job(run)]
        alone = (self._facet(facet, before) for facet in ("log", "host"))
        chain = self._chain(runs, after, feed=feed)
        with asked_anew():
            await asyncio.gather(chain, self._facet("code", runs), *alone)

    def _log_needs_job(self, run: RunSpec) -> bool:
        platform = self._asker.platform_of(run)
        return platform is not None and platform.log_needs_job

    async def _chain(
        self, runs: Sequence[RunSpec], after: Sequence[RunSpec], *, feed: bool
    ) -> None:
        # what other cockpits reported names the job, and rejects checkpoints
        first = (self._facet(facet, runs) for facet in ("tracker", "monitor", "records"))
        await asyncio.gather(*first)
        rows = (self._rows(runs),) if feed else ()
        await asyncio.gather(self._job_and_what_needs_it(runs, after), *rows)

    async def _job_and_what_needs_it(
        self, runs: Sequence[RunSpec], after: Sequence[RunSpec]
    ) -> None:
        await self._facet("job", runs)
        later = (self._facet(facet, after) for facet in ("log", "host"))  # the job says where
        await asyncio.gather(self._facet("checkpoints", runs), *later)

    async def _facet(self, facet: str, runs: Sequence[RunSpec]) -> None:
        groups = self._asker.by_place(runs, (facet,))
        await asyncio.gather(*(self._group(key, group) for key, group in groups.items()))

    async def _group(self, key: Key, runs: list[RunSpec]) -> None:
        facet, place = key
        left = self._end - self._clock.monotonic()
        seconds = max(0.0, min(DEADLINES[facet].at(place), self._share, left))
        if len(runs) == 1 or place != HERE:
            await self._ask(key, runs, seconds)
            return
        together = seconds * TOGETHER
        answer = await self._supervisor.run(facet, together, self._asker.ask(facet, place, runs))
        if not isinstance(answer, Problem):
            self._take(key, answer)
        else:
            # In a bulk, the one file that hangs would cost the other runs their answer.
            left = seconds - together
            await asyncio.gather(*(self._ask(key, [run], left) for run in runs))

    async def _ask(self, key: Key, runs: list[RunSpec], seconds: float) -> None:
        """Ask once; what went wrong has gone wrong for all these runs."""
        facet, place = key
        what = facet if place == HERE else f"{facet} at {place}"
        answer = await self._supervisor.run(what, seconds, self._asker.ask(facet, place, runs))
        if isinstance(answer, Problem):
            source = facet if place == HERE else place
            failed = Facet[Any](source=source, error=answer, since=self._clock.now())
            answer = {run.name: failed for run in runs}
        self._take(key, answer)

    def _take(self, key: Key, answer: Answers) -> None:
        facet, place = key
        for name, found in self._asker.join(facet, place, answer).items():
            state = self._fleet.states.get(name)
            if state is not None:
                state.take(facet, found)

    async def _rows(self, runs: Sequence[RunSpec]) -> None:
        end = min(self._end, self._clock.monotonic() + ROWS_BUDGET)
        states = [self._fleet.states[run.name] for run in runs]
        for _ in range(HOST_ROUNDS):
            await asyncio.gather(*(self._read(state, end) for state in states))
            read = [state.spec for state in states if state.rows.any]
            groups = self._asker.by_place(read, ("tracker",))
            files = {key: own for key, own in groups.items() if _has_files(key)}
            if not files or self._clock.monotonic() >= self._end:
                break
            await asyncio.gather(*(self._second_look(key, own) for key, own in files.items()))
            away = {run.name for key, own in files.items() if key[1] != HERE for run in own}
            states = [each for each in states if each.spec.name in away and not each.rows.complete]

    async def _second_look(self, key: Key, runs: list[RunSpec]) -> None:
        """Look at files once more: they know more once they are read, and a host brings more.

        A host that is gone by now has answered a moment ago.
        """
        if key[1] == HERE:
            await self._group(key, runs)
            return
        facet, place = key
        left = max(0.0, self._end - self._clock.monotonic())
        asked = self._asker.ask(facet, place, runs)
        answer = await self._supervisor.run(f"{facet} at {place}", min(self._share, left), asked)
        if not isinstance(answer, Problem):
            self._take(key, {name: each for name, each in answer.items() if each.known})

    async def _read(self, state: RunState, end: float) -> None:
        if state.facets.tracker.value is None:
            return
        async with self._readers:
            caught_up = False
            while not caught_up and (left := end - self._clock.monotonic()) > 0:
                chunk = await self._supervisor.run(
                    f"rows of {state.spec.name}",
                    left,
                    feed_chunk(self._sources.tracker, state.spec, state.rows),
                )
                caught_up = isinstance(chunk, Problem) or chunk.caught_up


def _has_files(key: Key) -> bool:
    """Tell whether a tracker's place is a file system; a server has said it all at once."""
    return "://" not in key[1]
