"""What a namespace holds: a list of each kind, then only what the server says has changed.

Why a job waits, in plain words, and whether it waits for what can never come (C-04). Pure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import RunSpec
from cockpit.platforms.kubernetes.api import ROLE, UNREADABLE, ApiError, Cluster, mapping
from cockpit.platforms.kubernetes.objects import KINDS, QUEUE, Object, ObjectKind, instant, part
from cockpit.platforms.kubernetes.pods import CONTAINERS, Pod, conditions, end_of
from cockpit.platforms.kubernetes.states import Job, Top, by_owner, is_child, owner_of, root_of
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

NEVER_STARTS: Final = {
    "ErrImagePull": "its image cannot be pulled", "ImagePullBackOff": "its image cannot be pulled",
    "InvalidImageName": "its image has no valid name",
    "ErrImageNeverPull": "its image is not on the node",
    "CreateContainerConfigError": "a secret or config map that it names is missing",
    "CreateContainerError": "its container cannot be made",
    "RunContainerError": "its command cannot be run",
    "StartError": "its command cannot be run",
}  # fmt: skip
"""What a container waits for that does not come by itself, by the kubelet's word."""
_PASSES: Final = re.compile(r"deadline exceeded|name .* is reserved")
"""What a busy node says while it makes a container: the kubelet's next attempt may succeed."""
_NODES: Final = (
    (r"Insufficient (\S+)", "lack free {}"),
    (r"(?:node\(s\) )?had untolerated taint\(?s?\)? \{([^}]*?)\s*(?::\s*)?\}", "have the taint {}"),
    (r"(?:node\(s\) )?had taint \{([^}:]*).*\}, that the pod didn't tolerate", "have the taint {}"),
    (r"node\(s\) didn't match (?:P|p)od(?:'s)? (?:node affinity/selector|node affinity.*)",
     "do not fit its node selector"),
    (r"node\(s\) were unschedulable", "are cordoned"),
    (r"node\(s\) had volume node affinity conflict", "cannot reach its volume"),
    (r"node\(s\) didn't match pod (anti-)?affinity.*", "do not fit its pod {}affinity"),
)  # fmt: skip
"""What a scheduler says of a number of nodes, and the same in plain words."""
_UNMET: Final = re.compile(r"^0/(\d+) nodes are available: (.*?)\.?(?: preemption: .*)?$", re.S)
_QUOTA: Final = re.compile(r"requested: (\S+?), used: \S+?, limited: (\S+)")
_REFUSED: Final = re.compile(r"\" is invalid: |failed quota: |(?:maximum|minimum) .* usage per ")
"""What the server says of a pod that it takes as it is at no time: a field, a quota, a range."""
_BEYOND: Final = re.compile(r"> maximum capacity|doesn't exist|is terminating or missing")
_FREED: Final = re.compile(r"unused quota|preempt", re.I)
"""What Kueue says of a workload that no freed quota can help, and of one that one can."""
_SIZES: Final = {"k": 1e3, "Ki": 2**10, "M": 1e6, "Mi": 2**20, "G": 1e9, "Gi": 2**30, "T": 1e12,
    "Ti": 2**40, "m": 1e-3}  # fmt: skip
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]*)")
UNTAKEN: Final = 60.0
"""Seconds after which a controller has said something of an object, or is not there."""
SCALED: Final = 120.0
"""Seconds within which an autoscaler has said something of a pod that no node takes."""
_SCALERS: Final = ("TriggeredScaleUp", "Nominated", "NotTriggerScaleUp")


class Wait(NamedTuple):
    """Why a job waits (one line), and whether it waits for what cannot come."""

    text: str
    never: bool = False


def wait_of(
    job: Job, workloads: Sequence[Object] | None, events: Sequence[Object] | None,
    nodes: Sequence[Object], now: float
) -> Wait:  # fmt: skip
    """Return why a job waits, as far as what was asked for tells; ``now`` by the server's clock.

    ``workloads`` and ``events`` are ``None`` where they could not be read.
    """
    found = [*_of_queue(job, workloads), *_of_pods(job, events, nodes, now)]
    found += () if job.pods else _without_pods(job, events or (), now)
    if job.ended is not None and all(pod.over for pod in job.pods):
        found.append(Wait(f"its controller has not said yet what follows: {job.ended.text}"))
    worst = [each for each in found if each.never] or found
    return worst[0] if worst else Wait("")


