"""The loss over the run: a line for the mean, a band for the extremes, marks for non-numbers."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from cockpit.model.observed import Column
from cockpit.model.report import RunReport
from cockpit.model.wording import glyph, number, steps
from widgets.base.painted import Painted
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    STRONG,
    cut,
    fit,
    frame,
    row,
    text,
    whole,
    wrapped,
)
from widgets.painting.series import (
    OUT,
    Scale,
    Series,
    StepAxis,
    fold,
    loss_columns,
    plot,
    scale_of,
    why_no_curve,
)

ZOOMS = (1.0, 0.25, 0.05)
_NAMES = {1.0: "the whole run", 0.25: "the last quarter", 0.05: "the last twentieth"}
LABELS: Final = 9
BAND: Final = "$band"


class LossChart(Painted):
    """A braille chart with axes; ``toggle_log`` and ``zoom`` change what it shows."""

    def __init__(self) -> None:
        super().__init__()
        self._report: RunReport | None = None
        self._log = False
        self._zoom = 0

    def show(self, report: RunReport) -> None:
        """Show a run's loss."""
        self._report = report
        self.repaint()

    def toggle_log(self) -> None:
        """Change between a linear and a logarithmic axis."""
        self._log = not self._log
        self.repaint()

    def zoom(self) -> None:
        """Show the next smaller part of the run, then all of it again."""
        self._zoom = (self._zoom + 1) % len(ZOOMS)
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the framed chart."""
        if self._report is None:
            return []
        columns = loss_columns(self._report)
        tail = ZOOMS[self._zoom]
        why = why_no_curve(self._report)
        body = paint_chart(columns, width - 4, height - 2, self._log, tail, why)
        title = text(("loss ", STRONG), (_NAMES[tail], DIM))
        return frame(body, width, height, title=title, note=self._read())

    def _read(self) -> Content:
        """Return how much of the file has been read, until all of it has."""
        tracker = self._report.facets.tracker.value if self._report is not None else None
        if tracker is None or not tracker.columns or tracker.scanned >= 1:
            return text("")
        return text((f"{tracker.scanned:.0%} read", DIM))


def paint_chart(
    columns: list[Column],
    width: int,
    height: int,
    log: bool | None,
    tail: float,
    why: str = "no loss was logged yet",
) -> list[Content]:
    """Return the chart's lines; the last two are the steps and the legend.

    ``why`` tells of nothing to draw why that is so.
    """
    across = width - LABELS - 1
    if across < 8 or height < 5:
        return [cut(text(("too small for a chart", DIM)), width)]
    series = fold(columns, across * 2, tail)
    if series is None:
        return wrapped(text((f"? {why}", DIM)), width, height)
    scale = scale_of(series, log)
    body = plot(series, scale, across, height - 3, ACCENT, BAND)
    if series.extent is None:
        nothing = "no finite loss here: all that was logged is NaN or infinite"
        body[0] = fit(text((nothing, "$critical")), across)
    labels = _labels(series, scale, height - 3)
    lines = [text(fit(label, LABELS), ("┤" if label.plain else "│", "$line"), line)
             for label, line in zip(labels, body, strict=True)]  # fmt: skip
    axis = text(" " * LABELS, ("└" + "─" * across, "$line"))
    return [*lines, axis, _steps(series.axis, across), _legend(series, scale, log, width)]


def _labels(series: Series, scale: Scale, height: int) -> list[Content]:
    """Return a label for about every fourth row, from the top."""
    if series.extent is None:
        return [EMPTY] * height
    every = max(1, min(4, (height - 1) // 2))
    places = [at for at in range(height) if at % every == 0 or at == height - 1]
    marks = _figures([scale.back(1 - at / max(1, height - 1)) for at in places])
    shown = dict(zip(places, marks, strict=True))
    return [text((f"{shown[at]:>{LABELS - 1}} ", DIM)) if at in shown else EMPTY
            for at in range(height)]  # fmt: skip


def _figures(values: list[float]) -> list[str]:
    """Return the values in as few digits as tell them apart, at most as many as there is room."""
    short = [number(value) for value in values]
    if len(set(short)) == len(short):
        return short
    for digits in range(3, LABELS):
        longer = [f"{value:.{digits}g}".replace("-", "−") for value in values]
        if len(set(longer)) == len(longer) and max(map(len, longer)) < LABELS:
            return longer
    return short


def _steps(axis: StepAxis, across: int) -> Content:
    """Return steps below the columns in which they stand, as many as fit apart."""
    parts = 4 if across >= 60 else 1
    line = [" "] * across
    end = -1
    wanted = [axis.first + (axis.last - axis.first) * at // parts for at in range(parts + 1)]
    for at, step in enumerate(wanted):
        mark, place = steps(step), axis.column(step) // 2
        begin = place - (0 if at == 0 else len(mark) - 1 if at == parts else len(mark) // 2)
        if end < begin and 0 <= begin <= across - len(mark) and step not in wanted[:at]:
            line[begin : begin + len(mark)] = mark
            end = begin + len(mark)
    return text((" " * (LABELS + 1) + "".join(line), DIM))


def _legend(series: Series, scale: Scale, log: bool | None, width: int) -> Content:
    low, high = series.extent or (scale.low, scale.high)
    marks = [text((f"{glyph('nonfinite')} NaN or inf", "$critical"))] if series.bad else []
    if high > scale.high:
        marks.append(text((f"{glyph('above')} to {number(high)}", OUT)))
    if low < scale.low:
        marks.append(text((f"{glyph('below')} to {number(low)}", OUT)))
    lines = text(("━ mean ", ACCENT), (" █ min–max", BAND))
    kind = "log axis" if scale.log else "linear axis: not all above 0" if log else "linear axis"
    indent = Content(" " * (LABELS + 1))
    room = width - indent.cell_length - len(kind) - 1
    most = [lines, *marks]
    if sum(each.cell_length for each in most) + 2 * len(marks) > room:
        most = [*marks, lines]
    return row(text(indent, whole(most, room, "  ")), text((kind, DIM)), width)
