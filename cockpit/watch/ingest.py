"""Every logged row through the rules' fold: in order, in chunks, politely (SPEC C)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import Problem
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.replay import Judgement, Standing, judge_rows
from cockpit.runtime.offload import offload
from cockpit.watch.asking import Tracker
from cockpit.watch.fleet import Fleet
from cockpit.watch.judge import Judge
from cockpit.watch.poller import Pollers
from cockpit.watch.runstate import Rows
from cockpit.watch.tasks import Supervisor, WaitingRuns

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
