"""Iris: jobs are read and ended over RPC, and made by the recorded command (SPEC S-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Live, LiveJob, NamedJob, OwnJob, Query
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms import reports
from cockpit.platforms.base import CannotError, EndpointFinding
from cockpit.platforms.iris import rpc
from cockpit.platforms.iris.acting import IrisLaunches
from cockpit.platforms.iris.answers import PENDING, Job, phase_of
from cockpit.platforms.iris.jobs import PATIENT, IrisJobs, endpoint_of_run
from cockpit.platforms.iris.logs import IrisLogs
from cockpit.platforms.iris.lookup import why_open
from cockpit.platforms.iris.trees import belongs_to, is_job_id, user_of
from cockpit.platforms.table import CLOCK_OFF, by_place, outlined
from cockpit.runtime.account import login_name
from cockpit.runtime.http import Http, HttpError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

OCTOBER: Final = "of October 2026 or later"
JUNE: Final = "of June 2026"
REMEDIES: Final = {
    ErrorKind.FORBIDDEN: "ask for access to the cluster, or use another account's token",
    ErrorKind.NOT_FOUND: "set job.controller_url to the controller, as http://127.0.0.1:10000",
    ErrorKind.TIMEOUT: "check whether the tunnel is up: iris --cluster NAME cluster dashboard",
    ErrorKind.REFUSED: "open the tunnel: iris --cluster NAME cluster dashboard",
    ErrorKind.DNS: "check the name in job.controller_url, and the network",
    ErrorKind.RATE_LIMITED: "wait, or ask less often: a longer cadence",
}
OTHERWISE: Final = "open the address in a browser: is it an Iris controller?"


def remedy_for(kind: ErrorKind, job: JobSpec) -> str:
    """Return what a person can do about a controller that gave no answer."""
    return rpc.remedy_of(job) if kind is ErrorKind.UNAUTHORIZED else REMEDIES.get(kind, OTHERWISE)


async def finding(
    controller: rpc.Controller, endpoint: str, runs: Sequence[RunSpec], clock: Clock
) -> EndpointFinding:
    """Return whether a controller answers, as whom, of which generation, and how its clock is."""
    names = reports.shown_names([run.name for run in runs])
    job = next(run.job for run in runs if run.job is not None)
    try:
        user, role = await controller.user()
        generation = OCTOBER if await controller.has_endpoint_service() else JUNE
        lost = await _lost(controller)
    except HttpError as error:
        text = clean(f"{error} ({names})", 400)
        return EndpointFinding(endpoint=endpoint, text=text, remedy=remedy_for(error.kind, job))
    text = f"answers as {user} ({role}), {generation}; for {names}; {lost}"
    off = 0.0 if controller.server_date is None else controller.server_date - clock.now()
    ids = (run.job.id or "" for run in runs if run.job is not None)
    others = sorted({user_of(each) for each in ids if is_job_id(each)} - {user})
    if abs(off) >= CLOCK_OFF:
        text += f"; {reports.clock_text(off)}"
        return EndpointFinding(endpoint=endpoint, text=text, remedy=reports.SET_CLOCKS)
    if others and user != rpc.ANYBODY:
        text += f"; jobs of {', '.join(others)} are read, and are not {user}'s to act on"
        return EndpointFinding(endpoint=endpoint, text=text, remedy=f"act as {others[0]}")
    return EndpointFinding(endpoint=endpoint, text=text)


async def _lost(controller: rpc.Controller) -> str:
    """Return how a launch whose answer was lost is settled there."""
    why = await why_open(controller)
    if why is None:
        return "a launch that is lost is closed by a job that never runs"
    return f"a launch that is lost is settled by a minute of answers ({why})"


PAGES: Final = 1
"""A person chooses among the newest few hundred."""


async def own_jobs(asked: IrisJobs, job: JobSpec) -> Sequence[OwnJob]:
    """Return a user's jobs, living ones first: of whom ``job.id`` names, else of our token, or us.

    Raises ``CannotError``.
    """
    try:
        async with asyncio.timeout(PATIENT):
            place = await asked.place([RunSpec(name="init", job=job)])
            prefix = f"/{await _user(place.controller, job)}/"
            jobs = await place.controller.jobs(prefix, pages=PAGES)
    except HttpError as error:
        raise CannotError(str(error)) from None
    except TimeoutError:
        text = f"{rpc.endpoint_of(job)} did not answer within {PATIENT:g} s: is its tunnel up?"
        raise CannotError(text) from None
    return _shown(each for each in jobs if each.id.startswith(prefix) and each.id.count("/") == 2)


async def _user(controller: rpc.Controller, job: JobSpec) -> str:
    if job.id and is_job_id(job.id):
        return user_of(job.id)
    name, _ = await controller.user()
    return login_name() if name == rpc.ANYBODY else name


def _shown(jobs: Iterable[Job]) -> list[OwnJob]:
    ordered = sorted(jobs, key=lambda job: (not phase_of(job).lives, -(job.submitted_at or 0.0)))
    return [
        OwnJob(
            id=clean(job.id, 200),
            name=clean(scrub(job.id.rpartition("/")[2]), 200),
            text=clean(job.state.removeprefix("JOB_STATE_"), 80),
        )
        for job in ordered
    ]


MOST: Final = 8
ASKED: Final = (("GetJobStatus", "status"), ("ListTasks", "tasks"))


async def gather(controller: rpc.Controller, ids: Sequence[str]) -> dict[str, bytes]:
    """Return two files for each job, the newest below it too, and why any of them waits.

    Never raises: what could not be had is said in the file.
    """
    found: dict[str, bytes] = {}
    waits = False
    for number, job_id in enumerate([*ids, *await _below(controller, ids)][:MOST], 1):
        for method, name in ASKED:
            text = await _answer_text(controller, method, {"jobId": job_id})
            waits = waits or PENDING in text
            found[f"iris-job-{number}-{name}.json"] = text.encode("utf-8", "replace")
    if waits:
        text = await _answer_text(controller, "GetAutoscalerStatus", {})
        found["iris-autoscaler.json"] = text.encode("utf-8", "replace")
    return found


async def _answer_text(controller: rpc.Controller, method: str, body: Mapping[str, object]) -> str:
    try:
        return f"{reports.as_evidence(await controller.call(method, body))}\n"
    except HttpError as error:
        return f"{reports.missing(error)}\n"


async def _below(controller: rpc.Controller, ids: Sequence[str]) -> list[str]:
    """Return the jobs that these have submitted, newest first; none where that has no answer."""
    found: list[str] = []
    for job_id in ids[:MOST]:
        with suppress(HttpError):
            listed = await controller.jobs(f"{job_id}/", pages=1)
            found += [job.id for job in listed if belongs_to(job.id, job_id)]
    return [each for each in found if each not in ids]


class IrisPlatform(IrisLaunches):
    """Jobs of an Iris controller (SPEC S-1)."""

    log_needs_job: ClassVar[bool] = True

    def __init__(self, clock: Clock, logs: Logs, http: Http | None = None) -> None:
        super().__init__(clock, logs, http)
        self._fetched = IrisLogs(clock, logs, self._jobs)

    def endpoint(self, run: RunSpec) -> str:
        """Return the controller, in one spelling."""
        return endpoint_of_run(run) or super().endpoint(run)

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return the job facet of each run: a handful of requests for all of one controller."""
        return await self._jobs.observe(queries)

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return the log of each run: a file of this machine, else what its tasks have written."""
        here = [query for query in queries if query.has_own_log]
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
        groups = by_place(runs, self.endpoint)
        return await asyncio.gather(*(self._finding(*group) for group in groups.items()))

    async def _finding(self, endpoint: str, runs: list[RunSpec]) -> EndpointFinding:
        try:
            place = await self._jobs.place(runs)
            return await finding(place.controller, endpoint, runs, self._clock)
        except (HttpError, TimeoutError) as error:
            text = str(error) or "cannot read the configuration of its cluster"
            remedy = "set job.controller_url, or job.cluster to a configuration that is there"
            return EndpointFinding(endpoint=endpoint, text=text, remedy=remedy)

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return this user's jobs on the controller that ``job`` names."""
        return await own_jobs(self._jobs, job)

    async def describe(self, run: RunSpec, job_id: str) -> str:
        """Return what the controller says of a job and its tasks."""
        if not is_job_id(job_id):
            raise CannotError(f"{run.name}: no job id is known")
        try:
            controller = (await self._jobs.place([run])).controller
            told = {
                name: reports.safe_document(await controller.call(method, {"jobId": job_id}))
                for method, name in ASKED
            }
        except (HttpError, TimeoutError) as error:
            raise CannotError(clean(str(error) or "no answer in time", 400)) from error
        return "\n".join(outlined(told))

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return what the controller says of the run's jobs, secrets masked."""
        recorded = [run.job.id] if run.job is not None and run.job.id else []
        ids = [each for each in (*recorded, *(job.id for job in jobs)) if is_job_id(each)]
        try:
            place = await self._jobs.place([run])
        except (HttpError, TimeoutError) as error:
            return {"iris.txt": f"{reports.missing(error)}\n".encode()}
        return await gather(place.controller, list(dict.fromkeys(ids)))

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the controller tells of a job by its id."""
        return await self._jobs.named(run, job_id)
