"""Figures three rows high: the same in both fonts, unknown as unknown, within their room."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.facet import known, not_configured
from cockpit.model.observed import Row
from cockpit.model.report import RunReport
from tests.widgets import reports as made
from tests.widgets.anything import any_report
from widgets.painting.big import HEIGHT, enlarged, paint_big
from widgets.painting.line import DIM, STRONG


def shown(report: RunReport, width: int = 160, *, plain: bool = False) -> str:
    return "\n".join(line.plain for line in paint_big(report, made.NOW, width, plain=plain))


def test_digits_are_three_rows_and_other_letters_stand_at_the_foot() -> None:
    rows = enlarged("12.5k", plain=True)
    assert rows == ("    _   _  ", "  | _| |_  ", "  ||_ . _|k")
    assert all(len(row) == len(rows[0]) for row in rows)
    assert len({enlarged(str(digit), plain=True) for digit in range(10)}) == 10
    assert len({enlarged(str(digit), plain=False) for digit in range(10)}) == 10
    assert "".join(rows).isascii()


def test_verdict_step_loss_and_rate_with_what_belongs_to_them() -> None:
    well = shown(made.fleet()[0])
    for words in ("HEALTHY", "step", "loss", "tok/s", "of 20,000 · 40.0 %", "30s ago"):
        assert words in well, words
    for row in enlarged("8,004", plain=False):
        assert row.strip() in well
    assert "~" in well, "a step is about so many here as everywhere"
    assert "tok/s" not in shown(made.failed()), "what has ended has no rate"


@pytest.mark.parametrize("plain", [False, True])
def test_what_is_unknown_says_why_and_what_is_no_number_is_a_word(plain: bool) -> None:
    lost = shown(next(each for each in made.fleet() if each.name == "run-lost"), plain=plain)
    assert lost.count(" unknown ") >= 2 and "no answer in 20 s" in lost
    nan = shown(next(each for each in made.fleet() if each.name == "run-nan"), plain=plain)
    assert " NaN " in nan


def test_an_age_is_that_of_the_loss_and_not_of_the_look_at_its_file() -> None:
    hung = made.report("run-a", seen=made.facets(tracker=made.tracker(last_step_at=None)))
    assert "age unknown" in shown(hung) and " ago" not in shown(hung)
    rows = (Row(39, made.NOW - 7200, loss=2.39), Row(40, None))
    told = made.log()
    assert told.value is not None
    log = known(told.value.model_copy(update={"rows": rows}), "/data/run.log", made.NOW - 1)
    bare = made.facets(tracker=not_configured("wandb"), log=log)
    assert "2h 00m ago" in shown(made.report("run-a", seen=bare))


def test_a_loss_that_no_new_line_tells_is_not_said_never_to_have_been_logged() -> None:
    bare = made.facets(tracker=not_configured("wandb"), log=made.log())
    assert "none known from the log" in shown(made.report("run-a", seen=bare))


def test_a_rate_of_long_ago_is_dim() -> None:
    tracker = made.tracker()
    assert tracker.value is not None
    old = known(tracker.value, "W&B", made.NOW - 86400)
    for seen, style in ((tracker, STRONG), (old, DIM)):
        report = made.report("run-a", seen=made.facets(tracker=seen))
        lines = paint_big(report, made.NOW, 160, plain=False)
        row = enlarged("830k", plain=False)[1].rstrip()
        at = lines[2].plain.index(row)
        styles = {span.style for span in lines[2].spans if span.start <= at < span.end}
        assert str(style) in {str(each) for each in styles}


@settings(max_examples=60)
@given(st.one_of(st.sampled_from(made.fleet()), any_report()), st.integers(1, 250), st.booleans())
def test_property_it_keeps_within_its_room(report: RunReport, width: int, plain: bool) -> None:
    lines = paint_big(report, made.NOW, width, plain=plain)
    assert len(lines) == HEIGHT - 1
    assert all(line.cell_length <= width for line in lines)
