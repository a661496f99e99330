"""The past of runs, from the store and the log: what happened, and how a run was at a moment."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from cockpit.model.acts import Outcome, Stage
from cockpit.model.alert import Acknowledgement, Alert, ClosedAlert, Evidence, Severity
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.history import (
    Happening,
    KeptFigures,
    Kind,
    PastLog,
    PhaseMark,
    Sign,
    Then,
    Timeline,
)
from cockpit.model.logtext import LogPage
from cockpit.model.observed import CheckpointState, JobValue, LogValue, Phase, TrackerValue
from cockpit.model.report import Facets, RunReport, Verdict, unread
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import ACKNOWLEDGED, OWNER, STOPPED, SharedFact
from cockpit.model.wording import lasting, moment, number, size, step
from cockpit.platforms.table import kind_of
from cockpit.records.lease.state import looked_after
from cockpit.rules.judge import worst_first
from cockpit.runtime.mounts import read_text
from cockpit.runtime.offload import offload
from cockpit.sources.logs.file import LogFile, written_by
from cockpit.sources.logs.ranged import Ranged
from cockpit.sources.logs.remote import log_at
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.journal import Journal, JournalEntry
from cockpit.store.launches import AgentRecords
from cockpit.store.memory import LEAST_EVERY, Observation, Pasts, RunMemory
from cockpit.store.store import Store, StoreError
from cockpit.text.logbook_scan import read_entries
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub
from cockpit.watch.fleet import Fleet
from cockpit.watch.runstate import RunState

MOST: Final = 1_000
"""Happenings in all, and of one kind."""
GONE: Final = "deleted since"
SLIP: Final = 86400.0
"""Seconds after now up to which a time in a logbook is believed."""
_PHASE_SIGN: Final = {
    Phase.FAILED: Sign.CRITICAL, Phase.UNKNOWN: Sign.UNKNOWN, Phase.CANCELLED: Sign.ATTENTION,
    Phase.SUCCEEDED: Sign.GOOD, Phase.RUNNING: Sign.GOOD,
}  # fmt: skip
_OUTCOME_SIGN: Final = {
    Outcome.DONE: Sign.GOOD, Outcome.FAILED: Sign.CRITICAL, Outcome.UNKNOWN: Sign.UNKNOWN,
    Outcome.REFUSED: Sign.PLAIN,
}  # fmt: skip
_CHECKPOINT: Final = {
    CheckpointState.COMPLETE: ("saved", Sign.GOOD),
    CheckpointState.INCOMPLETE: ("torn", Sign.CRITICAL),
    CheckpointState.REJECTED: ("rejected", Sign.ATTENTION),
}


def timeline(
    store: Store | None, key: str, run: RunSpec, report: RunReport | None, now: float
) -> Timeline:
    """Return what is known to have happened to a run, and what is missing of it.

    ``report`` is its newest: it has what other cockpits reported of the run, and its checkpoints.
    Blocking: reads the logbook's file.
    """
    entries, lacks = _entries(run, now)
    try:
        if store is not None:
            return _from_store(store, key, run, report, entries, lacks)
        why = "no store: older alerts, jobs and actions are unknown"
    except StoreError as error:
        why = f"older alerts, jobs and actions are unknown: {error}"
    found = [*_shared_facts(report, set()), *_checkpoints(report), *entries]
    found += [_closed(each, each.closed_at) for each in (() if report is None else report.closed)]
    return Timeline(run=run.name, happenings=_newest(found), lacks=(*lacks, _safe_text(why)))


def _from_store(
    store: Store,
    key: str,
    run: RunSpec,
    report: RunReport | None,
    entries: Sequence[Happening],
    lacks: tuple[str, ...],
) -> Timeline:
    """Return what the store and everything beside it know; raises ``StoreError``."""
    with store.reading():
        journal = Journal(store)
        acts, memory = looked_after(journal.entries(key)[-MOST:], journal.place), RunMemory(store)
        own = {(each.operator, round(each.begun_at, 3)) for each in acts}
        found = [*_shared_facts(report, own), *_checkpoints(report), *_unsaid(entries, acts)]
        found += [*_alerts(store, key), *map(_action, acts), *_jobs(memory, key)]
        found += [*_gone_checkpoints(memory, key, report), *_agents(store, key, acts)]
        return Timeline(
            run=run.name,
            happenings=_newest(found),
            moments=Pasts(store).moments(key),
            begins=memory.watched_since(key),
            lacks=lacks,
        )


def _newest(found: Sequence[Happening]) -> tuple[Happening, ...]:
    return tuple(_folded(sorted(found, key=lambda each: each.at, reverse=True)))[:MOST]


def _folded(found: Sequence[Happening]) -> Iterator[Happening]:
    """Yield what happened, checkpoints deleted since as one where nothing came between them.

    A run that saves every few minutes and keeps two would have little else in its timeline.
    """
    for gone, group in groupby(found, key=lambda each: each.note == GONE):
        row = list(group)
        if gone and len(row) > 1:
            first, last = _step_of(row[-1]), _step_of(row[0])
            words = f"{len(row):,} checkpoints, {first} to {last}"
            row = [row[0].model_copy(update={"text": words})]
        yield from row


def _step_of(gone: Happening) -> str:
    return gone.text.removeprefix("Checkpoint ").removesuffix(" complete")


def _safe_text(words: str) -> str:
    return clean(scrub(clean(words, 300)), 300)


def _alerts(store: Store, key: str) -> Iterator[Happening]:
    alerts = Alerts(store)
    for kept in alerts.newest(key, MOST // 2):
        if not kept.passed:
            yield _of_alert(kept.alert, kept.opened_at, _sign(kept.alert), kept.alert.title)
        if kept.closed_at is not None:
            yield _closed(kept, kept.closed_at)
    for alert, taken in alerts.acknowledgements(key, MOST // 2):
        until = "" if taken.until is None else f", snoozed until {moment(taken.until)}"
        why = "" if taken.reason is None else f": {_safe_text(taken.reason)}"
        note = f"by {_safe_text(taken.by)}{until}{why}"
        yield _of_alert(alert, taken.at, Sign.PLAIN, f"Acknowledged: {alert.title}", note)


def _of_alert(alert: Alert, at: float, sign: Sign, words: str, note: str = "") -> Happening:
    return Happening(
        at=at, kind=Kind.ALERT, sign=sign, text=words, note=note, code=alert.id, key=alert.key
    )


def _closed(kept: Kept | ClosedAlert, at: float) -> Happening:
    lasted = lasting(max(0.0, at - kept.alert.since))
    span, unseen = kept.alert.span, [] if kept.seen else ["nobody had looked"]
    steps = [] if span is None else [f"steps {step(span.opened_step)} to {step(span.closed_step)}"]
    words = f"{'Closed' if kept.seen else 'Closed unseen'} after {lasted}: {kept.alert.title}"
    return _of_alert(kept.alert, at, Sign.GOOD if kept.seen else Sign.ATTENTION, words,
                     ", ".join([*steps, *unseen]))  # fmt: skip


def _sign(alert: Alert) -> Sign:
    if alert.severity is Severity.CRITICAL:
        return Sign.CRITICAL
    return Sign.PLAIN if alert.severity is Severity.INFO else Sign.ATTENTION


def _action(entry: JournalEntry) -> Happening:
    sign = Sign.UNKNOWN if entry.outcome is None else _OUTCOME_SIGN[entry.outcome]
    kinds = {"handoff": Kind.HANDOFF, "log": Kind.ENTRY}
    words = f"{entry.action} by {entry.operator}: {entry.text}"
    job = "" if entry.job_id is None else f"job {entry.job_id}"
    launch = "" if entry.launch_id is None else entry.launch_id
    note = " · ".join(filter(None, (entry.message, launch, job)))
    kind = kinds.get(entry.action, Kind.ACTION)
    return Happening(
        at=entry.begun_at, kind=kind, sign=sign, text=_safe_text(words), note=_safe_text(note)
    )


def _agents(store: Store, key: str, acts: Sequence[JournalEntry]) -> Iterator[Happening]:
    """Yield what agents planned or sent and is not in the journal.

    What began is there, unless it was killed right then.
    """
    journaled = {entry.plan.plan_id for entry in acts}
    signs = {Stage.VETOED: Sign.ATTENTION, Stage.TAKEN_OVER: Sign.ATTENTION}
    for act in AgentRecords(store).acts(key):
        begun = act.stage is Stage.BEGUN and act.plan_id in journaled
        if not begun and act.stage is not Stage.ENDED:
            sign, words = signs.get(act.stage, Sign.PLAIN), _safe_text(act.text)
            yield Happening(at=act.changed_at, kind=Kind.ACTION, sign=sign, text=words)


def _jobs(memory: RunMemory, key: str) -> Iterator[Happening]:
    for one in memory.launches(key)[-MOST:]:
        words = f"Launched {one.launch_id or 'by hand'}: job {one.job_id}"
        yield Happening(at=one.at, kind=Kind.JOB, sign=Sign.PLAIN, text=_safe_text(words))
    yield from map(_phase, reversed(memory.phases(key)))  # of one instant: as they were seen


def _phase(mark: PhaseMark) -> Happening:
    sign, job = _PHASE_SIGN.get(mark.phase, Sign.PLAIN), mark.job_id or "of no id"
    late = mark.at - mark.began
    note = f"seen {lasting(late)} later" if late >= 60 else ""
    words = f"Job {job} {mark.phase.value}"
    return Happening(at=mark.began, kind=Kind.JOB, sign=sign, text=_safe_text(words), note=note)


def _checkpoints(report: RunReport | None) -> Iterator[Happening]:
    found = None if report is None else report.facets.checkpoints.value
    for item in () if found is None else found.items[-MOST // 2 :]:
        if item.saved_at is None or item.state not in _CHECKPOINT:
            continue
        word, sign = _CHECKPOINT[item.state]
        kept = "" if item.permanent is None else "permanent" if item.permanent else "temporary"
        parts = (size(item.size) if item.size is not None else "", kept, item.suspect or "")
        sign = Sign.ATTENTION if item.suspect else sign
        note = _safe_text(" · ".join(filter(None, parts)))
        words = f"Checkpoint {step(item.step if item.step is not None else item.name_step)} {word}"
        yield Happening(at=item.saved_at, kind=Kind.CHECKPOINT, sign=sign, text=words, note=note)


def _gone_checkpoints(memory: RunMemory, key: str, report: RunReport | None) -> Iterator[Happening]:
    """Yield checkpoints that were the newest once and are not there any more."""
    found = None if report is None else report.facets.checkpoints.value
    if found is None or (report is not None and not report.facets.checkpoints.known):
        return
    there, told = {item.step for item in found.items}, set[int]()
    for mark in memory.checkpoint_marks(key):
        if mark.newest is None or mark.newest in there or mark.newest in told:
            continue
        told.add(mark.newest)
        words = f"Checkpoint {step(mark.newest)} complete"
        yield Happening(at=mark.at, kind=Kind.CHECKPOINT, sign=Sign.PLAIN, text=words, note=GONE)


def _shared_facts(report: RunReport | None, own: set[tuple[str, float]]) -> Iterator[Happening]:
    """Yield what other cockpits reported; ``own`` is what this store's journal has."""
    records = None if report is None else report.facets.records.value
    for each in () if records is None else records.told:
        if (each.typed_by, round(each.at, 3)) not in own:
            yield _of_shared_fact(each)


