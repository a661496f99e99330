"""A run's past as it is painted: what happened, how it was over time, a moment's band. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from textual.content import Content

from cockpit.model.past import Happening, Kind, Moment, Sign, Then
from cockpit.model.report import Verdict
from cockpit.model.wording import age, clock_time, day_time, glyph, lasting, steps, zone_name
from widgets.painting.line import ACCENT, DIM, EMPTY, cut, fit, placed, row, text

DAY: Final = 86400.0
HELD: Final = 5400.0
"""Seconds for which a moment that is kept tells of the time after it: one an hour is kept."""
MARKS: Final = {
    Verdict.CRITICAL: ("▅", "$critical"), Verdict.ATTENTION: ("▃", "$attention"),
    Verdict.UNKNOWN: ("?", "$unknown"), Verdict.HEALTHY: ("▂", "$well"),
    Verdict.FINISHED: ("▁", "$accent"), Verdict.SEALED: ("▁", DIM), None: ("·", DIM),
}  # fmt: skip
"""By verdict (``None``: nothing is kept): the strip's mark, higher the worse it was."""
LEAST: Final = 16
"""Cells below which no strip is drawn."""
SIGNS: Final = {
    Sign.CRITICAL: (glyph("critical"), "$critical"),
    Sign.ATTENTION: (glyph("attention"), "$attention"),
    Sign.GOOD: (glyph("complete"), "$well"),
    Sign.UNKNOWN: (glyph("unknown"), "bold $unknown"),
    Sign.PLAIN: (glyph("info"), DIM),
}
WORDS: Final = {
    Kind.ALERT: "alert", Kind.ACTION: "action", Kind.JOB: "job", Kind.CHECKPOINT: "checkpoint",
    Kind.ENTRY: "log entry", Kind.HANDOFF: "handoff",
}  # fmt: skip
KIND_FROM: Final = 70
"""Columns from which each happening says of what kind it is."""
_ORDER: Final = (
    Verdict.SEALED, Verdict.FINISHED, Verdict.HEALTHY, Verdict.UNKNOWN, Verdict.ATTENTION,
    Verdict.CRITICAL,
)  # fmt: skip


def when_width(found: Sequence[Happening], now: float) -> int:
    """Return the cells of the longest of their times."""
    return max((len(day_time(each.at, now)) for each in found), default=0)


def paint_happening(
    each: Happening, now: float, width: int, when: int, *, named: bool = True
) -> Content:
    """Return one happening: its time in ``when`` cells, what, at the right its rule or kind."""
    mark, style = SIGNS[each.sign]
    stamp = text((f"{day_time(each.at, now):>{when}}", DIM))
    ink = "" if each.sign is not Sign.PLAIN else DIM
    note = text((f"  {each.note}", DIM)) if each.note else EMPTY
    kind = WORDS[each.kind] if named and width >= KIND_FROM else ""
    right = text((each.code or kind, DIM))
    left = text(stamp, " ", (f"{mark} ", style), (each.text, ink), note)
    return row(placed(left, width - right.cell_length - 1), right, width)


def paint_band(found: Then | None, at: float, now: float, width: int, why: str = "") -> Content:
    """Return the band across the head: that this is the past, which moment, and how it is known.

    ``why`` says that nothing can be read; the band fills the whole width.
    """
    when = f"{day_time(at, now)}{clock_time(at, seconds=True)[5:]} {zone_name(at)}"
    head = f" PAST  {when}  {age(now - at)} ago"
    if now - at < 15:
        head = f" PAST  {when}"
    known = why or _known(found, at)
    left = cut(text((f"{head}  ", "bold"), known), max(0, width - 20))
    right = text(("esc returns to now ", "bold"))
    return fit(row(left, right, width), width).stylize("reverse $attention")


def _known(found: Then | None, at: float) -> str:
    """Return how the moment is known: kept when, or what of it is not."""
    if found is None:
        return "reading the store"
    if found.report is None:
        return "not known"
    if not found.watched or found.recorded_at is None:
        return found.lacks[0] if found.lacks else ""
    late = at - found.recorded_at
    if late < 1:
        return "as recorded then"
    seen, said = found.seen, f"as recorded {lasting(late)} before"
    if seen is None or seen.step is None or seen.at <= found.recorded_at:
        return said
    return f"{said}; step {steps(seen.step)} at {clock_time(seen.at, seconds=True)}"


def paint_strip(moments: Sequence[Moment], at: float, now: float, width: int) -> Content:
    """Return how the run was over the time around ``at``, which is marked; newest at the right.

    At most a day is shown: the last one, or half a day on either side of ``at``. A cell shows the
    worst that held in it, a dot that nothing is kept of it: nobody watched.
    """
    begin, end = extent(moments, at, now)
    first, last = text((f" {day_time(begin, now)} ", DIM)), text((f" {_end(end, now)} ", DIM))
    across = width - first.cell_length - last.cell_length
    if across < LEAST:
        return EMPTY
    times = [each.at for each in moments]
    every = (end - begin) / across
    here = min(across - 1, max(0, int((at - begin) / every)))
    cells = [_cell(moments, times, begin + place * every, every) for place in range(across)]
    shown = [text((MARKS[cell][0], MARKS[cell][1])) for cell in cells]
    shown[here] = text((MARKS[cells[here]][0], f"reverse bold {ACCENT}"))
    return text(first, *shown, last)


def _end(end: float, now: float) -> str:
    return f"now {clock_time(end)}" if end >= now else day_time(end, now)


def extent(moments: Sequence[Moment], at: float, now: float) -> tuple[float, float]:
    """Return the begin and the end of what a strip shows around ``at``."""
    begin = min(at, moments[0].at) if moments else at - DAY / 2
    end = max(now, at, begin + 60)
    if end - begin <= DAY:
        return begin, end
    if end - at <= DAY / 2:
        return end - DAY, end
    begin = max(begin, at - DAY / 2)
    return begin, begin + DAY


def _cell(
    moments: Sequence[Moment], times: Sequence[float], begin: float, every: float
) -> Verdict | None:
    """Return the worst verdict that was kept in a cell, or held since before."""
    first, past = bisect_left(times, begin), bisect_right(times, begin + every)
    if first and begin - times[first - 1] <= HELD:
        first -= 1
    held = moments[first:past]
    if not held:
        return None
    return max((each.verdict for each in held), key=_ORDER.index)
