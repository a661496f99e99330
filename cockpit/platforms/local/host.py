"""The health of a machine, near or far, as far as it concerns its jobs (SPEC S-14, C-22).

Memory is the job's control group's (v2 or v1), else the whole machine's.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cockpit.hosts.link import Answers, Ask, Link, ask
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, unknown
from cockpit.model.jobs import Query
from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Disk, Gpu, HostValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import RunSpec
from cockpit.platforms.local.sight import ABOUT, on_its_host
from cockpit.runtime.mounts import shared_source
from cockpit.text.safe import clean

_NO_LIMIT: Final = 2**60
"""cgroup v1 writes "no limit" as a number near 2**63."""
CGROUPS: Final = "/sys/fs/cgroup"


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


class MemoryLook:
    """The memory of a machine, from the kernel's files as ``agent.memory`` gives them, by path."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._folders = {posixpath.dirname(path) for path in texts}
        self._by_groups: dict[str, MemoryUse] = {}

    def around(self, pid: int | None) -> MemoryUse:
        """Return the memory pressure around process ``pid`` (``None`` or gone: around us).

        Every figure that the machine does not have is ``None``; a group is read once for all jobs.
        """
        own = self._texts.get(f"/proc/{pid}/cgroup")
        groups = own if own is not None else self._texts.get("/proc/self/cgroup", "")
        use = self._by_groups.get(groups)
        if use is None:
            use = self._by_groups[groups] = self._within(groups)
        return use

    def _within(self, groups: str) -> MemoryUse:
        fullest: float | None = None
        kills: int | None = None
        for folder, group in self._groups_above(groups):
            frac = self._frac(folder, group)
            if frac is not None and (fullest is None or frac > fullest):
                fullest = frac
            own_kills = self._field(f"{folder}/{group.oom}", "oom_kill")
            kills = own_kills if kills is None else kills
        if fullest is None:
            total = self._field("/proc/meminfo", "MemTotal:")
            free = self._field("/proc/meminfo", "MemAvailable:")
            fullest = 1 - free / total if total and free is not None else None
        if kills is None:
            kills = self._field("/proc/vmstat", "oom_kill")
        return MemoryUse(fullest, kills)

    def _groups_above(self, groups: str) -> Iterator[tuple[str, _Group]]:
        """Yield the memory cgroup of the process and those above it: each may have a limit."""
        for line in groups.splitlines():
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            if "memory" in controllers.split(","):
                for folder in self._upwards(f"{CGROUPS}/memory", path):
                    yield folder, _V1
            elif not controllers:
                for folder in self._upwards(CGROUPS, path):
                    yield folder, _V2

    def _upwards(self, top: str, path: str) -> Iterator[str]:
        """Yield ``top/path`` and its parents up to ``top``; only ``top`` inside a container."""
        folder = posixpath.normpath(posixpath.join(top, path.strip("/")))
        while folder.startswith(top + "/"):
            if folder in self._folders:
                yield folder
            folder = posixpath.dirname(folder)
        yield top

    def _frac(self, folder: str, group: _Group) -> float | None:
        limit = _integer(self._text(f"{folder}/{group.limit}"))
        usage = _integer(self._text(f"{folder}/{group.usage}"))
        if limit is None or usage is None or not 0 < limit < _NO_LIMIT:
            return None
        cache = self._field(f"{folder}/memory.stat", group.cache) or 0
        return max(0.0, usage - cache) / limit

    def _field(self, path: str, name: str) -> int | None:
        """Return the number behind ``name`` in a file of ``name number`` lines."""
        for line in self._text(path).splitlines():
            key, _, value = line.partition(" ")
            if key == name and (number := value.split()[:1]) and number[0].isdecimal():
                return int(number[0])
        return None

    def _text(self, path: str) -> str:
        return self._texts.get(path, "")


