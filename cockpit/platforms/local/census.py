"""The processes of a machine, read once for many questions. Blocking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from cockpit.hosts import agent
from cockpit.runtime.process import PROC

MOST: Final = 100_000
"""Environments that are read where none may be missing: all."""


class Process(NamedTuple):
    """One process. ``env`` is its first environment, as bytes; ``None`` where it is not ours.

    ``ticks`` is its start in the kernel's ticks since boot. ``devices`` is its first
    CUDA_VISIBLE_DEVICES, ``False`` where that was not read.
    """

    pid: int
    ppid: int
    pgid: int
    sid: int
    uid: int
    state: str
    ticks: int
    argv: tuple[str, ...]
    env: bytes | None
    cwd: str | None
    devices: str | bool | None = None

    def variable(self, name: str) -> str | None:
        """Return a variable of its first environment."""
        env, start = self.env, name.encode() + b"="
        if env is None or start not in env:
            return None
        at = (b"\0" + env).find(b"\0" + start)  # not split: it is asked of many for each run
        if at < 0:
            return None
        return env[at + len(start) :].partition(b"\0")[0].decode("utf-8", "replace")


Census = Mapping[int, Process]


def census(proc: Path = PROC) -> Census:
    """Return every process of this machine but zombies and kernel threads; raises ``OSError``."""
    return census_of(agent.processes([""], most=MOST, proc=str(proc)))


def census_of(listed: Iterable[Sequence[Any]]) -> Census:
    """Return the processes that an agent lists."""
    return {
        pid: Process(
            pid, ppid, pgid, sid, uid, state, ticks, tuple(argv),
            None if env is None else env.encode("utf-8", "surrogateescape"), cwd, devices,
        )
        for pid, ppid, pgid, sid, uid, state, ticks, argv, cwd, env, devices, _ in listed
    }  # fmt: skip


class OpenFile(NamedTuple):
    """A descriptor of a process: what it leads to, and what may be done through it.

    ``path`` is a file's, or ``pipe:[123]``.
    """

    path: str
    reads: bool
    writes: bool
    locked: bool = False


def open_files(pid: int, proc: Path = PROC) -> tuple[OpenFile, ...]:
    """Return the files and pipes that a process of this machine has open, as far as we may look."""
    return tuple(OpenFile(*each) for each in agent.open_files(pid, str(proc)))


def lineage_up(processes: Census, pid: int) -> Iterator[Process]:
    """Yield a process and its parents, nearest first."""
    seen: set[int] = set()
    while (process := processes.get(pid)) is not None and pid not in seen:
        seen.add(pid)
        yield process
        pid = process.ppid


Children = Mapping[int, Sequence[int]]
"""The processes that each one has started."""


def children(processes: Census) -> Children:
    """Return the processes that each one has started, by parent links."""
    below: dict[int, list[int]] = {}
    for process in processes.values():
        below.setdefault(process.ppid, []).append(process.pid)
    return below


def descendants(processes: Census, pids: Iterable[int], below: Children | None = None) -> set[int]:
    """Return the processes below ``pids``, by parent links; without ``pids`` themselves.

    ``below`` are the ``children`` of all, where they are known already.
    """
    found: set[int] = set()
    todo = list(pids)
    if not todo:
        return found
    below = children(processes) if below is None else below
    while todo:
        for child in below.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found
