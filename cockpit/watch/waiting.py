"""The runs that wait for their turn to be worked on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import nsmallest
from typing import Final

HEAD_START: Final = 1000
"""Places by which a run of one rank comes before those of the next: none waits for good."""


class WaitingRuns:
    """Names of runs, each once: by ``rank``, else first come first served."""

    def __init__(self, rank: Callable[[str], int] | None = None) -> None:
        self._names: dict[str, int] = {}
        self._rank = rank
        self._came = 0
        self._bell = asyncio.Event()

    def add(self, name: str) -> None:
        """Let a run wait; one that waits already keeps its place."""
        self._came += 1
        self._names.setdefault(name, self._came)
        self._bell.set()

    async def until_any(self) -> None:
        """Return as soon as a run waits."""
        while not self._names:
            await self._bell.wait()
            self._bell.clear()

    def take(self, most: int) -> list[str]:
        """Return the runs whose turn it is, ``most`` of them; they wait no more."""
        names = nsmallest(most, self._names, key=self._place)
        for name in names:
            del self._names[name]
        return names

    def _place(self, name: str) -> int:
        rank = 0 if self._rank is None else self._rank(name)
        return self._names[name] + rank * HEAD_START
