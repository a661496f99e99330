"""The head of the run screen: what it is, how it is, what to do; and the tabs."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from cockpit.model.report import RunReport
from cockpit.model.wording import glyph
from widgets.base.painted import Painted
from widgets.painting import facts, rows
from widgets.painting.goodput import paint_short
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, cut, placed, row, text, whole


class RunHeader(Painted):
    """Three lines: who it is, what it needs, where one is."""

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

    def show(self, name: str, report: RunReport | None, now: float, current: int) -> None:
        """Show a run and the current tab."""
        self._run, self._report, self._now, self._current = name, report, now, current
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the three lines."""
        report = self._report
        head = empty_head(self._run) if report is None else paint_head(report, self._now, width)
        tabs = paint_tabs(self._tabs, self._current, width)
        room = width - tabs.cell_length - 1
        aside = EMPTY if report is None else paint_short(report, room)
        return [*head, row(tabs, aside, width)]


def paint_head(report: RunReport, now: float, width: int) -> list[Content]:
    """Return two lines: identity and progress; the worst condition or the next action."""
    return [_identity(report, now, width), _need(report, now, width)]


def _identity(report: RunReport, now: float, width: int) -> Content:
    mark, style = facts.verdict_mark(report)
    percent = rows.percent(report)
    items = [
        text(" ", (report.name, f"bold {ACCENT}")),
        text((f"{mark} {facts.verdict_word(report)}", style)),
        text((facts.phase_words(report, now), facts.phase_style(report, now))),
        text(rows.progress(report), f"  {percent}" if percent else ""),
        rows.told_by(report),
        rows.time_left(report),
        _job(report),
        _tracker(report),
    ]
    right = _dri(report) if width >= 100 else text("")
    room = width - right.cell_length - 1
    return row(whole([item for item in items if item.plain], room, "   "), right, width)


def _dri(report: RunReport) -> Content:
    """Return who answers for the run, and whether the run file names another (facets say who)."""
    who, owner = report.spec.dri, report.owner
    if not who:
        return text("")
    differs = (", not by the run file", "$attention") if owner and owner.differs else ""
    return text(("DRI ", DIM), who, differs, " ")


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
    verdict = (f" {glyph('complete')} identity", "$well") if spec.id and same else ""
    other = "" if same else (f" {glyph('rejected')} not {spec.id}", "$critical")
    return text(("W&B ", DIM), place, verdict, other)


def _need(report: RunReport, now: float, width: int) -> Content:
    worst = report.worst
    if worst is None:
        return cut(text(" ", rows.next_step(report)), width)
    left, right = rows.alert_head(worst, now)
    more = len(report.alerts) - 1
    act = text(("   ", ""), (f"{glyph('next')} ", ACCENT), report.next_action)
    count = text((f"  +{more} more", DIM)) if more else EMPTY
    left = placed(left, width - right.cell_length - count.cell_length - 3)
    return row(text(" ", left, count, act if width >= 100 else ""), text(right, " "), width)


def paint_tabs(names: Sequence[str], current: int, width: int) -> Content:
    """Return ``1 log │ 2 charts …`` with the current one marked."""
    shown = [
        text((f" {place + 1} {name} ", f"bold {ACCENT} reverse" if place == current else DIM))
        for place, name in enumerate(names)
    ]
    wide = sum(each.cell_length for each in shown) + len(shown) <= width - 1
    if not wide:
        shown = [
            each if place == current else text((f" {place + 1} ", DIM))
            for place, each in enumerate(shown)
        ]
    return cut(text(" ", text(("│", "$line")).join(shown)), width)


def empty_head(name: str) -> list[Content]:
    """Return the head of a run that the run file no longer names."""
    gone = text(" ", (name, STRONG), (" is no longer in the run file", "$attention"))
    return [gone, text("")]
