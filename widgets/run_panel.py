"""One run in a panel of the fleet: what needs a person and why, then everything else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from textual.content import Content
from textual.message import Message

from cockpit.model.report import RunReport, Verdict
from cockpit.model.wording import glyph
from widgets.base.painted import Painted
from widgets.painting import facts, rows
from widgets.painting.line import (
    ACCENT,
    DIM,
    LINE,
    cut,
    fit,
    foreign,
    frame,
    prose,
    row,
    text,
    wrapped,
)
from widgets.painting.series import (
    Series,
    block_line,
    loss_columns,
    loss_curve,
    plot,
    scale_of,
    why_no_curve,
)

LABEL: Final = 6
LEAST_HEIGHT: Final = 9
MOST_HEIGHT: Final = 17
METRICS: Final = 25
_QUIET = (Verdict.HEALTHY, Verdict.SEALED)
_STAMP: Final = re.compile(
    r"(?:(?P<glog>[IWEF])\d{4}(?:\d{4})? (?P<at>\d\d:\d\d:\d\d)(?:\.\d+)? +\d+ "
    r"|\[?\d{4}-\d\d-\d\d[T ](?P<iso>\d\d:\d\d:\d\d)(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ -]*)"
    r"(?=\S)"
)


@dataclass
class RunClicked(Message):
    """A person clicked on a run of the fleet."""

    name: str


class RunPanel(Painted):
    """A slot of the grid: shows whichever run it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.report: RunReport | None = None
        self._now = 0.0
        self._selected = False

    def show(self, report: RunReport | None, now: float, selected: bool) -> None:
        """Show a run at a moment; nothing is written if that changes nothing."""
        self.report, self._now, self._selected = report, now, selected
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the panel's lines."""
        if self.report is None:
            return []
        return paint_panel(self.report, self._now, width, height, self._selected)

    def on_click(self) -> None:
        """Tell which run was clicked."""
        if self.report is not None:
            self.post_message(RunClicked(self.report.name))


def paint_panel(
    report: RunReport, now: float, width: int, height: int, selected: bool = False
) -> list[Content]:
    """Return the panel's lines, exactly ``height`` of ``width`` cells (frame included)."""
    inner = max(1, width - 4)
    body = _body(report, now, inner, height - 2)
    return frame(
        body,
        width,
        height,
        title=_title(report, selected),
        note=_note(report, now, width),
        foot=text(rows.where(report)),
        line=_frame_ink(report, selected),
    )


def _title(report: RunReport, selected: bool) -> Content:
    mark, style = facts.verdict_mark(report)
    pointer = (f"{glyph('pick')} ", ACCENT) if selected else ""
    return text(
        pointer, (f"{mark} ", style), (report.name, f"bold {ACCENT}" if selected else "bold")
    )


def _note(report: RunReport, now: float, width: int) -> Content:
    """Return verdict and phase, two words; the verdict goes first where it is narrow."""
    words = facts.phase_words(report, now)
    phase = text((words, facts.phase_style(report, now)))
    verdict = text((facts.verdict_word(report), facts.VERDICT_STYLE[report.verdict]), (" · ", DIM))
    room = width - 12 - len(report.name)
    return text(verdict, phase) if verdict.cell_length + len(words) <= room else phase


def _frame_ink(report: RunReport, selected: bool) -> str:
    if selected:
        return ACCENT
    return "$critical-line" if report.verdict is Verdict.CRITICAL else LINE


def _body(report: RunReport, now: float, width: int, height: int) -> list[Content]:
    """Spend ``height`` lines: the fixed ones first, then chart, evidence and log share the rest."""
    head = [_progress(report, now, width)]
    tail = [_labelled("ckpt", rows.checkpoints(report, now, width - LABEL), width)]
    ages = rows.ages(report, now, width - LABEL)
    tail += [_labelled("ages", ages, width)] if ages.plain else []
    charted = _has_figures(report)
    chart = 2 if charted and height >= len(head) + len(tail) + 2 else 1
    spare = height - len(head) - len(tail) - chart
    worst = _worst(report, now, width, _alert_room(spare))
    spare -= len(worst)
    log = _log(report, now, width, min(3, spare) if spare else 0)
    spare -= len(log)
    grown = min(max(0, spare), 2) if charted else 0
    log = _log(report, now, width, len(log) + spare - grown)
    return [*head, *worst, *_metrics(report, now, width, chart + grown), *tail, *log]


def _alert_room(spare: int) -> int:
    """Return how many lines what is wrong may take: a log line stays where that is possible."""
    return spare if spare <= 2 else max(2, min(6, spare - 1))


