"""Jobs of kind ``ray``: Ray Jobs on a head's dashboard, over REST (SPEC S-2)."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from cockpit.hosts.notes import launch_id_in
from cockpit.model import wording
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, not_configured, unknown
from cockpit.model.jobs import Live, LiveJob, NamedJob, OwnJob, Query
from cockpit.model.observed import Disk, Gpu, HostValue, JobValue, LogValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms import reports
from cockpit.platforms.base import CannotError, EndpointFinding
from cockpit.platforms.lineage import settings_of, words_of
from cockpit.platforms.local.programs import arguments
from cockpit.platforms.ray.answers import RayJob, figure, is_closing, mapping, phase_of
from cockpit.platforms.ray.head import Head
from cockpit.platforms.ray.jobs import RayJobs, shown_name
from cockpit.platforms.ray.launching import ADDRESS, RayLaunches
from cockpit.platforms.ray.logs import RayLogs
from cockpit.platforms.table import ask_each, names_of, outlined, unanswered, unknown_lives
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

STALE: Final = 120.0
"""Seconds after which a node's summary is too old to tell its health."""
GATHERING: Final = 2.5
"""Seconds after which a dashboard that was not asked for long has newer figures."""
_MOST_DISKS: Final = 8
_MOST_GPUS: Final = 64


class RayHosts:
    """Reads the nodes of heads."""

    def __init__(self, clock: Clock, jobs: RayJobs) -> None:
        self._clock = clock
        self._jobs = jobs

    async def observe(self, head: Head, queries: Sequence[Query]) -> dict[str, Facet[HostValue]]:
        """Return the host facet of each run of one head, by run name; raises ``HttpError``."""
        jobs = await self._jobs.known(head, queries)
        nodes = {name: jobs[name].node if name in jobs else None for name in names_of(queries)}
        wanted = {node for node in nodes.values() if node is not None}
        summaries = await self._summaries(head, wanted) if wanted else {}
        now = self._clock.now()
        return {
            name: unknown(ErrorKind.NOT_FOUND, "the job's node is unknown", head.name, now)
            if node is None
            else _facet(head, node, summaries.get(node), now)
            for name, node in nodes.items()
        }

    async def _summaries(
        self, head: Head, wanted: Collection[str]
    ) -> dict[str, Mapping[str, object]]:
        """Return the summaries by node, asked for twice where those that are wanted are old."""
        found = {_id(each): each for each in await head.summaries()}
        ages = [_age(head, found[node], self._clock.now()) for node in wanted if node in found]
        if any(age is not None and age > STALE for age in ages):
            await self._clock.sleep(GATHERING)
            found = {_id(each): each for each in await head.summaries()}
        return found


def _facet(
    head: Head, node: str, summary: Mapping[str, object] | None, now: float
) -> Facet[HostValue]:
    short = clean(node, 12)
    if summary is None:
        text = f"{head.name} tells nothing of node {short}: it left the cluster, or never answered"
        return unknown(ErrorKind.NOT_FOUND, text, head.name, now)
    state = mapping(summary.get("raylet")).get("state")
    if state is not None and state != "ALIVE":
        text = f"{head.name} says that node {short} is {clean(state, 40)}"
        return unknown(ErrorKind.NOT_FOUND, text, head.name, now)
    age = _age(head, summary, now)
    if age is None or age > STALE:
        old = "of unknown age" if age is None else f"{age:.0f} s old"
        text = f"what {head.name} tells of node {short} is {old}: nothing newer has come from it"
        return unknown(ErrorKind.TIMEOUT, text, head.name, now)
    return known(
        value_of(summary), f"{head.name}, node {clean(summary.get('ip'), 60) or short}", now
    )


def _age(head: Head, summary: Mapping[str, object], now: float) -> float | None:
    at = figure(summary.get("now"))
    return None if at is None else now - head.clock.ours(at)


def value_of(summary: Mapping[str, object]) -> HostValue:
    """Return the health that a node's summary tells."""
    return HostValue(
        disks=tuple(_disks(mapping(summary.get("disk")))),
        mem_frac=_memory(summary),
        load=_load(summary.get("loadAvg")),
        gpus=tuple(_gpus(summary.get("gpus"))),
    )


def _id(summary: Mapping[str, object]) -> str:
    return str(mapping(summary.get("raylet")).get("nodeId") or "")


def _disks(disks: Mapping[str, object]) -> list[Disk]:
    """Return each disk once: Ray reports its own folder besides the disk that holds it."""
    found: dict[tuple[float, float], Disk] = {}
    for mount, raw in list(disks.items())[:_MOST_DISKS]:
        free, percent = figure(mapping(raw).get("free")), figure(mapping(raw).get("percent"))
        if free is not None and percent is not None:
            disk = Disk(mount=clean(mount, 200), free=int(free), used_frac=percent / 100)
            found.setdefault((free, percent), disk)
    return list(found.values())


