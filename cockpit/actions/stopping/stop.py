"""A-5, stop: exactly the jobs of this lineage, gracefully; or only a launch still held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from cockpit.actions.checks.jobs import (
    QUEUED,
    job_name,
    jobs_of_others,
    may_be_stopped,
    queued_jobs,
)
from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    RefuseError,
    SkipStep,
    Step,
    StepError,
    StepUnknownError,
    looking_first,
    other_than,
    plural,
    safe,
    yes_param,
)
from cockpit.actions.core.evidence import archive
from cockpit.actions.core.execution import STOPS, ended_words, order, ordered, planned, spared
from cockpit.actions.core.recording import log_step, status_step
from cockpit.actions.stopping import losses
from cockpit.actions.stopping.losses import (
    CANCEL,
    LOST,
    SUCCESSORS,
    NoSaveError,
    Saves,
    SavesUnknownError,
    lost_of,
)
from cockpit.model import check_rows as rows
from cockpit.model.check_rows import CheckRow
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.plan import Basis, Check, Draft, Level, Loss, Plan, Request, StepState, deeds
from cockpit.model.records import EventText
from cockpit.model.report import RunReport, Verdict
from cockpit.model.wording import steps
from cockpit.runtime.moment import Awake
from cockpit.text.checks import blocked, finding, passed, warned

ONLY: Final = "only"
HELD: Final = "held"


def asked_for(request: Request) -> bool:
    """Tell whether only what is held is to be cancelled; raises ``RefuseError`` for other words."""
    word = (request.params.get(ONLY) or "").strip().lower()
    if word not in ("", HELD):
        raise RefuseError(f"--{ONLY} is {safe(word)!r}; expected {HELD}")
    return word == HELD


def draft(context: ActionContext, request: Request) -> Draft:
    """Return which held jobs would be cancelled; whatever else lives is spared."""
    live = context.live
    return Draft(
        words=f"stop {request.run} {HELD}",
        checks=(_held(context),),
        stops=tuple(job_name(job) for job in live.held),
        spares=tuple(job_name(job) for job in (*live.jobs, *live.possible, *live.spared)),
        facts={
            STOPS: "\n".join(job.id for job in live.held),
            ONLY: HELD,
            "why": "; ".join(dict.fromkeys(job.why for job in live.held)),
            "reason": safe(request.params.get("reason") or ""),
        },
    )


def _held(context: ActionContext) -> Check:
    live = context.live
    if live.unknown is not None:
        return blocked(rows.STOPPABLE, f"cannot tell which jobs are held: {live.unknown}")
    if not live.held:
        return blocked(rows.STOPPABLE, "no held job of this run: nothing to cancel")
    how = "; ".join(f"{job_name(job)}: {job.why}" for job in live.held)
    return passed(rows.STOPPABLE, f"{plural(len(live.held), 'held job')}: {how}")


def held_steps(plan: Plan) -> Sequence[Step]:
    """Return: cancel, log."""
    return (
        Step("stop", cancel, seen=held_gone),
        log_step(_held_entry, f"{plan.run}: log stop of what was held", after_failure=True),
    )


async def cancel(execution: Execution) -> str:
    """Cancel exactly the held jobs of the plan that still are held."""
    jobs = _planned(execution, (await _live(execution)).held)
    if not jobs:
        raise SkipStep("no job of it is held any more")
    await order(execution, jobs)
    platform = execution.context.acting_platform
    assert platform is not None
    await platform.stop(execution.context.spec, jobs)
    return await _cancelled(execution, await _live(execution, told=True))


async def held_gone(execution: Execution) -> str | None:
    """Return that nothing of what was to be cancelled is held, if that is so."""
    live = await _live(execution)
    return None if _planned(execution, live.held) else await _cancelled(execution, live)


async def _cancelled(execution: Execution, live: Live) -> str:
    """Note and return what was cancelled: one that was let go meanwhile lives, and was not."""
    freed = {job.id for job in _planned(execution, (*live.jobs, *live.possible))}
    done = [each for each in ordered(execution) if each not in freed]
    await execution.note(**{STOPS: "\n".join(done)})
    if not done:
        return "no job of it is held any more, and nothing was cancelled"
    return f"{plural(len(done), 'held job')} cancelled: {', '.join(done)}"


async def _live(execution: Execution, *, told: bool = False) -> Live:
    live = await execution.live()
    if live.unknown is not None:
        text = f"cannot tell which jobs are held: {live.unknown}"
        raise StepUnknownError(text) if told else StepError(text)
    return live


def _planned(execution: Execution, jobs: Sequence[LiveJob]) -> tuple[LiveJob, ...]:
    wanted = planned(execution)
    return tuple(job for job in jobs if job.id in wanted)


def _held_entry(execution: Execution) -> EventText:
    trouble, by = execution.trouble, execution.entry.operator
    done, left = f"cancelled by {by}, never having run", "not held any more, so not cancelled"
    return EventText(
        title="stop: what was held" if trouble is None else "stop of what was held: not finished",
        status=trouble or ended_words(execution, done, left),
        evidence=execution.plan.facts.get("why") or "accepted for a launch and never released",
        decision=execution.facts.get("reason") or "a leftover of a launch",
        next=_held_next(trouble, left=bool(spared(execution))),
    )


def _held_next(trouble: str | None, *, left: bool) -> str:
    if trouble is not None:
        return "check whether it is still held"
    return "check whether what is no longer held is running" if left else "nothing"


SAVE: Final = "save"
SAVED_WITHIN: Final = 120.0
"""Seconds within which a checkpoint is complete, unless former ones have taken longer."""
SAVE_PATIENCE: Final = 2.0
"""How many times as long as the longest former save the next one may take."""


STARTED_WITHIN: Final = 10.0
"""Seconds in which a program that starts a job again (supervisord, a loop) has mostly done so."""
STARTED_LOOK: Final = 0.5


class Stop(Action):
    """Stops the live jobs of a run; nothing that merely looks like one of them."""

    verb = "stop"
    exclusive = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what would die, what would not, and what would be lost."""
        if asked_for(request):
            return draft(context, request)
        save = yes_param(request.params.get("save-first"), "save-first")
        wanted = yes_param(request.params.get(SUCCESSORS), SUCCESSORS)
        others = await jobs_of_others(context)
        theirs = tuple(job for job in context.live.jobs if job.id in others)
        context = replace(context, live=_without(context.live, theirs))
        live, words = context.live, f"stop {request.run}"
        ends = (*live.jobs, *losses.to_cancel(context, wanted=wanted))
        stays = (*theirs, *live.beside, *losses.left_alone(context, wanted=wanted))
        healthy = context.report.verdict is Verdict.HEALTHY
        step = context.report.progress.step
        only_queued = _only_queued(context, wanted=wanted)
        lost = None if only_queued else lost_of(context.report)
        return Draft(
            words=f"{words} {step}" if healthy and step is not None else words,
            checks=(
                *_alive(context, wanted=wanted),
                *(_not_mine(job, others[job.id]) for job in theirs),
                *losses.checks(context, wanted=wanted),
                health(context.report),
                *(() if only_queued else (loss(lost),)),
                *saving(context, save=save),
            ),
            stops=tuple(job_name(job) for job in ends),
            spares=tuple(job_name(job) for job in stays),
            loses=None if lost is None else lost.text,
            lost=lost,
            can_save_first=can_save(context),
            can_cancel_next=losses.may_cancel(context),
            facts={
                STOPS: "\n".join(job.id for job in ends),
                **losses.facts(context, wanted=wanted),
                "save-first": "yes" if save else "no",
                "reason": safe(request.params.get("reason") or ""),
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: evidence, save if asked, what starts by itself if asked, stop, log."""
        if plan.facts.get(ONLY) == HELD:
            return held_steps(plan)
        return (
            Step("evidence", evidence),
            Step(SAVE, save_first),
            *([CANCEL] if plan.facts.get(SUCCESSORS) else []),
            Step("stop", stop_and_measure, seen=gone_and_measured),
            looking_first(
                log_step(_entry, f"{plan.run}: log stop", after_failure=True), _was_ordered
            ),
            status_step(_status, f"{plan.run}: log stop in the run log"),
        )

    def revalidate(self, shown: Plan, now: Plan) -> str | None:
        """Return what changed: another set of jobs, or a block; a living run moves on by itself."""
        if deeds(shown.facts) != deeds(now.facts) or shown.stops != now.stops:
            if shown.stops == now.stops:
                return other_than(shown, now)
            return f"the live jobs changed: {', '.join(now.stops) or 'none'}"
        for check in now.checks:
            if check.stands_in_the_way and _level(shown, check.id) is not Level.BLOCK:
                return f"{check.id}: {check.text}"
        if (
            _level(shown, rows.HEALTH.id) is Level.PASS
            and _level(now, rows.HEALTH.id) is Level.WARN
        ):
            return "the run is healthy now: more is asked for before it is stopped"
        return None

    def measured(self, plan: Plan, report: RunReport) -> Plan:
        """Return the plan with what would be lost by now, where something may be."""
        if _level(plan, rows.LOSES.id) is None:
            return plan
        return with_loss(plan, lost_of(report))


def _level(plan: Plan, name: str) -> Level | None:
    return next((check.level for check in plan.checks if check.id == name), None)


def _alive(context: ActionContext, *, wanted: bool) -> Iterator[Check]:
    live = context.live
    if live.unknown is not None:
        yield blocked(rows.STOPPABLE, f"cannot tell which jobs are alive: {live.unknown}")
    elif _only_queued(context, wanted=wanted):
        text = "no job of this run is alive: only what would start by itself ends"
        yield passed(rows.STOPPABLE, text)
    elif not live.jobs:
        yield blocked(rows.STOPPABLE, f"no job of this run is alive: {_only_held(context)}")
    else:
        how = "; ".join(f"{job_name(job)}: {job.why}" for job in live.jobs)
        yield passed(rows.STOPPABLE, f"{plural(len(live.jobs), 'job')} of this lineage: {how}")
    yield from may_be_stopped(live.jobs)
    if len(live.jobs) > 1:
        text = "more than one job of this lineage is alive: all will be stopped"
        yield finding(rows.STOPS_SEVERAL, text)


def _without(live: Live, others: Sequence[LiveJob]) -> Live:
    jobs = tuple(job for job in live.jobs if job not in others)
    return live.model_copy(update={"jobs": jobs})


def _not_mine(job: LiveJob, run: str) -> Check:
    text = f"{job_name(job)} writes here too, and is the job of {run}: it is not stopped by this"
    return finding(rows.STOPS_ANOTHER, f"{text} (cockpit stop {run})", value=job.id)


def _only_queued(context: ActionContext, *, wanted: bool) -> bool:
    live = context.live
    nothing = live.unknown is None and not live.jobs
    return nothing and wanted and losses.may_cancel(context)


def _only_held(context: ActionContext) -> str:
    """Return what there is to stop where nothing lives: what waits held, by its own words."""
    names = ", ".join(map(job_name, context.live.held))
    if not names:
        return "nothing to stop"
    return f"{names} is only held: cockpit stop {context.spec.name} --only held cancels it"


def health(report: RunReport) -> Check:
    """Return how the run is: a healthy one loses what it does."""
    if report.verdict is Verdict.HEALTHY:
        return warned(rows.HEALTH, "the run is healthy: what it does is lost by stopping it")
    return passed(rows.HEALTH, f"the run is {report.verdict.value}: {report.next_action}")


def with_loss(plan: Plan, lost: Loss | None) -> Plan:
    """Return a plan with another loss, wherever it says one."""
    checks = tuple(loss(lost) if check.id == rows.LOSES.id else check for check in plan.checks)
    text = None if lost is None else lost.text
    return plan.model_copy(update={"loses": text, "lost": lost, "checks": checks})


def loss(lost: Loss | None) -> Check:
    """Return what would be lost: a figure that moves by itself while the run lives."""
    if lost is None:
        text = "what would be lost is unknown"
        return finding(rows.LOSES, text, Basis.INFERRED, moves=True)
    return finding(rows.LOSES, f"loses {lost.text}", moves=True)


def saving(
    context: ActionContext, *, save: bool, say: Callable[[CheckRow, str], Check] = passed
) -> list[Check]:
    """Return what is said of saving first, where that is asked for."""
    if not save:
        return []
    why_not = why_no_save(context)
    if why_not is not None:
        return [blocked(rows.SAVE_FIRST, why_not)]
    return [say(rows.SAVE_FIRST, "a checkpoint is asked for first; without it nothing is stopped")]


async def _was_ordered(execution: Execution) -> None:
    """See that a stop was ordered: one that never was leaves nothing to log."""
    if execution.trouble is not None and not ordered(execution):
        raise SkipStep("no job was told to stop")


def _entry(execution: Execution) -> EventText:
    where, by = execution.facts.get("evidence"), execution.entry.operator
    archived = f"evidence: {where}" if where else ""
    if execution.trouble is not None:
        return EventText(
            title="stop: not finished",
            status=execution.trouble,
            evidence=archived,
            decision=f"stop ordered by {by}",
            next="check whether it still runs, then stop it again",
        )
    decision = "stopped on purpose" if ordered(execution) else f"stop ordered by {by}"
    return EventText(
        title="stop" if ordered(execution) else "stop: nothing was stopped",
        status=ended_words(execution, f"stopped by {by}", "not running any more, so not stopped"),
        evidence="; ".join(filter(None, (_lost_or_saved(execution), archived))),
        decision=execution.facts.get("reason") or decision,
        next=_next(execution),
    )


def _next(execution: Execution) -> str:
    queued = execution.facts.get(QUEUED)
    if queued:
        return f"{queued} starts by itself now"
    return "relaunch when it may continue" if ordered(execution) else "check how it ended"


def _status(execution: Execution) -> str:
    reason, step = execution.facts.get("reason"), execution.context.report.progress.step
    by = execution.entry.operator
    if losses.only_these(execution.plan.facts):
        told = ended_words(execution, f"cancelled by {by}", "not waiting any more")
        return ", ".join(filter(None, (told, reason)))
    parts = (
        f"stopped by {by}"
        if ordered(execution)
        else f"{by} meant to stop it: it had ended already",
        "" if step is None else f"near step {steps(step)}",
        _lost_or_saved(execution),
        reason,
    )
    return ", ".join(filter(None, parts))


def _lost_or_saved(execution: Execution) -> str:
    saved = execution.facts.get("saved")
    if saved:
        lost = f"; lost {execution.facts[LOST]}" if execution.facts.get(LOST) else ""
        return f"a checkpoint was saved first, at step {saved}{lost}"
    if execution.facts.get(LOST):
        return f"lost {execution.facts[LOST]}, measured when it had ended"
    loses = execution.plan.loses
    return f"what was lost is unknown; the plan said: {loses}" if loses else ""


def can_save(context: ActionContext) -> bool:
    """Return whether every live job of the run can be asked for a checkpoint."""
    return why_no_save(context) is None


def why_no_save(context: ActionContext) -> str | None:
    """Return why a live job of the run cannot be asked for a checkpoint; ``None``: all can."""
    platform = context.acting_platform
    if platform is None or not context.live.jobs:
        return "no job is alive that could save a checkpoint first"
    answers = (platform.can_save(context.spec, job) for job in context.live.jobs)
    return next((why for why in answers if why is not None), None)


def save_within(context: ActionContext) -> float:
    """Return in how many seconds a checkpoint that is asked for should be complete.

    How long that takes is known from the run's former saves alone, as the journal dates them.
    """
    took = [
        save.at - before.at
        for entry in context.entries
        for before, save in pairwise(entry.steps)
        if save.name == SAVE and save.state is StepState.DONE
    ]
    return max(SAVED_WITHIN, SAVE_PATIENCE * max(took, default=0.0))


async def evidence(execution: Execution) -> str:
    """Archive log, orchestrator's answer and device state before anything is stopped (SPEC A)."""
    context, jobs = execution.context, await _mine(execution)
    live = context.live.model_copy(update={"jobs": jobs})
    archived = await archive(context.spec, context.report, execution.platform, live)
    await execution.note(evidence=safe(archived.path or "none could be kept"))
    return archived.text


async def save_first(execution: Execution) -> str:
    """Ask for a checkpoint and wait until one is complete; without it nothing is stopped."""
    if execution.facts.get("save-first") != "yes":
        raise SkipStep("not asked for")
    run = execution.context.spec
    saves = Saves(run, execution.context.parts.clock)
    try:
        before = await saves.complete()
    except SavesUnknownError as error:
        raise StepError(f"no save was requested, since none would be seen: {error}") from error
    for job in await _mine(execution):
        await execution.platform.save(run, job)
    try:
        new = await saves.new(before, save_within(execution.context), lambda: _some(execution))
    except NoSaveError as error:
        raise StepError(str(error)) from error
    await execution.note(saved=steps(new))
    return f"a checkpoint was saved at step {steps(new)}"


async def _some(execution: Execution) -> bool:
    """Tell whether any job of the plan lives; so it counts where that is not known."""
    try:
        return bool(await _mine(execution))
    except StepError:
        return True


async def stop(execution: Execution) -> str:
    """Stop exactly the jobs of the plan that still live, and see that they are gone."""
    run, jobs = execution.context.spec, await _mine(execution)
    if not jobs:
        only_queued = losses.only_these(execution.plan.facts)
        raise SkipStep(
            "nothing was running" if only_queued else "they ended by themselves meanwhile"
        )
    await order(execution, jobs)
    await execution.platform.stop(run, jobs)
    await _see_gone(execution, jobs)
    return f"{plural(len(jobs), 'job')} stopped: {', '.join(map(job_name, jobs))}"


async def _see_gone(execution: Execution, jobs: Sequence[LiveJob]) -> None:
    """See that the jobs are gone, and that whatever has started them does not start the next."""
    run, clock = execution.context.spec, execution.context.parts.clock
    starters = [job.starter for job in jobs if job.starter is not None]
    within = STARTED_WITHIN if starters else 0.0
    until = Awake(within, within, clock.monotonic)
    expected = {*planned(execution), *(job.id for job in queued_jobs(execution.context))}
    expected |= set(await jobs_of_others(execution.context))
    while True:
        after = await execution.live(run)
        left = [job_name(job) for job in after.jobs if job.id in {each.id for each in jobs}]
        if left:
            raise StepError(f"still alive after the stop: {', '.join(left)}")
        if after.unknown is not None:
            raise StepUnknownError(f"stopped, but cannot tell whether it is gone: {after.unknown}")
        begun = [job for job in after.jobs if job.id not in expected]
        if begun:
            by = next((job.starter for job in begun if job.starter), None)
            ends = f"end what starts it ({by})" if by else "find what starts it"
            raise StepError(
                f"{', '.join(map(job_name, jobs))} ended, but the run goes on:"
                f" {', '.join(map(job_name, begun))} has started since; {ends}, then stop it again"
            )
        if until.left() <= 0:
            return
        await clock.sleep(STARTED_LOOK)


async def stop_and_measure(execution: Execution) -> str:
    """Stop the jobs, and see what that has really lost: steps went on until they ended."""
    said = await stop(execution)
    return "; ".join(filter(None, (said, await measure(execution))))


async def measure(execution: Execution) -> str:
    """Note what was lost, as it is now that the job has ended; nothing where that is not known."""
    try:
        report = await execution.context.parts.look(execution.context.spec.name)
    except (TimeoutError, OSError):
        return ""
    lost = lost_of(report)
    if lost is None:
        return ""
    await execution.note(**{LOST: lost.text})
    return f"lost {lost.text}"


async def gone(execution: Execution) -> str | None:
    """Return that nothing that was to be stopped is running any more, if that is so."""
    if await _mine(execution):
        return None
    if not ordered(execution):  # whatever has ended it, this was not told
        await execution.note(**{STOPS: ""})
    return "nothing that was to be stopped is running"


async def gone_and_measured(execution: Execution) -> str | None:
    """Return that it is gone, and what that has lost: a stop that was cut short has done it."""
    said, run = await gone(execution), execution.context.spec
    if said is None or not ordered(execution):
        return said
    if (await execution.live(run)).jobs:  # the steps are another one's now
        return said
    return "; ".join(filter(None, (said, await measure(execution))))


async def _mine(execution: Execution) -> tuple[LiveJob, ...]:
    """Return the jobs of the plan that are alive now: nothing that appeared since."""
    wanted = planned(execution)
    live = await execution.live()
    if live.unknown is not None:
        raise StepError(f"cannot tell which jobs are alive: {live.unknown}")
    return tuple(job for job in live.jobs if job.id in wanted)
