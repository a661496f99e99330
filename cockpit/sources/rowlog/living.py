"""Which of several runs that lie in one folder is the one that is trained now. Pure.

The newest name is not always it: an evaluation that was begun later may be over while the training
goes on, and a start that failed leaves a folder without a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.text.safe import clean

SLACK: Final = 2.0
"""Seconds by which files that were copied together may differ."""
SHOWN: Final = 3


class RunThere(NamedTuple):
    """A run in a folder: when it was begun and last written to (epoch, s).

    ``empty``: it has nothing to tell yet. ``held``: a process has its file open for writing,
    ``None`` where that cannot be seen. ``over``: it says itself that it has ended.
    """

    name: str
    began: float
    written: float
    empty: bool = False
    held: bool | None = None
    over: bool = False


def living(runs: Sequence[RunThere]) -> RunThere:
    """Return the run to read: the one begun last, unless an earlier one goes on beside it."""
    told = [each for each in runs if not each.empty or each.held] or list(runs)
    first, *others = sorted(told, key=lambda each: (each.began, each.name), reverse=True)
    chosen = first
    for earlier in others:
        if _outlives(earlier, chosen):
            chosen = earlier
    return chosen


def _outlives(earlier: RunThere, later: RunThere) -> bool:
    """Tell whether the earlier of two runs still goes on, and is not known to have given way."""
    if earlier.over:
        return False
    if earlier.held or later.held:
        return bool(earlier.held)
    return earlier.written > later.written + SLACK


def beside(runs: Sequence[RunThere], chosen: RunThere) -> tuple[str, ...]:
    """Return one line that names the runs which lie there and are not read; none for one alone."""
    others = [each for each in runs if each.name != chosen.name]
    if not others:
        return ()
    newest = sorted(others, key=lambda each: (each.began, each.name), reverse=True)
    shown = ", ".join(clean(each.name, 80) for each in newest[:SHOWN])
    more = f" and {len(newest) - SHOWN} more" if len(newest) > SHOWN else ""
    verb = "lies" if len(newest) == 1 else "lie"
    return (f"{shown}{more} {verb} there too; {clean(chosen.name, 80)} is read",)