def _labelled(label: str, line: Content, width: int) -> Content:
    return text((f"{label:<{LABEL}}", DIM), cut(line, width - LABEL))


def _progress(report: RunReport, now: float, width: int) -> Content:
    percent = rows.percent(report)
    left = text(rows.progress(report), f"  {percent}" if percent else "")
    told = rows.told_by(report)
    left = text(left, "  ", told) if told.plain else left
    if report.progress.step is None:
        left = text(left, ("  no step seen", DIM))
    return row(_labelled("step", left, width), rows.time_left(report), width)


def _worst(report: RunReport, now: float, width: int, room: int) -> list[Content]:
    """Return the worst conditions with evidence and the next action, in ``room`` lines."""
    if room < 1 or not report.alerts:
        quiet = report.verdict in _QUIET or room < 1
        return [] if quiet else wrapped(rows.next_step(report), width, min(room, 3))
    lines = wrapped(rows.next_step(report), width - 2, 1 if room < 5 else 2)
    act = [_indented(line, width) for line in lines]
    first = rows.alert_lines(report.alerts[0], now, width, 2 if room >= 4 else 1)
    if room == 1:
        return first
    left = room - len(first) - len(act)
    others = [rows.alert_lines(each, now, width, 1)[0] for each in report.alerts[1:]]
    kept = min(len(others), max(0, left - 1))
    proof = [_indented(line, width) for line in rows.evidence(report.alerts[0], width - 2)]
    proof = proof[: max(0, min(2, left - kept))]
    more = others[: left - len(proof)]
    if more and len(more) < len(others):
        more[-1] = row(more[-1], text((f"+{len(others) - len(more)} more", DIM)), width)
    return [*first, *proof, *act, *more]


def _indented(line: Content, width: int) -> Content:
    return text("  ", cut(line, width - 2))


def _has_figures(report: RunReport) -> bool:
    return report.facets.tracker.value is not None or bool(loss_columns(report))


def _metrics(report: RunReport, now: float, width: int, height: int) -> list[Content]:
    """Return the figures, one a line, and the loss curve beside them."""
    tracker = report.facets.tracker
    if not _has_figures(report):
        return [_labelled("loss", rows.unknown(tracker), width)]
    room = width - LABEL - METRICS
    series = loss_curve(report, room if height == 1 else room * 2)
    if height == 1:
        value = text(fit(rows.loss(report, now), 8), cut(rows.throughput(report, now), METRICS - 9))
        curve = block_line(series, room, "$spark") if series is not None else _why(report)
        return [_labelled("loss", text(fit(value, METRICS), curve), width)]
    figures = [("loss", rows.loss(report, now)), ("rate", rows.throughput(report, now))]
    figures.append(("grad", rows.grad(tracker.value)))
    figures = [(label, figure) for label, figure in figures if figure.plain]
    chart = _spark(report, series, room, height)
    return [
        text(
            fit(_labelled(*figures[at], LABEL + METRICS - 1), LABEL + METRICS)
            if at < len(figures)
            else " " * (LABEL + METRICS),
            chart[at] if at < len(chart) else "",
        )
        for at in range(height)
    ]


def _spark(report: RunReport, series: Series | None, width: int, height: int) -> list[Content]:
    if width < 4:
        return []
    if series is None:
        return wrapped(_why(report), width, height)
    alert = facts.loss_alert(report)
    ink = facts.SEVERITY_STYLE[alert.severity] if alert is not None else "$spark"
    return plot(series, scale_of(series), width, height, ink, "$band")


def _why(report: RunReport) -> Content:
    """Return why there is no curve."""
    return text((why_no_curve(report), DIM))


def _log(report: RunReport, now: float, width: int, most: int) -> list[Content]:
    """Return the last log lines, newest last; dim, since they are only the last words."""
    facet = report.facets.log
    if most < 1:
        return []
    if facet.value is None:
        return [_labelled("log", rows.unknown(facet), width)]
    lines = [line for line in facet.value.lines if line.plain.strip()][-most:]
    if not lines:
        return [_labelled("log", text(("empty", DIM)), width)]
    shown = [prose(brief(foreign(line)).stylize_before(DIM), width - LABEL) for line in lines]
    return [
        text((f"{'log' if at == 0 else '':<{LABEL}}", DIM), line) for at, line in enumerate(shown)
    ]


def brief(line: Content) -> Content:
    """Return ``line`` with a leading date, thread id and "info" cut; the time of day stays."""
    found = _STAMP.match(line.plain)
    if found is None:
        return line
    level = found["glog"] if found["glog"] not in (None, "I") else ""
    start = " ".join(part for part in (found["at"] or found["iso"], level) if part)
    return Content(f"{start} ") + line[found.end() :]
