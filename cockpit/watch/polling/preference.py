"""Which runs are read first: those that stand on a screen, then those that are unwell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
