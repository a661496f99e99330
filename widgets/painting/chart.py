"""A chart of one metric: line, band, round ticks, a faint grid, marks on the axis. Pure.

The axis counts steps, or seconds since the epoch (``by_time``); columns are given in its units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.curve import (
    figures,
    log_values,
    round_steps,
    round_times,
    round_values,
    time_figures,
)
from cockpit.model.observed import Column
from cockpit.model.wording import duration, glyph, number, steps
from widgets.painting.line import ACCENT, DIM, cut, row, text, that_fit, wrapped
from widgets.painting.series import (
    FLAT,
    OUT,
    Cell,
    Scale,
    Series,
    StepAxis,
    curve_cells,
    fold_on,
    mark_edges,
    row_of,
    scale_of,
)

LABELS: Final = 9
LAST: Final = 9
"""Cells at the right edge for the last value."""
ROOMY: Final = 60
"""Cells of a chart from which on the last value has its own place."""
BAND: Final = "$band"
FORMER: Final = "$dim"
GRID: Final = "$line"
BAD: Final = "$critical"
_SMOOTH: Final = 32
"""A mean goes over one in so many of the columns that hold anything."""
LOOSE: Final = 2.0
"""How much further out a value must be before an axis that has shown it leaves it out."""
_CUT: Final = 0.1
"""Share of an axis that non-finite values may fill at its end before it is cut there."""
_WALL: Final = 0.4
"""Share of the healthy part that is left behind the cut, for its words."""


class AxisMark(NamedTuple):
    """Something that happened: its place on the axis, its sign and ink."""

    at: int
    sign: str
    ink: str


class Steady:
    """Lets an axis of values stand, from one painting of a curve to the next, while it holds.

    A value at the limit of what lies beyond the axis moved it, and with it the whole curve, to and
    fro with each new row. Once shown it stays until it is ``LOOSE`` times as far out.
    """

    def __init__(self) -> None:
        self._shown: Scale | None = None

    def scale(self, series: Series, log: bool | None) -> Scale:
        """Return the scale to draw ``series`` on, and remember it."""
        tight, shown = scale_of(series, log), self._shown
        if shown is not None and shown != tight and shown.log == tight.log:
            loose = scale_of(series, log, LOOSE * FLAT)
            low = shown.low if loose.low <= shown.low <= tight.low else tight.low
            high = shown.high if tight.high <= shown.high <= loose.high else tight.high
            tight = Scale(low, high, tight.log)
        self._shown = tight
        return tight


@dataclass(frozen=True)
class Drawing:
    """What is drawn. ``extent`` cuts the axis; ``newest`` is the last value that was logged.

    ``former`` is what an earlier start logged at steps that were trained again; ``cursor`` a
    place on the axis. ``why`` tells of nothing to draw why that is so. ``steady`` is what the
    same curve was drawn on before.
    """

    columns: Sequence[Column]
    former: Sequence[Column] = ()
    extent: tuple[int, int] | None = None
    by_time: bool = False
    log: bool | None = None
    smooth: bool = True
    marks: Sequence[AxisMark] = ()
    newest: float | None = None
    cursor: int | None = None
    why: str = "nothing was logged yet"
    legend: bool = True
    steady: Steady | None = field(default=None, compare=False)


class Broken(NamedTuple):
    """The non-finite values at a curve's end: from where on, up to where, in how many rows."""

    since: int
    last: int
    rows: int
    about: bool


def paint(drawing: Drawing, width: int, height: int) -> list[Content]:
    """Return the chart's lines: the curve, its axis, the labels of that, and the legend."""
    across = width - LABELS - 1
    roomy = width >= ROOMY and drawing.newest is not None
    across -= LAST if roomy else 0
    rows = height - (3 if drawing.legend else 2)
    if across < 8 or rows < 2:
        return [cut(text(("too small for a chart", DIM)), width)]
    if not drawing.columns:
        return wrapped(text((f"? {drawing.why}", DIM)), width, height)
    broken = broken_end(drawing.columns)
    axis = axis_of(drawing, across * 2, broken)
    series = fold_on(drawing.columns, axis)
    scale = (drawing.steady or Steady()).scale(series, drawing.log)
    shown = smoothed(series, scale) if drawing.smooth else series
    walled = broken is not None and axis.first <= broken.since <= axis.last
    if walled and series.extent is not None:
        series = Series(series.axis, [each._replace(bad=False) for each in series.bins])
    lines = _body(drawing, shown, series, scale, across, rows, broken)
    if roomy and drawing.newest is not None:
        newest, finite = drawing.newest, math.isfinite(drawing.newest)
        at = rows - 1 - round((scale(newest) if finite else 1.0) * (rows * 4 - 1)) // 4
        lines[at] = text(lines[at], (f" {number(newest)}", ACCENT if finite else BAD))
    lines.append(_axis_line(drawing.marks, axis, across, broken))
    lines.append(_labels_below(axis, across, by_time=drawing.by_time))
    if drawing.legend:
        lines.append(_legend(drawing, series, shown, scale, width))
    return [cut(line, width) for line in lines]


