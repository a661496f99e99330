"""The head of the run page, and figures enlarged for those who look on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content

from cockpit.model.report import RunReport
from widgets.painted import Painted, stands_for
from widgets.painting import rows
from widgets.painting.big import HEIGHT, paint_big, paint_short
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, cut, row, text
from widgets.painting.run_line import run_line

WIDE: Final = 100
"""Cells from which the owner stands at the right edge."""
IDENTITY: Final = ("name", "verdict", "phase", "step", "share", "source", "eta", "records", "job",
                   "tracker")  # fmt: skip
FIGURES: Final = ("loss", "rate", "checkpoints")
MOST_LINES: Final = 3
"""Lines that the next action may take."""


ASIDE: Final = 13
"""Cells beside the tabs for ``goodput 92 %``, before which the lines between the tabs give way."""
LOST: Final = "is no longer in the run file"


class RunHeader(Painted):
    """Who it is, what is wrong, what to do, where one is: the action is never cut."""

    DEFAULT_CSS = """
    RunHeader { height: 3; }
    """

    def __init__(self, tabs: Sequence[str]) -> None:
        super().__init__()
        self._tabs = tabs
        self._report: RunReport | None = None
        self._run = ""
        self._now = 0.0
        self._current = 0
        self._hint = ""
        self._lost = LOST
        self._figures = False

    def show(
        self,
        name: str,
        report: RunReport | None,
        now: float,
        current: int,
        hint: str = "",
        lost: str = LOST,
        figures: bool = False,
    ) -> None:
        """Show a run and the current tab; ``hint`` is what to press for its worst alert.

        ``lost`` says of no report why there is none. With ``figures`` loss, rate and newest
        checkpoint have a line: where no panel beside the tab shows them.
        """
        self._figures = figures
        self._lost = lost
        self._run, self._report, self._now, self._current = name, report, now, current
        self._hint = hint
        if self.is_attached:
            self.styles.height = 1 + len(self._head(self.app.size.width))
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the head and the tabs."""
        tabs = paint_tabs(self._tabs, self._current, width)
        room = width - tabs.cell_length - 1
        aside = EMPTY if self._report is None else paint_short(self._report, room)
        return [*self._head(width), row(tabs, aside, width)]

    def _head(self, width: int) -> list[Content]:
        if self._report is None:
            return empty_head(self._run, self._lost)
        return paint_head(self._report, self._now, width, self._hint, self._figures)


def paint_head(
    report: RunReport, now: float, width: int, hint: str = "", figures: bool = False
) -> list[Content]:
    """Return identity and progress, figures, the worst alert if there is one, what to do next."""
    lines = [run_line(report, now, width - 2, IDENTITY, ("owner",) if width >= WIDE else ())]
    if figures:
        lines.append(run_line(report, now, width - 2, FIGURES))
    if report.alerts:
        more = text((f"+{len(report.alerts) - 1} more", DIM) if report.alerts[1:] else "")
        room = width - 2 - (more.cell_length + 3 if more.plain else 0)
        worst = rows.alert_titled(report.alerts[0], now, room, 1)[0]
        lines.append(row(worst, more, width - 2, gap=3))
    lines += _action(report, width - 2, hint)
    return [cut(text(" ", line), width) for line in lines]


def _action(report: RunReport, width: int, hint: str) -> list[Content]:
    """Return the next action over as many lines as it needs; the hint where there is room."""
    if not report.next_action:
        return []
    lines, keys = rows.next_lines(report, width, MOST_LINES, brief=True), text((hint, DIM))
    if hint and len(lines) == 1 and lines[0].cell_length + keys.cell_length + 3 <= width:
        return [row(lines[0], keys, width)]
    return lines


def paint_tabs(names: Sequence[str], current: int, width: int) -> Content:
    """Return ``1 log │ 2 charts …`` with the current one marked."""

    def tab(place: int, name: str) -> Content:
        style = f"bold {ACCENT} reverse" if place == current else DIM
        return stands_for(str(place + 1), text((f" {place + 1} {name}", style)))

    shown = [tab(place, f"{name} ") for place, name in enumerate(names)]
    needed = sum(each.cell_length for each in shown)
    if needed + len(shown) > width - 1:
        shown = [each if place == current else tab(place, "") for place, each in enumerate(shown)]
    elif needed + len(shown) + ASIDE > width:
        return cut(text(*shown), width)
    return cut(text(" ", text(("│", "$line")).join(shown)), width)


def empty_head(name: str, why: str = LOST) -> list[Content]:
    """Return the head of a run of which there is no report, and ``why``."""
    gone = text(" ", (name, STRONG), (f" {why}", "$attention"))
    return [gone, text("")]


class BigFigures(Painted):
    """The verdict, the step, the loss and what else has room, three rows high."""

    DEFAULT_CSS = f"""
    BigFigures {{ height: {HEIGHT}; }}
    """

    def __init__(self) -> None:
        super().__init__()
        self._report: RunReport | None = None
        self._now = 0.0
        self._plain = False

    def show(self, report: RunReport | None, now: float, *, plain: bool) -> None:
        """Show a run at a moment (``None``: nothing); ``plain``: in letters of every terminal."""
        self._report, self._now, self._plain = report, now, plain
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the band."""
        if self._report is None:
            return []
        return paint_big(self._report, self._now, width, plain=self._plain)
