"""What opened and closed within the rows is the same, however the rows came."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.observed import Row
from cockpit.model.trend import Trend
from cockpit.rules import replay
from cockpit.rules.judge import RULES
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.replay import BY_ROWS, Happened, Standing, judge_rows
from tests.rules.making import losses, run_spec, windows

RUN = run_spec()
EVENTFUL = losses(
    [2.0] * 50 + [3.5] * 40 + [2.0] * 30 + [math.nan] * 2 + [2.0] * 130 + [9.0] * 12 + [2.0] * 40
)
UNWATCHED = ("resumed_elsewhere", "log_mixed")
"""Rules on rows that hold against checkpoints, launches or the log too, which no row tells of."""


def cut_at(rows: list[Row], cuts: list[int]) -> tuple[Trend, Standing, list[Happened]]:
    trend, standing = Trend(), Standing()
    over: list[Happened] = []
    places = [0, *sorted(cuts), len(rows)]
    for begin, end in pairwise(places):
        trend, standing, some = judge_rows(trend, standing, rows[begin:end], RUN)
        over += some
    return trend, standing, over


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(EVENTFUL)), max_size=6))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    assert cut_at(EVENTFUL, cuts) == cut_at(EVENTFUL, [])


def test_what_came_and_went_in_one_batch_is_told_with_both_its_ends() -> None:
    trend, standing, over = cut_at(EVENTFUL, [])
    assert [(each.alert.id, each.opened_step, each.closed_step) for each in over] == [
        ("C-11", 59, 99),
        ("C-09", 120, 221),
        ("C-11", 261, 273),
    ]
    assert not standing.open and trend == advance(Trend(), EVENTFUL, RUN)
    assert "peak 3.5" in over[0].alert.evidence[1].text
    assert "34 logged rows" in over[0].alert.evidence[0].text, "as it was described last"


def test_what_is_open_is_handed_on_and_has_no_end() -> None:
    _, standing, over = cut_at(EVENTFUL[:70], [])
    assert not over and [each.alert.key for each in standing.open] == [f"C-11:{RUN.name}"]
    assert not standing.open[0].over and standing.open[0].opened_step == 59


def test_rows_without_a_time_leave_it_unknown() -> None:
    rows = [row._replace(at=None) for row in EVENTFUL]
    _, _, over = cut_at(rows, [90])
    first = over[0]
    assert (first.opened_at, first.closed_at, first.closed_step) == (None, None, 99)


def test_a_collapse_of_throughput_comes_and_goes_too() -> None:
    rows = windows([1200.0] * 10 + [800.0] * 6 + [1200.0] * 3)
    _, _, over = cut_at(list(rows), [])
    assert [each.alert.id for each in over] == ["C-05"]


def test_every_rule_on_rows_is_asked_row_by_row() -> None:
    on_rows = {rule for rule in RULES if rule.__module__.startswith("cockpit.rules.metrics")}
    assert {rule.__name__ for rule in on_rows - set(BY_ROWS)} == set(UNWATCHED)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST", 2)
    judge = replay.RowJudge(RUN, Trend(), Standing())
    for row in EVENTFUL:
        judge.add(row)
    assert (len(judge.over), judge.left_out, judge.open) == (2, 1, {})
