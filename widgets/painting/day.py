"""A run's last 24 hours as a strip: how it was in each half hour that somebody watched. Pure."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from textual.content import Content

from cockpit.model.day import CELLS, UNSEEN, WORST_LAST
from cockpit.model.report import RunReport
from widgets.painting.line import DIM, EMPTY, text, whole

MARKS: Final = {
    "c": ("█", "$critical", "critical"), "a": ("▅", "$attention", "attention"),
    "u": ("?", "$unknown", "unknown"), "h": ("▂", "$well", "healthy"),
    "f": ("▁", "$accent", "finished"), "s": ("▁", DIM, "sealed"), UNSEEN: ("·", DIM, "not watched"),
}  # fmt: skip
"""By letter of a cell: its mark, higher the worse it was, its style and its word."""


def paint_day(report: RunReport, now: float, width: int) -> Content:
    """Return the strip, newest last, with a legend of the marks in it as far as that fits.

    Nothing where nobody has watched or there is no room. A narrow one shows the worse of two.
    """
    cells = report.day.until(now)
    if not cells.strip(UNSEEN) or width < CELLS // 2:
        return EMPTY
    if width < CELLS:
        pairs = zip(cells[::2], cells[1::2], strict=True)
        cells = "".join(max(pair, key=WORST_LAST.index) for pair in pairs)
    strip = text(*(_run(letter, len(list(same))) for letter, same in groupby(cells)))
    legend = [
        text((MARKS[letter][0], MARKS[letter][1]), (f" {MARKS[letter][2]}", DIM))
        for letter in reversed(WORST_LAST)
        if letter in cells
    ]
    room = width - len(cells) - 2
    shown = [each for each in legend if each.cell_length <= room]
    return text(strip, "  ", whole(shown, room, "  ")) if shown else strip


def _run(letter: str, count: int) -> tuple[str, str]:
    mark, style, _ = MARKS[letter]
    return mark * count, style
