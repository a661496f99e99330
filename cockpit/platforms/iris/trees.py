"""A job and its children as one value, and what a job was submitted with (SPEC J). Pure."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cockpit.model.jobs import Bundle
from cockpit.model.lineage import related, tag_of
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.iris.answers import (
    SUCCEEDED,
    Job,
    Request,
    counted,
    phase_of,
    restarts_of,
    waiting_of,
)
from cockpit.platforms.iris.answers import task_counts as tasks_of
from cockpit.platforms.lineage import LineageSign, LineageSigns
from cockpit.platforms.local.programs import arguments
from cockpit.platforms.reports import PROVENANCE
from cockpit.text.safe import clean

MOST: Final = 200
"""Children that are named, the newest first kept."""
MOST_FAILED: Final = 3
_ID: Final = re.compile(r"/[^/\s]+(?:/[^/\s]+)+")
_LAUNCH: Final = re.compile(r"-i\d{1,6}$")
"""Such as ``toy-i003``."""


class Tree(NamedTuple):
    """A job and all that was submitted below it, oldest first."""

    own: Job
    below: tuple[Job, ...] = ()


class End(NamedTuple):
    """How a job ended by its tasks' own word: the first that failed, and the line that tells."""

    exit_code: int | None = None
    text: str = ""
    cause: str | None = None


class Family(NamedTuple):
    """The jobs below a job: those that train, and the others (C-21), oldest first each."""

    production: tuple[Job, ...]
    diagnostic: tuple[Job, ...]

    @property
    def current(self) -> Job | None:
        """The child that trains: the newest."""
        return self.production[-1] if self.production else None


def is_job_id(text: str) -> bool:
    """Tell whether a text is the id of an Iris job: ``/user/job``, ``/user/job/child``."""
    return _ID.fullmatch(text) is not None and len(text) <= 1000


def user_of(job_id: str) -> str:
    """Return the first part of a job's id: whose it is."""
    return job_id.split("/")[1]


def belongs_to(job_id: str, root: str) -> bool:
    """Tell whether a job is ``root`` or lies below it."""
    return job_id == root or job_id.startswith(f"{root}/")


def tree_of(root: str, jobs: Iterable[Job]) -> Tree | None:
    """Return the tree of a job out of a list that holds others too, ``None`` if it is not there."""
    own = [job for job in jobs if belongs_to(job.id, root)]
    first = next((job for job in own if job.id == root), None)
    if first is None:
        return None
    below = sorted(
        (job for job in own if job.id != root), key=lambda job: (job.submitted_at or 0.0, job.id)
    )
    return Tree(first, tuple(below))


def family_of(tree: Tree, spec: JobSpec) -> Family:
    """Tell the children that train from the others; who matches nothing is diagnostic (SPEC J)."""
    training, others = [], []
    for job in tree.below:
        name = job.id[len(tree.own.id) + 1 :]
        training.append(job) if trains(name, job.id, spec) else others.append(job)
    return Family(tuple(training), tuple(others))


def trains(name: str, job_id: str, spec: JobSpec) -> bool:
    """Tell whether a child trains, by its name below the job or its whole id."""
    if spec.production is None or _matches(spec.diagnostic, name, job_id):
        return False
    return _matches((spec.production,), name, job_id)


def _matches(patterns: Sequence[str], name: str, job_id: str) -> bool:
    texts = (name, name.rpartition("/")[2], job_id)
    return any(fnmatch.fnmatchcase(text, each) for each in patterns for text in texts)


def deciding(tree: Tree, spec: JobSpec) -> Job:
    """Return the job whose tasks tell how the run is: the child that trains, else the job itself.

    A job that was ended is over, whatever is still said of its children.
    """
    child, own = family_of(tree, spec).current, phase_of(tree.own)
    if child is None or own in (Phase.FAILED, Phase.CANCELLED, Phase.UNKNOWN):
        return tree.own
    if own is Phase.SUCCEEDED:
        return child if phase_of(child) in (Phase.FAILED, Phase.CANCELLED) else tree.own
    return tree.own if child.state == SUCCEEDED else child


def value_of(tree: Tree, spec: JobSpec, end: End | None = None, *, never: bool) -> JobValue:
    """Return what is known of a run's job; ``end`` is how the deciding job ended.

    ``never`` tells that the job waits for what cannot come.
    """
    own, family = tree.own, family_of(tree, spec)
    shown = deciding(tree, spec)
    phase = phase_of(shown)
    coordinated = shown is not tree.own and phase_of(tree.own).lives
    phase = Phase.WAITING if coordinated and phase.terminal else phase
    waits = phase is Phase.WAITING
    return JobValue(
        id=own.id,
        state=own.state,
        phase=phase,
        tasks=tasks_of(shown),
        reason=_reason(tree, family, shown, phase, end) or None,
        exit_code=_exit_code(phase, end),
        # one that ran before waits again, since when is not known
        pending_since=None
        if shown.started_at or phase is not Phase.WAITING
        else shown.submitted_at,
        started_at=own.started_at,
        ended_at=own.finished_at if phase.terminal else None,
        restarts=restarts_of(own) + (restarts_of(shown) if shown is not own else 0),
        launch_id=launch_id_of(own.id),
        children=tuple(job.id for job in family.production[-MOST:]),
        diagnostic=tuple(job.id for job in family.diagnostic[-MOST:]),
        never=never and waits,
    )


