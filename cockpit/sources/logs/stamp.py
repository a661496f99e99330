"""The time that a log line carries at its start, and the rows of training progress in new lines.

``2026-11-21T08:06:59.5Z`` · ``2026-11-21 08:06:59,123`` · ``2026/11/21 08:06:59`` ·
``I20261121 08:06:59`` (absl, Levanter) · ``I1121 08:06:59.5`` (glog) · ``08:06:59``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Row
from cockpit.text.progress_lines import Nesting, read_more
from cockpit.text.safe import safe_line

REACH: Final = 64
"""Characters of a line in which its time is looked for."""
AHEAD: Final = 300.0
"""Seconds by which a stamp may lie after the file's mtime (clocks of two machines)."""

_NO_DATE, _NO_YEAR = 4, 8  # leap years, so that 29 February is a day

_CLOCK = r"(?P<h>[01]\d|2[0-3]):(?P<m>[0-5]\d):(?P<s>[0-5]\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"\s?(?P<zone>Z\b|UTC\b|[+-][01]\d:?[0-5]\d\b)?"
_FORMS: Final = tuple(
    late_regex(form)
    for form in (
        r"(?<!\d)(?P<Y>(?:19|20)\d\d)(?P<sep>[-/])(?P<M>\d\d)(?P=sep)(?P<D>\d\d)[T ,]+"
        + _CLOCK
        + _ZONE,
        r"^\W*[IWEFDC](?P<Y>20\d\d)(?P<M>\d\d)(?P<D>\d\d) +" + _CLOCK,
        r"^\W*[IWEFDC](?P<M>\d\d)(?P<D>\d\d) +" + _CLOCK,
        r"^[\[(]?" + _CLOCK + r"(?=$|[\])|\s])",
    )
)


def read_stamp(line: str) -> datetime | None:
    """Return the time at the start of ``line`` as it is written, or ``None``.

    Without a zone it is naive, in whichever zone the writer used. Without a date its year is
    ``_NO_DATE``, without a year ``_NO_YEAR``.
    """
    head = line[:REACH]
    for form in _FORMS:
        found = form.search(head)
        if found is not None:
            return _stamp(found.groupdict())
    return None


def _stamp(parts: dict[str, str | None]) -> datetime | None:
    known = {name: int(parts[name] or 0) for name in ("h", "m", "s")}
    micro = int((parts["f"] or "0").ljust(6, "0")[:6])
    dated = parts.get("M") is not None
    year = int(parts.get("Y") or (_NO_YEAR if dated else _NO_DATE))
    month, day = int(parts.get("M") or 1), int(parts.get("D") or 1)
    zone = _zone(parts.get("zone"))
    try:
        return datetime(year, month, day, known["h"], known["m"], known["s"], micro, tzinfo=zone)
    except ValueError:
        return None


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text in ("Z", "UTC"):
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def writes_utc(newest_first: Iterable[str], mtime: float) -> bool:
    """Tell whether a log writes its times in UTC rather than in this machine's zone.

    The newest time without a zone must be that of the last write, so the reading that comes
    nearest to ``mtime`` is right; when they are equal it does not matter.
    """
    for line in newest_first:
        stamp = read_stamp(line)
        if stamp is not None and stamp.tzinfo is None:
            local, utc = _believed(stamp, mtime, False), _believed(stamp, mtime, True)
            return utc is not None and (local is None or abs(utc - mtime) < abs(local - mtime))
    return False


def line_time(line: str, mtime: float, utc: bool, offset: float = 0.0) -> float | None:
    """Return when ``line`` says it was written, on our clock; ``None`` without a believable time.

    ``offset`` is how far the writer's clock is ahead of ours (s). A time well after ``mtime``,
    the file's last write, is not believable.
    """
    stamp = read_stamp(line)
    said = None if stamp is None else _believed(stamp, mtime + offset, utc)
    return None if said is None else said - offset


def dated_time(line: str, mtime: float, utc: bool) -> float | None:
    """Return the same of a line that tells a date; a time of day alone may be that of any day."""
    stamp = read_stamp(line)
    if stamp is None or stamp.year <= _NO_DATE:
        return None
    return _believed(stamp, mtime, utc)


def clock_offset(
    newest_first: Iterable[str], mtime: float, utc: bool, former: float, *, grown: bool
) -> float:
    """Return how far the clock of a log's writer is ahead of ours (s), 0 where nothing tells.

    The last line was written by the last write. That of a log which only stands there since a
    while can be old, so a clock that is behind is believed of one that has just ``grown``, or
    where it is off by a time zone. ``former`` is what was known before.
    """
    last = next((line for line in newest_first if line.strip()), None)
    stamp = None if last is None else read_stamp(last)
    if stamp is None:
        return former
    try:
        offset = _instant(stamp, mtime + AHEAD + WIDEST, utc) - mtime
    except (OverflowError, ValueError, OSError):
        return former
    if stamp.year <= _NO_DATE:
        offset = (offset + 43200.0) % 86400.0 - 43200.0  # without a date: the nearest such time
    zone = abs(offset - round(offset / ZONE) * ZONE) <= SAME and abs(offset) <= WIDEST
    if -SAME <= offset <= AHEAD_OF_WRITE:
        return 0.0
    if offset < 0 and not (grown or zone):
        return former
    return former if former and abs(offset - former) <= SAME else offset


