"""Slurm: its jobs are read (SPEC S-3) and acted on: submitted held, let go, stopped (SPEC A).

What keeps "at most once" here is Slurm itself: a job that was submitted held never starts by
itself, and only the lowest number of a launch id is ever let go.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import (
    Accepted,
    Live,
    LiveJob,
    LookUp,
    NamedJob,
    OwnJob,
    Query,
    Submission,
)
from cockpit.model.observed import HostValue, JobValue, LogValue, Phase
from cockpit.model.place import Place, on_host, place_of
from cockpit.model.plan import Check
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, EndpointFinding, Platform
from cockpit.platforms.slurm import PRIVATE, evidence, saving
from cockpit.platforms.slurm.ask import Run
from cockpit.platforms.slurm.checkup import checkup
from cockpit.platforms.slurm.command import command_checks, held_words, plain_words
from cockpit.platforms.slurm.jobs import SlurmJobs, where_of
from cockpit.platforms.slurm.lookup import LookingUp
from cockpit.platforms.slurm.nodes import Nodes
from cockpit.platforms.slurm.own import own_jobs
from cockpit.platforms.slurm.stopping import Stopping
from cockpit.platforms.slurm.submitting import Submitting
from cockpit.runtime.ssh import run_script
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class SlurmPlatform(Platform):
    """Jobs of a Slurm cluster, here or on a login node over ssh."""

    kind: ClassVar[str] = "slurm"
    fields: ClassVar[frozenset[str]] = frozenset(
        {
            *("id", "host", "log", "other_logs", "workdir", "save_signal", "save_command", "grace"),
            *("diagnostic", "match"),
        }
    )
    private: ClassVar[tuple[str, ...]] = PRIVATE
    acts: ClassVar[bool] = True
    bundled: ClassVar[bool] = False
    """The checkout of the login node is what runs: nothing travels but the batch script."""
    log_needs_job: ClassVar[bool] = True
    definite_within: ClassVar[float] = 45.0
    forgets: ClassVar[bool] = True
    """The controller within minutes of a job's end; not every cluster has accounting."""

    def __init__(self, clock: Clock, logs: Logs, run: Run = run_script) -> None:
        self._clock = clock
        self._logs = logs
        self._run = run
        self._jobs = SlurmJobs(clock, run)
        self._nodes = Nodes(clock, run)
        self._submitting = Submitting(run, self._jobs)
        self._looking_up = LookingUp(clock, run, self._jobs)
        self._stopping = Stopping(clock, run, self._jobs)

    def endpoint(self, run: RunSpec) -> str:
        """Return the cluster, by the machine that its commands are run on."""
        return where_of(run.job.host if run.job is not None else None)

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return the job facet of each run: one question per cluster, however many runs."""
        return await self._jobs.observe(queries)

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return what lives of each run's lineage, by one question per cluster."""
        return await self._jobs.live(runs)

    async def launch_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids that the run's notes and this user's jobs there have."""
        return await self._looking_up.launch_ids(run)

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return what each run's log tells: ``job.log``, else the file of the job's output."""
        places = {query.name: place for query in queries if (place := _log(query)) is not None}
        found = await self._logs.observe(
            [query for query in queries if query.name in places or _names_log(query)],
            places,
            others={query.name: _others(query) for query in queries},
        )
        return {query.name: self._log_facet(query, found.get(query.name)) for query in queries}

    def _log_facet(self, query: Query, found: Facet[LogValue] | None) -> Facet[LogValue]:
        """Return a log's facet; of one that is not there, whether it could be by now."""
        now, job = self._clock.now(), query.job
        missing = found is None or (
            found.error is not None and found.error.kind is ErrorKind.NOT_FOUND
        )
        if found is not None and not missing:
            return found
        where = self.endpoint(query.run) if found is None else found.source
        if job is None:
            text = f"where the log of {query.name} is is unknown, since its job is"
        elif job.phase is Phase.WAITING:
            text = "no log yet: the job is waiting"
        elif found is not None:
            return found
        else:
            text = f"Slurm does not say where job {job.id} writes; set job.log"
        return unknown(ErrorKind.NOT_FOUND, text, where, now)

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return how the machine of each job is, as far as Slurm tells."""
        return await self._nodes.observe(queries)

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Return what each cluster behind these runs says of itself, asked once."""
        hosts = {run.job.host for run in runs if run.job is not None}
        asked = (checkup(self._run, host) for host in sorted(hosts, key=str))
        return [finding for found in await asyncio.gather(*asked) for finding in found]

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return this user's jobs of a cluster; raises ``CannotError``."""
        return await own_jobs(self._run, job.host)

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the cluster tells of a job by its number."""
        return await self._jobs.named(run, job_id)

    def name_for(self, launch_id: str) -> str:
        """Return the launch id if it can stand as a comment and name a file."""
        if not _ID.fullmatch(launch_id):
            raise CannotError(f"bad launch id {clean(launch_id, 80)}")
        return launch_id

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        """Return the words with the hold and the launch id as sbatch's comment (INTERFACE)."""
        return held_words(words, launch_id)

    def unformed(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the words of a submit without the hold, the comment and how it prints."""
        return plain_words(words)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against the recorded words."""
        return command_checks(words)

    async def look_up(self, run: RunSpec, launch_id: str) -> LookUp:
        """Return what became of a launch id; a job of it that was never let go is cancelled."""
        return await self._looking_up.look_up(run, launch_id)

    async def recall(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str], *, settle: bool
    ) -> LookUp:
        """Look a launch up; without ``settle`` nothing is cancelled or closed."""
        return await self._looking_up.look_up(run, launch_id, settle=settle)

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Submit a held job that says its launch id as its comment."""
        self.name_for(submission.launch_id)
        return await self._submitting.accept(run, submission)

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Release it if it is the lowest of its launch id and still says it; return its number."""
        return await self._submitting.go(run, accepted)

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Cancel exactly these jobs and wait until none of them runs, waits or is ending."""
        await self._stopping.stop(run, jobs, every=self.look_every)

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return why a job cannot be asked: nothing is configured, or no step would hear it."""
        return saving.why_not(run, job)

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_command`` on the job's host, else by a signal to the job's steps."""
        await saving.save(self._run, run, job)

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return the cluster's own answers about these jobs."""
        return await evidence.gather(self._run, None if run.job is None else run.job.host, jobs)


def _names_log(query: Query) -> bool:
    return query.run.job is not None and query.run.job.log is not None


def _log(query: Query) -> Place | None:
    """Return where the current job writes to, unless the run file names the log.

    A controller that does not answer takes nobody's log away: it is read where it was last.
    """
    spec, job = query.run.job, query.job
    if spec is None or spec.log is not None:
        return None
    if job is None:
        return None if query.last_log is None else place_of(query.last_log)
    return None if job.output is None else on_host(spec.host, job.output)


def _others(query: Query) -> list[Place]:
    """Return where the current job writes besides: its standard error, if it is apart."""
    spec, job = query.run.job, query.job
    if spec is None or job is None:
        return []
    files = (job.output if spec.log is not None else None, job.error_output)
    return [on_host(spec.host, path) for path in files if path is not None]
