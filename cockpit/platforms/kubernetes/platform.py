"""Jobs of kind ``kubernetes``: objects of a cluster's namespace, over its API (SPEC S-17)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from cockpit.hosts.here import HERE_LINK
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Live, LiveJob, NamedJob, OwnJob, Query
from cockpit.model.observed import Gpu, HostValue, JobValue, LogValue, Phase
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, EndpointFinding, LostError
from cockpit.platforms.command import NO_WAY, save_by_command
from cockpit.platforms.kubernetes.api import ApiError, Cluster, mapping
from cockpit.platforms.kubernetes.launching import CHANGED, KubernetesLaunches
from cockpit.platforms.kubernetes.lineage import by_id, current_of, lives, own_job, started
from cockpit.platforms.kubernetes.logs import PodLogs
from cockpit.platforms.kubernetes.objects import KINDS, Object, part
from cockpit.platforms.kubernetes.pods import ACCELERATORS, Pod, conditions
from cockpit.platforms.kubernetes.states import DELETED, Job
from cockpit.platforms.kubernetes.view import SEEN_GONE, Look, Namespace, quantity
from cockpit.platforms.protocol import EndingJobs
from cockpit.platforms.reports import as_evidence, clock_text, missing, safe_document
from cockpit.platforms.table import ask_each, by_place, outlined, unanswered, unknown_lives
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub, shown

VERBS: Final = (
    ("", "pods", "", "list watch"), ("", "pods", "log", "get"), ("", "events", "", "list"),
    ("", "configmaps", "", "list get create patch"), ("kueue.x-k8s.io", "workloads", "", "list"),
    ("", "nodes", "", "get list"),
)  # fmt: skip
"""What is needed beside the kinds of objects: group, resource, part of it, verbs."""
OF_KINDS: Final = "list watch create get patch delete"
SEEN: Final = "list watch"
"""The verbs for the other kinds: an object of any kind may write to a run's output root."""
CHECK: Final = "check the context with kubectl; docs/kubernetes.md says what is read"
ASK: Final = "ask for the role in docs/kubernetes.md"


def host_of(node: Object) -> HostValue:
    """Return a node's health: why nothing is started there, and its accelerators."""
    spec, status = mapping(node.get("spec")), mapping(node.get("status"))
    wrong = [
        f"{each['type']}: {shown(each.get('message'), 160)}"
        for each in conditions(node)
        if each["type"].endswith(("Pressure", "Unavailable"))
    ]
    ready = [each for each in status.get("conditions") or () if each["type"] == "Ready"]
    if ready and ready[0].get("status") != "True":
        wrong.insert(0, f"not ready: {shown(ready[0].get('message'), 160)}")
    if spec.get("unschedulable"):
        why = [clean(each.get("value"), 80) for each in spec.get("taints") or ()]
        wrong.append(" ".join(filter(None, ("cordoned", *why))))
    there, usable = mapping(status.get("capacity")), mapping(status.get("allocatable"))
    names = [name for name in there if name.startswith(ACCELERATORS)]
    counts = [int(sum(quantity(each.get(name)) for name in names)) for each in (there, usable)]
    product = mapping(node["metadata"].get("labels")).get("nvidia.com/gpu.product")
    name = clean(product or next(iter(names), ""), 80)
    return HostValue(
        out_of_service="; ".join(wrong) or None,
        gpus=tuple(Gpu(index=number, name=name) for number in range(counts[1])),
        gpus_lost=counts[0] - counts[1] if names else None,
    )


async def finding(cluster: Cluster, queries: Sequence[Query]) -> EndpointFinding:
    """Return whether a cluster answers for its runs, and which verbs our role lacks."""
    names = ", ".join(query.name for query in queries[:5])
    try:
        version = clean((await cluster.get("/version")).get("gitVersion"), 40)
        space = await cluster.namespace()
        lacks = await _lacking(cluster, space, queries)
    except HttpError as error:
        text = f"{clean(error, 400)} ({names})"
        return EndpointFinding(endpoint=cluster.name, text=text, remedy=CHECK)
    text = f"Kubernetes {version}, namespace {space}; for {names}"
    if cluster.clock.off:
        text += f"; {clock_text(cluster.clock.off)}"
    if lacks:
        text += f"; not allowed: {', '.join(lacks)}"
    return EndpointFinding(endpoint=cluster.name, text=text, remedy=ASK if lacks else None)


