"""The health of an ssh host, as far as it concerns its jobs (SPEC S-14, C-22)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, unknown
from cockpit.model.observed import Disk, Gpu, HostValue
from cockpit.model.place import Place
from cockpit.model.query import Query
from cockpit.model.run import RunSpec
from cockpit.platforms.box import words
from cockpit.platforms.box.machine import sections
from cockpit.platforms.box.probe import Actor, Answer, Answers, Piece
from cockpit.platforms.box.sight import on_its_host
from cockpit.platforms.local.host import gpus_of
from cockpit.platforms.local.host_memory import Machine, MemoryUse, memory_of
from cockpit.text.safe import clean

KIB: Final = 1024
_FIELDS: Final = 6


class BoxHosts:
    """Observes hosts, once for all runs of each."""

    def __init__(self, clock: Clock, actor_of: Callable[[str], Actor]) -> None:
        self._clock = clock
        self._actor_of = actor_of

    async def observe(self, host: str, queries: Sequence[Query]) -> dict[str, Facet[HostValue]]:
        """Return the host facet of each run of a host, by name."""
        disks = {
            query.name: [words.disk(place) for place in _places(query.run)] for query in queries
        }
        account = words.memory(pid for query in queries if (pid := _pid(query)) is not None)
        asked = [words.LOAD, words.GPUS, account, *(one for own in disks.values() for one in own)]
        answers = await self._actor_of(host).ask(asked)
        now = self._clock.now()
        machine = _machine(answers[account])
        gpus = _gpus(answers[words.GPUS])
        return {
            query.name: self._one(
                host,
                HostValue(
                    disks=tuple(_disks(answers, disks[query.name])),
                    load=_load(answers[words.LOAD]),
                    gpus=gpus,
                    mem_frac=(use := _memory(machine, _pid(query))).frac,
                    oom_kills=use.oom_kills,
                ),
                _problem(answers, [words.LOAD, account, *disks[query.name]]),
                now,
            )
            for query in queries
        }

    @staticmethod
    def _one(host: str, value: HostValue, problem: Problem | None, now: float) -> Facet[HostValue]:
        """Return what is known, beside why the rest is not; nothing known is unknown."""
        if problem is None:
            return known(value, host, now)
        if value == HostValue():
            return unknown(problem.kind, problem.message, host, now)
        return Facet(value=value, source=host, observed_at=now, error=problem, since=now)


def _places(run: RunSpec) -> list[Place]:
    """Return the places of the host that the run writes to."""
    log = run.job.log if run.job is not None else None
    roots = run.checkpoints.path if run.checkpoints is not None else ()
    found = [place for place in (run.output_root, *roots, log) if place is not None]
    own = [place for place in dict.fromkeys(found) if on_its_host(run, place)]
    return own or [Place("ssh", (run.job and run.job.host) or "", "~")]


def _pid(query: Query) -> int | None:
    """Return the process of the run's job, as it was last seen."""
    name = "" if query.job is None or query.alive is False else query.job.id or ""
    number = name.removeprefix("pid:")
    return int(number) if number.isdigit() else None


def _problem(answers: Answers, pieces: Sequence[Piece]) -> Problem | None:
    for piece in pieces:
        said = answers[piece]
        if isinstance(said, Problem):
            return said
        if piece.group == words.DISKS and isinstance(figures := _disk(said), Problem):
            return Problem(kind=figures.kind, message=f"{piece.name}: {figures.message}")
    return None


def _disks(answers: Answers, pieces: Sequence[Piece]) -> Iterator[Disk]:
    """Yield each disk once."""
    seen = set()
    for piece in pieces:
        said = answers[piece]
        found = None if isinstance(said, Problem) else _disk(said)
        if isinstance(found, Disk) and found.mount not in seen:
            seen.add(found.mount)
            yield found


def _disk(said: bytes) -> Disk | Problem:
    """Return a disk from the two last lines of ``df -Pk`` and ``df -Pi``."""
    lines = said.decode("utf-8", "replace").strip("\n").splitlines()
    bytes_of, inodes_of = (_figures(line) for line in (*lines, "", "")[:2])
    if bytes_of is None:
        denied = any("Permission denied" in line for line in lines)
        kind = ErrorKind.PERMISSION if denied else ErrorKind.BAD_ANSWER
        text = clean(lines[-1] if lines else "df says nothing", 160)
        return Problem(kind=kind, message=text)
    mount, _, used, free = bytes_of
    files = None if inodes_of is None or not inodes_of[1] else inodes_of[2] / inodes_of[1]
    usable = used + free
    return Disk(
        mount=clean(mount),
        free=free * KIB,
        used_frac=used / usable if usable else 1.0,
        inodes_frac=files,
    )


def _figures(line: str) -> tuple[str, int, int, int] | None:
    """Return (mount, total, used, free) of a line of ``df -P``; a name before may hold blanks."""
    head, sign, mount = line.rpartition("% ")
    if not sign:
        head, sign, mount = line.rpartition(" - ")  # no share of inodes that are not counted
    fields = head.split()
    numbers = [int(field) for field in fields[-4:] if field.isdigit()]
    if not sign or len(fields) < _FIELDS - 2 or len(numbers) < len(("total", "used", "free")):
        return None
    total, used, free = numbers[:3]
    return mount.strip(), total, used, free


def _machine(said: Answer) -> Machine | None:
    if isinstance(said, Problem):
        return None
    texts = {path: text.decode("ascii", "replace") for path, text in sections(said).items()}
    folders = {path.rpartition("/")[0] for path in texts}

    def text(path: str) -> str:
        return texts.get(path, "")

    return Machine(text, lambda path: path in folders)


def _memory(machine: Machine | None, pid: int | None) -> MemoryUse:
    return MemoryUse(None, None) if machine is None else memory_of(pid, machine)


def _load(said: Answer) -> float | None:
    fields = [] if isinstance(said, Problem) else said.split()
    try:
        return float(fields[0])
    except (IndexError, ValueError):
        return None


def _gpus(said: Answer) -> tuple[Gpu, ...]:
    if isinstance(said, Problem):
        return ()
    return gpus_of(said.decode("utf-8", "replace"))
