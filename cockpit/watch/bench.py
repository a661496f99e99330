"""The judge's bench: runs with news are judged in small batches, off the event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence

from cockpit.model.clock import Clock
from cockpit.model.facet import Problem
from cockpit.model.report import RunReport
from cockpit.sources.offload import offload
from cockpit.store.memory import RunMemory
from cockpit.watch.fleet import Fleet
from cockpit.watch.historian import Historian
from cockpit.watch.judging import Case, Judged, case_of, judged, report_of
from cockpit.watch.reconcile import reconcile
from cockpit.watch.runstate import RunState
from cockpit.watch.supervise import Supervisor

BATCH = 32
DEADLINE = 20.0
TELL_AGE = 15.0
"""Seconds: the first step in which a screen shows ages; a mere look is told no more often."""
CLOSED_KEPT = 50
GATHER = 0.1
"""Seconds in which the news of a moment (log, rows, tracker) gather to be judged once."""

Tell = Callable[[RunReport], None]


class Bench:
    """Judges runs, keeps their alerts over time, and tells when a report says something new."""

    def __init__(
        self, fleet: Fleet, historian: Historian, supervisor: Supervisor, clock: Clock, tell: Tell
    ) -> None:
        self._fleet = fleet
        self._historian = historian
        self._supervisor = supervisor
        self._clock = clock
        self._tell = tell
        self._waiting: dict[str, None] = {}
        self._bell = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    def touch(self, name: str) -> None:
        """Say that something of a run has changed."""
        self._waiting[name] = None
        self._bell.set()

    async def run(self) -> None:
        """Judge until cancelled."""
        while True:
            while not self._waiting:
                await self._bell.wait()
                self._bell.clear()
            await self._clock.sleep(GATHER)
            names = list(self._waiting)[:BATCH]
            for name in names:
                del self._waiting[name]
            await self.judge(names)

    async def judge(self, names: Sequence[str], *, keep: bool = True) -> None:
        """Judge these runs now; with ``keep`` the outcome is remembered and told."""
        async with self._one_at_a_time:
            await self._judge(names, keep=keep)

    async def _judge(self, names: Sequence[str], *, keep: bool) -> None:
        now = self._clock.now()
        states = [state for name in names if (state := self._fleet.states.get(name)) is not None]
        cases = [case_of(state, now) for state in states]
        for state in states:
            state.judged_at = self._clock.monotonic()
        together = await self._supervisor.run("the rules", DEADLINE, _judge_all(cases))
        found: Sequence[Judged | None] = (
            await self._one_by_one(cases) if isinstance(together, Problem) else together
        )
        for state, outcome in zip(states, found, strict=True):
            if outcome is not None:
                self._settle(state, outcome, keep=keep)

    async def _one_by_one(self, cases: list[Case]) -> Sequence[Judged | None]:
        """Judge each alone, so that a fault in a rule costs one run its verdict, not all."""
        outcomes = [
            await self._supervisor.run(
                f"the rules on {case.spec.name}", DEADLINE, _judge_all([case])
            )
            for case in cases
        ]
        return [None if isinstance(found, Problem) else found[0] for found in outcomes]

    def _settle(self, state: RunState, found: Judged, *, keep: bool) -> None:
        state.log_trend = found.log_trend
        if state.may_judge:
            self._reconcile(state, found, keep=keep)
        alerts = tuple(kept.alert for kept in state.open.values())
        state.report = report_of(found, alerts, state)
        if keep and _is_news(state.told, state.report):
            state.told = state.report
            self._tell(state.report)

    def _reconcile(self, state: RunState, found: Judged, *, keep: bool) -> None:
        settled = reconcile(
            state.open,
            state.closed,
            found.alerts,
            found.history.now,
            grace=state.spec.cadence,
            may_close=state.looked_at_all and state.rows_read,
        )
        state.open = {kept.alert.key: kept for kept in settled.open}
        returned = set(state.open)
        older = [kept for kept in state.closed if kept.alert.key not in returned]
        state.closed = [*settled.closed, *older][:CLOSED_KEPT]
        if keep and settled.changed:
            self._historian.save_alerts(state.key, settled.changed)


async def _judge_all(cases: list[Case]) -> list[Judged]:
    return await offload(functools.partial(_judge_in_thread, cases), deadline=DEADLINE)


def _judge_in_thread(cases: list[Case]) -> list[Judged]:
    return [judged(case) for case in cases]


def _is_news(old: RunReport | None, new: RunReport) -> bool:
    if old is None or _face(old) != _face(new):
        return True
    looks = zip(old.facets.items(), new.facets.items(), strict=True)
    return any(
        (after.observed_at or 0.0) - (before.observed_at or 0.0) >= TELL_AGE
        for (_, before), (_, after) in looks
    )


def _face(report: RunReport) -> tuple[object, ...]:
    """Return what a reader can see, apart from when it was looked at."""
    facets = [(facet.value, facet.error, facet.since) for _, facet in report.facets.items()]
    return (
        report.spec,
        report.verdict,
        report.progress,
        report.alerts,
        report.closed,
        report.next_action,
        report.next_check_at,
        report.watched_by,
        facets,
    )


def remember_report(state: RunState, historian: Historian) -> None:
    """Store a run's report with the next batch, unless it is stored already."""
    report, key = state.report, state.key
    if report is not None and state.stored is not report:
        state.stored = report
        historian.later(lambda store: RunMemory(store).save_reports([(key, report)]))
