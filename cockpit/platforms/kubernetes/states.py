"""What objects and their pods tell of a job: phase, end, restarts (SPEC J). Pure.

The conditions of the object say how it ended; whether it runs its pods say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.observed import JobValue, Phase, Tasks
from cockpit.platforms.kubernetes.objects import (
    LAUNCH_LABEL,
    Object,
    ObjectKind,
    id_of,
    instant,
    kind_of,
    part,
    pod_templates,
)
from cockpit.platforms.kubernetes.pods import ROLES, End, Pod, conditions, end_of
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

ENDS: Final = {
    "OOMKilled", "Evicted", "DeadlineExceeded", "Preempted", "Preempting", "NodeLost",
    "NodeShutdown", "PreemptionByScheduler", "DeletionByTaintManager", "TerminationByKubelet",
}  # fmt: skip
"""Reasons of a pod's end that say more than that of its object: they are the job's state."""
DELETED: Final = "it was deleted before its end"
LONGEST: Final = 300
DEEPEST: Final = 16
"""Owners above one another; a TrainJob has three."""


class Top(NamedTuple):
    """An object that trains and belongs to no other such object."""

    row: ObjectKind
    body: Object

    @property
    def meta(self) -> Object:
        """Its metadata."""
        found: Object = self.body["metadata"]
        return found

    @property
    def id(self) -> str:
        """Its id, such as ``jobset/llama``."""
        return id_of(self.row, str(self.meta["name"]))

    @property
    def uid(self) -> str:
        """What tells it from another one of its name."""
        return str(self.meta["uid"])

    @property
    def launch_id(self) -> str | None:
        """The launch id that a cockpit has given it, of whatever run."""
        return (self.meta.get("annotations") or {}).get(LAUNCH_LABEL)

    @property
    def created(self) -> float:
        """When it was created, by the server's clock."""
        return instant(self.meta.get("creationTimestamp")) or 0.0

    @property
    def suspended(self) -> bool:
        """Whether somebody, or Kueue, keeps it from running."""
        spec = self.body.get("spec")
        return any(part(spec, path) == value for path, value in self.row.holds)


class State(NamedTuple):
    """What an object says of itself: its own word, the phase, why, and since when."""

    word: str
    phase: Phase
    reason: str = ""
    at: float | None = None


def said(reason: object, message: object) -> str:
    """Return a reason and its message as one line."""
    return ": ".join(filter(None, (clean(reason, 80), shown(message or "", LONGEST))))


def _by_condition(ends: Mapping[str, Phase]) -> Callable[[Top], State | None]:
    def state_of(top: Top) -> State | None:
        for each in conditions(top.body):
            phase = ends.get(str(each.get("type")))
            if phase is not None:
                why = said(each.get("reason"), each.get("message"))
                return State(each["type"], phase, why, instant(each.get("lastTransitionTime")))
        return None

    return state_of


_RAY: Final = {
    "SUCCEEDED": Phase.SUCCEEDED, "FAILED": Phase.FAILED, "STOPPED": Phase.CANCELLED,
}  # fmt: skip


def _ray_state(top: Top) -> State | None:
    """Return what KubeRay says: its own word first, since it leaves Ray's as it was last seen."""
    status = top.body.get("status") or {}
    word, job = str(status.get("jobDeploymentStatus") or ""), str(status.get("jobStatus") or "")
    why, at = said(status.get("reason"), status.get("message")), instant(status.get("endTime"))
    if word in ("Complete", "Failed") and job in _RAY:
        return State(job, _RAY[job], why, at)
    if word == "ValidationFailed":
        return State(word, Phase.FAILED, why, at)
    if word in ("Complete", "Failed"):
        return State(word, Phase.UNKNOWN, f"KubeRay has given it up ({why or word})", at)
    if word == "Running" and job == "RUNNING":
        return None  # the pods tell
    if word == "Running" and job in _RAY:
        return State(job, Phase.UNKNOWN, f"Ray says {job}; KubeRay has not said yet what follows")
    return State(word or "New", Phase.WAITING, f"KubeRay: {word or 'nothing yet'}, Ray: {job}")


