"""Where in a log something stands: a line by its number, a step, a moment; nothing is indexed.

Steps and times rise through a log, so the nearest one is found by halving, in a file of any
size. All functions block and raise ``OSError``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from cockpit.model.logtext import Near
from cockpit.runtime.regular import open_regular
from cockpit.sources.logs.lines import BLOCK, RawLine, iter_lines, line_start, lines_before, read_at
from cockpit.sources.logs.stamp import line_time, writes_utc
from cockpit.text.progress import read_progress
from cockpit.text.safe import safe_line

PROBE: Final = 4 * BLOCK
"""Bytes in which one line that tells a value is looked for."""
NEAR: Final = 2 * BLOCK
"""Bytes that are read line by line in the end."""
_CHUNK: Final = 64 * BLOCK

Value = Callable[[bytes], float | None]


def line_at(path: str, number: int) -> int | None:
    """Return where the line of this number (from 1) starts; ``None`` if there is none."""
    with open_regular(path) as (fd, status):
        at, left = 0, number - 1
        while left > 0 and at < status.st_size:
            data = read_at(fd, at, min(status.st_size, at + _CHUNK))
            breaks = data.count(b"\n")
            if breaks >= left:
                left, at = 0, at + _after(data, left)
            else:
                left, at = left - breaks, at + len(data)
        return at if left == 0 and at < status.st_size else None


def _after(data: bytes, breaks: int) -> int:
    at = 0
    for _ in range(breaks):
        at = data.index(b"\n", at) + 1
    return at


def step_pattern(step: int) -> str:
    """Return an expression for a line that tells exactly this step: ``130`` is not ``1305``."""
    forms = "|".join(dict.fromkeys((str(step), f"{step:,}")))
    number = rf"(?<![\d.,])(?:{forms})(?![\d]|[.,]\d)"
    named = r"(?:step|iter|iteration|it|update|num_updates|batch)s?"
    return rf"(?:\b|_){named}[\"']?(?:\]| |:|=|#|\[|/){{0,4}}{number}|{number}(?:it)?/\d"


def nearest_step(path: str, step: int, begin: int = 0) -> Near | None:
    """Return the line whose training step is nearest; ``None`` if no line tells any."""
    return _nearest(path, step, begin, lambda _newest, _mtime: _step_of)


def nearest_time(path: str, at: float, begin: int = 0) -> Near | None:
    """Return the line whose own time is nearest to ``at``; ``None`` if no line tells any."""

    def value_of(newest: list[str], mtime: float) -> Value:
        utc = writes_utc(newest, mtime)
        return lambda raw: line_time(safe_line(raw).plain, mtime, utc)

    return _nearest(path, at, begin, value_of)


def _step_of(raw: bytes) -> float | None:
    found = read_progress(safe_line(raw).plain)
    return None if found is None or found.scope != "run" else found.step


def _nearest(
    path: str, target: float, begin: int, value_of: Callable[[list[str], float], Value]
) -> Near | None:
    with open_regular(path) as (fd, status):
        size = status.st_size
        newest = [safe_line(line.data).plain for line in reversed(lines_before(fd, size, 50))]
        value = value_of(newest, status.st_mtime)
        low, high = line_start(fd, min(begin, size), size), size
        found: list[Near] = []
        while high - low > NEAR:
            middle = line_start(fd, (low + high) // 2, size)
            probe = next(_values(fd, middle, min(high, middle + PROBE), value), None)
            if middle <= low or probe is None or probe.value >= target:
                high = max(low, min(middle, high - BLOCK))
            else:
                low = probe.offset
            found += [] if probe is None else [probe]
        found += _values(fd, low, min(size, high + PROBE), value)
    return min(found, key=lambda place: (abs(place.value - target), place.offset), default=None)


def _values(fd: int, start: int, end: int, value: Value) -> Iterator[Near]:
    for line in iter_lines(fd, start, end):
        told = _told(line, value)
        if told is not None:
            yield Near(line.start, told)


_DIGIT = re.compile(rb"\d")


def _told(line: RawLine, value: Value) -> float | None:
    return value(line.data) if _DIGIT.search(line.data) else None
