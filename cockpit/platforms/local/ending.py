"""Ends exactly some jobs of this machine, and keeps the evidence of them (SPEC A).

A job is its process, what descends from it by parent links, the groups and sessions that these
lead, and whatever carries the job's launch id in its environment, so that a child which left the
session or lost its parent is found too. The start of a process tells it from a later one with the
same id. SIGTERM goes to the job alone, which can then save and take its children down in
its own order; what is left when it has gone is asked next, and what is left at the end of the
grace is killed.

Evidence is a job's files, processes, stacks and devices. Gathering it only looks: nothing is
signalled or stopped for long. What could not be read is said in the file itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cockpit.model.lineage import local_root, related
from cockpit.model.run import RunSpec
from cockpit.platforms.local.census import Census, Process, census, descendants, lineage_up
from cockpit.platforms.local.launcher import notes
from cockpit.platforms.local.launcher.detached import LAUNCH_ID, LINEAGE, SUPERVISES
from cockpit.platforms.local.launcher.notes import start_ticks
from cockpit.platforms.local.programs import is_cockpit, is_helper, is_shell, is_supervisor, is_tool
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import run_command

LOOK = 0.1
REAL_END = 15.0
"""Seconds that what was killed has to be gone, and a supervisor to note the exit status."""


class NotEndedError(Exception):
    """Something still lives and nothing more can be done; the message names it."""


class NotAllowedError(Exception):
    """Something still lives that we may not signal; the message names it."""


@dataclass(frozen=True)
class ProcessTarget:
    """One job to end: its process, known by its start, and the launch that it carries.

    ``also`` are processes of the job that are not below it, with their starts: the trainer where
    the process is the ``tee`` of its pipeline, and the other ranks.
    """

    pid: int
    ticks: int
    launch_id: str | None = None
    lineage: str = ""
    also: tuple[tuple[int, int], ...] = ()


@dataclass
class Ending:
    """What is known of one job while it ends."""

    target: ProcessTarget
    known: dict[int, int] = field(default_factory=dict)
    leading: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    supervisor: tuple[int, int] | None = None

    def members(self, processes: Census, own: Collection[int] | None = None) -> list[Process]:
        """Return everything of the job that lives now; nothing of ``own``, which is who looks."""
        found = {pid for pid, one in processes.items() if self._is_known(one)}
        found |= {one.pid for one in processes.values() if self._carries(one)}
        while True:
            self.leading |= {pid for pid in found if processes[pid].pgid == pid}
            grouped = {
                one.pid
                for one in processes.values()
                if one.pgid in self.leading or one.sid in self.leading
            }
            more = (grouped | descendants(processes, found)) - found
            if not more:
                break
            found |= more
        if own is None:
            own = {one.pid for one in lineage_up(processes, os.getpid())}
        members = [processes[pid] for pid in found - {*own, 1} if self._may_be(processes[pid])]
        self.leading &= {one.pgid for one in members} | {one.sid for one in members}
        self.known = {one.pid: one.ticks for one in members}
        return members

    def asks(self, processes: Census, alive: Sequence[Process]) -> list[tuple[Process, int]]:
        """Return who is asked to leave now: the job; once it has gone, what it left behind."""
        main = next((one for one in alive if self._is_main(one)), None)
        inside = {one.pid for one in alive}
        also = [one for one in alive if (one.pid, one.ticks) in self.target.also]
        told = (*([main] if main else ()), *also)
        firsts = [one for one in told if not (is_tool(one.argv) or is_helper(one.argv))]
        heads = firsts or ([main] if main else [])  # a trainer may save before its pipe breaks
        meant = [one for head in heads for one in addressed(processes, head)] or alive
        found: list[tuple[Process, int]] = []
        for one in meant:
            if one.pid not in self.asked and one.pid in inside:
                found.append((one, signal.SIGTERM))
                self.asked.add(one.pid)
            if one.state in "Tt" and one.pid in inside:
                found.append((one, signal.SIGCONT))
        return found

    def _is_main(self, one: Process) -> bool:
        return (one.pid, one.ticks) == (self.target.pid, self.target.ticks)

    def _is_known(self, one: Process) -> bool:
        here = (one.pid, one.ticks) in self.target.also
        return here or self.known.get(one.pid) == one.ticks or self._is_main(one)

    def _carries(self, one: Process) -> bool:
        if self.target.launch_id is None or one.variable(LAUNCH_ID) != self.target.launch_id:
            return False
        return related(self.target.lineage, one.variable(LINEAGE) or "")

    def _may_be(self, one: Process) -> bool:
        """Leave alone what is there to watch, and a job of another lineage started from here."""
        if is_supervisor(one) or is_cockpit(one.argv):
            return False
        tag = one.variable(LINEAGE)
        return not tag or not self.target.lineage or related(tag, self.target.lineage)


def end(targets: Sequence[ProcessTarget], grace: float) -> None:
    """End the jobs and return when they are gone; blocking, ``grace`` seconds and some more.

    Raises ``NotAllowedError`` or ``NotEndedError`` if something of them still lives.
    """
    endings = [Ending(target) for target in targets]
    for ending in endings:
        ending.supervisor = supervisor_of(census(), ending.target)
    begun = time.monotonic()
    while left := _step(endings, late=time.monotonic() - begun >= grace):
        if time.monotonic() - begun >= grace + REAL_END:
            raise NotEndedError(still(left))
        time.sleep(LOOK)
    _await_notes([ending.supervisor for ending in endings if ending.supervisor is not None])


def members(target: ProcessTarget) -> list[Process]:
    """Return everything of a job that lives now, by process id."""
    return sorted(Ending(target).members(census()), key=lambda one: one.pid)


def addressed(processes: Census, main: Process) -> list[Process]:
    """Return who is meant by a signal to a job: its process; of a shell, what it runs too.

    The shell comes first: asked last, it could begin its next line when what it ran has gone.
    """
    if not is_shell(main.argv):
        return [main]
    children = [one for one in processes.values() if one.ppid == main.pid]
    below = [meant for child in children for meant in addressed(processes, child)]
    return [main, *below]


def send(process: Process, number: int) -> bool:
    """Signal that very process, never a later one with its id; False if it is gone.

    Raises ``PermissionError``.
    """
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return False
        except OSError:
            return _send_plainly(process, number)
        try:
            if start_ticks(process.pid) != process.ticks:
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True
    return _send_plainly(process, number)


def _send_plainly(process: Process, number: int) -> bool:
    if start_ticks(process.pid) not in (None, process.ticks):
        return False
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)
        return True
    return False


def _step(endings: Iterable[Ending], *, late: bool) -> list[Process]:
    """Look once, signal whom it is the time for, and return what lives."""
    processes = census()
    left: list[Process] = []
    for ending in endings:
        alive = ending.members(processes)
        left += alive
        if late:
            for one in alive:
                _signal(one, signal.SIGKILL)
        else:
            for one, number in ending.asks(processes, alive):
                _signal(one, number)
    return left


def _signal(process: Process, number: int) -> None:
    try:
        send(process, number)
    except PermissionError as error:
        text = f"pid {process.pid} belongs to user {process.uid}: not allowed to stop it"
        raise NotAllowedError(text) from error


def still(left: Sequence[Process]) -> str:
    """Say what lives although it was killed, and why that can be."""
    names = ", ".join(f"pid {one.pid} (state {one.state})" for one in left[:10])
    if any(one.state == "D" for one in left):
        return f"killed, but it waits in the kernel (disk, GPU driver, network file): {names}"
    return f"killed, but not gone after {REAL_END:g} s: {names}"


def supervisor_of(processes: Census, target: ProcessTarget) -> tuple[int, int] | None:
    """Return the process that stays with a job, and its start."""
    main = processes.get(target.pid)
    parent = None if main is None or main.ticks != target.ticks else processes.get(main.ppid)
    if parent is None or parent.variable(SUPERVISES) is None:
        return None
    return parent.pid, parent.ticks


def _await_notes(supervisors: Sequence[tuple[int, int]]) -> None:
    """Give each supervisor the time to note the exit status and to let go of its locks."""
    until = time.monotonic() + REAL_END
    waiting = list(supervisors)
    while waiting and time.monotonic() < until:
        processes = census()
        waiting = [
            (pid, ticks)
            for pid, ticks in waiting
            if (one := processes.get(pid)) is not None and one.ticks == ticks
        ]
        if waiting:
            time.sleep(LOOK / 2)


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
        folder = notes.launches_folder(None if root is None else Path(root), pid_file)
        names = sorted(notes.launch_ids(folder))[-20:]
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
