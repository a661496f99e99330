"""Places in logs that a person keeps, and whether each still is where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cockpit.model.logtext import Bookmark, Key
from cockpit.text.safe import clean
from screens.ports import Logs

MOST: Final = 100
"""Bookmarks in one log."""
MOST_OF_ALL: Final = 1000
"""Bookmarks in all logs; beyond it the oldest go."""
UNSEEN: Final = "not looked up yet"
GONE: Final = "gone: the log was rotated or truncated"

Keep = Callable[[Mapping[Key, Bookmark | None]], object]
"""Keeps bookmarks beyond this session, or (``None``) forgets them."""


class Bookmarks:
    """The bookmarks of all runs' logs; ``keep`` is called for each that is set or removed."""

    def __init__(self, keep: Keep = lambda changes: None) -> None:
        self._keep = keep
        self._kept: dict[Key, Bookmark] = {}

    def load(self, kept: Iterable[Bookmark]) -> None:
        """Take what was kept in former sessions; what was set in this one stays."""
        self._kept = {each.key: each for each in kept} | self._kept

    def of(self, run: str) -> list[Bookmark]:
        """Return the bookmarks of a run, by their logs and places."""
        found = (mark for mark in self._kept.values() if mark.run == run)
        return sorted(found, key=lambda mark: (mark.path, mark.offset))

    def toggle(self, mark: Bookmark, gone: Iterable[Key] = ()) -> str:
        """Keep a place, or forget it; return what was done. Full, those that are ``gone`` go."""
        if mark.key in self._kept:
            self.forget([mark.key])
            return "bookmark removed"
        if self._in_log(mark) >= MOST:
            self.forget(gone)
        if self._in_log(mark) >= MOST:
            return f"{MOST} bookmarks is the limit: remove one first"
        self._kept[mark.key] = mark
        self._keep({mark.key: mark})
        self.forget(list(self._kept)[:-MOST_OF_ALL])
        return f"bookmark set ({self._in_log(mark)} in this log)"

    def forget(self, keys: Iterable[Key]) -> None:
        """Remove bookmarks."""
        known = [key for key in keys if self._kept.pop(key, None) is not None]
        if known:
            self._keep(dict.fromkeys(known))

    def _in_log(self, mark: Bookmark) -> int:
        return sum((each.run, each.path) == (mark.run, mark.path) for each in self._kept.values())


class RunMarks:
    """The bookmarks of one run's log as it is now; what has gone is said to be gone.

    A line stands where it stood only if what is read there says so: a bookmark that was not looked
    up is marked nowhere.
    """

    def __init__(self, bookmarks: Bookmarks, logs: Logs, run: str) -> None:
        self._bookmarks = bookmarks
        self._logs = logs
        self._run = run
        self._path = ""
        self._size = 0
        self._why: dict[Key, str] = {}

    def show(self, path: str, size: int) -> None:
        """Take which log it is and how large: another one, or less, is looked up anew."""
        if path != self._path or size < self._size:
            self._why.clear()
        self._path, self._size = path, size

    @property
    def all(self) -> list[Bookmark]:
        """All of the run."""
        return self._bookmarks.of(self._run)

    @property
    def there(self) -> list[Bookmark]:
        """Those whose line is where it was, by their places."""
        return [mark for mark in self.all if not self.why(mark)]

    @property
    def here(self) -> list[Bookmark]:
        """Those of this log that are not known to have gone, by their places."""
        return [mark for mark in self.all if self.why(mark) not in (GONE, _other(mark))]

    @property
    def unseen(self) -> list[Bookmark]:
        """Those of this log that nobody has looked up, or that could not be."""
        return [mark for mark in self.here if self.why(mark)]

    def why(self, mark: Bookmark) -> str:
        """Return why a bookmark cannot be gone to; empty: it can."""
        return _other(mark) if mark.path != self._path else self._why.get(mark.key, UNSEEN)

    def toggle(self, mark: Bookmark) -> str:
        """Keep a line that stands on the screen, or forget it; return what was done."""
        gone = [each.key for each in self.all if self.why(each) == GONE]
        self._why[mark.key] = ""
        return self._bookmarks.toggle(mark, gone)

    async def look_up(self) -> None:
        """Look up all that nobody has looked up, as long as there are answers."""
        for mark in self.unseen:
            if not await self.stands(mark) and self.why(mark) != GONE:
                return

    async def stands(self, mark: Bookmark) -> bool:
        """Read whether a line is where it was; one that cannot be read is unknown, not gone."""
        try:
            page = await self._logs.page(mark.run, mark.begin, mark.context + 1, False)
        except (OSError, TimeoutError) as error:
            said = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self._why[mark.key] = f"unknown: {said.lower() or 'no answer in time'}"
            return False
        self._why[mark.key] = "" if mark.stands_in(page) else GONE
        return not self._why[mark.key]

    def forget(self, mark: Bookmark) -> None:
        """Remove a bookmark."""
        self._bookmarks.forget([mark.key])


def _other(mark: Bookmark) -> str:
    return f"in another log: {clean(mark.path)}"