async def _lacking(cluster: Cluster, space: str, queries: Sequence[Query]) -> list[str]:
    """Return the verbs that we may not use, each with its resource."""
    words = {
        ((query.run.job and query.run.job.id) or "job/").partition("/")[0] for query in queries
    }
    served = [(word, row) for word, row in KINDS.items() if await cluster.serves(row)]
    verbs = ((row, OF_KINDS if word in words else SEEN) for word, row in served)
    wanted = [*((row.group, row.plural, "", each) for row, each in verbs), *VERBS]
    asked = [(verb, *row) for row in wanted for verb in row[3].split()]
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    async def allowed(verb: str, group: str, plural: str, below: str) -> bool:
        about = {"verb": verb, "group": group, "resource": plural, "subresource": below}
        about |= {} if plural == "nodes" else {"namespace": space}
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        found = await cluster.review({**kind, "spec": {"resourceAttributes": about}}, path)
        return part(found, "status.allowed") is True

    answers = await asyncio.gather(*(allowed(*each[:4]) for each in asked))
    return [
        f"{verb} {plural}{f'/{below}' if below else ''}"
        for (verb, _, plural, below, _), may in zip(asked, answers, strict=True)
        if not may
    ]


UID, PATH = "uid", "path"
"""What the handle of a living job holds: its uid, and the path of its API."""
NO_HANDLE: Final = "no object of this cluster: only what stands at the top of its owners is deleted"


class Target(NamedTuple):
    """One object: what people call it, its path and its uid."""

    id: str
    path: str
    uid: str


def target_of(job: LiveJob) -> Target:
    """Return what a job is ended by; raises ``CannotError`` for one that is not ours to end."""
    path, uid = job.handle.get(PATH), job.handle.get(UID)
    if not path or not uid:
        raise CannotError(f"{job.id}: {job.beyond or NO_HANDLE}")
    return Target(job.id, path, uid)


class EndingObjects(EndingJobs):
    """Objects of one namespace that are deleted, each by its uid, after all that they own."""

    slack: ClassVar[float] = 60.0

    def __init__(self, space: Namespace, targets: Sequence[Target]) -> None:
        self._space = space
        self._left = list(targets)
        self._pods: dict[Target, set[str]] = {each: {each.uid} for each in targets}
        """The uids of the pods that each was seen to have: they are waited for once it is gone."""
        self._going: set[Target] = set()

    async def left(self) -> Sequence[str]:
        """Return those that are still there, and the pods that have outlived theirs."""
        try:
            look = await self._space.look()
        except HttpError as error:
            raise LostError(clean(error, 400)) from error
        self._going.clear()
        said = [(target, self._state(target, look)) for target in self._left]
        self._left = [target for target, text in said if text]
        return [text for _, text in said if text]

    def _state(self, target: Target, look: Look) -> str:
        """Return how one lives; nothing once it and its pods are gone, or it is over."""
        word = target.id.partition("/")[0]
        if word in look.errors:
            raise LostError(clean(look.errors[word], 400))
        top = next((top for top in look.tops if top.uid == target.uid), None)
        self._pods[target] |= {_uid(body) for body in look.pods.get(target.uid, ())}
        every = [body for bodies in look.pods.values() for body in bodies]
        pods = [Pod.of(body, None) for body in every if _uid(body) in self._pods[target]]
        pods = [pod for pod in pods if not pod.over]
        state = None if top is None else look.job(top).state
        if not pods and (state is None or state.phase.terminal):
            return ""
        body = top.body if top is not None else pods[0].body
        if (top is None and _uid(body) != target.uid) or body["metadata"].get("deletionTimestamp"):
            self._going.add(target)
        names = ", ".join(clean(pod.name, 80) for pod in pods[:5]) or "none"
        how = "being deleted" if target in self._going else state.word if state else "running"
        return f"{target.id} ({how}; pods: {names})"

    async def tell(self, *, late: bool) -> None:
        """Delete each that is there and not being deleted, what it owns first."""
        for target in self._left:
            if target in self._going:
                continue
            body = {"preconditions": {"uid": target.uid}, "propagationPolicy": "Foreground"}
            try:
                await self._space.cluster.delete(target.path, body)
            except LostError:
                self.told = True
                raise
            except ApiError as error:
                if error.status in CHANGED:
                    continue  # it has gone meanwhile: the next look tells
                raise self.unreached(f"{target.id} was not deleted: {error}") from error
            except CannotError as error:
                raise self.unreached(error) from error
            self.told = True


def _uid(body: Object) -> str:
    return str(body["metadata"]["uid"])


# Asking to save.


