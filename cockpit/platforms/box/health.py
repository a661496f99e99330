"""The health of an ssh host, as far as it concerns its jobs (SPEC S-14, C-22)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cockpit.hosts.link import HostLink, ask
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, Problem, known, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import Disk, HostValue
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.platforms.box.disks import disk_asks, disks_of
from cockpit.platforms.box.machine import ABOUT
from cockpit.platforms.box.sight import on_its_host
from cockpit.platforms.local.host import GPU_QUERY, GpuLook, each_once, gpus_of
from cockpit.platforms.local.host_memory import Machine, MemoryLook, MemoryUse

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
