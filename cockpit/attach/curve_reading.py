"""Reads curves of an engine's runs for its windows: one reading, however many look at it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from cockpit.model.clock import Clock
from cockpit.model.curve import Curve, Curves, Span
from cockpit.model.report import RunReport
from cockpit.sources.curves.reading import CurveFiles, CurveReading


class EngineCurves:
    """The curves of the runs whose reports ``report_of`` returns, by their names."""

    def __init__(
        self, tracker: object, report_of: Callable[[str], RunReport | None], clock: Clock
    ) -> None:
        """``tracker`` is the engine's; one that knows no files (``CurveFiles``) gives no curve."""
        self._report_of = report_of
        reads = hasattr(tracker, "curve_files")
        self._reading = CurveReading(cast("CurveFiles", tracker), clock) if reads else None

    async def curves(
        self, run: str, metrics: Sequence[str], by_time: bool, extent: Sequence[float], most: int
    ) -> Curves:
        """Return these metrics of a run (see ``CurveReading``); an empty extent is all of it."""
        report = self._report_of(run)
        named = tuple(str(each) for each in metrics)
        if report is None or self._reading is None:
            return Curves((), tuple(Curve(each, why="its tracker is not read") for each in named))
        low, high = (float(extent[0]), float(extent[1])) if len(extent) == 2 else (None, None)
        span = Span(bool(by_time), low, high, int(most))
        return await self._reading.curves(report.spec, named, span)
