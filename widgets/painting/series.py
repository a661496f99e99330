"""A run's loss over its steps, as a chart draws it: where a step stands, how high a value is.

Both the exact columns of the background pass and the sampled history are used, so that the chart is
alive from the first look and honest as soon as everything has been read. Every chart (panel, list,
run screen) places points and labels by one mapping, ``StepAxis``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.observed import Column
from cockpit.model.report import RunReport
from cockpit.model.wording import glyph, percent, short_number, steps
from widgets.painting import facts
from widgets.painting.line import DIM, Once, cut, fit, row, text, wrapped

_DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
OUT: Final = "$attention"
"""The ink of the mark of a value that lies beyond the axis."""

CURVES: Final = 256
"""Curves that are kept: more than stand on any screen."""

Cell = tuple[str, str]


class StepAxis(NamedTuple):
    """The one mapping of steps to columns: ``first`` is column 0, ``last`` the last."""

    first: int
    last: int
    columns: int

    def column(self, step: int) -> int:
        """Return the column in which ``step`` stands; one beyond an end stands at that end."""
        span = self.last - self.first
        inside = min(max(step, self.first), self.last) - self.first
        return (2 * inside * (self.columns - 1) + span) // (2 * span) if span else 0

    def step(self, column: int) -> int:
        """Return the step that stands nearest to the middle of ``column``."""
        return self.first + round(column * (self.last - self.first) / max(1, self.columns - 1))


class Bin(NamedTuple):
    """What stands in one column: ``low``, ``high`` and ``mean`` of all that is finite there.

    ``seen`` is False where no step of the column was logged, ``bad`` True where something was
    not finite.
    """

    low: float | None = None
    high: float | None = None
    mean: float | None = None
    bad: bool = False
    seen: bool = True


@dataclass
class Series:
    """One bin for each column of ``axis``."""

    axis: StepAxis
    bins: list[Bin]

    @property
    def extent(self) -> tuple[float, float] | None:
        """Return the lowest and highest finite value."""
        lows = [each.low for each in self.bins if each.low is not None]
        highs = [each.high for each in self.bins if each.high is not None]
        return (min(lows), max(highs)) if lows and highs else None

    @property
    def bad(self) -> int:
        """Return how many bins hold something that is not a number."""
        return sum(each.bad for each in self.bins)

    def line(self, scale: Scale) -> list[Bin]:
        """Return the bins with a line between rows that were logged one after the other.

        The line to what lies beyond the axis ends at its edge.
        """
        bins = list(self.bins)
        places = [at for at, each in enumerate(bins) if each.seen]
        for begin, end in pairwise(places):
            for at in range(begin + 1, end):
                share = (at - begin) / (end - begin)
                bins[at] = _between(bins[begin], bins[end], share, scale)
        return bins


def loss_columns(report: RunReport) -> list[Column]:
    """Return everything known of the loss as columns: the tracker's, else the log's rows."""
    tracker = report.facets.tracker.value
    if tracker is not None and (tracker.columns or tracker.history):
        return [*(_point(step, value) for step, value in tracker.history), *tracker.columns]
    log = report.facets.log.value
    rows = log.rows if log is not None else ()
    losses = [(row.step, row.true_loss) for row in rows]
    return [_point(step, loss) for step, loss in losses if step is not None and loss is not None]


def why_no_curve(report: RunReport) -> str:
    """Return why there is no loss to draw."""
    tracker = report.facets.tracker
    value, read = tracker.value, report.facets.log.value
    if value is None and tracker.configured:
        why = "not asked yet" if tracker.error is None else tracker.error.message
        return f"tracker: {why}"
    if value is None:
        log = "no log either" if read is None else "no loss known from the log"
        return f"no tracker in cockpit.toml, {log}"
    if value.step is None and value.last_step_at is None:
        return "nothing was logged yet"
    if value.loss is None and value.scanned >= 1:
        table = next(iter(report.spec.trackers), "wandb")
        return f"no loss among the logged metrics: name it in [run.{table}] metrics"
    return f"not read yet ({percent(value.scanned)})"


def fold(columns: Sequence[Column], count: int) -> Series | None:
    """Fold columns into ``count`` bins over all their steps."""
    if not columns or count < 1:
        return None
    first, last = min(each.first for each in columns), max(each.last for each in columns)
    return fold_on(columns, StepAxis(first, last, count))


def fold_on(columns: Sequence[Column], axis: StepAxis) -> Series:
    """Fold columns into the bins of an axis; those that lie wholly beside it are left out."""
    gathered: list[list[Column]] = [[] for _ in range(axis.columns)]
    for each in columns:
        if each.last >= axis.first and each.first <= axis.last:
            for place in range(axis.column(each.first), axis.column(each.last) + 1):
                gathered[place].append(each)
    return Series(axis, [_bin(each) for each in gathered])


def _bin(found: Sequence[Column]) -> Bin:
    """Return what stands in one column of an axis."""
    known = [(each.low, each.high, each.mean) for each in found]
    ends = [(low, high, mean) for low, high, mean in known if low is not None and high is not None
            and math.isfinite(low) and math.isfinite(high)]  # fmt: skip
    infinite = sum(low is not None and high is not None for low, high, _ in known) > len(ends)
    bad = infinite or any(each.nonfinite > 0 for each in found)
    if not ends:
        return Bin(bad=bad, seen=bool(found))
    low, high = min(min(each[:2]) for each in ends), max(max(each[:2]) for each in ends)
    means = [mean if mean is not None and math.isfinite(mean) else low for low, _, mean in ends]
    middle = sum(mean / len(means) for mean in means)  # the sum of them may be no float any more
    return Bin(low, high, min(max(middle, low), high), bad)


def loss_curve(report: RunReport, count: int) -> Series | None:
    """Return a run's loss folded into ``count`` bins: once for the facts that it is drawn from.

    A list draws it anew for every run in sight at each key.
    """
    tracker, log = report.facets.tracker.value, report.facets.log.value
    if tracker is not None and (tracker.columns or tracker.history):
        log = None  # it is not drawn, and another one at each line
    return _FOLDED.of((tracker, log), count, lambda: fold(loss_columns(report), count))


_FOLDED: Final = Once[Series | None](CURVES)
DRAWN: Final = Once[list[Content]](CURVES)
"""Curves as they were drawn, by their series."""


def _point(step: int, value: float) -> Column:
    if not math.isfinite(value):
        return Column(step, step, None, None, None, 1)
    return Column(step, step, value, value, value, 0)


def _between(one: Bin, other: Bin, share: float, scale: Scale) -> Bin:
    if one.mean is None or other.mean is None:
        return Bin(seen=False)
    begin, end = (min(max(each, scale.low), scale.high) for each in (one.mean, other.mean))
    middle = begin * (1 - share) + end * share
    return Bin(middle, middle, middle, seen=False)


class Scale(NamedTuple):
    """Maps values to 0..1 between ``low`` and ``high``, on a logarithmic axis if ``log``."""

    low: float
    high: float
    log: bool

    def __call__(self, value: float) -> float:
        """Return where ``value`` lies, 0 at the bottom; 0.5 if there is no extent."""
        low, high, value = (_log(v) if self.log else v / 2 for v in (self.low, self.high, value))
        return 0.5 if high <= low else min(1.0, max(0.0, (value - low) / (high - low)))

    def back(self, share: float) -> float:
        """Return the value that lies at ``share``."""
        if self.log:
            low, high = _log(self.low), _log(self.high)
            return math.exp(low + (high - low) * share)
        return self.low * (1 - share) + self.high * share


AUTO_LOG = 6.0
"""An extent of more than this ratio is drawn logarithmically unless asked otherwise."""
FLAT = 6.0
"""What lies this many times the spread of the middle half away from it is beyond the axis."""
START_FLAT = 100.0
"""The same for a curve's beginning: a loss falls, a learning rate warms up, none is an outlier."""
FEW = 4
"""Columns with a value below which nothing can be called an outlier."""


