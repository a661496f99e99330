"""Which run of a project's database is read: the named one, else the one that goes on. Pure.

trackio opens and closes its database with every write, so no open file tells who lives: rows do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.sources.rowlog.living import RunThere, beside
from cockpit.text.safe import clean

PATIENCE: Final = 5.0
"""Usual gaps between a run's rows after which it has ended, where another one logs on."""
LEAST: Final = 180.0
"""Seconds that are waited for the next row in any case,"""
FIRST: Final = 600.0
"""and of a run with a single row, whose gaps are not known."""
_SHOWN: Final = 5


class LoggedRun(NamedTuple):
    """A run by its rows: the numbers of the first and the last, their times (epoch, s), how many.

    ``key`` is what it is known by in the database: its id, its name in an older file.
    """

    key: str
    name: str
    first: int
    last: int
    began: float
    written: float
    rows: int


class UnsureError(Exception):
    """Several runs go on at once: nobody says which of them is meant."""

    def __init__(self, runs: Sequence[LoggedRun]) -> None:
        by_name = len({each.name for each in runs}) > 1
        shown = [clean(each.name if by_name else each.key, 80) for each in runs[:_SHOWN]]
        more = f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
        advice = f"set trackio.run to the {'name' if by_name else 'id'} of one"
        super().__init__(
            f"cannot tell which run is meant: {', '.join(shown)}{more} log at once; {advice}"
        )


def chosen(runs: Sequence[LoggedRun]) -> LoggedRun:
    """Return the run to read: the one begun last, unless an earlier one has logged on beside it.

    Raises ``UnsureError`` where more than one of them goes on.
    """
    newest = max(runs, key=lambda each: each.first)
    beside_it = [each for each in runs if each.last > newest.first and each is not newest]
    now = max(each.written for each in (newest, *beside_it))
    going_on = [each for each in (newest, *beside_it) if now - each.written <= _patience(each)]
    if len(going_on) > 1:
        raise UnsureError(sorted(going_on, key=lambda each: each.first, reverse=True))
    return going_on[0]


def notes_on(runs: Sequence[LoggedRun], read: LoggedRun) -> tuple[str, ...]:
    """Return a line that names the runs which have logged since the one that is read was begun."""
    since = [RunThere(each.name, each.began, each.written) for each in runs if each is not read]
    own = RunThere(read.name, read.began, read.written)
    return beside([own, *(each for each in since if each.written >= own.began)], own)


def _patience(run: LoggedRun) -> float:
    if run.rows < 2:
        return FIRST
    return max(LEAST, PATIENCE * (run.written - run.began) / (run.rows - 1))
