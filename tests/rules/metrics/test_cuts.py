"""However rows come, one by one, in polls or at once, and whoever folds them: the same is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.judgement.curves import Curve, faulty, quiet, strained
from cockpit.model.observed import Row
from cockpit.model.trend import Trend
from cockpit.rules.judge import RULES
from cockpit.rules.metrics.nonfinite import TaintFold
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.replay import BY_ROWS, RowJudge, Standing, replay
from tests.rules.making import history, job, run_spec

CURVES = {
    each["name"]: each
    for each in (*faulty(3), *strained(3), *quiet(5))
    if len(each["rows"]) < 1600
}  # fmt: skip
RUN = run_spec(cadence=900.0)


def rows_of(curve: Curve) -> list[Row]:
    return [
        Row(each["step"], each["time"], each["loss"], each["throughput"], each["grad_norm"])
        for each in curve["rows"]
    ]


def polls(rows: list[Row], seconds: float) -> Iterator[list[Row]]:
    """Cut rows as somebody would find them who looks every so many seconds."""
    look: list[Row] = []
    for row in rows:
        if look and (row.at or 0.0) // seconds != (look[-1].at or 0.0) // seconds:
            yield look
            look = []
        look.append(row)
    yield look


@pytest.mark.parametrize("name", sorted(CURVES)[::4])
def test_polls_and_restarts_in_between_find_what_all_rows_at_once_do(name: str) -> None:
    rows = rows_of(CURVES[name])
    polled = Trend()
    for look in polls(rows, 900.0):
        polled = Trend.model_validate_json(advance(polled, look, RUN).model_dump_json())
    assert repr(polled) == repr(advance(Trend(), rows, RUN))
    now = max(row.at or 0.0 for row in rows)
    told = [
        [alert.key for alert in rule(RUN, history(now, trend, job=job()))]
        for trend in (polled, advance(Trend(), rows, RUN))
        for rule in BY_ROWS
    ]
    assert told[: len(BY_ROWS)] == told[len(BY_ROWS) :]


def test_what_is_replayed_is_judged_live_as_well() -> None:
    assert set(BY_ROWS) <= set(RULES)


@pytest.mark.parametrize("name", sorted(CURVES)[1::5])
def test_the_short_way_for_sound_rows_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(CURVES[name])
    short = advance(Trend(), rows, RUN)
    monkeypatch.setattr(TaintFold, "_all_is_well", lambda *_: False)
    assert repr(advance(Trend(), rows, RUN)) == repr(short)


@pytest.mark.parametrize("name", sorted(CURVES)[2::5])
def test_a_replay_leaves_out_only_what_no_rule_on_rows_asks_for(name: str) -> None:
    rows, whole = rows_of(CURVES[name]), RowJudge(RUN, Trend(), Standing())
    for row in rows:
        whole.add(row)
    told = sorted(map(repr, [*whole.over, *whole.open.values()]))
    replayed = [each for each in replay(rows, RUN).ended() if each.alert.id != "C-06"]
    assert sorted(map(repr, replayed)) == told
