"""The bookmarks of logs, kept between sessions: one small file for each run file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cockpit.app.private_file import alone, private_file, replace_private
from cockpit.model.base import Frozen
from cockpit.model.bookmark import WORDS, Bookmark, Key
from cockpit.runtime.offload import offload
from cockpit.runtime.regular import open_regular
from cockpit.text.safe import plain_text
from screens.bookmarks import MOST_OF_ALL

DEADLINE: Final = 5.0
SAVE_WITHIN: Final = 0.3
"""Seconds that leaving waits for it."""
MOST: Final = 4 << 20
"""Bytes of such a file; what is larger was not written here."""


Tell = Callable[[str], object]


class _Kept(Frozen):
    bookmarks: tuple[Bookmark, ...] = ()


class BookmarkFile:
    """The bookmarks of one run file in ``folder``; both methods block."""

    def __init__(self, folder: Path, run_file: str) -> None:
        self.path = private_file(folder, run_file)

    def load(self) -> tuple[Bookmark, ...]:
        """Return the bookmarks that were kept, oldest first; none where they cannot be read."""
        with suppress(OSError):
            return self._read()
        return ()

    def change(self, changes: Mapping[Key, Bookmark | None]) -> None:
        """Keep and forget some; others that another window has set meanwhile stay.

        Raises ``OSError``: a file that is there and cannot be read is not written over.
        """
        with alone(self.path):
            kept: dict[Key, Bookmark | None] = {each.key: each for each in self._read()}
            kept.update(changes)
            found = tuple(mark for mark in kept.values() if mark is not None and _told(mark))
            words = _Kept(bookmarks=found[-MOST_OF_ALL:]).model_dump_json()
            replace_private(self.path, words)

    def _read(self) -> tuple[Bookmark, ...]:
        """Return what is there, nothing of a file that was not written here; raises ``OSError``."""
        try:
            with open_regular(str(self.path)) as (fd, _), open(fd, "rb", closefd=False) as file:
                found = _Kept.model_validate_json(file.read(MOST))
        except (FileNotFoundError, ValidationError):
            return ()
        return tuple(
            each.model_copy(update={"words": plain_text(each.words)[:WORDS]})
            for each in found.bookmarks[-MOST_OF_ALL:]
        )


def _told(mark: Bookmark) -> bool:
    """Return whether a file can tell of a bookmark: the path of its log may be no text."""
    return mark.path.isascii() or mark.path == mark.path.encode(errors="replace").decode()


class KeptBookmarks:
    """Writes what a session has changed, off the event loop: a home may lie far away.

    Without a file bookmarks last as long as the session; ``tell`` is told where one cannot be
    written.
    """

    def __init__(self, file: BookmarkFile | None, tell: Tell = lambda said: None) -> None:
        self._file = file
        self._tell = tell
        self._changes: dict[Key, Bookmark | None] = {}
        self._saving = asyncio.Lock()

    async def load(self) -> tuple[Bookmark, ...]:
        """Return what former sessions have kept."""
        if self._file is not None:
            with suppress(TimeoutError):
                return await offload(self._file.load, deadline=DEADLINE)
        return ()

    def keep(self, changes: Mapping[Key, Bookmark | None]) -> None:
        """Remember changes until they are saved."""
        self._changes.update(changes)

    async def save(self) -> None:
        """Write what is not written yet; what could not be in time is tried with the next.

        One writes after the other: each reads what stands in the file and writes it anew.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(SAVE_WITHIN), self._saving:
                await self._write()

    async def _write(self) -> None:
        changes, self._changes = self._changes, {}
        if not changes or self._file is None:
            return
        try:
            await offload(partial(self._file.change, changes), deadline=SAVE_WITHIN)
        except (TimeoutError, asyncio.CancelledError):
            self._changes = changes | self._changes
            raise
        except OSError as error:
            why = (error.strerror or "they cannot be written").lower()
            self._tell(f"bookmarks last as long as this window: {why}")
