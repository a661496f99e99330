"""The loss over the run: a line for the mean, a band for the extremes, marks for non-numbers."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from cockpit.model.observed import Column
from cockpit.model.report import RunReport
from cockpit.model.wording import number, steps
from widgets.base.painted import Painted
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, cut, fit, frame, row, text
from widgets.painting.series import Scale, Series, fold, loss_columns, plot, scale_of

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
        body = paint_chart(columns, width - 4, height - 2, self._log, tail)
        title = text(("loss ", STRONG), (_NAMES[tail], DIM))
        return frame(body, width, height, title=title, note=self._read())

    def _read(self) -> Content:
        """Return how much of the file has been read, until all of it has."""
        tracker = self._report.facets.tracker.value if self._report is not None else None
        if tracker is None or not tracker.columns or tracker.scanned >= 1:
            return text("")
        return text((f"{tracker.scanned:.0%} read", DIM))


def paint_chart(
    columns: list[Column], width: int, height: int, log: bool | None, tail: float
) -> list[Content]:
    """Return the chart's lines; the last two are the axis and the steps below it."""
    across = width - LABELS - 1
    if across < 8 or height < 5:
        return [cut(text(("too small for a chart", DIM)), width)]
    series = fold(columns, across * 2, tail)
    if series is None:
        return [cut(text(("? no loss was logged yet", DIM)), width)]
    scale = scale_of(series.extent or (0.0, 1.0), log)
    body = plot(series, scale, across, height - 3, ACCENT, BAND)
    labels = _labels(series, scale, height - 3)
    lines = [text(fit(label, LABELS), ("┤" if label.plain else "│", "$line"), line)
             for label, line in zip(labels, body, strict=True)]  # fmt: skip
    axis = text(" " * LABELS, ("└" + "─" * across, "$line"))
    return [*lines, axis, _steps(series, across), _legend(series, scale, width)]


def _labels(series: Series, scale: Scale, height: int) -> list[Content]:
    """Return a label for about every fourth row, from the top."""
    if series.extent is None:
        return [EMPTY] * height
    every = max(1, min(4, (height - 1) // 2))
    labels = []
    for at in range(height):
        shown = at % every == 0 or at == height - 1
        value = scale.back(1 - at / max(1, height - 1)) if shown else None
        labels.append(text((f"{number(value):>{LABELS - 1}} ", DIM)) if shown else EMPTY)
    return labels


def _steps(series: Series, across: int) -> Content:
    marks = [steps(series.first + (series.last - series.first) * at // 4) for at in range(5)]
    line = [" "] * (across + 1)
    for at, mark in enumerate(marks):
        place = at * across // 4 - (0 if at == 0 else len(mark) if at == 4 else len(mark) // 2)
        begin = max(0, place)
        if at in (0, 4) or across >= 60:
            line[begin : begin + len(mark)] = mark
    return text((" " * (LABELS + 1) + "".join(line[:across]), DIM))


def _legend(series: Series, scale: Scale, width: int) -> Content:
    left = text((" " * (LABELS + 1), ""), ("━ mean ", ACCENT), (" █ min–max", BAND))
    if series.bad:
        left = text(left, "  ", ("× not a number", "$critical"))
    return row(left, text(("log axis" if scale.log else "linear axis", DIM)), width)
