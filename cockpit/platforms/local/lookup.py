"""What became of a launch id on this machine (SPEC A), and whom a person names by a process id.

A process that was started by hand becomes the run's own when its pid file says so (SPEC J). The
file has the process's own start, so that another process which is given the same id later is never
taken for it. Blocking.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cockpit.hosts import notes
from cockpit.hosts.notes import (
    boot_id,
    machine_id,
    pid_space,
    write_atomically,
)
from cockpit.hosts.supervisor import LAUNCH_ID, LINEAGE, SUPERVISES
from cockpit.model.jobs import LaunchState, LookUp, NamedJob
from cockpit.model.lineage import related, tag_of
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.local.census import Census, Process, census
from cockpit.platforms.local.files import PidNote, read_pid
from cockpit.platforms.local.programs import is_helper
from cockpit.platforms.local.recorded import identify
from cockpit.platforms.local.sight import Who, on_its_host, sight_here
from cockpit.runtime.process import Machine, Where, here, process_facts, where
from cockpit.text.safe import clean

ROUNDS: Final = 3
"""Times that notes are read and processes looked at, where the notes change meanwhile."""


def look_up(run: RunSpec, launch_id: str, look: Callable[[], Census] = census) -> LookUp:
    """Return what became of ``launch_id``; raises ``OSError`` when its notes cannot be read.

    Nothing lives of it only where its note says the same before and after ``look``: a supervisor
    that let its command go meanwhile, or noted its end, has made the first reading old.
    """
    folder = _folder(run)
    if folder is None:
        return LookUp(
            found=LaunchState.UNKNOWN, text="no place in cockpit.toml where launches are noted"
        )
    for _ in range(ROUNDS):
        note = notes.read_note(folder / launch_id)
        found = told(run, launch_id, note, look(), here())
        if found is not None:
            return found
        if note is None:
            return _unused(run, folder, launch_id)
        if notes.read_note(folder / launch_id) == note:
            return ended(launch_id, note)
    return changing(launch_id)


def noted_exit(run: RunSpec, note: PidNote) -> int | None:
    """Return the exit status that the note of a pid file's launch holds, if it has ended.

    The supervisor writes it with the process's start: no clock that was set since, and no file
    that was touched, can make it another job's. Raises ``OSError``.
    """
    folder = None if note.launch_id is None else _folder(run)
    if folder is None or note.launch_id is None or "/" in note.launch_id:
        return None
    told = notes.read_note(folder / note.launch_id) or {}
    ours = (told.get("pid"), told.get("ticks")) == (str(note.pid), str(note.ticks))
    status = told.get("exit", "")
    if told.get("state") != notes.ENDED or not ours or not status.lstrip("-").isdigit():
        return None
    return int(status)


def root_on_host(run: RunSpec) -> Place | None:
    """Return the output root where it lies on the job's host."""
    root = None if run.output_root is None else run.output_root.normal()
    return root if root is not None and on_its_host(run, root) else None


def launches_place(run: RunSpec) -> Place | None:
    """Return the folder of the host in which its launch ids are used up."""
    root, job = root_on_host(run), run.job
    if root is None and (job is None or job.pid_file is None):
        return None
    folder = root if root is not None else parent_of(job.pid_file)  # type: ignore[union-attr,arg-type]
    return folder.below(*notes.BELOW.parts)


def parent_of(place: Place) -> Place:
    """Return the folder in which a file lies."""
    folder, sign, _ = place.path.rpartition("/")
    return Place(place.scheme, place.host, folder or ("/" if sign else "."))


def _folder(run: RunSpec) -> Path | None:
    place = launches_place(run)
    return None if place is None else Path(place.path)


def told(
    run: RunSpec,
    launch_id: str,
    note: Mapping[str, str] | None,
    processes: Census,
    mine: Machine,
    at: str = "",
) -> LookUp | None:
    """Return what a machine's processes tell of a launch; ``None`` where nothing of it lives.

    ``note`` was read before them. While its supervisor lives it is not over: that one notes the
    end, and a process that becomes its command shows neither words nor environment.
    """
    alive = _living(run, launch_id, note, processes, mine)
    if alive is not None:
        text = f"{launch_id} runs as pid {alive.pid}{at}"
        return LookUp(found=LaunchState.LIVE, text=text, job_id=f"pid:{alive.pid}")
    state = None if note is None else note.get("state")
    # The noted process may be there and not the command yet: whether it will run is not decided.
    waits = state == notes.RUNNING and _named(processes, note, mine) is not None
    supervisor = supervised(run, launch_id, processes)
    if waits or (supervisor and state in (None, notes.STARTING)):
        text = f"a supervisor of {launch_id} is still starting it"
        return LookUp(found=LaunchState.UNKNOWN, text=text)
    if supervisor and state == notes.RUNNING:
        return changing(launch_id)
    if note is None or state not in (notes.STARTING, notes.RUNNING):
        return None
    if where(_machine(note), mine) in (Where.ELSEWHERE, Where.UNCLEAR):
        there = clean(note.get("host", "?"), 80)
        text = f"{launch_id} is noted as {state} on {there}, another machine: check there"
        return LookUp(found=LaunchState.UNKNOWN, text=text)
    return None


