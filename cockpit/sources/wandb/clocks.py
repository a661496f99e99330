"""How far a trainer's clock is off, told by its own file.

A row's time is the trainer's word. The file bears witness against it: a row cannot have been
logged after the file was written, and it lies between two records of the client, which stamps
those itself every few seconds. Where nothing decides it, the clock is taken to be right.
"""

from __future__ import annotations

from typing import Final, NamedTuple

AHEAD: Final = 5.0
"""Seconds by which a time may lie after the file's last write."""
BEHIND: Final = 60.0
"""Seconds by which a row may lie before the record before it, or before what was seen then."""
SAME: Final = 60.0
"""Seconds by which two estimates of one offset may differ: rows are flushed late."""
ZONE: Final = 900.0
FARTHEST_ZONE: Final = 14 * 3600.0
"""Time zones lie whole quarters of an hour apart; none is farther away."""


LATEST: Final = 4e9
"""Seconds since the epoch that no true time reaches: what is beyond is in other units."""


def true_time(at: float | None) -> float | None:
    """Return a logged time if it can be one: neither infinite nor in milliseconds."""
    return at if at is not None and 0.0 < at < LATEST else None


class Stamps(NamedTuple):
    """The newest times in a file: of its last row, and of the client's records around that.

    ``before`` and ``after`` are the records next to the row, ``newest`` the last one of all.
    """

    row: float | None = None
    before: float | None = None
    after: float | None = None
    newest: float | None = None


class Look(NamedTuple):
    """What was seen of a file at one look, and how far its trainer's clock was then off."""

    stamps: Stamps
    mtime: float
    offset: float


def offset_of(stamps: Stamps, mtime: float, former: Look | None) -> float:
    """Return the trainer's clock minus ours (s), 0 where it is right or nothing decides.

    ``former`` is the look before this one; an estimate that holds is not changed for little.
    """
    if stamps.row is None:
        return 0.0 if former is None else former.offset
    found = _by_records(stamps, mtime)
    if found is None and former is not None and former.stamps.row == stamps.row:
        return former.offset  # nothing new was logged: only the file was touched
    if found is None:
        found = _by_writes(stamps, stamps.row, mtime, former)
    if former is None or not found or not former.offset or abs(found - former.offset) > SAME:
        return found
    return max(found, former.offset)


def _by_records(stamps: Stamps, mtime: float) -> float | None:
    """Return the offset by the client's records around the row; ``None`` without any after it."""
    row, after = stamps.row, stamps.after
    if row is None or after is None or stamps.newest is None:
        return None
    own = stamps.newest - mtime if stamps.newest - mtime > AHEAD else 0.0
    early = stamps.before is not None and row < stamps.before - BEHIND
    return row - (after - own) if row > after + AHEAD or early else own


def _by_writes(stamps: Stamps, row: float, mtime: float, former: Look | None) -> float:
    """Return the offset of a row that was the last thing written, as of ``mtime``."""
    if row > mtime + AHEAD:
        return row - mtime
    late = mtime - row
    if late <= BEHIND:
        return 0.0
    if stamps.before is not None:
        behind = row < stamps.before - BEHIND
    elif former is not None:
        behind = row < former.mtime - BEHIND
    else:
        behind = late <= FARTHEST_ZONE and abs(late - round(late / ZONE) * ZONE) <= BEHIND
    return -late if behind else 0.0
