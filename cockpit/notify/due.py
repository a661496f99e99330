"""What is to be told of a run now: an alert that opened or rose, one nobody takes, one that ended.

An alert is known by its number in the store, which is the same for every cockpit and over
restarts. Whether a message went already is decided by the claims, not here. The message says
what, since when, on what evidence, and what to do next.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.alert import Alert, Severity
from cockpit.model.clock import Moment
from cockpit.model.report import RunReport, phase_text
from cockpit.model.wording import UNKNOWN, duration, utc_minute
from cockpit.notify.message import Message
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.memory import RunMemory
from cockpit.store.messages import Held, Notified, Sent
from cockpit.store.store import Store
from cockpit.watch.reports import current

CLOSED_WITHIN: Final = 3600.0
"""Seconds after its end for which the end of a critical is still worth a message."""

SAME_MOMENT: Final = 120.0
"""Seconds between two ends of jobs at one place that one cause may lie behind."""
PASSED_WITHIN: Final = 86400.0
"""Seconds after which what came and went unseen is history, and no message."""

EVIDENCE_SHOWN: Final = 5
RUNS_NAMED: Final = 8
TOLD_OF: Final = 10
"""Alerts of which one message tells each."""


class Due(NamedTuple):
    """One message that is to go by every route it is for, unless it went already.

    ``stage``: ``open``, ``again``, ``second``, ``closed`` or ``passed`` (it came and went between
    two looks); ``alert`` is told as it is now.
    ``settled`` names routes that need nothing more, ``only`` those that it is limited to.
    ``waited`` is for how long nobody has taken it (s).
    """

    report: RunReport
    alert: Alert
    stage: str
    event: str
    waited: float = 0.0
    covered_by: tuple[str, ...] = ()
    settled: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    @property
    def severity(self) -> Severity:
        """How urgent the message is: what is over pages nobody, unless it was critical."""
        own = self.alert.severity
        over = self.stage == "passed" and own is not Severity.CRITICAL
        return min(own, Severity.WARNING, key=lambda each: each.rank) if over else own


class Now(NamedTuple):
    """When it is, and how long something is ago that a wall clock has stamped (s).

    Neither runs faster when the machine's clock is set.
    """

    moment: Moment
    since: Callable[[float], float]


def due(
    store: Store, runs: Mapping[str, RunReport], now: Now, unacked_after: float, second: bool
) -> list[Due]:
    """Return what is due of these runs (by ``run_key``); blocking, raises ``StoreError``.

    Also where the store can only be read: what cannot be claimed there must be told without it.
    With ``second`` a critical that nobody took after a second message goes to somebody else.
    """
    found: list[Due] = []
    with store.writing():
        pass
    for key, report in runs.items():
        if not report.alerts and not report.closed:
            continue
        sent = Notified(store).of(key, "alert ")
        opened = {kept.alert.key: kept for kept in Alerts(store).open(key)}
        closed = Alerts(store).closed(key, now.moment.wall - CLOSED_WITHIN - report.spec.cadence)
        each = _Run(report, sent, now, unacked_after, second)
        found += each.of_open(opened)
        found += each.of_closed(closed)
        if any(kept.passed for kept in closed):
            found += each.of_passed(closed, RunMemory(store).watched_since(key))
    return found


class _Run(NamedTuple):
    """One run's alerts against what was sent of them."""

    report: RunReport
    sent: tuple[Sent, ...]
    now: Now
    unacked_after: float
    second: bool

    def of_open(self, opened: Mapping[str, Kept]) -> Iterator[Due]:
        """Yield what is due of the open alerts; one that the store does not know yet waits."""
        for alert in self.report.alerts:
            kept = opened.get(alert.key)
            if kept is None or current(alert.acknowledged, self.now.moment.wall) is not None:
                continue
            if current(kept.alert.acknowledged, self.now.moment.wall) is not None:
                continue  # somebody has taken it elsewhere a moment ago
            if alert.caused_by is not None:
                continue  # what it follows from is told, and names it
            worse = (each for each in Severity if each.rank > alert.severity.rank)
            covered_by = tuple(f"alert {kept.number} {each.value}" for each in worse)
            event = f"alert {kept.number} {alert.severity.value}"
            yield self._due(alert, "open", event, covered_by=covered_by)
            if alert.severity is Severity.CRITICAL:
                yield from self._unacknowledged(alert, kept)

    def of_closed(self, closed: Iterable[Kept]) -> Iterator[Due]:
        """Yield the ends of criticals, for the routes that told of them.

        Within a cadence an alert may come back as the same one, so its end waits as long.
        """
        for kept in closed:
            ended = self.now.since(kept.closed_at or 0.0)
            first = f"alert {kept.number} critical"
            notified = frozenset(each.route for each in self.sent if each.event == first)
            surely = ended > self.report.spec.cadence
            if notified and surely and ended <= CLOSED_WITHIN + self.report.spec.cadence:
                event = f"alert {kept.number} closed"
                yield self._due(kept.alert, "closed", event, only=notified)

    def of_passed(self, closed: Sequence[Kept], watched: float | None) -> Iterator[Due]:
        """Yield what came and went between two looks of a run that was watched then.

        Once, whatever replays its steps; what somebody has seen meanwhile needs no message.
        """
        for kept in closed:
            if not kept.passed or kept.seen or watched is None or (kept.closed_at or 0) < watched:
                continue
            lately = self.now.since(kept.closed_at or 0.0) <= PASSED_WITHIN
            if lately and not any(kept.replays(former) for former in closed):
                yield self._due(kept.alert, "passed", f"alert {kept.number} passed")

    def _unacknowledged(self, alert: Alert, kept: Kept) -> Iterator[Due]:
        """Yield the second and third message about a critical, each ``unacked_after`` later.

        After a snooze has run out they begin anew.
        """
        waited = self._since(f"alert {kept.number} critical")
        taken = kept.alert.acknowledged
        snoozed = taken.until if taken is not None and taken.until is not None else None
        again = f"alert {kept.number} again" + (f" {snoozed:.0f}" if snoozed else "")
        if waited is None:
            return
        waited = min(waited, self.now.since(snoozed)) if snoozed else waited
        if waited >= self.unacked_after:
            yield self._due(alert, "again", again, waited)
        told_again = self._since(again)
        if self.second and told_again is not None and told_again >= self.unacked_after:
            yield self._due(alert, "second", again.replace("again", "second"), waited)

    def _due(
        self,
        alert: Alert,
        stage: str,
        event: str,
        waited: float = 0.0,
        *,
        covered_by: tuple[str, ...] = (),
        only: frozenset[str] | None = None,
    ) -> Due:
        ended = {each.route for each in self.sent if each.event == event and each.needs_no_more}
        ended |= {each.route for each in self.sent if each.event in covered_by}
        return Due(self.report, alert, stage, event, waited, covered_by, frozenset(ended), only)

    def _since(self, event: str) -> float | None:
        """Return for how long (s) an event has been told by some route."""
        now = self.now.moment
        return max((now.since(each.at) for each in self.sent if each.event == event), default=None)


