"""Curves for charts: bounded parts of what was logged, packed columns, labels of axes."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from itertools import repeat
from typing import Any, Final, NamedTuple, overload

from cockpit.model.observed import Column
from cockpit.model.wording import clock_time, number
from cockpit.model.wording import share as share_of

LOSS: Final = "loss"
THROUGHPUT: Final = "throughput"
GRAD_NORM: Final = "grad norm"
LEARNING_RATE: Final = "learning rate"
USUAL: Final = (LOSS, THROUGHPUT, GRAD_NORM, LEARNING_RATE)
"""Metrics that are asked for by what they are, whatever a trainer calls them."""
WHOLE: Final = 1.0


class Part(NamedTuple):
    """What was logged over steps ``[first, last]`` and times ``[begin, end]``.

    ``low``, ``high`` and ``mean`` are of its ``finite`` numbers, ``None`` where it has none;
    ``nonfinite`` counts the others (NaN, ±inf).
    """

    first: int
    last: int
    begin: float | None
    end: float | None
    low: float | None
    high: float | None
    mean: float | None
    finite: int
    nonfinite: int

    @property
    def column(self) -> Column:
        """The part as a chart's column over steps."""
        return Column(self.first, self.last, self.low, self.high, self.mean, self.nonfinite)

    @property
    def timed(self) -> Column | None:
        """The part as a chart's column over times; ``None`` where it tells none."""
        if self.begin is None or self.end is None:
            return None
        at = int(self.begin), int(self.end)
        return Column(*at, self.low, self.high, self.mean, self.nonfinite)


class Point(NamedTuple):
    """One logged value: its step, its time where the row tells it."""

    step: int
    at: float | None
    value: float


class Restart(NamedTuple):
    """Where steps fell back: the first step that was logged again, and when."""

    step: int
    at: float | None


class Span(NamedTuple):
    """What is asked for: an extent (of steps, or of times) in at most ``most`` parts."""

    by_time: bool = False
    low: float | None = None
    high: float | None = None
    most: int = 400


class Curve(NamedTuple):
    """One metric, in order of its steps.

    ``former`` is what was logged before a restart at steps that were trained again. ``extent`` and
    ``times`` are those of the whole run. ``broken`` is the first of the non-finite values that go
    on to the newest (``broken_rows`` of them). ``why`` tells why nothing is known; ``note`` how
    what is known was come by, where it is not every row.
    """

    metric: str
    unit: str | None = None
    parts: tuple[Part, ...] = ()
    former: tuple[Part, ...] = ()
    restarts: tuple[Restart, ...] = ()
    extent: tuple[int, int] | None = None
    times: tuple[float, float] | None = None
    newest: Point | None = None
    broken: Point | None = None
    broken_rows: int = 0
    rows: int = 0
    share: float = WHOLE
    note: str = ""
    why: str = ""


class Curves(NamedTuple):
    """What was asked for, in its order; ``names`` are the metrics that there are."""

    names: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()


def of_columns(metric: str, columns: Sequence[Column], share: float) -> Curve:
    """Return a curve of which only the columns over its steps are known."""
    parts = tuple(
        Part(each.first, each.last, None, None, each.low, each.high, each.mean,
             int(each.low is not None), each.nonfinite)
        for each in columns
    )  # fmt: skip
    extent = (min(p.first for p in parts), max(p.last for p in parts)) if parts else None
    return Curve(metric, parts=parts, extent=extent, share=share)


def step_at(parts: Iterable[Part], at: float) -> int | None:
    """Return the last step that was logged by a time; ``None`` where none was, or none is timed."""
    return max((each.last for each in parts if each.end is not None and each.end <= at),
               default=None)  # fmt: skip


def step_then(curve: Curve, at: float) -> int | None:
    """Return the last step that was logged by a time; ``None`` where its parts do not tell."""
    if curve.times is not None and curve.newest is not None and at >= curve.times[1]:
        return curve.newest.step
    later = any(each.end is not None and each.end > at for each in curve.parts)
    return step_at(curve.parts, at) if later else None


