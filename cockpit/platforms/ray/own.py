"""A head's jobs as new run files may begin from them. Ray knows no users: all jobs are listed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.model import wording
from cockpit.model.jobs import OwnJob
from cockpit.platforms.local.naming import Use, arguments, use_of
from cockpit.platforms.ray.answers import RayJob
from cockpit.platforms.ray.head import Head
from cockpit.platforms.ray.lineage import shown_name, words_of
from cockpit.platforms.ray.states import phase_of
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST: Final = 500
_SHELL: Final = "&|;<>`*?#"
"""Signs in a line that mean something to a shell; one in quotes does no harm in ``sh -c``."""
_LAUNCH: Final = re.compile(r"-i\d{1,6}$")
_VARIABLES: Final = {
    "WANDB_RUN_ID": "wandb.id", "WANDB_PROJECT": "wandb.project", "WANDB_ENTITY": "wandb.entity",
}  # fmt: skip


def own_jobs(head: Head, jobs: Sequence[RayJob]) -> list[OwnJob]:
    """Return the jobs of a head, living ones first, the newest first."""
    named = [job for job in jobs if job.id]
    order = sorted(named, key=lambda job: (not phase_of(job).lives, -(job.submitted_at or 0.0)))
    return [_own(head, job) for job in order[:MOST]]


def _own(head: Head, job: RayJob) -> OwnJob:
    at = None if job.submitted_at is None else head.ours(job.submitted_at)
    since = "" if at is None else f" since {wording.moment(at)}"
    return OwnJob(
        id=clean(job.id, 200),
        name=clean(_LAUNCH.sub("", job.id), 200),
        text=f"{clean(job.status, 40)}{since}: {shown_name(job)}",
        settings={"job.id": clean(job.id, 200), **dict(_told(job))},
    )


def _shell(entrypoint: str) -> bool:
    """Tell whether only a shell reads a line as it is meant; ``resubmit`` is words without one."""
    return any(sign in entrypoint for sign in _SHELL)


def _told(job: RayJob) -> Iterator[tuple[str, str]]:
    """Yield what its entrypoint and environment tell of the run; nothing that holds a secret."""
    for variable, key in _VARIABLES.items():
        value = clean(job.env.get(variable), 200)
        if value:
            yield key, value
    entrypoint = clean(job.entrypoint, 4000)
    if entrypoint and "\n" not in job.entrypoint and scrub(entrypoint) == entrypoint:
        yield "resubmit", shlex.join(["sh", "-c", entrypoint]) if _shell(entrypoint) else entrypoint
    for key, value in arguments(["", *words_of(job.entrypoint)]):
        whole = value.startswith("/") or "://" in value
        if whole and use_of(key) is Use.WRITES:
            yield "output_root", clean(value, 500)
            return