def message_of(due: Due, second: str | None) -> Message:
    """Return the message for one due event; ``second`` is the second person's name."""
    report, alert = due.report, due.alert
    tracker = report.facets.tracker.value
    return Message(
        run=report.name,
        event=due.event,
        title=f"{_head(due, second)} {report.name}: {alert.id} {alert.title}",
        body="" if due.stage == "closed" else "\n".join(_body(due)),
        severity=due.severity,
        url=None if tracker is None or due.stage == "closed" else tracker.url,
        subjects=_subjects([due]),
    )


def _head(due: Due, second: str | None) -> str:
    waited = duration(max(0.0, due.waited))
    if due.stage == "again":
        return f"[critical, unacknowledged for {waited}]"
    if due.stage == "second":
        return f"[critical, for {second}: unacknowledged for {waited}]"
    if due.stage == "passed":
        return f"[closed unseen: {due.alert.severity.value}]"
    return "[closed]" if due.stage == "closed" else f"[{due.alert.severity.value}]"


def _body(due: Due) -> Iterator[str]:
    report, alert, over = due.report, due.alert, due.stage == "passed"
    began = utc_minute(alert.since)
    since = "an unknown time" if began == UNKNOWN else f"{began}{alert.or_before}"
    job = phase_text(report.facets.job)
    yield f"since {since} ({alert.confidence}); job {job}, step {report.progress.words}"
    yield from (f"- {each.text} [{each.source}]" for each in alert.evidence[:EVIDENCE_SHOWN])
    named = {each.key: each for each in report.alerts}
    for other in (named[key] for key in alert.consequences if key in named):
        yield f"follows from it: {other.id} {other.title}"
    yield "next: it has ended; check what it left behind" if over else f"next: {alert.next_action}"
    if report.spec.dri is not None:
        yield f"DRI: {report.spec.dri}"
    if not over:
        yield f"to acknowledge: cockpit ack {report.name} {shlex.quote(alert.key)} --by NAME"


