"""Small files of a session, one for each run file: bookmarks of logs, and how the fleet was viewed.

Only their owner can read them. A file that cannot be written is not kept.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from cockpit.model.base import Frozen
from cockpit.model.logtext import WORDS, Bookmark, Key
from cockpit.model.report import GROUPS, SORTS, View
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.offload import offload
from cockpit.text.safe import plain_text
from screens.bookmarks import MOST_OF_ALL

if TYPE_CHECKING:
    from textual.message_pump import MessagePump


def private_file(folder: Path, run_file: str) -> Path:
    """Return the file in ``folder`` that is about one run file."""
    name = hashlib.sha256(str(Path(run_file).absolute()).encode()).hexdigest()[:16]
    return folder / f"{name}.json"


def replace_private(path: Path, words: bytes) -> None:
    """Write a file anew; raises ``OSError``, and leaves it as it was. Blocks.

    It is written beside and moved into place: a reader, or a kill, finds the old or the new.
    """
    made = path.with_suffix(f".{os.getpid()}.new")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(words)
        made.replace(path)
    except OSError:
        made.unlink(missing_ok=True)
        raise


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a file against every other window, by a lock beside it; blocks, raises ``OSError``."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path.with_suffix(".lock"), flags, 0o600), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


DEADLINE: Final = 5.0
SAVE_WITHIN: Final = 0.3
"""Seconds that leaving waits for it."""
MOST_BOOKMARK_BYTES: Final = 4 << 20
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
            found = tuple(
                mark for mark in kept.values() if mark is not None and _can_be_stored(mark)
            )
            words = _Kept(bookmarks=found[-MOST_OF_ALL:]).model_dump_json()
            replace_private(self.path, words.encode())

    def _read(self) -> tuple[Bookmark, ...]:
        """Return what is there, nothing of a file that was not written here; raises ``OSError``."""
        try:
            with open_regular(str(self.path)) as (fd, _), open(fd, "rb", closefd=False) as file:
                found = _Kept.model_validate_json(file.read(MOST_BOOKMARK_BYTES))
        except (FileNotFoundError, ValidationError):
            return ()
        return tuple(
            each.model_copy(update={"words": plain_text(each.words)[:WORDS]})
            for each in found.bookmarks[-MOST_OF_ALL:]
        )


def _can_be_stored(mark: Bookmark) -> bool:
    """Return whether a bookmark can be written: the path of its log may be no text."""
    return mark.path.isascii() or mark.path == mark.path.encode(errors="replace").decode()


class KeptBookmarks:
    """Writes what a session has changed, off the event loop: a home may lie far away.

    Without a file bookmarks last as long as the session; ``tell`` is called where one cannot be
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


SAVE_AFTER: Final = 2.0
"""Seconds in which changes of a view are gathered."""
MOST_VIEW_BYTES: Final = 65_536
"""Bytes of such a file; what is larger was not written here."""


class ViewFile:
    """The view of one run file in ``folder``; both methods block."""

    def __init__(self, folder: Path, run_file: str) -> None:
        self.path = private_file(folder, run_file)

    def load(self) -> View:
        """Return the view that was kept; a plain one where there is none that can be read."""
        try:
            with self.path.open("rb") as file:
                found = View.model_validate_json(file.read(MOST_VIEW_BYTES))
        except (OSError, ValidationError):
            return View.model_construct()
        known = found.sort in SORTS and found.group in GROUPS
        return found if known else found.model_copy(update={"sort": SORTS[0], "group": GROUPS[0]})

    def save(self, view: View) -> None:
        """Keep a view, readable by its owner alone; what cannot be kept is forgotten."""
        with suppress(OSError):
            replace_private(self.path, view.model_dump_json().encode())


class KeptView:
    """The view of a session: kept a moment after it was changed, and when the session ends.

    ``views`` is where; without one it lasts as long as the session.
    """

    def __init__(self, views: ViewFile | None, timers: MessagePump) -> None:
        self._views = views
        self._timers = timers
        self.view = View.model_construct() if views is None else views.load()
        self._saved = self.view
        self._waiting = False

    def keep(self, view: View) -> None:
        """Remember a view, soon: a cursor that moves is not written at every key."""
        self.view = view
        if self._views is not None and view != self._saved and not self._waiting:
            self._waiting = True
            self._timers.set_timer(SAVE_AFTER, self.save)

    async def save(self) -> None:
        """Write what is not written yet, off the event loop: a home may lie far away."""
        self._waiting = False
        if self._views is None or self.view == self._saved:
            return
        self._saved = self.view
        with suppress(TimeoutError):
            await offload(partial(self._views.save, self.view), deadline=SAVE_WITHIN)
