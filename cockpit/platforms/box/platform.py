"""SSH boxes: processes and sessions of a host, read through the user's own ssh (SPEC S-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import Facet, not_configured
from cockpit.model.jobs import Live, OwnJob
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.query import Query
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, EndpointFinding
from cockpit.platforms.box import PRIVATE
from cockpit.platforms.box.doctor import finding_of
from cockpit.platforms.box.health import BoxHosts
from cockpit.platforms.box.jobs import BoxJobs
from cockpit.platforms.box.logs import BoxLogs
from cockpit.platforms.box.own import own_jobs
from cockpit.platforms.box.probe import Actor
from cockpit.platforms.unsupported import Unsupported
from cockpit.runtime.ssh import run_script
from cockpit.sources.logs.source import Logs

Ask = Callable[[str, list[Query]], Awaitable[Mapping[str, Facet[Any]]]]
NO_HOST: Final = "job.host"


class BoxPlatform(Unsupported):
    """A process or session of a host; one probe tells of all its runs. Not acted on yet."""

    kind: ClassVar[str] = "box"
    fields: ClassVar[frozenset[str]] = frozenset(
        {
            *("host", "session", "match", "log", "pid_file", "done_marker", "exit_file", "workdir"),
            "diagnostic",
        }
    )
    private: ClassVar[tuple[str, ...]] = PRIVATE
    found_by_files: ClassVar[bool] = True
    bundled: ClassVar[bool] = False
    log_every: ClassVar[float | None] = 5.0

    def __init__(
        self, clock: Clock, logs: Logs, actor: Callable[[str | None], Actor] = Actor
    ) -> None:
        super().__init__(clock, logs)
        self._make = actor
        self._actors: dict[str, Actor] = {}
        self._jobs = BoxJobs(clock, self._actor_of)
        self._health = BoxHosts(clock, self._actor_of)
        self._riding = BoxLogs(clock, logs, self._actor_of)

    def _actor_of(self, host: str) -> Actor:
        return self._actors.setdefault(host, self._make(host))

    def endpoint(self, run: RunSpec) -> str:
        """Return the host: its job, its log and its disks share one connection, and one fate."""
        return (run.job.host if run.job is not None else None) or f"{self.kind} here"

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return what each host tells of its runs' jobs."""
        return await _by_host(queries, self._jobs.observe)

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return the health of each host, with the disks that each run writes to."""
        return await _by_host(queries, self._health.observe)

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return the log of each run; what is new in those of a host comes with its probe."""
        return await self._riding.observe(queries)

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return the live jobs of each lineage on its host."""
        groups: dict[str, list[RunSpec]] = {}
        for run in runs:
            groups.setdefault((run.job and run.job.host) or "", []).append(run)
        lost = groups.pop("", [])
        found = await asyncio.gather(*(self._jobs.live(*group) for group in groups.items()))
        lives = {name: live for answer in found for name, live in answer.items()}
        return lives | {run.name: Live(unknown=f"{NO_HOST} is not in the run file") for run in lost}

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Return whether each host can be reached, its clock, what it lacks; asked once."""
        groups: dict[str, list[RunSpec]] = {}
        for run in runs:
            if run.job is not None and run.job.host:
                groups.setdefault(run.job.host, []).append(run)
        looked = await asyncio.gather(*(self._jobs.seen(*group) for group in groups.items()))
        hosts = zip(groups, looked, strict=True)
        return [finding_of(host, view, groups[host]) for host, view in hosts]

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return the tmux sessions of a host; raises ``CannotError``."""
        if not job.host:
            raise CannotError("name the host: box@HOST")
        return await own_jobs(run_script, job.host)

    def name_for(self, launch_id: str) -> str:
        """Return the session's name: tmux would turn these two into underscores by itself."""
        return launch_id.replace(".", "_").replace(":", "_")


async def _by_host(queries: Sequence[Query], ask: Ask) -> dict[str, Facet[Any]]:
    """Return the answers of all hosts, asked at once: none waits for another."""
    groups: dict[str, list[Query]] = {}
    for query in queries:
        groups.setdefault((query.run.job and query.run.job.host) or "", []).append(query)
    found: dict[str, Facet[Any]] = {
        query.name: not_configured(NO_HOST) for query in groups.pop("", [])
    }
    for answer in await asyncio.gather(*(ask(host, own) for host, own in groups.items())):
        found.update(answer)
    return found
