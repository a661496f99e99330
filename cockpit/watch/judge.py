"""When runs are judged: those with news at once, each every cadence; and which moments are kept."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from zlib import crc32

from cockpit.model.clock import Clock, next_beat
from cockpit.model.facet import Facet, Problem
from cockpit.model.observed import TrackerValue
from cockpit.model.report import RunReport, present_tracker
from cockpit.rules.jobs.host import at_ease
from cockpit.rules.jobs.restarts import left_behind
from cockpit.rules.metrics.throughput import resized_since
from cockpit.runtime.offload import offload
from cockpit.store.alerts import Kept
from cockpit.store.launches import Failures
from cockpit.store.memory import Observation, Pasts, RunMemory
from cockpit.watch import reports
from cockpit.watch.diagnoser import Diagnoser, has_stall_diagnosis
from cockpit.watch.fleet import Fleet
from cockpit.watch.runstate import RunState
from cockpit.watch.store_writer import CLOSED_FOR, StoreWriter
from cockpit.watch.sweep import LARGE, OTHER, Listeners, Supervisor, Turns, WaitingRuns

LINES: Final = 60
"""Of each the newest so many are kept; of the curve points over the whole run."""
POINTS: Final = 160
CHECKPOINTS: Final = 40
CLOSED: Final = 20
SHARED_FACTS_KEPT: Final = 20

SAME_FOR: Final = 300.0
"""Seconds after which a run in which nothing has changed is written down again all the same."""

T = TypeVar("T")


def keep_moment(state: RunState, store_writer: StoreWriter, *, round_over: bool) -> None:
    """Keep the run as it is, with the next batch, if that is due.

    That is when its face is another one, or (``round_over``) once a cadence. What nobody has
    asked for yet is no moment of the run.
    """
    report = state.report
    if report is None or report.not_read_yet is not None or not state.may_judge:
        return
    face = face_of(report)
    if face == state.kept_face and not round_over:
        return
    state.kept_face = face
    key, every = state.key, state.spec.cadence
    store_writer.later(lambda store: Pasts(store).keep(key, slim(report), face, every))


def is_written(state: RunState) -> bool:
    """Tell whether what is stored of a run says the same as its report, but for when it looked.

    It is written again after ``SAME_FOR`` at the latest, and each run at another moment: a start
    after a crash shows what was seen until then. That it was looked at is observed each cadence.
    """
    report, stored = state.report, state.stored
    if report is None or stored is None or _content(report) != _content(stored):
        return False
    hosts = stored.facets.host.value, report.facets.host.value
    if hosts[0] != hosts[1] and not at_ease(report.spec, *hosts):
        return False
    share = 0.5 + 0.5 * (crc32(state.key.encode()) % 100) / 100
    return 0.0 <= report.checked_at - stored.checked_at < share * SAME_FOR


def _content(report: RunReport) -> tuple[object, ...]:
    """Return what a report says, apart from times of looking and a host's figures."""
    facets = [
        (facet.value if name != "host" else None, facet.error, facet.since, facet.remembered)
        for name, facet in report.facets.items()
    ]
    told = report.verdict, report.progress, report.alerts, report.closed, report.next_action
    return (
        report.spec,
        *told,
        report.watched_by,
        report.owner,
        report.agents,
        report.standing,
        facets,
    )


def face_of(report: RunReport) -> str:
    """Return what is the same for as long as nothing has changed that a person must know.

    The verdict, the job and its phase, each open alert with its severity and who has taken it.
    """
    job = report.facets.job.value
    where = "" if job is None else f"{job.phase.value} {job.id}"
    alerts = sorted(
        f"{each.key} {each.severity.value}"
        f" {'' if each.acknowledged is None else each.acknowledged.at}"
        for each in report.alerts
    )
    return "\n".join((report.verdict.value, where, *alerts))


def slim(report: RunReport) -> RunReport:
    """Return a report as it is kept: the newest of what may be long."""
    facets = report.facets
    changes: dict[str, Facet[Any]] = {}
    if (log := facets.log.value) is not None:
        changes["log"] = _with(facets.log, lines=log.lines[-LINES:], offsets=log.offsets[-LINES:])
    if (tracker := facets.tracker.value) is not None:
        changes["tracker"] = _with(facets.tracker, history=_rounded(_curve(tracker)))
    if (found := facets.checkpoints.value) is not None:
        changes["checkpoints"] = _with(facets.checkpoints, items=found.items[-CHECKPOINTS:])
    if (records := facets.records.value) is not None:
        changes["records"] = _with(facets.records, told=records.told[:SHARED_FACTS_KEPT])
    kept = facets.model_copy(update=changes)
    whole = {"facets": kept, "closed": report.closed[:CLOSED], "agents": (), "standing": None}
    return report.model_copy(update=whole)


