"""The health of an ssh host, as far as it concerns its jobs (C-22), and what doctor says of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from cockpit.hosts.link import HostLink, ask, shell
from cockpit.model import wording
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import Disk, HostValue
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.base import EndpointFinding
from cockpit.platforms.box.jobs import View
from cockpit.platforms.box.launcher import NEEDED
from cockpit.platforms.box.machine import disk_asks, disks_of
from cockpit.platforms.local.host import (
    GPU_QUERY,
    GpuLook,
    Machine,
    MemoryLook,
    MemoryUse,
    each_once,
    gpus_of,
)
from cockpit.platforms.local.sight import ABOUT, on_its_host
from cockpit.text.safe import clean

GPUS = ask("nvidia-smi", "run", argv=["nvidia-smi", *GPU_QUERY])


class BoxHosts:
    """Observes hosts, once for all runs of each."""

    def __init__(self, clock: Clock, link_to: Callable[[str], HostLink]) -> None:
        self._clock = clock
        self._link_to = link_to

    async def observe(self, host: str, queries: Sequence[Query]) -> dict[str, Facet[HostValue]]:
        """Return the host facet of each run of a host, by name."""
        places = {query.name: _places(query.run) for query in queries}
        asked = disk_asks(place for own in places.values() for place in own)
        pids = sorted(pid for query in queries if (pid := _pid(query)) is not None)
        account = ask("its memory", "memory", pids=pids)
        answers = await self._link_to(host).ask([ABOUT, GPUS, account, *asked.values()])
        disks, about = disks_of(asked, answers), answers[ABOUT]
        now = self._clock.now()
        load = None if isinstance(about, Problem) else about["load"]
        whole = HostValue(load=load).model_copy(update=_gpus(answers[GPUS]).figures)
        memory = _memory(answers[account])
        problem = _first(about, answers[account])
        facets: dict[str, Facet[HostValue]] = {}
        for query in queries:
            own = [disks[place] for place in places[query.name]]
            told = zip(places[query.name], own, strict=True)
            mounts = each_once((str(place), one) for place, one in told if isinstance(one, Disk))
            value = whole.model_copy(
                update={
                    "disks": mounts,
                    **_figures(memory, _pid(query)),
                }
            )
            facets[query.name] = self._one(host, value, problem or _first(*own), now)
        return facets

    @staticmethod
    def _one(host: str, value: HostValue, problem: Problem | None, now: float) -> Facet[HostValue]:
        """Return what is known, beside why the rest is not; nothing known is unknown."""
        if problem is None:
            return known(value, host, now)
        if value == HostValue(gpus_error=value.gpus_error):
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


def _first(*said: object) -> Problem | None:
    return next((each for each in said if isinstance(each, Problem)), None)


def _memory(texts: Mapping[str, str] | Problem) -> MemoryLook | None:
    if isinstance(texts, Problem):
        return None
    folders = {path.rpartition("/")[0] for path in texts}
    return MemoryLook(Machine(lambda path: texts.get(path, ""), lambda path: path in folders))


def _figures(memory: MemoryLook | None, pid: int | None) -> dict[str, float | int | None]:
    use = MemoryUse(None, None) if memory is None else memory.around(pid)
    return {"mem_frac": use.frac, "oom_kills": use.oom_kills}


def _gpus(said: Sequence[Any] | Problem) -> GpuLook:
    if isinstance(said, Problem):
        absent = said.kind is ErrorKind.NOT_FOUND
        return GpuLook() if absent else GpuLook(error=said)
    status, out, errors, _ = said
    return gpus_of(f"{out}\n{errors}", status)


LACKS: Final = shell(
    "its programs", f"for c in {NEEDED}; do command -v $c >/dev/null || echo $c; done"
)
SKEW: Final = 5.0
"""Seconds by which a clock may be off before a person should set it."""


def finding_of(
    host: str, view: View | Problem, lacks: Collection[str], runs: Sequence[RunSpec]
) -> EndpointFinding:
    """Return whether a host answers, and what it lacks for what these runs name."""
    if isinstance(view, Problem):
        text, _, advice = view.message.partition("; ")
        return EndpointFinding(endpoint=host, text=text, remedy=advice or f"ssh {host}")
    seen = view.sight
    wrong = [*_wrong(view, runs), *_lacking(lacks, runs)]
    text = f"answers; {len(seen.processes)} processes, as user {seen.uid}"
    said = [text, *(each for each, _ in wrong)]
    remedy = "; ".join(remedy for _, remedy in wrong) or None
    return EndpointFinding(endpoint=host, text=clean("; ".join(said)), remedy=remedy)


def _wrong(view: View, runs: Sequence[RunSpec]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong there, and what to do about it."""
    ahead = view.sight.ahead
    if abs(ahead) > SKEW:
        which = "ahead of" if ahead > 0 else "behind"
        yield f"its clock is {wording.duration(abs(ahead))} {which} ours", "set it (NTP)"
    if view.sessions.panes is None and any(run.job and run.job.session for run in runs):
        yield "neither tmux nor screen is installed", "install tmux, or name job.pid_file"
    for run in runs:
        files = view.files[run.name]
        problem = files if isinstance(files, Problem) else files.problem
        if problem is not None:
            yield f"{run.name}: {problem.message}", "make it readable for this user"


def _lacking(lacks: Collection[str], runs: Sequence[RunSpec]) -> Iterator[tuple[str, str]]:
    """Yield what keeps a job from being started there, or only guards it less well."""
    if not any(run.resubmit for run in runs):
        return
    missing = [name for name in NEEDED.split() if name in lacks]
    if missing:
        yield f"it has no {', '.join(missing)}: nothing can be started there", "install util-linux"
