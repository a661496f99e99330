"""Which jobs of a Ray head belong to a run (SPEC J, "Which jobs belong to a run"; C-25).

A job tells by its submission id, by what the cockpit has put into its metadata or environment,
by its entrypoint, and by ``runtime_env.env_vars``. *Sure* is one that is named as a launch of the
run, carries its lineage, or was given its output root or W&B id under a name that is written to;
one that only mentions them is *possible*; one whose program only looks is neither.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence, Set
from typing import Final, NamedTuple

from cockpit.hosts.notes import number_of
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.lineage import related, tag_of
from cockpit.model.run import RunSpec
from cockpit.platforms.alike import Started, alike, keys_of, program_of, recorded_starts
from cockpit.platforms.local.programs import (
    Use,
    arguments,
    names_a_place,
    names_the_tracker_run,
    only_looks,
    use_of,
    within,
)
from cockpit.platforms.ray.answers import RayJob
from cockpit.platforms.ray.stopping import OUTSIDE, handle_of
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LINEAGE: Final = ("COCKPIT_LINEAGE", "lineage")
"""The variable of a job's environment and the key of its metadata that carry the lineage."""
NAME_LENGTH: Final = 120
_WORDS: Final = 2000


class LineageSign(NamedTuple):
    """Why a job belongs to a run, and whether that is certain."""

    why: str
    certain: bool = True


class Candidate(NamedTuple):
    """A job that lives, and what its entrypoint says: looked at once for all runs."""

    job: RayJob
    told: tuple[tuple[str, str], ...]
    """(key, value) of the arguments; none where the program only looks."""
    since: float | None
    start: Started


def candidate_of(job: RayJob, since: float | None) -> Candidate:
    """Return a living job as a candidate; ``since`` is when it began, on our clock."""
    words = words_of(job.entrypoint)
    looks = any(only_looks(word) for word in words if word.endswith((".py", ".sh")))
    told = () if looks else tuple(arguments(["", *words]))
    return Candidate(job, told, since, started(job))


def started(job: RayJob) -> Started:
    """Return what a job was started with."""
    program, args = program_of(words_of(job.entrypoint))
    return Started(program, args, labels=job.submission_id or "", variables=job.env)


def live_of(
    run: RunSpec,
    candidates: Sequence[Candidate],
    own: RayJob | None = None,
    others: Set[str] = frozenset(),
) -> Live:
    """Return what lives of a run among all living jobs of its head.

    ``own`` is its current job, ``others`` are the ids of the current jobs of other runs.
    """
    marks = LineageSigns(run)
    starts = [*recorded_starts(run), *([] if own is None else [started(own)])]
    shared = keys_of(starts)
    jobs: list[LiveJob] = []
    possible: list[LiveJob] = []
    similar: list[LiveJob] = []
    for each in candidates:
        mark = marks.of(each)
        if mark is not None:
            (jobs if mark.certain else possible).append(live_job(run, each, mark))
        elif each.job.id not in others and not shared.isdisjoint(keys_of([each.start])):
            why = None if _tag(each.job) else alike(run, starts, each.start)
            if why is not None:
                live = live_job(run, each, LineageSign(why))
                similar.append(live.model_copy(update={"alike": True}))
    return Live(jobs=tuple(jobs), possible=(*possible, *similar))


def _tag(job: RayJob) -> str:
    """Return the lineage that a cockpit has launched a job for, empty if none has."""
    return job.env.get(LINEAGE[0]) or job.metadata.get(LINEAGE[1]) or ""


def launch_id_of(run: RunSpec, job: RayJob) -> str | None:
    """Return the launch id that a job was submitted under, ``None`` if it is not of this run."""
    name = job.submission_id
    if name is None or not name.startswith(f"{run.name}-i"):
        return None
    return name if number_of(run.name, name) is not None else None


class LineageSigns:
    """What of a run its jobs are known by."""

    def __init__(self, run: RunSpec) -> None:
        root = run.output_root
        self._run = run
        self._recorded = run.job.id if run.job is not None else None
        self._tag = tag_of(run)
        self._root = None if root is None else root.normal().seen_from(run.job)
        self._wandb = None if run.wandb is None else run.wandb.run_id

    def of(self, candidate: Candidate) -> LineageSign | None:
        """Return why a job belongs to the run, ``None`` if nothing says that it does."""
        job = candidate.job
        if self._recorded is not None and job.is_called(self._recorded):
            return LineageSign("the recorded job")
        tag = _tag(job)
        if tag and self._tag:
            return LineageSign("its lineage") if related(tag, self._tag) else None
        if launch_id_of(self._run, job) is not None:
            return LineageSign("its submission id is a launch id of the run")
        if self._root is None and self._wandb is None:
            return None
        marks = [*self._in_environment(job), *self._in_entrypoint(candidate)]
        return max(marks, key=lambda mark: mark.certain, default=None)

    def _in_environment(self, job: RayJob) -> Iterator[LineageSign]:
        for name, value in job.env.items():
            shown = clean(name, 40)
            if name == "WANDB_RUN_ID" and value == self._wandb:
                if self._same_project(job):
                    yield LineageSign(f"the W&B id in its environment ({shown})")
            elif self._root is not None and within(self._root, value):
                use = use_of(name)
                if use is Use.WRITES or (use is Use.EITHER and names_a_place(name)):
                    yield LineageSign(
                        f"the output root in its environment ({shown})", use is Use.WRITES
                    )

    def _in_entrypoint(self, candidate: Candidate) -> Iterator[LineageSign]:
        for key, value in candidate.told:
            if self._root is not None and within(self._root, value):
                if (use := use_of(key)) is not Use.READS:
                    sure = use is Use.WRITES
                    yield LineageSign(f"the output root in its entrypoint{_as_key(key)}", sure)
            elif value == self._wandb and use_of(key) is not Use.READS:
                certain = names_the_tracker_run(key)
                if certain is not False and self._same_project(candidate.job):
                    yield LineageSign(
                        f"the W&B id in its entrypoint{_as_key(key)}", certain is True
                    )

    def _same_project(self, job: RayJob) -> bool:
        """Tell whether nothing in its environment says that the W&B id is another project's."""
        wandb = self._run.wandb
        told = (
            (wandb.project if wandb else None, "WANDB_PROJECT"),
            (wandb.entity if wandb else None, "WANDB_ENTITY"),
        )
        return all(mine is None or (job.env.get(name) or mine) == mine for mine, name in told)


def _as_key(key: str) -> str:
    return f" ({clean(key, 40)})" if key else ""


def shown_name(job: RayJob) -> str:
    """Return a job's entrypoint for people: one line, safe, scrubbed and short."""
    return clean(scrub(clean(job.entrypoint, 2000)), NAME_LENGTH)


def live_job(run: RunSpec, candidate: Candidate, mark: LineageSign) -> LiveJob:
    """Return a job that lives, and why it is taken for one of the lineage."""
    job = candidate.job
    return LiveJob(
        id=clean(job.id, 200),
        name=shown_name(job),
        why=mark.why,
        launch_id=launch_id_of(run, job),
        started_at=candidate.since,
        beyond=OUTSIDE if job.submission_id is None else None,
        handle=handle_of(job),
    )


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