def _of_queue(job: Job, workloads: Sequence[Object] | None) -> Iterator[Wait]:
    """Yield what Kueue says of the job's workload: what it did last counts before what it did."""
    queue = (job.top.meta.get("labels") or {}).get(QUEUE)
    if workloads is None and queue and job.top.suspended:
        yield Wait(
            f"it is suspended in Kueue's queue {clean(queue, 80)}; why could not be read: {ROLE}"
        )
    for each in workloads or ():
        owners = each["metadata"].get("ownerReferences") or ()
        if any(owner.get("uid") == job.top.uid for owner in owners):
            yield from _of_workload(each, suspended=job.top.suspended)


def _of_workload(work: Object, *, suspended: bool) -> Iterator[Wait]:
    status = work.get("status") or {}
    held = {each["type"]: each for each in conditions(work)}
    rows = status.get("conditions") or ()
    refused: Object = next((each for each in rows if each.get("type") == "QuotaReserved"), {})
    if part(work, "spec.active") is False:
        why = shown((held.get("Evicted") or {}).get("message") or "nothing says why", 200)
        yield Wait(f"Kueue has deactivated it, until somebody activates it again: {why}", True)
    for word in ("Evicted", "Preempted") if suspended else ():
        if word in held:
            yield Wait(f"Kueue: {word.lower()}, {shown(held[word].get('message'), 200)}")
    for check in status.get("admissionChecks") or ():
        state = clean(check.get("state"), 40)
        if state != "Ready":
            text = f"{state}: {shown(check.get('message') or 'nothing more is told', 200)}"
            name = clean(check.get("name"), 80)
            yield Wait(f"Kueue's admission check {name} is {text}", state == "Rejected")
    if "Admitted" in held and suspended:
        yield Wait("Kueue has admitted it, and it is still suspended: its operator should start it")
    elif refused.get("status") == "False":
        text = str(refused.get("message") or "no quota yet")
        never = bool(_BEYOND.search(text)) and not _FREED.search(text)
        yield Wait(f"Kueue: {shown(text, 300)}", never)
    elif "Admitted" not in held:
        yield Wait("Kueue holds it: its workload is not admitted yet")


def _of_pods(
    job: Job, events: Sequence[Object] | None, nodes: Sequence[Object], now: float
) -> Iterator[Wait]:
    for pod in job.pods:
        if pod.over or pod.runs:
            continue
        yield from _of_containers(pod)
        for each in pod.status.get("conditions") or ():
            if each.get("type") == "PodScheduled" and each.get("status") == "False":
                yield _unscheduled(pod, each, events, nodes, now)
        if not pod.node and not pod.status.get("conditions"):
            yield Wait(f"{pod.name} has no node yet, and no scheduler has said why")
        end = end_of(pod)
        if end is not None:
            yield Wait(f"{end.text}; its kubelet has not said yet what follows")
        elif pod.node:
            told = [each.get("message") for each in events or () if about(each) == pod.uid]
            last = f": {shown(told[-1], 200)}" if told else ""
            yield Wait(f"{pod.name} is being made ready on {clean(pod.node, 80)}{last}")


def about(event: Object) -> str:
    """Return the uid of the object that an event is about."""
    return str((event.get("involvedObject") or {}).get("uid") or "")


def _of_containers(pod: Pod) -> Iterator[Wait]:
    for group in CONTAINERS:
        for each in pod.status.get(group) or ():
            state = (each.get("state") or {}).get("waiting") or {}
            reason, message = str(state.get("reason") or ""), shown(state.get("message") or "", 200)
            if reason in NEVER_STARTS:
                text = f"{NEVER_STARTS[reason]} ({reason}: {message or 'nothing more is told'})"
                passes = reason == "CreateContainerError" and _PASSES.search(message)
                yield Wait(f"{pod.name}: {text}", never=not passes)
            elif reason == "CrashLoopBackOff":
                yield Wait(f"{pod.name} ends again and again (CrashLoopBackOff): {message}")


