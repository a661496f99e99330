"""Curves of metrics: values under the cursor, axes, and a backtest with its lanes of alerts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.alert import Severity
from cockpit.model.curve import LOSS, Curve, Part, Point, of_columns, step_then, why_empty
from cockpit.model.history import Backtested, WouldTell
from cockpit.model.observed import CheckpointState, Column
from cockpit.model.report import RunReport
from cockpit.model.wording import ago, clock_time, day_time, glyph, number, percent, share, steps
from widgets.painting.chart import LABELS, AxisMark, Drawing, axis_of, broken_end, paint
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, text, within, wrapped
from widgets.painting.series import StepAxis, loss_columns, why_no_curve

ZOOMS: Final = (1.0, 0.25, 0.05)
LEAST: Final = 4.0
"""Steps or seconds that an axis shows at least."""
_MARKED: Final = {
    CheckpointState.COMPLETE: ("finished", "$well"),
    CheckpointState.INCOMPLETE: ("incomplete", "$critical"),
    CheckpointState.REJECTED: ("rejected", "$critical"),
}
RESTARTED: Final = "↻"


class ChartRange(NamedTuple):
    """What is looked at: of the whole axis ``share``, up to ``end`` (``None``: to the newest)."""

    metrics: tuple[str, ...] = (LOSS,)
    by_time: bool = False
    log: bool = False
    share: float = 1.0
    end: float | None = None
    cursor: float | None = None

    def extent(self, whole: tuple[float, float] | None) -> tuple[float, float] | None:
        """Return what is shown of the whole axis; ``None`` for all of it."""
        if whole is None or self.share >= 1.0:
            return None
        low, high = whole
        wide = min(high - low, max(LEAST, (high - low) * self.share))
        end = high if self.end is None else min(high, max(low + wide, self.end))
        return end - wide, end

    def zoomed(self, whole: tuple[float, float] | None, part: float) -> ChartRange:
        """Return the look at this share of the axis, the cursor in its middle where there is one.

        No share is smaller than what can be distinguished.
        """
        if whole is None or part >= 1.0:
            return self._replace(share=1.0, end=None)
        wide = (whole[1] - whole[0]) * part
        if wide < LEAST and part < self.share:
            return self
        shown = self.extent(whole)
        end = self.end if self.cursor is None else self.cursor + wide / 2
        if self.cursor is None and self.end is not None and shown is not None:
            end = (shown[0] + shown[1] + wide) / 2
        at_end = end is None or end >= whole[1]
        return self._replace(share=part, end=None if at_end else end)

    def panned(self, whole: tuple[float, float] | None, screens: float) -> ChartRange:
        """Return the look so many times its own width further right, or left; never beyond."""
        shown = self.extent(whole)
        if whole is None or shown is None:
            return self
        end = shown[1] + (shown[1] - shown[0]) * screens
        end = max(whole[0] + shown[1] - shown[0], end)
        return self._replace(end=None if end >= whole[1] else end)


def whole_of(curve: Curve, by_time: bool) -> tuple[float, float] | None:
    """Return the extent of all that was logged, of steps or times; ``None`` where not known."""
    return curve.times if by_time else curve.extent


def next_zoom(part: float) -> float:
    """Return the next smaller share of the axis, then all of it again."""
    return next((each for each in ZOOMS if each < part - 1e-9), ZOOMS[0])


def loss_of(report: RunReport) -> Curve:
    """Return the loss as the report has it: it can be drawn before any answer."""
    tracker = report.facets.tracker.value
    read = 1.0 if tracker is None else tracker.scanned
    curve = of_columns(LOSS, loss_columns(report), read)
    if tracker is not None and tracker.true_loss is not None:
        newest = Point(tracker.step or 0, tracker.last_step_at, tracker.true_loss)
        curve = curve._replace(newest=newest)
    return curve if curve.parts else curve._replace(why=why_no_curve(report))


def drawing_of(
    curve: Curve, look: ChartRange, marks: Sequence[AxisMark], *, legend: bool
) -> Drawing:
    """Return what is drawn of a curve."""
    shown = look.extent(whole_of(curve, look.by_time))
    extent = None if shown is None else (round(shown[0]), round(shown[1]))
    columns = _columns(curve.parts, look.by_time)
    if extent is not None:
        low, high = extent
        columns = [each for each in columns if each.last >= low and each.first <= high]
    return Drawing(
        columns,
        former=_columns(curve.former, look.by_time),
        extent=extent,
        by_time=look.by_time,
        log=look.log,
        marks=marks,
        newest=None if curve.newest is None else curve.newest.value,
        cursor=None if look.cursor is None else round(look.cursor),
        why=why_empty(curve, look.by_time),
        legend=legend,
    )


def _columns(parts: Iterable[Part], by_time: bool) -> list[Column]:
    found = ((each.timed if by_time else each.column) for each in parts)
    return [each for each in found if each is not None]


def place_of(part: Part, by_time: bool) -> float | None:
    """Return where a part ends on the axis."""
    return part.end if by_time else part.last


def at_cursor(curve: Curve, look: ChartRange) -> Part | None:
    """Return the part that lies nearest to the cursor."""
    cursor = look.cursor
    placed = [(place_of(part, look.by_time), part) for part in curve.parts]
    near = [(abs(place - cursor), part) for place, part in placed
            if place is not None and cursor is not None]  # fmt: skip
    return min(near, key=lambda each: each[0])[1] if near else None


def moved(curve: Curve, look: ChartRange, cells: int, across: int) -> ChartRange:
    """Return the look with the cursor about so many cells further, on something logged."""
    places = _places(curve, look)
    if look.cursor is None or not places:
        return edge(curve, look, True)
    cursor = look.cursor
    now = min(range(len(places)), key=lambda at: abs(places[at] - cursor))
    to = now + max(1, round(len(places) / max(1, across))) * cells
    if not 0 <= to < len(places):
        look = look.panned(whole_of(curve, look.by_time), 0.5 if cells > 0 else -0.5)
    return look._replace(cursor=places[min(max(0, to), len(places) - 1)])


def edge(curve: Curve, look: ChartRange, end: bool) -> ChartRange:
    """Return the look with the cursor on the last value that is shown, or on the first."""
    places = _places(curve, look)
    return look._replace(cursor=places[-1 if end else 0]) if places else look


def _places(curve: Curve, look: ChartRange) -> list[float]:
    """Return where the parts end that are shown, in their order."""
    low, high = look.extent(whole_of(curve, look.by_time)) or (-math.inf, math.inf)
    found = (place_of(part, look.by_time) for part in curve.parts)
    return sorted(each for each in found if each is not None and low <= each <= high)


def marks_of(report: RunReport, curve: Curve, by_time: bool) -> list[AxisMark]:
    """Return checkpoints, restarts and open alerts on the axis, what is worse after the rest."""
    value = report.facets.checkpoints.value
    found: list[tuple[float | None, str, str]] = []
    for item in () if value is None else value.items:
        if item.state in _MARKED:
            name, ink = _MARKED[item.state]
            found.append((item.saved_at if by_time else item.step, glyph(name), ink))
    for each in curve.restarts:
        found.append((each.at if by_time else each.step, RESTARTED, ACCENT))
    for alert in sorted(report.alerts, key=lambda each: each.severity is Severity.CRITICAL):
        # where it began: by its rows, else what had been logged by then
        opened = None if alert.span is None else alert.span.opened_step
        step = step_then(curve, alert.since) if opened is None else opened
        name = "critical" if alert.severity is Severity.CRITICAL else "attention"
        found.append((alert.since if by_time else step, glyph(name), f"${name}"))
    return [AxisMark(int(at), sign, ink) for at, sign, ink in found if at is not None]


def headline(asked: str, curve: Curve, now: float) -> Content:
    """Return a chart's title: its newest value with unit and age, then how it is logged."""
    logged = f" · {curve.metric}" if curve.metric != asked else ""
    newest = curve.newest
    if newest is None:
        return text((asked, STRONG), (logged, DIM))
    old = "" if newest.at is None else f" {ago(max(0.0, now - newest.at))}"
    return text((f"{asked} {number(newest.value)}{_unit(curve)}", STRONG),
                (f"{old} · step {steps(newest.step)}{logged}", DIM))  # fmt: skip