def _memory(summary: Mapping[str, object]) -> float | None:
    """Return the share of memory that is used: of the container's where it has a limit."""
    figures = summary.get("mem")
    if not isinstance(figures, list) or len(figures) < 2:
        return None
    total, available = figure(figures[0]), figure(figures[1])
    if not total or available is None:
        return None
    return max(0.0, 1.0 - available / total)


def _load(value: object) -> float | None:
    absolute = value[0] if isinstance(value, list) and value else None
    return figure(absolute[0]) if isinstance(absolute, list) and absolute else None


def _gpus(value: object) -> list[Gpu]:
    found = []
    for number, raw in enumerate(map(mapping, value if isinstance(value, list) else [])):
        if number >= _MOST_GPUS:
            break
        index, util = figure(raw.get("index")), figure(raw.get("utilizationGpu"))
        used, total = figure(raw.get("memoryUsed")), figure(raw.get("memoryTotal"))
        found.append(
            Gpu(
                index=number if index is None else int(index),
                name=clean(raw.get("name"), 80),
                util_frac=None if util is None else util / 100,
                mem_frac=None if used is None or not total else used / total,
            )
        )
    return found


REMEDIES: Final = {
    ErrorKind.UNAUTHORIZED: "export the head's token and name its variable in job.token_env",
    ErrorKind.FORBIDDEN: "use the token of this cluster: the one it was started with",
    ErrorKind.NOT_FOUND: "set job.address to the head's dashboard, as http://127.0.0.1:8265",
    ErrorKind.TIMEOUT: "check the head's gcs_server; do not restart anything from here",
    ErrorKind.REFUSED: "check whether the head is running and its port is forwarded here",
    ErrorKind.DNS: "check the name in job.address, and the network",
    ErrorKind.RATE_LIMITED: "wait, or ask less often: a longer cadence",
}
COMMAND: Final = "job.token_command"
BY_HAND: Final = "run job.token_command by hand: it must end with 0 and print the token"
OTHERWISE: Final = "open the address in a browser: is it a Ray dashboard?"


async def finding(head: Head, names: Sequence[str]) -> EndpointFinding:
    """Return whether a head answers for its jobs, by which version, and how its clock is."""
    runs = reports.shown_names(names)
    try:
        version, began = await head.version()
        jobs = await head.jobs()
    except HttpError as error:
        text = clean(f"{error} ({runs})", 400)
        remedy = BY_HAND if COMMAND in str(error) else REMEDIES.get(error.kind, OTHERWISE)
        return EndpointFinding(endpoint=head.name, text=text, remedy=remedy)
    since = f", up since {began} (its clock)" if began else ""
    text = f"Ray {version}{since}, lists {len(jobs)} jobs; for {runs}"
    if not head.clock.off:
        return EndpointFinding(endpoint=head.name, text=text)
    text = f"{text}; {reports.clock_text(head.clock.off)}"
    return EndpointFinding(endpoint=head.name, text=text, remedy=reports.SET_CLOCKS)


MOST_LISTED: Final = 500
_SHELL: Final = "&|;<>`*?#"
"""Signs in a line that mean something to a shell; one in quotes does no harm in ``sh -c``."""
_LAUNCH: Final = re.compile(r"-i\d{1,6}$")
"""Such as ``toy-i003``."""


def own_jobs(head: Head, jobs: Sequence[RayJob]) -> list[OwnJob]:
    """Return the jobs of a head, living ones first, the newest first."""
    named = [job for job in jobs if job.id]
    order = sorted(named, key=lambda job: (not phase_of(job).lives, -(job.submitted_at or 0.0)))
    return [_own_job(head, job) for job in order[:MOST_LISTED]]


def _own_job(head: Head, job: RayJob) -> OwnJob:
    at = None if job.submitted_at is None else head.clock.ours(job.submitted_at)
    since = "" if at is None else f" since {wording.moment(at)}"
    return OwnJob(
        id=clean(job.id, 200),
        name=clean(_LAUNCH.sub("", job.id), 200),
        text=f"{clean(job.status, 40)}{since}: {shown_name(job)}",
        settings={"job.id": clean(job.id, 200), **dict(_signs_of(job))},
    )


def _shell(entrypoint: str) -> bool:
    """Tell whether only a shell reads a line as it is meant; ``resubmit`` is words without one."""
    return any(sign in entrypoint for sign in _SHELL)