ZONE: Final = 900.0
WIDEST: Final = 14 * 3600.0
"""Time zones lie whole quarters of an hour apart, none farther away than this."""
SAME: Final = 60.0
"""Seconds by which a line may be older than the write that brought it."""
AHEAD_OF_WRITE: Final = 5.0


def _instant(when: datetime, near: float, utc: bool) -> float:
    """Return epoch seconds; ``near`` (epoch seconds) completes a missing date or year.

    ``utc`` tells how a time without zone is meant: UTC, or this machine's zone.
    """
    zone = UTC if utc else None
    if when.year > _NO_YEAR:
        return when.replace(tzinfo=when.tzinfo or zone).timestamp()
    today = datetime.fromtimestamp(near, tz=zone)
    years = when.year == _NO_YEAR
    day = when if years else today
    full = when.replace(year=today.year, month=day.month, day=day.day, tzinfo=zone)
    at = full.timestamp()
    if at <= near + AHEAD:
        return at
    return full.replace(year=today.year - 1).timestamp() if years else at - 86400.0


def _believed(stamp: datetime, mtime: float, utc: bool) -> float | None:
    try:
        at = _instant(stamp, mtime, utc)
    except (OverflowError, ValueError, OSError):  # no such day, or outside the clock's range
        return None
    return at if at <= mtime + AHEAD else None


def last_line_at(
    newest_first: Sequence[str], mtime: float, utc: bool, offset: float
) -> float | None:
    """Return when the last line was written: what it says itself, else the file's mtime."""
    last = next((line for line in newest_first if line.strip()), None)
    if last is None:
        return None
    said = line_time(last, mtime, utc, offset)
    return mtime if said is None else said


def written_until(
    states: Sequence[bytes], place: int, *, mtime: float, utc: bool, offset: float
) -> float:
    """Return when a state was written: its own word, else until when by the next that tells one."""
    for raw in states[place : place + _NEXT]:
        said = line_time(safe_line(raw).plain, mtime, utc, offset)
        if said is not None:
            return said
    return mtime


_NEXT: Final = 100
"""States among which one that tells its time is looked for."""
FRESH: Final = 30.0
"""Seconds between two writes within which an unstamped line is as old as the last write."""


def read_rows(
    states: Sequence[bytes],
    mtime: float,
    since: float | None,
    utc: bool,
    step: int | None = None,
    offset: float = 0.0,
    nesting: Nesting | None = None,
) -> list[Row]:
    """Return a row for each state that tells a step of the run (INTERFACE: scope ``run``).

    ``nesting`` knows from the states before which bar is an evaluation's within the training's.

    Figures that are logged without a step belong to the one before them, first of all ``step``.
    A bar's rate is no measurement: it is averaged since the bar was drawn, with the steps that a
    resume skipped, and stands still while nothing steps. Steps over time stand in for it.
    A row's time is the line's own; else ``mtime`` for the last row, and for all if the former
    write (``since``) was less than ``FRESH`` seconds before: an older guess would be a lie.
    """
    rows: list[Row] = []
    for number, progress in read_more(states, nesting or Nesting()):
        if progress.scope != "run" or (progress.step is None and progress.format != "dict"):
            continue
        step = progress.step if progress.step is not None else step
        rate = None if progress.is_bar else per_second(progress.throughput, progress.unit)
        row = Row(
            step,
            line_time(safe_line(states[number - 1]).plain, mtime, utc, offset),
            progress.loss,
            rate,
            progress.grad_norm,
            progress.is_bar,
            *progress.beside,
        )
        rows.append(row)
    fresh = since is not None and mtime - since <= FRESH
    last = len(rows) - 1
    return [
        row._replace(at=mtime) if row.at is None and (fresh or at == last) else row
        for at, row in enumerate(rows)
    ]


def per_second(rate: float | None, unit: str | None) -> float | None:
    """Return a rate for which more is better: ``s/it`` and ``ms/it`` are turned around."""
    if rate is None or unit is None or unit.partition("/")[0] not in _TIMES:
        return rate
    return _TIMES[unit.partition("/")[0]] / rate if rate > 0 else None


_TIMES: Final = {"s": 1.0, "ms": 1000.0, "us": 1e6, "m": 1 / 60, "min": 1 / 60, "h": 1 / 3600}
