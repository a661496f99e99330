"""Whether a process that somebody noted is the one that has its id now (ids are used again).

A process is known by the machine, its boot and its process ids, and by its start there as the
kernel counts it. Only where no kernel tells does the clock, which people set, stand in. What a
note does not say speaks neither for nor against it.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.runtime.process import process_facts

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MACHINE: Final = Path("/etc/machine-id")
_SPACE: Final = Path("/proc/self/ns/pid")
START_SLACK: Final = 5.0
"""Seconds by which a noted start may differ from the computed one and still be the same."""


class Machine(NamedTuple):
    """Where process ids count: host name, the machine's own id, its boot, the pid namespace."""

    host: str | None = None
    machine: str | None = None
    boot: str | None = None
    space: str | None = None


class Start(NamedTuple):
    """When a process began: in kernel ticks since boot, and by the clock (epoch seconds)."""

    ticks: int | None = None
    at: float | None = None


class Where(Enum):
    """Where a noted process is, as seen from here."""

    HERE = "here"
    ELSEWHERE = "on another machine"
    RESTARTED = "here, before a restart"
    UNCLEAR = "before a restart, or elsewhere"
    CONTAINER = "in another container"


def here() -> Machine:
    """Return where this process counts; what the system does not tell is ``None``."""
    space = None
    with suppress(OSError):
        space = str(_SPACE.readlink())
    return Machine(socket.gethostname(), machine_id(), _line(_BOOT), space)


def machine_id() -> str | None:
    """Return what tells this machine from every other, also after a restart, where it is told."""
    return _line(_MACHINE)


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def where(noted: Machine, mine: Machine) -> Where:
    """Return where a noted process is; only a machine that is known by its id was restarted."""
    if _differ(noted.host, mine.host) or _differ(noted.machine, mine.machine):
        return Where.ELSEWHERE
    if _differ(noted.boot, mine.boot):
        told = None not in (noted.machine, mine.machine)
        return Where.RESTARTED if told else Where.UNCLEAR
    return Where.CONTAINER if _differ(noted.space, mine.space) else Where.HERE


def _differ(one: str | None, other: str | None) -> bool:
    return None not in (one, other) and one != other


def same_start(noted: Start, found: Start) -> bool | None:
    """Return whether two starts on one boot are the same; ``None`` where nothing can tell."""
    if noted.ticks is not None and found.ticks is not None:
        return noted.ticks == found.ticks
    if noted.at is None or found.at is None:
        return None
    return abs(noted.at - found.at) <= START_SLACK


def lives(pid: int, noted: Machine, start: Start) -> bool | None:
    """Return whether that very process lives; ``None`` where that cannot be told from here.

    A living one of whose start nothing is known counts as the same. Blocking.
    """
    found = where(noted, here())
    if found is not Where.HERE:
        return False if found is Where.RESTARTED else None
    facts = process_facts(pid)
    return facts.alive and same_start(start, Start(facts.ticks, facts.started_at)) is not False