def _unscheduled(
    pod: Pod,
    condition: Object,
    events: Sequence[Object] | None,
    nodes: Sequence[Object],
    now: float,
) -> Wait:
    text = f"{pod.name} has no node: {plain(str(condition.get('message') or ''))}"
    too_large = _too_large(pod, nodes)
    if not too_large:
        return Wait(text)
    scaler = [each.get("reason") for each in events or () if about(each) == pod.uid]
    told = next((word for word in _SCALERS if word in scaler), None)
    since = instant(condition.get("lastTransitionTime")) or pod.created
    silent = events is not None and told is None  # what may not be read is no silence
    never = told == "NotTriggerScaleUp" or (silent and now - since > SCALED)
    return Wait(f"{text}; {too_large}", never)


def plain(message: str) -> str:
    """Return what a scheduler says of the nodes in plain words; what is not known as it is."""
    found = _UNMET.match(message.strip())
    if found is None:
        return shown(message, 300)
    parts = []
    for each in re.split(r", (?=\d+ )", found[2]):
        count, _, why = each.partition(" ")
        for pattern, words in _NODES:
            match = re.fullmatch(pattern, why)
            if match is not None:
                why = words.format(*(group or "" for group in match.groups()))
                break
        parts.append(f"{count} {why}")
    return shown(f"of {found[1]} nodes {', '.join(parts)}", 300)


def _too_large(pod: Pod, nodes: Sequence[Object]) -> str:
    """Return what no node has so much of as one pod wants; empty where nodes are not told."""
    for name, amount in _requests(pod).items() if nodes else ():
        most = max(quantity(node.get(name)) for node in nodes)
        if amount > most:
            return f"no node has {amount:g} {clean(name, 60)} (the most: {most:g})"
    return ""


def _requests(pod: Pod) -> dict[str, float]:
    found: dict[str, float] = {}
    for container in pod.body["spec"].get("containers") or ():
        wanted = container.get("resources") or {}
        for name, amount in {
            **(wanted.get("limits") or {}),
            **(wanted.get("requests") or {}),
        }.items():
            found[name] = found.get(name, 0.0) + quantity(amount)
    return found


def quantity(text: object) -> float:
    """Return an amount of the API (``500m``, ``16Gi``) as a number; 0 for what is none."""
    match = _QUANTITY.fullmatch(str(text))
    return float(match[1]) * _SIZES.get(match[2], 1.0) if match else 0.0


def _without_pods(job: Job, events: Sequence[Object], now: float) -> Iterator[Wait]:
    for each in reversed(events):
        if each.get("reason") in ("FailedCreate", "FailedCreatePod"):
            text = str(each.get("message") or "")
            yield Wait(f"its pods are refused: {shown(text, 300)}", _never_fits(text))
            return
    if job.top.suspended:
        yield Wait("it is suspended: nobody has let it go yet")
    elif not job.top.body.get("status") and now - job.top.created > UNTAKEN:
        yield Wait(
            f"no controller has taken it up: is the operator for {job.top.row.plural} running?"
        )


def _never_fits(message: str) -> bool:
    """Tell whether a pod is refused for ever; by a quota: one that asks for more than all of it."""
    found = _QUOTA.search(message)
    if found is None:
        return _REFUSED.search(message) is not None
    wanted, limits = (dict(each.split("=", 1) for each in text.split(",") if "=" in each)
        for text in found.groups())  # fmt: skip
    return any(quantity(wanted[name]) > quantity(limits[name]) for name in wanted if name in limits)


