"""Runs of kind ``local`` in a folder of their own, and a count of what really lives of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from cockpit.hosts.supervisor import LINEAGE, SUPERVISES
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Live, Submission
from cockpit.model.lineage import related, tag_of
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.local.census import Process, census
from cockpit.platforms.local.platform import LocalPlatform
from cockpit.sources.logs.source import Logs
from tests.waiting import until

REPO = Path(__file__).resolve().parents[3]
PYTHON = (sys.executable, "-S", "-c")
TRAINER = "import time\nprint('step 1', flush=True)\ntime.sleep(120)\n"


def spec(folder: Path, name: str = "toy", **job: Any) -> RunSpec:
    root = folder / "runs" / name
    root.mkdir(parents=True, exist_ok=True)
    plain: dict[str, Any] = {
        "kind": "local",
        "log": str(root / "run.log"),
        "pid_file": str(root / "run.pid"),
        "exit_file": str(root / "run.exit"),
        "workdir": str(folder),
        "grace": 5.0,
    }
    return RunSpec(
        name=name,
        output_root=str(root),
        job=JobSpec(**{**plain, **job}),
        wandb=WandbSpec(project="p", id=wandb_id(folder, name), dir=str(root / "wandb")),
    )


def wandb_id(folder: Path, name: str) -> str:
    """Return an id of this test alone: two workers whose runs had one would see one lineage."""
    return f"{name}-{zlib.crc32(str(folder).encode()):08x}-wb"


def local(folder: Path, **more: Any) -> LocalPlatform:
    clock = SystemClock()
    return LocalPlatform(clock, Logs(clock), locks_folder=folder / "locks", **more)


async def submit(platform: Platform, run: RunSpec, submission: Submission) -> str:
    """Take a submission in and let it go, as an action does in two steps."""
    return await platform.go(run, await platform.accept(run, submission))


async def living(platform: Platform, run: RunSpec) -> Live:
    return (await platform.live([run]))[run.name]


def submission(run: RunSpec, number: int = 1, code: str = TRAINER, **more: Any) -> Submission:
    return Submission(
        run=run.name, launch_id=f"{run.name}-i{number:03d}", command=(*PYTHON, code), **more
    )


def carrying(run: RunSpec) -> list[Process]:
    """Return every process that lives and carries the run's lineage, supervisors apart."""
    tag = tag_of(run)
    return [
        one
        for one in census().values()
        if related(tag, one.variable(LINEAGE) or "") and one.variable(SUPERVISES) is None
    ]


def trainers(run: RunSpec) -> list[int]:
    """Return the live trainers: what carries the lineage and has no parent that does."""
    found = {one.pid: one for one in carrying(run)}
    return sorted(pid for pid, one in found.items() if one.ppid not in found)


def supervisors(run: RunSpec) -> list[int]:
    tag = tag_of(run)
    told = ((one.pid, one.variable(SUPERVISES)) for one in census().values())
    return [pid for pid, text in told if text and related(tag, text.partition(" ")[2])]


def slay(*runs: RunSpec) -> None:
    """Kill whatever is left of the runs."""
    for run in runs:
        for pid in [*supervisors(run), *(one.pid for one in carrying(run))]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(partial(_gone, run))


def _gone(run: RunSpec) -> bool:
    return not carrying(run) and not supervisors(run)


def stranger(*args: str) -> subprocess.Popen[bytes]:
    """Start a trainer that no cockpit knows, in a session of its own."""
    argv = (*PYTHON, TRAINER, *args)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True)
    # The kernel closes the starter's pipe an instant before it shows the new command line.
    until(lambda: (found := census().get(process.pid)) is not None and found.argv == argv)
    return process


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.iterdir()}


def contents(folder: Path) -> dict[str, str]:
    """Return every file below a folder by name."""
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


def text(path: object) -> str:
    try:
        return Path(str(path)).read_text()
    except FileNotFoundError:
        return ""
