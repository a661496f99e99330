"""A-2, relaunch: the same lineage goes on from its newest complete checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.actions.checks import checkpoint, code, jobs, lineages, setup
from cockpit.actions.checks.checkpoint import last_step
from cockpit.actions.checks.code import Material, gather
from cockpit.actions.checks.config_file import ResolvedConfig, digest, read_config
from cockpit.actions.checks.jobs import alike_beside, job_name
from cockpit.actions.checks.lineages import present_failure
from cockpit.actions.checks.places import places
from cockpit.actions.checks.setup import for_dri, has_dri
from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    SkipStep,
    Step,
    StepError,
    yes_param,
)
from cockpit.actions.core.execution import STOPS, ordered, planned
from cockpit.actions.launching.compared import (
    Compared,
    WouldRun,
    compared,
    output_checks,
    snapshot_of,
)
from cockpit.actions.launching.launch_records import (
    FAILURE,
    RESTARTS,
    RESUMES_FROM,
    STATE_FILE,
    STOPPED,
    record_steps,
    resumed_step,
    standing_step,
    trouble_step,
)
from cockpit.actions.launching.submitting import CONFIRM, SNAPSHOT, submit, verify
from cockpit.actions.stopping.losses import LOST, loss_of
from cockpit.actions.stopping.stop import SAVE, can_save, evidence, save_first, saving, with_loss
from cockpit.actions.stopping.stop import gone as jobs_gone
from cockpit.actions.stopping.stop import stop as stop_jobs
from cockpit.model import check_rows as rows
from cockpit.model.base import Command
from cockpit.model.jobs import Submission
from cockpit.model.lineage import named, suspected, unlooked, would_resume
from cockpit.model.observed import CheckpointsValue, CodeValue, Pick
from cockpit.model.plan import Check, Draft, Loss, Plan, Request
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.model.wording import steps
from cockpit.platforms.base import CannotError, CommandError, LostError
from cockpit.platforms.command import as_sent, places_in, values_of, words_of
from cockpit.platforms.command import shown as shown_command
from cockpit.runtime.moment import Awake
from cockpit.runtime.offload import offload
from cockpit.store.journal import FAILED_STEP
from cockpit.store.store import StoreError, pack
from cockpit.text.checks import blocked, finding, warned
from cockpit.text.scrub import shown

CODE: Final = "code"
CONFIG: Final = "config_sha256"
SETTLES_WITHIN: Final = 20.0
LOOK_EVERY: Final = 1.0
DEADLINE: Final = 10.0


async def archive(execution: Execution) -> str:
    """Archive the evidence, and note the failure that this recovers from."""
    failure = present_failure(execution.context)
    monitor = execution.context.report.facets.monitor.value
    facts: dict[str, str] = {}
    if failure is not None:
        facts[FAILURE] = pack(failure)
        facts[FAILED_STEP] = "" if failure.step is None else str(failure.step)
    if monitor is not None and monitor.path is not None:
        facts[STATE_FILE] = monitor.path
        facts[RESTARTS] = str((monitor.restart_count or 0) + 1)
    await execution.note(**facts)
    return await evidence(execution)


async def stop(execution: Execution) -> str:
    """Stop what is left of the job; nothing else, and nothing when it is over."""
    if not planned(execution):
        raise SkipStep("the job has ended")
    await startable(execution)
    said = await stop_jobs(execution)
    try:
        await execution.note(**{STOPPED: "yes"})
    except StoreError as error:
        text = f"{said}; nothing was submitted: the journal could not be written: {error}"
        raise StepError(text) from error
    return said


async def startable(execution: Execution) -> None:
    """See once more that the new job could start; raises ``StepError``, and nothing is stopped."""
    run = execution.context.spec
    words, _ = filled(run, run.resubmit, execution, execution.plan.checkpoint)
    submission = Submission(run=run.name, launch_id=execution.launch_id, command=words)
    try:
        await execution.platform.try_start(run, submission)
    except (CannotError, LostError, TimeoutError) as error:
        raise StepError(f"nothing was stopped: a start would fail: {error}") from error


async def gone(execution: Execution) -> str | None:
    """Return that the old job is gone, if a stop that was cut short has done that."""
    said = await jobs_gone(execution)
    if said is not None and ordered(execution):
        await execution.note(**{STOPPED: "yes"})
    return said


async def look_again(execution: Execution) -> str:
    """Look once more before anything is started: the stop may have changed what is there.

    Raises ``StepError`` when another job lives, when code or config are others than planned, or
    when the checkpoint is neither the planned one nor a newer one that the stop has made.
    """
    await nothing_lives(execution, execution.context.spec)
    report, pick = await _settled(execution)
    noted = {RESUMES_FROM: "" if pick.step is None else str(pick.step), "checkpoint": pick.path}
    last = last_step(report)
    if execution.facts.get(STOPPED) and pick.step is not None and last is not None:
        lost = loss_of(report, max(0, last - pick.step), f"since step {steps(pick.step)}")
        noted[LOST] = lost.text
    await prepare(
        execution, execution.context.spec, execution.context.spec.resubmit, report, pick, noted
    )
    return f"resumes from {named(pick)}: {pick.path}"


async def nothing_lives(execution: Execution, run: RunSpec) -> None:
    """See that no job of the lineage lives, nor one like it that nobody approved (C-25).

    Raises ``StepError``.
    """
    live = await execution.live(run)
    if live.unknown is not None or live.jobs:
        left = live.unknown or ", ".join(job.name for job in live.jobs)
        raise StepError(f"not started: a job of this lineage may still be running: {shown(left)}")
    if run.name != execution.context.spec.name:
        return  # a new lineage: the old one's job runs the same script
    alike = (check for check in execution.plan.checks if check.id == rows.SIMILAR_JOB.id)
    seen = {each for check in alike for each in (check.value or "").split(", ")}
    new = [job for job in alike_beside(execution.context, live) if job.id not in seen]
    if new:
        left = "; ".join(f"{job.name} ({job.id}) {job.why}" for job in new)
        raise StepError(f"not started: {shown(left)}; plan again")


async def _settled(execution: Execution) -> tuple[RunReport, Pick]:
    """Look until the checkpoint is one that may be resumed from; raises ``StepError``."""
    clock = execution.context.parts.clock
    until = Awake(SETTLES_WITHIN, SETTLES_WITHIN / 2, clock.monotonic)
    while True:
        report = await execution.context.parts.look(execution.context.spec.name)
        found = _pick(execution, report.facets.checkpoints.value)
        if isinstance(found, Pick):
            return report, found
        if until.left() <= 0:
            raise StepError(f"not started: {found}")
        await clock.sleep(LOOK_EVERY)


def _pick(execution: Execution, value: CheckpointsValue | None) -> Pick | str:
    planned = execution.plan.checkpoint
    by_name = "checkpoint" in places_in(_words(execution.context.spec.resubmit))
    pick = would_resume(value, by_name=by_name) if value is not None else None
    if value is None or pick is None or planned is None:
        return "checkpoints unknown now"
    other = _other(planned, pick, value)
    if other is not None:
        return other
    theirs = value.trainer_would_load
    if by_name or execution.plan.trainer_would_load is None:
        return pick
    if theirs is None or theirs.path != pick.path:
        if theirs is None and value.unjudged:
            return f"{unlooked(value)}, so what the trainer would load is unknown"
        what = "nothing" if theirs is None else f"{named(theirs)} ({theirs.path})"
        return f"the trainer would load {what}, not {named(pick)}"
    return pick


def _other(planned: Pick, pick: Pick, value: CheckpointsValue) -> str | None:
    """Return why a pick is another one than planned, and none that the stop has made."""
    item = value.at(planned.path)
    if suspected(value, pick) is not None and (item is None or item.suspect is None):
        return f"{named(pick)} is suspect, and the planned one was not"
    if pick.step is None or planned.step is None:
        return None if pick.path == planned.path else f"the pick changed: {pick.path}"
    if pick.step < planned.step:
        return f"the newest complete checkpoint is step {steps(pick.step)} now, not the planned"
    if pick.step == planned.step and pick.path != planned.path:
        return f"another checkpoint of step {steps(pick.step)} was picked: {pick.path}"
    return None


def planned_facts(code: CodeValue | None, config: ResolvedConfig | None) -> dict[str, str]:
    """Return what tells one state of code and config from another, as facts of a plan."""
    state = ""
    if code is not None:
        dirty = " ".join(code.dirty)[:400]
        state = f"{code.sha} {code.patch_id or 'clean'} {len(code.dirty)} {dirty}"
    values = None if config is None else config.values
    return {CODE: state, CONFIG: "" if values is None else digest(values)}


async def prepare(
    execution: Execution,
    run: RunSpec,
    command: Command | None,
    report: RunReport,
    pick: Pick | None,
    noted: Mapping[str, str],
) -> None:
    """See that code and config are those of the plan, and note what is about to be launched.

    Raises ``StepError``.
    """
    code, file = report.facets.code.value, execution.context.spec.config_file
    try:
        config = None if file is None else await offload(read_config, file, deadline=DEADLINE)
    except TimeoutError as error:
        raise StepError(f"not started: {file} cannot be read in time") from error
    now, planned = planned_facts(code, config), execution.plan.facts
    if config is not None and config.values is None and planned.get(CONFIG):
        raise StepError(f"not started: the config file cannot be read now: {config.trouble}")
    for fact, what in ((CODE, "code"), (CONFIG, "config file")):
        if now[fact] != planned.get(fact, ""):
            raise StepError(f"not started: the {what} is not the planned one; plan again")
    words, template = filled(run, command, execution, pick)
    used = snapshot_of(execution, run, code, words, template, config, pick)
    await execution.note(**noted, **{SNAPSHOT: pack(used)})


def filled(
    run: RunSpec, command: Command | None, execution: Execution, pick: Pick | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the command's words as they run and as they are recorded; raises ``StepError``."""
    template = _words(command)
    try:
        values = values_for(run, execution.launch_id, pick)
        return as_sent(execution.platform, run, template, values), template
    except (CommandError, CannotError) as error:
        raise StepError(f"not started: {error}") from error