def why_empty(curve: Curve, by_time: bool) -> str:
    """Return why there is nothing to draw of a curve."""
    if curve.why:
        return curve.why
    if not curve.rows and not curve.parts:
        read = f"none of it in the {share_of(curve.share)} that is read"
        return "nothing was logged yet" if curve.share >= WHOLE else read
    if by_time and curve.times is None:
        return "its rows have no time"
    if curve.parts and not any(each.finite for each in curve.parts):
        return "all is NaN or infinite"
    return "nothing was logged in this part of the run"


def curves_in(content: Sequence[Any]) -> Curves:
    """Return curves that crossed as JSON; raises ``TypeError``, ``ValueError``, ``LookupError``."""
    names, curves = content
    return Curves(tuple(str(name) for name in names), tuple(_curve_in(each) for each in curves))


def _curve_in(content: Sequence[Any]) -> Curve:
    curve = Curve(*content)
    return curve._replace(
        parts=tuple(Part(*each) for each in curve.parts),
        former=tuple(Part(*each) for each in curve.former),
        restarts=tuple(Restart(*each) for each in curve.restarts),
        extent=None if curve.extent is None else (curve.extent[0], curve.extent[1]),
        times=None if curve.times is None else (curve.times[0], curve.times[1]),
        newest=None if curve.newest is None else Point(*curve.newest),
        broken=None if curve.broken is None else Point(*curve.broken),
    )


Numbers = tuple["array[int]", "array[int]", "array[float]", "array[float]", "array[float]"]


class PackedColumns(Sequence[Column]):
    """Columns that never change, each made as it is asked for: 8 bytes a figure.

    Raises ``OverflowError`` for a step beyond 63 bits.
    """

    __slots__ = ("_nonfinite", "_numbers")

    def __init__(self, columns: Iterable[Column] = ()) -> None:
        first, last, nonfinite = array("q"), array("q"), array("q")
        low, high, mean = array("d"), array("d"), array("d")
        for column in columns:
            first.append(column[0])
            last.append(column[1])
            low.append(_packed(column[2]))
            high.append(_packed(column[3]))
            mean.append(_packed(column[4]))
            nonfinite.append(column[5])
        self._numbers: Numbers = first, last, low, high, mean
        self._nonfinite: array[int] | None = nonfinite if any(nonfinite) else None

    @classmethod
    def of_rows(cls, steps: array[int], values: array[float]) -> PackedColumns:
        """Return a column for each single row; both arrays are the columns' own from now on."""
        made = cls()
        made._numbers = steps, steps, values, values, values
        return made

    def __len__(self) -> int:
        return len(self._numbers[0])

    def __iter__(self) -> Iterator[Column]:
        first, last, low, high, mean = self._numbers
        if low is mean:  # single rows: each has a figure
            return map(Column, first, last, low, high, mean, repeat(0))
        shown = (map(_shown, each) for each in (low, high, mean))
        return map(Column, first, last, *shown, self._nonfinite or repeat(0))

    @overload
    def __getitem__(self, at: int) -> Column: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Column]: ...

    def __getitem__(self, at: int | slice) -> Column | Sequence[Column]:
        if isinstance(at, slice):
            return tuple(self)[at]
        first, last, low, high, mean = (each[at] for each in self._numbers)
        bad = self._nonfinite[at] if self._nonfinite else 0
        return Column(int(first), int(last), _shown(low), _shown(high), _shown(mean), bad)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedColumns):
            return self is other or self._bytes == other._bytes
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"

    @property
    def _bytes(self) -> tuple[bytes, ...]:
        """All that they are; by it also what is no number equals itself."""
        every: tuple[array[Any] | None, ...] = (*self._numbers, self._nonfinite)
        return tuple(b"" if each is None else each.tobytes() for each in every)


def _packed(figure: float | None) -> float:
    return math.nan if figure is None else figure


def _shown(figure: float) -> float | None:
    return figure if figure == figure else None  # noqa: PLR0124 - not a number: there is none


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
    return _distinct_figures(values)


def _distinct_figures(values: Sequence[float]) -> list[str]:
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
    inner = times[1:-1] if len(times) > 3 else times
    gaps = (later - one for one, later in itertools.pairwise(inner))
    close = min(gaps, default=60) < 60
    return [clock_time(float(each), tz, seconds=close) for each in times]
