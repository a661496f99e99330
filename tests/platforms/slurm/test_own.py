"""What ``cockpit init`` is told of a cluster's jobs, by a real Slurm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.config.file import load
from tests.platforms.slurm.rig import Rig


@pytest.fixture(autouse=True)
def here(slurm: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.chdir(tmp_path)
    yield
    slurm.clear()


def test_jobs_are_listed_and_one_becomes_a_run(
    slurm: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = slurm.sbatch("-J", "we|ird", "--comment=grug-i002", "-o", "%x-%j.out")
    array = slurm.sbatch("-J", "sweep", "--array=0-2%1")
    held = slurm.sbatch("-J", "held", "-H")
    slurm.wait_for(job, "RUNNING")
    assert main(["init", "slurm", "--json"]) == 2
    found = {each["what"]: each["text"] for each in json.loads(capsys.readouterr().out)["found"]}
    mine = {f"slurm:{job}", f"slurm:{array}", f"slurm:{held}"}
    assert set(list(found)[:3]) == mine  # the living ones first, then what has ended before
    assert not any("RUNNING" in text or "PENDING" in text for text in list(found.values())[3:])
    assert found[f"slurm:{job}"] == "grug, RUNNING"
    assert found[f"slurm:{held}"] == "held, PENDING (JobHeldUser)"

    assert main(["init", f"slurm:{job}"]) == 2
    assert f"missing: name (grug (slurm job {job}))" in capsys.readouterr().err
    assert main(["init", f"slurm:{job}", "--set", "name=grug"]) == 0
    (run,) = load(tmp_path / "cockpit.toml").runs
    assert run.job is not None and run.job.id == job
    assert run.job.log is None, "the next job writes another file: each one's StdOut is read"
    assert str(run.job.workdir) == f"{slurm.folder}/jobs"
    assert run.output_root is None

    (tmp_path / "cockpit.toml").unlink()
    assert main(["init", f"slurm:{array}", "--set", "name=sweep"]) == 0
    (run,) = load(tmp_path / "cockpit.toml").runs
    assert run.job is not None and run.job.log is None  # of three tasks none is the run's


def test_the_script_that_was_submitted_is_what_a_relaunch_submits(
    slurm: Rig, tmp_path: Path
) -> None:
    script = slurm.folder / "jobs" / "train.sh"
    script.write_text("#!/bin/sh\nsleep 60\n")
    job = slurm.told("sbatch", "--parsable", "--mem=10", "-J", "llama", str(script), "--lr", "3")
    slurm.wait_for(job, "RUNNING")
    assert main(["init", f"slurm:{job}", "--set", "name=llama"]) == 0
    (run,) = load(tmp_path / "cockpit.toml").runs
    assert run.resubmit is not None
    command = run.resubmit if isinstance(run.resubmit, str) else " ".join(run.resubmit)
    assert command.startswith("sbatch ") and command.endswith(f"{script} --lr 3")


def test_a_cluster_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slurm.conf").write_text("Nonsense=1\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    assert main(["init", "slurm"]) == 2
    assert "cockpit: slurm here: no Slurm: its" in capsys.readouterr().err