def _of_shared_fact(each: SharedFact) -> Happening:
    kinds = {OWNER: Kind.HANDOFF, ACKNOWLEDGED: Kind.ALERT, STOPPED: Kind.ACTION}
    note = _safe_text(f"typed by {each.typed_by} · {each.source}")
    kind = kinds.get(each.what, Kind.JOB)
    return Happening(at=each.at, kind=kind, sign=Sign.PLAIN, text=_safe_text(each.text), note=note)


def _entries(run: RunSpec, now: float) -> tuple[list[Happening], tuple[str, ...]]:
    """Return the dated entries of the run's logbook, and why there are none."""
    path = run.records.logbook
    if path is None:
        return [], ()
    try:
        entries = read_entries(read_text(Path(path)))
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        return [], (_safe_text(f"log entries: {path}: {said.lower()}"),)
    dated = [each for each in entries if each.at is not None and each.at <= now + SLIP]
    dated.sort(key=lambda each: each.at or 0.0)
    return [
        Happening(
            at=each.at or 0.0,
            kind=Kind.ENTRY,
            sign=Sign.PLAIN,
            text=_safe_text(each.title),
            note="",
        )
        for each in dated[-MOST // 2 :]
    ], ()


def _unsaid(entries: Sequence[Happening], acts: Sequence[JournalEntry]) -> list[Happening]:
    """Return the entries that no action of the journal has written: those stand there already."""
    minutes = {int(each.begun_at // 60) for each in acts if each.action == "log"}
    return [each for each in entries if int(each.at // 60) not in minutes]


MISSED: Final = 2.5
"""Cadences without a look after which nobody watched."""
STORE: Final = "store"
ALERTS: Final = 500
NOT_KEPT: Final = "not kept for this moment"
NOBODY: Final = "see logbook and log for that time: no cockpit was looking"


class _StoredPast(NamedTuple):
    """What the store holds of a run at a moment, and until when it was looked at."""

    observation: Observation | None
    phases: Sequence[PhaseMark]
    alerts: tuple[Alert, ...]


def past_at(store: Store, key: str, run: RunSpec, at: float) -> Then:
    """Return the run (``key`` in the store) as it was at ``at``; raises ``StoreError``.

    What is not known of that moment is unknown, with its reason in ``lacks`` or in its facet.
    """
    with store.reading():
        kept, observation = Pasts(store).at(key, at), RunMemory(store).observed_at(key, at)
        moments = [each.at for each in (kept, observation) if each is not None]
        if not moments:
            return _nothing(store, key, run, at)
        watched = at - max(moments) <= MISSED * max(run.cadence, LEAST_EVERY)
        seen = None if observation is None else _kept_figures(observation)
        if kept is not None and kept.report is not None:
            report, lacks = kept.report, _later(kept.at, observation)
            recorded: float | None = kept.at
        else:
            found = _StoredPast(observation, RunMemory(store).phases(key), _open(store, key, at))
            report, recorded = _pieced(run, at, found), None
            lacks = ("only verdict, step and alerts are kept for this moment: it is too old, or "
                     "older than full snapshots",)  # fmt: skip
    if not watched:
        why = f"no cockpit was looking: the last look was {lasting(at - max(moments))} before"
        report, lacks = _unwatched(report, why), (why, *lacks)
    return Then(
        run=run.name, at=at, report=report, recorded_at=recorded, seen=seen, watched=watched,
        lacks=lacks,
    )  # fmt: skip


def _nothing(store: Store, key: str, run: RunSpec, at: float) -> Then:
    begins = RunMemory(store).watched_since(key)
    why = "no cockpit has looked at it yet: nothing kept"
    if begins is not None:
        why = f"nothing is kept from before {moment(begins)}"
    return Then(run=run.name, at=at, lacks=(why,))


def _kept_figures(found: Observation) -> KeptFigures:
    return KeptFigures(at=found.at, verdict=found.verdict, phase=found.phase, step=found.step)


def _later(kept_at: float, found: Observation | None) -> tuple[str, ...]:
    """Return what was noted after the moment that is kept whole."""
    if found is None or found.at <= kept_at or found.step is None:
        return ()
    loss = "" if found.loss is None else f", loss {number(found.loss)}"
    return (f"a look at {moment(found.at)} saw step {step(found.step)}{loss}",)


def _unwatched(report: RunReport, why: str) -> RunReport:
    """Return what was known as just that: how the run was then nobody can tell."""
    return report.model_copy(
        update={
            "facets": report.facets.as_remembered(),
            "verdict": Verdict.UNKNOWN,
            "verdict_reason": why,
            "next_action": NOBODY,
            "progress": report.progress.model_copy(update={"eta_s": None}),
            "not_read_yet": why,
        }
    )


def _pieced(run: RunSpec, at: float, found: _StoredPast) -> RunReport:
    """Return a report of what is kept where no whole moment is."""
    seen, report = found.observation, unread(run, Facets(), at)
    facets = dict(report.facets.items())
    changes: dict[str, Facet[Any]] = {
        name: unknown(ErrorKind.NOT_FOUND, NOT_KEPT, STORE, at)
        for name, facet in facets.items()
        if facet.configured
    }
    marks = [mark for mark in found.phases if mark.at <= at]
    if marks:
        job = JobValue(id=marks[-1].job_id, state=marks[-1].phase.value, phase=marks[-1].phase)
        changes["job"] = known(job, STORE, marks[-1].at)
    step_then = None if seen is None else seen.step
    if seen is not None and seen.loss is not None and "tracker" in changes:
        value = TrackerValue(id=None, state=NOT_KEPT, step=seen.step, loss=seen.loss)
        changes["tracker"] = known(value, STORE, seen.at)
    final = "unknown" if run.final_step is None else run.final_step
    shown = "unknown" if step_then is None else f"~{step_then}"
    progress = report.progress.model_copy(update={"step": step_then, "text": f"{shown}/{final}"})
    return report.model_copy(
        update={
            "facets": report.facets.model_copy(update=changes),
            "verdict": Verdict.UNKNOWN if seen is None else seen.verdict,
            "verdict_reason": None,
            "progress": progress,
            "alerts": found.alerts,
            "next_action": found.alerts[0].next_action if found.alerts else NOT_KEPT,
            "not_read_yet": None,
        }
    )


def _open(store: Store, key: str, at: float) -> tuple[Alert, ...]:
    """Return the alerts that were open at ``at``; what they rested on then is not kept."""
    alerts = Alerts(store)
    open_then = [
        each.alert
        for each in alerts.newest(key, ALERTS)
        if each.opened_at <= at and (each.closed_at is None or each.closed_at > at)
        and not each.passed
    ]  # fmt: skip
    taken = {alert.key: who for alert, who in reversed(alerts.acknowledgements(key, ALERTS))
             if who.at <= at}  # fmt: skip
    return worst_first(_as_then(alert, taken.get(alert.key)) for alert in open_then)


def _as_then(alert: Alert, taken: Acknowledgement | None) -> Alert:
    """Return an alert without what it may have learned since; ``taken`` if it was by then."""
    own = taken if taken is not None and taken.at >= alert.since else None
    evidence = (Evidence(text=f"its evidence is {NOT_KEPT}", source=STORE),)
    return alert.model_copy(update={"acknowledged": own, "evidence": evidence})


PAGE: Final = 600
"""Lines that are read at once."""
CHANGED: Final = "the log was rotated or truncated since"


class _End(NamedTuple):
    """Where the log ended then, and by what that is known."""

    offset: int
    told: str


def log_then(run: RunSpec, found: Then, offset: int, back: bool) -> PastLog:
    """Return lines as they stood at a moment: before ``offset``, or from it on, none later.

    Blocks. Raises ``OSError`` where the log is not there any more, or is another text by now.
    """
    kept = None if found.report is None else found.report.facets.log.value
    kind = kind_of(run)
    place = None if kind is None else kind.log_place(run, kept)
    if place is None:
        raise OSError(0, "its log cannot be read from here")
    log = log_at(place).newest()
    if kept is not None and kept.lines:
        end = _recorded(LogFile(log), kept, found.recorded_at or found.at)
    else:
        end = _stamped(log, found.at)
    page = LogFile(log).page(min(offset, end.offset), PAGE, back)
    return PastLog(_until(page, end.offset), end.told)


def _recorded(log: LogFile, kept: LogValue, at: float) -> _End:
    """Return where it ended when a look recorded it, if those lines still stand there."""
    page = log.page(kept.size, len(kept.lines) + 1, back=True)
    then = [line.plain for line in kept.lines]
    if page.size < kept.size:
        raise OSError(0, CHANGED)
    if page.end < kept.size:  # its last line was being written
        then.pop()
    now = [line.plain for line in page.lines]
    if not then or now[-len(then) :] != then:  # without a whole line nothing vouches for it
        raise OSError(0, CHANGED)
    return _End(page.end, f"from its file, up to {moment(at)}")


def _stamped(log: Ranged, at: float) -> _End:
    """Return where the last line ends that says that it was written by then."""
    end = written_by(log, at)
    if end is None:
        raise OSError(0, "no line is kept, and those of the log have no timestamp with a date")
    if end == 0:
        raise OSError(0, "the log that is there now begins later")
    return _End(end, f"from its file, up to {moment(at)} by its lines' own times")


def _until(page: LogPage, end: int) -> LogPage:
    """Return of a page what begins before ``end``, in a log that ends there."""
    count = sum(offset < end for offset in page.offsets)
    return LogPage(
        page.lines[:count], page.offsets[:count], min(page.start, end), min(page.end, end), end
    )


DEADLINE: Final = 10.0
R = TypeVar("R")


class PastReading:
    """The past of the runs of ``fleet``, by their names.

    Every method raises ``OSError`` (the store cannot be read), ``TimeoutError`` and, for a run
    that is not there, ``ValueError``.
    """

    def __init__(self, store: Store | None, fleet: Fleet, clock: Clock) -> None:
        self._store = store
        self._fleet = fleet
        self._clock = clock

    async def timeline(self, run: str) -> Timeline:
        """Return what is known to have happened to a run, and which moments are kept."""
        state = self._state(run)
        now = self._clock.now()
        return await self._read_store(
            functools.partial(timeline, self._store, state.key, state.spec, state.report, now)
        )

    async def then(self, run: str, at: float) -> Then:
        """Return a run as it was at ``at`` (seconds since the epoch)."""
        state = self._state(run)
        if self._store is None:
            raise OSError(0, "no store is open: the past is unknown")
        return await self._read_store(
            functools.partial(past_at, self._store, state.key, state.spec, float(at))
        )

    async def log_then(self, run: str, at: float, offset: int, back: bool) -> PastLog:
        """Return lines of the log as it was at ``at``: before ``offset`` (``back``), or from it on.

        Also raises ``OSError`` where the log is another text by now.
        """
        found, state = await self.then(run, at), self._state(run)
        read = functools.partial(log_then, state.spec, found, int(offset), bool(back))
        return await self._read_store(read)

    def _state(self, run: str) -> RunState:
        state = self._fleet.states.get(run)
        if state is None:
            raise ValueError(f"no run {run[:80]!r} in the run file")
        return state

    async def _read_store(self, read: Callable[[], R]) -> R:
        try:
            return await offload(read, deadline=DEADLINE)
        except StoreError as error:
            raise OSError(0, str(error)) from error
