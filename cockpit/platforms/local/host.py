"""The health of this machine, as far as it concerns its local jobs (SPEC S-14, C-22).

Memory is the job's control group's (v2 or v1), else the whole machine's.
"""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, unknown
from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Disk, Gpu, HostValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.files import PidNote, read_pid
from cockpit.runtime.mounts import is_there, shared_source, source_of
from cockpit.runtime.offload import Call, Outcome, offload_each
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean

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


DEADLINE: Final = 4.0
GPU_DEADLINE: Final = 5.0
SOURCE: Final = "this machine"
GPU_QUERY: Final = (
    "--query-gpu=index,name,utilization.gpu,memory.used,memory.total",
    "--format=csv,noheader,nounits",
)


class Hosts:
    """Observes this machine, once for each run that lives on it."""

    def __init__(self, clock: Clock, root: Path = Path("/")) -> None:
        self._clock = clock
        self._root = root
        self._late: dict[tuple[str, ...], list[str]] = {}
        """By a run's paths what a look at them has asked that was given up: it may hang still."""

    async def observe(self, runs: Sequence[RunSpec]) -> dict[str, Facet[HostValue]]:
        """Return the host facet of each run, by run name."""
        gpus = await read_gpus() if runs else GpuLook()
        look = _Look(MemoryHere(self._root), Mounts())
        asks = [_Ask(run, tuple(_paths(run)), []) for run in runs]
        calls = [Call(partial(_looked, ask, look), (_looked, *ask.paths)) for ask in asks]
        outcomes = await offload_each(calls, deadline=DEADLINE)
        found = zip(asks, outcomes, strict=True)
        return {ask.run.name: self._facet(ask, outcome, gpus) for ask, outcome in found}

    def _facet(
        self, ask: _Ask, outcome: Outcome[tuple[list[Disk], MemoryUse]], gpus: GpuLook
    ) -> Facet[HostValue]:
        now, paths = self._clock.now(), ask.paths
        try:
            disks, memory = outcome.value
        except TimeoutError as error:
            if ask.asked:
                self._late[paths] = ask.asked
            waits_for = self._late.get(paths, [])[-1:]
            disk = "".join(f"the disk of {each}: " for each in waits_for)
            return unknown(ErrorKind.TIMEOUT, f"{disk}{error}", SOURCE, now)
        except OSError as error:
            message = f"cannot read {error.filename}: {error.strerror}"
            return unknown(ErrorKind.BAD_ANSWER, message, SOURCE, now)
        value = HostValue(
            disks=each_once(zip(paths, disks, strict=True)),
            mem_frac=memory.frac,
            oom_kills=memory.oom_kills,
            load=_load(),
        )
        return known(value.model_copy(update=gpus.figures), SOURCE, now)


class _Look(NamedTuple):
    """What one look at the machine finds for all of its runs."""

    memory: MemoryHere
    mounts: Mounts


class _Ask(NamedTuple):
    """A run, where it writes to, and what was asked of that: it ends with what is waited for."""

    run: RunSpec
    paths: tuple[str, ...]
    asked: list[str]


def _looked(ask: _Ask, look: _Look) -> tuple[list[Disk], MemoryUse]:
    """Return a run's disks and its job's memory."""
    memory, disks = look.memory.around(_pid(ask.run.job)), []
    for path in ask.paths:
        ask.asked.append(path)
        disks.append(read_disk(path, look.mounts))
    ask.asked.clear()
    return disks, memory


def _paths(run: RunSpec) -> list[str]:
    """Return the local paths that the run writes to."""
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    log = run.job.log if run.job is not None else None
    found = [place for place in (run.output_root, *roots, log) if place is not None]
    return list(dict.fromkeys(place.path for place in found if place.here))


def _pid(job: JobSpec | None) -> int | None:
    """Return the job's process; none if its pid file cannot be read (the job facet says why)."""
    if job is None or job.pid_file is None:
        return None
    try:
        note = read_pid(job.pid_file.path)
    except OSError:
        return None
    return note.pid if isinstance(note, PidNote) else None