def thinned(points: Sequence[T], most: int) -> tuple[T, ...]:
    """Return fewer than ``most`` of the points, evenly, the first and the last among them.

    As points are added the same ones stay, but when every other goes: what is kept of two moments
    differs little.
    """
    every = 1
    while len(points) // every >= most - 1:
        every *= 2
    last = points[-1:] if points and (len(points) - 1) % every else ()
    return (*points[::every], *last)


def _curve(tracker: TrackerValue) -> list[tuple[int, float]]:
    """Return the loss over all steps that are known, as (step, loss), oldest first."""
    parts = (
        (each.last, math.nan if each.mean is None else each.mean)
        for each in tracker.columns
        if each.mean is not None or each.nonfinite
    )
    return sorted(dict([*tracker.history, *parts]).items())


def _rounded(curve: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    return tuple((step, float(f"{loss:.6g}")) for step, loss in thinned(curve, POINTS))


def _with(facet: Facet[Any], **changes: object) -> Facet[Any]:
    value = facet.value
    return facet.model_copy(update={"value": value and value.model_copy(update=changes)})


BATCH = 32
DEADLINE = 20.0
NEWS_AGE = 15.0
"""Seconds: the first step in which a screen shows ages; a mere look is told no more often."""
CLOSED_KEPT = 50
GATHER = 0.1
"""Seconds in which the news of a moment (log, rows, tracker) gather to be judged once."""
PATIENCE = 1.0
"""Seconds that judging waits for logs to be read; what comes later is judged again."""
TICK = 1.0
REST = 2.0
"""Seconds between two ticks while nothing falls due: on the beat of whatever else wakes then."""
FIRST_ROUND_WITHIN = 20.0
"""Seconds that the first round waits for facets which have not answered yet."""
REJUDGE = 15.0
"""Seconds: time alone can open an alert, so a run without news is judged again."""
REJUDGED = 20
"""Runs on no screen that are judged in a second because of time alone; of the unwell as many."""
REJUDGE_UNSEEN = 60.0
"""The same in a large fleet, for runs that are well and on no screen."""


class Judge:
    """Judges runs, keeps their alerts over time, and tells when a report says something new."""

    def __init__(
        self,
        fleet: Fleet,
        store_writer: StoreWriter,
        news: Listeners[RunReport],
        supervisor: Supervisor,
        clock: Clock,
        rank: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self._fleet = fleet
        self._store_writer = store_writer
        self._news = news
        self._supervisor = supervisor
        self._clock = clock
        self.rank = rank
        self._waiting = WaitingRuns(rank)
        self._diagnoser = Diagnoser(supervisor, self.touch)
        self._one_at_a_time = asyncio.Lock()

    def touch(self, name: str) -> None:
        """Say that something of a run has changed."""
        self._waiting.add(name)

    async def run(self) -> None:
        """Judge until cancelled."""
        while True:
            await self._waiting.until_any()
            await self._clock.sleep(GATHER)
            await self.judge(self._waiting.take(BATCH))

    def announce_remembered(self) -> None:
        """Publish the last known state of the runs that have not been published yet."""
        for state in self._fleet.states.values():
            if state.announced is None and state.report is not None:
                self._news.call(state.report)

    async def judge(
        self,
        names: Sequence[str],
        *,
        keep: bool = True,
        patience: float = PATIENCE,
        mark: bool = True,
    ) -> None:
        """Judge these runs now, off the event loop; with ``keep`` it is remembered and published.

        A log that must be read first (SPEC T) is waited for, ``patience`` seconds. Without
        ``mark`` what they have in common with others is as it was marked a moment ago.
        """
        async with self._one_at_a_time:
            states = [self._fleet.states[name] for name in names if name in self._fleet.states]
            now = self._clock.now()
            if mark:
                self._fleet.mark_neighbours()
            for state in states:
                state.attended = keep
            cases = [reports.case_of(state, now) for state in states]
            await self._diagnoser.refresh(states, cases, patience)
            cases = [reports.with_diagnosis(case, s) for case, s in zip(cases, states, strict=True)]
            for state in states:
                state.judged_at = self._clock.monotonic()
            found = await self._judged(cases)
            found = await self._with_stalls(states, cases, found, patience)
            for state, case, outcome in zip(states, cases, found, strict=True):
                if outcome is not None:
                    self._settle(state, outcome, keep=keep)
                else:
                    self._publish(state, reports.unruled(case, state), keep=keep)

    async def _judged(self, cases: list[reports.Case]) -> Sequence[reports.Judged | None]:
        together = await self._supervisor.run("the rules", DEADLINE, _judge_all(cases))
        return await self._one_by_one(cases) if isinstance(together, Problem) else together

    async def _with_stalls(
        self,
        states: Sequence[RunState],
        cases: list[reports.Case],
        found: Sequence[reports.Judged | None],
        patience: float,
    ) -> Sequence[reports.Judged | None]:
        """Judge those that stand still once more, with what their logs say of it."""
        still = [
            at
            for at, each in enumerate(found)
            if each is not None and any(alert.id == "C-06" for alert in each.alerts)
        ]
        for at, state in enumerate(states):
            if at not in still and has_stall_diagnosis(state):
                state.diagnosis = None
        if not still:
            return found
        stalled, stood = [states[at] for at in still], [cases[at] for at in still]
        await self._diagnoser.refresh(stalled, stood, patience, stalled=True)
        known = {at: reports.with_diagnosis(cases[at], states[at]) for at in still}
        again = {at: case for at, case in known.items() if case.triage != cases[at].triage}
        outcomes = await self._judged(list(again.values())) if again else []
        told = dict(zip(again, outcomes, strict=True))
        return [told.get(at, one) for at, one in enumerate(found)]

    async def _one_by_one(self, cases: list[reports.Case]) -> Sequence[reports.Judged | None]:
        """Judge each alone, so that a fault in a rule costs one run its verdict, not all."""
        outcomes = [
            await self._supervisor.run(
                f"the rules on {case.spec.name}", DEADLINE, _judge_all([case])
            )
            for case in cases
        ]
        return [None if isinstance(found, Problem) else found[0] for found in outcomes]

    def _settle(self, state: RunState, found: reports.Judged, *, keep: bool) -> None:
        """Hold what the rules say against what is open; store what changed, tell what is new."""
        state.log_trend, state.log_standing = found.log_trend, found.log_standing
        state.rows.note(found.log_over)
        marks = left_behind(found.spec, found.history, state.failure)
        former, key = state.mark_failure(*marks), state.key
        if former is not None and keep:
            self._store_writer.later(lambda store: Failures(store).add(key, former))
        if state.may_judge:
            gone = self._came_and_went(state, found, keep=keep)
            changes = reports.reconcile(
                state.open,
                state.closed,
                found.alerts,
                found.history.now,
                grace=state.spec.cadence,
                may_close=state.may_close,
                looked_at=state.facets.job.observed_at if state.facets.job.known else None,
            )
            open_now = {kept.alert.key: kept for kept in changes.open}
            state.open = reports.taken_elsewhere(open_now, state.shared_facts, found.history.now)
            older = [
                kept
                for kept in (*gone, *state.closed)
                if not _goes_on(kept, state.open)
                and not any(new.continues(kept) for new in changes.closed)
            ]
            state.closed = [*changes.closed, *older][:CLOSED_KEPT]
            if keep and changes.changed:
                self._store_writer.save_alerts(state.key, changes.changed)
        alerts = tuple(kept.alert for kept in state.open.values())
        self._publish(state, reports.report_of(found, alerts, state), keep=keep)

    def _came_and_went(self, state: RunState, found: reports.Judged, *, keep: bool) -> list[Kept]:
        """Take what opened and closed within the rows since the last look; return what is new.

        Without ``keep`` it is nobody's news: a check tells what holds now.
        """
        over, state.rows.passed = state.rows.passed, []
        if not over or not keep:
            return []
        now, grace = found.history.now, state.spec.cadence
        passed = [
            reports.kept_of(each, now)
            for each in reports.merged(over, grace)
            if each.alert.id != "C-05"  # of a batch that is another one the rows know nothing
            or not resized_since(state.spec, found.history, each.alert.since)
        ]
        lately = reports.settle(state.open, state.closed, passed, found.alerts, grace)
        state.open = lately.open
        if lately.ended:
            self._store_writer.save_alerts(state.key, lately.ended)
        if lately.unseen:
            self._store_writer.save_passed(state.key, lately.unseen, grace)
        shown = [kept for kept in lately.unseen if now - (kept.closed_at or 0.0) <= CLOSED_FOR]
        return [*lately.ended, *reversed(shown)]

    def _publish(self, state: RunState, report: RunReport, *, keep: bool) -> None:
        if report.not_read_yet is None:
            cadence = state.spec.cadence
            state.day = state.day.with_look(report.checked_at, report.verdict.value, cadence)
        report = state.report = report.model_copy(update={"day": state.day})
        if keep:
            keep_moment(state, self._store_writer, round_over=False)
        if keep and _is_news(state.announced, report):
            state.announced = report
            self._news.call(report)


class CadenceLoop:
    """Keeps each run's cadence: a run is judged and published once in each, changed or not."""

    def __init__(
        self,
        fleet: Fleet,
        judge: Judge,
        store_writer: StoreWriter,
        each_round: Listeners[RunReport],
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._judge = judge
        self._store_writer = store_writer
        self._each_round = each_round
        self._clock = clock
        self._since: dict[str, float] = {}
        self._turns = Turns(judge.rank, REJUDGED)

    async def run(self) -> None:
        """Keep the cadence until cancelled."""
        while True:
            now = self._clock.monotonic()
            due = [state for state in self._fleet.states.values() if self._due(state, now)]
            for start in range(0, len(due), BATCH):
                await self._round(due[start : start + BATCH], now, mark=start == 0)
            for name in self._turns.take(self._rested(now)):
                self._judge.touch(name)
            await next_beat(self._clock, self._beat(now))

    def _beat(self, now: float) -> float:
        """Return the seconds between two ticks from now on."""
        states, then = self._fleet.states, now + REST + TICK / 2
        if len(states) > LARGE:
            return TICK
        due = (state.next_round is None or self._due(state, then) for state in states.values())
        return TICK if any(due) or self._rested(then) else REST

    def _rested(self, now: float) -> list[str]:
        """Return the runs not judged for so long that time alone may have opened an alert."""
        large, rank = len(self._fleet.states) > LARGE, self._judge.rank
        return [
            name
            for name, state in self._fleet.states.items()
            if now - state.judged_at >= REJUDGE_UNSEEN
            or (_rested(state, now) and (not large or rank(name) < OTHER))
        ]

    def _due(self, state: RunState, now: float) -> bool:
        if state.next_round is not None:
            return now >= state.next_round - TICK / 2  # the tick that comes nearest
        waited = now - self._since.setdefault(state.spec.name, now)
        return (state.looked_at_all and state.rows_read) or waited >= FIRST_ROUND_WITHIN

    async def _round(self, states: list[RunState], now: float, *, mark: bool) -> None:
        for state in states:
            # The run's own beat: rounds that were missed are skipped.
            cadence = max(TICK, state.spec.cadence)
            beat = now if state.next_round is None else state.next_round
            state.next_round = beat + cadence * (1 + max(0.0, now - beat) // cadence)
            state.next_check_at = self._clock.now() + state.next_round - now
        await self._judge.judge([state.spec.name for state in states], mark=mark)
        for state in states:
            if state.report is not None:
                self._remember(state, state.report)
                self._each_round.call(state.report)

    def _remember(self, state: RunState, report: RunReport) -> None:
        job, tracker = report.facets.job.value, present_tracker(report)
        seen = Observation(
            at=report.checked_at,
            verdict=report.verdict,
            phase=None if job is None else job.phase,
            step=report.progress.step,
            loss=None if tracker is None else tracker.true_loss,
        )
        key, every = state.key, state.spec.cadence
        self._store_writer.later(lambda store: RunMemory(store).observe(key, seen, every))
        if not is_written(state):
            keep_moment(state, self._store_writer, round_over=True)
            remember_report(state, self._store_writer)


def _rested(state: RunState, now: float) -> bool:
    """Tell whether a run on a screen is to be judged again because of time alone."""
    return now - state.judged_at >= min(REJUDGE, max(TICK, state.spec.cadence / 4))


def remember_report(state: RunState, store_writer: StoreWriter) -> None:
    """Store a run's report with the next batch, unless it is stored already."""
    report, key = state.report, state.key
    if report is not None and state.stored is not report:
        state.stored = report
        store_writer.later(lambda store: RunMemory(store).save_reports([(key, report)]))


def _goes_on(closed: Kept, known: Mapping[str, Kept]) -> bool:
    """Tell whether a closed alert is open again; what came and went alone stays an event."""
    again = known.get(closed.alert.key)
    return again is not None and (not closed.passed or again.is_same(closed, 0.0))


async def _judge_all(cases: list[reports.Case]) -> list[reports.Judged]:
    return await offload(lambda: [reports.judged(case) for case in cases], deadline=DEADLINE)


def _is_news(old: RunReport | None, new: RunReport) -> bool:
    """Tell whether a reader sees anything new, apart from when it was looked at."""
    if old is None or _face(old) != _face(new):
        return True
    looks = zip(old.facets.items(), new.facets.items(), strict=True)
    return any(
        (after.observed_at or 0.0) - (before.observed_at or 0.0) >= NEWS_AGE
        for (_, before), (_, after) in looks
    )


def _face(report: RunReport) -> tuple[object, ...]:
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
        report.agents,
        report.standing,
        report.not_read_yet,
        (report.day.end, report.day.cells),
        facets,
    )
