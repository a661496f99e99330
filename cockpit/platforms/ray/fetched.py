"""What was fetched of a log's end, joined to what is spooled of it. Blocking; raises ``OSError``.

Between two looks of one process the bytes themselves tell what is new. After a restart, or where
another process has spooled meanwhile, the lines that are kept do: compared as states, for a
progress bar's line is spooled in parts, and with secrets masked, as they are kept.
"""

from __future__ import annotations

import re
from typing import Final

from cockpit.platforms.ray.tail import Grown, grown
from cockpit.sources.logs.file import show
from cockpit.sources.logs.spool import Spool
from cockpit.sources.logs.stamp import line_time, writes_utc
from cockpit.text.scrub import scrub

COMPARED: Final = 4000
"""Lines that are kept which a fetched end is looked for in."""
STAMPED: Final = 50
"""Lines at the end of a first look in which its last time is looked for."""
_BREAKS: Final = re.compile(rb"[\r\n]+")


class Fetched:
    """One log between two looks."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._cursor: str | None = None
        self._joined = False
        """True while the bytes of the last look are the spool's end."""
        self._data = b""
        self._rest = b""
        self.any = False

    def begins_in_the_middle(self, data: bytes, asked: int) -> bool:
        """Tell whether there are lines before ``data`` of which nothing is known."""
        if self._joined:
            return grown(self._data, data).gap
        return data.count(b"\n") + (not data.endswith(b"\n")) >= asked

    def recall(self) -> bool:
        """Look whether anything is kept of it from before."""
        self.any = self.any or self._spool.cursor() is not None
        return self.any

    def take(self, data: bytes, latest: float, *, over: bool, cut: bool) -> int:
        """Spool what is new in the end of the log and return its lines' number.

        ``cut``: there may be more before ``data``.

        ``latest`` is when it can have been written at the latest (epoch s). A last line without
        line break is spooled with the next ones, or when the log is ``over``.
        """
        if not data and self.recall():
            return 0  # a log does not grow empty: that tells nothing, and what is kept stands
        news, first = self._news(data)
        pending = self._rest + news.new
        end = len(pending) if over else max(pending.rfind(b"\n"), pending.rfind(b"\r")) + 1
        lines = pending[:end].rstrip(b"\r").split(b"\n")
        lines = lines[:-1] if lines[-1] == b"" else lines
        cursor = str(int(self._cursor or "0") + 1) if lines or first else self._cursor
        at = _written_at(data, latest) if first else latest
        hole = cut and (first or news.gap)
        added = self._spool.append(lines, cursor, at, since=self._cursor, hole=hole)
        self._joined, self.any = added, True
        if added:
            self._cursor, self._data, self._rest = cursor, data, pending[end:]
        return len(lines)

    def _news(self, data: bytes) -> tuple[Grown, bool]:
        """Return what is new, and whether nothing at all was kept before."""
        if self._joined:
            return grown(self._data, data), False
        self._rest = b""
        self._cursor = self._spool.cursor()
        if self._cursor is None:
            return Grown(data, gap=False), True
        kept = b"\n".join(self._spool.last(COMPARED)) + b"\n"
        fetched = scrub(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return grown(_states(kept), _states(fetched)), False


def _states(data: bytes) -> bytes:
    return _BREAKS.sub(b"\n", data)


def _written_at(data: bytes, latest: float) -> float:
    """Return when the end of a log was written, as its last line tells; else ``latest``."""
    shown = [show(raw).plain for raw in data.splitlines()[-STAMPED:]]
    newest = [line for line in reversed(shown) if line.strip()]
    said = line_time(newest[0], latest, writes_utc(newest, latest), 0.0) if newest else None
    return latest if said is None else min(said, latest)
