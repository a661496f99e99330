"""The charts of a run: the loss, and any metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from textual.content import Content
from textual.message import Message

from cockpit.model.curve import LOSS, USUAL, Curve, Span
from cockpit.model.report import RunReport
from cockpit.model.wording import percent
from widgets.painted import Painted
from widgets.painting.chart import LABELS, Steady, paint
from widgets.painting.line import ACCENT, DIM, STRONG, cut, frame, text
from widgets.painting.metrics import (
    ChartRange,
    drawing_of,
    edge,
    headline,
    loss_of,
    marks_of,
    moved,
    next_zoom,
    state_of,
    whole_of,
    words_at_cursor,
)

ROOMY: Final = (120, 30)
"""Columns and rows from which all usual metrics stand on the screen."""
SMALL: Final = 11
"""Rows of the small ones."""
FINER: Final = 0.5
"""What is left of the axis, each time it is looked at more closely."""


class MetricCharts(Painted):
    """Draws what it was given of the metrics of one run; ``span`` says what to ask for."""

    class Resized(Message):
        """There is another room now: other metrics may stand in it."""

    def __init__(self) -> None:
        super().__init__()
        self.look = ChartRange()
        self.names: tuple[str, ...] = ()
        self._report: RunReport | None = None
        self._now = 0.0
        self._curves: dict[str, Curve] = {}
        self._offers: tuple[str, ...] | None = None
        self._steady: dict[str, Steady] = {}
        self._steady_in = (0, 0)
        """The size for which the axes of values stand."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that are shown at this size, the large ones first."""
        large = self.look.metrics
        roomy = self.size.width >= ROOMY[0] and self.size.height >= ROOMY[1] and len(large) == 1
        return large + tuple(each for each in USUAL if each not in large)[:3] if roomy else large

    @property
    def span(self) -> Span:
        """What is shown of the axis: what is to be asked for."""
        extent = self.look.extent(self._whole_extent)
        low, high = (None, None) if extent is None else extent
        return Span(self.look.by_time, low, high)

    @property
    def _first(self) -> Curve:
        return self._curve(self.look.metrics[0])

    @property
    def _whole_extent(self) -> tuple[float, float] | None:
        return whole_of(self._first, self.look.by_time)

    def _curve(self, metric: str) -> Curve:
        """Return the known curve: for the loss at least the report's own rows."""
        curve = self._curves.get(metric)
        if metric == LOSS and self._report is not None and (curve is None or not curve.parts):
            return loss_of(self._report)
        return Curve(metric, why="being read") if curve is None else curve

    def show(self, report: RunReport, now: float) -> None:
        """Show a run as it is known now; ``now`` in seconds since the epoch."""
        self._report, self._now = report, now
        self.repaint()

    def take(self, names: Sequence[str], asked: Sequence[str], curves: Sequence[Curve]) -> None:
        """Take what was asked for; ``names`` are all that there are, if they are known."""
        self.names = tuple(names) or self.names
        self._curves.update(zip(asked, curves, strict=False))
        self.repaint()

    def turn(self, look: ChartRange) -> None:
        """Look at something else."""
        if look._replace(cursor=None) != self.look._replace(cursor=None):
            self._steady = {}
        self.look = look
        self.repaint()

    def offer(self, names: tuple[str, ...] | None) -> None:
        """Show which metrics are meant by what is being typed; ``None``: nothing is."""
        self._offers = names
        self.repaint()

    def toggle_log(self) -> None:
        """Change between a linear and a logarithmic axis of values."""
        self.turn(self.look._replace(log=not self.look.log))

    def toggle_time(self) -> None:
        """Change between an axis of steps and one of times; all of it is shown."""
        self.turn(self.look._replace(by_time=not self.look.by_time, share=1.0, end=None,
                                     cursor=None))  # fmt: skip

    def zoom(self) -> None:
        """Show the next smaller part of the axis, then all of it again."""
        self.turn(self.look.zoomed(self._whole_extent, next_zoom(self.look.share)))

    def closer(self, closer: bool) -> None:
        """Show half as much of the axis, or twice as much."""
        part = self.look.share * (FINER if closer else 1 / FINER)
        self.turn(self.look.zoomed(self._whole_extent, part))

    def pan(self, screens: float) -> None:
        """Show what lies further right, or left, of a part."""
        self.turn(self.look.panned(self._whole_extent, screens))

    def move(self, cells: int) -> None:
        """Move the cursor; the first time it stands on the newest value that is shown."""
        self.turn(moved(self._first, self.look, cells, max(1, self.size.width - 2 * LABELS)))

    def edge(self, end: bool) -> None:
        """Move the cursor to the last value that is shown, or to the first."""
        self.turn(edge(self._first, self.look, end))

    def on_resize(self) -> None:
        """Paint for the new size, and post a message about it."""
        super().on_resize()
        self.post_message(self.Resized())

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the framed charts."""
        if self._report is None:
            return []
        if self._steady_in != (width, height):
            self._steady, self._steady_in = {}, (width, height)
        large, small = self.look.metrics, self.metrics[len(self.look.metrics) :]
        lines = [] if self._offers is None else [self._offered(width)]
        room = height - len(lines) - (SMALL if small else 0)
        for at, metric in enumerate(large):
            rows = room * (at + 1) // len(large) - room * at // len(large)
            lines += self._chart(metric, width, rows, legend=rows >= 8)
        return [*lines, *self._small(small, width)] if small else lines

    def _small(self, metrics: Sequence[str], width: int) -> list[Content]:
        """Return small charts beside each other."""
        edges = [width * at // len(metrics) for at in range(len(metrics) + 1)]
        drawn = [
            self._chart(metric, edges[at + 1] - edges[at], SMALL, legend=False)
            for at, metric in enumerate(metrics)
        ]
        return [text(*pieces) for pieces in zip(*drawn, strict=True)]

    def _chart(self, metric: str, width: int, height: int, *, legend: bool) -> list[Content]:
        assert self._report is not None
        curve = self._curve(metric)
        marks = marks_of(self._report, curve, self.look.by_time)
        drawing = drawing_of(curve, self.look, marks, legend=legend)
        drawing = replace(drawing, steady=self._steady.setdefault(metric, Steady()))
        body = paint(drawing, width - 4, height - 2)
        note = state_of(self.look, curve) if legend else text("")
        return frame(body, width, height, title=headline(metric, curve, self._now), note=note,
                     foot=words_at_cursor(curve, self.look, self._now))  # fmt: skip

    def _offered(self, width: int) -> Content:
        offers = self._offers or ()
        if not offers:
            return text((" no metric has such a name", DIM))
        first, *others = offers
        return cut(text((f" {first}", ACCENT), (f"  {'  '.join(others)}", DIM)), width)


_NAMES = {1.0: "whole run", 0.25: "last quarter", 0.05: "last 5 %"}


class LossChart(Painted):
    """A braille chart with axes; ``toggle_log`` and ``zoom`` change what it shows.

    ``whole`` names all that there is to show.
    """

    def __init__(self, whole: str = _NAMES[1.0]) -> None:
        super().__init__()
        self._names = {**_NAMES, 1.0: whole}
        self._report: RunReport | None = None
        self._look = ChartRange()
        self._steady = Steady()

    def show(self, report: RunReport) -> None:
        """Show a run's loss."""
        self._report = report
        self.repaint()

    def toggle_log(self) -> None:
        """Change between a linear and a logarithmic axis."""
        self._turn(self._look._replace(log=not self._look.log))

    def zoom(self) -> None:
        """Show the next smaller part of the run, then all of it again."""
        self._turn(self._look._replace(share=next_zoom(self._look.share)))

    def _turn(self, look: ChartRange) -> None:
        self._look, self._steady = look, Steady()
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the framed chart, and how much of the file has been read until all of it has."""
        if self._report is None:
            return []
        curve, tracker = loss_of(self._report), self._report.facets.tracker.value
        drawing = drawing_of(curve, self._look, (), legend=True)
        body = paint(replace(drawing, steady=self._steady), width - 4, height - 2)
        title = text(("loss", STRONG), (f" · {self._names[self._look.share]}", DIM))
        part = tracker is not None and tracker.columns and tracker.scanned < 1
        note = text((f"{percent(curve.share)} read" if part else "", DIM))
        return frame(body, width, height, title=title, note=note)
