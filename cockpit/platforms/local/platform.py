"""Jobs that are processes of a machine: started detached, looked up, saved and stopped (SPEC S-5).

What keeps "at most once" here lies below: the lineage's locks are held by the kernel for as long
as anything of a job lives, and a launch id's note is made once
(``cockpit.hosts.supervisor``). Kind ``local`` is this machine, ``box`` an ssh host.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.launches import ANSWER_WITHIN
from cockpit.hosts.link import Link
from cockpit.model import check_rows as rows
from cockpit.model.clock import Clock
from cockpit.model.facet import Facet, not_configured
from cockpit.model.jobs import (
    Accepted,
    Live,
    LiveJob,
    LookUp,
    NamedJob,
    Query,
    Submission,
)
from cockpit.model.observed import HostValue, JobValue
from cockpit.model.place import HERE
from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.command import NO_WAY
from cockpit.platforms.local.ending import Acting, EndingProcesses, ProcessTarget, describe, gather
from cockpit.platforms.local.handing import hands_over
from cockpit.platforms.local.host import HostHealth
from cockpit.platforms.local.jobs import ProcessJobs
from cockpit.platforms.local.launching import Starting, close, find, launch_name, startable
from cockpit.platforms.protocol import EndingJobs, LaunchingPlatform
from cockpit.sources.logs.source import Logs
from cockpit.text.checks import finding

NO_HOST = "job.host"
AskHost = Callable[[str, list[Query]], Awaitable[Mapping[str, Facet[Any]]]]


class ProcessPlatform(LaunchingPlatform):
    """Processes of machines; one look at a machine tells of all its runs.

    ``locks_folder`` stands for the user's own.
    """

    found_by_files: ClassVar[bool] = True
    bundled: ClassVar[bool] = False

    def __init__(
        self,
        clock: Clock,
        logs: Logs,
        link: Callable[[str], Link],
        answer_within: float = ANSWER_WITHIN,
        locks_folder: Path | None = None,
    ) -> None:
        super().__init__(clock, logs)
        self._link_to = link
        self._answer_within = answer_within
        self._locks_folder = locks_folder
        self._jobs = ProcessJobs(clock, link)
        self._health = HostHealth(clock, link)

    @classmethod
    def host_of(cls, run: RunSpec) -> str | None:
        """Return the machine of a run's job, ``None`` where the run file names none."""
        return run.job.host if run.job is not None else None

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return what files and the process table of each machine tell of its runs' jobs."""
        return await self._each(queries, self._jobs.observe)

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return the health of each machine, with the disks that each run writes to."""
        return await self._each(queries, self._health.observe)

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return the live jobs of each lineage, from one look at all processes of its machine."""
        groups = self.by_host(runs)
        lost = {run.name for run in runs if self.host_of(run) is None}
        found = await asyncio.gather(*(self._jobs.live(*group) for group in groups.items()))
        lives = {name: live for answer in found for name, live in answer.items()}
        return lives | {name: Live(unknown=f"{NO_HOST} is not in cockpit.toml") for name in lost}

    def by_host(self, runs: Iterable[RunSpec]) -> dict[str, list[RunSpec]]:
        """Return the runs that name a machine, by machine."""
        groups: dict[str, list[RunSpec]] = {}
        for run in runs:
            host = self.host_of(run)
            if host is not None:
                groups.setdefault(host, []).append(run)
        return groups

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the process table tells of a process by its id."""
        try:
            return await Acting(self._link(run)).named(job_id)
        except CannotError as error:
            return NamedJob(id=job_id, text=str(error))

    async def adopt(self, run: RunSpec, job: NamedJob) -> None:
        """Note a process in the run's pid file, with its own start."""
        await self._starting(run).adopt(run, job)

    def name_for(self, launch_id: str) -> str:
        """Return the launch id if a file can be named by it."""
        return launch_name(launch_id)

    async def find(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None
    ) -> LookUp | str:
        """Return what a launch's notes and the process table tell of it."""
        return await find(self._link(run), run, launch_id)

    async def close(self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None) -> LookUp:
        """Use up the id of a launch that was meant: nothing can start under it after."""
        return await close(self._link(run), run, launch_id)

    async def try_start(self, run: RunSpec, submission: Submission) -> None:
        """See that a start would be taken in, opening every lock and note that it would open."""
        await self._starting(run).try_start(run, submission)

    async def check_unused(self, run: RunSpec, submission: Submission) -> None:
        """See that the run file names all that a start needs."""
        startable(run, submission)

    async def offer(self, run: RunSpec, submission: Submission) -> Accepted:
        """Note that the launch id is meant; nothing runs before ``go``, and a look-up closes it."""
        await self._starting(run).accept(run, submission)
        return Accepted(id=submission.launch_id, submission=submission)

    async def release(self, run: RunSpec, accepted: Accepted) -> str:
        """Start the job detached and return ``pid:N``."""
        return await self._starting(run).go(run, accepted.submission)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Block a command that hands its job over: nothing would be known of the job."""
        job = run.job
        if job is None or job.session or job.match or not hands_over(words):
            return []
        noted = "" if job.pid_file is None else posixpath.basename(job.pid_file.path)
        if noted and any(noted in word for word in words):
            return []  # the command notes the job's own process
        text = "the command ends once it has handed the job over, as 'docker run -d' does: what"
        text += " becomes of the job would not be known, and it may end with the command; write one"
        text += " that waits for it (without -d, or with --wait): the cockpit detaches it by itself"
        return [finding(rows.HANDED_OVER, text)]

    def ending(self, run: RunSpec, jobs: Sequence[LiveJob]) -> EndingJobs:
        """Return what ends these jobs and what descends from them."""
        return EndingProcesses(Acting(self._link(run)), [target_of(job) for job in jobs])

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that nothing is configured to ask it by, if so."""
        spec = run.job
        asked_by = spec is not None and (spec.save_signal or spec.save_command)
        return None if asked_by else NO_WAY

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_signal``, else by ``save_command``, both on the job's machine."""
        await Acting(self._link(run)).save(run, job, target_of(job))

    async def describe(self, run: RunSpec, job_id: str) -> str:
        """Return its process, its machine and its files."""
        return await describe(self._link(run), run, job_id)

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return files, notes, stacks, memory and device state of these jobs."""
        host = self.host_of(run)
        if host is None:
            return {}
        targets = [target_of(job) for job in jobs if "pid" in job.handle]
        return await gather(self._link_to(host), run, targets)

    def _starting(self, run: RunSpec) -> Starting:
        return Starting(self._link(run), self._answer_within, self._locks_folder)

    def _link(self, run: RunSpec) -> Link:
        host = self.host_of(run)
        if host is None:
            raise CannotError(f"{NO_HOST} is not in cockpit.toml")
        return self._link_to(host)

    async def _each(self, queries: Sequence[Query], ask: AskHost) -> dict[str, Facet[Any]]:
        """Return the answers of all machines, asked at once: none waits for another."""
        named = {query.name: query for query in queries}
        groups = self.by_host(query.run for query in queries)
        asked = (ask(host, [named[run.name] for run in own]) for host, own in groups.items())
        found: dict[str, Facet[Any]] = {
            query.name: not_configured(NO_HOST)
            for query in queries
            if self.host_of(query.run) is None
        }
        for answer in await asyncio.gather(*asked):
            found.update(answer)
        return found


class LocalPlatform(ProcessPlatform):
    """Processes of this machine (SPEC S-5)."""

    kind: ClassVar[str] = "local"
    look_every: ClassVar[float] = 0.5
    shared: ClassVar[bool] = False

    def __init__(
        self,
        clock: Clock,
        logs: Logs,
        *,
        link: Link = HERE_LINK,
        locks_folder: Path | None = None,
        answer_within: float = ANSWER_WITHIN,
    ) -> None:
        super().__init__(clock, logs, lambda _: link, answer_within, locks_folder)

    def endpoint(self, run: RunSpec) -> str:
        """Return this machine."""
        return HERE

    @classmethod
    def host_of(cls, run: RunSpec) -> str | None:
        """Return this machine."""
        return HERE

    @classmethod
    def watched_files(cls, run: RunSpec, job: JobValue | None) -> tuple[str, ...]:
        """Return the files that its wrapper writes, and its places in the process table."""
        spec = run.job
        if spec is None or spec.host is not None:
            return ()
        files = (spec.pid_file, spec.exit_file, spec.done_marker)
        named = [place.path for place in files if place is not None]
        pid = (job.id or "").removeprefix("pid:") if job is not None else ""
        known = (int(pid),) if pid.isdigit() else ()
        pids = dict.fromkeys((*known, *(job.processes if job is not None else ())))
        return (*named, *(f"/proc/{each}" for each in pids))


def target_of(job: LiveJob) -> ProcessTarget:
    """Return what a live job is ended by; raises ``CannotError`` if it is not a local one."""
    try:
        pid, ticks = int(job.handle["pid"]), int(job.handle["ticks"])
    except (KeyError, ValueError) as error:
        raise CannotError(f"{job.id} is not a process of this machine") from error
    told = (each.split(":") for each in job.handle.get("also", "").split())
    also = tuple((int(one), int(start)) for one, start in told)
    launch_id, lineage = job.handle.get("launch_id"), job.handle.get("lineage", "")
    return ProcessTarget(pid, ticks, launch_id, lineage, also)
