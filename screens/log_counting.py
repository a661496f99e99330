"""Counting in the background how many lines of a log match: "3 of 57", "57+" meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from textual.worker import Worker

from screens.base import Work
from screens.log_reader import LogReader
from widgets.log_view import Count, LogView
from widgets.painting.logline import Regex

MOST: Final = 100_000
"""Matching lines that are counted at most."""
MOST_BYTES: Final = 4 << 30
"""Bytes of a log that are counted at most, from where it is shown."""


class Counting:
    """Counts for one view; ``start`` does some work, ending the one before it."""

    def __init__(self, view: LogView, start: Callable[[Work], Worker[Any]]) -> None:
        self._view = view
        self._start = start
        self._at = self._seen = 0
        self._offsets: list[int] = []
        self._over = True
        self._part = False
        self._counts: tuple[str, int] | None = None

    def forget(self) -> None:
        """Take that something else is searched for, or the same anew."""
        self._counts = None

    def ensure(self, reader: LogReader) -> None:
        """Count what the view marks, unless it was begun already."""
        if self._counts != (self._view.term, reader.floor):
            self.begin(reader)

    def begin(self, reader: LogReader) -> None:
        """Count anew what the view marks."""
        self._offsets, self._at, self._seen = [], reader.floor, 0
        self._over, self._part = False, False
        term = self._view.term
        self._counts = (term, reader.floor)

        async def count() -> None:
            await self._count(reader, term)

        self._start(count)

    def grown(self, reader: LogReader, size: int) -> None:
        """Count on, where all was counted and the log has more by now; anew where it has less."""
        if self._counts is not None and size < self._seen:
            self.begin(reader)
            return
        if self._over and self._view.term and not self._part and size > self._seen:
            self._over, term = False, self._view.term

            async def count() -> None:
                await self._count(reader, term)

            self._start(count)

    async def _count(self, reader: LogReader, term: str) -> None:
        """Count slice by slice; what cannot be counted is not said to be."""
        while not self._over:
            try:
                found = await reader.logs.matches(
                    reader.run, term, isinstance(term, Regex), self._at
                )
            except (OSError, TimeoutError, ValueError):  # the search itself says so
                self._over = self._part = True
                return
            if self._view.term != term:
                return
            self._part |= found.begin > self._at
            new = [at for at in found.offsets if not self._offsets or at > self._offsets[-1]]
            self._offsets += new
            far = found.reached - reader.floor > MOST_BYTES or len(self._offsets) >= MOST
            self._over = far or found.reached in (self._at, found.size)
            self._part |= far
            self._at, self._seen = found.reached, found.size
            self._view.count(Count(self._offsets, self._over and not self._part))
