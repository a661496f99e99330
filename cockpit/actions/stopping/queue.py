"""Orders to the scheduler about the run's job: hold, release, a time limit, requeue in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from cockpit.actions.checks import checkpoint, code, setup
from cockpit.actions.checks.jobs import job_name, lineage_jobs, own_jobs
from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    RefuseError,
    Step,
    StepError,
    StepUnknownError,
    yes_param,
)
from cockpit.actions.core.execution import STOPS
from cockpit.actions.core.recording import log_step, status_step
from cockpit.actions.stopping.losses import lost_of
from cockpit.actions.stopping.rollback import PLACEHOLDER
from cockpit.actions.stopping.stop import (
    SAVE,
    Stop,
    can_save,
    evidence,
    health,
    loss,
    save_first,
    saving,
)
from cockpit.model import check_rows as rows
from cockpit.model.base import parse_duration
from cockpit.model.jobs import LiveJob, SchedulerOrder
from cockpit.model.plan import Check, Draft, Plan, Request
from cockpit.model.records import EventText
from cockpit.model.report import Verdict
from cockpit.model.wording import duration
from cockpit.text.checks import blocked, passed
from cockpit.text.safe import clean

LIMIT: Final = "limit"
BEGAN: Final = "began"
"""The fact that the order was about to be given, and when the job had begun by then."""
SAID: Final = "order-shows"
"""The fact that says what the scheduler has shown after the order."""
SHORTEST: Final = 60.0


class QueueOrder(Action):
    """Has the scheduler change how the run's one job waits or how long it may run."""

    exclusive = True
    starts: ClassVar[bool] = False
    """True where the job may start by it: then no other job of the lineage may be alive."""

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what the scheduler is asked for, and whether it may do that now."""
        limit = _limit(request) if self.verb == "extend" else ""
        jobs, check = await _ordered_job(context, _order(self.verb, limit))
        return Draft(
            words=f"{self.verb} {request.run}",
            checks=(check, *(lineage_jobs(context) if self.starts else ())),
            spares=tuple(job_name(job) for job in (*jobs, *context.live.beside)),
            facts={STOPS: "\n".join(job.id for job in jobs), **_asked(request), LIMIT: limit},
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: give the order, log it."""
        return (Step("order", _give, seen=_shown), *_records(plan))


class Hold(QueueOrder):
    """Keeps a waiting job from starting."""

    verb: ClassVar[str] = "hold"


class Release(QueueOrder):
    """Lets a held job start when its turn comes."""

    verb: ClassVar[str] = "release"
    starts: ClassVar[bool] = True


class Extend(QueueOrder):
    """Lengthens the time limit of a job."""

    verb: ClassVar[str] = "extend"


class Requeue(Stop):
    """Ends a running job and has its scheduler start it again under its own id.

    The batch script is the one that was submitted: it runs with the code and the checkpoints as
    they are then.
    """

    verb: ClassVar[str] = "requeue"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what is lost, what the trainer would load, and whether the code is what ran."""
        save = yes_param(request.params.get("save-first"), "save-first")
        jobs, check = await _ordered_job(context, _order(self.verb, ""))
        words, step = f"requeue {request.run}", context.report.progress.step
        healthy = context.report.verdict is Verdict.HEALTHY
        material, lost = await code.gather(context), lost_of(context.report)
        value = context.report.facets.checkpoints.value
        return Draft(
            words=f"{words} {step}" if healthy and step is not None else words,
            checks=(
                check,
                *lineage_jobs(context),
                health(context.report),
                loss(lost),
                *_resumes(context),
                *code.lineage(context, material.changes, material.prior),
                *setup.may_resume(context),
                *saving(context, save=save),
            ),
            stops=tuple(job_name(job) for job in jobs),
            spares=tuple(job_name(job) for job in context.live.beside),
            trainer_would_load=None if value is None else value.trainer_would_load,
            loses=None if lost is None else lost.text,
            lost=lost,
            can_save_first=can_save(context),
            facts={
                STOPS: "\n".join(job.id for job in jobs),
                "save-first": "yes" if save else "no",
                **_asked(request),
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: evidence, save if asked, requeue, log."""
        return (
            Step("evidence", evidence),
            Step(SAVE, save_first),
            Step("order", _give, seen=_shown),
            *_records(plan),
        )


def _asked(request: Request) -> dict[str, str]:
    return {"reason": clean(request.params.get("reason") or "")}


