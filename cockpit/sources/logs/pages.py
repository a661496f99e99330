"""Bytes of files on other hosts that were sent once, kept for the next look: bounded, in pages.

What is written behind the known bytes does not change them; a file that was truncated or replaced
is told by its identity, its size or by bytes that came again and differ, and is then forgotten.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from cockpit.sources.logs.pieces import PAGE

MOST: Final = 8 << 20
"""Bytes that are kept of one file."""
ALTOGETHER: Final = 64 << 20
"""Bytes that are kept of all files."""

Pages = OrderedDict[int, bytes]
"""Pages by number; the last one of a file may be short."""


class PageCache:
    """The pages of many files, by any key; safe for threads."""

    def __init__(self, most: int = MOST, altogether: int = ALTOGETHER) -> None:
        self._most = most
        self._altogether = altogether
        self._files: OrderedDict[Hashable, Pages] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._kept = 0
        self._lock = threading.Lock()

    @property
    def kept(self) -> int:
        """How many bytes are kept now, by whole pages."""
        return self._kept * PAGE

    def seen(self, key: Hashable, size: int) -> None:
        """Take note of a file's size: one that has shrunk is another text."""
        with self._lock:
            if size < self._sizes.get(key, 0):
                self._forget(key)
            self._sizes[key] = size

    def put(self, key: Hashable, start: int, data: bytes) -> None:
        """Keep bytes that begin at a page; where they differ from those known, forget the file."""
        with self._lock:
            pages = self._files.setdefault(key, OrderedDict())
            new = {(start + at) // PAGE: data[at : at + PAGE] for at in range(0, len(data), PAGE)}
            if any(_differ(pages.get(number, b""), page) for number, page in new.items()):
                self._kept -= len(pages)
                pages.clear()
            for number, page in new.items():
                if len(page) >= len(pages.get(number, b"")):
                    self._kept += number not in pages
                    pages[number] = page
                pages.move_to_end(number)
            self._files.move_to_end(key)
            self._bound(pages)

    def get(self, key: Hashable, start: int, end: int) -> tuple[bytes, int]:
        """Return the bytes known from ``start`` on, up to ``end``, and where they end."""
        with self._lock:
            pages = self._files.get(key)
            if pages is None:
                return b"", start
            self._files.move_to_end(key)
            parts, at = [], start
            while at < end and (page := pages.get(at // PAGE)) is not None:
                pages.move_to_end(at // PAGE)
                part = page[at % PAGE : min(PAGE, at % PAGE + end - at)]
                if not part:
                    break
                parts.append(part)
                at += len(part)
            return b"".join(parts), at

    def drop(self, key: Hashable, before: int) -> None:
        """Let the pages go that end at offset ``before`` or earlier: nobody will ask for them."""
        with self._lock:
            pages = self._files.get(key) or OrderedDict()
            gone = [number for number in pages if (number + 1) * PAGE <= before]
            for number in gone:
                del pages[number]
            self._kept -= len(gone)

    def _bound(self, newest: Pages) -> None:
        while len(newest) * PAGE > self._most:
            newest.popitem(last=False)
            self._kept -= 1
        while self._kept * PAGE > self._altogether and len(self._files) > 1:
            self._forget(next(iter(self._files)))

    def _forget(self, key: Hashable) -> None:
        self._kept -= len(self._files.pop(key, ()))
        self._sizes.pop(key, None)


def _differ(known: bytes, new: bytes) -> bool:
    both = min(len(known), len(new))
    return known[:both] != new[:both]
