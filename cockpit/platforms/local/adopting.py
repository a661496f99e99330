"""A process that was started by hand becomes the run's own: its pid file says so (SPEC J).

The pid file is what a local job is found by; the note has the process's own start, so that another
process which is given the same id later is never taken for it.
"""

from __future__ import annotations

import os
from pathlib import Path

from cockpit.model.jobs import NamedJob
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.local.census import census
from cockpit.platforms.local.launcher.detached import LAUNCH_ID
from cockpit.platforms.local.launcher.kernel import (
    boot_id,
    machine_id,
    pid_space,
    write_atomically,
)
from cockpit.platforms.local.naming import arguments
from cockpit.runtime.process import process_facts
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

TICKS = "ticks"
TOLD = ("OUTPUT_DIR", "WANDB_RUN_ID", "WANDB_DIR", LAUNCH_ID)
"""The variables that tell whose process it is; others may hold secrets."""


def pid_of(job_id: str) -> int | None:
    """Return the process id that a person typed (``4711``, ``pid:4711``), if it is one."""
    text = job_id.removeprefix("pid:")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def named(job_id: str) -> NamedJob:
    """Return what the process table tells of a process. Blocking; raises ``OSError``."""
    pid = pid_of(job_id)
    if pid is None:
        text = f"{clean(job_id, 60)} is not a process id; expected 4711"
        return NamedJob(id=job_id, text=text, lives=False)
    facts, one = process_facts(pid), census().get(pid)
    if not facts.alive or one is None:
        return NamedJob(id=f"pid:{pid}", text=f"no process {pid} lives here", lives=False)
    told = ((name, one.variable(name) or "") for name in TOLD)
    return NamedJob(
        id=f"pid:{pid}",
        text=scrub(clean(f"process {pid} is running: {' '.join(one.argv)}", 300)),
        lives=True,
        launch_id=one.variable(LAUNCH_ID),
        started_at=facts.started_at,
        values=(*arguments(one.argv), *(each for each in told if each[1])),
        handle={} if facts.ticks is None else {TICKS: str(facts.ticks)},
    )


def adopt(run: RunSpec, job: NamedJob) -> None:
    """Write the pid file of a process that still is the named one. Blocking.

    Raises ``CannotError``.
    """
    pid, place = pid_of(job.id), None if run.job is None else run.job.pid_file
    if pid is None or place is None:
        raise CannotError("job.pid_file must be set: where would the process be noted?")
    facts = process_facts(pid)
    same = job.handle.get(TICKS) in (None, str(facts.ticks))
    if not facts.alive or not same:
        raise CannotError(f"process {pid} has ended meanwhile; nothing was noted")
    told = {
        "start": None if facts.started_at is None else f"{facts.started_at:.2f}",
        TICKS: facts.ticks,
        "boot": boot_id(),
        "machine": machine_id(),
        "host": os.uname().nodename,
        "space": pid_space(),
    }
    lines = [f"{key}={value}" for key, value in told.items() if value is not None]
    try:
        write_atomically(Path(place.path), "\n".join([str(pid), *lines, ""]))
    except OSError as error:
        raise CannotError(f"{place.path}: {error.strerror or error}") from error
