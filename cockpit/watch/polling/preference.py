"""Which runs are looked at first: those that stand on a screen, then those that are unwell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from cockpit.watch.runstate import RunState

VISIBLE: Final = 0
UNWELL: Final = 1
OTHER: Final = 2


class Preference:
    """Ranks runs; a rank is a head start, so that the last ones wait longer but never for good."""

    def __init__(self, states: Mapping[str, RunState]) -> None:
        self._states = states
        self._visible: frozenset[str] = frozenset()

    def prefer(self, visible: Iterable[str]) -> None:
        """Say which runs stand on a screen now."""
        self._visible = frozenset(visible)

    def rank(self, name: str) -> int:
        """Return the run's rank: the lower, the sooner it is its turn."""
        if name in self._visible:
            return VISIBLE
        state = self._states.get(name)
        if state is None or not state.open:
            return OTHER
        opened = tuple(state.open.values())
        return UNWELL if any(kept.alert.severity.rank > 0 for kept in opened) else OTHER


class Turns:
    """Whose turn it is: those on a screen and the unwell always, of the others the next ``few``.

    So what a second costs does not grow with the fleet.
    """

    def __init__(self, rank: Callable[[str], int], few: int) -> None:
        self._rank = rank
        self._few = few
        self._waiting: list[str] = []

    def take(self, names: Collection[str]) -> list[str]:
        """Return the runs whose turn it is; none waits longer than the others of its rank."""
        others = dict.fromkeys(name for name in names if self._rank(name) >= OTHER)
        known = frozenset(self._waiting)
        waiting = [name for name in self._waiting if name in others]
        waiting += (name for name in others if name not in known)
        now, later = waiting[: self._few], waiting[self._few :]
        self._waiting = later + now
        return [*(name for name in names if name not in others), *now]
