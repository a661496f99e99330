"""A process that holds something, on whatever machine: this one, and whether another one lives."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from cockpit.model.base import Frozen, Instant
from cockpit.runtime.login import login_name
from cockpit.runtime.process import process_facts

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MACHINE: Final = Path("/etc/machine-id")
_SPACE: Final = Path("/proc/self/ns/pid")
_SLACK: Final = 5.0


class Holder(Frozen):
    """The process that acts: enough to tell it from any other, also after a restart.

    ``machine`` is the machine's own id, ``boot`` its boot, ``space`` the pid namespace, ``ticks``
    the process's start in kernel ticks, ``login`` its account; each ``None`` where the system
    does not tell.
    """

    host: str
    pid: int
    machine: str | None = None
    boot: str | None = None
    space: str | None = None
    ticks: int | None = None
    started_at: Instant | None = None
    login: str | None = None

    @property
    def label(self) -> str:
        """``gpu-box, pid 4211``."""
        return f"{self.host}, pid {self.pid}"


def this_holder() -> Holder:
    """Return this process, known by its start in kernel ticks and by the machine's boot."""
    facts, space = process_facts(os.getpid()), None
    with suppress(OSError):  # which process ids these are: a container counts its own
        space = str(_SPACE.readlink())
    return Holder(
        host=socket.gethostname(),
        pid=facts.pid,
        machine=_line(_MACHINE),
        boot=_line(_BOOT),
        space=space,
        ticks=facts.ticks,
        started_at=facts.started_at,
        login=login_name(),
    )


def lives(holder: Holder) -> bool | None:
    """Return whether that very process lives; ``None`` for one on another machine."""
    here = this_holder()
    if (holder.host, holder.machine) != (here.host, here.machine):
        return None
    if holder.boot != here.boot:
        # Machines may share a name: only the machine's own id tells that this one was restarted.
        return None if None in (holder.machine, holder.boot, here.boot) else False
    if holder.space != here.space:
        return None
    facts = process_facts(holder.pid)
    if not facts.alive:
        return False
    if holder.ticks is not None and facts.ticks is not None:
        return holder.ticks == facts.ticks
    if holder.started_at is None or facts.started_at is None:
        return True
    return abs(holder.started_at - facts.started_at) <= _SLACK


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None
