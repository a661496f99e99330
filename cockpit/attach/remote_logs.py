"""The logs of an engine's runs as a window reads them: every page comes from the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from cockpit.model.logtext import Hit, LogPage, Matches, Near

Ask = Callable[..., Awaitable[object]]


class RemoteLogs:
    """As ``LogReading``, asked through ``ask``; ``place`` is what the engine last told."""

    def __init__(self, ask: Ask, place: Callable[[str], str | None]) -> None:
        self._ask = ask
        self.place = place

    async def tail(self, run: str, count: int) -> LogPage:
        """Return the last lines."""
        return cast("LogPage", await self._ask("tail", run, count))

    async def page(self, run: str, offset: int, count: int, back: bool) -> LogPage:
        """Return lines that end before ``offset`` (``back``) or start at it."""
        return cast("LogPage", await self._ask("page", run, offset, count, back))

    async def search(self, run: str, term: str, offset: int, back: bool) -> Hit | None:
        """Search a moment for a text: on a match, or where the time ran out."""
        return cast("Hit | None", await self._ask("search", run, term, offset, back))

    async def find(self, run: str, expression: str, offset: int, back: bool) -> Hit | None:
        """Search a moment for a person's regular expression."""
        return cast("Hit | None", await self._ask("find", run, expression, offset, back))

    async def matches(self, run: str, term: str, regex: bool, offset: int) -> Matches:
        """Count a moment: where matching lines start, from ``offset`` on."""
        return cast("Matches", await self._ask("matches", run, term, regex, offset))

    async def sift(self, run: str, offset: int, count: int, back: bool, begin: int) -> LogPage:
        """Read warnings and errors alone for a moment: those before ``offset``, or from it on."""
        return cast("LogPage", await self._ask("sift", run, offset, count, back, begin))

    async def exact_step(self, run: str, step: int) -> Hit | None:
        """Return the newest line that tells exactly this step."""
        return cast("Hit | None", await self._ask("exact_step", run, step))

    async def line_at(self, run: str, number: int) -> int | None:
        """Return where the line of this number (from 1) starts."""
        return cast("int | None", await self._ask("line_at", run, number))

    async def nearest_step(self, run: str, step: int, begin: int) -> Near | None:
        """Return the line after ``begin`` whose training step is nearest."""
        return cast("Near | None", await self._ask("nearest_step", run, step, begin))

    async def nearest_time(self, run: str, at: float, begin: int) -> Near | None:
        """Return the line after ``begin`` whose own time is nearest to ``at``."""
        return cast("Near | None", await self._ask("nearest_time", run, at, begin))