def together(found: Iterable[Due]) -> list[tuple[Due, ...]]:
    """Return what is due, with what goes in one message together: ten messages teach to read none.

    That is what nobody has taken yet, and the same trouble of several runs of one place that
    began at one moment (a host that went down ends all its jobs).
    """
    groups: list[list[Due]] = []
    for each in found:
        fits = (group for group in groups if _joins(each, group[0]))
        group = next(fits, None)
        if group is None:
            groups.append([each])
        else:
            group.append(each)
    return [tuple(group) for group in groups]


def _joins(each: Due, first: Due) -> bool:
    if each.stage != first.stage or each.stage not in ("open", "again", "second"):
        return False
    if each.stage != "open":
        return True
    same = (each.alert.id, each.alert.severity) == (first.alert.id, first.alert.severity)
    place = _place(each.report)
    at_once = abs(each.alert.since - first.alert.since) <= SAME_MOMENT
    other = each.report.name != first.report.name
    return same and at_once and other and place is not None and place == _place(first.report)


def _place(report: RunReport) -> str | None:
    """Return the machine or controller that a run's job depends on, if one is named."""
    spec, job = report.spec.job, report.facets.job.value
    if spec is None:
        return None
    node = None if job is None else job.node
    return node or spec.host or spec.address or spec.controller_url or spec.cluster


def message_of_all(group: Sequence[Due], second: str | None) -> Message:
    """Return the one message for what goes together; that of the event for a single one."""
    first = group[0]
    if len(group) == 1:
        return message_of(first, second)
    longest = max(group, key=lambda each: each.waited)
    names = list(dict.fromkeys(each.report.name for each in group))
    runs = f"{len(names)} runs" if len(names) > 1 else names[0]
    what = f"{len(group)} criticals" if first.stage != "open" else _common(group)
    return Message(
        run=", ".join(names),
        event=first.event,
        title=f"{_head(longest, second)} {runs}: {what}",
        body="\n".join(_each_line(group)),
        severity=first.severity,
        subjects=_subjects(group),
    )


def _subjects(group: Sequence[Due]) -> tuple[tuple[str, str], ...]:
    """Return what an answer to the message may acknowledge: the alerts that are open."""
    stages = ("open", "again", "second")
    return tuple((each.report.name, each.alert.key) for each in group if each.stage in stages)


def _common(group: Sequence[Due]) -> str:
    place = _place(group[0].report)
    return f"{group[0].alert.id} at one moment on {place}"


def _each_line(group: Sequence[Due]) -> Iterator[str]:
    for each in group[:TOLD_OF]:
        alert, report = each.alert, each.report
        since = f"since {utc_minute(alert.since)}{alert.or_before}"
        yield f"{report.name}: {alert.id} {alert.title}, {since}"
        yield f"  next: {alert.next_action}"
        yield f"  to acknowledge: cockpit ack {report.name} {shlex.quote(alert.key)} --by NAME"
    if len(group) > TOLD_OF:
        yield f"and {len(group) - TOLD_OF} more: see `cockpit check`"


def summary_of(held: Held, event: str) -> Message:
    """Return the one message for what the rate limit kept back."""
    events = held.events
    names = list(dict.fromkeys(run.rpartition("#")[2] for run in held.runs))
    critical = sum(each.endswith((" critical", " again", " second")) for each in events)
    worst = f" ({critical} critical)" if critical else ""
    plural = "s" if len(events) != 1 else ""
    where = f"{len(names)} run{'s' if len(names) != 1 else ''}"
    shown = ", ".join(names[:RUNS_NAMED]) + (", …" if len(names) > RUNS_NAMED else "")
    return Message(
        run=", ".join(names),
        event=event,
        title=f"{len(events)} more alert{plural} in {where}{worst}",
        body=f"{shown}\nthe route's limit for ten minutes is reached; see `cockpit check`",
        severity=Severity.CRITICAL if critical else Severity.ALERT,
    )
