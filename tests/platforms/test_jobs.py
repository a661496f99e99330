from __future__ import annotations

import os
from pathlib import Path

import pytest
from cockpit.platforms.jobs import Jobs

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.observed import Phase
from cockpit.model.run import JobSpec, RunSpec


async def test_local_jobs_are_asked(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    run = RunSpec(name="a", job=JobSpec(kind="local", pid_file=str(tmp_path / "pid")))
    facet = (await Jobs(SystemClock()).observe([run]))["a"]
    assert facet.value is not None and facet.value.phase is Phase.RUNNING


@pytest.mark.parametrize("kind", ["iris", "ray", "slurm", "box"])
async def test_other_kinds_say_that_they_are_not_read(kind: str) -> None:
    run = RunSpec(name="a", job=JobSpec.model_validate({"kind": kind, "id": "1"}))
    error = (await Jobs(SystemClock()).observe([run]))["a"].error
    assert error is not None and error.kind is ErrorKind.UNSUPPORTED
    assert error.message == f"{kind} jobs are not read yet by this version"


async def test_a_run_without_a_job() -> None:
    facet = (await Jobs(SystemClock()).observe([RunSpec(name="a")]))["a"]
    assert not facet.configured