def scale_of(series: Series, log: bool | None = None, flat: float = FLAT) -> Scale:
    """Return the scale on which most of ``series`` can be read; ``log`` ``None`` decides itself.

    A few values far from all others lie beyond it: ``plot`` marks those at the
    edge. Where all are equal they lie in the middle.
    """
    bins = [each for each in series.bins if each.low is not None]
    if not bins:
        return Scale(0.0, 1.0, False)
    # by an eighth: the spread of all floats is more than a float holds
    low, high = _readable(bins, lambda value: value / 8, flat)
    can = min(each.low for each in bins if each.low is not None) > 0
    if can and (high / low > AUTO_LOG if log is None else log):
        low, high = _readable(bins, _log, flat)
        return Scale(low, high, True)
    if low == high:
        room = min(abs(low) / 20, 1e300) or 0.5
        low, high = low - room, high + room
    return Scale(low, high, False)


def _readable(
    bins: Sequence[Bin], by: Callable[[float], float], flat: float
) -> tuple[float, float]:
    """Return the extent of ``bins`` without outliers, measured by ``by`` (as it is, or its log)."""
    lows = [each.low for each in bins if each.low is not None]
    highs = [each.high for each in bins if each.high is not None]
    if len(bins) < FEW:
        return min(lows), max(highs)
    quarter = max(1, len(bins) // 4)
    base, ceiling = sorted((sorted(lows)[quarter], sorted(highs)[-1 - quarter]))
    spread = max(by(ceiling) - by(base), abs(by(ceiling)) / 20)
    top, bottom = by(ceiling) + flat * spread, by(base) - flat * spread
    if by(highs[0]) > top:
        top = by(ceiling) + START_FLAT * spread
    if by(lows[0]) < bottom:
        bottom = by(base) - START_FLAT * spread
    return (
        min((each for each in lows if by(each) >= bottom), default=base),
        max((each for each in highs if by(each) <= top), default=ceiling),
    )


def _log(value: float) -> float:
    return math.log(max(value, 5e-324))


def plot(
    series: Series,
    scale: Scale,
    width: int,
    height: int,
    ink: str,
    band: str,
    bad: str = "$critical",
) -> list[Content]:
    """Return ``height`` rows: the mean as a line, the extremes as a band.

    At the edges stand marks: what lies beyond the axis, and ``×`` for what is no number.
    """
    cells = curve_cells(series, scale, width, height, ink, band)
    mark_edges(cells, series, scale, bad)
    return [row_of(row) for row in cells]


def curve_cells(
    series: Series, scale: Scale, width: int, height: int, ink: str, band: str
) -> list[list[Cell]]:
    """Return the cells of line and band alone, rows from the top.

    They are braille, of two columns and four rows of dots. Where a line runs through a cell of the
    band, only the line is drawn there: it stays crisp.
    """
    top = height * 4 - 1
    around, line = ([[0] * width for _ in range(height)] for _ in range(2))

    def dots(bits: list[list[int]], x: int, low: int, high: int) -> None:
        for up in range(top - min(top, high), top - max(0, low) + 1):
            bits[up // 4][x // 2] |= _DOTS[x % 2][up % 4]

    former: int | None = None
    for x, each in enumerate(series.line(scale)[: width * 2]):
        if each.low is None or each.high is None or each.mean is None:
            former = None
            continue
        low, high, mean = (round(scale(value) * top) for value in (each.low, each.high, each.mean))
        dots(around, x, low, high)
        dots(line, x, mean, mean)
        if former is not None and abs(mean - former) > 1:
            dots(line, x, min(mean, former + 1), max(mean, former - 1))
        former = mean

    def cell(beside: int, within: int) -> Cell:
        inked = chr(0x2800 + (within or beside)), ink if within else band
        return inked if within or beside else (" ", "")

    rows = zip(around, line, strict=True)
    return [[cell(*pair) for pair in zip(*row, strict=True)] for row in rows]


def mark_edges(cells: list[list[Cell]], series: Series, scale: Scale, bad: str) -> None:
    """Mark at the edges what lies beyond the axis; each region of no numbers once."""
    begun = False
    for x, each in enumerate(series.bins[: len(cells[0]) * 2]):
        if each.low is not None and each.low < scale.low and cells[-1][x // 2][1] != bad:
            cells[-1][x // 2] = (glyph("below"), OUT)
        if each.high is not None and each.high > scale.high:
            cells[0][x // 2] = (glyph("above"), OUT)
        if each.bad and not begun:
            cells[-1][x // 2] = (glyph("nonfinite"), bad)
        begun = each.bad or (begun and not each.seen)


def row_of(cells: list[Cell]) -> Content:
    """Return cells as one line."""
    runs = groupby(cells, key=lambda cell: cell[1])
    return text(*(("".join(mark for mark, _ in run), ink) for ink, run in runs))


LEAST_CURVE: Final = 4
UNKNOWN: Final = text(("?", "$unknown"))
"""Stands for a curve where the reason that there is none has no room."""
RANGE: Final = 11
"""Cells for a curve's extent: `` 2.31–3.90``."""
RANGED: Final = 20
"""Cells from which a curve of one row has its extent behind it."""
LABELS: Final = 7
"""Cells for the extent beside a curve of several rows."""


def has_curve(report: RunReport, width: int) -> bool:
    """Return whether there is a curve that can be drawn over so many cells."""
    return width >= LEAST_CURVE and loss_curve(report, 2 * width) is not None


def one_row(report: RunReport, width: int) -> Content:
    """Return the loss as one row of dots without its band, and its extent; or why there is none."""
    room = width - RANGE if width >= RANGED else width
    series = loss_curve(report, 2 * room) if width >= LEAST_CURVE else None
    if series is None:
        why = _why(report)
        return why if why.cell_length <= width else cut(why if width >= RANGED else UNKNOWN, width)
    ink = _ink(report)
    bins = [each._replace(low=each.mean, high=each.mean) for each in series.bins]
    crisp, scale = Series(series.axis, bins), scale_of(series)
    curve = DRAWN.of((series,), (room, ink), lambda: plot(crisp, scale, room, 1, ink, "$band"))[0]
    if room == width or series.extent is None:
        return curve
    low, high = map(short_number, series.extent)
    return text(fit(curve, room), (f" {low}–{high}", DIM))


def paint_loss(report: RunReport, width: int, height: int) -> list[Content]:
    """Return the curve with its extent, its steps below it; on one line without those."""
    if width < LABELS + LEAST_CURVE:
        return []
    series = loss_curve(report, 2 * (width - LABELS))
    if series is None:
        return wrapped(_why(report), width, height)
    if height > 2:
        about = (width, height, _ink(report))
        return DRAWN.of((series,), about, lambda: _several(report, series, width, height))
    room = width - RANGE if width >= RANGED else width
    return [one_row(report, width), _steps(series, room)][:height]


def _several(report: RunReport, series: Series, width: int, height: int) -> list[Content]:
    across, rows = width - LABELS, height - 1
    low, high = map(short_number, series.extent or (None, None))
    labels = [high, *[""] * (rows - 2), low]
    lines = plot(series, scale_of(series), across, rows, _ink(report), "$band")
    lines.append(_steps(series, across))
    return [
        text((f"{label:>{LABELS - 1}} ", DIM), line)
        for label, line in zip([*labels, ""], lines, strict=True)
    ]


def _steps(series: Series, width: int) -> Content:
    first, last = steps(series.axis.first), steps(series.axis.last)
    return row(text(f"step {first}"), text(last), width).stylize(DIM)


def _ink(report: RunReport) -> str:
    alert = facts.loss_alert(report)
    return facts.SEVERITY_STYLE[alert.severity] if alert is not None else "$spark"


def _why(report: RunReport) -> Content:
    """Return why there is no curve."""
    return text((why_no_curve(report), DIM))
