"""What speaks for and against taking a job that was started by hand for the run's own (SPEC J)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cockpit.actions.checks.jobs import job_name
from cockpit.actions.core.context import ActionContext
from cockpit.model.jobs import NamedJob
from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.platforms.local.launcher.launches import number_of
from cockpit.platforms.local.naming import Use, names_the_tracker_run, use_of, within
from cockpit.text.checks import blocked, passed, warned
from cockpit.text.scrub import shown

JOB: Final = "job"
WHOSE: Final = "whose"
WRITERS: Final = "C-25"


def adoption_checks(context: ActionContext, job: NamedJob) -> Iterator[Check]:
    """Yield whether the job lives, whose it is, and whether another one writes beside it."""
    yield _alive(job)
    if job.lives:
        yield _whose(context, job)
    yield from _beside(context, job)


def _alive(job: NamedJob) -> Check:
    if job.lives is None:
        return blocked(JOB, f"cannot tell whether {shown(job.id)} lives: {job.text}")
    if not job.lives:
        return blocked(JOB, f"{job.text}: only a job that lives can be adopted")
    return passed(JOB, job.text)


def _whose(context: ActionContext, job: NamedJob) -> Check:
    """Return whose job it is: by its launch id, its output root and its W&B id."""
    own = context.spec
    if job.launch_id and number_of(own.name, job.launch_id) is None:
        return blocked(WHOSE, f"it was launched as {shown(job.launch_id)}, for another run")
    mine = claim_of(own, job)
    for other in context.file.runs:
        claim = None if other.name == own.name else claim_of(other, job)
        if claim is not None and mine is None:
            return blocked(WHOSE, f"it is a job of {other.name}: {claim}")
    if mine is not None:
        return passed(WHOSE, f"it is a job of this run: {mine}")
    elsewhere = _elsewhere(own, job)
    if elsewhere is not None:
        return blocked(WHOSE, elsewhere, Basis.INFERRED, overridable=True)
    text = "nothing in its words tells whose it is: no output root, W&B id or launch id"
    return warned(WHOSE, text, Basis.INFERRED)


def claim_of(run: RunSpec, job: NamedJob) -> str | None:
    """Return why a job is one of a run, ``None`` if nothing says so."""
    if job.launch_id and number_of(run.name, job.launch_id) is not None:
        return f"its launch id is {shown(job.launch_id)}"
    root = None if run.output_root is None else run.output_root.normal().seen_from(run.job)
    wandb = None if run.wandb is None else run.wandb.run_id
    for name, value in job.values:
        said = f" ({shown(name, 40)})" if name else ""
        if root is not None and use_of(name) is not Use.READS and within(root, value):
            return f"it names the output root{said}"
        if wandb and value == wandb and names_the_tracker_run(name) is not False:
            return f"it names the W&B id{said}"
    return None


def _elsewhere(run: RunSpec, job: NamedJob) -> str | None:
    """Return where a job writes, if that is another place than the run's; else ``None``."""
    for name, value in job.values:
        place = value.startswith("/") or "://" in value
        if run.output_root is not None and place and name and use_of(name) is Use.WRITES:
            return f"it writes elsewhere: {shown(name, 40)} is {shown(value)}"
        other = run.wandb is not None and run.wandb.run_id not in (None, value)
        if other and value and names_the_tracker_run(name):
            return f"it has another W&B id: {shown(name, 40)} is {shown(value)}"
    return None


def _beside(context: ActionContext, job: NamedJob) -> Iterator[Check]:
    """Yield the warning that another job of the lineage lives: then there are two writers."""
    live = context.live
    if live.unknown is not None:
        yield warned(WRITERS, f"cannot tell whether another job lives: {live.unknown}")
    others = [each for each in live.jobs if each.id != job.id]
    if others:
        names = ", ".join(map(job_name, others))
        text = f"{names} of this lineage lives too: two jobs would write at once; stop one of them"
        yield warned(WRITERS, text)
