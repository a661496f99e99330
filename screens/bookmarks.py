"""Places in logs that a person keeps, for as long as this window is open."""

from __future__ import annotations

from typing import Final, NamedTuple

MOST: Final = 100
"""Bookmarks in one log."""


class Bookmark(NamedTuple):
    """Where a line starts in its file, and how it reads."""

    offset: int
    words: str


class Bookmarks:
    """The bookmarks of all runs' logs. A log that was replaced by another file has none."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, dict[int, Bookmark]]] = {}

    def of(self, run: str, file: object) -> list[Bookmark]:
        """Return the bookmarks in a file (whatever tells it from others), by their place."""
        kept = self._of(run, file)
        return [kept[at] for at in sorted(kept)]

    def toggle(self, run: str, file: object, mark: Bookmark) -> str:
        """Keep a place, or forget it; return what was done."""
        kept = self._of(run, file)
        if kept.pop(mark.offset, None) is not None:
            return "bookmark removed"
        if len(kept) >= MOST:
            return f"{MOST} bookmarks is the limit: remove one first"
        kept[mark.offset] = mark
        return f"bookmark set ({len(kept)} in this log)"

    def _of(self, run: str, file: object) -> dict[int, Bookmark]:
        known = self._kept.get(run)
        if known is None or known[0] != file:
            known = self._kept[run] = (file, {})
        return known[1]
