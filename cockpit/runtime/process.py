"""Facts about a process id: does it live, and since when (process ids are reused).

Blocking; called through ``offload``. Linux reads ``/proc``, others ask ``ps``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
_STATE, _START = 0, 19  # fields of /proc/PID/stat, counted after the program's name
_ENDED = "ZX"


class ProcessFacts(NamedTuple):
    """What is known of a process id; a zombie counts as ended.

    ``started_at`` is ``None`` when the process lives but its start cannot be read. ``ticks``
    is the start in the kernel's ticks since boot: setting the clock moves ``started_at``,
    never ``ticks``.
    """

    pid: int
    alive: bool
    started_at: float | None = None
    ticks: int | None = None
    stopped: bool = False
    zombie: bool = False


def process_facts(pid: int, proc: Path = PROC, boot: float | None = None) -> ProcessFacts:
    """Return the facts of ``pid`` on this machine. Ids below 1 are never alive.

    ``boot`` is the ``boot_time`` where it is known: to ask for it costs more than all else.
    """
    if pid < 1:
        return ProcessFacts(pid=pid, alive=False)
    try:
        with open(f"{proc}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - thousands
            fields = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        if not (proc / "self" / "stat").exists():
            return _from_ps(pid)
        return ProcessFacts(pid=pid, alive=_answers(pid))
    return _from_stat(pid, fields, boot_time(proc) if boot is None else boot)


def _answers(pid: int) -> bool:
    """Tell whether a signal could reach ``pid``; not being allowed to send one is a yes."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _from_stat(pid: int, text: bytes, boot: float | None) -> ProcessFacts:
    fields = text.rpartition(b")")[2].split()  # the name before it may hold blanks and brackets
    if len(fields) <= _START:
        return ProcessFacts(pid=pid, alive=_answers(pid))
    state = chr(fields[_STATE][0])
    started = None if boot is None else boot + int(fields[_START]) / os.sysconf("SC_CLK_TCK")
    return ProcessFacts(
        pid=pid,
        alive=state not in _ENDED,
        started_at=started,
        ticks=int(fields[_START]),
        stopped=state in "Tt",
        zombie=state in _ENDED,
    )


def boot_time(proc: Path = PROC) -> float | None:
    """Return when the machine came up (epoch seconds), as the kernel tells it now."""
    for line in (proc / "stat").read_bytes().splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return None


def _from_ps(pid: int) -> ProcessFacts:
    from cockpit.runtime.shell import run_blocking  # where /proc tells, nothing is run

    argv = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    done = run_blocking(argv, deadline=5.0, env={"LC_ALL": "C"}, reads=True)
    state, _, started = done.text.strip().partition(" ")
    if not state:
        return ProcessFacts(pid=pid, alive=_answers(pid))
    try:  # "Sat Nov 21 10:25:01 2026", in local time
        began = time.mktime(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y"))
    except (ValueError, OverflowError):
        began = None
    return ProcessFacts(
        pid=pid,
        alive=state[0] not in _ENDED,
        started_at=began,
        stopped=state[0] == "T",
        zombie=state[0] in _ENDED,
    )