def _integer(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() else None


GPU_QUERY: Final = (
    "--query-gpu=index,name,utilization.gpu,memory.used,memory.total",
    "--format=csv,noheader,nounits",
)
GPUS: Final = ask("nvidia-smi", "run", argv=["nvidia-smi", *GPU_QUERY])
PATIENCE: Final = 6.0
"""Seconds that a machine's answers are waited for: a driver that wakes up takes up to five."""


class HostHealth:
    """Observes machines, each once for all of its runs."""

    def __init__(self, clock: Clock, link_to: Callable[[str], Link]) -> None:
        self._clock = clock
        self._link_to = link_to

    async def observe(self, host: str, queries: Sequence[Query]) -> dict[str, Facet[HostValue]]:
        """Return the host facet of each run of a host, by name."""
        link = self._link_to(host)
        places = {query.name: _places(query.run) for query in queries}
        asked = disk_asks(place for own in places.values() for place in own)
        pids = sorted({pid for query in queries if (pid := _pid(query)) is not None})
        account = ask("its memory", "memory", pids=pids)
        answers = await link.ask([ABOUT, GPUS, account, *asked.values()], patience=PATIENCE)
        disks, about, texts = disks_of(asked, answers), answers[ABOUT], answers[account]
        memory = MemoryLook({} if isinstance(texts, Problem) else texts)
        load = None if isinstance(about, Problem) else about["load"]
        whole = HostValue(load=load).model_copy(update=gpu_look(answers[GPUS]).figures)
        now = self._clock.now()
        facets: dict[str, Facet[HostValue]] = {}
        for query in queries:
            own = [(place, disks[place]) for place in places[query.name]]
            use = memory.around(_pid(query))
            figures = {
                "disks": each_once((str(each), one) for each, one in own if isinstance(one, Disk)),
                "mem_frac": use.frac,
                "oom_kills": use.oom_kills,
            }
            said = (about, texts, *(one for _, one in own))
            problem = next((each for each in said if isinstance(each, Problem)), None)
            value = whole.model_copy(update=figures)
            facets[query.name] = _known_of(value, problem, link.host, now)
        return facets


def _known_of(
    value: HostValue, problem: Problem | None, source: str, now: float
) -> Facet[HostValue]:
    """Return what is known, beside why the rest is not; nothing known is unknown."""
    if problem is None:
        return known(value, source, now)
    if value == HostValue(gpus_error=value.gpus_error):
        return unknown(problem.kind, problem.message, source, now)
    return Facet(value=value, source=source, observed_at=now, error=problem, since=now)


def _places(run: RunSpec) -> list[Place]:
    """Return the places of its job's host that the run writes to."""
    log = run.job.log if run.job is not None else None
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    found = [place for place in (run.output_root, *roots, log) if place is not None]
    own = [place for place in dict.fromkeys(found) if on_its_host(run, place)]
    host = None if run.job is None else run.job.host
    return own or ([] if host is None else [Place(SSH, host, "~")])


def _pid(query: Query) -> int | None:
    """Return the process of the run's job, as it was last seen."""
    name = "" if query.job is None or query.alive is False else query.job.id or ""
    kind, _, number = name.partition(":")
    return int(number) if kind == "pid" and number.isdecimal() else None


def disk_asks(places: Iterable[Place]) -> dict[Place, Ask]:
    """Return what asks for the disk that holds each place or its nearest parent."""
    return {each: ask(f"the disk of {each.path}", "disk", path=each.path) for each in places}


def disks_of(asked: Mapping[Place, Ask], answers: Answers) -> dict[Place, Disk | Problem]:
    """Return the disk of each place, or why it is not known."""
    found = {place: answers[each] for place, each in asked.items()}
    return {
        place: said if isinstance(said, Problem) else disk_of(said) for place, said in found.items()
    }


def shared_by(disks: Mapping[Place, Disk | Problem]) -> dict[Place, str | None]:
    """Return from where the disk of each place is mounted, if from a network; else ``None``.

    A place whose disk is not known is left out.
    """
    return {place: disk.shared for place, disk in disks.items() if isinstance(disk, Disk)}


def disk_of(said: Mapping[str, Any]) -> Disk:
    """Return a disk from the agent's figures.

    ``used_frac`` is what ``df`` says: the share of what is not reserved for root.
    """
    usable = said["used"] + said["free"]
    shared = shared_source(said["source"])
    inodes = said["inodes"]
    return Disk(
        mount=clean(said["mount"]),
        shared=None if shared is None else clean(shared),
        free=said["free"],
        used_frac=said["used"] / usable if usable else 1.0,
        inodes_frac=1 - said["inodes_free"] / inodes if inodes else None,
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


class GpuLook(NamedTuple):
    """What ``nvidia-smi`` lists, how many it says do not answer, and why the list is not whole."""

    gpus: tuple[Gpu, ...] = ()
    lost: int | None = None
    error: Problem | None = None

    @property
    def figures(self) -> dict[str, object]:
        """The fields of a ``HostValue`` that it fills."""
        return {"gpus": self.gpus, "gpus_lost": self.lost, "gpus_error": self.error}


def gpu_look(said: Sequence[Any] | Problem) -> GpuLook:
    """Return what was said to ``GPUS``; none and no error where there is no ``nvidia-smi``."""
    if isinstance(said, Problem):
        return GpuLook() if said.kind is ErrorKind.NOT_FOUND else GpuLook(error=said)
    status, out, errors, _ = said
    return gpus_of(f"{out}\n{errors}", status)


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
    if len(fields) < 5 or not fields[0].isdecimal():
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