def broken_end(columns: Sequence[Column]) -> Broken | None:
    """Return the non-finite values that go on to the end, if there are such."""
    ordered = sorted(columns, key=lambda each: each.last)
    begin = len(ordered)
    while begin and ordered[begin - 1].low is None and ordered[begin - 1].nonfinite:
        begin -= 1
    if begin == len(ordered):
        return None
    before = ordered[begin - 1] if begin else None
    mixed = before is not None and before.nonfinite > 0
    since = before.first if before is not None and mixed else ordered[begin].first
    rows = sum(each.nonfinite for each in ordered[max(0, begin - mixed) :])
    return Broken(since, ordered[-1].last, rows, mixed and before is not None
                  and before.first != before.last)  # fmt: skip


def axis_of(drawing: Drawing, count: int, broken: Broken | None) -> StepAxis:
    """Return the axis: what was asked for, or all of it but a long end without a number."""
    first = min(each.first for each in drawing.columns)
    last = max(each.last for each in drawing.columns)
    if drawing.extent is not None:
        first, last = drawing.extent
    elif broken is not None and broken.since > first:
        healthy = broken.since - first
        if last - broken.since > (last - first) * _CUT:
            last = min(last, broken.since + max(1, round(healthy * _WALL)))
    return StepAxis(first, max(first, last), count)


def smoothed(series: Series, scale: Scale) -> Series:
    """Return the series with each mean over its neighbours; extremes and gaps stay.

    What lies beyond the scale stays as it is, and outside of all means: it is marked.
    """
    half, means = smoothing(series), [each.mean for each in series.bins]
    known = [
        (at, mean)
        for at, mean in enumerate(means)
        if mean is not None and scale.low <= mean <= scale.high
    ]
    if not half:
        return series
    bins = list(series.bins)
    for place, (at, _) in enumerate(known):
        reach = min(half, place, len(known) - 1 - place)
        near = [mean for _, mean in known[place - reach : place + reach + 1]]
        middle = sum(mean / len(near) for mean in near)  # the sum of them may be no float any more
        bins[at] = bins[at]._replace(mean=min(max(middle, min(near)), max(near)))
    return Series(series.axis, bins)


def smoothing(series: Series) -> int:
    """Return over how many columns to either side a mean goes; 0 where there are few."""
    return sum(each.mean is not None for each in series.bins) // _SMOOTH // 2


def _body(
    drawing: Drawing,
    shown: Series,
    series: Series,
    scale: Scale,
    across: int,
    rows: int,
    broken: Broken | None,
) -> list[Content]:
    """Return the rows of the curve, each behind its label."""
    ticks = _ticks(scale, rows) if series.extent is not None else {}
    cells = curve_cells(shown, scale, across, rows, ACCENT, BAND)
    if drawing.former:
        former = fold_on(drawing.former, series.axis)
        below = curve_cells(former, scale, across, rows, FORMER, FORMER)
        cells = [
            [cell if cell[0] != " " else under for cell, under in zip(*pair, strict=True)]
            for pair in zip(cells, below, strict=True)
        ]
    for at in ticks:
        cells[at] = [cell if cell[0] != " " else ("┈", GRID) for cell in cells[at]]
    if broken is not None and series.extent is not None:
        _wall(cells, series.axis, broken)
    mark_edges(cells, series, scale, BAD)
    if drawing.cursor is not None:
        place = series.axis.column(drawing.cursor) // 2
        for line in cells:
            if line[place][0] == " " or line[place][1] in (BAND, FORMER, GRID):
                line[place] = ("│", "bold")
    if series.extent is None:
        cells[0] = _written(cells[0], "no finite value here: all is NaN or infinite", 0, BAD)
    return [
        text((f"{ticks.get(at, ''):>{LABELS - 1}} ", DIM), ("┤" if at in ticks else "│", GRID),
             row_of(each))
        for at, each in enumerate(cells)
    ]  # fmt: skip


