"""Jobs of kind ``kubernetes``: objects of a cluster's namespace, over its API (SPEC S-17)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Live, LiveJob, NamedJob, OwnJob, Query
from cockpit.model.observed import HostValue, JobValue, LogValue, Phase
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, EndpointFinding
from cockpit.platforms.command import NO_WAY
from cockpit.platforms.kubernetes.api import ApiError, Cluster
from cockpit.platforms.kubernetes.launching import KubernetesLaunches
from cockpit.platforms.kubernetes.lineage import by_id, current_of, lives, own_job, started
from cockpit.platforms.kubernetes.logs import PodLogs
from cockpit.platforms.kubernetes.objects import KINDS
from cockpit.platforms.kubernetes.places import finding, host_of
from cockpit.platforms.kubernetes.states import DELETED, Job
from cockpit.platforms.kubernetes.stopping import EndingObjects, describe, gather, save, target_of
from cockpit.platforms.kubernetes.view import SEEN_GONE, Look, Namespace
from cockpit.platforms.places import ask_each, by_place, unanswered, unknown_lives
from cockpit.platforms.protocol import EndingJobs
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean

RECENT: Final = 30.0
"""Seconds for which a look serves the logs and the nodes."""
Asked = Callable[[Namespace, list[Query]], Awaitable[Mapping[str, Facet[Any]]]]


REMOVED: Final = "it was deleted, or removed some time after its end (ttlSecondsAfterFinished)"


class KubernetesPlatform(KubernetesLaunches):
    """Jobs of one or many clusters."""

    kind: ClassVar[str] = "kubernetes"
    log_needs_job: ClassVar[bool] = True
    forgets: ClassVar[bool] = True

    def __init__(self, clock: Clock, logs: Logs) -> None:
        super().__init__(clock, logs)
        self._spaces: dict[tuple[str | None, str | None], Namespace] = {}
        self._pod_logs = PodLogs(clock, logs)

    def space_of(self, run: RunSpec) -> Namespace:
        """Return the namespace that a run is in."""
        assert run.job is not None
        return self._space(run.job)

    def endpoint(self, run: RunSpec) -> str:
        """Return the cluster and the namespace: who may read one may not read another."""
        job = run.job
        context, space = (job.context, job.namespace) if job else (None, None)
        return f"kubernetes {context or 'current context'}" + (f"/{space}" if space else "")

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return the job facet of each run, from one list of each kind and namespace."""
        return await self._each(queries, self._jobs)

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return the log of each run: a file that the run file names, else those of its pods."""
        files = [query for query in queries if query.has_own_log]
        rest = [query for query in queries if not query.has_own_log]
        found = await self._each(rest, self._read_logs)
        return {**found, **await self._logs.observe(files)}

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return what the cluster says of the node that each run's first pod is on."""
        return await self._each(queries, self._hosts)

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return what lives of each run's lineage, as its namespace has it now."""
        groups = by_place(runs, self.space_of)
        return await ask_each(groups, self._live, unknown_lives)

    async def _live(self, space: Namespace, runs: Sequence[RunSpec]) -> dict[str, Live]:
        seen = lives(await space.look(), runs)
        moves = await space.cluster.moves()
        update = {"unknown": f"{space.cluster.name}: {moves}"} if moves else {}
        return {name: live.model_copy(update=update) for name, live in seen.items()}

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return the jobs of the namespace, living ones first; raises ``CannotError``."""
        try:
            look = await self._space(job).look()
        except HttpError as error:
            raise CannotError(clean(error, 400)) from None
        jobs = [look.job(top) for top in look.tops]
        jobs.sort(key=lambda each: (not each.state.phase.lives, -each.top.created))
        return [own_job(each) for each in jobs]

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the namespace has under an id as ``jobset/llama``."""
        assert run.job is not None
        try:
            space = self._space(run.job)
            look, moves = await space.look(), await space.cluster.moves()
        except HttpError as error:
            return NamedJob(id=job_id, text=clean(error, 400))
        top = by_id(look.tops, job_id)
        if top is None:
            text = f"the namespace has no {clean(job_id, 120)}"
            return NamedJob(id=job_id, text=text, lives=None if look.errors or moves else False)
        job, (start, told, _) = look.job(top), started(top.body)
        phase = job.state.phase
        return NamedJob(
            id=top.id,
            text=f"{top.id} is {job.state.word}",
            lives=phase.lives if phase is not Phase.UNKNOWN else None,
            launch_id=top.launch_id,
            started_at=job.value().started_at,
            values=(*told, *start.variables.items()),
        )

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Return whether each cluster answers, its version and clock, and what we may do there."""
        groups = by_place([Query(run=run) for run in runs], self._space_of_query)
        return await asyncio.gather(*(finding(space.cluster, own) for space, own in groups.items()))

    def ending(self, run: RunSpec, jobs: Sequence[LiveJob]) -> EndingJobs:
        """Return what deletes exactly these objects, and waits for their pods."""
        return EndingObjects(self.space_of(run), [target_of(job) for job in jobs])

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return that there is no way to ask the trainer, if so."""
        spec = run.job
        return None if spec is not None and (spec.save_command or spec.save_signal) else NO_WAY

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask by ``save_command`` run here, or by a signal that `kubectl exec` sends."""
        try:
            await save(self.space_of(run), run, job)
        except HttpError as error:
            raise CannotError(str(error)) from None

    async def describe(self, run: RunSpec, job_id: str) -> str:
        """Return the object, its pods and their events."""
        try:
            return await describe(self.space_of(run), job_id)
        except HttpError as error:
            raise CannotError(str(error)) from error

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return the objects, their pods, events and logs, secrets masked."""
        return await gather(self.space_of(run), jobs)

    def _space(self, job: JobSpec) -> Namespace:
        key = (job.context, job.namespace)
        if key not in self._spaces:
            self._spaces[key] = Namespace(Cluster(job, self._clock), self._clock)
        return self._spaces[key]

    def _space_of_query(self, query: Query) -> Namespace:
        return self.space_of(query.run)

    async def _each(self, queries: Sequence[Query], ask: Asked) -> dict[str, Facet[Any]]:
        """Return what is read of each namespace, or what went wrong there, for all its runs."""
        failed = unanswered(lambda space: space.cluster.name, self._clock)
        return await ask_each(by_place(queries, self._space_of_query), ask, failed)

    async def _jobs(self, space: Namespace, queries: list[Query]) -> dict[str, Facet[JobValue]]:
        look = await space.look()
        rivals = lives(look, [query.run for query in queries])
        found = {}
        for query in queries:
            found[query.name] = await self._job(space, look, query, rivals[query.name])
        return found

    async def _job(self, space: Namespace, look: Look, query: Query, live: Live) -> Facet[JobValue]:
        run, name, now = query.run, space.cluster.name, self._clock.now()
        top = current_of(run, look)
        gone = None if top is not None else by_id(look.gone, run.job.id if run.job else None)
        if gone is not None:
            job, source = look.job(gone, run), f"{name}, as it was when it was deleted"
            value = job.value(space.cluster.steady_skew)
            if not value.phase.terminal:
                at = gone.body[SEEN_GONE]
                ended = {"phase": Phase.CANCELLED, "state": "Deleted", "ended_at": at}
                value = value.model_copy(update={**ended, "reason": DELETED})
        elif top is None and query.over is not None:
            value, source = query.over, f"{name}, as it was seen to end; it is not there any more"
        elif top is None:
            return self._missing(space, look, query, now)
        else:
            value, source = await self._value(space, look, look.job(top, run)), name
        others = tuple(each for each in live.jobs if each.id != value.id)
        possible = tuple(each for each in live.possible if each.id != value.id)
        update: dict[str, object] = {"rivals": others, "possible": possible, "held": live.held}
        if others or possible:
            update["rivals_source"] = f"the objects of {name}"
        return known(value.model_copy(update=update), source, now)

    async def _value(self, space: Namespace, look: Look, job: Job) -> JobValue:
        skew = space.cluster.steady_skew
        if job.state.phase is not Phase.WAITING or job.state.word == "Terminating":
            return job.value(skew)
        wait = await space.wait(look, job, self._clock.now() + skew)
        return job.value(skew, wait.text, never=wait.never)

    def _missing(self, space: Namespace, look: Look, query: Query, now: float) -> Facet[JobValue]:
        recorded = query.run.job.id if query.run.job else None
        name = space.cluster.name
        word = (recorded or "").partition("/")[0]
        error = look.errors.get(word)
        if recorded is None:  # the newest that fits may be of a kind that could not be read
            error = next(iter(look.errors.values()), None)
        if error is not None:
            return unknown(error.kind, clean(error, 400), name, now)
        text = f"{name} has no {clean(recorded, 120)}: that is unknown, not finished; {REMOVED}"
        if recorded is None:
            text = f"{name} has no job of {clean(query.name, 80)}: set job.name, or launch it"
        elif word not in KINDS:
            text = f"job.name: {clean(word, 60)} is none of the kinds {', '.join(KINDS)}"
        elif others := [
            top.id for top in look.tops if top.meta["name"] == recorded[len(word) + 1 :]
        ]:
            text = f"{name} has no {clean(recorded, 120)}, but {others[0]}: set job.name"
        return unknown(ErrorKind.NOT_FOUND, text, name, now)

    async def _read_logs(
        self, space: Namespace, queries: list[Query]
    ) -> dict[str, Facet[LogValue]]:
        jobs = await self._current(space, queries)
        return await self._pod_logs.observe(space.cluster, queries, jobs)

    async def _current(self, space: Namespace, queries: list[Query]) -> dict[str, Job | None]:
        look = await space.look(RECENT)
        tops = [(query.run, current_of(query.run, look)) for query in queries]
        return {run.name: None if top is None else look.job(top, run) for run, top in tops}

    async def _hosts(self, space: Namespace, queries: list[Query]) -> dict[str, Facet[HostValue]]:
        jobs = await self._current(space, queries)
        nodes = {name: job.pods[0].node if job and job.pods else None for name, job in jobs.items()}
        asked = {
            node: await self._node(space.cluster, node) for node in set(nodes.values()) if node
        }
        text = "no pod of it has a node"
        none = unknown(ErrorKind.NOT_FOUND, text, space.cluster.name, self._clock.now())
        return {name: asked[node] if node else none for name, node in nodes.items()}

    async def _node(self, cluster: Cluster, node: str) -> Facet[Any]:
        source = f"{cluster.name}, node {clean(node, 120)}"
        try:
            body = await cluster.get(f"/api/v1/nodes/{node}")
        except ApiError as error:
            return unknown(error.kind, str(error), source, self._clock.now())
        return known(host_of(body), source, self._clock.now())