def _limit(request: Request) -> str:
    """Return the limit that was asked for, in seconds; raises ``RefuseError``."""
    text = (request.params.get(LIMIT) or "").strip()
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        why = "expected a duration such as 12h or 2d, counted from the job's start"
        raise RefuseError(f"--{LIMIT} is {clean(text)!r}; {why}") from error
    if seconds < SHORTEST:
        raise RefuseError(f"--{LIMIT} is {clean(text)!r}; a minute is the least")
    return f"{seconds:.0f}"


def _order(verb: str, limit: str) -> SchedulerOrder:
    return SchedulerOrder(verb=verb, limit=float(limit) if limit else None)


async def _ordered_job(
    context: ActionContext, order: SchedulerOrder
) -> tuple[tuple[LiveJob, ...], Check]:
    """Return the one job that is meant, and whether the scheduler may do that with it."""
    platform, live = context.acting_platform, context.live
    if platform is None:
        return (), blocked(rows.ORDERED, "no job in cockpit.toml that this version can act on")
    if live.unknown is not None:
        text = f"cannot tell which jobs of this run are alive: {live.unknown}"
        return (), blocked(rows.ORDERED, text)
    jobs = own_jobs(context)
    if len(jobs) != 1:
        names = ", ".join(map(job_name, jobs))
        text = f"several jobs of it are alive: {names}" if jobs else "no job of this run is alive"
        return (), blocked(rows.ORDERED, text)
    (job,) = jobs
    why = job.beyond or await platform.why_no_order(context.spec, job, order)
    if why is not None:
        return jobs, blocked(rows.ORDERED, f"{order.verb} {job_name(job)}: {why}", value=job.id)
    limit = "" if order.limit is None else f" {duration(order.limit)}"
    text = f"{order.verb} {job_name(job)}{limit}: {job.why}"
    return jobs, passed(rows.ORDERED, text, value=job.id)


def _resumes(context: ActionContext) -> list[Check]:
    """Check what the job would load once it begins anew."""
    command = context.spec.resubmit or ""
    words = command if isinstance(command, str) else " ".join(command)
    if PLACEHOLDER not in words:
        return checkpoint.resume_from(context, named=False)
    text = "its command names the checkpoint that it was launched with: it would load that again"
    return [blocked(rows.CHECKPOINT, f"{text}; relaunch instead")]


async def _planned_job(execution: Execution) -> LiveJob | None:
    """Return the job of the plan as it lives now; raises ``StepUnknownError``."""
    live, wanted = await execution.live(), execution.plan.facts[STOPS]
    found = next((job for job in live.jobs if job.id == wanted), None)
    if found is None and live.unknown is not None:
        raise StepUnknownError(f"cannot tell which jobs are alive: {live.unknown}")
    return found


def _asked_for(execution: Execution) -> SchedulerOrder:
    return _order(execution.plan.action, execution.plan.facts.get(LIMIT, ""))


async def _give(execution: Execution) -> str:
    job = await _planned_job(execution)
    if job is None:
        raise StepError("the job is not alive any more: nothing was ordered")
    began = "" if job.started_at is None else f"{job.started_at:.3f}"
    await execution.note(**{BEGAN: began})
    said = await execution.platform.order(execution.context.spec, job, _asked_for(execution))
    await execution.note(**{SAID: said})
    return said


async def _shown(execution: Execution) -> str | None:
    """Return that the scheduler shows what was ordered, if it was and does."""
    job, began = await _planned_job(execution), execution.facts.get(BEGAN)
    if job is None or began is None:
        return None
    before = job.model_copy(update={"started_at": float(began) if began else None})
    run = execution.context.spec
    return await execution.platform.shown_order(run, before, _asked_for(execution))


def _records(plan: Plan) -> tuple[Step, Step]:
    commit = f"{plan.run}: log {plan.action}"
    return (
        log_step(_entry, commit, after_failure=True),
        status_step(_status, f"{commit} in the run log"),
    )


def _entry(execution: Execution) -> EventText:
    trouble, verb = execution.trouble, execution.plan.action
    where, by = execution.facts.get("evidence"), execution.entry.operator
    return EventText(
        title=verb if trouble is None else f"{verb}: not finished",
        status=trouble or _status(execution),
        evidence=f"evidence: {where}" if where else "",
        decision=execution.facts.get("reason") or f"ordered by {by}",
        next="check how the job stands" if trouble else "",
    )


def _status(execution: Execution) -> str:
    said = execution.facts.get(SAID) or f"{execution.plan.action} ordered"
    return f"{said}, by {execution.entry.operator}"
