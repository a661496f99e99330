"""``backtest``: a whole history replayed, from JSON lines, a ``.wandb`` file or a run's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.rules.replay import NOT_REPLAYED
from tests.sources.wandb import writer

SPIKE = [2.0] * 50 + [3.1] * 15 + [2.0] * 30


def jsonl(path: Path, values: list[float], **more: Any) -> Path:
    rows = ({"step": step, "loss": loss, **more} for step, loss in enumerate(values))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["backtest", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def events(document: Any) -> list[tuple[str, int, int | None]]:
    return [(a["id"], a["opened_step"], a["closed_step"]) for a in document["alerts"]]


def test_json_lines_are_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = jsonl(tmp_path / "toy.jsonl", SPIKE)
    found = said(capsys, str(path))
    assert (found["schema"], found["run"], found["steps"]) == (1, "toy", 95)
    assert events(found) == [("C-11", 59, 74)]
    (alert,) = found["alerts"]
    assert alert["opened_at"] == "1970-01-01T00:09:50.000Z", "one row per 10 s without a time"
    assert found["not_replayed"] == list(NOT_REPLAYED) and "C-01" in NOT_REPLAYED
    assert main(["backtest", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("C-11  step 59 → step 74  Loss more than 50 %")
    assert lines[1] == "95 rows, up to step 94; its rows have no time: go by the steps"


def test_numbers_that_are_none_are_read_as_python_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = jsonl(tmp_path / "toy.jsonl", [2.0, float("nan"), float("inf")], time=1_800_000_000.0)
    assert events(said(capsys, str(path))) == [("C-09", 1, None)]


def test_rows_of_a_second_writer_are_said_to_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "toy.jsonl"
    steps = [*range(100), *(n // 2 + (100, 40)[n % 2] for n in range(400))]
    path.write_text("".join(f'{{"step": {step}, "loss": 2.0}}\n' for step in steps))
    found = said(capsys, str(path))
    assert (found["steps"], found["set_aside"], events(found)) == (500, 199, [])
    assert main(["backtest", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "199 rows of a second writer, by turns with the first" in lines[:2]


def test_thresholds_are_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(jsonl(tmp_path / "toy.jsonl", SPIKE))
    assert events(said(capsys, path, "--set", "loss_spike=0.6")) == []
    assert events(said(capsys, path, "--set", "spike_rows=15")) == [("C-11", 64, 79)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--set", "loss_spik=1"), 'did you mean "loss_spike"'),
        (("--set", "spike_rows=0"), "expected a number of at least 1"),
        (("--set", "loss_spike"), "expected THRESHOLD=VALUE"),
        (("--cadence", "soon"), "--cadence soon"),
    ],
)
def test_a_wrong_setting_is_one_line(
    words: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backtest", str(jsonl(tmp_path / "toy.jsonl", SPIKE)), *words]) == 2
    err = capsys.readouterr().err
    assert why in err and err.count("\n") == 1


def test_lines_that_are_no_rows_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = jsonl(tmp_path / "toy.jsonl", SPIKE)
    path.write_text('{"step": 0, "loss": 2.0}\nnot json\n[]\n{"loss": 1}\n' + path.read_text())
    assert main(["backtest", str(path), "--json"]) == 0
    told = capsys.readouterr()
    assert "3 lines are not rows and were skipped; the first is line 2" in told.err
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert main(["backtest", str(empty)]) == 2
    assert "nothing to replay" in capsys.readouterr().err


def wandb_file(folder: Path) -> Path:
    path = folder / "offline-run-20260101_000000-r1" / "run-r1.wandb"
    path.parent.mkdir(parents=True)
    rows = [writer.row(step, str(loss), 1e9 + step) for step, loss in enumerate(SPIKE)]
    path.write_bytes(writer.log([writer.run("r1", 1e9), *rows]))
    return path


def test_a_wandb_file_and_its_folder_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = wandb_file(tmp_path)
    for each in (path, path.parent):
        found = said(capsys, str(each))
        assert events(found) == [("C-11", 59, 74)]
    assert found["alerts"][0]["opened_at"].startswith("2001-09-09T01:47:39")


def test_a_run_of_the_run_file_is_replayed_with_its_own_thresholds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb_file(tmp_path)
    config = tmp_path / "cockpit.toml"
    config.write_text(
        f'[[run]]\nname = "toy"\nwandb = {{ dir = "{tmp_path}", id = "r1" }}\n'
        "thresholds = { spike_rows = 12 }\n"
    )
    assert events(said(capsys, "toy", "--config", str(config))) == [("C-11", 61, 76)]
    assert main(["backtest", "other", "--config", str(config)]) == 2
    assert "has no run 'other'" in capsys.readouterr().err


def test_the_log_tells_what_the_tracker_never_got(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = jsonl(tmp_path / "toy.jsonl", SPIKE)
    log = tmp_path / "run.log"
    log.write_text("".join(f"step {n} loss {x}\n" for n, x in enumerate([*SPIKE, float("nan")])))
    assert events(said(capsys, str(path), "--log", str(log))) == [
        ("C-11", 59, 74),
        ("C-09", 95, None),
    ]


HOSTILE = (
    *({"step": step, "loss": 2.0, "time": 1e9} for step in (1, 1.7e308, -1.7e308, 1.7e308)),
    *({"step": 2, "loss": 2.0, "time": when} for when in ("NaN", "Infinity", 1e308, -1e308, 1e18)),
    {"step": 3, "loss": 2.0, "time": 1e9 + 9},
)


def test_steps_and_times_that_can_be_none_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = tmp_path / "h.jsonl"
    history.write_text("\n".join(json.dumps(each) for each in HOSTILE))
    assert main(["backtest", str(history), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["steps"], told["alerts"]) == (7, [])


Figures = list[dict[str, float]]


def _as_lines(folder: Path, rows: Figures) -> Path:
    path = folder / "same.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _as_wandb(folder: Path, rows: Figures) -> Path:
    """Write the same as W&B's client does, by names that trainers use."""
    names = {"lr": "optim/learning_rate", "batch_size": "train/global_batch_size"}
    texts = [{names[key]: str(row[key]) for key in names if key in row} for row in rows]
    path = folder / "offline-run-20260101_000000-r1" / "run-r1.wandb"
    path.parent.mkdir(parents=True)
    written = [
        writer.row(int(row["step"]), str(row["loss"]), row["time"], **more)
        for row, more in zip(rows, texts, strict=True)
    ]
    path.write_bytes(writer.log([writer.run("r1", 1e9), *written]))
    return path


