"""``backtest``: a whole history replayed, from JSON lines, a ``.wandb`` file or a run's own."""

from __future__ import annotations

import json
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


def test_thresholds_are_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(jsonl(tmp_path / "toy.jsonl", SPIKE))
    assert events(said(capsys, path, "--set", "loss_spike=0.6")) == []
    assert events(said(capsys, path, "--set", "spike_rows=15")) == [("C-11", 64, 79)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--set", "loss_spik=1"), 'did you mean "loss_spike"'),
        (("--set", "spike_rows=0"), "expected a number of rows, 1 or more"),
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