def changing(launch_id: str) -> LookUp:
    """Return that a launch is between two of its states."""
    text = f"{launch_id} is starting or ending: check again"
    return LookUp(found=LaunchState.UNKNOWN, text=text)


def _living(
    run: RunSpec,
    launch_id: str,
    note: Mapping[str, str] | None,
    processes: Census,
    mine: Machine,
) -> Process | None:
    """Return the job's process if it lives, else the oldest of what it left behind."""
    named, state = _named(processes, note, mine), None if note is None else note.get("state")
    if named is not None and named.variable(SUPERVISES) is None and state == notes.RUNNING:
        return named
    tag = tag_of(run)
    carrying = [
        one
        for one in processes.values()
        if one.variable(LAUNCH_ID) == launch_id
        and one.variable(SUPERVISES) is None
        and related(tag, one.variable(LINEAGE) or "")
        and not (state == notes.ENDED and is_helper(one.argv))
    ]
    return min(carrying, key=lambda one: (one.ticks, one.pid), default=None)


def _machine(note: Mapping[str, str]) -> Machine:
    return Machine(None, note.get("machine"), note.get("boot"))


def _named(processes: Census, note: Mapping[str, str] | None, mine: Machine) -> Process | None:
    """Return the process that a note names, if it is that very one."""
    if note is None or where(_machine(note), mine) is not Where.HERE:
        return None
    pid = note.get("pid", "")
    found = processes.get(int(pid)) if pid.isdigit() else None
    return None if found is None or note.get("ticks") not in (None, str(found.ticks)) else found


def supervised(run: RunSpec, launch_id: str, processes: Census) -> bool:
    """Tell whether a supervisor (or its child before it becomes the command) has this launch."""
    tag = tag_of(run)
    told = (one.variable(SUPERVISES) for one in processes.values())
    parts = (text.split(" ", 1) for text in told if text)
    return any(part[0] == launch_id and related(tag, "".join(part[1:])) for part in parts)


def _unused(run: RunSpec, folder: Path, launch_id: str) -> LookUp:
    """Return that nothing was started; a launch that was meant is closed for good first."""
    noted = _by_pid_file(run, launch_id)
    if noted is not None:
        return noted
    if not (folder / f"{launch_id}{notes.INTENT}").exists():
        text = f"{launch_id} was never started here"
        return LookUp(found=LaunchState.ABSENT, text=text)
    try:
        notes.claim_launch(folder, launch_id, {"state": notes.CLOSED, "launch_id": launch_id})
    except FileExistsError:
        return LookUp(found=LaunchState.UNKNOWN, text=f"{launch_id} is being started")
    text = f"{launch_id} was noted but never started; its launch id is closed now"
    return LookUp(found=LaunchState.ABSENT, text=text)


def _by_pid_file(run: RunSpec, launch_id: str) -> LookUp | None:
    """Return what the pid file says of a launch that was noted nowhere else."""
    path = None if run.job is None else run.job.pid_file
    note = read_pid(path.path) if path is not None else None
    if not isinstance(note, PidNote) or note.launch_id != launch_id:
        return None
    who = identify(run, note, sight_here(), time.time())
    if who.who is Who.UNSURE:
        return LookUp(found=LaunchState.UNKNOWN, text=f"{launch_id} by {path}: {who.text}")
    alive = who.who is Who.SAME
    how = "runs" if alive else "ended"
    return LookUp(
        found=LaunchState.LIVE if alive else LaunchState.ENDED,
        text=f"{launch_id} {how}, by {path} (pid {note.pid})",
        job_id=f"pid:{note.pid}",
    )


def ended(launch_id: str, note: Mapping[str, str]) -> LookUp:
    """Return what the note of a launch of which nothing lives says."""
    state, pid = note.get("state"), note.get("pid")
    if state == notes.ENDED:
        text = f"{launch_id} ran as pid {pid} and ended with {note.get('exit', 'unknown')}"
        return LookUp(found=LaunchState.ENDED, text=text, job_id=f"pid:{pid}")
    if state == notes.RUNNING:
        text = f"{launch_id} was started as pid {pid} and is gone without an exit status"
        return LookUp(found=LaunchState.ENDED, text=text, job_id=f"pid:{pid}")
    why = {
        notes.FAILED: "could not be started",
        notes.CLOSED: "was never started, and its launch id is closed",
    }.get(state or "", "was interrupted before its command began")
    return LookUp(found=LaunchState.ABSENT, text=f"{launch_id} {why}; nothing ran")


TICKS = "ticks"
TOLD = ("OUTPUT_DIR", "WANDB_RUN_ID", "WANDB_DIR", LAUNCH_ID)
"""The variables that tell whose process it is; others may hold secrets."""


def pid_of(job_id: str) -> int | None:
    """Return the process id that a person typed (``4711``, ``pid:4711``), if it is one."""
    text = job_id.removeprefix("pid:")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


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
        "run": run.name,
    }
    lines = [f"{key}={value}" for key, value in told.items() if value is not None]
    try:
        write_atomically(Path(place.path), "\n".join([str(pid), *lines, ""]))
    except OSError as error:
        raise CannotError(f"{place.path}: {error.strerror or error}") from error
