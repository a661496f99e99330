"""What a later reader needs of a local job: its files, processes, stacks and devices (SPEC A).

Only looks: nothing here signals a process or stops it for long. What could not be had is said
in the file itself.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cockpit.model.lineage import local_root
from cockpit.model.run import RunSpec
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.launcher import launches
from cockpit.platforms.local.launcher.ending import ProcessTarget, members
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import run_command

DEADLINE: Final = 10.0
STACKS: Final = 8
"""Processes of which a stack is asked; a job has hundreds of loaders."""
CAP: Final = 1_000_000


async def gather(run: RunSpec, targets: Sequence[ProcessTarget]) -> dict[str, bytes]:
    """Return the evidence by file name; never raises."""
    found = {
        "job.json": await _safely(lambda: _job(run)),
        "machine.txt": await _safely(lambda: _machine(run)),
        "gpu.txt": await _command("nvidia-smi"),
    }
    try:
        processes = await offload(_members, tuple(targets), deadline=DEADLINE)
    except (TimeoutError, OSError) as error:
        return {**found, "processes.txt": f"missing: {error}\n".encode()}
    found["processes.txt"] = await _safely(lambda: _table(processes))
    for process in processes[:STACKS]:
        found[f"stack-{process.pid}.txt"] = await _stack(process)
    return found


def _members(targets: tuple[ProcessTarget, ...]) -> list[Process]:
    return [one for target in targets for one in members(target)]


async def _safely(work: object) -> bytes:
    assert callable(work)
    try:
        text = await offload(work, deadline=DEADLINE)
    except (TimeoutError, OSError) as error:
        return f"missing: {error}\n".encode()
    return str(text).encode("utf-8", "replace")


async def _command(*argv: str) -> bytes:
    if shutil.which(argv[0]) is None:
        return f"missing: there is no {argv[0]} here\n".encode()
    done = await run_command(argv, deadline=DEADLINE, cap=CAP)
    if done.ok:
        return done.out
    why = "no answer in time" if done.timed_out else f"ended with {done.rc}"
    return f"missing: {argv[0]} {why}\n".encode() + done.out + done.err


async def _stack(process: Process) -> bytes:
    """Return what the process does: by py-spy where it is installed, and by the kernel."""
    kernel = await _safely(lambda: _kernel(process))
    if shutil.which("py-spy") is None:
        return kernel + b"\nno Python stack: py-spy is not installed\n"
    spied = await _command("py-spy", "dump", "--nonblocking", "--pid", str(process.pid))
    return kernel + b"\n" + spied


def _kernel(process: Process) -> str:
    parts = [" ".join(process.argv)]
    for name in ("status", "wchan", "stack", "io", "limits"):
        path = Path(f"/proc/{process.pid}/{name}")
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            text = f"missing: {error.strerror}"
        parts.append(f"{name}:\n{text.rstrip()}")
    return "\n\n".join(parts) + "\n"


def _table(processes: Sequence[Process]) -> str:
    """Return one line for each process of the jobs."""
    head = "pid ppid session state start_ticks command"
    lines = [
        f"{one.pid} {one.ppid} {one.sid} {one.state} {one.ticks} {' '.join(one.argv)}"
        for one in processes
    ]
    return "\n".join([head, *lines, ""])


def _job(run: RunSpec) -> str:
    """Return the job's own files, as they are."""
    job, root = run.job, local_root(run)
    files = () if job is None else (job.pid_file, job.exit_file, job.done_marker)
    paths = [place.path for place in files if place is not None]
    if job is not None and job.pid_file is not None:
        pid_file = Path(job.pid_file.path)
        folder = launches.launches_folder(None if root is None else Path(root), pid_file)
        names = sorted(launches.ids(folder))[-20:]
        paths += [str(folder / name) for name in names]
    return json.dumps({path: _content(path) for path in paths}, indent=1) + "\n"


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - bounded
            return file.read(4096).decode("utf-8", "replace")
    except OSError as error:
        return f"missing: {error.strerror}"


def _machine(run: RunSpec) -> str:
    lines = [f"load: {' '.join(f'{value:.2f}' for value in os.getloadavg())}"]
    workdir = None if run.job is None or run.job.workdir is None else run.job.workdir.path
    for place in filter(None, (local_root(run), workdir)):
        try:
            usage = shutil.disk_usage(place)
            lines.append(f"{place}: {usage.free} of {usage.total} bytes free")
        except OSError as error:
            lines.append(f"{place}: missing: {error.strerror}")
    for path in (Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.events")):
        try:
            lines.append(f"{path}:\n{path.read_text(encoding='utf-8')}")
        except OSError as error:
            lines.append(f"{path}: missing: {error.strerror}")
    return "\n".join(lines) + "\n"
