"""Jobs of kind ``local``, acted on: started detached, looked up, saved and stopped (SPEC S-5).

What keeps "at most once" here lies below: the lineage's locks are held by the kernel for as long
as anything of a job lives, and a launch id's note is made once
(``cockpit.hosts.supervisor``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.launches import ANSWER_WITHIN
from cockpit.model.clock import Clock
from cockpit.model.facet import Facet
from cockpit.model.jobs import (
    Accepted,
    Live,
    LiveJob,
    LookUp,
    NamedJob,
    Query,
    Submission,
)
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, Platform, refuse_beside
from cockpit.platforms.command import NO_WAY
from cockpit.platforms.local.ending import Acting, EndingProcesses, ProcessTarget
from cockpit.platforms.local.evidence import gather
from cockpit.platforms.local.host import HostHealth
from cockpit.platforms.local.jobs import ProcessJobs
from cockpit.platforms.local.lookup import look_up
from cockpit.platforms.local.starting import Starting, launch_name, startable
from cockpit.platforms.protocol import end_jobs
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LOOK: Final = 10.0


class LocalPlatform(Platform):
    """Processes of this machine (SPEC S-5). ``locks_folder`` stands for the user's own."""

    kind: ClassVar[str] = "local"
    acts: ClassVar[bool] = True
    found_by_files: ClassVar[bool] = True
    bundled: ClassVar[bool] = False
    look_every: ClassVar[float] = 0.5
    shared: ClassVar[bool] = False

    def __init__(
        self,
        clock: Clock,
        logs: Logs,
        *,
        locks_folder: Path | None = None,
        answer_within: float = ANSWER_WITHIN,
    ) -> None:
        self._clock = clock
        self._logs = logs
        self._jobs = ProcessJobs(clock, lambda _: HERE_LINK)
        self._health = HostHealth(clock, lambda _: HERE_LINK)
        self._starting = Starting(HERE_LINK, answer_within, locks_folder)

    def endpoint(self, run: RunSpec) -> str:
        """Return this machine."""
        return HERE

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return what files and the process table tell of each run's job."""
        return await self._jobs.observe(HERE, queries)

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return what each run's log file tells."""
        return await self._logs.observe(queries)

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return the health of this machine."""
        return await self._health.observe(HERE, queries)

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

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return the live jobs of each lineage on this machine, from one look at all processes."""
        return await self._jobs.live(HERE, runs)

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the process table tells of a process by its id."""
        return await Acting(HERE_LINK).named(job_id)

    async def adopt(self, run: RunSpec, job: NamedJob) -> None:
        """Note a process in the run's pid file, with its own start."""
        await self._starting.adopt(run, job)

    def name_for(self, launch_id: str) -> str:
        """Return the launch id if a file can be named by it."""
        return launch_name(launch_id)

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        """Return the words as they are: the launch id goes into the job's environment."""
        return tuple(words)

    async def look_up(self, run: RunSpec, launch_id: str) -> LookUp:
        """Return what became of a launch id.

        One that was meant and never used is closed by looking: nothing can start under it after.
        """
        return await look_up(HERE_LINK, run, launch_id)

    async def try_start(self, run: RunSpec, submission: Submission) -> None:
        """See that a start would be taken in, opening every lock and note that it would open."""
        await self._starting.try_start(run, submission)

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Note that the launch id is meant; nothing runs before ``go``, and a look-up closes it."""
        startable(run, submission)
        refuse_beside((await self.live([run]))[run.name])
        await self._starting.accept(run, submission)
        return Accepted(id=submission.launch_id, submission=submission)

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Start the job detached and return ``pid:N``."""
        refuse_beside((await self.live([run]))[run.name])
        return await self._starting.go(run, accepted.submission)

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Stop exactly these jobs and what descends from them; waits for their real end."""
        ending = EndingProcesses(Acting(HERE_LINK), [target_of(job) for job in jobs])
        await end_jobs(run, ending, self._clock)
        await ending.noted(self._clock)

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that nothing is configured to ask it by, if so."""
        spec = run.job
        if spec is not None and (spec.save_signal or spec.save_command):
            return None
        return NO_WAY

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_signal``, else by ``save_command``."""
        await Acting(HERE_LINK).save(run, job, target_of(job))

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return files, notes, stacks and device state of these jobs."""
        targets = [target_of(job) for job in jobs if "pid" in job.handle]
        return await gather(HERE_LINK, run, targets)


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


def _line(error: BaseException) -> str:
    return scrub(clean(str(error) or type(error).__name__))
