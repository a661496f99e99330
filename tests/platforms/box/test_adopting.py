"""A process of a host that was started by hand is noted in the run's pid file there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.model.jobs import Query
from cockpit.model.observed import Phase
from cockpit.platforms.base import CannotError
from tests.platforms.box.making import box as platform
from tests.platforms.box.making import spec, told
from tests.sshd import Sshd, needs_sshd
from tests.waiting import until

UP = "import time\nopen('up', 'w').close()\ntime.sleep(60)\n"


@needs_sshd
async def test_a_process_is_named_and_noted_with_its_own_start(
    box: Sshd, start: Callable[..., int], tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text(UP)
    run = spec(box.host, tmp_path)
    there = ("env", "-C", str(tmp_path), "OUTPUT_DIR=/data/runs/b", "API_TOKEN=secret")
    pid = start(*there, sys.executable, "-S", "x.py", "--lr", "3")
    until(lambda: (tmp_path / "up").exists())
    boat = platform()
    job = await boat.named_job(run, str(pid))
    assert (job.id, job.lives, job.launch_id) == (f"pid:{pid}", True, None)
    assert ("lr", "3") in job.values and ("OUTPUT_DIR", "/data/runs/b") in job.values
    assert "secret" not in str(job)
    assert (await boat.jobs([Query(run=run)]))[run.name].value is None
    await boat.adopt(run, job)
    value = (await boat.jobs([Query(run=run)]))[run.name].value
    assert value is not None and value.id == f"pid:{pid}" and not value.phase.terminal
    lines = told(run, "pid_file").splitlines()
    assert lines[0] == str(pid) and f"ticks={job.handle['ticks']}" in lines
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(CannotError, match="has ended meanwhile"):
        await boat.adopt(run, job)
    value = (await boat.jobs([Query(run=run)]))[run.name].value
    assert value is not None and value.phase is Phase.FAILED


@needs_sshd
async def test_what_cannot_be_adopted_says_why(box: Sshd, tmp_path: Path) -> None:
    run, boat = spec(box.host, tmp_path), platform()
    assert "no process 4194303 lives" in (await boat.named_job(run, "4194303")).text
    assert "not a process id" in (await boat.named_job(run, "tmux")).text
    nowhere = await boat.named_job(spec("nobody@127.0.0.1", tmp_path), "1")
    assert nowhere.lives is None, nowhere.text
    assert run.job is not None
    blind = run.model_copy(update={"job": run.job.model_copy(update={"pid_file": None})})
    job = await boat.named_job(run, str(os.getpid()))
    assert job.lives
    with pytest.raises(CannotError, match="pid_file must be set"):
        await boat.adopt(blind, job)
    (tmp_path / "runs").write_text("a file where a folder must be")
    with pytest.raises(CannotError, match="cannot be written"):
        await boat.adopt(run, job)
