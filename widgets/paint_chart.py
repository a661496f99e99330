"""The loss chart: axes, a line for the mean, a band for the extremes, marks for non-numbers."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from cockpit.model.observed import Column
from cockpit.model.words import number, steps
from widgets.braille import plot
from widgets.line import ACCENT, DIM, EMPTY, cut, fit, row, text
from widgets.series import Scale, Series, fold, scale_of

LABELS: Final = 9
BAND: Final = "$band"


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
