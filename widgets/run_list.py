"""The fleet as a list that scrolls by whole runs: a line a run, more where there is more to say."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Final, NamedTuple

from textual import events
from textual.content import Content

from cockpit.model.report import RunReport, Verdict
from cockpit.model.wording import glyph
from widgets.base.painted import Painted
from widgets.painting import facts, rows
from widgets.painting.facts import Look, look
from widgets.painting.line import ACCENT, DIM, EMPTY, cut, fit, placed, prose, row, text, whole
from widgets.painting.series import block_line, loss_curve, why_no_curve
from widgets.run_panel import RunClicked

MARGIN: Final = 4
NARROW: Final = 100
NAME: Final = 20
PHASE: Final = 13
STEP: Final = 16
LOSS: Final = 10
RATE: Final = 22
CHECKPOINT: Final = 34
LEAST_SPARK: Final = 8
MOST_SPARK: Final = 40
PROSE: Final = 16
"""Cells from which cut words still say something."""


class RunList(Painted):
    """Runs in the given order, the selected one always in sight."""

    def __init__(self) -> None:
        super().__init__()
        self._reports: Sequence[RunReport] = ()
        self._now = 0.0
        self._selected = 0
        self._top = 0
        self._roomy = False
        self._ample = False
        self._owners: list[str] = []
        self._nothing = ("", "")
        self._shared = _Columns()
        self._kept: dict[str, _Kept] = {}
        """The rows that were painted last: most stand as they stood when a key is pressed."""

    def show(
        self,
        reports: Sequence[RunReport],
        now: float,
        selected: int,
        nothing: tuple[str, str] = ("", ""),
    ) -> None:
        """Show runs at a moment, ``selected`` being the place of the chosen one.

        ``nothing`` is why there are none, and what to do about it.
        """
        self._reports, self._now, self._selected = reports, now, selected
        self._nothing = nothing
        self.repaint()

    @property
    def runs_in_view(self) -> tuple[str, ...]:
        """The runs in sight, from the top."""
        return tuple(dict.fromkeys(self._owners))

    @property
    def page(self) -> int:
        """How many runs are in sight."""
        return max(1, len(set(self._owners)))

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the lines in sight."""
        if not self._reports:
            self._owners = []
            why, then = self._nothing
            said = [Content(why), text((then, DIM))]
            return [EMPTY, *(text(" " * MARGIN, cut(line, width - MARGIN)) for line in said)]
        self._roomy = 2 * len(self._reports) <= height
        self._ample = self._roomy and (
            sum(height_of(each, True, True) for each in self._reports) <= height
        )
        self._top = self._first_in_sight(height)
        shared = self._shared.of(self._reports[self._top : self._top + height], self._now, width)
        lines: list[Content] = []
        former, self._kept = self._kept, {}
        self._owners = []
        for place in range(self._top, len(self._reports)):
            report = self._reports[place]
            if lines and len(lines) + height_of(report, self._roomy, self._ample) > height:
                break
            painted = self._row(report, width, shared, place == self._selected, former)
            lines.extend(painted)
            self._owners.extend([report.name] * len(painted))
        hidden = len(self._reports) - len(set(self._owners))
        if hidden and len(lines) < height:
            lines.append(text((f"    … {hidden} more of {len(self._reports)}", DIM)))
        return lines

    def _row(
        self,
        report: RunReport,
        width: int,
        shared: ListColumns,
        chosen: bool,
        former: dict[str, _Kept],
    ) -> list[Content]:
        """Return a run's lines, the same ones as long as nothing that they show has changed."""
        asked = (int(self._now), width, shared, chosen, self._roomy, self._ample)
        kept = former.get(report.name)
        if kept is None or kept.report is not report or kept.asked != asked:
            lines = paint_row(report, self._now, width, shared, chosen, self._roomy, self._ample)
            kept = _Kept(report, asked, lines)
        self._kept[report.name] = kept
        return kept.lines

    def _first_in_sight(self, height: int) -> int:
        """Return the first run to show: as before, moved just enough to hold the selected one."""
        if self._roomy:
            return 0
        top = min(self._selected, len(self._reports) - 1)
        former, room = max(0, min(self._top, top)), height - height_of(self._reports[top])
        while top > former and room >= (needs := height_of(self._reports[top - 1])):
            room -= needs
            top -= 1
        return top

    def on_click(self, event: events.Click) -> None:
        """Tell which run was clicked."""
        if event.y < len(self._owners):
            self.post_message(RunClicked(self._owners[event.y]))


