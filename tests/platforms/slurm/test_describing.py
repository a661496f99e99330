"""A real Slurm described: an array's tasks as a table, a pending job's queue, a drained node."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import place_of
from cockpit.platforms.slurm.platform import TASKS, task_lines, tasks_progress
from cockpit.platforms.slurm.record import Record
from cockpit.platforms.table import Platforms, describe
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from tests.platforms.slurm.asking import platform, run_of
from tests.platforms.slurm.rig import Rig

SWEEP = 'echo "step $((SLURM_ARRAY_TASK_ID + 40))/900 loss=1.25"; exec sleep 600'


async def test_each_task_of_a_sweep_has_the_step_and_loss_of_its_own_log(
    slurm: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    run = run_of("sweep", workdir=place_of(str(tmp_path)))
    job = slurm.sbatch("--array=0-1", f"--output={tmp_path}/%A_%a.out", wrap=SWEEP)
    logs = [tmp_path / f"{job}_{task}.out" for task in (0, 1)]
    try:
        slurm.until(
            lambda: all(log.exists() and log.stat().st_size for log in logs),
            lambda: slurm.told("squeue"),
        )
        found = await describe(Platforms(SystemClock(), [platform()]), run, job, SystemClock())
    finally:
        slurm.clear()
    head, *tasks = found.text.splitlines()[1:4]
    assert " ".join(head.split()) == "task state exit for step loss logged node reason"
    shown = [(line.split()[0][-2:], *line.split()[3:5]) for line in tasks]
    assert shown == [("_0", "40/900", "1.25"), ("_1", "41/900", "1.25")]


async def answering(logs: dict[str, tuple[float, str]], script: str) -> Completed:
    """Answer as the machine would on which these files lie."""
    mark = script.partition("\n")[0].removeprefix("mark=")
    parts = [
        f"\n{mark} {number}\n{logs[path][0]:.0f}\n{logs[path][1]}\n"
        for number, path in re.findall(r"say (\d+); limited 5 stat -L -c %Y -- (\S+)", script)
    ]
    return Completed(0, f"{''.join(parts)}\n{mark} end\n".encode(), b"")


async def test_what_an_earlier_array_has_logged_is_no_task_s_progress() -> None:
    rows = [
        Record(f"7_{n}", str(n), "7", "RUNNING", "array", str(n), started=100.0, output=f"/l/{n}")
        for n in (0, 1)
    ]
    logs = {"/l/0": (60.0, "step 900/900 loss=0.5"), "/l/1": (150.0, "step 41/900 loss=1.25")}

    async def run(host: str | None, script: str, **_: object) -> Completed:
        return await answering(logs, script)

    found = await tasks_progress(run, None, rows)
    assert found.ends == {"7_1": ("41/900", "1.25", 150.0)} and found.note == ""


async def test_that_not_all_logs_of_an_array_were_looked_into_is_said() -> None:
    rows = [
        Record(f"7_{n}", str(n), "7", "RUNNING", "array", str(n), started=100.0, output=f"/l/{n}")
        for n in range(TASKS + 5)
    ]
    logs = {row.output: (150.0, "step 41/900 loss=1.25") for row in rows}

    async def run(host: str | None, script: str, **_: object) -> Completed:
        return await answering(logs, script)

    found = await tasks_progress(run, None, rows)
    assert len(found.ends) == TASKS
    assert f"step and loss: of {TASKS} of {TASKS + 5} logs" in task_lines(rows, 200.0, found)

    async def silent(host: str | None, script: str, **_: object) -> Completed:
        raise RemoteError(ErrorKind.TIMEOUT, "no answer within 16 s")

    found = await tasks_progress(silent, None, rows)
    assert not found.ends and "step and loss are unknown: " in found.note


async def test_an_array_is_a_table_of_its_tasks(
    slurm: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    run = run_of("sweep", workdir=place_of(str(tmp_path)))
    job = slurm.sbatch("--comment=sweep-i001 API_TOKEN=hunter2hunter2", "--array=0-3%1")
    try:
        slurm.wait_for(f"{job}_0", "RUNNING")
        found = await describe(Platforms(SystemClock(), [platform()]), run, job, SystemClock())
    finally:
        slurm.clear()
    lines = found.text.splitlines()
    assert lines[0] == "4 tasks: 3 PENDING, 1 RUNNING"
    assert any(line.startswith(f"{job}_0 ") and "RUNNING" in line for line in lines)
    assert "JobArrayTaskLimit" in found.text and "Partition=" in found.text
    assert "hunter2" not in found.text
    assert "$ squeue --start" in found.text and "$ sinfo -R" in found.text


def test_failed_tasks_stand_first_with_the_node_that_failed_twice() -> None:
    rows = [
        Record(f"7_{n}", str(n), "7", word, "array", str(n), node=node, started=100.0, ended=160.0,
               exit=(code, 0))
        for n, (word, node, code) in enumerate(
            [("COMPLETED", "n1", 0), ("FAILED", "n2", 1), ("RUNNING", "n1", 0), ("FAILED", "n2", 1)]
        )
    ]  # fmt: skip
    first, twice, _, *tasks = task_lines(rows, 200.0)
    assert first == "4 tasks: 2 FAILED, 1 COMPLETED, 1 RUNNING"
    assert twice == "failed more than once on: n2 (2 tasks)"
    assert [line.split()[0] for line in tasks if line] == ["7_1", "7_3", "7_2", "7_0"]
    assert tasks[0].split() == ["7_1", "FAILED", "1:0", "1m", "n2"]
