"""Jobs of kind ``ray``: Ray Jobs on a head's dashboard, over REST (SPEC S-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, not_configured, unknown
from cockpit.model.jobs import (
    Accepted,
    Found,
    Live,
    LiveJob,
    LookUp,
    NamedJob,
    OwnJob,
    Query,
    Submission,
)
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.plan import Check
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, EndpointFinding
from cockpit.platforms.local.launcher.launches import launch_id_in
from cockpit.platforms.local.naming import arguments
from cockpit.platforms.ray import PRIVATE
from cockpit.platforms.ray.command import command_checks
from cockpit.platforms.ray.doctor import finding
from cockpit.platforms.ray.evidence import gather
from cockpit.platforms.ray.head import CAP, MOST_PATIENCE, Head, base_of
from cockpit.platforms.ray.hosts import RayHosts
from cockpit.platforms.ray.jobs import RayJobs
from cockpit.platforms.ray.launching import RayLaunches
from cockpit.platforms.ray.lineage import launch_id_of, words_of
from cockpit.platforms.ray.logs import RayLogs
from cockpit.platforms.ray.own import own_jobs
from cockpit.platforms.ray.saving import save, why_no_save
from cockpit.platforms.ray.states import phase_of
from cockpit.platforms.ray.stopping import stop
from cockpit.platforms.ray.submission import is_closing, name_of
from cockpit.platforms.ray.token import Tokens
from cockpit.platforms.unsupported import Unsupported
from cockpit.runtime.http import Http, HttpError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean

KEEP = 90.0
"""Seconds that connections to a head outlive a request: longer than any cadence but a slow one."""
ADDRESS = "job.address"


class RayPlatform(Unsupported):
    """Jobs of one or many Ray heads (SPEC S-2)."""

    kind: ClassVar[str] = "ray"
    fields: ClassVar[frozenset[str]] = frozenset(
        {
            *("id", "address", "token_env", "auth", "token_command"),
            *("resubmit_runs", "log", "other_logs", "workdir", "save_command", "grace"),
            "match",
        }
    )
    acts: ClassVar[bool] = True
    private: ClassVar[tuple[str, ...]] = PRIVATE
    log_needs_job: ClassVar[bool] = True
    forgets: ClassVar[bool] = True

    def __init__(self, clock: Clock, logs: Logs) -> None:
        super().__init__(clock, logs)
        self._tokens = Tokens(clock)
        self._heads: dict[object, Head] = {}
        self._jobs = RayJobs(clock)
        self._tails = RayLogs(clock, logs, self._jobs.recent, self._jobs.last_log)
        self._hosts = RayHosts(clock)
        self._launches = RayLaunches(clock, self._jobs)

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return the job facet of each run, from one list of each head."""
        found, groups = self._grouped(queries)
        answers = (self._jobs.observe(head, own) for head, own in groups)
        for answer in await asyncio.gather(*answers):
            found.update(answer)
        return found

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return the log of each run: a file of this machine, else its driver's log on its node."""
        here = [query for query in queries if _has_own_log(query.run)]
        found, groups = self._grouped([query for query in queries if query not in here])
        answers = (self._tails.observe(head, own) for head, own in groups)
        for answer in await asyncio.gather(self._logs.observe(here), *answers):
            found.update(answer)
        return found

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return the health of the node that each run's driver is on, as the dashboard has it."""
        found, groups = self._grouped(queries)
        answers = (self._hosts.observe(head, own) for head, own in groups)
        for answer in await asyncio.gather(*answers):
            found.update(answer)
        return found

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Return whether each head answers, whether it takes the token, and how its clock is."""
        found, groups = self._grouped([Query(run=run) for run in runs])
        wrong = [
            EndpointFinding(
                endpoint="ray",
                text=f"{name}: {facet.error.message}",
                remedy="set it to the head's dashboard, as http://127.0.0.1:8265",
            )
            for name, facet in found.items()
            if facet.error is not None
        ]
        asked = (finding(head, [query.name for query in own]) for head, own in groups)
        return [*wrong, *await asyncio.gather(*asked)]

    async def launch_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids of a run that its head has used; raises ``CannotError``."""
        try:
            jobs = await self._head_of(run).ever()
        except HttpError as error:
            raise CannotError(clean(str(error), 400)) from None
        return frozenset(filter(None, (launch_id_of(run, job) for job in jobs)))

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return the jobs of a head, living ones first; raises ``CannotError``."""
        try:
            if not job.address:
                raise ValueError(f"{ADDRESS}, the head's dashboard, is not given")
            head = self._head(job)
            return own_jobs(head, await head.jobs())
        except (ValueError, HttpError) as error:
            raise CannotError(clean(str(error), 400)) from None

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return what lives of each run's lineage, from one list of each head."""
        wrong, groups = self._grouped([Query(run=run) for run in runs])
        found = {
            name: Live(unknown=facet.error.message if facet.error else "unknown")
            for name, facet in wrong.items()
        }
        asked = (self._live(head, [query.run for query in own]) for head, own in groups)
        for answer in await asyncio.gather(*asked):
            found.update(answer)
        return found

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return what the head says of the run's jobs and of itself, secrets masked."""
        _, groups = self._grouped([Query(run=run)])
        recorded = run.job.id if run.job is not None else None
        named = [recorded] if recorded is not None else []
        ids = dict.fromkeys([*named, *(job.id for job in jobs)])
        return await gather(groups[0][0], list(ids)) if groups else {}

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the head tells of a job by its submission id."""
        try:
            head = self._head_of(run)
            job = await head.find(job_id)
        except (CannotError, HttpError) as error:
            return NamedJob(id=job_id, text=clean(str(error), 400))
        if job is None or is_closing(job):
            text = f"{head.name} lists no job {clean(job_id, 120)}"
            return NamedJob(id=job_id, text=text, lives=False)
        phase, text = phase_of(job), f"{head.name}: {clean(job.id, 120)} is {clean(job.status, 40)}"
        own = ((name, value) for name, value in job.env.items())
        return NamedJob(
            id=job.id,
            text=text,
            lives=None if not (phase.lives or phase.terminal) else phase.lives,
            launch_id=launch_id_in((job.submission_id or "",)),
            started_at=None if job.submitted_at is None else head.ours(job.submitted_at),
            values=(*arguments(["", *words_of(job.entrypoint)]), *own),
        )

    def name_for(self, launch_id: str) -> str:
        """Return the submission id; one with a slash makes a job that nobody can ask for."""
        return name_of(launch_id)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against an entrypoint, or a submitter of the user's own."""
        return command_checks(run, words)

    async def look_up(self, run: RunSpec, launch_id: str) -> LookUp:
        """Return what became of a launch id; one that is unused is closed by looking."""
        return await self._looked_up(run, launch_id, None, settle=True)

    async def recall(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str], *, settle: bool
    ) -> LookUp:
        """Return what became of a launch, and whose it is, by the nonce that was journaled."""
        return await self._looked_up(run, launch_id, handle, settle=settle)

    async def _looked_up(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None, *, settle: bool
    ) -> LookUp:
        try:
            head = self._head_of(run)
            return await self._launches.look_up(head, run, launch_id, handle, settle=settle)
        except CannotError as error:
            return LookUp(found=Found.UNKNOWN, text=str(error))

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Look that the id is unused, and draw a nonce; nothing is sent before ``go``."""
        return await self._launches.accept(self._head_of(run), run, submission)

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Submit the job, once, and return its submission id."""
        return await self._launches.go(self._head_of(run), run, accepted)

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Stop exactly these jobs; Ray asks with SIGTERM first, and kills after its own grace."""
        grace = 60.0 if run.job is None else run.job.grace
        await stop(self._head_of(run), jobs, grace, self._clock)

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that there is no way to ask the trainer, if so."""
        return why_no_save(run)

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_command``, run on this machine."""
        await save(run, job)

    async def _live(self, head: Head, runs: Sequence[RunSpec]) -> dict[str, Live]:
        try:
            jobs = await head.jobs()
        except HttpError as error:
            text = clean(str(error), 400)
            return {run.name: Live(unknown=text) for run in runs}
        return self._jobs.live(head, jobs, runs)

    def _grouped(
        self, queries: Iterable[Query]
    ) -> tuple[dict[str, Facet[Any]], list[tuple[Head, list[Query]]]]:
        """Return the queries by the head they are for, and the facets of those that name none."""
        groups: dict[Head, list[Query]] = {}
        wrong: dict[str, Facet[Any]] = {}
        for query in queries:
            job = query.run.job
            if job is None or not job.address:
                wrong[query.name] = not_configured(ADDRESS)
                continue
            try:
                head = self._head(job)
            except ValueError as error:
                now = self._clock.now()
                wrong[query.name] = unknown(ErrorKind.BAD_ANSWER, str(error), "run file", now)
            else:
                groups.setdefault(head, []).append(query)
        return wrong, list(groups.items())

    def _head_of(self, run: RunSpec) -> Head:
        """Return the head that a run is acted on at; raises ``CannotError``."""
        if run.job is None or not run.job.address:
            raise CannotError(f"{ADDRESS}, the head's dashboard, is not given")
        try:
            return self._head(run.job)
        except ValueError as error:
            raise CannotError(clean(str(error), 400)) from None

    def _head(self, job: JobSpec) -> Head:
        """Return the head that a run names; raises ``ValueError`` for a bad address."""
        assert job.address is not None
        base = base_of(job.address)
        key = (base, job.auth, job.token_env, job.token_command)
        if key not in self._heads:
            # connections of its own: a head that hangs holds back no other
            http = Http(self._clock, deadline=MOST_PATIENCE, cap=CAP, keep=KEEP)
            self._heads[key] = Head(base, job, http, self._tokens, self._clock)
        return self._heads[key]


def _has_own_log(run: RunSpec) -> bool:
    return run.job is not None and run.job.log is not None
