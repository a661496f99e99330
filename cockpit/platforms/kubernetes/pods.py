"""A pod of a job: its container that trains, whether that runs, how it ended, its rank. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cockpit.platforms.kubernetes.objects import Object, instant, part
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

ACCELERATORS: Final = ("nvidia.com/", "amd.com/gpu", "google.com/tpu", "aws.amazon.com/neuron",
    "habana.ai/gaudi", "gpu.intel.com/")  # fmt: skip
"""How the names of resources begin that are accelerators."""
CONTAINERS: Final = ("initContainerStatuses", "containerStatuses")
ROLES: Final = {"submitter": 0, "master": 0, "launcher": 0, "trainer": 1, "head": 1, "worker": 2,
    "dataset-initializer": 9, "model-initializer": 9}  # fmt: skip
"""Whose log is read first, of the roles that operators give to pods."""
_ROLE_LABELS: Final = (
    "trainer.kubeflow.org/trainjob-ancestor-step", "training.kubeflow.org/replica-type",
    "ray.io/node-type", "jobset.sigs.k8s.io/replicatedjob-name",
)  # fmt: skip
_GROUP_LABELS: Final = (
    "jobset.sigs.k8s.io/job-global-index", "jobset.sigs.k8s.io/job-index",
)  # fmt: skip
_INDEX_LABELS: Final = (
    "batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index",
)  # fmt: skip


def conditions(body: Object) -> Iterator[Object]:
    """Yield the conditions of an object that hold."""
    found = (body.get("status") or {}).get("conditions") or ()
    return (each for each in found if each.get("status") == "True")


class Pod(NamedTuple):
    """One pod, and the container of it that trains."""

    body: Object
    container: str

    @classmethod
    def of(cls, body: Object, wanted: str | None, own: Sequence[str] = ()) -> Pod:
        """Return a pod with its container: the wanted one, else its default, else the first.

        ``own`` are those that its object names: a webhook may have put another before them.
        """
        names = [each.get("name") for each in body["spec"].get("containers") or ()]
        notes = body["metadata"].get("annotations") or {}
        default = notes.get("kubectl.kubernetes.io/default-container")
        known = (name for name in (wanted, default, *own, *names) if name in names)
        return cls(body, str(next(known, "")))

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        """What tells it from another one of its name."""
        return str(self.body["metadata"]["uid"])

    @property
    def node(self) -> str | None:
        """The node that it was given to."""
        return str(self.body["spec"].get("nodeName") or "") or None

    @property
    def created(self) -> float:
        """When it was created, by the server's clock."""
        return instant(self.body["metadata"].get("creationTimestamp")) or 0.0

    @property
    def changed(self) -> float:
        """When what is said of it changed last, as far as its conditions tell."""
        rows = self.status.get("conditions") or ()
        times = (instant(each.get("lastTransitionTime")) for each in rows)
        return max(filter(None, times), default=self.created)

    @property
    def status(self) -> Object:
        """What its kubelet says of it."""
        return self.body.get("status") or {}

    @property
    def own(self) -> Object:
        """The status of its container."""
        rows = self.status.get("containerStatuses") or ()
        return next((each for each in rows if each.get("name") == self.container), {})

    @property
    def culprit(self) -> Object:
        """The status of the container that ended it: its own, else one that failed beside it."""
        rows = [each for group in CONTAINERS for each in self.status.get(group) or ()]
        rows = [self.own, *rows] if self.status.get("phase") == "Failed" else []
        return next((each for each in rows if part(each, "state.terminated.exitCode")), self.own)

    @property
    def restarts(self) -> int:
        """How often its container was begun again."""
        return int(self.own.get("restartCount") or 0)

    @property
    def over(self) -> bool:
        """Whether it has ended for good."""
        return self.status.get("phase") in ("Succeeded", "Failed")

    @property
    def lost(self) -> bool:
        """Whether its node does not answer: nobody knows whether it runs.

        The cluster then says of the pod that it is not ready, and its containers stay as its
        kubelet saw them last. A kubelet itself says so only where a readiness gate is closed.
        """
        ready, inside = self._condition("Ready"), self._condition("ContainersReady")
        silent = ready.get("status") == "False" and inside.get("status") == "True"
        silent = silent and ready.get("reason") != "ReadinessGatesNotReady"
        words = self.status.get("phase") == "Unknown" or self.status.get("reason") == "NodeLost"
        return not self.over and (words or silent)

    @property
    def left(self) -> str:
        """Which other container keeps it going after its own has ended; empty if none does."""
        rows = self.status.get("containerStatuses") or ()
        up = (each.get("name") for each in rows if "running" in (each.get("state") or {}))
        ended = "terminated" in (self.own.get("state") or {}) and not self.over
        return clean(next(up, ""), 80) if ended else ""

    @property
    def runs(self) -> bool:
        """Whether its container runs and is ready."""
        up = "running" in (self.own.get("state") or {}) and self.own.get("ready") is not False
        return up and not self.over and not self.lost

    @property
    def since(self) -> float | None:
        """When its container began, or began before it ended."""
        state = self.own.get("state") or {}
        told = state.get("running") or state.get("terminated") or {}
        return instant(told.get("startedAt"))

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """Where its log stands among those of the job; the first is that of rank 0."""
        role = self._label(_ROLE_LABELS)
        order = ROLES.get(role.lower(), 5) if role or self._label(("ray.io/cluster",)) else 0
        return order, _number(self._label(_GROUP_LABELS)), _number(self._index), self.name

    def slot(self, alone: bool) -> tuple[str, ...]:
        """Return which of the job's pods it is: another one of the same slot is another attempt."""
        place = (self._label(_ROLE_LABELS), self._label(_GROUP_LABELS), self._index)
        return place if self._index or alone else (*place, self.name)

    def _condition(self, word: str) -> Object:
        rows = self.status.get("conditions") or ()
        return next((each for each in rows if each.get("type") == word), {})

    @property
    def _index(self) -> str:
        return self._label(_INDEX_LABELS)

    def _label(self, names: Sequence[str]) -> str:
        meta = self.body["metadata"]
        labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
        found = (labels.get(name) or notes.get(name) for name in names)
        return str(next(filter(None, found), ""))

    @property
    def accelerators(self) -> int:
        """How many its containers hold."""
        found = 0
        for container in self.body["spec"].get("containers") or ():
            limits = (container.get("resources") or {}).get("limits") or {}
            counts = (n for name, n in limits.items() if name.startswith(ACCELERATORS))
            found += sum(_number(str(count)) for count in counts)
        return found


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