def values_for(run: RunSpec, launch_id: str | None, pick: Pick | None) -> dict[str, str | None]:
    """Return what the placeholders stand for where ``pick`` is what is loaded."""
    path, step = (pick.path, pick.step) if pick is not None else (None, None)
    return values_of(run, launch_id, path, step)


def _words(command: Command | None) -> tuple[str, ...]:
    try:
        return words_of(command or "")
    except CommandError as error:
        raise StepError(f"not started: {error}") from error


async def go(execution: Execution) -> str:
    """Submit the recorded command, filled in with the checkpoint that was just seen."""
    run = execution.context.spec
    step = int(execution.facts[RESUMES_FROM]) if execution.facts[RESUMES_FROM] else None
    pick = Pick(path=execution.facts["checkpoint"], step=step, why="checked just now")
    words, _ = filled(run, run.resubmit, execution, pick)
    return await submit(execution, run, words)


async def looked(execution: Execution) -> str:
    """See the new job alive."""
    return await verify(execution, execution.context.spec)


class RelaunchFindings(NamedTuple):
    """Everything that a relaunch is planned from."""

    material: Material
    would: WouldRun
    command: list[Check]
    compared: Compared


class Relaunch(Action):
    """Stops what is left of the job, submits the recorded command again, follows it."""

    verb = "relaunch"
    exclusive = True
    launches = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what ran beside what would run, and all that speaks against it."""
        save = yes_param(request.params.get("save-first"), "save-first")
        found = await _findings(context)
        own = jobs.own_jobs(context)
        value = context.report.facets.checkpoints.value
        lost = _loses(context.report, found.would.pick)
        return Draft(
            words=f"relaunch {request.run}",
            checks=for_dri(
                _checks(context, found, save=save),
                code.of_the_dri(context, found.material.changes),
                context.spec.dri,
            ),
            command=shown_command(found.would.words) or None,
            stops=tuple(job_name(job) for job in own),
            spares=tuple(job_name(job) for job in context.live.beside),
            checkpoint=found.would.pick,
            trainer_would_load=value.trainer_would_load if value is not None else None,
            differences=found.compared.differences,
            loses=None if lost is None else lost.text,
            lost=lost if own else None,
            can_save_first=bool(own) and can_save(context),
            facts={
                STOPS: "\n".join(job.id for job in own),
                "save-first": "yes" if save else "no",
                **planned_facts(context.report.facets.code.value, found.material.read.config),
            },
        )

    def measured(self, plan: Plan, report: RunReport) -> Plan:
        """Return the plan with what would be lost by now, while something is to be stopped."""
        if not plan.stops:
            return plan
        return with_loss(plan, _loses(report, plan.checkpoint))

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: evidence, save, stop, look again, submit, verify, then the records."""
        return (
            Step("evidence", archive),
            Step(SAVE, save_first),
            Step("stop", stop, seen=gone),
            Step("checkpoint", look_again),
            Step("submit", go),
            Step("verify", looked),
            *record_steps(plan.run, self.verb),
            *standing_step(plan),
            resumed_step(plan.run),
            CONFIRM,
            trouble_step(plan.run, self.verb),
        )