class Reading(NamedTuple):
    """How a kind of object is read: what ends it, and which label its pods carry with which name.

    ``state`` returns ``None`` where only the pods can tell.
    """

    state: Callable[[Top], State | None]
    pods: tuple[tuple[str, str], ...]

    def names(self, top: Top) -> Iterator[tuple[str, object]]:
        """Yield the labels, with their values, that its pods have."""
        return ((label, part(top.body, path)) for label, path in self.pods)


_OVER: Final = {"Failed": Phase.FAILED, "Succeeded": Phase.SUCCEEDED, "Complete": Phase.SUCCEEDED}
READINGS: Final[Mapping[str, Reading]] = {
    "Job": Reading(
        _by_condition({**_OVER, "SuccessCriteriaMet": Phase.SUCCEEDED}),
        (("job-name", "metadata.name"),),
    ),
    "JobSet": Reading(
        _by_condition({**_OVER, "Completed": Phase.SUCCEEDED}),
        (("jobset.sigs.k8s.io/jobset-name", "metadata.name"),),
    ),
    "TrainJob": Reading(
        _by_condition(_OVER), (("jobset.sigs.k8s.io/jobset-name", "metadata.name"),)
    ),
    "PyTorchJob": Reading(
        _by_condition(_OVER), (("training.kubeflow.org/job-name", "metadata.name"),)
    ),
    "RayJob": Reading(
        _ray_state, (("job-name", "metadata.name"), ("ray.io/cluster", "status.rayClusterName"))
    ),
}


