"""A trainer that makes up its W&B id: what is said where the run file's id matches nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from tests.sources.wandb import writer

T0 = 1_700_000_000.0


def started(folder: Path, run_id: str, day: int, loss: str) -> None:
    """Leave what a start of a trainer leaves."""
    directory = folder / f"offline-run-2026010{day}_000000-{run_id}"
    directory.mkdir(parents=True)
    rows = [writer.row(step, loss, T0 + step) for step in range(3)]
    data = writer.log([writer.run(run_id, T0 + day), *rows])
    (directory / f"run-{run_id}.wandb").write_bytes(data)


def trackers(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> dict[str, Any]:
    """Return each run's tracker facet, as ``check`` tells it."""
    (folder / "cockpit.toml").write_text(text)
    main(["check", "--json", "--config", str(folder / "cockpit.toml")])
    runs = json.loads(capsys.readouterr().out)["runs"]
    return {run["name"]: run["facets"]["tracker"] for run in runs}


def test_an_id_that_is_not_there_is_answered_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started(tmp_path / "wandb", "q1w2e3r4", 1, "3.5")
    started(tmp_path / "wandb", "t5z6u7i8", 2, "2.5")
    text = '[[run]]\nname = "a"\nwandb = { dir = "wandb", id = "my-run" }\n'
    found = trackers(capsys, tmp_path, text)["a"]
    assert found["value"] is None and found["error"]["kind"] == "not_found"
    assert "there: t5z6u7i8, q1w2e3r4" in found["error"]["message"]
    assert main(["doctor", "--config", str(tmp_path / "cockpit.toml")]) == 1
    assert "without wandb.id the newest is read" in capsys.readouterr().out
    found = trackers(capsys, tmp_path, '[[run]]\nname = "a"\nwandb = { dir = "wandb" }\n')["a"]
    assert (found["value"]["id"], found["value"]["loss"]) == ("t5z6u7i8", 2.5)


def test_two_runs_that_read_one_folder_without_ids_are_told_that_nobody_knows_whose_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started(tmp_path / "wandb", "q1w2e3r4", 1, "3.5")
    both = (
        '[[run]]\nname = "a"\nwandb = {{ dir = "wandb" }}\n[[run]]\nname = "b"\nwandb = {{ {} }}\n'
    )
    found = trackers(capsys, tmp_path, both.format('dir = "./wandb"'))
    assert {name: each["value"] for name, each in found.items()} == {"a": None, "b": None}
    assert found["a"]["error"]["message"].startswith("b reads the same folder")
    assert "set wandb.id, or one dir each" in found["b"]["error"]["message"]
    found = trackers(capsys, tmp_path, both.format('dir = "wandb", id = "q1w2e3r4"'))
    assert found["b"]["value"]["id"] == "q1w2e3r4" and found["a"]["value"] is None
