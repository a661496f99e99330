"""C-03, monitor stale: who watches the watcher. Says nothing about the run's own health."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.history import History
from cockpit.model.observed import MonitorValue, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.present import phase_of, phase_since, seen_at, still_open

CADENCES = 2


def monitor_stale(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-03: no sign of the monitor for more than two of its cadences, or two monitors.

    A run that succeeded, or that was stopped by our order, needs no monitor any more; one
    that failed is watched until a person has acknowledged it (SPEC W). What its clock leaves
    open (``doubt``) neither opens nor closes anything in a watch, which sees the next write; a
    single look has the stamp alone to go by, and says what speaks against it.
    """
    phase, facet = phase_of(history), history.facets.monitor
    stopped = phase.terminal and history.stop_ordered_by is not None
    if run.monitor is None or phase is Phase.SUCCEEDED or stopped:
        return
    value = facet.value
    if value is None:
        yield from _never_written(run, history, facet)
        return
    last, doubted = value.last_update, value.doubt is not None and history.attended
    silent = last is not None and seen_at(facet, history.now) - last > CADENCES * value.cadence_s
    former = still_open(history, f"C-03:{run.name}") if doubted else None
    if former is not None:
        yield former
    elif not doubted and (silent or not value.fresh):
        yield _stale(run, facet, value, history)
    elif value.gone:
        yield _cut_off(run, facet, value, history)
    if value.fresh and any(other.fresh for other in value.others):
        yield _two(run, facet, value, history)


def _stale(
    run: RunSpec, facet: Facet[MonitorValue], value: MonitorValue, history: History
) -> Alert:
    when = "never" if value.last_update is None else wording.moment(value.last_update)
    limit = f"{CADENCES} cadences of {wording.span(value.cadence_s)}"
    whose = f"{value.owner}'s" if value.owner else "the"
    return Alert(
        id="C-03",
        key=f"C-03:{run.name}",
        severity=Severity.WARNING,
        title="Monitor silent (the run is checked separately)",
        since=present.first(value.last_update, phase_since(history)),
        evidence=present.evidence(
            facet.source,
            f"last sign of {whose} monitor: {when}; limit {limit}",
            *([] if value.doubt is None else [value.doubt]),
            *value.gone,
        ),
        confidence="sure" if value.doubt is None else "likely",
        next_action="restart the monitor; leave the run alone"
        if value.doubt is None
        else "look again after its next write, then restart it; leave the run alone",
    )


def _cut_off(
    run: RunSpec, facet: Facet[MonitorValue], value: MonitorValue, history: History
) -> Alert:
    return Alert(
        id="C-03",
        key=f"C-03:{run.name}:gone",
        severity=Severity.WARNING,
        title="Monitor session is gone (the run is checked separately)",
        since=history.now,
        evidence=present.evidence(facet.source, *value.gone),
        confidence="likely",
        next_action="restart the session, then the monitor; leave the run alone",
    )


def _two(run: RunSpec, facet: Facet[MonitorValue], value: MonitorValue, history: History) -> Alert:
    fresh = [other for other in value.others if other.fresh]
    return Alert(
        id="C-03",
        key=f"C-03:{run.name}:two",
        severity=Severity.WARNING,
        title=f"{len(fresh) + 1} monitors watch one job",
        since=min(other.last_update or history.now for other in fresh),
        evidence=(
            Evidence(
                text=f"{value.owner or 'a monitor'}: {value.path or '?'}", source=facet.source
            ),
            *(
                Evidence(text=f"{each.owner or 'another monitor'}: {each.path}", source=each.path)
                for each in fresh
            ),
        ),
        confidence="sure",
        next_action="keep one monitor of this job; stop the others",
    )


def _never_written(run: RunSpec, history: History, facet: Facet[MonitorValue]) -> Iterator[Alert]:
    """Yield the alert for a monitor that has left no file at all for two cadences."""
    if facet.error is None or facet.error.kind is not ErrorKind.NOT_FOUND or facet.since is None:
        return
    if history.now - facet.since <= CADENCES * run.monitor_cadence:
        return
    yield Alert(
        id="C-03",
        key=f"C-03:{run.name}",
        severity=Severity.WARNING,
        title="No monitor heartbeat found (the run is checked separately)",
        since=facet.since,
        evidence=present.evidence(facet.source, facet.error.message),
        confidence="likely",
        next_action="start the monitor, or fix [run.monitor]",
    )
