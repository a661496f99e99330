"""What a handoff goes through one by one, and what is said of it in the end. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cockpit.model.records import Unfinished
from cockpit.model.report import RunReport
from cockpit.model.wording import duration, utc_minute

EVIDENCE = 6
"""Lines of evidence that a point shows at most."""


class Point(NamedTuple):
    """Something open: ``key`` is its identity over time, ``evidence`` has (text, source).

    ``since`` is when it began (of what has closed: when that was); ``or_before``: or earlier.
    """

    key: str
    title: str
    code: str = ""
    evidence: tuple[tuple[str, str], ...] = ()
    next: str = ""
    since: float | None = None
    or_before: bool = False


class Mark(NamedTuple):
    """What a person said of a point: discussed, or left open with a note."""

    discussed: bool
    note: str = ""


def points_of(
    report: RunReport,
    unresolved: Sequence[tuple[str, str]],
    draft: Unfinished | None = None,
) -> tuple[Point, ...]:
    """Return the open points of a run; ``unresolved`` has (id and verb, what is known) of actions.

    Order: unresolved actions, alerts, what closed unseen, what is unknown, not written or not
    pushed, the next check.
    """
    return (
        *(Point(f"action:{name}", f"Unresolved: {name}", evidence=((text, "journal"),),
                next="resolve it in the journal") for name, text in unresolved),
        *_alerts(report),
        *_unknown(report),
        *_draft(draft),
        *_records(report),
        _next_check(report),
    )  # fmt: skip


def note_of(points: Sequence[Point], marks: Mapping[str, Mark]) -> str:
    """Return what the page and the logbook are told of the points, in one line."""
    said = {point: marks.get(point.key) for point in points}
    left = [_named(point, mark.note) for point, mark in said.items() if mark and not mark.discussed]
    missed = [_named(point) for point, mark in said.items() if mark is None]
    done = sum(mark is not None and mark.discussed for mark in said.values())
    parts = [f"Discussed: {done} of {len(points)} open points"]
    parts += [f"left open: {'; '.join(left)}"] if left else []
    parts += [f"not gone through: {'; '.join(missed)}"] if missed else []
    return ". ".join(part[0].upper() + part[1:] for part in parts)


def _named(point: Point, note: str = "") -> str:
    code = f" ({point.code})" if point.code else ""
    return f"{point.title}{code}" + (f": {note}" if note else "")


def _alerts(report: RunReport) -> tuple[Point, ...]:
    opened = tuple(
        Point(
            f"{alert.key}:{alert.since:.0f}",  # what has closed and come back is another one
            alert.title,
            alert.id,
            tuple((each.text, each.source) for each in alert.evidence[:EVIDENCE]),
            alert.next_action,
            alert.since,
            alert.since_or_before,
        )
        for alert in report.alerts
    )
    unseen = tuple(
        Point(
            f"closed:{gone.alert.key}:{gone.closed_at:.0f}",
            f"Closed before anybody looked: {gone.alert.title}",
            gone.alert.id,
            tuple((each.text, each.source) for each in gone.alert.evidence[:EVIDENCE]),
            since=gone.closed_at,
        )
        for gone in report.closed
        if not gone.seen
    )
    return opened + unseen


def _unknown(report: RunReport) -> tuple[Point, ...]:
    return tuple(
        Point(
            f"unknown:{name}:{facet.since or 0.0:.0f}",
            f"Unknown: {name}",
            evidence=((facet.error.message, facet.source),),
            since=facet.since,
        )
        for name, facet in report.facets.items()
        if facet.configured and facet.error is not None and not facet.known
    )


def _draft(draft: Unfinished | None) -> tuple[Point, ...]:
    """Return that an entry was begun and not saved; never what it says."""
    if draft is None:
        return ()
    return (Point(f"draft:{draft.at:.0f}", "A log entry was begun and not saved",
                  evidence=((draft.words, "drafts"),), next="finish the log entry, or empty it"),
            )  # fmt: skip


def _records(report: RunReport) -> tuple[Point, ...]:
    value = report.facets.records.value
    if value is None or value.pushed is not False:
        return ()
    why = value.held or value.logbook or "logbook"
    return (Point("records", "Logbook entries are not pushed", evidence=((why, "records"),)),)


def _next_check(report: RunReport) -> Point:
    due, watched = report.next_check_at, report.watched_by
    at = utc_minute(due) if due is not None else "not known"
    who = f"watched by {watched}" if watched else "only while a cockpit is open"
    told = (f"every {duration(report.spec.cadence)}, {who}", "watch")
    return Point("next-check", f"Next check: {at}", evidence=(told,), next=report.next_action)
