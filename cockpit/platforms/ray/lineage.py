"""What a job of a Ray head says of the run it belongs to (``cockpit.platforms.lineage``).

It tells by its submission id, by what the cockpit has put into its metadata or environment, by
its entrypoint, and by ``runtime_env.env_vars``.
"""

from __future__ import annotations

from typing import Final

from cockpit.hosts.notes import number_of
from cockpit.model.jobs import LiveJob
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, program_of
from cockpit.platforms.lineage import Candidate, told_by, words_of
from cockpit.platforms.ray.answers import RayJob
from cockpit.platforms.ray.stopping import OUTSIDE, handle_of
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LINEAGE: Final = ("COCKPIT_LINEAGE", "lineage")
"""The variable of a job's environment and the key of its metadata that carry the lineage."""
NAME_LENGTH: Final = 120


def candidate_of(job: RayJob, since: float | None) -> Candidate:
    """Return a living job as a candidate; ``since`` is when it began, on our clock."""
    live = LiveJob(
        id=clean(job.id, 200),
        name=shown_name(job),
        why="",
        launch_id=job.submission_id,
        started_at=since,
        beyond=OUTSIDE if job.submission_id is None else None,
        handle=handle_of(job),
    )
    names = [name for name in (job.submission_id, job.job_id) if name is not None]
    tag = job.env.get(LINEAGE[0]) or job.metadata.get(LINEAGE[1]) or ""
    return Candidate(live, names, told_by(words_of(job.entrypoint)), started(job), tag)


def started(job: RayJob) -> Started:
    """Return what a job was started with."""
    program, args = program_of(words_of(job.entrypoint))
    return Started(program, args, labels=job.submission_id or "", variables=job.env)


def launch_id_of(run: RunSpec, job: RayJob) -> str | None:
    """Return the launch id that a job was submitted under, ``None`` if it is not of this run."""
    name = job.submission_id
    if name is None or not name.startswith(f"{run.name}-i"):
        return None
    return name if number_of(run.name, name) is not None else None


def shown_name(job: RayJob) -> str:
    """Return a job's entrypoint for people: one line, safe, scrubbed and short."""
    return clean(scrub(clean(job.entrypoint, 2000)), NAME_LENGTH)