class End(NamedTuple):
    """How a pod's container ended."""

    pod: str
    code: int | None
    reason: str
    at: float
    message: str = ""

    @property
    def text(self) -> str:
        """The end in words."""
        code = "" if self.code is None else f"exit {self.code}"
        told = ", ".join(filter(None, (code, self.reason)))
        return f"{self.pod}: {told}" + (f" ({self.message})" if self.message else "")


def end_of(pod: Pod, former: bool = False) -> End | None:
    """Return how a pod's container ended; ``former``: that of its attempt before."""
    row = pod.own if former else pod.culprit
    told = (row.get("lastState" if former else "state") or {}).get("terminated")
    why = "" if former else str(pod.status.get("reason") or "")
    for each in () if former else conditions(pod.body):
        why = why or (each.get("type") == "DisruptionTarget" and str(each.get("reason"))) or ""
    if told is None and not (pod.over and why):
        return None
    ended = told or {}
    code, reason = ended.get("exitCode"), clean(ended.get("reason"), 60)
    message = pod.status.get("message") if why else ended.get("message")
    at = instant(ended.get("finishedAt")) or pod.changed
    plain = "" if reason in ("Error", "Completed") else reason
    other = row.get("name") if row is not pod.own and row else None
    who = f"{pod.name}, container {clean(other, 80)}" if other else pod.name
    return End(who, code, clean(why, 60) or plain, at, shown(message or "", 120))
