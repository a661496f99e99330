"""C-27: metrics past their limits, as a run's tracker logs them and a backtest replays them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.own_rules import Limited, limited_by

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
