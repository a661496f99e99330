"""Iris: jobs are read and ended over the controller's RPC, made by the recorded command (S-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Accepted, Live, LiveJob, LookUp, NamedJob, OwnJob, Query, Submission
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.plan import Check
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import EndpointFinding
from cockpit.platforms.iris import PRIVATE, spelling
from cockpit.platforms.iris.access import AccessError, Tokens, endpoint_of
from cockpit.platforms.iris.command import command_checks
from cockpit.platforms.iris.doctor import finding
from cockpit.platforms.iris.evidence import gather
from cockpit.platforms.iris.jobs import PATIENT, IrisJobs
from cockpit.platforms.iris.logs import IrisLogs
from cockpit.platforms.iris.lookup import LookUps
from cockpit.platforms.iris.own import own_jobs
from cockpit.platforms.iris.saving import can_save, save
from cockpit.platforms.iris.stopping import Stopper
from cockpit.platforms.iris.submitting import Submitter
from cockpit.platforms.iris.trees import is_job_id
from cockpit.platforms.unsupported import Unsupported
from cockpit.runtime.http import Http
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean

KEEP: float = 90.0
"""Seconds that a connection outlives a look: three of the slowest cadence."""


class IrisPlatform(Unsupported):
    """Jobs of an Iris controller (SPEC S-1).

    What keeps "at most once" here is a job's name, which is the launch id: see ``submitting``,
    ``lookup`` and ``fence``.
    """

    kind: ClassVar[str] = "iris"
    fields: ClassVar[frozenset[str]] = frozenset(
        {
            *(
                "id",
                "controller_url",
                "cluster",
                "auth",
                "token_command",
                "workdir",
                "log",
                "other_logs",
                "match",
            ),
            *("production", "diagnostic", "bad_node_recipe", "grace"),
        }
    )
    private: ClassVar[tuple[str, ...]] = PRIVATE
    acts: ClassVar[bool] = True
    definite_within: ClassVar[float] = 90.0
    log_needs_job: ClassVar[bool] = True

    def __init__(self, clock: Clock, logs: Logs, http: Http | None = None) -> None:
        super().__init__(clock, logs)
        http = Http(clock, deadline=PATIENT, keep=KEEP) if http is None else http
        self._jobs = IrisJobs(clock, http, Tokens(clock))
        self._fetched = IrisLogs(clock, logs, self._jobs)
        self._looks = LookUps(clock, self._jobs)
        self._submitter = Submitter(clock, self._jobs, self._looks, self._live_of)
        self._stopper = Stopper(clock, self._jobs)

    def endpoint(self, run: RunSpec) -> str:
        """Return the controller, in one spelling."""
        return super().endpoint(run) if run.job is None else endpoint_of(run.job)

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return the job facet of each run: a handful of requests for all of one controller."""
        return await self._jobs.observe(queries)

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return the log of each run: a file of this machine, else what its tasks have written."""
        here = [query for query in queries if _has_own_log(query.run)]
        away = [query for query in queries if query not in here]
        files, fetched = await asyncio.gather(self._logs.observe(here), self._fetched.observe(away))
        return files | fetched

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Say that there is no host to look at: the workers are the cluster's own."""
        message = "an Iris job has no host of its own: its workers are the cluster's affair"
        facet = unknown(ErrorKind.NOT_CONFIGURED, message, "iris", self._clock.now())
        return {query.name: facet for query in queries}

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return what lives of each run's lineage, from a fresh look."""
        return await self._jobs.live(runs)

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Return what ``doctor`` says of each controller."""
        groups: dict[str, list[RunSpec]] = {}
        for run in runs:
            groups.setdefault(self.endpoint(run), []).append(run)
        return await asyncio.gather(*(self._finding(*group) for group in groups.items()))

    async def _finding(self, endpoint: str, runs: list[RunSpec]) -> EndpointFinding:
        try:
            place = await self._jobs.place(runs)
            return await finding(place.controller, endpoint, runs, self._clock)
        except (AccessError, TimeoutError) as error:
            text = str(error) or "cannot read the configuration of its cluster"
            remedy = "set job.controller_url, or job.cluster to a configuration that is there"
            return EndpointFinding(endpoint=endpoint, text=text, remedy=remedy)

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return this user's jobs on the controller that ``job`` names."""
        return await own_jobs(self._jobs, job)

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return what the controller says of the run's jobs, secrets masked."""
        recorded = [run.job.id] if run.job is not None and run.job.id else []
        ids = [each for each in (*recorded, *(job.id for job in jobs)) if is_job_id(each)]
        try:
            place = await self._jobs.place([run])
        except (AccessError, TimeoutError) as error:
            return {"iris.txt": f"missing: {clean(error, 400)}\n".encode()}
        return await gather(place.controller, list(dict.fromkeys(ids)))

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the controller tells of a job by its id."""
        return await self._jobs.named(run, job_id)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against an Iris command (SPEC A-2)."""
        return command_checks(run, words)

    def name_for(self, launch_id: str) -> str:
        """Return the launch id if a job can be named by it."""
        return spelling.name_for(launch_id)

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        """Return the words with the job's name and user, which the client would make up."""
        return spelling.formed(words, run, launch_id)

    async def launch_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids that the controller has jobs of, whoever launched them."""
        return await self._looks.launch_ids(run)

    async def look_up(self, run: RunSpec, launch_id: str) -> LookUp:
        """Return what became of a launch id; one that never came is closed by looking."""
        return await self._looks.look_up(run, launch_id)

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Prove that the launch can be made; nothing is sent before ``go``."""
        return await self._submitter.accept(run, submission)

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Run the recorded command and return the id of the job that it has made."""
        return await self._submitter.go(run, accepted)

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """End exactly these jobs and what is below them; waits for their tasks' real end."""
        await self._stopper.stop(run, jobs)

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that the trainer offers no training control, if so."""
        return can_save(job)

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask the trainer to save after its current step."""
        await save(self._jobs, run, job)

    async def _live_of(self, run: RunSpec) -> Live:
        return (await self.live([run]))[run.name]


def _has_own_log(run: RunSpec) -> bool:
    return run.job is not None and run.job.log is not None
