"""Memory pressure of a process: its cgroup's (v2 or v1), else the whole machine's."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_NO_LIMIT: Final = 2**60
"""cgroup v1 writes "no limit" as a number near 2**63."""
CGROUPS: Final = "/sys/fs/cgroup"


class MemoryUse(NamedTuple):
    """``frac``: share of the limit in use, caches that can be dropped not counted."""

    frac: float | None
    oom_kills: int | None


class Machine(NamedTuple):
    """The kernel's files as they are read: of this machine, or as they came from another one."""

    text: Callable[[str], str]
    """The text of a file by its path, empty where there is none."""
    is_folder: Callable[[str], bool]


class _Group(NamedTuple):
    """The names of one cgroup version's files."""

    limit: str
    usage: str
    cache: str
    oom: str


_V2: Final = _Group("memory.max", "memory.current", "inactive_file", "memory.events")
_V1: Final = _Group(
    "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "memory.oom_control"
)


class MemoryLook:
    """The memory of a machine as one look finds it: each cgroup is read once for all jobs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._groups: dict[int | None, str] = {}
        self._by_groups: dict[str, MemoryUse] = {}

    def around(self, pid: int | None) -> MemoryUse:
        """Return the memory pressure around process ``pid`` (``None`` or gone: around us).

        Every figure that the machine does not have is ``None``.
        """
        groups = self._groups.get(pid)
        if groups is None:
            groups = self._groups[pid] = _groups_of(pid, self._machine)
        use = self._by_groups.get(groups)
        if use is None:
            use = self._by_groups[groups] = _within(groups, self._machine)
        return use


class MemoryHere(MemoryLook):
    """The memory of this machine."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        super().__init__(Machine(self._text, self._is_folder))

    def _text(self, path: str) -> str:
        try:
            return (self._root / path.lstrip("/")).read_text(encoding="ascii", errors="replace")
        except OSError:
            return ""

    def _is_folder(self, path: str) -> bool:
        return (self._root / path.lstrip("/")).is_dir()


def _groups_of(pid: int | None, machine: Machine) -> str:
    """Return the kernel's list of the cgroups that a process is in."""
    name = str(pid) if pid is not None and machine.is_folder(f"/proc/{pid}") else "self"
    return machine.text(f"/proc/{name}/cgroup")


def _within(groups: str, machine: Machine) -> MemoryUse:
    fullest: float | None = None
    kills: int | None = None
    for folder, group in _folders(machine, groups):
        frac = _frac(machine, folder, group)
        if frac is not None and (fullest is None or frac > fullest):
            fullest = frac
        own_kills = _field(machine, f"{folder}/{group.oom}", "oom_kill")
        kills = own_kills if kills is None else kills
    if fullest is None:
        total = _field(machine, "/proc/meminfo", "MemTotal:")
        free = _field(machine, "/proc/meminfo", "MemAvailable:")
        fullest = 1 - free / total if total and free is not None else None
    if kills is None:
        kills = _field(machine, "/proc/vmstat", "oom_kill")
    return MemoryUse(fullest, kills)


def _folders(machine: Machine, groups: str) -> Iterator[tuple[str, _Group]]:
    """Yield the memory cgroup of the process and those above it: each may have a limit."""
    for line in groups.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if "memory" in controllers.split(","):
            for folder in _upwards(machine, f"{CGROUPS}/memory", path):
                yield folder, _V1
        elif not controllers:
            for folder in _upwards(machine, CGROUPS, path):
                yield folder, _V2


def _upwards(machine: Machine, top: str, path: str) -> Iterator[str]:
    """Yield ``top/path`` and its parents up to ``top``; only ``top`` inside a container."""
    folder = posixpath.normpath(posixpath.join(top, path.strip("/")))
    while folder.startswith(top + "/"):
        if machine.is_folder(folder):
            yield folder
        folder = posixpath.dirname(folder)
    yield top


def _frac(machine: Machine, folder: str, group: _Group) -> float | None:
    limit = _integer(machine.text(f"{folder}/{group.limit}"))
    usage = _integer(machine.text(f"{folder}/{group.usage}"))
    if limit is None or usage is None or not 0 < limit < _NO_LIMIT:
        return None
    cache = _field(machine, f"{folder}/memory.stat", group.cache) or 0
    return max(0.0, usage - cache) / limit


def _integer(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdigit() else None


def _field(machine: Machine, path: str, name: str) -> int | None:
    """Return the number behind ``name`` in a file of ``name number`` lines."""
    for line in machine.text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and (number := value.split()[:1]) and number[0].isdigit():
            return int(number[0])
    return None