class Mounts:
    """Where this machine's file systems are mounted, as one look finds it. Blocking."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}
        self._shared: dict[str, str | None] = {}

    def above(self, folder: str) -> str:
        """Return the mount point that holds a path whose links are followed."""
        climbed: list[str] = []
        while folder not in self._above and not _is_mount(folder):
            climbed.append(folder)
            folder = posixpath.dirname(folder)
        mount = self._above.setdefault(folder, folder)
        self._above.update(dict.fromkeys(climbed, mount))
        return mount

    def shared(self, mount: str) -> str | None:
        """Return what a network file system is mounted from there; ``None`` for a disk here."""
        if mount not in self._shared:
            self._shared[mount] = shared_source(source_of(mount) or "")
        return self._shared[mount]


def _is_mount(folder: str) -> bool:
    above = posixpath.dirname(folder)
    return above == folder or os.stat(folder).st_dev != os.stat(above).st_dev  # noqa: PTH116


def read_disk(path: str, mounts: Mounts | None = None) -> Disk:
    """Return the disk that holds ``path`` or, before it exists, its nearest parent. Blocking.

    ``used_frac`` is what ``df`` says: the share of what is not reserved for root.
    """
    mounts = mounts or Mounts()
    place = posixpath.abspath(path)
    while not is_there(place) and place != "/":
        place = posixpath.dirname(place)
    figures = os.statvfs(place)
    used = figures.f_blocks - figures.f_bfree
    usable = used + figures.f_bavail
    files = figures.f_files
    mount = mounts.above(os.path.realpath(place))
    shared = mounts.shared(mount)
    return Disk(
        mount=clean(mount),
        shared=None if shared is None else clean(shared),
        free=figures.f_bavail * figures.f_frsize,
        used_frac=used / usable if usable else 1.0,
        inodes_frac=1 - figures.f_favail / files if files else None,
    )


def each_once(found: Iterable[tuple[str, Disk]]) -> tuple[Disk, ...]:
    """Return the disks under places of a run, each once, with all that lie on it."""
    disks: dict[str, Disk] = {}
    holds: dict[str, list[str]] = {}
    for place, disk in found:
        disks[disk.mount] = disk
        holds.setdefault(disk.mount, []).append(place)
    return tuple(
        disk.model_copy(update={"holds": tuple(holds[mount])}) for mount, disk in disks.items()
    )


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


class GpuLook(NamedTuple):
    """What ``nvidia-smi`` lists, how many it says do not answer, and why the list is not whole."""

    gpus: tuple[Gpu, ...] = ()
    lost: int | None = None
    error: Problem | None = None

    @property
    def figures(self) -> dict[str, object]:
        """The fields of a ``HostValue`` that it fills."""
        return {"gpus": self.gpus, "gpus_lost": self.lost, "gpus_error": self.error}


async def read_gpus() -> GpuLook:
    """Return the GPUs of this machine; none and no error where there is no ``nvidia-smi``."""
    if shutil.which("nvidia-smi") is None:
        return GpuLook()
    done = await run_command(("nvidia-smi", *GPU_QUERY), deadline=GPU_DEADLINE)
    if done.timed_out:
        message = f"nvidia-smi: no answer within {GPU_DEADLINE:g} s"
        return GpuLook(error=Problem(kind=ErrorKind.TIMEOUT, message=message))
    return gpus_of(f"{done.text}\n{done.err.decode('utf-8', 'replace')}", done.rc)


def gpus_of(text: str, status: int) -> GpuLook:
    """Return what ``nvidia-smi`` tells, asked with ``GPU_QUERY``: all it said, its exit status."""
    gpus: list[Gpu] = []
    words: list[str] = []
    lost = 0
    for line in filter(str.strip, text.splitlines()):
        gone = _LOST.search(line) is not None
        gpu = None if gone else _gpu(line)
        lost += gone
        if gpu is not None:
            gpus.append(gpu)
        elif gone or status:
            words.append(clean(line.strip()))
    if not lost and not status:
        return GpuLook(tuple(gpus), 0)
    said = " ".join(words)[:_WORDS] or f"exit status {status}"
    problem = Problem(kind=ErrorKind.BAD_ANSWER, message=f"nvidia-smi: {said}")
    return GpuLook(tuple(gpus), lost, problem)


_WORDS: Final = 300
_LOST: Final = late_regex(
    r"(?i)unable to determine the device handle|fallen off the bus"
    r"|\[(?:gpu is lost|gpu requires reset|unknown error)\]"
)
"""What is said of one accelerator that does not answer, on a line of its own."""


def _gpu(line: str) -> Gpu | None:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) < 5 or not fields[0].isdigit():
        return None
    name = ", ".join(fields[1:-3])
    util, used, total = (_number(field) for field in fields[-3:])
    return Gpu(
        index=int(fields[0]),
        name=clean(name),
        util_frac=None if util is None else util / 100,
        mem_frac=used / total if used is not None and total else None,
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]", "[Not Supported]"
        return None
