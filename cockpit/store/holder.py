"""A process that holds something, on whatever machine: this one, and whether another one lives."""

from __future__ import annotations

import os

from cockpit.model.base import Frozen, Instant
from cockpit.runtime import process
from cockpit.runtime.account import login_name
from cockpit.runtime.process import Machine, Start, process_facts


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
    facts, place = process_facts(os.getpid()), process.here()
    return Holder(
        host=place.host or "",
        pid=facts.pid,
        machine=place.machine,
        boot=place.boot,
        space=place.space,
        ticks=facts.ticks,
        started_at=facts.started_at,
        login=login_name(),
    )


def lives(holder: Holder) -> bool | None:
    """Return whether that very process lives; ``None`` for one on another machine."""
    place = Machine(holder.host, holder.machine, holder.boot, holder.space)
    return process.lives(holder.pid, place, Start(holder.ticks, holder.started_at))
