"""What the rules would have told of a past: the loss, lanes of alerts, each with its moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content

from cockpit.model.backtested import Backtested, WouldTell
from cockpit.model.wording import day_time, glyph, steps
from widgets.loss_chart import LABELS, paint_chart
from widgets.painting.chart import Drawing, axis_of, broken_end
from widgets.painting.line import DIM, EMPTY, STRONG, row, text, within, wrapped
from widgets.painting.series import StepAxis

CHART, CHART_WIDE, WIDE = 10, 20, 110
"""Rows of the chart; of one that is at least so wide."""
SHOWN: Final = 200
"""Alerts at most; the rest is counted."""
STYLES: Final = {"critical": "$critical", "alert": "$attention", "warning": "$attention"}


def paint_backtest(found: Backtested, now: float, width: int) -> list[Content]:
    """Return the page's lines for a width."""
    lines = [*wrapped(text((summary(found), DIM)), width, 3), EMPTY]
    height = CHART if width < WIDE else CHART_WIDE
    lines += paint_chart(list(found.curve), width, height, None, 1.0)
    lines += [*_lanes(found, width), EMPTY]
    for each in found.alerts[:SHOWN]:
        style = STYLES.get(each.severity.value, DIM)
        head = text((f"{glyph(each.severity.value)} ", style), (each.title, STRONG))
        first, *rest = wrapped(head, width - len(each.id) - 2, 2) or [head]
        lines += [row(first, text((each.id, DIM)), width, 2), *rest]
        body = [told(each, now), *(line.text for line in each.evidence[:2])]
        lines += [
            text("  ", piece) for line in body for piece in wrapped(text((line, DIM)), width - 2, 2)
        ]
    if len(found.alerts) > SHOWN:
        lines.append(text((f"{len(found.alerts) - SHOWN:,} more: cockpit backtest", DIM)))
    return within(lines, width)


def summary(found: Backtested) -> str:
    """Return how much was replayed, and what no history of rows tells of."""
    final = f" of {steps(found.final_step)}" if found.final_step else ""
    count = len(found.alerts)
    what = f"{count} alert{'' if count == 1 else 's'} would have opened" if count else NOTHING
    times = "" if found.timed else " (without times)"
    without = _ranges(found.not_replayed)
    rest = f". Not replayed (rows alone do not show it): {without}" if without else ""
    upto = f"up to step {steps(found.last_step)}{final}"
    return f"{what} over {found.steps:,} rows{times}, {upto}{rest}"


NOTHING: Final = "no alert would have opened"


def told(each: WouldTell, now: float) -> str:
    """Return when it would have been told: ``would have told you at 03:12, step 459``."""
    at = f"at {day_time(each.opened_at, now)}, " if each.opened_at else "at "
    words = f"would have told you {at}step {steps(each.opened_step)}"
    if not each.closed:
        return f"{words}; still open"
    over = f" at {day_time(each.closed_at, now)}" if each.closed_at else ""
    return f"{words}; over{over}, step {steps(each.closed_step)}"


def copied(found: Backtested, now: float) -> str:
    """Return the page as plain text, to be pasted elsewhere."""
    lines = [f"backtest of {found.run}: {summary(found)}"]
    lines += [f"{each.id} {told(each, now)}: {each.title}" for each in found.alerts]
    return "\n".join(lines)


def _lanes(found: Backtested, width: int) -> list[Content]:
    """Return a line for each condition, below the chart's own axis: ``[==]`` while it was open."""
    across, columns = width - LABELS - 1, found.curve
    if not columns or across < 8:
        return []
    axis = axis_of(Drawing(columns), across * 2, broken_end(columns))
    lanes = []
    for name in sorted({each.id for each in found.alerts}):
        line = [" "] * across
        own = [each for each in found.alerts if each.id == name]
        for each in own:
            _draw(line, each, axis)
        style = STYLES.get(max(own, key=lambda each: each.severity.rank).severity.value, DIM)
        lanes.append(text((f"{name:>{LABELS - 1}} │", DIM), ("".join(line), style)))
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


def _ranges(names: Sequence[str]) -> str:
    """Return ``C-01 to C-04, C-07`` for names that follow one another."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _number(name) == _number(runs[-1][-1]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(", ".join(run) if len(run) < 3 else f"{run[0]} to {run[-1]}" for run in runs)


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else -2