async def _findings(context: ActionContext) -> RelaunchFindings:
    material = await gather(context)
    value = context.report.facets.checkpoints.value
    command = context.spec.resubmit
    by_name = "checkpoint" in places_in(template_of(command))
    pick = would_resume(value, by_name=by_name) if value is not None else None
    values = values_for(context.spec, context.launch_id, pick)
    checks, words = setup.ready(context.platform, context.spec, command, values)
    would = WouldRun(words, template_of(command), pick)
    checks += await places(context, context.spec, words, pick)
    return RelaunchFindings(material, would, checks, compared(context, material, would))


def template_of(command: Command | None) -> tuple[str, ...]:
    """Return the recorded words; none where they cannot be read."""
    try:
        return () if command is None else words_of(command)
    except CommandError:
        return ()


def _checks(context: ActionContext, found: RelaunchFindings, *, save: bool) -> list[Check]:
    material, prior = found.material, found.material.prior
    named = "checkpoint" in places_in(found.would.template)
    return [
        *has_dri(context),
        *jobs.platform_acts(context),
        *jobs.relaunch_state(context),
        *jobs.lineage_jobs(context),
        *jobs.next_by_itself(context),
        *jobs.may_be_stopped(jobs.own_jobs(context)),
        *lineages.recoverable(context),
        *lineages.no_numbers_lost(context),
        *lineages.not_again(context, material.read.failures),
        *lineages.fixed(context, prior, found.compared.same),
        *code.lineage(context, material.changes, prior),
        *output_checks(context, material, found.would),
        *checkpoint.resume_from(context, named=named),
        *found.compared.checks,
        *setup.may_resume(context),
        *setup.same_tracker(context, prior),
        *found.command,
        *_saving(context, save),
        *_monitors(context),
        *store_there(context, material),
    ]


def _saving(context: ActionContext, save: bool) -> list[Check]:
    if save and not jobs.own_jobs(context):
        return [blocked(rows.SAVE_FIRST, "no job is alive that could save a checkpoint first")]
    return saving(context, save=save, say=warned)


def _monitors(context: ActionContext) -> list[Check]:
    """Warn of other monitors that would relaunch too."""
    monitor = context.report.facets.monitor.value
    others = [each for each in (monitor.others if monitor is not None else ()) if each.fresh]
    if not others:
        return []
    who = ", ".join(each.owner or each.path for each in others)
    return [finding(rows.MONITOR, f"another monitor watches this job and may act too: {who}")]


def store_there(context: ActionContext, material: Material) -> list[Check]:
    """Warn when the store could not be read: earlier launches and failures are then unknown."""
    if material.read.store_trouble is None:
        return []
    return [finding(rows.STORE, f"earlier launches are unknown: {material.read.store_trouble}")]


def _loses(report: RunReport, pick: Pick | None) -> Loss | None:
    """Return the steps that are trained again, and about how long that takes."""
    last = checkpoint.last_step(report)
    if pick is None or pick.step is None or last is None:
        return None
    return loss_of(report, max(0, last - pick.step), f"since step {steps(pick.step)}")
