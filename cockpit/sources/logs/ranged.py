"""A log as its readers see it, wherever it lies: opened for one look, measured, read in ranges.

``Ranged`` is the log, ``Opened`` one look at it. Followers, pages, searches and diagnoses know
only these two; ``local.py`` (a file of this machine), ``remote.py`` (a file over ssh) and
``spool.py`` (what was fetched by cursor) make them. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import errno
import io
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from cockpit.model.place import Place

COUNTED: Final = 4_194_304
"""Bytes in which line breaks are counted at once."""


class Stat(NamedTuple):
    """What a log is at the moment of a look: ``size`` in bytes, ``mtime`` on this machine's clock.

    ``identity`` (device, inode) tells it from another file of its name; ``version`` is another
    one whenever anything has changed. Before ``begin`` nothing is kept any more.
    """

    size: int
    mtime: float
    identity: tuple[int, int]
    version: Hashable
    begin: int = 0


class Span(NamedTuple):
    """Bytes that a look will need: from ``begin`` to ``end`` (``None``: the end of the log).

    With ``last``, of those only its last so many. ``begin`` is moved back to a multiple of ``to``.
    """

    begin: int
    end: int | None = None
    last: int | None = None
    to: int = 1


class Wish(NamedTuple):
    """What one look is for: bytes that it needs ``unless`` the log's version is still this one.

    A hint, which saves trips to another machine: other bytes can be read as well.
    """

    spans: tuple[Span, ...] = ()
    unless: Hashable = None
    beside: str = ""
    """The beginning of the names that ``Ranged.beside`` will be asked for after this look."""


NOTHING: Final = Wish()


class Opened(ABC):
    """One look at a log. Every method raises ``OSError``."""

    stat: Stat

    @abstractmethod
    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``, fewer if the log has become shorter."""

    def breaks_before(self, end: int) -> int:
        """Return how many line breaks stand before offset ``end``."""
        breaks, at = 0, self.stat.begin
        while at < end:
            data = self.read(at, min(end, at + COUNTED))
            if not data:
                break
            breaks += data.count(b"\n")
            at += len(data)
        return breaks

    def after_breaks(self, breaks: int) -> int | None:
        """Return the offset behind so many line breaks; ``None`` if there are fewer."""
        at, left = self.stat.begin, breaks
        while left > 0 and at < self.stat.size:
            data = self.read(at, min(self.stat.size, at + COUNTED))
            if not data:
                return None
            here = data.count(b"\n")
            if here >= left:
                return at + _behind(data, left)
            left, at = left - here, at + len(data)
        return at if left == 0 else None

    def find_there(
        self, raw: bytes, ignore_case: bool, begin: int, end: int, back: bool
    ) -> int | None:
        """Return where a text first stands in ``[begin, end)`` (``back``: last); ``None``: nowhere.

        For logs that are searched where they lie. Colours do not hide it. Raises ``OSError`` where
        that is not possible, as it is here: read the bytes.
        """
        raise OSError(errno.EOPNOTSUPP, "this log has to be read to be searched")


class Ranged(ABC):
    """One log: its place, and looks at it. Every method raises ``OSError``."""

    place: Place
    far: bool = False
    """True where reading costs trips to another machine."""

    @property
    def path(self) -> str:
        """How the log is named to people and in JSON."""
        return str(self.place)

    @abstractmethod
    def open(self, wish: Wish = NOTHING) -> AbstractContextManager[Opened]:
        """Look at it.

        Raises ``OSError`` (``strerror`` set) if it is not there or no regular file.
        """

    def newest(self) -> Ranged:
        """Return the newest log that its name, perhaps a pattern, matches; itself if none does."""
        return self

    def beside(self, prefix: str) -> Sequence[tuple[Ranged, Stat]]:
        """Return the files of its folder whose names begin so, itself among them."""
        return ()

    def renamed(self) -> Ranged | None:
        """Return where its writer goes on that has renamed it, or lost its name; else ``None``."""
        return None


def _behind(data: bytes, breaks: int) -> int:
    at = 0
    for _ in range(breaks):
        at = data.index(b"\n", at) + 1
    return at


class Stream(io.RawIOBase):
    """An opened log as a file object, for what reads only those (``gzip``)."""

    def __init__(self, log: Opened) -> None:
        super().__init__()
        self._log = log
        self._at = log.stat.begin

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fill ``buffer``, a writable one, and return with how many bytes; 0 at the end."""
        room = memoryview(buffer)  # type: ignore[arg-type]
        data = self._log.read(self._at, min(self._log.stat.size, self._at + len(room)))
        room[: len(data)] = data
        self._at += len(data)
        return len(data)
