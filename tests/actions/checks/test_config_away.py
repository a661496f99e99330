"""The config of a job on another host is read from there, and its code is not taken for ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.actions.checks import code, config_file
from cockpit.actions.checks.config_file import read_config
from cockpit.model.place import place_of
from cockpit.model.run import CodeSpec, JobSpec
from tests.actions.contexts import context, levels
from tests.rules.making import run_spec
from tests.sshd import Sshd, needs_sshd, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serving(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture
def box(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    monkeypatch.setenv("PATH", f"{server.root}/bin:{os.environ['PATH']}")
    return server


@needs_sshd
def test_a_config_on_a_host_is_read_there(
    box: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "con fig.json"
    path.write_text('{"lr": 0.1}')
    there = f"ssh://{box.host}{path}"
    assert read_config(there).values == {"lr": "0.1"}
    assert (read_config(f"{there}x").trouble or "").endswith("no such file")
    monkeypatch.setattr(config_file, "BIGGEST", 4)
    assert "larger than 4 bytes" in (read_config(there).trouble or "")
    monkeypatch.undo()
    monkeypatch.setattr(config_file, "HOST_WITHIN", 0.3)
    os.mkfifo(tmp_path / "pipe.json")
    piped = read_config(f"ssh://{box.host}{tmp_path}/pipe.json").trouble or ""
    assert "not a regular file" in piped


def test_a_config_in_a_store_is_said_not_to_be_read() -> None:
    assert "files and ssh hosts only" in (read_config("gs://bucket/c.json").trouble or "")


def test_code_of_this_machine_says_little_of_a_job_that_runs_its_hosts() -> None:
    job = JobSpec(kind="slurm", id="1", host="isambard")
    here = run_spec(job=job, code=CodeSpec(repo=place_of("/src")))
    found = code._elsewhere(context(here), place_of("/src"))
    assert levels(found) == {"C-15:where": "warn"}
    assert code._elsewhere(context(here), place_of("ssh://isambard/src")) == []
    local = here.model_copy(update={"job": JobSpec(kind="local")})
    assert code._elsewhere(context(local), place_of("/src")) == []
