"""Why a job waits, in plain words, and whether it waits for what can never come (C-04). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cockpit.platforms.kubernetes.api import ROLE
from cockpit.platforms.kubernetes.objects import QUEUE, Object, instant, part
from cockpit.platforms.kubernetes.pods import CONTAINERS, Pod, conditions, end_of
from cockpit.platforms.kubernetes.states import Job
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
    nodes: Sequence[Object], now: float,
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
