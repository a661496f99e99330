"""However rows come, one by one, in polls or at once, and whoever folds them: the same is found.

Rows that are folded together give what each alone gives, to the last figure and event.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.judgement.curves import Curve, faulty, quiet, strained
from cockpit.model.alert import Alert
from cockpit.model.observed import Row
from cockpit.model.run import RunSpec, Thresholds
from cockpit.model.trend import Trend
from cockpit.rules.judge import RULES
from cockpit.rules.metrics.nonfinite import TaintFold
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.metrics.stability import unstable
from cockpit.rules.metrics.usual import BLOCK
from cockpit.rules.replay import BY_ROWS, Replay, RowJudge, Standing, replay
from tests.growing import grows_with_its_size
from tests.rules.making import T0, folded, history, job, losses, run_spec

metric = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True, width=32),
    st.sampled_from([1.0, 2.0, 3.0]),
)
rows = st.lists(
    st.builds(
        Row,
        step=st.one_of(st.none(), st.integers(0, 60)),
        at=st.one_of(st.none(), st.floats(T0, T0 + 2000)),
        loss=metric,
        throughput=metric,
        grad_norm=metric,
        z_loss=metric,
        router_entropy=metric,
        skipped=st.sampled_from([None, 0.0, 1.0, 2.0]),
    ),
    max_size=80,
)


@given(rows, st.lists(st.integers(1, 9), min_size=1))
def test_the_cut_into_batches_makes_no_difference(batch: list[Row], cuts: list[int]) -> None:
    run = run_spec()
    trend, rest, turn = Trend(), list(batch), 0
    while rest:
        size = cuts[turn % len(cuts)]
        trend, rest, turn = advance(trend, rest[:size], run), rest[size:], turn + 1
    assert repr(trend) == repr(advance(Trend(), batch, run))


@given(rows, rows)
def test_a_trend_survives_the_store(before: list[Row], after: list[Row]) -> None:
    run = run_spec()
    trend = advance(Trend(), before, run)
    kept = Trend.model_validate_json(trend.model_dump_json())
    again = Trend.model_validate(json.loads(json.dumps(trend.model_dump(mode="python"))))
    assert repr(kept) == repr(trend) == repr(again)
    assert repr(advance(kept, after, run)) == repr(advance(trend, after, run))


def test_every_part_of_a_trend_is_folded() -> None:
    good = [Row(i, T0 + i, 2.0, 1e5, 1.0, skipped=1.0) for i in range(400)]
    bad = [Row(400 + i, T0 + 400 + i, math.nan, 1e5, math.nan) for i in range(20)]
    trend, empty = folded([*good, *bad]), Trend()
    same = [name for name in Trend.model_fields if getattr(trend, name) == getattr(empty, name)]
    assert same == [], "a part of the fold that advance() does not make"


def test_its_size_is_bounded() -> None:
    noise = [Row(i, T0 + i * 0.01, 2 + math.sin(i), 1e5 + i % 7, 1.0) for i in range(30_000)]
    assert len(folded(noise).model_dump_json()) < 25_000


def test_its_cost_grows_with_the_rows() -> None:
    many = [Row(i, T0 + i, 2 + (i % 13) / 100, 1e5 + i % 7, 1.0) for i in range(16_000)]
    assert grows_with_its_size(lambda size: folded(many[:size]), len(many))


def test_the_usual_step_time_is_a_median_that_a_pause_does_not_move() -> None:
    rows = [Row(i, T0 + i * 2 + (500 if i > 20 else 0), 1.0) for i in range(40)]
    assert folded(rows).usual_step_s == 2.0


def test_rows_every_ten_steps_have_a_gap_and_a_step_time() -> None:
    pace = folded([Row(i * 10, T0 + i * 30, 1.0) for i in range(10)]).pace
    assert (pace.usual_step_s, pace.usual_gap_s) == (3.0, 30.0)


def test_a_resume_is_a_step_that_goes_back() -> None:
    rows = [*losses([1.0] * 50), Row(20, T0 + 900, 1.0), Row(21, T0 + 901, 1.0)]
    pace = folded(rows).pace
    assert (pace.resumes, pace.resumed_at, pace.step) == (1, T0 + 900, 21)
    assert pace.usual_step_s == 1.0


def test_an_evaluation_logged_late_is_no_resume_and_no_sign_of_training() -> None:
    rows = [*losses([1.0] * 50), Row(40, T0 + 900)]
    pace = folded(rows).pace
    assert (pace.resumes, pace.step, pace.at) == (0, 49, T0 + 49)


def test_an_evaluation_by_samples_seen_is_no_step_and_its_end_no_resume() -> None:
    rows: list[Row] = []
    for step in range(0, 400, 10):
        rows.append(Row(step, T0 + step, 2.0))
        if step % 100 == 90:
            rows.append(Row(1_000_000 + step, T0 + step + 1))
    trend = folded(rows)
    assert (trend.pace.step, trend.pace.resumes, trend.writers.turns) == (390, 0, 0)


def test_a_row_that_repeats_a_step_is_no_new_step() -> None:
    pace = folded([*losses([1.0] * 5), Row(4, T0 + 900, 1.0)]).pace
    assert pace.at == T0 + 4


def test_times_may_be_missing() -> None:
    pace = folded([Row(1, None, 1.0), Row(2, None, 1.0)]).pace
    assert (pace.step, pace.at, pace.usual_step_s) == (2, None, None)


def test_a_pause_is_remembered_until_a_resume_begins_anew() -> None:
    rows = [Row(i, T0 + i * 2 + (500 if i > 20 else 0), 1.0) for i in range(40)]
    assert folded(rows).pace.pauses == ((T0 + 40, T0 + 542),)
    twice = folded([*rows, Row(40, T0 + 900, 1.0), Row(41, T0 + 1300, 1.0)]).pace.pauses
    assert twice == ((T0 + 40, T0 + 542), (T0 + 578, T0 + 900), (T0 + 900, T0 + 1300))
    assert folded([*rows, Row(20, T0 + 900, 1.0)]).pace.pauses == ()


def test_rows_of_an_even_pace_and_a_single_late_one_make_no_pause() -> None:
    rows = [Row(i, T0 + i * 2 + (3 if i > 20 else 0), 1.0) for i in range(40)]
    assert folded(rows).pace.pauses == ()


def test_the_usual_pace_is_not_that_of_rows_flushed_at_once() -> None:
    burst = [Row(step, 100.0 + step * 0.00007, 2.0) for step in range(300)]
    trend = advance(Trend(), burst, run_spec())
    assert (trend.usual_step_s, trend.pace.usual_gap_s) == (None, None)
    trend = advance(trend, [Row(300 + more, 101.0 + more, 2.0) for more in range(4)], run_spec())
    assert trend.usual_step_s == pytest.approx(1.0, abs=0.03)


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


CALM_RUN = run_spec(cadence=120.0)
Change = Callable[[random.Random, Row], Row]

CHANGES: dict[str, Change] = {
    "as it is": lambda by, row: row,
    "one nan": lambda by, row: row._replace(loss=math.nan) if by.random() < 0.004 else row,
    "nan grads": lambda by, row: row._replace(grad_norm=math.inf) if by.random() < 0.01 else row,
    "without a loss": lambda by, row: row._replace(loss=None) if by.random() < 0.05 else row,
    "without a time": lambda by, row: row._replace(at=None) if by.random() < 0.02 else row,
    "zeros": lambda by, row: row._replace(loss=0.0) if by.random() < 0.01 else row,
    "without rates": lambda by, row: row._replace(throughput=None),
    "some rates": lambda by, row: row._replace(throughput=None) if by.random() < 0.02 else row,
    "batches": lambda by, row: row._replace(throughput=None, batch=8.0 + 8 * (time_of(row) > 900)),
    "spiky": lambda by, row: row._replace(loss=2.0 * (row.loss or 0)) if spiky(row) else row,
    "climbing": lambda by, row: row._replace(loss=(row.loss or 0) * 1.001 ** (row.step or 0)),
    "unstable": lambda by, row: row._replace(grad_norm=7.0) if spiky(row) else row,
    "below zero": lambda by, row: row._replace(loss=-(row.loss or 0)),
    "other metrics": lambda by, row: row._replace(router_entropy=3.0 - by.random(), z_loss=0.1),
    "rates of learning": lambda by, row: row._replace(lr=1e-4 if by.random() < 0.5 else None),
    "skips": lambda by, row: row._replace(skipped=float(by.random() < 0.1)),
    "use of the machine": lambda by, row: row._replace(
        limited=(("MFU", (0.4 if time_of(row) % 1500 < 1200 else 0.15) + 0.01 * by.random()),)
    ),
    "dropped tokens": lambda by, row: row._replace(
        limited=(("dropped tokens", 0.2 if time_of(row) % 2000 > 900 else 0.01 * by.random()),)
    ),
    "evaluations": lambda by, row: (
        row._replace(limited=(("evaluation loss", by.choice([2.0, 2.0, 1.9, 2.1, 3.0, math.nan])),))
        if (row.step or 0) % 50 == 0
        else row
    ),
    "worse evaluations": lambda by, row: row._replace(
        limited=(("evaluation loss", 2 + time_of(row) / 1000 - 0.1 * by.random()),)
    ),
    "slow": lambda by, row: row._replace(throughput=10.0) if 600 < time_of(row) < 1500 else row,
}


def time_of(row: Row) -> float:
    return (row.at or T0) - T0


def spiky(row: Row) -> bool:
    return (row.step or 0) % 400 > 385


def training(by: random.Random, noise: float) -> Iterator[Row]:
    """A few instances that resume, skip and pause; rows of the same step are among them."""
    step, at, stride = 0, T0, by.choice([1, 1, 1, 10])
    odd = by.choice([0.0, 0.0003, 0.003])
    for _ in range(by.randint(1, 3)):
        for _ in range(by.choice([50, 800, 1600])):
            at += by.choice([1.0, 1.0, 1.0, 1.5, 0.5])
            if by.random() < odd:
                at += by.choice([3.0, 10.0, 400.0, 100_000.0])
            loss = (2 + 6 / (1 + step / 100)) * math.exp(by.gauss(0, noise))
            norm = math.exp(by.gauss(0, 0.3))
            yield Row(step, at, loss, 1000.0 + by.gauss(0, 5), norm)
            if by.random() < odd:
                yield Row(step, at, None, None, None)
            step += stride if by.random() >= odd else 7 * stride
        step = max(0, step - by.randint(0, 700) * stride)


def both(rows: list[Row], run: RunSpec, cut: int) -> int:
    """Compare the two ways; return how many rows were folded together."""
    alone, together = Replay(run), Replay(run)
    for row in rows:
        alone.add(row)
    taken: list[int] = []
    stretch = together._judge.stretch

    def counted(some: list[Row], longest: float) -> int:
        taken.append(stretch(some, longest))
        return taken[-1]

    together._judge.stretch = counted  # type: ignore[assignment,method-assign]
    for begin in range(0, len(rows), cut):
        together.extend(rows[begin : begin + cut])
    assert repr(together.ended()) == repr(alone.ended())
    assert repr(together._judge.fold.freeze()) == repr(alone._judge.fold.freeze())
    assert together._judge.freeze() == alone._judge.freeze()
    return sum(taken)


@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.01, 0.1, 0.5]),
    st.sets(st.sampled_from(sorted(CHANGES)), max_size=2),
    st.integers(1, 3000),
    st.sampled_from([120.0, 900.0, 20_000.0]),
)
@example(1, 0.01, {"climbing"}, 2000, 900.0)
@example(2, 0.01, {"unstable"}, 2000, 900.0)
@example(3, 0.01, {"spiky"}, 2000, 900.0)
@example(4, 0.01, {"slow"}, 2000, 120.0)
@example(5, 0.01, {"use of the machine"}, 2000, 900.0)
@example(6, 0.01, {"dropped tokens"}, 2000, 900.0)
@example(7, 0.01, {"worse evaluations"}, 2000, 900.0)
def test_any_history(seed: int, noise: float, changes: set[str], cut: int, cadence: float) -> None:
    by = random.Random(seed)
    rows = list(training(by, noise))
    for name in sorted(changes):
        rows = [CHANGES[name](by, row) if row.at is not None else row for row in rows]
    both(rows, run_spec(cadence=cadence), cut)


@pytest.mark.parametrize("name", sorted(CURVES)[::3])
def test_curves_with_faults(name: str) -> None:
    both(rows_of(CURVES[name]), run_spec(cadence=900.0), 2000)


@pytest.mark.parametrize(
    "figures",
    [
        {"loss_spike": 1.5}, {"instability_z": 30.0}, {"instability_window": 20},
        {"instability_rows": 2}, {"loss_climb": 0.01, "climb_rows": 5, "spike_rows": 2},
    ],
)  # fmt: skip
def test_with_other_thresholds(figures: dict[str, float]) -> None:
    limits = CALM_RUN.thresholds.model_copy(update=figures)
    for seed in range(4):
        both(list(training(random.Random(seed), 0.1)), run_spec(thresholds=limits), 2000)


def calm_quiet(by: random.Random, first: int, last: int, later: float = 0.0) -> list[Row]:
    return [
        Row(step, T0 + 2.0 * step + later, 2 + by.gauss(0, 0.05), 1e3, math.exp(by.gauss(0, 0.3)))
        for step in range(first, last)
    ]


@pytest.mark.parametrize("pause", [5.0, 30.0, 400.0, 100_000.0])
@pytest.mark.parametrize("at", range(700, 700 + BLOCK, 7))
def test_a_pause_among_quiet_rows(pause: float, at: int) -> None:
    by = random.Random(at)
    rows = [*calm_quiet(by, 0, at), *calm_quiet(by, at, at + 300, later=pause)]
    assert both(rows, run_spec(cadence=300.0), 2000) > 150
    assert both([row._replace(throughput=None) for row in rows], CALM_RUN, 2000) > 0


@pytest.mark.parametrize("back", [1, 30, 300])
def test_a_resume_among_quiet_rows(back: int) -> None:
    by = random.Random(back)
    rows = [*calm_quiet(by, 0, 900), *calm_quiet(by, 900 - back, 2400, later=3000.0)]
    assert both(rows, run_spec(cadence=900.0), 2000) > 300


def test_most_rows_of_a_quiet_history_are_folded_together() -> None:
    rows = calm_quiet(random.Random(1), 0, 2400)
    assert both(rows, run_spec(cadence=900.0), 2000) > 0.7 * len(rows)


WARM = 200


def norms(values: Iterable[float | None], name: str = "grad_norm", first: int = WARM) -> list[Row]:
    changes: list[dict[str, Any]] = [{name: value} for value in values]
    return [Row(first + n, T0 + n, 2.0)._replace(**each) for n, each in enumerate(changes)]


def noisy(count: int, level: float = 1.0, sigma: float = 0.1, seed: int = 7) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(level, sigma) for _ in range(count)]


def alerts(rows: list[Row], run: RunSpec | None = None) -> list[Alert]:
    spec = run or run_spec()
    return list(unstable(spec, history(T0 + len(rows), folded(rows, spec), job=job())))


def test_ten_rows_beyond_six_robust_deviations_open_it_and_nine_do_not() -> None:
    assert alerts(norms(noisy(300) + [2.0] * 9)) == []
    (found,) = alerts(norms(noisy(300) + [2.0] * 10))
    assert (found.id, found.severity.value, found.since) == ("C-10", "alert", T0 + 300)
    assert "10 logged rows beyond a robust z-score of 6 since step 500" in found.evidence[0].text


def test_a_score_below_six_opens_nothing() -> None:
    assert alerts(norms(noisy(300) + [1.5] * 50)) == []


def test_it_is_over_after_as_many_usual_rows() -> None:
    gone = noisy(300) + [3.0] * 30
    assert alerts(norms(gone + noisy(9, seed=3)))
    assert alerts(norms(gone + noisy(10, seed=3))) == []


def test_what_has_stood_for_ten_windows_is_usual() -> None:
    run = run_spec(thresholds=Thresholds(instability_window=60))
    assert alerts(norms(noisy(300) + noisy(500, 3.0)), run)
    assert alerts(norms(noisy(300) + noisy(700, 3.0)), run) == []


def test_the_warm_up_is_not_judged() -> None:
    rows = norms(noisy(150) + [9.0] * 40, first=0)
    assert alerts(rows) == []
    assert alerts(rows, run_spec(thresholds=Thresholds(warmup_steps=20)))


def test_a_clipped_norm_may_move_a_little() -> None:
    assert alerts(norms([1.0] * 300 + [1.25] * 50)) == []
    assert alerts(norms([1.0] * 300 + [1.4] * 50))


@pytest.mark.parametrize(
    "metric, values, opens",
    [
        ("z_loss", [5.0] * 10, True),
        ("router_loss", [5.0] * 10, True),
        ("router_loss", [0.01] * 10, False),
        ("router_entropy", [0.01] * 10, True),
        ("router_entropy", [5.0] * 10, False),
    ],
)
def test_each_metric_goes_wrong_in_its_own_direction(
    metric: str, values: list[float], opens: bool
) -> None:
    assert bool(alerts(norms(noisy(300) + values, metric))) is opens


ENTROPY = noisy(300, 5.945, 0.001)


@pytest.mark.parametrize("level", [5.9, 5.0, 4.5])
def test_a_router_that_leaves_its_bound_is_seen(level: float) -> None:
    (found,) = alerts(norms(ENTROPY + noisy(10, level, 0.001), "router_entropy"))
    assert "router entropy" in found.title
    balance = norms(noisy(300, 1.01, 0.001) + noisy(10, 1.2, 0.01), "router_loss")
    assert len(alerts(balance)) == 1


def test_a_router_whose_entropy_is_rounded_or_drifts_is_well() -> None:
    rounded = [round(value, 3) for value in ENTROPY]
    assert alerts(norms([*[5.945] * 300, *rounded], "router_entropy")) == []
    drifts = [value - 0.0005 * at for at, value in enumerate(noisy(2000, 5.9, 0.004))]
    assert alerts(norms(drifts, "router_entropy")) == []


def test_two_metrics_are_one_alert() -> None:
    rows = norms(noisy(300) + [4.0] * 10)
    (found,) = alerts([row._replace(z_loss=row.grad_norm) for row in rows])
    assert [line.text.partition(":")[0] for line in found.evidence] == ["grad norm", "z-loss"]


def test_going_back_to_before_it_ends_it() -> None:
    bad = norms(noisy(300) + [4.0] * 30)
    assert alerts([*bad, *norms(noisy(5), first=WARM + 320)]), "still within"
    assert alerts([*bad, *norms(noisy(5), first=WARM + 250)]) == []


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_heavy_tails_open_nothing(seed: int) -> None:
    draw = random.Random(seed)
    assert alerts(norms(math.exp(draw.gauss(0, 0.8)) for _ in range(1000))) == []