class ListColumns(NamedTuple):
    """The widths that all rows share, so that figures stand below each other."""

    gap: int
    name: int
    phase: int
    step: int
    spark: int
    rate: int
    checkpoint: int
    eta: int


class _Kept(NamedTuple):
    """A run's painted lines, and what they were painted from; ages count whole seconds."""

    report: RunReport
    asked: tuple[object, ...]
    lines: list[Content]


class _Columns:
    """The widths of the runs in sight, reckoned anew only when these or the second change."""

    def __init__(self) -> None:
        self._reports: Sequence[RunReport] = ()
        self._asked = (0, 0)
        self._found: ListColumns | None = None

    def of(self, reports: Sequence[RunReport], now: float, width: int) -> ListColumns:
        """Return the widths for these runs."""
        asked = (int(now), width)
        same = len(reports) == len(self._reports) and all(map(is_, reports, self._reports))
        if self._found is None or asked != self._asked or not same:
            self._reports, self._asked = tuple(reports), asked
            self._found = columns(reports, now, width)
        return self._found


def columns(reports: Sequence[RunReport], now: float, width: int) -> ListColumns:
    """Return column widths for these runs; what does not fit is left out."""
    narrow = width < NARROW
    name = max((Content(each.name).cell_length for each in reports), default=8)
    name = min(name, NAME if narrow else max(NAME, width // 4))
    words = facts.brief_phase if narrow else facts.phase_words
    phase = min(
        max((len(words(each, now)) for each in reports), default=7), PHASE if narrow else 24
    )
    wide = max((rows.progress(each).cell_length for each in reports), default=9)
    step = min(wide, STEP) if narrow else wide
    eta = max((rows.time_left(each, narrow).cell_length for each in reports), default=0)
    figures = MARGIN + name + phase + step + LOSS + 1 + eta + 1
    gap = 2 if width - figures - 4 * 2 >= LEAST_SPARK else 1
    used = figures - 1 + 4 * gap
    rate = RATE if width - used >= RATE + gap + LEAST_SPARK else 0
    used += rate + gap if rate else 0
    checkpoint = CHECKPOINT if width - used >= CHECKPOINT + gap + 2 * LEAST_SPARK else 0
    used += checkpoint + gap if checkpoint else 0
    return ListColumns(
        gap, name, phase, step, max(0, min(width - used - 1, MOST_SPARK)), rate, checkpoint, eta
    )


def paint_row(
    report: RunReport,
    now: float,
    width: int,
    shared: ListColumns,
    selected: bool = False,
    roomy: bool = False,
    ample: bool = False,
) -> list[Content]:
    """Return a run's lines: one, and more where there is something to say.

    ``roomy`` gives quiet runs a second line, ``ample`` those that need a person a third.
    """
    lines = [_first(report, now, width, shared, selected)]
    height = height_of(report, roomy, ample)
    inner = width - MARGIN
    if height == 3:
        said = _at_length(report, now, inner)
    elif height == 2:
        said = [(_second if _speaks(report) else _quiet)(report, now, inner)]
    else:
        said = []
    lines += [text(" " * MARGIN, line) for line in said]
    return [_chosen(fit(line, width), selected) for line in lines]


def height_of(report: RunReport, roomy: bool = False, ample: bool = False) -> int:
    """Return how many lines a run takes."""
    if ample and report.alerts:
        return 3
    return 2 if roomy or _speaks(report) else 1


def _speaks(report: RunReport) -> bool:
    return bool(report.alerts) or report.verdict not in (Verdict.HEALTHY, Verdict.SEALED)


def _chosen(line: Content, selected: bool) -> Content:
    return line.stylize_before("on $cursor") if selected else line


def _first(
    report: RunReport, now: float, width: int, shared: ListColumns, selected: bool
) -> Content:
    mark, style = facts.verdict_mark(report)
    pointer = (glyph("pick") if selected else " ", ACCENT)
    narrow = width < NARROW
    phase = facts.brief_phase(report, now) if narrow else facts.phase_words(report, now)
    loss = fit(text(("loss ", DIM), rows.loss(report, now)), LOSS)
    cells = [
        fit(text((report.name, "bold")), shared.name),
        fit(text((phase, facts.phase_style(report, now))), shared.phase),
        row(EMPTY, rows.progress(report, shared.step), shared.step, gap=0),
        text(loss, " ", _spark(report, shared.spark)),
        row(EMPTY, rows.time_left(report, short=narrow), shared.eta, gap=0),
    ]
    if shared.rate:
        cells.insert(4, fit(rows.throughput(report, now), shared.rate))
    if shared.checkpoint:
        cells.insert(5, fit(rows.checkpoints(report, now, shared.checkpoint), shared.checkpoint))
    return text(pointer, " ", (mark, style), " ", Content(" " * shared.gap).join(cells))


def _spark(report: RunReport, width: int) -> Content:
    if width < 3:
        return EMPTY
    alert = facts.loss_alert(report)
    ink = facts.SEVERITY_STYLE[alert.severity] if alert is not None else "$spark"
    series = loss_curve(report, width)
    if series is None:
        return fit(text((why_no_curve(report), DIM)), width)
    return fit(block_line(series, width, ink), width)


def _second(report: RunReport, now: float, width: int) -> Content:
    """Return what is wrong, what to do, and the checkpoint to fall back on, as far as it fits."""
    items = [text((each.id, facts.alert_mark(each)[1]), " ", each.title) for each in report.alerts]
    items.insert(1, rows.next_step(report, brief=True))
    return whole([*items, *_fallback(report, now)], width, prose=PROSE)


def _at_length(report: RunReport, now: float, width: int) -> list[Content]:
    """Return what is wrong, then what to do; the checkpoints stand where one fits whole."""
    wrong = [text((each.id, facts.alert_mark(each)[1]), " ", each.title) for each in report.alerts]
    wrong[0] = prose(placed(wrong[0], width), width)
    act = prose(rows.next_step(report, brief=True), width)
    beside = _fallback(report, now, _left(act, width))
    if not beside:
        wrong[1:1] = _fallback(report, now, _left(wrong[0], width))
    return [whole(wrong, width), whole([act, *beside], width)]


def _left(line: Content, width: int) -> int:
    return min(CHECKPOINT, width - line.cell_length - len(" · ckpt "))


def _fallback(report: RunReport, now: float, width: int = CHECKPOINT) -> list[Content]:
    """Return the newest checkpoints in ``width`` cells; nothing if not one fits whole."""
    if look(report.facets.checkpoints, report, now) is Look.ABSENT:
        return []
    line = rows.checkpoints(report, now, max(0, width))
    return [] if not line.plain or line.plain.endswith("…") else [text(("ckpt ", DIM), line)]


def _quiet(report: RunReport, now: float, width: int) -> Content:
    """Return what one likes to know of a run with which nothing is wrong."""
    speed = [rows.throughput(report, now)] if report.facets.tracker.value is not None else []
    items = [*speed, *_fallback(report, now), rows.ages(report, now, width)]
    return whole([item for item in items if item.plain], width)
