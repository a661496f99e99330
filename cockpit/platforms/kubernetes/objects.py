"""The kinds of objects that train, one row each, and what the cockpit writes on them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError

Object = Mapping[str, Any]
"""A document of the API."""
RUN_LABEL: Final = "cockpit/run"
LAUNCH_LABEL: Final = "cockpit/launch-id"
LINEAGE: Final = "cockpit/lineage"
NOTE: Final = "cockpit/note"
"""The annotation that holds the uid of the launch's note (a ConfigMap)."""
HELD: Final = "cockpit/held"
"""The annotation of an object that was accepted and not let go; its value is ``HOLDS``, or
``CLOSED`` once it never will be."""
HOLDS, CLOSED = "until the cockpit lets it go", "closed by a look-up"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
NO_QUEUE: Final = "cockpit-held"
"""The queue of an object that is held: there is none of this name, so Kueue admits nothing."""
LONGEST: Final = 47
"""The longest name that every row takes: KubeRay allows 47 characters, the others 63."""
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LAUNCH: Final = re.compile(r"(.*)-i(\d+)", re.DOTALL)


class ObjectKind(NamedTuple):
    """A kind of object that trains and has no owner."""

    group: str
    version: str
    plural: str
    kind: str
    holds: tuple[tuple[str, object], ...]
    """Paths below ``spec`` with the values that keep it from starting: the first that the server
    keeps counts, since an older one drops a field that it does not know."""
    command: str = ""
    """The path below ``spec`` of the words that train; empty: they are those of the pods."""
    env: str = ""
    """The path below ``spec`` of the environment, beside that of the pods."""
    demands: tuple[tuple[str, object], ...] = ()
    """Paths below ``spec`` with the values without which it cannot be held."""

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of one object, or of all in a namespace."""
        base = f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}"
        return f"{base}/{name}" if name else base


_SUSPEND: Final = (("suspend", True),)
_ROWS: Final = (
    ObjectKind("batch", "v1", "jobs", "Job", (*_SUSPEND, ("parallelism", 0))),
    ObjectKind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", _SUSPEND),
    ObjectKind(
        "trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", _SUSPEND,
        command="trainer.command", env="trainer.env",
    ),
    ObjectKind("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", (("runPolicy.suspend", True),)),
    ObjectKind(
        "ray.io", "v1", "rayjobs", "RayJob", _SUSPEND, command="entrypoint",
        demands=(("shutdownAfterJobFinishes", True), ("clusterSelector", None)),
    ),
)  # fmt: skip
KINDS: Final[Mapping[str, ObjectKind]] = {row.kind.lower(): row for row in _ROWS}


def kind_of(manifest: Mapping[str, Any]) -> ObjectKind | None:
    """Return the row of an object, by its API group and kind; of any version."""
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    row = KINDS.get(str(manifest.get("kind", "")).lower())
    return row if row is not None and row.group == group else None


def id_of(row: ObjectKind, name: str) -> str:
    """Return the id of a job, as kubectl takes it."""
    return f"{row.kind.lower()}/{name}"


def part(document: object, path: str) -> object:
    """Return what stands at a dotted path, ``None`` where nothing does."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def instant(text: object) -> float | None:
    """Return a time of the API as seconds since the epoch."""
    try:
        return datetime.fromisoformat(str(text)).timestamp() if text else None
    except ValueError:
        return None


def put(document: dict[str, Any], path: str, value: object) -> None:
    """Write a value at a dotted path; ``None`` takes it away."""
    *parents, last = path.split(".")
    for key in parents:
        document = document.setdefault(key, {})
    if value is None:
        document.pop(last, None)
    else:
        document[last] = value


def kept_hold(row: ObjectKind, found: Mapping[str, Any]) -> tuple[str, object] | None:
    """Return what keeps an object from starting now, ``None`` where nothing does.

    One that Kueue manages is suspended by it too: there only the queue tells.
    """
    queue = (found.get("metadata") or {}).get("labels", {}).get(QUEUE)
    if queue not in (None, NO_QUEUE):
        return None
    spec = found.get("spec") or {}
    return next(((path, value) for path, value in row.holds if part(spec, path) == value), None)


def is_held(row: ObjectKind, found: Mapping[str, Any]) -> bool:
    """Tell whether an object was accepted by a cockpit, not let go, and cannot start by itself."""
    notes = found["metadata"].get("annotations") or {}
    return HELD in notes and kept_hold(row, found) is not None


def name_of(launch_id: str) -> str:
    """Return a launch id as the name of an object; raises ``CannotError`` if it is too long.

    What Kubernetes does not take is replaced, and a digest keeps two ids from one name.
    """
    if _NAME.fullmatch(launch_id) and len(launch_id) <= LONGEST:
        return launch_id
    match = _LAUNCH.fullmatch(launch_id)
    run, number = match.groups() if match else (launch_id, "")
    digest = hashlib.sha256(run.encode()).hexdigest()[:8]
    end = f"-{digest}-i{number}" if number else f"-{digest}"
    if len(end) >= LONGEST:
        raise CannotError(f"Kubernetes takes no name as long as {launch_id[:80]}")
    plain = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    plain = plain if plain[:1].isalpha() else f"run-{plain}"
    return f"{plain[: LONGEST - len(end)].rstrip('-')}{end}"


def labels_of(run: RunSpec, launch_id: str = "") -> dict[str, str]:
    """Return the labels by which a run's objects, and those of one launch, are found."""
    own = {RUN_LABEL: name_of(run.name)}
    return {**own, LAUNCH_LABEL: name_of(launch_id)} if launch_id else own


def pod_templates(value: object) -> Iterator[dict[str, Any]]:
    """Yield every pod template in a manifest, wherever its kind has them."""
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield value
        else:
            for each in value.values():
                yield from pod_templates(each)
    elif isinstance(value, list):
        for each in value:
            yield from pod_templates(each)
