"""The run of a new lineage, made of the old one and of what a person typed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

from cockpit.actions.core.action import RefuseError
from cockpit.model.place import Place, place_of
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_JOB_PATHS: Final = ("log", "pid_file", "exit_file", "done_marker")


def slug(text: str, name: str) -> str:
    """Return an id that a person typed; raises ``RefuseError`` for what is no slug."""
    if _SLUG.fullmatch(text.strip()) is None:
        raise RefuseError(
            f"--{name} is {scrub(clean(text, 200))!r}; expected letters, digits, . _ -"
        )
    return text.strip()


def typed_root(text: str) -> Place:
    """Return an output root that a person typed, normal; raises ``RefuseError``."""
    path = text.strip()
    scheme, sign, rest = path.partition("://")
    if sign and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) and rest.strip("/"):
        return place_of(f"{scheme}://{posixpath.normpath(rest)}")
    if path.startswith("/") and posixpath.normpath(path) != "/" and "\0" not in path:
        return place_of(posixpath.normpath(path))
    shown = scrub(clean(text, 200))
    raise RefuseError(f"--output-root is {shown!r}; expected an absolute path or an address")


def new_run(run: RunSpec, params: Mapping[str, str]) -> RunSpec:
    """Return the new lineage's run; raises ``RefuseError`` for parameters that make no sense.

    What lies under the old output root lies at the same place under the new one, and so does
    every file of the job: two runs never share a pid file or a log.
    """
    name = slug(params.get("run-id", ""), "run-id")
    wandb_id = slug(params.get("wandb-id", ""), "wandb-id")
    root = typed_root(params.get("output-root", ""))

    def moved(place: Place) -> Place:
        return _moved(place, run.output_root, root)

    spec = run.checkpoints
    checkpoints = None if spec is None else spec.model_copy(
        update={"path": tuple(moved(path) for path in spec.path), "protect": ()}
    )  # fmt: skip
    return run.model_copy(
        update={
            "name": name,
            "output_root": root,
            "job": None if run.job is None else _job(run.job, run.output_root, root),
            "wandb": _wandb(run.wandb, wandb_id, name, run.output_root, root),
            "checkpoints": checkpoints,
        }
    )


def _moved(place: Place, old: Place | None, new: Place) -> Place:
    if old is not None and old.contains(place):
        rest = place.normal().path[len(old.normal().path.rstrip("/")) :].strip("/")
        return new.below(rest) if rest else new
    return new.below(posixpath.basename(place.path.rstrip("/")))


def _job(job: JobSpec, old: Place | None, new: Place) -> JobSpec:
    moved = {
        name: _moved(place, old, new)
        for name in _JOB_PATHS
        if (place := getattr(job, name)) is not None
    }
    return job.model_copy(update={**moved, "id": None})


def _wandb(
    wandb: WandbSpec | None, wandb_id: str, name: str, old: Place | None, new: Place
) -> WandbSpec:
    spec = wandb or WandbSpec()
    update: dict[str, object] = {"id": wandb_id, "name": name, "url": None}
    if spec.dir is not None:
        update["dir"] = _moved(spec.dir, old, new)
    if spec.resume == "must":
        update["resume"] = "allow"
    return spec.model_copy(update=update)