def owner_of(body: Object) -> Object | None:
    """Return the reference to the object that controls another."""
    owners = body["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), None)


def is_child(body: Object) -> bool:
    """Tell whether an object belongs to one that trains."""
    owner = owner_of(body)
    return owner is not None and kind_of(owner) is not None


class Job(NamedTuple):
    """A job with its pods: those of now by rank, and those of attempts before."""

    top: Top
    pods: tuple[Pod, ...]
    former: tuple[Pod, ...] = ()

    @classmethod
    def of(cls, top: Top, bodies: Sequence[Object], wanted: str | None) -> Job:
        """Return a job with its pods, which may be those of several attempts."""
        templates = pod_templates(top.body.get("spec"))
        named = [each.get("name") for one in templates for each in one["spec"]["containers"]]
        own = [Pod.of(body, wanted, named) for body in bodies]
        own.sort(key=lambda pod: pod.created, reverse=True)
        direct = part(top.body, "spec.template") is not None
        once = (part(top.body, f"spec.{word}") for word in ("parallelism", "completions"))
        alone = direct and all(count in (None, 1) for count in once)
        newest: dict[tuple[str, ...], Pod] = {}
        for pod in own:
            newest.setdefault(pod.slot(alone), pod)
        kept = {pod.name for pod in newest.values()}
        pods = sorted(newest.values(), key=lambda pod: pod.rank)
        return cls(top, tuple(pods), tuple(pod for pod in own if pod.name not in kept))

    @property
    def state(self) -> State:
        """What the object says of itself, and where it says nothing its pods."""
        told = READINGS[self.top.row.kind].state(self.top)
        runs = any(pod.runs for pod in self.pods)
        if told is not None and self._deleted_before(told):
            return State("Deleted", Phase.CANCELLED, DELETED, told.at)
        if told is not None and told.phase is Phase.UNKNOWN:
            return self._given_up(told)
        if told is not None and told.phase is not Phase.WAITING:
            return told
        if self.top.meta.get("deletionTimestamp"):
            phase = Phase.RUNNING if runs else Phase.WAITING
            return State("Terminating", phase, "it is being deleted")
        return self._alive(told, runs=runs)

    def _deleted_before(self, told: State) -> bool:
        """Tell whether it failed because its deletion had ended its pods.

        The API knows whole seconds: in one second the deletion came first, unless it was due then.
        """
        deleted = instant(self.top.meta.get("deletionTimestamp"))
        if deleted is None or told.phase is not Phase.FAILED or told.at is None:
            return False
        due = part(self.top.body, "spec.ttlSecondsAfterFinished") is not None
        return told.at > deleted or (told.at == deleted and not due)

    def _given_up(self, told: State) -> State:
        """Return the state of one that its operator has left alone: it may run all the same."""
        there = next((pod for pod in self.pods if pod.runs or pod.lost), None)
        if there is None:
            return told._replace(phase=Phase.FAILED)
        still = f"its pod {there.name} still runs, its trainer may too"
        return told._replace(reason=f"{told.reason}; {still}")

    def _alive(self, told: State | None, *, runs: bool) -> State:
        lost = next((pod for pod in self.pods if pod.lost), None)
        stale = self._stale_head()
        if self.top.suspended and not runs:
            return State("Suspended", Phase.WAITING)
        if lost is not None and not runs:
            text = f"node {clean(lost.node, 80)} does not answer: nobody knows whether it runs"
            return State("NodeLost", Phase.UNKNOWN, text)
        if told is None and stale:
            return State("Running", Phase.UNKNOWN, stale)
        ended = next((pod for pod in self.pods if pod.left), None)
        if told is None and ended is not None and not runs:
            end = end_of(ended)
            text = f"{end.text if end else ended.name}; its pod goes on with {ended.left}"
            return State("Running", Phase.UNKNOWN, text)
        alive = State("Running", Phase.RUNNING) if runs else State("Pending", Phase.WAITING)
        return told or alive

    def _stale_head(self) -> str:
        """Return that a Ray head began after its job: the job went with the head before it."""
        begun = instant(part(self.top.body, "status.rayJobInfo.startTime"))
        for pod in self.pods if begun else ():
            if pod.rank[0] == ROLES["head"] and begun and (pod.since or 0.0) > begun + 1.0:
                return (
                    f"its Ray head {pod.name} began anew after the job, which may be gone with it"
                )
        return ""

    @property
    def restarts(self) -> int:
        """How often the job has begun again, as far as its objects still tell."""
        status = self.top.body.get("status") or {}
        inside = max((pod.restarts for pod in self.pods), default=0)
        by_operator = int(status.get("restarts") or 0)
        if self.top.row.kind == "RayJob":
            failed = status.get("jobDeploymentStatus") == "Failed"  # the last one is no restart
            by_operator = max(0, int(status.get("failed") or 0) - failed)
        return inside + (by_operator or len(self.former) // max(1, len(self.pods)))

    @property
    def ended(self) -> End | None:
        """How that pod of the last attempt ended which failed first: others may have followed."""
        found = (end_of(pod) for pod in self.pods)
        bad = [each for each in found if each is not None and (each.code or each.reason)]
        return min(bad, key=lambda end: end.at, default=None)

    @property
    def before(self) -> End | None:
        """How the attempt before this one ended."""
        inside = (end_of(pod, former=True) for pod in self.pods)
        ends = [*inside, *(end_of(pod) for pod in self.former)]
        return max(filter(None, ends), key=lambda end: end.at, default=None)

    def value(self, wait: str = "", *, never: bool = False) -> JobValue:
        """Return the job's value, by the server's clock; ``wait`` is why it waits.

        Of an object that is gone the last state counts that was seen of it.
        """
        state, first = self.state, self.pods[0] if self.pods else None
        waiting, over = state.phase is Phase.WAITING, state.phase.terminal
        end = self.ended if state.phase is Phase.FAILED else None
        if state.reason.startswith("DeadlineExceeded") and end and end.at < self._decided:
            end = None  # an attempt before failed; this one was ended by the clock
        begun = [pod.since for pod in self.pods if pod.since is not None]
        word = end.reason if end is not None and end.reason in ENDS else state.word
        reasons = [wait or state.reason]
        reasons += [end.text] if end is not None else []
        if self.restarts and not over and self.before is not None:
            reasons.append(f"restarts: {self.restarts}, the attempt before: {self.before.text}")
        lost = [pod for pod in self.pods if pod.lost]
        halted = [pod for pod in self.pods if not (pod.runs or pod.over or pod.lost)]
        for pods, what in ((halted, "do not run"), (lost, "are on a node that does not answer")):
            if state.phase is Phase.RUNNING and pods:
                reasons.append(f"{len(pods)} of {len(self.pods)} pods {what}: {pods[0].name}")
        if state.phase is Phase.RUNNING and self._wanted > len(self.pods):
            reasons.append(f"only {len(self.pods)} of {self._wanted} pods are there")

        holds = [pod.accelerators for pod in self.pods if not pod.over and pod.node]
        return JobValue(
            id=self.top.id,
            state=clean(word, 80),
            phase=state.phase,
            tasks=self._tasks() if self.pods else None,
            reason=clean("; ".join(filter(None, reasons)), 600) or None,
            exit_code=0 if state.phase is Phase.SUCCEEDED else end.code if end else None,
            pending_since=self._pending_since() if waiting else None,
            started_at=min(begun, default=None) if not waiting else None,
            ended_at=state.at if over else None,
            restarts=self.restarts,
            accelerators=sum(holds) or None,
            launch_id=self.top.launch_id,
            children=tuple(pod.name for pod in self.pods),
            never=never and waiting,
            node=None if first is None else first.node,
            ends_by=self._ends_by(begun),
            preempted_at=self._preempted_at() if not over else None,
        )

    def _tasks(self) -> Tasks:
        running, over = sum(pod.runs for pod in self.pods), sum(pod.over for pod in self.pods)
        return Tasks(running=running, total=max(len(self.pods), self._wanted), over=over)

    @property
    def _decided(self) -> float:
        """When its controller gave it up; newer ones wait for its pods before they say Failed."""
        rows = conditions(self.top.body)
        words = ("FailureTarget", "Failed")
        times = [instant(each.get("lastTransitionTime")) for each in rows if each["type"] in words]
        return min(filter(None, times), default=0.0)

    @property
    def _wanted(self) -> int:
        """How many pods a Job asks for at a time; 0 for other kinds, and once it is over."""
        spec = self.top.body.get("spec") or {}
        row, wanted = self.top.row, spec.get("parallelism")
        if row.kind != "Job" or wanted is None or READINGS[row.kind].state(self.top) is not None:
            return 0
        return min(int(wanted), int(spec.get("completions") or wanted))

    def _pending_since(self) -> float:
        resumed = (
            instant(each.get("lastTransitionTime"))
            for each in (self.top.body.get("status") or {}).get("conditions") or ()
            if each.get("type") == "Suspended"
        )
        again = [pod.created for pod in self.pods] if self.restarts else []
        again += [self.before.at] if self.before is not None else []
        return max([self.top.created, *filter(None, resumed), *again])

    def _ends_by(self, begun: Sequence[float]) -> float | None:
        spec = self.top.body.get("spec") or {}
        limit = part(spec, "activeDeadlineSeconds") or part(spec, "runPolicy.activeDeadlineSeconds")
        start = instant(part(self.top.body, "status.startTime")) or min(begun, default=None)
        return start + limit if isinstance(limit, int) and start is not None else None

    def _preempted_at(self) -> float | None:
        """Return when a pod that still runs was told to make room."""
        for pod in self.pods:
            for each in conditions(pod.body) if pod.runs else ():
                if each.get("type") == "DisruptionTarget":
                    return instant(each.get("lastTransitionTime"))
        return None


def root_of(uid: str, up: Mapping[str, str]) -> str:
    """Return the uid of the object at the top; ``up`` has the owner of each below it."""
    for _ in range(DEEPEST):  # anybody may write owners that go in a circle
        if uid not in up:
            break
        uid = up[uid]
    return uid


def by_owner(
    tops: Sequence[Top], up: Mapping[str, str], pods: Iterable[Object]
) -> dict[str, list[Object]]:
    """Return the pods of each object, by its uid; those that no object of ours has made under "".

    The owners tell (``up``: by uid). One between them of a kind that is not listed, such as a
    RayCluster, is passed by the labels: then a pod may not be older than its object.
    """
    named: dict[tuple[str, object], Top] = {}
    for top in sorted(tops, key=lambda each: each.created):
        launched = (LAUNCH_LABEL, (top.meta.get("labels") or {}).get(LAUNCH_LABEL))
        for label, value in (launched, *READINGS[top.row.kind].names(top)):
            named[label, value] = top
    found: dict[str, list[Object]] = {uid: [] for uid in ("", *(top.uid for top in tops))}
    for pod in pods:
        uid = root_of((owner_of(pod) or {}).get("uid", ""), up)
        if uid not in found:
            labels = pod["metadata"].get("labels") or {}
            by_label = (named[each] for each in labels.items() if each in named)
            made = instant(pod["metadata"].get("creationTimestamp")) or 0.0
            uid = next((top.uid for top in by_label if top.created <= made), "")
        found[uid].append(pod)
    return found
