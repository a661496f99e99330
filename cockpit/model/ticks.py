"""Where an axis is labelled: at round values, never more than there is room for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import Final

from cockpit.model.wording import clock_time, number

_ROUND: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIMES: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip
"""Seconds that lie between two labels of a time axis; beyond them whole days."""
_NEAR: Final = 0.7
"""A round distance may be by so much smaller than the even one."""
_DAY: Final = 86400
MOST_FIGURE: Final = 8
"""Cells of a value's label."""


def round_values(low: float, high: float, count: int) -> list[float]:
    """Return about ``count`` round values between two, ascending; at least two, else the ends."""
    raw = high / max(1, count) - low / max(1, count)
    while raw > 0 and math.isfinite(raw) and raw > 1e-290:
        power = 10.0 ** math.floor(math.log10(raw))
        step = next((each * power for each in _ROUND if each * power >= raw * _NEAR), raw)
        found = _multiples(step, low, high)
        if len(found) >= 2:
            return found
        raw = step / 4
        if step < abs(high) * 1e-14:
            break
    return [low, high] if low < high else [low]


def _multiples(step: float, low: float, high: float) -> list[float]:
    if step <= 0 or abs(low / step) > 1e15 or (high / step - low / step) > 1000:
        return []
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [min(high, max(low, each * step)) for each in range(first, last + 1)]


def log_values(low: float, high: float, count: int) -> list[float]:
    """Return about ``count`` round values between two above 0, for a logarithmic axis."""
    for digits in ((1,), (1, 3), (1, 2, 5)):
        found = [
            digit * 10.0**power
            for power in range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
            for digit in digits
            if low <= digit * 10.0**power <= high
        ]
        if len(found) >= min(3, count):
            every = math.ceil(len(found) / max(1, count))
            return found[::every]
    return round_values(low, high, count)


def figures(values: Sequence[float]) -> list[str]:
    """Return round values in as few digits as tell them apart, all with as many decimals."""
    most = max(map(abs, values), default=0.0)
    if 1e-3 <= most < 1e7:
        for decimals in range(MOST_FIGURE):
            shown = [f"{value:,.{decimals}f}".replace("-", "−") for value in values]
            exact = all(
                math.isclose(round(value, decimals), value, rel_tol=1e-9, abs_tol=most * 1e-9)
                for value in values
            )
            if exact and max(map(len, shown)) <= MOST_FIGURE:
                return shown
    return _told_apart(values)


def _told_apart(values: Sequence[float]) -> list[str]:
    short = [number(value) for value in values]
    if len(set(short)) == len(short) and max(map(len, short), default=0) <= MOST_FIGURE:
        return short
    for digits in range(2, MOST_FIGURE):
        longer = [f"{value:.{digits}g}".replace("-", "−") for value in values]
        fits = max(map(len, longer)) <= MOST_FIGURE
        if len(set(longer)) == len(longer) and fits:
            return longer
    return [f"{value:.0e}".replace("-", "−") for value in values]


def round_steps(first: int, last: int, count: int) -> list[int]:
    """Return the first step, about ``count`` round ones and the last."""
    if last <= first:
        return [first]
    between = (round(each) for each in round_values(first, last, max(1, count)))
    inner = [each for each in between if first < each < last]
    return list(dict.fromkeys((first, *inner, last)))


def round_times(first: int, last: int, count: int) -> list[int]:
    """Return round moments (epoch s) between two, about ``count``, with both ends."""
    span = max(1, last - first)
    days = -(-span // (_DAY * max(1, count))) * _DAY
    step = next((each for each in _TIMES if span / each <= max(1, count)), days)
    inner = range(-(-(first + 1) // step) * step, last, step)
    return list(dict.fromkeys((first, *inner, last)))


def time_figures(times: Sequence[int], tz: tzinfo | None = None) -> list[str]:
    """Return moments as they are read: ``08:57``, with seconds where they lie close.

    Without a zone they are in the reader's own.
    """
    close = len(times) > 1 and min(_gaps(times), default=60) < 60
    return [clock_time(float(each), tz, seconds=close) for each in times]


def _gaps(times: Sequence[int]) -> Iterable[int]:
    inner = times[1:-1] if len(times) > 3 else times
    return (later - one for one, later in itertools.pairwise(inner))
