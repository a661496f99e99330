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
from cockpit.sources.logs.stamp import line_time, writes_utc
from cockpit.text.progress import read_progress
from cockpit.text.safe import safe_line

PROBE: Final = 4 * BLOCK
"""Bytes in which one line that tells a value is looked for."""
NEAR: Final = 2 * BLOCK
"""Bytes that are read line by line in the end."""

Value = Callable[[bytes], float | None]


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

    def value_of(newest: list[str], mtime: float) -> Value:
        utc = writes_utc(newest, mtime)
        return lambda raw: line_time(safe_line(raw).plain, mtime, utc)

    return _nearest(log, at, begin, value_of)


def _step_of(raw: bytes) -> float | None:
    found = read_progress(safe_line(raw).plain)
    return None if found is None or found.scope != "run" else found.step


def _nearest(
    log: Ranged, target: float, begin: int, value_of: Callable[[list[str], float], Value]
) -> Near | None:
    with log.open(Wish((Span(0, last=BLOCK, to=BLOCK),))) as opened:
        size = opened.stat.size
        newest = [safe_line(line.data).plain for line in reversed(lines_before(opened, size, 50))]
        value = value_of(newest, opened.stat.mtime)
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
