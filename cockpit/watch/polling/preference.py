"""Which runs are looked at first: those that stand on a screen, then those that are unwell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from cockpit.watch.runstate import RunState

VISIBLE: Final = 0
UNWELL: Final = 1
OTHER: Final = 2
LARGE: Final = 200
"""Runs beyond which a fleet's files are looked at by turns, and what nobody sees less often."""


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
        return UNWELL if state is not None and state.unwell else OTHER


class Turns:
    """Whose turn it is: those on a screen always, of the unwell and of the others the next ``few``.

    So what a second costs does not grow with the fleet, nor when all of it is unwell at once.
    """

    def __init__(self, rank: Callable[[str], int], few: int) -> None:
        self._rank = rank
        self._few = few
        self._waiting: dict[int, dict[str, None]] = {UNWELL: {}, OTHER: {}}

    def take(self, names: Iterable[str]) -> list[str]:
        """Return the runs whose turn it is; none waits longer than the others of its rank."""
        by_rank: dict[int, dict[str, None]] = {VISIBLE: {}, UNWELL: {}, OTHER: {}}
        for name in names:
            by_rank[self._rank(name)][name] = None
        return [*by_rank[VISIBLE], *self._next(UNWELL, by_rank), *self._next(OTHER, by_rank)]

    def _next(self, rank: int, by_rank: Mapping[int, dict[str, None]]) -> list[str]:
        there, known = by_rank[rank], self._waiting[rank]
        if there.keys() != known.keys():
            waiting = [name for name in known if name in there]
            known = dict.fromkeys((*waiting, *there))
            self._waiting[rank] = known
        now = list(islice(known, self._few))
        for name in now:  # behind all others
            del known[name]
            known[name] = None
        return now
