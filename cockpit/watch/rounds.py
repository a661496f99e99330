"""The cadence: each run is judged and told once per cadence, whether or not anything changed."""

from __future__ import annotations

from collections.abc import Callable

from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.store.memory import Observation, RunMemory
from cockpit.watch.bench import BATCH, Bench, remember_report
from cockpit.watch.fleet import Fleet
from cockpit.watch.historian import Historian
from cockpit.watch.runstate import RunState

TICK = 1.0
FIRST_ROUND_WITHIN = 20.0
"""Seconds that the first round waits for facets which have not answered yet."""
REJUDGE = 15.0
"""Seconds: time alone can open an alert, so a run without news is judged again."""


class Rounds:
    """Keeps each run's cadence."""

    def __init__(
        self,
        fleet: Fleet,
        bench: Bench,
        historian: Historian,
        clock: Clock,
        told: Callable[[RunReport], None],
    ) -> None:
        self._fleet = fleet
        self._bench = bench
        self._historian = historian
        self._clock = clock
        self._told = told
        self._since: dict[str, float] = {}

    async def run(self) -> None:
        """Keep the cadence until cancelled."""
        while True:
            now = self._clock.monotonic()
            due = [state for state in self._fleet.states.values() if self._due(state, now)]
            for start in range(0, len(due), BATCH):
                await self._round(due[start : start + BATCH], now)
            for state in self._fleet.states.values():
                if now - state.judged_at >= min(REJUDGE, max(TICK, state.spec.cadence / 4)):
                    self._bench.touch(state.spec.name)
            await self._clock.sleep(TICK)

    def _due(self, state: RunState, now: float) -> bool:
        if state.next_round is not None:
            return now >= state.next_round
        waited = now - self._since.setdefault(state.spec.name, now)
        return (state.looked_at_all and state.rows_read) or waited >= FIRST_ROUND_WITHIN

    async def _round(self, states: list[RunState], now: float) -> None:
        for state in states:
            state.next_round = _next(state, now)
            state.next_check_at = self._clock.now() + state.next_round - now
        await self._bench.judge([state.spec.name for state in states])
        for state in states:
            if state.report is not None:
                self._remember(state, state.report)
                self._told(state.report)

    def _remember(self, state: RunState, report: RunReport) -> None:
        job, tracker = report.facets.job.value, report.facets.tracker.value
        seen = Observation(
            at=report.checked_at,
            verdict=report.verdict,
            phase=None if job is None else job.phase,
            step=report.progress.step,
            loss=None if tracker is None else tracker.loss,
        )
        key, every = state.key, state.spec.cadence
        self._historian.later(lambda store: _observed(RunMemory(store), key, seen, every))
        remember_report(state, self._historian)


def _next(state: RunState, now: float) -> float:
    """Return the next round's time on the run's own beat; rounds that were missed are skipped."""
    cadence = max(TICK, state.spec.cadence)
    beat = now if state.next_round is None else state.next_round
    return beat + cadence * (1 + max(0.0, now - beat) // cadence)


def _observed(memory: RunMemory, key: str, seen: Observation, every: float) -> None:
    memory.observe(key, seen, every)
