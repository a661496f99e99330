"""What the files beside a job say, and what lives of runs, read for a test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.link import Link
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Live
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.platforms.local.files import BadNote, ExitNote, PidNote, exit_note, pid_note
from cockpit.platforms.local.jobs import ProcessJobs

T = TypeVar("T")


def read_pid(path: str) -> PidNote | BadNote | None:
    if not os.path.lexists(path):
        return None
    status = Path(path).stat()
    return pid_note(Path(path).read_text(), path, status.st_mtime, status.st_uid)


def read_exit(path: str) -> ExitNote | BadNote | None:
    if not os.path.lexists(path):
        return None
    return exit_note(Path(path).read_text(), path, Path(path).stat().st_mtime)


def waited_for(work: Awaitable[T]) -> T:
    """Return what is awaited, also for a test that runs in a loop of its own."""

    async def done() -> T:
        return await work

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(done())).result()


def live_jobs(runs: Sequence[RunSpec], link: Link = HERE_LINK) -> dict[str, Live]:
    """Return what lives of each run on this machine."""
    jobs = ProcessJobs(SystemClock(), lambda _: link)
    return waited_for(jobs.live(HERE, runs))
