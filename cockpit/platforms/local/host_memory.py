"""Memory pressure of a process: its cgroup's (v2 or v1), else the whole machine's. Blocking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_NO_LIMIT: Final = 2**60
"""cgroup v1 writes "no limit" as a number near 2**63."""


class MemoryUse(NamedTuple):
    """``frac``: share of the limit in use, caches that can be dropped not counted."""

    frac: float | None
    oom_kills: int | None


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


def read_memory(pid: int | None, root: Path = Path("/")) -> MemoryUse:
    """Return the memory pressure around process ``pid`` (``None`` or gone: around us).

    Every figure that the machine does not have is ``None``.
    """
    name = str(pid) if pid is not None and (root / "proc" / str(pid)).exists() else "self"
    fullest: float | None = None
    kills: int | None = None
    for folder, group in _folders(root, name):
        frac = _frac(folder, group)
        if frac is not None and (fullest is None or frac > fullest):
            fullest = frac
        own_kills = _field(folder / group.oom, "oom_kill")
        kills = own_kills if kills is None else kills
    if fullest is None:
        total = _field(root / "proc/meminfo", "MemTotal:")
        free = _field(root / "proc/meminfo", "MemAvailable:")
        fullest = 1 - free / total if total and free is not None else None
    if kills is None:
        kills = _field(root / "proc/vmstat", "oom_kill")
    return MemoryUse(fullest, kills)


def _folders(root: Path, name: str) -> Iterator[tuple[Path, _Group]]:
    """Yield the memory cgroup of the process and those above it: each may have a limit."""
    for line in _text(root / "proc" / name / "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        top = root / "sys/fs/cgroup"
        if "memory" in controllers.split(","):
            yield from ((folder, _V1) for folder in _upwards(top / "memory", path))
        elif not controllers:
            yield from ((folder, _V2) for folder in _upwards(top, path))


def _upwards(top: Path, path: str) -> Iterator[Path]:
    """Yield ``top/path`` and its parents up to ``top``; only ``top`` inside a container."""
    folder = top / path.strip("/")
    while folder != top and top in folder.parents:
        if folder.is_dir():
            yield folder
        folder = folder.parent
    yield top


def _frac(folder: Path, group: _Group) -> float | None:
    limit, usage = _integer(folder / group.limit), _integer(folder / group.usage)
    if limit is None or usage is None or not 0 < limit < _NO_LIMIT:
        return None
    cache = _field(folder / "memory.stat", group.cache) or 0
    return max(0.0, usage - cache) / limit


def _integer(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _field(path: Path, name: str) -> int | None:
    """Return the number behind ``name`` in a file of ``name number`` lines."""
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and (number := value.split()[:1]) and number[0].isdigit():
            return int(number[0])
    return None


def _text(path: Path) -> str:
    """Return a kernel file's text; empty where this machine has no such file."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
