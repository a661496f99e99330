"""A-2, relaunch: the same lineage goes on from its newest complete checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cockpit.actions.checks import checkpoint, code, commands, identity, jobs, recover
from cockpit.actions.checks.jobs import job_name
from cockpit.actions.checks.material import Material, gather
from cockpit.actions.checks.people import for_dri, has_dri
from cockpit.actions.checks.places import places
from cockpit.actions.core.action import Action, Step
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.orders import STOPS
from cockpit.actions.core.parameters import yes_param
from cockpit.actions.launching.compared import Compared, WouldRun, compared, output_checks
from cockpit.actions.launching.launch_records import record_steps, trouble_step
from cockpit.actions.launching.relaunch_steps import (
    archive,
    go,
    gone,
    look_again,
    looked,
    planned_facts,
    stop,
    values_for,
)
from cockpit.actions.launching.run_log_steps import resumed_step
from cockpit.actions.launching.submitting import CONFIRM
from cockpit.actions.stopping.losses import loss_of
from cockpit.actions.stopping.stop import (
    SAVE,
    can_save,
    save_first,
    saving,
    with_loss,
)
from cockpit.model.lineage import would_resume
from cockpit.model.observed import Pick
from cockpit.model.plan import Check, Draft, Loss, Plan, Request
from cockpit.model.report import RunReport
from cockpit.model.run import Command
from cockpit.model.wording import steps
from cockpit.platforms.base import CommandError
from cockpit.platforms.command import places_in, words_of
from cockpit.platforms.command import shown as shown_command
from cockpit.text.checks import blocked, warned


class RelaunchLook(NamedTuple):
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
        found = await _look(context)
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
            resumed_step(plan.run),
            CONFIRM,
            trouble_step(plan.run, self.verb),
        )


async def _look(context: ActionContext) -> RelaunchLook:
    material = await gather(context)
    value = context.report.facets.checkpoints.value
    command = context.spec.resubmit
    by_name = "checkpoint" in places_in(template_of(command))
    pick = would_resume(value, by_name=by_name) if value is not None else None
    values = values_for(context.spec, context.launch_id, pick)
    checks, words = commands.ready(context.platform, context.spec, command, values)
    would = WouldRun(words, template_of(command), pick)
    checks += await places(context, context.spec, words, pick)
    return RelaunchLook(material, would, checks, compared(context, material, would))


def template_of(command: Command | None) -> tuple[str, ...]:
    """Return the recorded words; none where they cannot be read."""
    try:
        return () if command is None else words_of(command)
    except CommandError:
        return ()


def _checks(context: ActionContext, found: RelaunchLook, *, save: bool) -> list[Check]:
    material, prior = found.material, found.material.prior
    named = "checkpoint" in places_in(found.would.template)
    return [
        *has_dri(context),
        *jobs.platform_acts(context),
        *jobs.relaunch_state(context),
        *jobs.lineage_jobs(context),
        *jobs.next_by_itself(context),
        *jobs.may_be_stopped(jobs.own_jobs(context)),
        *recover.recoverable(context),
        *recover.no_numbers_lost(context),
        *recover.not_again(context, material.read.failures),
        *recover.fixed(context, prior, found.compared.same),
        *code.lineage(context, material.changes, prior),
        *output_checks(context, material, found.would),
        *checkpoint.resume_from(context, named=named),
        *found.compared.checks,
        *identity.may_resume(context),
        *identity.same_tracker(context, prior),
        *found.command,
        *_saving(context, save),
        *_monitors(context),
        *store_there(context, material),
    ]


def _saving(context: ActionContext, save: bool) -> list[Check]:
    if save and not jobs.own_jobs(context):
        return [blocked("save", "no job is alive that could save a checkpoint first")]
    return saving(context, save=save, say=warned)


def _monitors(context: ActionContext) -> list[Check]:
    """Warn of other monitors that would relaunch too."""
    monitor = context.report.facets.monitor.value
    others = [each for each in (monitor.others if monitor is not None else ()) if each.fresh]
    if not others:
        return []
    who = ", ".join(each.owner or each.path for each in others)
    return [warned("monitor", f"another monitor watches this job and may act too: {who}")]


def store_there(context: ActionContext, material: Material) -> list[Check]:
    """Warn when the store could not be read: earlier launches and failures are then unknown."""
    if material.read.store_trouble is None:
        return []
    return [blocked("store", f"earlier launches are unknown: {material.read.store_trouble}")]


def _loses(report: RunReport, pick: Pick | None) -> Loss | None:
    """Return the steps that are trained again, and about how long that takes."""
    last = checkpoint.last_step(report)
    if pick is None or pick.step is None or last is None:
        return None
    return loss_of(report, max(0, last - pick.step), f"since step {steps(pick.step)}")
