"""C-27: metrics past their limits, as a run's tracker logs them and a backtest replays them."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.cli import main
from cockpit.model.alert import Alert, Severity
from cockpit.model.observed import Row
from cockpit.model.own_rules import Limited, limited_by
from cockpit.model.run import Thresholds
from cockpit.rules.metrics.loss import loss_spike
from cockpit.rules.metrics.nonfinite import non_finite
from tests.rules.making import T0, folded, history, log, losses, run_spec, tracker

EVERY = 30.0
BEGUN = 1_800_000_000.0
Extra = Callable[[int, random.Random], Mapping[str, float]]


def replayed(
    extra: Extra, folder: Path, capsys: pytest.CaptureFixture[str], *limits: str, rows: int = 1200
) -> list[tuple[str, int, int | None]]:
    """What a history with these metrics beside its loss opens: key, first and last step."""
    noise = random.Random(7)
    history = folder / "toy.jsonl"
    with history.open("w") as file:
        for step in range(rows):
            row = {"step": step, "time": BEGUN + EVERY * step, "loss": 2 + noise.gauss(0, 0.01)}
            file.write(json.dumps({**row, **extra(step, noise)}) + "\n")
    assert main(["backtest", str(history), *limits, "--json"]) == 0
    alerts = json.loads(capsys.readouterr().out)["alerts"]
    assert {each["id"] for each in alerts} <= {"C-27"}
    assert {each["severity"] for each in alerts} <= {"warning"}
    return [(each["key"], each["opened_step"], each["closed_step"]) for each in alerts]


def dropped(step: int, noise: random.Random) -> Mapping[str, float]:
    return {"moe/drop_frac": abs(noise.gauss(0.1 if 600 <= step < 800 else 0.02, 0.005))}


def dropped_percent(step: int, noise: random.Random) -> Mapping[str, float]:
    return {"router/dropped_tokens_percent": 100 * dropped(step, noise)["moe/drop_frac"]}


def slow(step: int, noise: random.Random) -> Mapping[str, float]:
    return {"perf/mfu": noise.gauss(0.17 if 600 <= step < 800 else 0.4, 0.01)}


def skips(step: int, noise: random.Random) -> Mapping[str, float]:
    return {"skipped": float(step in (600, 605, 610)), "grad_norm": noise.gauss(1, 0.01)}


def worse(step: int, noise: random.Random) -> Mapping[str, float]:
    if step % 20:
        return {}
    return {"eval/loss": noise.gauss(2.2 if 600 <= step < 800 else 2.0, 0.005)}


@pytest.mark.parametrize(
    ("extra", "metric", "opens", "closes"),
    [
        (dropped, "dropped tokens", 630, 800),
        (dropped_percent, "dropped tokens", 630, 800),
        (slow, "MFU", 630, 800),
        (worse, "evaluation loss", 620, 800),
        (skips, "skipped steps", 610, 631),
    ],
)
def test_what_is_usual_opens_without_a_word_and_closes(
    extra: Extra,
    metric: str,
    opens: int,
    closes: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert replayed(extra, tmp_path, capsys) == [(f"C-27:toy:{metric}", opens, closes)]


def wavers(step: int, noise: random.Random) -> Mapping[str, float]:
    one = {"moe/drop_frac": 0.09 if step % 20 == 0 else 0.03, "train/mfu": noise.gauss(0.4, 0.04)}
    one |= {"skipped": float(step % 97 == 0)}
    return one if step % 10 else {**one, "val/loss": noise.gauss(2.0, 0.03)}


def is_another(step: int, noise: random.Random) -> Mapping[str, float]:
    return {
        "dropout_rate": 0.1,
        "drop_path_rate": 0.3,
        "moe/layer_3/drop_frac": 0.4,
        "eval/layer_2_loss": 2.0 + step,
        "eval/router_loss": 1.0 + step,
        "peak_mfu": 1.0 / (1 + step),
    }


def counts_all(step: int, noise: random.Random) -> Mapping[str, float]:
    return {"skipped": 57.0}


def is_not_measured(step: int, noise: random.Random) -> Mapping[str, float]:
    return {"perf/mfu": noise.gauss(40, 1) if step % 600 < 540 else -100.0 * (step % 2)}


def is_no_measure_of_progress(step: int, noise: random.Random) -> Mapping[str, float]:
    losses = ("eval/policy_loss", "val/d_loss", "val_generator_loss", "eval_value_loss")
    return {name: 1.0 + step / 100 for name in losses} | {"data/dropped_tokens_fraction": 0.12}


@pytest.mark.parametrize(
    "extra", [wavers, is_another, counts_all, is_not_measured, is_no_measure_of_progress]
)
def test_what_only_wavers_or_is_something_else_opens_nothing(
    extra: Extra, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replayed(extra, tmp_path, capsys, rows=20_000) == []


@pytest.mark.parametrize(("level", "opens"), [(2.0, False), (2.2, True)])
def test_of_several_data_sets_at_one_step_the_first_is_compared(
    level: float, opens: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = tmp_path / "toy.jsonl"
    noise = random.Random(7)
    with history.open("w") as file:
        for step in range(1200):
            row = {"step": step, "time": BEGUN + EVERY * step, "loss": 2 + noise.gauss(0, 0.01)}
            file.write(json.dumps(row) + "\n")
            first = level if step >= 600 else 2.0
            sets = (first, first + 0.001, first + 0.002, first + 0.003, 3.0, 3.001)
            for each in sets if step % 20 == 0 else ():
                row = {"step": step, "time": BEGUN + EVERY * step, "eval/loss": each}
                file.write(json.dumps(row) + "\n")
    main(["backtest", str(history), "--json"])
    alerts = json.loads(capsys.readouterr().out)["alerts"]
    assert [(each["key"], each["opened_step"]) for each in alerts] == (
        [("C-27:toy:evaluation loss", 620)] if opens else []
    )


RUN_FILE = """
[[run]]
name = "toy"
[run.mlflow]
uri = "mlruns"
experiment = "toy"
[[run.limit]]
metric = "Queue.Depth"
above = 10
for = "5m"
advice = "the reward model lags"
[[run.limit]]
metric = "MFU"
above = inf
[[run.limit]]
metric = "loss"
above = 3
"""


def test_a_runs_own_limit_is_read_from_its_tracker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "mlruns" / "1" / "abc"
    (run / "metrics" / "queue").mkdir(parents=True)
    (tmp_path / "mlruns" / "1" / "meta.yaml").write_text(
        "artifact_location: x\nexperiment_id: '1'\nlifecycle_stage: active\nname: toy\n"
    )
    (run / "meta.yaml").write_text(
        "artifact_uri: x\nend_time: null\nexperiment_id: '1'\nlifecycle_stage: active\n"
        f"run_id: abc\nrun_name: a\nstart_time: {int(BEGUN * 1000)}\nstatus: 1\nuser_id: u\n"
    )
    series: dict[str, Callable[[int], float]] = {
        "loss": lambda step: 2.0,
        "mfu": lambda step: 0.4 if step < 300 else 0.1,
        "queue/depth": lambda step: 3.0 if step < 100 else 30.0,
    }
    for name, value in series.items():
        lines = (f"{int((BEGUN + EVERY * n) * 1000)} {value(n)} {n}\n" for n in range(400))
        (run / "metrics" / name).write_text("".join(lines))
    (tmp_path / "cockpit.toml").write_text(RUN_FILE)
    config = ["--config", str(tmp_path / "cockpit.toml")]
    assert main(["backtest", "toy", "--json", *config]) == 0
    (alert,) = json.loads(capsys.readouterr().out)["alerts"]
    assert (alert["key"], alert["opened_step"]) == ("C-27:toy:Queue.Depth", 110)
    assert main(["backtest", "toy", *config]) == 0
    assert "Queue.Depth is 30, above its limit 10" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ('metric = "x"', "expected one of above, below, above_best and below_usual"),
        ('metric = "x"\nabove = 1\nbelow = 0', "expected one of above"),
        ('metric = "x"\nabove = nan', "expected a number"),
        ('metric = "x"\nabove = 1\nfor = "soon"', "is not a duration"),
        ('metric = "x"\nabove = 1\nabvoe = 1', 'did you mean "above"'),
        ('metric = "skipped steps"\nabove = 1', "so many of skipped steps"),
        ('metric = "x"\nabove = 1\n[[run.limit]]\nmetric = "x"\nabove = 2', "above already"),
    ],
)
def test_a_mistake_is_one_line(
    limit: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(f'[[run]]\nname = "toy"\n[[run.limit]]\n{limit}\n')
    assert main(["check", "--config", str(path)]) == 2
    (line, *_) = capsys.readouterr().err.splitlines()
    assert problem in line and "cockpit.toml:" in line


NAMES: list[tuple[str, Any]] = [
    ("moe/dropped_tokens_fraction", Limited("dropped tokens")),
    ("train/moe_token_drop_rate", Limited("dropped tokens")),
    ("router.drop_pct", Limited("dropped tokens", 0.01)),
    ("eval_loss", Limited("evaluation loss")),
    ("val/loss", Limited("evaluation loss")),
    ("validation.loss", Limited("evaluation loss")),
    ("throughput/device/mfu", Limited("MFU")),
    ("MFU(%)", Limited("MFU")),
    ("best_val_loss", None),
    ("tokens_dropped", None),
    ("packing/dropped_tokens_ratio", None),
    ("eval/critic_loss", None),
    ("train/loss", None),
    ("stochastic_drop_path_rate", None),
]


@pytest.mark.parametrize(("name", "limit"), NAMES)
def test_the_usual_names_are_known_by_their_words(name: str, limit: Limited | None) -> None:
    assert limited_by(name, ()) == limit


def alerts(rows: list[Row]) -> list[Alert]:
    return list(loss_spike(run_spec(), history(T0 + 1e5, folded(rows))))


def test_ten_rows_half_above_the_trend_are_a_spike() -> None:
    (alert,) = alerts(losses([2.0] * 50 + [3.1] * 10))
    assert (alert.id, alert.key, alert.since) == ("C-11", "C-11:toy", T0 + 50)
    assert "step 50" in alert.evidence[0].text
    assert "peak 3.1; trend 2 " in alert.evidence[1].text


def test_nine_are_not_nor_are_ten_with_a_calm_row_between() -> None:
    assert alerts(losses([2.0] * 50 + [3.1] * 9)) == []
    assert alerts(losses([2.0] * 50 + [3.1] * 9 + [2.0] + [3.1] * 9)) == []


def test_just_half_above_is_not_more_than_half() -> None:
    assert alerts(losses([2.0] * 50 + [3.0] * 30)) == []


def test_rows_without_a_loss_do_not_break_the_row() -> None:
    spike: list[float | None] = [x for _ in range(10) for x in (3.5, None)]
    assert len(alerts(losses([2.0] * 50 + spike))) == 1


def test_it_lasts_as_long_as_the_loss_stays_up_and_closes_after_as_many_calm_rows() -> None:
    up = [2.0] * 50 + [4.0] * 3000
    assert len(alerts(losses(up))) == 1
    assert len(alerts(losses([*up, *[2.0] * 9]))) == 1
    assert alerts(losses([*up, *[2.0] * 10])) == []


def test_early_training_falls_and_is_no_spike() -> None:
    chance = random.Random(5)
    fall = [11 * (1 + i) ** -0.35 * chance.uniform(0.9, 1.1) for i in range(1500)]
    assert alerts(losses(fall)) == []


def test_a_spike_in_the_fall_is_found() -> None:
    fall = [11 * (1 + i) ** -0.35 for i in range(300)]
    assert len(alerts(losses([*fall, *[9.0] * 12]))) == 1


def test_a_loss_about_zero_or_below_is_judged_by_its_own_spread() -> None:
    chance = random.Random(7)
    about_zero = [chance.gauss(0, 0.01) for _ in range(2000)]
    below = [-3 + chance.gauss(0, 0.05) for _ in range(300)]
    assert alerts(losses(about_zero)) == [] == alerts(losses(below))
    assert len(alerts(losses([*about_zero, *[1.0] * 10]))) == 1
    assert len(alerts(losses([*below, *[-1.0] * 10]))) == 1


@given(st.integers(30, 400), st.floats(1e-6, 1e6), st.floats(1.6, 50))
def test_a_spike_is_found_at_any_scale(before: int, scale: float, factor: float) -> None:
    assert len(alerts(losses([scale] * before + [scale * factor] * 10))) == 1


@given(st.lists(st.floats(0.8, 1.2), min_size=30, max_size=300), st.integers(1, 9))
def test_short_bumps_never_fire(level: list[float], bump: int) -> None:
    bumped = [x * (5 if i % 20 >= 20 - bump else 1) for i, x in enumerate(level) if i > 20]
    assert alerts(losses([1.0] * 21 + bumped)) == []


def falling(rows: int, first: float = 40.0, last: float = 10.0) -> list[float]:
    return [first * (last / first) ** (row / rows) for row in range(rows)]


def test_a_short_run_that_turns_around_is_seen_though_it_is_below_where_it_began() -> None:
    rows = [*falling(40), *(10.0 * 1.02**row for row in range(40))]
    assert alerts(losses(rows[:72])) == []
    (alert,) = alerts(losses(rows))
    assert alert.since == T0 + 63, "the first row half above the level of its best five rows"


def test_in_a_short_noisy_run_its_noise_gives_the_limit() -> None:
    chance = random.Random(11)
    noisy = [loss * chance.gammavariate(4, 0.25) for loss in falling(150, 4.0, 2.0)]
    assert alerts(losses(noisy)) == []


def test_a_loss_of_both_signs_must_leave_its_spread_far_behind() -> None:
    chance = random.Random(5)
    around = [chance.gauss(0, 1) for _ in range(300)]
    assert alerts(losses([*around, *[2.5] * 30])) == []
    assert len(alerts(losses([*around, *[6.0] * 30]))) == 1


def doubling(rows: int, every: int = 200, noise: float = 0.02) -> list[float]:
    """A loss that doubles in so many rows: the median of the newest never sees it."""
    chance = random.Random(3)
    return [2.0 * 2 ** (row / every) * chance.uniform(1 - noise, 1 + noise) for row in range(rows)]


def test_a_loss_that_climbs_slowly_is_seen() -> None:
    (alert,) = alerts(losses([2.0] * 300 + doubling(300)))
    assert (alert.id, alert.key) == ("C-11", "C-11:toy")
    assert alert.title.startswith("Loss climbing: ") and "best 2" in alert.evidence[0].text
    assert T0 + 350 < alert.since < T0 + 450, "since the level left, not since it was told"


def test_a_hundred_rows_in_a_row_are_needed() -> None:
    up = [2.0] * 100 + [2.8] * 25  # the level is up with the 26th of them
    assert alerts(losses([*up, *[2.8] * 99])) == []
    assert len(alerts(losses([*up, *[2.8] * 101]))) == 1
    assert alerts(losses([*up, *[2.8] * 70, *[2.0] * 60, *[2.8] * 90])) == []


def test_it_is_over_once_the_loss_is_back() -> None:
    up = [2.0] * 100 + [2.8] * 300
    assert len(alerts(losses([*up, *[2.0] * 9]))) == 1
    assert alerts(losses([*up, *[2.0] * 10])) == []
    assert len(alerts(losses([*up, *[2.0] * 10, *[2.8] * 160]))) == 1, "and begins again"


def test_a_loss_about_zero_is_judged_by_its_spread() -> None:
    chance = random.Random(7)
    assert alerts(losses([chance.gauss(0, 0.01) for _ in range(3000)])) == []


def test_a_loss_near_zero_moves_freely() -> None:
    memorised = [2.0] * 60 + [2.0 * 0.97**row for row in range(250)]
    low = memorised[-1]
    assert alerts(losses([*memorised, *[low * 3] * 300])) == []


def test_training_that_went_back_begins_anew() -> None:
    rows = [*losses([3.0 * 0.99**row for row in range(200)])]
    replayed = losses([3.0 * 0.99**row for row in range(120)], first_step=20)
    assert alerts([*rows, *replayed]) == []


def test_going_on_from_within_a_climb_ends_nothing() -> None:
    up = [2.0] * 100 + [2.8] * 300
    rows = losses(up)
    inside = losses([2.8] * 5, first_step=300)
    before = losses([2.0] * 5, first_step=60)
    assert len(alerts([*rows, *inside])) == 1
    assert alerts([*rows, *before]) == []


def test_its_figures_are_settings() -> None:
    run = run_spec(thresholds=Thresholds(loss_climb=1.0, climb_rows=10))
    rows = losses([2.0] * 100 + [3.0] * 300)
    assert list(loss_spike(run, history(T0 + 1e5, folded(rows, run)))) == []
    rows = losses([2.0] * 100 + [4.4] * 36)
    assert len(list(loss_spike(run, history(T0 + 1e5, folded(rows, run))))) == 1


@given(st.integers(0, 400), st.floats(0.2, 0.6))
def test_a_falling_loss_never_climbs(seed: int, power: float) -> None:
    chance = random.Random(seed)
    fall = [11 * (1 + row) ** -power * chance.uniform(0.85, 1.15) for row in range(600)]
    assert not folded(losses(fall)).climb.is_open


def swaying(rows: int, depth: float, period: float = 400.0) -> list[float]:
    return [2.0 * (1 + depth * math.sin(2 * math.pi * row / period)) for row in range(rows)]


def test_a_level_that_sways_is_no_climb_and_one_that_goes_beyond_its_sway_is() -> None:
    quiet = swaying(2000, 0.12)
    wide = swaying(1200, 0.12) + swaying(800, 0.17)
    assert alerts(losses(quiet)) == [] and alerts(losses(wide)) == []
    assert len(alerts(losses([*quiet, *doubling(300)]))) == 1


def test_how_it_once_swayed_is_forgotten() -> None:
    rows = [*swaying(1600, 0.4), *[2.0] * 12_000, *[2.9] * 200]
    assert len(alerts(losses(rows))) == 1


@given(st.integers(11, 48), st.floats(0.05, 0.7), st.integers(0, 60))
def test_the_return_from_a_dip_is_no_climb(rows: int, depth: float, offset: int) -> None:
    """SPEC C: nothing fires on a single dip, however deep and wherever it lies."""
    dip = [2.0] * (150 + offset) + [2.0 * depth] * rows + [2.0] * 200
    assert alerts(losses(dip)) == []


def test_a_low_that_was_held_is_left_by_a_climb() -> None:
    low = [2.0] * 150 + [1.0] * 120 + [2.0] * 160
    assert len(alerts(losses(low))) == 1


def test_a_climb_straight_after_a_fall_is_seen() -> None:
    fall = [8.0 * 0.98**row for row in range(80)]
    rise = [fall[-1] * 2 ** (row / 150) for row in range(400)]
    assert len(alerts(losses([*fall, *rise]))) == 1


NAN, INF = float("nan"), float("inf")


def nonfinite_alerts(rows: list[Row], **facets: object) -> list[Alert]:
    return list(non_finite(run_spec(), history(T0 + 1e5, folded(rows), **facets)))


@pytest.mark.parametrize(("bad", "word"), [(NAN, "NaN"), (INF, "inf"), (-INF, "-inf")])
def test_one_row_is_enough_and_is_named(bad: float, word: str) -> None:
    (alert,) = nonfinite_alerts(losses([2.0] * 5 + [bad] + [2.0]))
    assert (alert.id, alert.severity, alert.since) == ("C-09", Severity.CRITICAL, T0 + 5)
    assert alert.title == f"Loss is {word} at step 5"
    assert "do not relaunch" in alert.next_action


@given(st.integers(0, 300), st.integers(0, 99), st.sampled_from([NAN, INF, -INF]))
def test_a_nan_anywhere_is_found(before: int, after: int, bad: float) -> None:
    (alert,) = nonfinite_alerts(losses([2.0] * before + [bad] + [2.0] * after))
    assert alert.since == T0 + before


def test_it_closes_after_a_hundred_finite_rows_and_not_before() -> None:
    assert len(nonfinite_alerts(losses([2.0, NAN] + [2.0] * 99))) == 1
    assert nonfinite_alerts(losses([2.0, NAN] + [2.0] * 100)) == []


def test_it_closes_sooner_when_training_goes_on_from_an_earlier_step() -> None:
    broken = losses([2.0] * 50 + [NAN] * 5)
    assert len(nonfinite_alerts(broken + losses([2.0] * 9, first_step=30))) == 1
    assert nonfinite_alerts(broken + losses([2.0] * 10, first_step=30)) == []


def test_a_rollback_into_the_same_nan_stays_open() -> None:
    broken = losses([2.0] * 50 + [NAN] * 5)
    (alert,) = nonfinite_alerts(broken + losses([2.0] * 3 + [NAN], first_step=47))
    assert "6 rows up to step 50" in alert.evidence[0].text


def grads(values: list[float | None]) -> list[Row]:
    return [Row(i, T0 + i, 2.0, None, value) for i, value in enumerate(values)]


def test_another_metric_needs_three_rows_in_a_row_that_carry_it() -> None:
    assert nonfinite_alerts(grads([1.0, NAN, NAN, 1.0, NAN, NAN])) == []
    (alert,) = nonfinite_alerts(grads([1.0, NAN, None, NAN, None, NAN]))
    assert alert.title == "Grad norm is NaN at step 1"


def test_the_log_is_looked_at_too() -> None:
    row = Row(7, T0 + 7, NAN)
    (alert,) = nonfinite_alerts(losses([2.0] * 50), log=log("step 7 loss nan", rows=(row,)))
    assert alert.since == T0 + 7


def test_the_newest_value_counts_until_its_row_has_been_folded() -> None:
    newest = tracker(step=60, loss=NAN, last_step_at=T0 + 60)
    assert len(nonfinite_alerts(losses([2.0] * 50), tracker=newest)) == 1
    healed = losses([2.0] * 60 + [NAN] + [2.0] * 100)
    assert nonfinite_alerts(healed, tracker=newest) == []


def overflowing(skips: list[float | None]) -> list[Row]:
    good = [Row(step, T0 + step, 2.0, None, 1.0, skipped=skips[0]) for step in range(5)]
    bad = [Row(5 + n, T0 + 5 + n, 2.0, None, INF, skipped=s) for n, s in enumerate(skips[1:])]
    return [*good, *bad]


def test_gradients_that_overflow_in_skipped_steps_are_no_finding() -> None:
    assert folded(overflowing([0.0, 1.0, 1.0, 1.0])).grad_finite.finding is None
    assert folded(overflowing([0.0, 0.0, 0.0, 0.0])).grad_finite.finding is not None
    assert folded(overflowing([None, None, None, None])).grad_finite.finding is not None


def test_a_count_of_all_skips_is_no_flag_until_it_rises() -> None:
    assert folded(overflowing([3.0, 4.0, 5.0, 6.0])).grad_finite.finding is None
    assert folded(overflowing([3.0, 3.0, 3.0, 3.0])).grad_finite.finding is not None


def test_a_lost_loss_is_one_whether_its_step_was_skipped_or_not() -> None:
    rows = [Row(0, T0, 2.0), Row(1, T0 + 1, NAN, skipped=1.0)]
    assert folded(rows).loss_finite.finding is not None