def _unit(curve: Curve) -> str:
    return f" {curve.unit}" if curve.unit else ""


def words_at_cursor(curve: Curve, look: ChartRange, now: float) -> Content:
    """Return what stands at the cursor: exactly one row, or so many with their extent."""
    part = at_cursor(curve, look)
    if part is None:
        return text("")
    when = "" if part.end is None else (
        f" · {clock_time(part.end, seconds=True)}, {ago(max(0.0, now - part.end))}")  # fmt: skip
    value = "NaN or inf" if part.mean is None else f"{part.mean:,.6g}"
    value = f"−{value[1:]}" if value.startswith("-") else value
    value += _unit(curve)
    if part.first == part.last:
        return text((value, ACCENT), f" · step {steps(part.first)}", (when, DIM))
    bad = f", {part.nonfinite:,} NaN or inf" if part.nonfinite else ""
    ends = bad if part.low is None else f" ({number(part.low)} to {number(part.high)}{bad})"
    span = f" · steps {steps(part.first)}–{steps(part.last)}"
    return text((f"mean {value}", ACCENT), (ends, DIM), span, (when, DIM))


def state_of(look: ChartRange, curve: Curve) -> Content:
    """Return how the axis is shown, and how much of the record has been read or is known."""
    read = [f"{share(curve.share)} read"] if curve.share < 1.0 and curve.parts else []
    notes = [curve.note] if curve.note else []
    shown = "whole run" if look.share >= 1.0 else f"{percent(look.share)} of the run"
    return text((" · ".join([*read, *notes, shown, "by time" if look.by_time else "by step"]), DIM))


