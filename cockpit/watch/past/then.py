"""A run as it was at a moment, from the store alone: nothing that was learned later is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from cockpit.model.alert import Acknowledgement, Alert, Evidence
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.history import PhaseMark
from cockpit.model.observed import JobValue, TrackerValue
from cockpit.model.past import Seen, Then
from cockpit.model.report import Facets, RunReport, Verdict, unread
from cockpit.model.run import RunSpec
from cockpit.model.wording import lasting, moment, number, step
from cockpit.rules.judge import worst_first
from cockpit.store.alerts import Alerts
from cockpit.store.memory import Observation, RunMemory
from cockpit.store.pasts import LEAST_EVERY, Pasts
from cockpit.store.store import Store

MISSED: Final = 2.5
"""Cadences without a look after which nobody watched."""
STORE: Final = "store"
ALERTS: Final = 500
NOT_KEPT: Final = "not kept for this moment"
NOBODY: Final = "see logbook and log for that time: no cockpit was looking"


class _Known(NamedTuple):
    """What the store holds of a run at a moment, and until when it was looked at."""

    observation: Observation | None
    phases: Sequence[PhaseMark]
    alerts: tuple[Alert, ...]


def then(store: Store, key: str, run: RunSpec, at: float) -> Then:
    """Return the run (``key`` in the store) as it was at ``at``; raises ``StoreError``.

    What is not known of that moment is unknown, with its reason in ``lacks`` or in its facet.
    """
    with store.reading():
        kept, observation = Pasts(store).at(key, at), RunMemory(store).observed_at(key, at)
        moments = [each.at for each in (kept, observation) if each is not None]
        if not moments:
            return _nothing(store, key, run, at)
        watched = at - max(moments) <= MISSED * max(run.cadence, LEAST_EVERY)
        seen = None if observation is None else _seen(observation)
        if kept is not None and kept.report is not None:
            report, lacks = kept.report, _later(kept.at, observation)
            recorded: float | None = kept.at
        else:
            found = _Known(observation, RunMemory(store).phases(key), _open(store, key, at))
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


def _seen(found: Observation) -> Seen:
    return Seen(at=found.at, verdict=found.verdict, phase=found.phase, step=found.step)


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


def _pieced(run: RunSpec, at: float, found: _Known) -> RunReport:
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
