"""A log file of any size, read in pages: seek, read a few blocks, show; nothing is indexed.

All functions block (a screen calls them through ``offload``) and raise ``OSError`` when the
file cannot be read. Each opens the file anew, so that a rotated or replaced file is simply
the new one; one on another machine costs one trip for a page. Lines come back safe and with
secrets masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cockpit.model.base import SafeText
from cockpit.model.logtext import Hit, LogPage
from cockpit.sources.logs.lines import BLOCK, RawLine, line_start, lines_before, lines_from
from cockpit.sources.logs.ranged import Opened, Ranged, Span, Wish
from cockpit.sources.logs.scanning import Matcher, ScanStop, scan
from cockpit.text.safe import safe_line
from cockpit.text.scrub import scrub_line

MOST_LINES: Final = 2000
"""Lines of a page at most (memory: a line is at most two blocks)."""
FAR: Final = 512 << 20
"""Bytes that are searched at once on another machine."""
AROUND: Final = 2 * BLOCK
"""Bytes that a page of usual lines takes: asked for at once where a trip costs more than bytes."""


def show(raw: bytes) -> SafeText:
    """Return one raw line as it may be shown: safe, secrets masked."""
    return _show_short(raw) if len(raw) <= _SHORT else _show(raw)


def _show(raw: bytes) -> SafeText:
    return scrub_line(safe_line(raw))


_SHORT: Final = 1024
_show_short = lru_cache(maxsize=2048)(_show)


@dataclass(frozen=True)
class LogFile:
    """One log, wherever it lies."""

    log: Ranged

    def tail(self, count: int) -> LogPage:
        """Return the last ``count`` lines; a last line without line break is one of them."""
        with self.log.open(Wish((Span(0, last=AROUND, to=BLOCK),))) as log:
            size = log.stat.size
            return _page(lines_before(log, size, min(count, MOST_LINES)), size, size)

    def page(self, offset: int, count: int, back: bool = False) -> LogPage:
        """Return ``count`` lines from the one at ``offset`` on, or those that end before it.

        ``offset`` is a byte offset, at best one that a page has given; others are moved back
        to the start of their line. Beyond the end (a truncated file) it means the end.
        """
        count = min(count, MOST_LINES)
        before, after = (AROUND, BLOCK) if back else (BLOCK, AROUND)
        wish = Wish((Span(max(0, offset - before), offset + after, to=BLOCK),))
        with self.log.open(wish) as log:
            size = log.stat.size
            at = line_start(log, offset, size)
            lines = lines_before(log, at, count) if back else lines_from(log, at, size, count)
            return _page(lines, at, size)

    def search(
        self,
        pattern: str,
        offset: int,
        back: bool = False,
        budget_s: float = 0.2,
        regex: bool = False,
        ignore_case: bool = True,
    ) -> Hit | None:
        """Find the next line with ``pattern`` at or after ``offset`` (``back``: before it).

        Stops after about ``budget_s`` seconds with ``Hit(found=False, offset)``: search again
        from there. ``None``: there is no match from ``offset`` to the end (the beginning).
        Colours do not hide a match. Raises ``ValueError`` for a bad regular expression.
        """
        matcher = Matcher.of(pattern, regex, ignore_case)
        with self.log.open() as log:
            size = log.stat.size
            at = line_start(log, offset, size)
            if self.log.far and not regex:
                stop = _scan_there(log, matcher, pattern.encode(), ignore_case, at, back)
            else:
                stop = scan(log, matcher, at, size, back, budget_s)
        if stop is None:
            return None
        if stop.line is None:
            return Hit(False, stop.at, stop.at)
        return Hit(True, stop.line.start, stop.line.end, show(stop.line.data))


def _scan_there(
    log: Opened, matcher: Matcher, raw: bytes, ignore_case: bool, at: int, back: bool
) -> ScanStop | None:
    """Scan a log of another machine: what is near is read, what is farther is searched there."""
    size = log.stat.size
    stop = scan(log, matcher, at, size, back, 0.0)
    if stop is None or stop.line is not None:
        return stop
    if back:
        begin, end = line_start(log, stop.at - FAR, size), stop.at
    else:
        begin, end = stop.at, min(size, stop.at + FAR)
        end = end if end == size else line_start(log, end, size)
    try:
        found = log.find_there(raw, ignore_case, begin, end, back)
    except OSError:
        return stop
    if found is not None:
        line = lines_from(log, line_start(log, found, size), size, 1)[0]
        return ScanStop(line.start, line)
    if (begin <= log.stat.begin) if back else (end >= size):
        return None
    return ScanStop(begin if back else end, None)


def _page(lines: list[RawLine], at: int, size: int) -> LogPage:
    return LogPage(
        lines=tuple(show(line.data) for line in lines),
        offsets=tuple(line.start for line in lines),
        start=lines[0].start if lines else at,
        end=lines[-1].end if lines else at,
        size=size,
    )
