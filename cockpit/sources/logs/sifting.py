"""Warnings and errors of a log alone, a moment at a time, in ranges; nothing is indexed."""

from __future__ import annotations

import re
import time
from typing import Final, NamedTuple

from cockpit.model.base import SafeText
from cockpit.model.logtext import Levels, LogPage
from cockpit.sources.logs.file import MOST_LINES, show
from cockpit.sources.logs.lines import BLOCK, iter_lines, line_start, lines_before
from cockpit.sources.logs.ranged import Opened, Ranged
from cockpit.text.safe import safe_line

CHUNK: Final = 8 * BLOCK
"""Bytes that are sifted at once."""
CONTEXT: Final = 40
"""Lines before a chunk that tell whether its first ones belong to an error above."""
NEAR: Final = BLOCK // 4
"""Bytes before a chunk in which nothing alarming stands either, if it is passed over at once."""
_WORDS: Final = (
    b"warn", b"error", b"exception", b"interrupt", b"fatal", b"critical", b"traceback",
)  # fmt: skip
_GLOG: Final = re.compile(rb"[WEFC]\d{4}")
"""A line, or a chunk of them, has one of these at least if it tells a warning or an error."""


class _Part(NamedTuple):
    lines: list[SafeText]
    offsets: list[int]
    gaps: list[int]
    rest: int


def sift(log: Ranged, offset: int, count: int, back: bool, begin: int, budget_s: float) -> LogPage:
    """Return about ``count`` warnings and errors from ``offset`` on (``back``: before it).

    Stops after about ``budget_s`` seconds: the page tells which bytes were looked at, and has
    perhaps no lines. None are before ``begin``. Raises ``OSError``.
    """
    until, most = time.monotonic() + budget_s, min(count, MOST_LINES)
    parts: list[_Part] = []
    with log.open() as opened:
        size = opened.stat.size
        floor = line_start(opened, begin, size)
        start = end = max(floor, line_start(opened, offset, size))
        while (start > floor) if back else (end < size):
            if back:
                first = max(floor, line_start(opened, start - CHUNK, size))
                parts.insert(0, _part(opened, first, start))
                start = first
            else:
                last = size if end + CHUNK >= size else line_start(opened, end + CHUNK, size)
                parts.append(_part(opened, end, last))
                end = last
            if sum(len(part.lines) for part in parts) >= most or time.monotonic() >= until:
                break
    return _joined(parts, start, end, size)


def _part(opened: Opened, start: int, end: int) -> _Part:
    data = opened.read(max(opened.stat.begin, start - NEAR), end)
    if not _maybe(data):
        own = data[len(data) - (end - start) :]
        return _Part([], [], [], own.count(b"\n") + (not own.endswith(b"\n")))
    levels = Levels()
    for line in lines_before(opened, start, CONTEXT):
        levels.next(safe_line(line.data).plain)
    part, hidden = _Part([], [], [], 0), 0
    for line in iter_lines(opened, start, end):
        if not levels.pending and not _maybe(line.data):
            hidden += 1
            continue
        if levels.next(safe_line(line.data).plain) not in ("W", "E"):
            hidden += 1
            continue
        part.lines.append(show(line.data))
        part.offsets.append(line.start)
        part.gaps.append(hidden)
        hidden = 0
    return part._replace(rest=hidden)


def _maybe(data: bytes) -> bool:
    low = data.lower()
    return any(word in low for word in _WORDS) or _GLOG.search(data) is not None


def _joined(parts: list[_Part], start: int, end: int, size: int) -> LogPage:
    lines, offsets, gaps, rest = list[SafeText](), list[int](), list[int](), 0
    for part in parts:
        lines += part.lines
        offsets += part.offsets
        gaps += [part.gaps[0] + rest, *part.gaps[1:]] if part.gaps else []
        rest = part.rest if part.gaps else rest + part.rest
    return LogPage(tuple(lines), tuple(offsets), start, end, size, tuple(gaps), rest)
