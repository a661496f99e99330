"""Jobs of kind ``kubernetes``: objects of a cluster's namespace, over its API (SPEC S-17)."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from cockpit.hosts.notes import number_of
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Live, LiveJob, NamedJob, OwnJob, Query
from cockpit.model.observed import Gpu, HostValue, JobValue, LogValue, Phase
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.alike import Started, program_of
from cockpit.platforms.base import CannotError, EndpointFinding, Platform
from cockpit.platforms.kubernetes.api import STEADY, ApiError, Cluster
from cockpit.platforms.kubernetes.logs import PodLogs
from cockpit.platforms.kubernetes.objects import KINDS, LINEAGE, is_held, part, pod_templates
from cockpit.platforms.kubernetes.states import Job, Top, belongs, conditions, owner_of
from cockpit.platforms.kubernetes.view import Look, Namespace
from cockpit.platforms.kubernetes.waits import quantity
from cockpit.platforms.lineage import Candidate, LineageSign, live_of, told_by, words_of
from cockpit.platforms.local.programs import Use, arguments, use_of
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub, shown

RECENT: Final = 30.0
"""Seconds for which a look serves the logs and the nodes."""
FITS: Final = "its name or labels fit the run file"
VERBS: Final = (
    ("", "pods", "", "list watch"), ("", "pods", "log", "get"), ("", "events", "", "list"),
    ("", "configmaps", "", "get create"), ("kueue.x-k8s.io", "workloads", "", "list"),
    ("", "nodes", "", "get list"),
)  # fmt: skip
"""What is needed beside the kinds of objects: group, resource, part of it, verbs."""
OF_KINDS: Final = "list watch create get patch delete"
Object = Mapping[str, Any]


class KubernetesPlatform(Platform):
    """Jobs of one or many clusters."""

    kind: ClassVar[str] = "kubernetes"
    log_needs_job: ClassVar[bool] = True
    forgets: ClassVar[bool] = True

    def __init__(self, clock: Clock, logs: Logs) -> None:
        super().__init__(clock, logs)
        self._spaces: dict[tuple[str | None, str | None], Namespace] = {}
        self._looks: dict[Namespace, tuple[float, Look]] = {}
        self._pod_logs = PodLogs(clock, logs)

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
        found: dict[str, Live] = {}
        for space, queries in self._grouped([Query(run=run) for run in runs]).items():
            own = [query.run for query in queries]
            try:
                found |= lives(await self._look(space), own)
            except HttpError as error:
                found |= {run.name: Live(unknown=clean(error, 400)) for run in own}
        return found

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return the jobs of the namespace, living ones first; raises ``CannotError``."""
        try:
            look = await self._look(self._space(job))
        except HttpError as error:
            raise CannotError(clean(error, 400)) from None
        jobs = [look.job(top, None) for top in look.tops]
        jobs.sort(key=lambda each: (not each.state.phase.lives, -each.top.created))
        return [_own_job(each) for each in jobs]

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the namespace has under an id as ``jobset/llama``."""
        assert run.job is not None
        try:
            look = await self._look(self._space(run.job))
        except HttpError as error:
            return NamedJob(id=job_id, text=clean(error, 400))
        top = _by_id(look.tops, job_id)
        if top is None:
            text = f"the namespace has no {clean(job_id, 120)}"
            return NamedJob(id=job_id, text=text, lives=None if look.errors else False)
        job, (start, told, _) = look.job(top, None), _started(top.body)
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
        groups = self._grouped([Query(run=run) for run in runs])
        return await asyncio.gather(
            *(_finding(space.cluster, own) for space, own in groups.items())
        )

    def _space(self, job: JobSpec) -> Namespace:
        key = (job.context, job.namespace)
        if key not in self._spaces:
            self._spaces[key] = Namespace(Cluster.of(job, self._clock), self._clock)
        return self._spaces[key]

    def _grouped(self, queries: Iterable[Query]) -> dict[Namespace, list[Query]]:
        groups: dict[Namespace, list[Query]] = {}
        for query in queries:
            assert query.run.job is not None
            groups.setdefault(self._space(query.run.job), []).append(query)
        return groups

    async def _each(self, queries: Sequence[Query], ask: Any) -> dict[str, Facet[Any]]:  # noqa: ANN401 - one of three readers
        """Return what is read of each namespace; what goes wrong there is wrong for all its runs."""

        async def one(space: Namespace, own: list[Query]) -> dict[str, Facet[Any]]:
            try:
                found: dict[str, Facet[Any]] = await ask(space, own)
                return found
            except HttpError as error:
                name, now = space.cluster.name, self._clock.now()
                facet: Facet[Any] = unknown(error.kind, clean(error, 400), name, now)
                facet = facet.model_copy(update={"retry_after": error.retry_in})
                return {query.name: facet for query in own}

        asked = (one(space, own) for space, own in self._grouped(queries).items())
        return {
            name: facet for each in await asyncio.gather(*asked) for name, facet in each.items()
        }

    async def _look(self, space: Namespace, within: float = 0.0) -> Look:
        at, look = self._looks.get(space, (float("-inf"), None))
        if look is None or self._clock.monotonic() - at > within:
            look = await space.look()
            self._looks[space] = (self._clock.monotonic(), look)
        return look

    async def _jobs(self, space: Namespace, queries: list[Query]) -> dict[str, Facet[JobValue]]:
        look = await self._look(space)
        rivals = lives(look, [query.run for query in queries])
        found = {}
        for query in queries:
            found[query.name] = await self._job(space, look, query, rivals[query.name])
        return found

    async def _job(self, space: Namespace, look: Look, query: Query, live: Live) -> Facet[JobValue]:
        run, name, now = query.run, space.cluster.name, self._clock.now()
        top = current_of(run, look)
        gone = None if top is not None else _by_id(look.gone, run.job.id if run.job else None)
        if gone is not None:
            job, source = look.job(gone, _container(run)), f"{name}, as it was when it was deleted"
            value = job.value(space.cluster.steady_skew)
            if not value.phase.terminal:
                ended = {"phase": Phase.CANCELLED, "state": "Deleted", "ended_at": now}
                value = value.model_copy(
                    update={**ended, "reason": "it was deleted before its end"}
                )
        elif top is None and query.over is not None:
            value, source = query.over, f"{name}, as it was seen to end; it is not there any more"
        elif top is None:
            return self._missing(space, look, query, now)
        else:
            value, source = await self._value(space, look.job(top, _container(run))), name
        others = tuple(each for each in live.jobs if each.id != value.id)
        possible = tuple(each for each in live.possible if each.id != value.id)
        update = {"rivals": others, "possible": possible, "held": live.held}
        if others or possible:
            update["rivals_source"] = f"the objects of {name}"
        return known(value.model_copy(update=update), source, now)

    async def _value(self, space: Namespace, job: Job) -> JobValue:
        skew = space.cluster.steady_skew
        if job.state.phase is not Phase.WAITING or job.state.word == "Terminating":
            return job.value(skew)
        wait = await space.wait(job, self._clock.now() + skew)
        return job.value(skew, wait.text, never=wait.never)

    def _missing(self, space: Namespace, look: Look, query: Query, now: float) -> Facet[JobValue]:
        recorded = query.run.job.id if query.run.job else None
        name = space.cluster.name
        word = (recorded or "").partition("/")[0]
        if word in look.errors:
            raise look.errors[word]
        if recorded is None:
            text = f"{name} has no job of a launch of {clean(query.name, 80)}: set job.name or launch it"
        elif word not in KINDS:
            text = f"job.name: {clean(word, 60)} is no kind that is known; known are {', '.join(KINDS)}"
        else:
            others = [
                each.id for each in look.tops if each.id.endswith(f"/{recorded[len(word) + 1 :]}")
            ]
            hint = f"; there is {others[0]}" if others else ""
            text = (
                f"{name} has no {clean(recorded, 120)}{hint}: that is unknown, not finished. It was "
                "deleted, or removed some time after its end (ttlSecondsAfterFinished)"
            )
        return unknown(ErrorKind.NOT_FOUND, text, name, now)

    async def _read_logs(
        self, space: Namespace, queries: list[Query]
    ) -> dict[str, Facet[LogValue]]:
        jobs = await self._current(space, queries)
        return await self._pod_logs.observe(space.cluster, queries, jobs)

    async def _current(self, space: Namespace, queries: list[Query]) -> dict[str, Job | None]:
        look = await self._look(space, RECENT)
        tops = {query.name: current_of(query.run, look) for query in queries}
        return {
            query.name: None if (top := tops[query.name]) is None
            else look.job(top, _container(query.run))
            for query in queries
        }  # fmt: skip

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


def _container(run: RunSpec) -> str | None:
    return run.job.container if run.job is not None else None


def _by_id(tops: Iterable[Top], job_id: str | None) -> Top | None:
    found = (top for top in tops if top.id == job_id)
    return max(found, key=lambda top: top.created, default=None)


def current_of(run: RunSpec, look: Look) -> Top | None:
    """Return the run's current object: the recorded one, else the newest that is its own.

    A launch that is newer than the recorded one, which is over or gone, goes before it: a cockpit
    that was killed between a start and its records leaves the old one recorded.
    """
    tops = [top for top in look.tops if not is_held(top.row, top.body)]
    launches = [(number, top) for top in tops if (number := _number(run, top)) is not None]
    newest = max(launches, key=lambda each: each[0], default=(0, None))[1]
    job = run.job
    fits = [top for top in tops if job and _fits(job, top) and _number(run, top) != 0]
    matched = max(fits, key=lambda top: top.created, default=None)
    newest = max(filter(None, (newest, matched)), key=lambda top: top.created, default=None)
    named = _by_id(tops, job.id if job else None)
    if named is None:
        recorded = number_of(run.name, (job.id or "").partition("/")[2]) if job else None
        later = newest and (_number(run, newest) or 0) >= (recorded or 0)
        return newest if later and (job is None or job.id is None or recorded is not None) else None
    over = not look.job(named, None).state.phase.lives
    newer = newest is not None and newest.created > named.created
    return newest if newer and (over or matched is newest) else named


def _number(run: RunSpec, top: Top) -> int | None:
    return number_of(run.name, top.launch_id) if top.launch_id else None


def _fits(job: JobSpec, top: Top) -> bool:
    pairs = [
        each.strip().partition("=") for each in (job.selector or "").split(",") if each.strip()
    ]
    by_labels = bool(pairs) and all(top.labels.get(key) == value for key, _, value in pairs)
    return by_labels or (
        job.match is not None and fnmatch.fnmatchcase(str(top.meta["name"]), job.match)
    )


def _started(body: Object) -> tuple[Started, tuple[tuple[str, str], ...], str]:
    """Return what an object starts: its program, its arguments and its lineage."""
    words: list[str] = words_of(str(part(body, "spec.entrypoint") or ""))
    env: dict[str, str] = {}
    containers = [part(body, "spec.trainer") or {}]
    templates = [body] if "containers" in body.get("spec", {}) else pod_templates(body.get("spec"))
    containers += [each for one in templates for each in one["spec"]["containers"]]
    for each in containers:
        for word in (*(each.get("command") or ()), *(each.get("args") or ())):
            words += words_of(str(word)) if " " in str(word) else [str(word)]
        env |= {one["name"]: str(one["value"]) for one in each.get("env") or () if one.get("value")}
    program, args = program_of(words)
    meta = body["metadata"]
    tag = (meta.get("annotations") or {}).get(LINEAGE) or env.get("COCKPIT_LINEAGE") or ""
    return Started(program, args, name=meta["name"], variables=env), told_by(words), tag


def _candidate(body: Object, job_id: str, path: str, launch_id: str | None = None) -> Candidate:
    start, told, tag = _started(body)
    owner, meta = owner_of(body), body["metadata"]
    beyond = None
    if owner is not None:
        what = f"{clean(owner.get('kind'), 60)} {clean(owner.get('name'), 120)}"
        beyond = f"its owner, the {what}, would make it again: stop that"
    job = LiveJob(
        id=job_id,
        name=clean(scrub(" ".join((start.program, *start.args))), 120) or job_id,
        why="",
        launch_id=launch_id,
        beyond=beyond,
        handle={} if beyond else {"path": path, "uid": str(meta["uid"])},
    )
    return Candidate(job, (job_id,), told, start, tag)


def lives(look: Look, runs: Sequence[RunSpec]) -> dict[str, Live]:
    """Return what lives of each run's lineage: objects, and pods that no known object has made."""
    found: dict[str, Live] = {}
    jobs = [look.job(top, None) for top in look.tops]
    living = [job for job in jobs if not job.state.phase.terminal]
    held = {job.top.uid for job in living if is_held(job.top.row, job.top.body) and not job.pods}
    candidates = [_of_top(job.top) for job in living if job.top.uid not in held]
    candidates += [_of_top(job.top) for job in jobs if job.state.phase.terminal and _busy(job)]
    for body in look.pods:
        if (body.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        if not any(belongs(body, top) for top in look.tops):
            meta = body["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            candidates.append(_candidate(body, f"pod/{meta['name']}", path))
    mine = {run.name: current_of(run, look) for run in runs}
    for run in runs:
        own = mine[run.name]
        others = {top.id for name, top in mine.items() if top is not None and name != run.name}
        live = live_of(run, candidates, own and _started(own.body)[0], others)
        if own is not None and all(each.id != own.id for each in live.jobs):
            there = next((each for each in candidates if own.id in each.names), None)
            if there is not None:
                left = tuple(each for each in live.possible if each.id != own.id)
                jobs_now = (there.live(run, LineageSign(FITS)), *live.jobs)
                live = live.model_copy(update={"jobs": jobs_now, "possible": left})
        waiting = [job.top for job in living if job.top.uid in held]
        kept = tuple(
            _of_top(top).live(run, LineageSign("accepted, and never let go"))
            for top in waiting
            if _number(run, top) is not None
        )
        wrong = "; ".join(clean(error, 200) for error in look.errors.values())
        found[run.name] = live.model_copy(update={"held": kept, "unknown": wrong or None})
    return found


def _busy(job: Job) -> bool:
    """Tell whether a job that is over still has pods that write: they end, or were left behind."""
    return any(pod.runs for pod in job.pods) and "ray.io" not in job.top.row.group


def _of_top(top: Top) -> Candidate:
    space = str(top.meta["namespace"])
    path = top.row.path(space, str(top.meta["name"]))
    return _candidate(top.body, top.id, path, top.launch_id)


def _own_job(job: Job) -> OwnJob:
    start, told, _ = _started(job.top.body)
    settings = {"job.name": job.top.id, "job.namespace": str(job.top.meta["namespace"])}
    variables = (("WANDB_RUN_ID", "wandb.id"), ("WANDB_PROJECT", "wandb.project"),
        ("WANDB_ENTITY", "wandb.entity"))  # fmt: skip
    for variable, key in variables:
        if start.variables.get(variable):
            settings[key] = clean(start.variables[variable], 200)
    for key, value in (*told, *arguments(["", *start.args])):
        if (value.startswith("/") or "://" in value) and use_of(key) is Use.WRITES:
            settings.setdefault("output_root", clean(value, 500))
    text = f"{job.state.word}: {shown(' '.join((start.program, *start.args)), 120)}"
    return OwnJob(id=job.top.id, name=str(job.top.meta["name"]), text=text, settings=settings)


def host_of(node: Object) -> HostValue:
    """Return a node's health: whether anything is started there, and its accelerators."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    wrong = [
        f"{each['type']}: {shown(each.get('message'), 160)}"
        for each in conditions(node)
        if each["type"] != "Ready" and "Pressure" in each["type"] or "Unavailable" in each["type"]
    ]
    ready = next((each for each in status.get("conditions") or () if each["type"] == "Ready"), {})
    if ready.get("status") not in ("True", None):
        wrong.insert(0, f"not ready: {shown(ready.get('message'), 160)}")
    if spec.get("unschedulable"):
        taints = [
            clean(each.get("value"), 80) for each in spec.get("taints") or () if each.get("value")
        ]
        wrong.append("cordoned" + (f" ({', '.join(taints)})" if taints else ""))
    names = [name for name in status.get("capacity") or {} if name.startswith("nvidia.com/gpu")]
    product = (node["metadata"].get("labels") or {}).get("nvidia.com/gpu.product") or "GPU"
    usable = sum(int(quantity((status.get("allocatable") or {}).get(name))) for name in names)
    there = sum(int(quantity(status["capacity"][name])) for name in names)
    return HostValue(
        out_of_service="; ".join(wrong) or None,
        gpus=tuple(Gpu(index=number, name=clean(product, 80)) for number in range(usable)),
        gpus_lost=there - usable if there else None,
    )


async def _finding(cluster: Cluster, queries: Sequence[Query]) -> EndpointFinding:
    """Return whether a cluster answers for its runs, and which verbs our role lacks."""
    names = ", ".join(query.name for query in queries[:5])
    try:
        version = clean((await cluster.get("/version")).get("gitVersion"), 40)
        space = await cluster.namespace()
        lacks = await _lacking(cluster, space, queries)
    except HttpError as error:
        return EndpointFinding(endpoint=cluster.name, text=f"{clean(error, 400)} ({names})",
            remedy="check the context with kubectl; docs/kubernetes.md says what is read")  # fmt: skip
    text = f"Kubernetes {version}, namespace {space}; for {names}"
    if abs(cluster.skew) > STEADY:
        way = "ahead of" if cluster.skew > 0 else "behind"
        text += f"; its clock is {abs(cluster.skew):.0f} s {way} ours"
    if lacks:
        return EndpointFinding(endpoint=cluster.name, text=f"{text}; not allowed: {', '.join(lacks)}",
            remedy="ask for the role in docs/kubernetes.md")  # fmt: skip
    return EndpointFinding(endpoint=cluster.name, text=text)


async def _lacking(cluster: Cluster, space: str, queries: Sequence[Query]) -> list[str]:
    """Return the verbs that we may not use, each with its resource."""
    words = {(query.run.job and query.run.job.id or "job/").partition("/")[0] for query in queries}
    rows = [KINDS[word] for word in sorted(words) if word in KINDS]
    wanted = [*((row.group, row.plural, "", OF_KINDS) for row in rows), *VERBS]
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
