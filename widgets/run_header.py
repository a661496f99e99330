"""The head of the run page, and figures enlarged for those who look on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content

from cockpit.model.alert import Alert
from cockpit.model.report import RunReport
from cockpit.model.wording import day_time, glyph
from widgets.painted import Painted
from widgets.painting import facts, rows
from widgets.painting.big import HEIGHT, paint_big, paint_short
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    STRONG,
    cut,
    placed,
    row,
    text,
    that_fit,
    wrapped,
)

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
    worst = report.worst
    need = [] if worst is None else [_worst(report, worst, now, width)]
    shown = [_figures(report, now, width)] if figures else []
    return [_identity(report, now, width), *shown, *need, *_action(report, width, hint)]


def _figures(report: RunReport, now: float, width: int) -> Content:
    """Return loss, rate and the newest checkpoint."""
    items = [text(("loss ", DIM), rows.loss(report, now))]
    if not facts.is_over(report):
        items.append(text(("rate ", DIM), rows.throughput(report, now)))
    if report.facets.checkpoints.configured:
        room = width - sum(each.cell_length + 3 for each in items) - 7
        items.append(text(("ckpt ", DIM), rows.checkpoints(report, now, room)))
    return cut(text(" ", that_fit(items, width - 1, "   ")), width)


def _identity(report: RunReport, now: float, width: int) -> Content:
    mark, style = facts.verdict_mark(report)
    percent = rows.percent(report)
    items = [
        text(" ", (report.name, f"bold {ACCENT}")),
        text((f"{mark} {facts.verdict_word(report)}", style)),
        text((facts.phase_words(report, now), facts.phase_style(report, now))),
        text(rows.progress(report), f"  {percent}" if percent else ""),
        rows.step_source(report),
        rows.time_left(report),
        _records(report),
        _job(report),
        _tracker(report),
    ]
    right = _dri(report) if width >= 100 else text("")
    room = width - right.cell_length - 1
    return row(that_fit([item for item in items if item.plain], room, "   "), right, width)


def _dri(report: RunReport) -> Content:
    """Return who owns the run, and whom the run file names where that is somebody else."""
    who, owner = report.spec.dri, report.owner
    if not who:
        return text("")
    differs = (" (the run file says otherwise)", "$attention") if owner and owner.differs else ""
    return text(("owner ", DIM), who, differs, " ")


def _records(report: RunReport) -> Content:
    """Return that records stay on this machine, where commits wait that others wrote."""
    records = report.facets.records.value
    held = records is not None and records.pushed is False and records.held is not None
    return text(("records not pushed", "$attention")) if held else text("")


def _job(report: RunReport) -> Content:
    spec, job = report.spec.job, report.facets.job.value
    if spec is None:
        return text("")
    return text((f"{spec.kind} ", DIM), (job.id if job is not None else spec.id) or "?")


def _tracker(report: RunReport) -> Content:
    """Return the W&B identity, and whether it is the recorded one."""
    spec, found = report.spec.wandb, report.facets.tracker.value
    if spec is None or found is None or found.id is None:
        return text("")
    place = "/".join(part for part in (found.entity, found.project, found.id) if part)
    same = spec.id is None or spec.id == found.id
    verdict = (f" {glyph('complete')} same run", "$well") if spec.id and same else ""
    other = "" if same else (f" {glyph('rejected')} not {spec.id}", "$critical")
    return text(("W&B ", DIM), place, verdict, other)


def _worst(report: RunReport, worst: Alert, now: float, width: int) -> Content:
    mark, style = facts.alert_mark(worst)
    more = len(report.alerts) - 1
    since = f"since {day_time(worst.since, now)}{worst.or_before}"
    ends = [f"+{more} more"] if more else []
    right = text(("   ".join([*ends, since]), DIM), " ")
    room = width - right.cell_length - 2
    taken = rows.acknowledged_beside(worst, now, room - len(worst.title) - 2)
    left = text((f"{mark} ", style), (worst.title, f"bold {style}"), taken)
    return row(text(" ", placed(left, room)), right, width)


def _action(report: RunReport, width: int, hint: str) -> list[Content]:
    """Return the next action over as many lines as it needs; the hint where there is room."""
    if not report.next_action:
        return []
    step, keys = rows.next_step(report, brief=True), text((hint, DIM), " ")
    if hint and step.cell_length + keys.cell_length + 3 <= width:
        return [row(text(" ", step), keys, width)]
    first, *rest = wrapped(step, max(1, width - 3), MOST_LINES) or [EMPTY]
    return [cut(text(" ", first), width), *(cut(text("   ", piece), width) for piece in rest)]


def paint_tabs(names: Sequence[str], current: int, width: int) -> Content:
    """Return ``1 log │ 2 charts …`` with the current one marked."""
    shown = [
        text((f" {place + 1} {name} ", f"bold {ACCENT} reverse" if place == current else DIM))
        for place, name in enumerate(names)
    ]
    needed = sum(each.cell_length for each in shown)
    if needed + len(shown) > width - 1:
        shown = [
            each if place == current else text((f" {place + 1} ", DIM))
            for place, each in enumerate(shown)
        ]
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
