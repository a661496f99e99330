"""What happened to a run, newest first: alerts, actions, jobs, checkpoints, entries, handoffs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from cockpit.model.agents import Stage
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import PhaseMark
from cockpit.model.observed import CheckpointState, Phase
from cockpit.model.outcome import Outcome
from cockpit.model.past import Happening, Kind, Sign, Timeline
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.model.told import ACKNOWLEDGED, OWNER, STOPPED, Told
from cockpit.model.wording import lasting, moment, size, step
from cockpit.records.lease.holder import looked_after
from cockpit.runtime.regular import read_text
from cockpit.store.agents import AgentRecords
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.journal import Journal, JournalEntry
from cockpit.store.memory import RunMemory
from cockpit.store.pasts import Pasts
from cockpit.store.store import Store
from cockpit.text.logbook_scan import read_entries
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

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
    """Return what is known to have happened to a run; raises ``StoreError``.

    ``report`` is its newest: what others told of it and its checkpoints are taken from there.
    Blocking: reads the logbook's file.
    """
    entries, lacks = _entries(run, now)
    if store is None:
        found = [*_told(report, set()), *_checkpoints(report), *entries]
        lacks = (*lacks, "no store: past alerts, jobs and actions are unknown")
        return Timeline(run=run.name, happenings=_newest(found), lacks=lacks)
    with store.reading():
        acts, memory = _journal(store, key), RunMemory(store)
        own = {(each.operator, round(each.begun_at, 3)) for each in acts}
        found = [*_told(report, own), *_checkpoints(report), *_unsaid(entries, acts)]
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


def _line(words: str) -> str:
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
        why = "" if taken.reason is None else f": {_line(taken.reason)}"
        note = f"by {_line(taken.by)}{until}{why}"
        yield _of_alert(alert, taken.at, Sign.PLAIN, f"Acknowledged: {alert.title}", note)


def _of_alert(alert: Alert, at: float, sign: Sign, words: str, note: str = "") -> Happening:
    return Happening(
        at=at, kind=Kind.ALERT, sign=sign, text=words, note=note, code=alert.id, key=alert.key
    )


def _closed(kept: Kept, at: float) -> Happening:
    lasted = lasting(max(0.0, at - kept.alert.since))
    unseen = "" if kept.seen else "nobody had looked"
    words = f"{'Closed' if kept.seen else 'Closed unseen'} after {lasted}: {kept.alert.title}"
    return _of_alert(kept.alert, at, Sign.GOOD if kept.seen else Sign.ATTENTION, words, unseen)


def _sign(alert: Alert) -> Sign:
    if alert.severity is Severity.CRITICAL:
        return Sign.CRITICAL
    return Sign.PLAIN if alert.severity is Severity.INFO else Sign.ATTENTION


def _journal(store: Store, key: str) -> tuple[JournalEntry, ...]:
    journal = Journal(store)
    return looked_after(journal.entries(key)[-MOST:], journal.place)


def _action(entry: JournalEntry) -> Happening:
    sign = Sign.UNKNOWN if entry.outcome is None else _OUTCOME_SIGN[entry.outcome]
    kinds = {"handoff": Kind.HANDOFF, "log": Kind.ENTRY}
    words = f"{entry.action} by {entry.operator}: {entry.text}"
    job = "" if entry.job_id is None else f"job {entry.job_id}"
    launch = "" if entry.launch_id is None else entry.launch_id
    note = " · ".join(filter(None, (entry.message, launch, job)))
    kind = kinds.get(entry.action, Kind.ACTION)
    return Happening(at=entry.begun_at, kind=kind, sign=sign, text=_line(words), note=_line(note))


def _agents(store: Store, key: str, acts: Sequence[JournalEntry]) -> Iterator[Happening]:
    """Yield what agents planned or sent and is not in the journal.

    What began is there, unless it was killed right then.
    """
    journaled = {entry.plan.plan_id for entry in acts}
    signs = {Stage.VETOED: Sign.ATTENTION, Stage.TAKEN_OVER: Sign.ATTENTION}
    for act in AgentRecords(store).acts(key):
        begun = act.stage is Stage.BEGUN and act.plan_id in journaled
        if not begun and act.stage is not Stage.ENDED:
            sign, words = signs.get(act.stage, Sign.PLAIN), _line(act.text)
            yield Happening(at=act.changed_at, kind=Kind.ACTION, sign=sign, text=words)


def _jobs(memory: RunMemory, key: str) -> Iterator[Happening]:
    for one in memory.launches(key)[-MOST:]:
        words = f"Launched {one.launch_id or 'by hand'}: job {one.job_id}"
        yield Happening(at=one.at, kind=Kind.JOB, sign=Sign.PLAIN, text=_line(words))
    yield from map(_phase, reversed(memory.phases(key)))  # of one instant: as they were seen


def _phase(mark: PhaseMark) -> Happening:
    sign, job = _PHASE_SIGN.get(mark.phase, Sign.PLAIN), mark.job_id or "of no id"
    late = mark.at - mark.began
    note = f"seen {lasting(late)} later" if late >= 60 else ""
    words = f"Job {job} {mark.phase.value}"
    return Happening(at=mark.began, kind=Kind.JOB, sign=sign, text=_line(words), note=note)


def _checkpoints(report: RunReport | None) -> Iterator[Happening]:
    found = None if report is None else report.facets.checkpoints.value
    for item in () if found is None else found.items[-MOST // 2 :]:
        if item.saved_at is None or item.state not in _CHECKPOINT:
            continue
        word, sign = _CHECKPOINT[item.state]
        kept = "" if item.permanent is None else "permanent" if item.permanent else "temporary"
        parts = (size(item.size) if item.size is not None else "", kept, item.suspect or "")
        sign = Sign.ATTENTION if item.suspect else sign
        note = _line(" · ".join(filter(None, parts)))
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


def _told(report: RunReport | None, own: set[tuple[str, float]]) -> Iterator[Happening]:
    """Yield what others told; ``own`` is what stands in this store's journal."""
    records = None if report is None else report.facets.records.value
    for each in () if records is None else records.told:
        if (each.typed_by, round(each.at, 3)) not in own:
            yield _heard(each)


def _heard(each: Told) -> Happening:
    kinds = {OWNER: Kind.HANDOFF, ACKNOWLEDGED: Kind.ALERT, STOPPED: Kind.ACTION}
    note = _line(f"typed by {each.typed_by} · {each.source}")
    kind = kinds.get(each.what, Kind.JOB)
    return Happening(at=each.at, kind=kind, sign=Sign.PLAIN, text=_line(each.text), note=note)


def _entries(run: RunSpec, now: float) -> tuple[list[Happening], tuple[str, ...]]:
    """Return the dated entries of the run's logbook, and why there are none."""
    path = run.records.logbook
    if path is None:
        return [], ()
    try:
        entries = read_entries(read_text(Path(path)))
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        return [], (_line(f"log entries: {path}: {said.lower()}"),)
    dated = [each for each in entries if each.at is not None and each.at <= now + SLIP]
    dated.sort(key=lambda each: each.at or 0.0)
    return [
        Happening(
            at=each.at or 0.0, kind=Kind.ENTRY, sign=Sign.PLAIN, text=_line(each.title), note=""
        )
        for each in dated[-MOST // 2 :]
    ], ()


def _unsaid(entries: Sequence[Happening], acts: Sequence[JournalEntry]) -> list[Happening]:
    """Return the entries that no action of the journal has written: those stand there already."""
    minutes = {int(each.begun_at // 60) for each in acts if each.action == "log"}
    return [each for each in entries if int(each.at // 60) not in minutes]
