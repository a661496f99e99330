"""Every process of this machine, read once for many questions.

Blocking; called through ``offload``. Linux reads ``/proc`` (about 60 µs a process), others ask
``ps``, which tells neither environments nor folders nor open files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.runtime.process import PROC
from cockpit.runtime.shell import run_blocking

MOST_FILES: Final = 4096
"""Open files of one process that are looked at."""
PS: Final = ("ps", "-axww", "-o", "pid=,ppid=,pgid=,uid=,state=,command=")
_FLAGS: Final = 6
"""Which field after the name in a process's ``stat`` holds its flags,"""
_MEMORY: Final = 20
"""and which one the size of its memory."""
_KERNEL: Final = 0x00200000
"""The flag of the kernel's own threads."""
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | os.O_CLOEXEC
_PIECE: Final = 16_384


class Process(NamedTuple):
    """One process. ``env`` is its first environment, as bytes; ``None`` where it is not ours.

    ``ticks`` is its start in the kernel's ticks since boot, -1 where only ``ps`` tells.
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
    """Return every process but zombies and kernel threads; raises ``OSError``."""
    if not (proc / "self" / "stat").exists():
        done = run_blocking(PS, deadline=5.0, env={"LC_ALL": "C"}, cap=8_000_000, reads=True)
        if not done.ok:
            raise OSError(0, f"ps failed: {done.err.decode('utf-8', 'replace')[:200]}", "ps")
        return read_ps(done.text)
    names = (entry.name for entry in os.scandir(proc) if entry.name.isdigit())
    found = {pid: process for pid in map(int, names) if (process := _read(proc, pid)) is not None}
    # One that becomes another program shows neither words nor environment for a moment.
    for pid in [each.pid for each in found.values() if each.env == b"" or each.argv == ("",)]:
        settled = _read(proc, pid)
        if settled is None:
            del found[pid]
        else:
            found[pid] = settled
    return found


def _read(proc: Path, pid: int) -> Process | None:
    try:
        folder = os.open(f"{proc}/{pid}", _FOLDER)
    except OSError:
        return None
    try:
        return _process(pid, folder)
    finally:
        os.close(folder)


def _process(pid: int, folder: int) -> Process | None:
    """Return what a process's open folder tells: none of it can be another one's."""
    fields = (_bytes("stat", folder) or b"").rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X") or int(fields[_FLAGS]) & _KERNEL:
        return None
    argv = _bytes("cmdline", folder)
    if argv is None or not (argv or (len(fields) > _MEMORY and fields[_MEMORY] != b"0")):
        return None  # at its end: what becomes another program has memory
    parts = argv.removesuffix(b"\0").split(b"\0")
    return Process(
        pid=pid,
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        sid=int(fields[3]),
        uid=os.fstat(folder).st_uid,
        state=chr(fields[0][0]),
        ticks=int(fields[19]),
        argv=tuple(part.decode("utf-8", "replace") for part in parts),
        env=_bytes("environ", folder),
        cwd=_link("cwd", folder),
    )


def _bytes(name: str, folder: int) -> bytes | None:
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        found = piece = os.read(file, _PIECE)
        while piece:
            piece = os.read(file, _PIECE)
            found += piece
        return found
    except OSError:
        return None
    finally:
        os.close(file)


def _link(name: str, folder: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


class OpenFile(NamedTuple):
    """A descriptor of a process: what it leads to, and what may be done through it.

    ``path`` is a file's, or ``pipe:[123]``.
    """

    path: str
    reads: bool
    writes: bool
    locked: bool = False


def open_files(pid: int, proc: Path = PROC) -> Iterator[OpenFile]:
    """Yield the files and pipes that a process has open, as far as we may look."""
    try:
        folder = os.open(f"{proc}/{pid}/fd", _FOLDER)
    except OSError:
        return
    try:
        for name in _names(folder)[:MOST_FILES]:
            path = _link(name, folder)
            if path is None or not path.startswith(("/", "pipe:")) or path.startswith("/dev/"):
                continue
            reads, writes = _mode(name, folder)
            info = _bytes(f"../fdinfo/{name}", folder) if path.endswith(".lock") else None
            locked = info is not None and b"\nlock:" in info
            yield OpenFile(path.removesuffix(" (deleted)"), reads, writes, locked)
    finally:
        os.close(folder)


def _names(folder: int) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _mode(name: str, folder: int) -> tuple[bool, bool]:
    """Return whether a descriptor is open for reading, and for writing: its link's mode."""
    with suppress(OSError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        return bool(mode & 0o400), bool(mode & 0o200)
    return False, False


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


def read_ps(text: str) -> Census:
    """Return what ``ps`` says, asked with ``PS``; arguments are cut at blanks."""
    found = {}
    for line in text.splitlines():
        parts = line.split(None, 5)
        if len(parts) < 6 or not all(part.isdigit() for part in parts[:4]) or parts[4][0] in "ZX":
            continue
        pid, ppid, pgid, uid = (int(part) for part in parts[:4])
        argv = tuple(parts[5].split())
        found[pid] = Process(pid, ppid, pgid, -1, uid, parts[4][0], -1, argv, None, None)
    return found