def launch_id_of(job_id: str) -> str | None:
    """Return the launch id that a job was named by, if it was."""
    name = job_id.rpartition("/")[2]
    return name if _LAUNCH.search(name) else None


def _exit_code(phase: Phase, end: End | None) -> int | None:
    """Return the tasks' own exit code: the one in the job is always 0."""
    if phase is Phase.SUCCEEDED:
        return 0
    return end.exit_code if end is not None and phase.terminal else None


def _reason(tree: Tree, family: Family, shown: Job, phase: Phase, end: End | None) -> str:
    parts = [_why(tree, shown, phase, end)]
    others = [job for job in (*family.production, *family.diagnostic) if job is not shown]
    failed = [job for job in others if phase_of(job) is Phase.FAILED]
    if failed:
        named = "; ".join(_job_text(tree, job) for job in failed[-MOST_FAILED:])
        parts.append(f"{len(failed)} of {len(tree.below)} children failed: {named}")
    return clean("; ".join(filter(None, parts)), 1000)


def _why(tree: Tree, shown: Job, phase: Phase, end: End | None) -> str:
    """Return why the job is as it is, in the words of scheduler, autoscaler or tasks."""
    if phase is Phase.SUCCEEDED or phase is Phase.RUNNING:
        return counted(shown) if shown.preemptions and phase is Phase.RUNNING else ""
    ended = phase_of(shown).terminal
    if phase is Phase.WAITING and not ended:
        return waiting_of(shown).text or counted(shown)
    text = (end.text if end is not None else "") or shown.error
    cause = end.cause if end is not None else None
    said = text if cause is None or cause in text else f"{text}: {cause}" if text else cause
    if shown is tree.own:
        return said
    told = f"child {_name(tree, shown)} {_state_word(shown)}" + (f": {said}" if said else "")
    return told if not phase.lives else f"{told}; {tree.own.id} goes on"


def _job_text(tree: Tree, job: Job) -> str:
    return f"{_name(tree, job)} {_state_word(job)}" + (f" ({job.error})" if job.error else "")


def _name(tree: Tree, job: Job) -> str:
    return job.id[len(tree.own.id) + 1 :]


def _state_word(job: Job) -> str:
    return job.state.removeprefix("JOB_STATE_")


LAUNCH_ID: Final = "COCKPIT_LAUNCH_ID"
LINEAGE: Final = "COCKPIT_LINEAGE"
CLOSED_FOR: Final = 3_600.0
"""Seconds for which a closed launch id must stay closed: a client tries for half an hour."""
CLOSES: Final = "COCKPIT_CLOSES"
"""In the environment of a job that never runs: it only holds the name of a launch that is over."""
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")


def bundle_of(request: Request) -> Bundle | None:
    """Return which code a job runs, ``None`` where its request tells nothing of it."""
    found = _provenance(request)
    commit = found.get("base_commit")
    dirty, branch, tree = found.get("dirty"), found.get("branch"), found.get("tree_hash")
    bundle = Bundle(
        id=request.bundle or None,
        commit=commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else None,
        dirty=dirty if isinstance(dirty, bool) and commit else None,
        branch=clean(branch, 200) if isinstance(branch, str) and branch else None,
        tree=clean(tree, 80) if isinstance(tree, str) and tree else None,
    )
    return bundle if bundle != Bundle() else None


def _provenance(request: Request) -> dict[str, object]:
    """Return what the client noted of its checkout; the command in it holds secrets in clear."""
    try:
        found = json.loads(request.variables.get(PROVENANCE, ""))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_closing(request: Request) -> bool:
    """Tell whether a job is one that only closes its name."""
    return CLOSES in request.variables


def words_of(run: RunSpec) -> tuple[str, ...]:
    """Return what a job's words must hold somewhere to name the run at all: cheap to look for."""
    root, wandb = run.output_root, run.wandb
    told = (root and root.normal().seen_from(run.job), wandb and wandb.run_id)
    return (*(word for word in told if word), *filter(None, tag_of(run).split(",")))


def mark_of(run: RunSpec, request: Request) -> LineageSign | None:
    """Return why what a job was submitted with makes it a job of the run, the surest first."""
    variables = request.variables
    if related(tag_of(run), variables.get(LINEAGE, "")):
        launch_id = clean(variables.get(LAUNCH_ID, "no launch id"), 80)
        return LineageSign(f"launch {launch_id} by its environment")
    return LineageSigns(run, "arguments").told(variables, tuple(arguments(request.argv)))