def _ticks(scale: Scale, rows: int) -> dict[int, str]:
    """Return the labels of a vertical axis by their rows from the top, none beside another."""
    wanted = max(2, min(5, rows // 3))
    values = (log_values if scale.log else round_values)(scale.low, scale.high, wanted)
    placed: dict[int, float] = {}
    for value in values:
        place = rows - 1 - round(scale(value) * (rows * 4 - 1)) // 4
        if all(abs(place - other) > (rows > 4) for other in placed):
            placed[place] = value
    return dict(zip(placed, figures(list(placed.values())), strict=True))


def _wall(cells: list[list[Cell]], axis: StepAxis, broken: Broken) -> None:
    """Draw one line where numbers end, and say what is behind it."""
    if not axis.first <= broken.since <= axis.last:
        return
    place = axis.column(broken.since) // 2
    for line in cells:
        line[place] = ("│", BAD)
    about = "about " if broken.about else ""
    words = ["NaN or inf", f"since {about}{steps(broken.since)}", f"{broken.rows:,} rows"]
    free = len(cells[0]) - place - 2
    begin = place + 2 if free >= max(map(len, words)) else place - 1 - max(map(len, words))
    if begin >= 0 and len(cells) >= len(words) + 2:
        for at, line_words in enumerate(words, 1):
            cells[at] = _written(cells[at], line_words, begin, BAD)


def _written(cells: list[Cell], words: str, begin: int, ink: str) -> list[Cell]:
    words = words[: max(0, len(cells) - begin)]
    return [*cells[:begin], *((letter, ink) for letter in words), *cells[begin + len(words) :]]


def _axis_line(
    marks: Sequence[AxisMark], axis: StepAxis, across: int, broken: Broken | None
) -> Content:
    """Return the axis with what happened: a mark hides none that is worse (they come in order)."""
    cells: list[Cell] = [("─", GRID)] * across
    for mark in marks:
        if axis.first <= mark.at <= axis.last:
            cells = _written(cells, mark.sign, axis.column(mark.at) // 2, mark.ink)
    if broken is not None and broken.last > axis.last > broken.since:
        words = f" axis cut: {steps(broken.since)}–{steps(broken.last)} are NaN or inf "
        if len(words) < across:
            cells = _written(cells, words, across - len(words), BAD)
    return text(" " * LABELS, ("└", GRID), row_of(cells))


def _labels_below(axis: StepAxis, across: int, *, by_time: bool) -> Content:
    """Return steps or times below the columns in which they stand, as many as fit apart."""
    count = max(1, across // 16)
    if by_time:
        places = round_times(axis.first, axis.last, count)
        marks = time_figures(places)
    else:
        places = round_steps(axis.first, axis.last, count)
        marks = [steps(each) for each in places]
    line, labelled = [" "] * across, set[str]()
    ends = {0: 0, len(places) - 1: across - len(marks[-1])} if len(places) > 1 else {0: 0}
    for at in [0, len(places) - 1, *range(1, len(places) - 1)]:
        middle = axis.column(places[at]) // 2 - len(marks[at]) // 2
        begin = ends.get(at, middle)
        free = line[max(0, begin - 1) : begin + len(marks[at]) + 1]
        room = 0 <= begin <= across - len(marks[at]) and not "".join(free).strip()
        if room and marks[at] not in labelled:  # one minute has several ticks of seconds
            labelled.add(marks[at])
            line[begin : begin + len(marks[at])] = marks[at]
    return text((" " * (LABELS + 1) + "".join(line), DIM))


def _legend(drawing: Drawing, series: Series, shown: Series, scale: Scale, width: int) -> Content:
    indent = Content(" " * (LABELS + 1))
    kind = "log" if scale.log else "linear: not all above 0" if drawing.log else "linear"
    room = width - indent.cell_length - len(kind) - 1
    lines = [text(("━ ", ACCENT), (_mean_of(drawing, series, shown), DIM))]
    lines.append(text(("█ ", BAND), ("min–max", DIM)))
    if drawing.former:
        lines.append(text(("█ ", FORMER), ("before a restart", DIM)))
    beyond = _beyond(series, scale)
    most = [*beyond, *lines] if beyond else lines
    return row(text(indent, that_fit(most, room, "  ")), text((kind, DIM)), width)


def _mean_of(drawing: Drawing, series: Series, shown: Series) -> str:
    """Say what the line is: a mean over so many steps, as far as it is smoothed."""
    axis = series.axis
    known = sum(each.mean is not None for each in series.bins)
    if shown is series or known < 2:
        return "mean"
    over = (2 * smoothing(series) + 1) * max(1.0, (axis.last - axis.first) / max(1, known))
    return f"mean of {duration(over) if drawing.by_time else f'{round(over):,} steps'}"


def _beyond(series: Series, scale: Scale) -> list[Content]:
    """Return what lies beyond the axis: in how many columns, and how far; and what is no number."""
    highs = [each.high for each in series.bins if each.high is not None and each.high > scale.high]
    lows = [each.low for each in series.bins if each.low is not None and each.low < scale.low]
    found = [text((f"{glyph('nonfinite')} NaN or inf", BAD))] if series.bad else []
    for name, over, worst in (("above", highs, max), ("below", lows, min)):
        if over:
            said = f"{glyph(name)} {len(over)} beyond, to {number(worst(over))}"
            found.append(text((said, OUT)))
    return found
