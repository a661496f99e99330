"""The loss of a run as a curve with its extent and its steps, or why there is none. Pure."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from cockpit.model.report import RunReport
from cockpit.model.wording import short_number, steps
from widgets.painting import facts
from widgets.painting.line import DIM, cut, fit, row, text, wrapped
from widgets.painting.series import DRAWN, Series, loss_curve, plot, scale_of, why_no_curve

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
