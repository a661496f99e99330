"""A stop is exact and real: the job and what descends from it, and nothing else (SPEC A)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.jobs import LiveJob
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.local.census import census
from cockpit.platforms.local.ending import ProcessTarget, members
from cockpit.runtime.process import process_facts
from tests.platforms.local.making import (
    PYTHON,
    carrying,
    living,
    local,
    slay,
    spec,
    stranger,
    submission,
    submit,
    supervisors,
    text,
    trainers,
)
from tests.waiting import until

HEAD = "import os, signal, sys, time\n"
UP = "print('up', flush=True)\n"
WAIT = "while True: time.sleep(0.05)\n"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunSpec]:
    found = spec(tmp_path)
    yield found
    slay(found)


def log(run: RunSpec) -> str:
    return text(run.job and run.job.log)


def status(run: RunSpec) -> str:
    return text(run.job and run.job.exit_file)


async def started(folder: Path, run: RunSpec, code: str) -> LiveJob:
    platform = local(folder)
    await submit(platform, run, submission(run, code=HEAD + code))
    until(lambda: "up\n" in log(run))
    (job,) = (await living(platform, run)).jobs
    return job


async def test_it_saves_before_it_leaves(tmp_path: Path, run: RunSpec) -> None:
    code = (
        "def leave(*_):\n    time.sleep(0.5); print('final save', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n" + UP + WAIT
    )
    job = await started(tmp_path, run, code)
    await local(tmp_path).stop(run, [job])
    assert log(run) == "up\nfinal save\n" and status(run) == "0\n"
    assert not carrying(run) and not supervisors(run)


async def test_what_does_not_listen_is_killed_after_the_grace(tmp_path: Path) -> None:
    run = spec(tmp_path, grace=0.6)
    try:
        code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + UP + WAIT
        job = await started(tmp_path, run, code)
        begun = time.monotonic()
        await local(tmp_path).stop(run, [job])
        assert time.monotonic() - begun >= 0.6
        assert status(run) == "137\n" and not carrying(run)
    finally:
        slay(run)


async def test_a_stopped_process_is_woken_to_leave(tmp_path: Path, run: RunSpec) -> None:
    code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n" + UP + WAIT
    job = await started(tmp_path, run, code)
    os.kill(int(job.id[4:]), signal.SIGSTOP)
    until(lambda: process_facts(int(job.id[4:])).stopped)
    await local(tmp_path).stop(run, [job])
    assert status(run) == "3\n"


async def test_workers_are_not_asked_before_the_job_has_left(tmp_path: Path, run: RunSpec) -> None:
    """A loader that dies of SIGTERM would make the trainer fail instead of saving."""
    code = (
        "child = os.fork()\n"
        "if child == 0:\n    time.sleep(60); os._exit(0)\n"
        "def leave(*_):\n"
        "    time.sleep(0.3); print(os.waitpid(child, os.WNOHANG)[0], flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n" + UP + WAIT
    )
    job = await started(tmp_path, run, code)
    await local(tmp_path).stop(run, [job])
    assert log(run) == "up\n0\n" and not carrying(run)


STRAY = (
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "    time.sleep(60); os._exit(0)\n"
    "os.wait()\n"
)


async def test_children_that_left_the_session_and_their_parent_go_too(tmp_path: Path) -> None:
    run = spec(tmp_path, grace=1.0)
    try:
        job = await started(tmp_path, run, STRAY + UP + WAIT)
        until(lambda: len(carrying(run)) == 2)
        await local(tmp_path).stop(run, [job])
        assert not carrying(run)
    finally:
        slay(run)


async def test_what_a_dead_job_left_behind_can_be_stopped(tmp_path: Path) -> None:
    run = spec(tmp_path, grace=0.5)
    try:
        job = await started(tmp_path, run, STRAY + UP + WAIT)
        os.kill(int(job.id[4:]), signal.SIGKILL)
        until(lambda: not supervisors(run))
        platform = local(tmp_path)
        (left,) = (await living(platform, run)).jobs
        assert left.launch_id == "toy-i001" and left.id != job.id
        with pytest.raises(CannotError, match="still alive"):
            await submit(platform, run, submission(run, 2))
        await platform.stop(run, [left])
        await submit(platform, run, submission(run, 2))
    finally:
        slay(run)


async def test_bystanders_with_the_same_beginning_are_untouched(tmp_path: Path) -> None:
    runs = [spec(tmp_path, name) for name in ("grug", "grug-eval", "grug2")]
    platform = local(tmp_path)
    try:
        ids = [await submit(platform, run, submission(run)) for run in runs]
        bystander = stranger("--out", f"{runs[0].output_root}-other")
        live = await living(platform, runs[0])
        assert [job.id for job in live.jobs] == ids[:1]
        assert {*ids[1:], f"pid:{bystander.pid}"} == {job.id for job in live.spared}
        await platform.stop(runs[0], live.jobs)
        assert [f"pid:{pid}" for run in runs for pid in trainers(run)] == ids[1:]
        assert bystander.poll() is None
        bystander.kill()
        bystander.wait()
    finally:
        slay(*runs)


async def test_one_of_two_jobs_is_stopped_exactly(tmp_path: Path, run: RunSpec) -> None:
    platform = local(tmp_path)
    await submit(platform, run, submission(run))
    rival = stranger("--out", str(run.output_root))
    try:
        live = await living(platform, run)
        assert len(live.jobs) == 2
        (mine,) = [job for job in live.jobs if job.launch_id == "toy-i001"]
        await platform.stop(run, [mine])
        assert rival.poll() is None
        assert [job.id for job in (await living(platform, run)).jobs] == [f"pid:{rival.pid}"]
    finally:
        rival.kill()
        rival.wait()


async def test_a_reused_process_id_is_left_alone(tmp_path: Path, run: RunSpec) -> None:
    other = stranger()
    try:
        ticks = process_facts(other.pid).ticks or 0
        handle = {"pid": str(other.pid), "ticks": str(ticks - 1)}
        gone = LiveJob(id=f"pid:{other.pid}", name="x", why="y", handle=handle)
        await local(tmp_path).stop(run, [gone])
        assert other.poll() is None
        assert members(ProcessTarget(other.pid, ticks - 1)) == []
        assert [one.pid for one in members(ProcessTarget(other.pid, ticks))] == [other.pid]
    finally:
        other.kill()
        other.wait()


async def test_a_shell_and_what_it_runs_are_both_asked(tmp_path: Path, run: RunSpec) -> None:
    """The shell would hand no signal on, and go on to its next line."""
    trainer = tmp_path / "t.py"
    trainer.write_text(
        HEAD
        + "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(0)))\n"
        + UP
        + WAIT
    )
    script = tmp_path / "train.sh"
    script.write_text(f"while true; do {PYTHON[0]} -S {trainer}; done\n")
    told = submission(run).model_copy(update={"command": ("sh", str(script))})
    platform = local(tmp_path)
    await submit(platform, run, told)
    until(lambda: "up\n" in log(run))
    await platform.stop(run, (await living(platform, run)).jobs)
    assert log(run) == "up\nsaved\n" and not carrying(run)


async def test_stopping_twice_at_once_is_one_stop(tmp_path: Path, run: RunSpec) -> None:
    job = await started(tmp_path, run, UP + WAIT)
    platform = local(tmp_path)
    await asyncio.gather(platform.stop(run, [job]), platform.stop(run, [job]))
    await platform.stop(run, [job])
    assert status(run) == "143\n" and not carrying(run)


async def test_a_job_without_a_handle_is_not_ours_to_stop(tmp_path: Path, run: RunSpec) -> None:
    with pytest.raises(CannotError, match="not a process of this machine"):
        await local(tmp_path).stop(run, [LiveJob(id="x", name="x", why="y")])


DEAF = """\
import signal, sys, time
def leave(*_):
    open('saved', 'w').close()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
