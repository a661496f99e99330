"""Painting the past: happenings, the strip, the band."""

from __future__ import annotations

import pytest

from cockpit.model.past import Happening, Kind, Moment, Sign, Then
from cockpit.model.report import Verdict
from tests.widgets import reports as made
from widgets.painting.past import DAY, extent, paint_band, paint_happening, paint_strip

NOW = made.NOW
WELL, SICK = Verdict.HEALTHY, Verdict.CRITICAL


def moments(*told: tuple[float, Verdict]) -> tuple[Moment, ...]:
    return tuple(Moment(NOW + after, verdict, True) for after, verdict in told)


def strip(*told: tuple[float, Verdict], at: float = 0.0, width: int = 60) -> str:
    line = paint_strip(moments(*told), NOW + at, NOW, width)
    assert line.cell_length <= width
    return "".join(each for each in line.plain if each in "▅▃?▂▁·")


def test_the_strip_shows_the_worst_of_each_cell_and_where_nobody_watched() -> None:
    shown = strip((-600, WELL), (-300, SICK), (-290, WELL))
    assert 1 <= shown.count("▅") <= 2 and shown.startswith("▂") and "·" not in shown
    gap = strip((-20 * 3600, WELL), (-3600, SICK))
    assert gap.startswith("▂") and "·" * 10 in gap and gap.endswith("▅")
    assert paint_strip((), NOW, NOW, 12).plain == ""


@pytest.mark.parametrize(
    ("first", "at", "expected"),
    [
        (-3600, 0, (-3600, 0)),
        (-90 * DAY, 0, (-DAY, 0)),
        (-90 * DAY, -10 * DAY, (-10.5 * DAY, -9.5 * DAY)),
        (-90 * DAY, -90 * DAY, (-90 * DAY, -89 * DAY)),
    ],
)
def test_the_strip_shows_at_most_a_day_around_the_moment(
    first: float, at: float, expected: tuple[float, float]
) -> None:
    begin, end = extent(moments((first, WELL)), NOW + at, NOW)
    assert (begin - NOW, end - NOW) == expected


@pytest.mark.parametrize("width", [30, 80, 200])
def test_the_band_fills_the_line_and_tells_which_moment_and_how_it_is_known(width: int) -> None:
    then = Then(run="r", at=NOW - 900, report=made.report(), recorded_at=NOW - 1500, watched=True)
    line = paint_band(then, NOW - 900, NOW, width)
    assert line.cell_length == width and line.plain.startswith(" PAST  ")
    wide = paint_band(then, NOW - 900, NOW, 200).plain
    assert "15m ago" in wide and "as recorded 10m before" in wide
    why = "no cockpit was looking: the last look was 9h before"
    gap = then.model_copy(update={"watched": False, "lacks": (why,)})
    assert why in paint_band(gap, NOW - 900, NOW, 200).plain
    assert paint_band(None, NOW, NOW, 80, "broken").plain.count("broken") == 1


def test_a_happening_says_when_what_and_of_what_kind() -> None:
    each = Happening(
        at=NOW - 60, kind=Kind.CHECKPOINT, sign=Sign.GOOD, text="Checkpoint 400 saved", note="1 GB"
    )
    line = paint_happening(each, NOW, 80, 5).plain
    assert "✓ Checkpoint 400 saved  1 GB" in line and line.endswith("checkpoint")
    alert = each.model_copy(update={"code": "C-01"})
    assert paint_happening(alert, NOW, 40, 5).plain.endswith("C-01")
    assert paint_happening(each, NOW, 20, 5).cell_length == 20
