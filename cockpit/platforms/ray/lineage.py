"""Which jobs of a Ray head belong to a run (SPEC J, "Which jobs belong to a run"; C-25).

A job tells by its submission id, by what the cockpit has put into its metadata or environment,
by its entrypoint, and by ``runtime_env.env_vars``. *Sure* is one that is named as a launch of the
run, carries its lineage, or was given its output root or W&B id under a name that is written to;
one that only mentions them is *possible*; one whose program only looks is neither.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.model.jobs import Live, LiveJob
from cockpit.model.lineage import related, tag_of
from cockpit.model.run import RunSpec
from cockpit.platforms.local.launcher.launches import number_of
from cockpit.platforms.local.naming import (
    Use,
    arguments,
    names_a_place,
    names_the_tracker_run,
    only_looks,
    use_of,
)
from cockpit.platforms.ray.answers import RayJob
from cockpit.platforms.ray.states import phase_of
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LINEAGE: Final = ("COCKPIT_LINEAGE", "lineage")
"""The variable of a job's environment and the key of its metadata that carry the lineage."""
NAME_LENGTH: Final = 120
_WORDS: Final = 2000


class Mark(NamedTuple):
    """Why a job belongs to a run, and whether that is certain."""

    why: str
    certain: bool = True


def live_of(run: RunSpec, jobs: Sequence[RayJob], ours: Mapping[str, float | None]) -> Live:
    """Return what lives of a run among all jobs of its head.

    ``ours`` is when each job was submitted or began, on our clock, by its id.
    """
    found = [(job, mark) for job in jobs if _lives(job) and (mark := mark_of(run, job)) is not None]
    made = [(_live(run, job, mark, ours.get(job.id)), mark.certain) for job, mark in found]
    return Live(
        jobs=tuple(each for each, certain in made if certain),
        possible=tuple(each for each, certain in made if not certain),
    )


def launch_id_of(run: RunSpec, job: RayJob) -> str | None:
    """Return the launch id that a job was submitted under, ``None`` if it is none of this run."""
    name = job.submission_id
    return name if name is not None and number_of(run.name, name) is not None else None


def mark_of(run: RunSpec, job: RayJob) -> Mark | None:
    """Return why a job belongs to a run, ``None`` if nothing says that it does."""
    recorded = run.job.id if run.job is not None else None
    if recorded is not None and job.is_called(recorded):
        return Mark("the recorded job")
    tag, own = _tag(job), tag_of(run)
    if tag and own:
        return Mark("its lineage") if related(tag, own) else None
    if launch_id_of(run, job) is not None:
        return Mark("its submission id is a launch id of the run")
    marks = [*_in_environment(run, job), *_in_entrypoint(run, job)]
    return max(marks, key=lambda mark: mark.certain, default=None)


def shown_name(job: RayJob) -> str:
    """Return a job's entrypoint for people: one line, safe, scrubbed and short."""
    return clean(scrub(clean(job.entrypoint, 2000)), NAME_LENGTH)


def _lives(job: RayJob) -> bool:
    phase = phase_of(job)
    return phase.lives


def _live(run: RunSpec, job: RayJob, mark: Mark, since: float | None) -> LiveJob:
    return LiveJob(
        id=clean(job.id, 200),
        name=shown_name(job),
        why=mark.why,
        launch_id=launch_id_of(run, job),
        started_at=since,
        handle={"submission_id": job.submission_id} if job.submission_id is not None else {},
    )


def _tag(job: RayJob) -> str:
    return job.env.get(LINEAGE[0]) or job.metadata.get(LINEAGE[1]) or ""


def _in_environment(run: RunSpec, job: RayJob) -> Iterator[Mark]:
    root, wandb_id = _root(run), _wandb_id(run)
    for name, value in job.env.items():
        shown = clean(name, 40)
        if wandb_id is not None and name == "WANDB_RUN_ID" and value == wandb_id:
            if _same_project(run, job):
                yield Mark(f"the W&B id in its environment ({shown})")
        elif root is not None and within(root, value):
            use = use_of(name)
            if use is Use.WRITES or (use is Use.EITHER and names_a_place(name)):
                yield Mark(f"the output root in its environment ({shown})", use is Use.WRITES)


def _in_entrypoint(run: RunSpec, job: RayJob) -> Iterator[Mark]:
    root, wandb_id = _root(run), _wandb_id(run)
    words = words_of(job.entrypoint)
    if any(only_looks(word) for word in words if word.endswith((".py", ".sh"))):
        return
    for key, value in arguments(["", *words]):
        shown = f" ({clean(key, 40)})" if key else ""
        use = use_of(key)
        if use is Use.READS:
            continue
        if root is not None and within(root, value):
            yield Mark(f"the output root in its entrypoint{shown}", use is Use.WRITES)
        elif wandb_id is not None and value == wandb_id:
            certain = names_the_tracker_run(key)
            if certain is not False and _same_project(run, job):
                yield Mark(f"the W&B id in its entrypoint{shown}", certain is True)


def words_of(entrypoint: str) -> list[str]:
    """Return the words of a shell line, those of scripts that are quoted inside it as well."""
    words: list[str] = []
    for word in _split(entrypoint)[:_WORDS]:
        inner = _split(word) if " " in word else [word]
        words += inner
    return words[:_WORDS]


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # quotes that do not close
        return line.split()


def within(root: str, value: str) -> bool:
    """Tell whether a path or address is ``root`` or lies below it, compared part by part."""
    if "://" in root or "://" in value:
        return value.rstrip("/") == root or value.startswith(root + "/")
    if not value.startswith("/"):
        return False
    path = posixpath.normpath(value)
    return path == root or path.startswith(root.rstrip("/") + "/")


def _root(run: RunSpec) -> str | None:
    root = run.output_root
    return None if root is None else root.normal().seen_from(run.job)


def _wandb_id(run: RunSpec) -> str | None:
    return None if run.wandb is None else run.wandb.run_id


def _same_project(run: RunSpec, job: RayJob) -> bool:
    """Tell whether nothing in its environment says that the W&B id is another project's."""
    wandb = run.wandb
    told = (
        (wandb.project if wandb else None, "WANDB_PROJECT"),
        (wandb.entity if wandb else None, "WANDB_ENTITY"),
    )
    return all(mine is None or (job.env.get(name) or mine) == mine for mine, name in told)