open('up', 'w').close()
while True:
    time.sleep(0.05)
    try:
        print('step', flush=True)
    except OSError:
        open('broken', 'w').close()
"""


def typed(words: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a job as in a terminal: its processes are a group of their own, led by the first."""
    return subprocess.Popen(["bash", "-m", "-c", f"{words}; wait"], cwd=folder)


async def test_a_stop_of_a_pipeline_ends_its_trainer_whichever_end_is_recorded(
    tmp_path: Path, run: RunSpec
) -> None:
    """``train.py | tee run.log & echo $! > run.pid`` notes ``tee``, and the trainer went on."""
    (tmp_path / "x.py").write_text(DEAF)
    assert run.job is not None and run.job.log is not None and run.job.pid_file is not None
    words = f"{PYTHON[0]} -S x.py | tee {run.job.log.path} & echo $! > {run.job.pid_file.path}"
    shell = typed(words, tmp_path)
    try:
        until(lambda: (tmp_path / "up").exists() and "step" in log(run))
        (job,) = (await living(local(tmp_path), run)).jobs
        assert job.id == f"pid:{text(run.job.pid_file.path).strip()}"
        await local(tmp_path).stop(run, [job])
        assert (tmp_path / "saved").exists() and not (tmp_path / "broken").exists()
        left = [one for one in census().values() if one.cwd == str(tmp_path)]
        assert not [one.argv for one in left if one.pid != shell.pid]
    finally:
        for one in census().values():
            if one.cwd == str(tmp_path) and one.pid != shell.pid:
                os.kill(one.pid, signal.SIGKILL)
        shell.kill()
        shell.wait()
