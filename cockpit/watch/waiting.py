"""The runs that wait for their turn to be worked on."""

from __future__ import annotations

import asyncio


class WaitingRuns:
    """Names of runs, each once, first come first served."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._bell = asyncio.Event()

    def add(self, name: str) -> None:
        """Let a run wait; one that waits already keeps its place."""
        self._names[name] = None
        self._bell.set()

    async def until_any(self) -> None:
        """Return as soon as a run waits."""
        while not self._names:
            await self._bell.wait()
            self._bell.clear()

    def take(self, most: int) -> list[str]:
        """Return the first runs that wait, ``most`` of them; they wait no more."""
        names = list(self._names)[:most]
        for name in names:
            del self._names[name]
        return names
