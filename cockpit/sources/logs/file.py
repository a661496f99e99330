"""A log file of any size, read in pages: seek, read a few blocks, show; nothing is indexed.

A page is the one at an offset, at a line's number, at a step or a moment, or of warnings and
errors alone. All functions block (a screen calls them through ``offload``) and raise ``OSError``
when the file cannot be read. Each opens the file anew, so that a rotated or replaced file is simply
the new one; one on another machine costs one trip for a page. Lines come back safe and with secrets
masked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from cockpit.model.base import SafeText
from cockpit.model.logtext import Hit, Levels, LogPage, Near
from cockpit.sources.logs.ranged import (
    BLOCK,
    Opened,
    Ranged,
    RawLine,
    Span,
    Wish,
    iter_lines,
    line_start,
    lines_before,
    lines_from,
)
from cockpit.sources.logs.search import Matcher, ScanStop, scan
from cockpit.sources.logs.stamp import dated_time, line_time, writes_utc
from cockpit.text.progress import read_progress
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


PROBE: Final = 4 * BLOCK
"""Bytes in which one line that tells a value is looked for."""
NEAR: Final = 2 * BLOCK
"""Bytes that are read line by line in the end."""

BURST: Final = 64 * BLOCK
"""Bytes of lines of one moment, at most, that are read to find the last of them."""

Value = Callable[[bytes], float | None]
ValueOf = Callable[[list[str], float], Value]


def line_at(log: Ranged, number: int) -> int | None:
    """Return where the line of this number (from 1) starts; ``None`` if there is none."""
    with log.open() as opened:
        at = opened.after_breaks(number - 1)
        return at if at is not None and at < opened.stat.size else None


def step_pattern(step: int) -> str:
    """Return an expression for a line that tells exactly this step: ``130`` is not ``1305``."""
    forms = "|".join(dict.fromkeys((str(step), f"{step:,}")))
    number = rf"(?<![\d.,])(?:{forms})(?![\d]|[.,]\d)"
    named = r"(?:step|iter|iteration|it|update|num_updates|batch)s?"
    return rf"(?:\b|_){named}[\"']?(?:\]| |:|=|#|\[|/){{0,4}}{number}|{number}(?:it)?/\d"


def nearest_step(log: Ranged, step: int, begin: int = 0) -> Near | None:
    """Return the line whose training step is nearest; ``None`` if no line tells any."""
    return _nearest(log, step, begin, lambda _newest, _mtime: _step_of)


def nearest_time(log: Ranged, at: float, begin: int = 0) -> Near | None:
    """Return the line whose own time is nearest to ``at``; ``None`` if no line tells any."""
    return _nearest(log, at, begin, _timed(line_time))


def written_by(log: Ranged, at: float) -> int | None:
    """Return where the last line ends that says, with a date, that it was written by ``at``.

    ``None`` if no line tells a date. Raises ``OSError`` where too many lines have that time.
    """
    value_of = _timed(dated_time)
    near = _nearest(log, at, 0, value_of)
    if near is None or near.value > at:
        return None if near is None else near.offset
    end = near.offset
    with log.open(Wish((Span(end, end + PROBE, to=BLOCK),))) as opened:
        size, value = opened.stat.size, _value(opened, value_of)
        for line in iter_lines(opened, end, min(size, near.offset + BURST)):
            told = _value_of_line(line, value)
            if told is not None and told > at:
                return end
            end = line.end if told is not None else end
    if near.offset + BURST < size:
        raise OSError(0, "too many lines have that time")
    return end


def _timed(read: Callable[[str, float, bool], float | None]) -> ValueOf:
    def value_of(newest: list[str], mtime: float) -> Value:
        utc = writes_utc(newest, mtime)
        return lambda raw: read(safe_line(raw).plain, mtime, utc)

    return value_of


def _step_of(raw: bytes) -> float | None:
    found = read_progress(safe_line(raw).plain)
    return None if found is None or found.scope != "run" else found.step


def _value(opened: Opened, value_of: ValueOf) -> Value:
    """Return what reads a line's value, as the newest lines and the last write tell."""
    before = lines_before(opened, opened.stat.size, 50)
    return value_of([safe_line(line.data).plain for line in reversed(before)], opened.stat.mtime)


def _nearest(log: Ranged, target: float, begin: int, value_of: ValueOf) -> Near | None:
    with log.open(Wish((Span(0, last=BLOCK, to=BLOCK),))) as opened:
        size, value = opened.stat.size, _value(opened, value_of)
        low, high = line_start(opened, min(begin, size), size), size
        found: list[Near] = []
        while high - low > NEAR:
            middle = line_start(opened, (low + high) // 2, size)
            probe = next(_values(opened, middle, min(high, middle + PROBE), value), None)
            if middle <= low or probe is None or probe.value >= target:
                high = max(low, min(middle, high - BLOCK))
            else:
                low = probe.offset
            found += [] if probe is None else [probe]
        found += _values(opened, low, min(size, high + PROBE), value)
    return min(found, key=lambda place: (abs(place.value - target), place.offset), default=None)


def _values(log: Opened, start: int, end: int, value: Value) -> Iterator[Near]:
    for line in iter_lines(log, start, end):
        told = _value_of_line(line, value)
        if told is not None:
            yield Near(line.start, told)


_DIGIT = re.compile(rb"\d")


def _value_of_line(line: RawLine, value: Value) -> float | None:
    return value(line.data) if _DIGIT.search(line.data) else None


SIFT_CHUNK: Final = 8 * BLOCK
"""Bytes that are sifted at once."""
CONTEXT: Final = 40
"""Lines before a chunk that tell whether its first ones belong to an error above."""
SIFT_NEAR: Final = BLOCK // 4
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
                first = max(floor, line_start(opened, start - SIFT_CHUNK, size))
                parts.insert(0, _part(opened, first, start))
                start = first
            else:
                last = (
                    size if end + SIFT_CHUNK >= size else line_start(opened, end + SIFT_CHUNK, size)
                )
                parts.append(_part(opened, end, last))
                end = last
            if sum(len(part.lines) for part in parts) >= most or time.monotonic() >= until:
                break
    lines, offsets, gaps, rest = list[SafeText](), list[int](), list[int](), 0
    for part in parts:
        lines += part.lines
        offsets += part.offsets
        gaps += [part.gaps[0] + rest, *part.gaps[1:]] if part.gaps else []
        rest = part.rest if part.gaps else rest + part.rest
    return LogPage(tuple(lines), tuple(offsets), start, end, size, tuple(gaps), rest)


def _part(opened: Opened, start: int, end: int) -> _Part:
    data = opened.read(max(opened.stat.begin, start - SIFT_NEAR), end)
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