KUEUE: Final = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
PAGE: Final = 500
SIZED_FOR: Final = 300.0
"""Seconds for which the sizes of the nodes serve: a large cluster has thousands."""
MISSING_FOR: Final = 300.0
"""Seconds for which a kind that is not installed is not asked for again."""
SEEN_GONE: Final = "cockpit/seen-gone"
"""The key of our own in an object that was deleted: when the answer came that says so."""
GONE: Final = 500
"""Objects of a kind that are remembered as they were when they were deleted."""
_LARGE: Final = ("managedFields",)


class Kept:
    """One list, as the server's own account of its changes keeps it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._version: str | None = None
        self.items: dict[str, Object] = {}
        self.gone: dict[str, Object] = {}
        """By uid, what was deleted while we looked, as it was then."""

    async def refresh(self, cluster: Cluster, now: float) -> None:
        """Bring it up to ``now``; raises ``HttpError``."""
        if self._version is not None:
            try:
                for event in await cluster.changes(self._path, self._version):
                    self._take(str(event.get("type")), event["object"], now)
                return
            except ApiError as error:
                if error.status != 410:
                    raise
        found = await cluster.get(self._path, limit=PAGE)
        self.items = {each["metadata"]["uid"]: _brief(each) for each in found["items"]}
        self._version = found["metadata"]["resourceVersion"]

    def _take(self, word: str, body: Object, at: float) -> None:
        self._version = body["metadata"]["resourceVersion"]
        if word == "BOOKMARK":
            return
        uid = body["metadata"]["uid"]
        if word == "DELETED":
            self.items.pop(uid, None)
            self.gone[uid] = {**_brief(body), SEEN_GONE: at}
            while len(self.gone) > GONE:
                self.gone.pop(next(iter(self.gone)))
        else:
            self.items[uid] = _brief(body)


def _brief(body: Object) -> Object:
    meta = {name: value for name, value in body["metadata"].items() if name not in _LARGE}
    return {**body, "metadata": meta}


class Look(NamedTuple):
    """A namespace at one moment."""

    tops: tuple[Top, ...]
    pods: Mapping[str, Sequence[Object]]
    """By the uid of the object that they are of; under "" those that none has made."""
    gone: tuple[Top, ...]
    left: Mapping[str, Sequence[Object]]
    """The pods of what is gone, as they were when they were deleted."""
    up: Mapping[str, str]
    """The uid of its owner, by that of an object which belongs to one that trains."""
    errors: Mapping[str, HttpError]
    """Why the objects of a kind are not known, by its word (``jobset``)."""

    jobs: dict[tuple[str, str | None], Job]
    """What ``job`` has returned, by uid and container: every run asks for the same ones."""

    def job(self, top: Top, run: RunSpec | None = None) -> Job:
        """Return an object with its pods; a run may say which of their containers trains."""
        wanted = run.job.container if run is not None and run.job is not None else None
        key = (top.uid, wanted)
        if key not in self.jobs:
            pods = self.pods.get(top.uid) or self.left.get(top.uid, ())
            self.jobs[key] = Job.of(top, pods, wanted)
        return self.jobs[key]


class Namespace:
    """One namespace of a cluster; those who ask meanwhile share the next answer."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self.cluster = cluster
        self._clock = clock
        self._kept: dict[str, Kept] = {}
        self._missing: dict[str, float] = {}
        self._asking: asyncio.Task[Look] | None = None
        self._last: Look | None = None
        self._last_at = float("-inf")
        self._told: tuple[Look, Sequence[Object] | None, Sequence[Object] | None] | None = None
        self._sizes: list[Object] = []
        self._sized_at = float("-inf")

    async def look(self, within: float = 0.0) -> Look:
        """Return what is there from now on; raises ``HttpError`` where nothing can be told.

        An answer serves for ``within`` seconds. One that was asked for before is waited for, not
        shared: what has been begun since may be missing in it.
        """
        if self._last is not None and self._clock.monotonic() - self._last_at < within:
            return self._last
        before = self._asking
        if before is not None and not before.done():
            await asyncio.wait([before])
        if self._asking is before:
            self._asking = asyncio.create_task(self._look())
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        assert self._asking is not None
        self._last = await asyncio.shield(self._asking)
        self._last_at = self._clock.monotonic()
        return self._last

    async def _look(self) -> Look:
        try:
            return await self._looked()
        except (AttributeError, KeyError, TypeError, ValueError):
            self._kept.clear()
            text = f"{self.cluster.name}: {UNREADABLE}"
            raise HttpError(ErrorKind.BAD_ANSWER, text) from None

    async def _looked(self) -> Look:
        space = await self.cluster.namespace()
        paths = {word: row.path(space) for word, row in KINDS.items()}
        wanted = {"pods": f"/api/v1/namespaces/{space}/pods"} | {
            word: path
            for word, path in paths.items()
            if self._clock.monotonic() >= self._missing.get(word, 0.0)
        }
        kept = {word: self._kept.setdefault(path, Kept(path)) for word, path in wanted.items()}
        answers = await asyncio.gather(
            *(each.refresh(self.cluster, self._clock.now()) for each in kept.values()),
            return_exceptions=True,
        )
        errors: dict[str, HttpError] = {}
        for word, answer in zip(kept, answers, strict=True):
            if isinstance(answer, HttpError) and word in KINDS and await self._lacks(word, answer):
                self._missing[word] = self._clock.monotonic() + MISSING_FOR
                del self._kept[paths[word]]
            elif isinstance(answer, HttpError):
                errors[word] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self._missing.pop(word, None)
        if "pods" in errors:
            raise errors["pods"]
        there = {word: each for word, each in kept.items()
                 if word in KINDS and word not in {*errors, *self._missing}}  # fmt: skip
        tops = [top for word, each in there.items() for top in _tops(KINDS[word], each.items)]
        gone = [top for word, each in there.items() for top in _tops(KINDS[word], each.gone)]
        bodies = [body for each in there.values() for body in each.items.values()]
        up = {each["metadata"]["uid"]: owner["uid"] for each in bodies
              if is_child(each) and (owner := owner_of(each)) is not None}  # fmt: skip
        left = by_owner(gone, up, kept["pods"].gone.values())
        pods = by_owner(tops, up, kept["pods"].items.values())
        return Look(tuple(tops), pods, tuple(gone), left, up, errors, {})

    async def _lacks(self, word: str, error: HttpError) -> bool:
        """Tell whether a kind that was not listed is not installed."""
        refused = error.kind is ErrorKind.FORBIDDEN
        return error.status == 404 or (refused and not await self.cluster.serves(KINDS[word]))

    async def wait(self, look: Look, job: Job, now: float) -> Wait:
        """Return why a job waits, as far as that may be read; ``now`` by the server's clock."""
        if self._told is None or self._told[0] is not look:
            space = await self.cluster.namespace()
            workloads, events = await asyncio.gather(
                self._items(*(f"/apis/{each}/namespaces/{space}/workloads" for each in KUEUE)),
                self._items(f"/api/v1/namespaces/{space}/events"),
            )
            self._told = look, workloads, events
        _, workloads, events = self._told
        uids = {job.top.uid, *(pod.uid for pod in job.pods)}
        own = [each for each in events or () if root_of(about(each), look.up) in uids]
        unplaced = any(not pod.node and not pod.over for pod in job.pods)
        if unplaced and self._clock.monotonic() - self._sized_at > SIZED_FOR:
            self._sizes = [
                mapping(part(node, "status.allocatable"))
                for node in await self._items("/api/v1/nodes") or ()
            ]
            self._sized_at = self._clock.monotonic()
        return wait_of(job, workloads, None if events is None else own, self._sizes, now)

    async def _items(self, *paths: str) -> Sequence[Object] | None:
        """Return the list of the first path that is there, ``None`` where it cannot be read."""
        for path in paths:
            try:
                found: Sequence[Object] = (await self.cluster.get(path, limit=PAGE))["items"]
                return found
            except HttpError as error:
                if error.status != 404:
                    return None
        return ()


def _tops(row: ObjectKind, bodies: Mapping[str, Object]) -> list[Top]:
    return [Top(row, body) for body in bodies.values() if not is_child(body)]
