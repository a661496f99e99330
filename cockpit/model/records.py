"""What is written into a run's records (SPEC L, S-10 to S-12), and the open points of a handoff."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from cockpit.model.base import Frozen, Instant
from cockpit.model.report import RunReport
from cockpit.model.shared_facts import Rejected as Rejected
from cockpit.model.wording import duration, utc_minute


class EventText(Frozen):
    """What an entry of the event log says. Empty fields are left out; lines may be several.

    ``said`` are lines that other cockpits read back (``cockpit.text.logbook_lines``): no other
    text of an entry is taken for one.
    """

    title: str
    status: str = ""
    evidence: str = ""
    decision: str = ""
    next: str = ""
    said: str = ""


class EventEntry(EventText):
    """One entry of the event log.

    ``at`` is fixed when the event happens, so that writing it again after a crash writes the
    very same entry, which is then found to be there already.
    """

    at: Instant


class InstanceEntry(Frozen):
    """One launched instance; ``fields`` are SPEC L's labels in their order, scrubbed."""

    launch_id: str
    at: Instant
    fields: dict[str, str] = Field(default_factory=dict)


class Opened(Frozen):
    """What an editor begins with; everything in it is safe to show.

    ``text`` is the draft that was left (``draft``), else an entry prefilled from what is
    observed. ``tail`` is the end of the file as it stands, ``note`` what is to be known of it,
    ``trouble`` why nothing can be written at this moment.
    """

    path: str
    text: str = ""
    tail: tuple[str, ...] = ()
    note: str = ""
    draft: bool = False
    trouble: str = ""


class Unfinished(Frozen):
    """A logbook entry that was begun and not saved: by whom (empty: unknown), how long, when last.

    Never what it says.
    """

    by: str
    lines: int
    at: Instant

    @property
    def words(self) -> str:
        """It in a few words."""
        length = f"{self.lines} line{'' if self.lines == 1 else 's'}"
        return (
            f"an unfinished draft by {self.by or 'nobody named'}, {length}, {utc_minute(self.at)}"
        )


class SaveStage(StrEnum):
    """How far an entry has come. Each stage includes those before it."""

    NOTHING = "nothing"
    SAVED = "saved"
    COMMITTED = "committed"
    PUSHED = "pushed"


class Recorded(Frozen):
    """How writing a record went: ``trouble`` is one line, what stands in the way and what helps.

    ``busy`` is what is being done at this moment (``pushing``); then nothing is decided.
    ``queued`` is set for a comment that waits for the network, ``as_far`` for a file that has
    come as far as it can: there is no remote to push to, or no repository at all. ``pending`` is
    set for a file that is committed and whose push goes on behind. ``note`` is what a person should
    know of the file although it was written.
    """

    stage: SaveStage
    commit: str | None = None
    trouble: str | None = None
    busy: str | None = None
    queued: bool = False
    as_far: bool = False
    pending: bool = False
    note: str | None = None
    url: str | None = None

    @property
    def lasting(self) -> bool:
        """True when it is where it should be, or will be sent by itself: nothing is lost."""
        return self.trouble is None or self.queued or self.as_far


class Claim(Frozen):
    """A guard that other machines can see, read or taken (SPEC A, "Two machines").

    ``level`` is ``pass`` (it is free, or ours), ``warn`` (it cannot be used here, why is in
    ``text``) or ``block`` (someone else holds it). ``holder`` is who; ``launch_id`` what for.
    ``launched_by`` names another machine that has launched under ``launch_id``. ``unanswered``:
    whoever keeps the guard was asked and did not tell. ``final``: nobody passes over it, since its
    holder is a process of this machine that lives, or since what lies there is no lease.
    ``promised``: a plan took it for usable, and then it could not be taken.
    """

    level: str
    text: str
    holder: str | None = None
    launch_id: str | None = None
    at: Instant | None = None
    launched_by: str | None = None
    unanswered: bool = False
    final: bool = False
    promised: bool = False


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


class PointMark(NamedTuple):
    """A person's mark on a point: discussed, or left open with a note."""

    discussed: bool
    note: str = ""


def points_of(
    report: RunReport, unresolved: Sequence[tuple[str, str]], draft: Unfinished | None = None
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


def note_of(points: Sequence[Point], marks: Mapping[str, PointMark]) -> str:
    """Return the summary of the points for the page and the logbook, in one line."""
    said = {point: marks.get(point.key) for point in points}
    left = [
        _point_text(point, mark.note) for point, mark in said.items() if mark and not mark.discussed
    ]
    missed = [_point_text(point) for point, mark in said.items() if mark is None]
    done = sum(mark is not None and mark.discussed for mark in said.values())
    parts = [f"Discussed: {done} of {len(points)} open points"]
    parts += [f"left open: {'; '.join(left)}"] if left else []
    parts += [f"not gone through: {'; '.join(missed)}"] if missed else []
    return ". ".join(part[0].upper() + part[1:] for part in parts)


def _point_text(point: Point, note: str = "") -> str:
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
    checks = (f"every {duration(report.spec.cadence)}, {who}", "watch")
    return Point("next-check", f"Next check: {at}", evidence=(checks,), next=report.next_action)
