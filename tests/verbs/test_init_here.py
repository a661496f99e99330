"""``cockpit init`` in a folder where somebody trains: it finds what a relaunch would need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import load

REPO = Path(__file__).resolve().parents[2]
TRAINS = ("logs/train.log", "logs/train.pid", "logs/train.exit")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in TRAINS:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    (tmp_path / "out" / "checkpoint-500").mkdir(parents=True)
    return tmp_path


def wandb(folder: Path, *ids: str) -> None:
    for number, each in enumerate(ids):
        (folder / "wandb" / f"offline-run-20260311_09040{number}-{each}").mkdir(parents=True)


def settings(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document = json.loads(capsys.readouterr().out)
    return {each["key"]: each["value"] for each in document["settings"]}


def test_a_log_with_its_process_id_is_something_to_begin_from(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "notes.log").write_text("no process id beside this one\n")
    assert main(["init", "--json"]) == 2
    found = [each["what"] for each in json.loads(capsys.readouterr().out)["found"]]
    assert found == ["out", "local:logs/train.log"]
    assert main(["init", "local:logs/train.log", "--set", "name=a"]) == 0
    (run,) = load(folder / "cockpit.toml").runs
    assert run.job is not None
    assert run.job.pid_file is not None and run.job.pid_file.path.endswith("logs/train.pid")
    assert run.job.exit_file is not None and run.job.exit_file.path.endswith("logs/train.exit")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_cannot_be_read_hides_no_other() -> None:
    with tempfile.TemporaryDirectory(prefix="cockpit-test-") as name:
        for each in ("a", "b", "c"):
            (Path(name) / each / "checkpoint-500").mkdir(parents=True)
        Path(name).chmod(0o755)
        (Path(name) / "b").chmod(0)
        code = (
            "import os, sys; from pathlib import Path; from cockpit.init.sources import here;"
            "os.setuid(65534); print([each.what for each in here(Path(sys.argv[1]))])"
        )
        words = [sys.executable, "-c", code, name]
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=REPO)
    assert done.stdout == "['a', 'c']\n"


def test_an_id_that_the_client_made_up_is_not_pinned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb(folder, "5j8e0q2z", "k3j4h5g6")
    assert main(["init", "wandb", "--set", "name=a", "--json", "--print"]) == 0
    found = settings(capsys)
    assert "wandb.id" not in found and found["wandb.dir"] == "wandb"
    assert (found["job.kind"], found["job.log"]) == ("local", "logs/train.log")
    wandb(folder, "grug-moe-1e23")
    assert main(["init", "wandb", "--set", "name=a", "--json", "--print"]) == 0
    assert settings(capsys)["wandb.id"] == "grug-moe-1e23"


def test_of_several_jobs_none_is_taken_silently(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("other.log", "other.pid"):
        (folder / name).write_text("2\n")
    wandb(folder, "5j8e0q2z")
    assert main(["init", "wandb", "--set", "name=a", "--json", "--print"]) == 0
    assert "job.kind" not in settings(capsys)


def test_where_checkpoints_lie_is_suggested_and_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "local:logs/train.log", "--set", "name=a", "--json", "--print"]) == 0
    document = json.loads(capsys.readouterr().out)
    choices = {each["key"]: each["choices"] for each in document["open"]}
    assert [each["value"] for each in choices["output_root"]] == ["out"]
    assert [each["value"] for each in choices["checkpoints.path"]] == ["out"]


def test_the_folder_of_a_trainer_makes_a_whole_run_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb(folder, "5j8e0q2z")
    assert main(["init", "out"]) == 0
    (run,) = load(folder / "cockpit.toml").runs
    assert run.name == "out" and run.output_root is not None and run.checkpoints is not None
    assert run.output_root.path == run.checkpoints.path[0].path == str(folder / "out")
    assert run.job is not None and run.job.log is not None and run.wandb is not None
    assert run.job.log.path == str(folder / "logs/train.log")


def test_what_lies_in_a_trainers_folder_goes_before_what_lies_beside(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("runs/b/checkpoints/step-100/.x", "runs/b/b.log", "runs/b/b.pid"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    assert main(["init", "runs/b", "--json", "--print"]) == 0
    found = settings(capsys)
    assert (found["name"], found["output_root"], found["job.log"]) == (
        *("b", "runs/b", "runs/b/b.log"),
    )
    assert found["checkpoints.path"] == "runs/b/checkpoints"


def test_what_lies_beside_several_folders_of_trainers_belongs_to_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one job there was taken for the folder given: a stop would have ended another run."""
    wandb(folder, "5j8e0q2z")
    (folder / "other" / "checkpoint-100").mkdir(parents=True)
    assert main(["init", "other"]) == 2
    said = capsys.readouterr().err
    assert "missing: job.kind" in said and "logs/train.log" not in said


def test_the_folder_of_a_run_that_has_just_begun_is_empty(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in TRAINS:
        (folder / name).unlink()
    (folder / "new").mkdir()
    assert main(["init", "new"]) == 2
    assert "missing: job.kind" in capsys.readouterr().err
    assert main(["init", "new", "--set", "job.kind=slurm", "--set", "job.id=7"]) == 0
    (run,) = load(folder / "cockpit.toml").runs
    assert run.output_root is not None and run.output_root.path == str(folder / "new")
    (folder / "wandb").mkdir()
    assert main(["init", "wandb", "--print"]) == 2
    assert "wandb holds no run; expected" in capsys.readouterr().err


def test_a_log_is_no_output_root(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["init", "local:logs/train.log", "--set", "name=a"]
    assert main([*words, "--set", "output_root=logs/train.log"]) == 2
    said = capsys.readouterr().err
    assert "output_root: logs/train.log is a file; expected the folder" in said
    assert not (folder / "cockpit.toml").exists()


def test_a_scheduler_that_is_not_here_is_no_news_where_something_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact' >&2\nexit 1\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(squeue.parent), prepend=":")
    assert main(["init"]) == 2
    assert "slurm" not in capsys.readouterr().err
    for name in TRAINS:
        (tmp_path / name).unlink()
    (tmp_path / "out" / "checkpoint-500").rmdir()
    assert main(["init"]) == 2
    assert "slurm here" in capsys.readouterr().err