def _slowing(sizes: tuple[int, int]) -> Figures:
    """Return rows of steps that take twice as long from the middle on, with those batches."""
    rows: Figures = []
    at = 1e9
    for step in range(1200):
        at += 20.0 if step < 700 else 40.0
        batch = sizes[step >= 700]
        rows.append(
            {"step": step, "loss": 2.0, "time": at, **({"batch_size": batch} if batch else {})}
        )
    return rows


def _restarted() -> Figures:
    """Return rows of a run that goes on from step 200, with another learning rate and loss."""
    steps = [*range(300), *range(200, 320)]
    return [
        {
            "step": step,
            "loss": 2.0 if at < 300 else 2.2,
            "lr": 3e-4 if at < 300 else 6e-4,
            "time": 1e9 + 10.0 * at + (3600.0 if at >= 300 else 0.0),
        }
        for at, step in enumerate(steps)
    ]


@pytest.mark.parametrize("write", [_as_lines, _as_wandb])
@pytest.mark.parametrize(
    ("sizes", "slow"), [((512, 1024), []), ((512, 512), ["C-05"]), ((0, 0), ["C-05"])]
)
def test_a_larger_batch_is_no_slower_step_whatever_tells_it(
    write: Callable[[Path, Figures], Path],
    sizes: tuple[int, int],
    slow: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = said(capsys, str(write(tmp_path, _slowing(sizes))))
    assert [each["id"] for each in found["alerts"]] == slow


@pytest.mark.parametrize("write", [_as_lines, _as_wandb])
def test_a_restart_that_does_not_fit_names_both_learning_rates(
    write: Callable[[Path, Figures], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(capsys, str(write(tmp_path, _restarted())))
    (alert,) = [each for each in found["alerts"] if each["id"] == "C-12"]
    assert any("0.0003 before the restart, 0.0006" in each["text"] for each in alert["evidence"])
