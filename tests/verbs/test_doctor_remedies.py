"""``cockpit doctor``: each trouble has its own remedy, and no contradiction passes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ssh that every host refuses."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    said = "connect to host h port 22: Connection refused"
    program.write_text(f"#!/bin/sh\n[ $1 = -G ] || {{ echo '{said}' >&2; exit 255; }}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def findings(
    folder: Path, capsys: pytest.CaptureFixture[str], tables: str, code: int = 1
) -> dict[str, dict[str, Any]]:
    path = folder / "cockpit.toml"
    path.write_text(f'[[run]]\nname = "a"\n{tables}')
    assert main(["doctor", "--json", "--config", str(path)]) == code
    found = json.loads(capsys.readouterr().out)["findings"]
    return {each["name"]: each for each in found}


@pytest.mark.usefixtures("ssh")
@pytest.mark.parametrize("kind", ["box", "slurm"])
def test_what_fails_for_its_host_has_the_hosts_remedy(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = f'[run.job]\nkind = "{kind}"\nhost = "h"\nid = "1"\nmatch = "x"\n'
    found = findings(tmp_path, capsys, job)
    assert found["job"]["remedy"] == found["host"]["remedy"] == "run 'ssh h' by hand"
    (place,) = [each for name, each in found.items() if name in ("h", "slurm h")]
    assert place["remedy"] == "run 'ssh h' by hand" and place["remedy"] not in place["text"]


@pytest.mark.parametrize("kind", ["box", "ray"])
def test_a_job_without_its_system_is_a_problem(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = findings(tmp_path, capsys, f'[run.job]\nkind = "{kind}"\n')["job"]
    assert job["level"] == "problem" and "is not in cockpit.toml" in job["text"]


@pytest.mark.parametrize("key", ["job.host", "job.address", "wandb.url"])
def test_an_empty_setting_is_told_with_its_line(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(tmp_path, capsys, f'job.kind = "slurm"\n{key} = ""\n', code=2)
    assert f"cockpit.toml:4: run.{key}: is empty" in found["run file"]["text"]


@pytest.mark.parametrize("url", ["https://wandb.ai/nope", "javascript:alert(1)"])
def test_an_address_that_names_no_run_is_not_a_missing_one(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker = findings(tmp_path, capsys, f'[run.wandb]\nurl = "{url}"\n')["tracker"]
    assert tracker["level"] == "problem" and "wandb.url is not the URL of a run" in tracker["text"]


def test_an_id_and_an_address_of_two_runs_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb = '[run.wandb]\nurl = "http://127.0.0.1:1/e/p/runs/x"\nid = "y"\n'
    told = findings(tmp_path, capsys, wandb, code=2)["run file"]
    assert told["level"] == "problem" and "wandb.url points to x" in told["text"]


def test_a_command_that_prints_no_token_is_to_be_run_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = 'kind = "ray"\nid = "x"\naddress = "http://127.0.0.1:1"\n'
    found = findings(tmp_path, capsys, f'[run.job]\n{where}token_command = "false"\n')
    assert "by hand" in found["Ray 127.0.0.1:1"]["remedy"]
    assert found["job"]["remedy"] == found["Ray 127.0.0.1:1"]["remedy"]