def _signs_of(job: RayJob) -> Iterator[tuple[str, str]]:
    """Yield what its entrypoint and environment tell of the run; nothing that holds a secret."""
    entrypoint = clean(job.entrypoint, 4000)
    if entrypoint and "\n" not in job.entrypoint and scrub(entrypoint) == entrypoint:
        yield "resubmit", shlex.join(["sh", "-c", entrypoint]) if _shell(entrypoint) else entrypoint
    yield from settings_of(job.env, tuple(arguments(["", *words_of(job.entrypoint)])))


MOST_EVIDENCE: Final = 8
LINES: Final = 1000
"""Lines of the end of a log that are kept."""


async def gather(head: Head, ids: Sequence[str]) -> dict[str, bytes]:
    """Return the jobs, the ends of their logs and the cluster's state, by file name.

    Never raises: what could not be had is said in the file.
    """
    found: dict[str, str] = {}
    for number, job_id in enumerate(ids[:MOST_EVIDENCE], 1):
        job: RayJob | None = None
        try:
            job, document = await head.job(job_id)
            found[f"ray-job-{number}.json"] = reports.as_evidence(document)
        except HttpError as error:
            found[f"ray-job-{number}.json"] = reports.missing(error)
        if job is not None and job.node is not None and job.log_name is not None:
            found[f"ray-log-{number}.txt"] = await _log(head, job.node, job.log_name)
    try:
        cluster = await head.cluster()
        found["ray-cluster.json"] = scrub(json.dumps(cluster, indent=1, ensure_ascii=False))
    except HttpError as error:
        found["ray-cluster.json"] = reports.missing(error)
    return {name: f"{text}\n".encode("utf-8", "replace") for name, text in found.items()}


async def _log(head: Head, node: str, name: str) -> str:
    try:
        return scrub((await head.tail(node, name, LINES)).decode("utf-8", "replace"))
    except HttpError as error:
        return reports.missing(error)


class RayPlatform(RayLaunches):
    """Jobs of one or many Ray heads (SPEC S-2)."""

    log_needs_job: ClassVar[bool] = True

    def __init__(self, clock: Clock, logs: Logs) -> None:
        super().__init__(clock, logs)
        self._tails = RayLogs(clock, logs, self._jobs.known, self._jobs.last_log)
        self._hosts = RayHosts(clock, self._jobs)

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return the job facet of each run, from one list of each head."""
        return await self._each(queries, self._jobs.observe)

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return the log of each run: a file of this machine, else its driver's log on its node."""
        here = [query for query in queries if query.has_own_log]
        away = [query for query in queries if not query.has_own_log]
        files, fetched = await asyncio.gather(
            self._logs.observe(here), self._each(away, self._tails.observe)
        )
        return files | fetched

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return the health of the node that each run's driver is on, as the dashboard has it."""
        return await self._each(queries, self._hosts.observe)

    async def _each(
        self,
        queries: Sequence[Query],
        ask: Callable[[Head, list[Query]], Awaitable[Mapping[str, Facet[Any]]]],
    ) -> dict[str, Facet[Any]]:
        wrong, groups = self._grouped(queries)
        failed = unanswered(lambda head: head.name, self._clock)
        return wrong | await ask_each(groups, ask, failed)

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
        asked = (finding(head, names_of(own)) for head, own in groups.items())
        return [*wrong, *await asyncio.gather(*asked)]

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
        return found | await ask_each(groups, self._live, unknown_lives)

    async def describe(self, run: RunSpec, job_id: str) -> str:
        """Return what the head says of a job, and of its nodes and what they have left."""
        head = self._head_of(run)
        if not job_id:  # the head would list the jobs of everybody
            raise CannotError(f"{run.name}: no job id is known")
        try:
            _, document = await head.job(job_id)
            cluster = await head.cluster()
        except HttpError as error:
            raise CannotError(clean(str(error), 400)) from error
        return "\n".join(outlined({"job": reports.safe_document(document), "cluster": cluster}))

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return what the head says of the run's jobs and of itself, secrets masked."""
        _, groups = self._grouped([Query(run=run)])
        recorded = run.job.id if run.job is not None else None
        named = [recorded] if recorded is not None else []
        ids = dict.fromkeys([*named, *(job.id for job in jobs)])
        return await gather(next(iter(groups)), list(ids)) if groups else {}

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
            started_at=None if job.submitted_at is None else head.clock.ours(job.submitted_at),
            values=(*arguments(["", *words_of(job.entrypoint)]), *own),
        )

    async def _live(self, head: Head, queries: Sequence[Query]) -> dict[str, Live]:
        return self._jobs.live(head, await head.jobs(), [query.run for query in queries])

    def _grouped(
        self, queries: Iterable[Query]
    ) -> tuple[dict[str, Facet[Any]], dict[Head, list[Query]]]:
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
        return wrong, groups
