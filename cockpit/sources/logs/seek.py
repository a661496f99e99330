"""Where in a log something stands: a line by its number, a step, a moment; nothing is indexed.

Steps and times rise through a log, so the nearest one is found by halving, in a file of any
size. All functions block and raise ``OSError``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from cockpit.model.logtext import Near
from cockpit.sources.logs.lines import BLOCK, RawLine, iter_lines, line_start, lines_before
from cockpit.sources.logs.ranged import Opened, Ranged, Span, Wish
from cockpit.sources.logs.stamp import dated_time, line_time, writes_utc
from cockpit.text.progress import read_progress
from cockpit.text.safe import safe_line

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
            told = _told(line, value)
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
        told = _told(line, value)
        if told is not None:
            yield Near(line.start, told)


_DIGIT = re.compile(rb"\d")


def _told(line: RawLine, value: Value) -> float | None:
    return value(line.data) if _DIGIT.search(line.data) else None
