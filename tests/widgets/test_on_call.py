"""What a person on call sees: causes, acknowledgements, goodput, and what happened before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.cost import Cost
from cockpit.model.goodput import Goodput, Restarts, Split, parts
from cockpit.model.history import Moment, Then
from cockpit.model.report import Verdict
from tests.widgets import reports as made
from widgets.alert_list import TimelineView
from widgets.painting.big import BLOCKS, paint_account, paint_bar, paint_goodput, paint_short
from widgets.painting.journal import DAY, extent, paint_band, paint_strip
from widgets.painting.panel import paint_panel

NOW = made.NOW


ACCOUNT = Goodput(
    since=NOW - 86400.0, until=NOW, share=0.9,
    split=Split(productive_s=70_000.0, rework_s=1_000.0, down_s=6_777.0, unwatched_s=8_623.0),
    restarts=Restarts(ours=1, unknown=1), steps_lost=1204, accelerators=64,
    accelerator_hours_lost=17.8, evidence=("steps by the tracker",),
)  # fmt: skip


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(0.0, 1e7)), min_size=8, max_size=8),
    st.integers(0, 120),
)
def test_property_the_bar_fills_its_width_and_shows_every_part(
    seconds: list[float], width: int
) -> None:
    split = Split(**dict(zip(Split.model_fields, seconds, strict=True)))
    bar = paint_bar(ACCOUNT.model_copy(update={"split": split}), width).plain
    named = [name for name, _, _ in parts(ACCOUNT.model_copy(update={"split": split}))]
    if not named or width < len(named):
        assert bar == ""
    else:
        assert len(bar) == width
        assert set(bar) == {BLOCKS[name][0] for name in named}


def test_before_all_is_read_no_account_is_given() -> None:
    report = made.report(goodput=ACCOUNT, not_read_yet="the tracker's rows are not read yet")
    assert paint_short(report, 40).plain == "" and paint_account(report, 100) == []
    assert [line.plain for line in paint_goodput(report, 100)] == [report.not_read_yet]


def test_the_timeline_says_what_was_lost_where_no_panel_has_room() -> None:
    timeline = TimelineView()
    shown = "\n".join(each.plain for each in timeline.lines_of(made.report(goodput=ACCOUNT), 78))
    assert "2 restarts (1 ours, 1 unknown) · 1,204 steps lost" in " ".join(shown.split())


BURNS = Cost(
    currency="EUR", price=2.4, per="accelerator", since=NOW - 86400.0, until=NOW, accelerators=64,
    per_hour=153.6, held_s=77_777.0, unseen_s=8_623.0, spent=3318.5, lost_to_repeats=42.67,
    burning=76.8, burning_since=NOW - 1800.0, burning_why="Loss is NaN at step 300",
)  # fmt: skip


def test_what_burns_stands_first_on_the_card_and_on_the_run_page() -> None:
    report = made.report(goodput=ACCOUNT, cost=BURNS)
    card = "\n".join(each.plain for each in paint_panel(report, NOW, 80, 24))
    assert "cost  burning 153.60 EUR/h since " in card
    page = " ".join(each.plain for each in paint_goodput(report, 78))
    assert "76.80 EUR (Loss is NaN at step 300) · 3,318 EUR spent (21h" in page
    assert "64 accelerators at 2.40 EUR/h each; 2h 23m more that nobody saw)" in page
    assert "42.67 EUR of it lost to repeated steps" in page
    timeline = TimelineView()
    assert "burning 153.60" in "\n".join(each.plain for each in timeline.lines_of(report, 78))


@pytest.mark.parametrize(
    ("room", "said"),
    [(40, "goodput 90.0 % "), (14, "goodput 90.0 %"), (13, "goodput 90 %"), (11, "")],
)
def test_the_heads_figure_is_as_long_as_there_is_room_for_it(room: int, said: str) -> None:
    assert paint_short(made.report(goodput=ACCOUNT), room).plain == said
    assert paint_short(made.report(), room).plain == ""


WELL, SICK = Verdict.HEALTHY, Verdict.CRITICAL


def moments(*told: tuple[float, Verdict]) -> tuple[Moment, ...]:
    return tuple(Moment(made.NOW + after, verdict, True) for after, verdict in told)


def strip(*told: tuple[float, Verdict], at: float = 0.0, width: int = 60) -> str:
    line = paint_strip(moments(*told), made.NOW + at, made.NOW, width)
    assert line.cell_length <= width
    return "".join(each for each in line.plain if each in "█▅?▂▁·")


def test_the_strip_shows_the_worst_of_each_cell_and_where_nobody_watched() -> None:
    shown = strip((-600, WELL), (-300, SICK), (-290, WELL))
    assert 1 <= shown.count("█") <= 2 and shown.startswith("▂") and "·" not in shown
    gap = strip((-20 * 3600, WELL), (-3600, SICK))
    assert gap.startswith("▂") and "·" * 10 in gap and gap.endswith("█")
    assert paint_strip((), made.NOW, made.NOW, 12).plain == ""


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
    begin, end = extent(moments((first, WELL)), made.NOW + at, made.NOW)
    assert (begin - made.NOW, end - made.NOW) == expected


@pytest.mark.parametrize("width", [30, 80, 200])
def test_the_band_fills_the_line_and_tells_which_moment_and_how_it_is_known(width: int) -> None:
    then = Then(
        run="r", at=made.NOW - 900, report=made.report(), recorded_at=made.NOW - 1500, watched=True
    )
    line = paint_band(then, made.NOW - 900, made.NOW, width)
    assert line.cell_length == width and line.plain.startswith(" PAST  ")
    wide = paint_band(then, made.NOW - 900, made.NOW, 200).plain
    assert "15m ago" in wide and "as recorded 10m before" in wide
    why = "no cockpit was looking: the last look was 9h before"
    gap = then.model_copy(update={"watched": False, "lacks": (why,)})
    assert why in paint_band(gap, made.NOW - 900, made.NOW, 200).plain
    assert paint_band(None, made.NOW, made.NOW, 80, "broken").plain.count("broken") == 1