async def save(space: Namespace, run: RunSpec, live: LiveJob) -> None:
    """Run ``save_command`` here, or send ``save_signal`` by `kubectl exec` to the first process.

    Both can name the pod of rank 0: of the kinds here `kubectl exec` takes a Job alone.
    Raises ``CannotError`` and ``LostError``.
    """
    job = run.job
    if job is None or not (job.save_command or job.save_signal):
        raise CannotError(NO_WAY)
    look = await space.look()
    own = (look.job(top, run).pods for top in look.tops if top.uid == live.handle.get(UID))
    pod = next((pod for pods in own for pod in pods if pod.runs), None)
    if pod is not None:
        live = live.model_copy(update={"handle": {**live.handle, "pod": pod.name}})
    if job.save_command is None:
        if pod is None:
            raise CannotError(f"{live.id}: no pod of it runs that could be asked to save")
        words = ["kubectl", "exec", pod.name, "-n", await space.cluster.namespace()]
        words += ["--context", job.context] if job.context else []
        words += ["-c", pod.container, "--", "kill", f"-{job.save_signal}", "1"]
        job = job.model_copy(update={"save_command": tuple(words)})
    await save_by_command(HERE_LINK, run.model_copy(update={"job": job}), live)


# Evidence.

MOST: Final = 8
LINES: Final = 1000
"""Lines of the end of a pod's log that are kept."""


async def gather(space: Namespace, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
    """Return the objects, their pods, events and the ends of their logs, by file name.

    Never raises: what could not be had is said in the file.
    """
    cluster, found = space.cluster, dict[str, bytes]()
    try:
        look, base = await space.look(), f"/api/v1/namespaces/{await cluster.namespace()}"
        events = await _listed(cluster, f"{base}/events")
    except HttpError as error:
        return {"kubernetes.txt": _file(missing(error))}
    for number, job in enumerate(jobs[:MOST], 1):
        uid = job.handle.get(UID)
        tops = [top.body for top in look.tops if top.uid == uid]
        own = [Pod.of(body, None) for body in look.pods.get(uid or "", ())]
        names = {part(each, "metadata.name") for each in (*tops, *(pod.body for pod in own))}
        about = [each for each in events if part(each, "involvedObject.name") in names]
        whole = {"object": tops, "pods": [pod.body for pod in own], "events": about}
        found[f"kubernetes-{number}.json"] = _file(as_evidence(whole))
        for pod in own[:MOST]:
            try:
                path = f"{base}/pods/{pod.name}/log"
                log = await cluster.text(path, container=pod.container, tailLines=LINES)
                text = scrub(log.decode("utf-8", "replace"))
            except HttpError as error:
                text = missing(error)
            found[f"kubernetes-{number}-{clean(pod.name, 80)}.log"] = _file(text)
    return found


async def describe(space: Namespace, job_id: str) -> str:
    """Return an object, its pods and their events; raises ``CannotError``, ``HttpError``."""
    look, base = await space.look(), f"/api/v1/namespaces/{await space.cluster.namespace()}"
    events = await _listed(space.cluster, f"{base}/events")
    top = next((each for each in look.tops if each.id == job_id), None)
    if top is None:
        raise CannotError(f"the namespace has no {clean(job_id, 120) or 'job of the run'}")
    pods = [Pod.of(body, None).body for body in look.pods.get(top.uid, ())]
    names = {part(each, "metadata.name") for each in (top.body, *pods)}
    said = [
        f"{each.get('lastTimestamp') or each.get('eventTime') or ''} {each.get('type', '')} "
        f"{each.get('reason', '')} {part(each, 'involvedObject.name')}: {each.get('message', '')}"
        for each in events
        if part(each, "involvedObject.name") in names
    ]
    return "\n".join(outlined(safe_document({"events": said, "object": top.body, "pods": pods})))


async def _listed(cluster: Cluster, path: str) -> list[Object]:
    try:
        return list((await cluster.get(path))["items"])
    except HttpError:
        return []


def _file(text: str) -> bytes:
    return f"{text}\n".encode("utf-8", "replace")


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
        return await ask_each(by_place(runs, self.space_of), self._live, unknown_lives)

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
            started_at=space.cluster.clock.value(job.value()).started_at,
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
            value = space.cluster.clock.value(job.value())
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
        clock = space.cluster.clock
        if job.state.phase is not Phase.WAITING or job.state.word == "Terminating":
            return clock.value(job.value())
        wait = await space.wait(look, job, self._clock.now() + clock.off)
        return clock.value(job.value(wait.text, never=wait.never))

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