CHART, CHART_WIDE, WIDE = 10, 20, 110
"""Rows of the chart; of one that is at least so wide."""
SHOWN: Final = 200
"""Alerts at most; the rest is counted."""
STYLES: Final = {"critical": "$critical", "alert": "$attention", "warning": "$attention"}


def paint_backtest(found: Backtested, now: float, width: int) -> list[Content]:
    """Return the page's lines for a width."""
    lines = [*wrapped(text((summary(found), DIM)), width, 3), EMPTY]
    height = CHART if width < WIDE else CHART_WIDE
    lines += paint(Drawing(list(found.curve), why="no loss logged yet"), width, height)
    lines += [*_lanes(found, width), EMPTY]
    lanes = _lanes_of(found)
    for each in found.alerts[:SHOWN]:
        style = STYLES.get(each.severity.value, DIM)
        lane = (f"{lanes.index(each.id) + 1} ", DIM)
        head = text(lane, (f"{glyph(each.severity.value)} ", style), (each.title, STRONG))
        lines += wrapped(head, width, 2)
        body = [when_opened(each, now), *(line.text for line in each.evidence[:2])]
        lines += [
            text("  ", piece) for line in body for piece in wrapped(text((line, DIM)), width - 2, 2)
        ]
    if len(found.alerts) > SHOWN:
        lines.append(text((f"{len(found.alerts) - SHOWN:,} more: cockpit backtest", DIM)))
    return within(lines, width)


def summary(found: Backtested) -> str:
    """Return how much was replayed, and what the history of rows lacks."""
    final = f" of {steps(found.final_step)}" if found.final_step else ""
    count = len(found.alerts)
    what = f"{count} alert{'' if count == 1 else 's'} would have opened" if count else NOTHING
    times = "" if found.timed else " (without times)"
    without = len(found.not_replayed)
    rest = f". {without} other conditions do not show in rows: not replayed" if without else ""
    upto = f"up to step {steps(found.last_step)}{final}"
    return f"{what} over {found.steps:,} rows{times}, {upto}{rest}"


NOTHING: Final = "no alert would have opened"


def when_opened(each: WouldTell, now: float) -> str:
    """Return when it would have opened: ``would have opened at 03:12, step 459``."""
    at = f"at {day_time(each.opened_at, now)}, " if each.opened_at else "at "
    words = f"would have opened {at}step {steps(each.opened_step)}"
    if not each.closed:
        return f"{words}; still open"
    over = f" at {day_time(each.closed_at, now)}" if each.closed_at else ""
    return f"{words}; over{over}, step {steps(each.closed_step)}"


def copied(found: Backtested, now: float) -> str:
    """Return the page as plain text, to be pasted elsewhere."""
    lines = [f"backtest of {found.run}: {summary(found)}"]
    lines += [f"{each.title}: {when_opened(each, now)}" for each in found.alerts]
    return "\n".join(lines)


def _lanes_of(found: Backtested) -> list[str]:
    """Return the conditions that have a line below the chart, in their order."""
    return list(dict.fromkeys(each.id for each in found.alerts))


def _lanes(found: Backtested, width: int) -> list[Content]:
    """Return a line for each condition, below the chart's own axis: ``[==]`` while it was open."""
    across, columns = width - LABELS - 1, found.curve
    if not columns or across < 8:
        return []
    axis = axis_of(Drawing(columns), across * 2, broken_end(columns))
    lanes = []
    for place, name in enumerate(_lanes_of(found), 1):
        line = [" "] * across
        own = [each for each in found.alerts if each.id == name]
        for each in own:
            _draw(line, each, axis)
        style = STYLES.get(max(own, key=lambda each: each.severity.rank).severity.value, DIM)
        lanes.append(text((f"{place:>{LABELS - 1}} │", DIM), ("".join(line), style)))
    return lanes


def _draw(line: list[str], each: WouldTell, axis: StepAxis) -> None:
    opened = axis.first if each.opened_step is None else each.opened_step
    closed = each.closed_step if each.closed else None
    if opened > axis.last:
        line[-1] = ">"
        return
    begin = axis.column(opened) // 2
    end = axis.column(axis.last if closed is None else closed) // 2
    begin, end = min(begin, end), max(begin, end)
    line[begin : end + 1] = "=" * (end + 1 - begin)
    line[begin] = "[" if end > begin or not each.closed else "#"
    if closed is not None and closed <= axis.last and end > begin:
        line[end] = "]"
