"""A-1, launch: a run's first job, with everything validated and written down before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.actions.checks import away, checkpoint, code, commands, identity, jobs, people, records
from cockpit.actions.checks.checkpoint import initialize_from, named_step
from cockpit.actions.checks.jobs import job_name
from cockpit.actions.checks.material import DEADLINE, Material, gather
from cockpit.actions.checks.places import places
from cockpit.actions.checks.records import linked_issue
from cockpit.actions.core.action import Action, Execution, SkipStep, Step, StepError
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.recording import ISSUE, lasting
from cockpit.actions.launching.compared import WouldRun, output_checks
from cockpit.actions.launching.launch_records import record_steps, trouble_step
from cockpit.actions.launching.relaunch import store_there, template_of
from cockpit.actions.launching.relaunch_steps import (
    filled,
    looked,
    nothing_lives,
    planned_facts,
    prepare,
)
from cockpit.actions.launching.run_log_steps import launched_step
from cockpit.actions.launching.submitting import CONFIRM, submit
from cockpit.actions.stopping.stop import evidence
from cockpit.model.observed import Pick
from cockpit.model.plan import Basis, Check, Difference, Draft, Plan, Request
from cockpit.model.run import RunSpec
from cockpit.platforms.command import shown as shown_command
from cockpit.platforms.command import values_of
from cockpit.records.issue.creating import LABELS, logbook_link
from cockpit.records.issue.text import new_issue, title
from cockpit.records.logbook.reading import Logbook
from cockpit.runtime.offload import offload
from cockpit.text.checks import passed, warned
from cockpit.text.scrub import shown

BODY: Final = "issue_body"


class LaunchLook(NamedTuple):
    """Everything that a launch is planned from."""

    material: Material
    would: WouldRun
    command: list[Check]
    origin: list[Check]
    issue: str = ""


class LaunchAction(Action):
    """Starts a run that has no job yet; one that has is relaunched."""

    verb = "launch"
    exclusive = True
    launches = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what would be started, and all that is missing before it may be."""
        found = await _look(context)
        return Draft(
            words=f"launch {request.run}",
            checks=people.for_dri(
                _checks(context, found),
                [checkpoint.NONE, *code.of_the_dri(context, found.material.changes)],
                context.spec.dri,
            ),
            command=shown_command(found.would.words) or None,
            spares=tuple(job_name(job) for job in context.live.beside),
            differences=(Difference(what="command", ran=None, would_run=found.would.shown),),
            page=preview(context.spec, found.issue) if found.issue else None,
            facts={
                **planned_facts(context.report.facets.code.value, found.material.read.config),
                **({BODY: found.issue} if found.issue else {}),
            },
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: evidence of a job before, look again, the issue, submit, verify, the records."""
        return (
            Step("evidence", archive),
            Step("checkpoint", look_again),
            create_step(),
            Step("submit", go),
            Step("verify", looked),
            *record_steps(plan.run, self.verb),
            launched_step(plan.run),
            CONFIRM,
            trouble_step(plan.run, self.verb),
        )


async def _look(context: ActionContext) -> LaunchLook:
    material = await gather(context)
    spec = context.spec
    source = spec.checkpoints.initialize_from if spec.checkpoints is not None else None
    command = spec.launch or spec.resubmit
    values = values_of(spec, context.launch_id, None if source is None else str(source), None)
    checks, words = commands.ready(context.platform, spec, command, values)
    if source is None or source.here:
        origin = await offload(initialize_from, spec, deadline=DEADLINE)
    else:
        origin = [await away.origin(source, context.parts.clock)]
    would = WouldRun(words, template_of(command), None)
    checks += await places(context, spec, words, _origin(spec))
    issue = await issue_to_create(spec, material.read.book, shown_command(words) or None)
    return LaunchLook(material, would, checks, origin, issue)


def _checks(context: ActionContext, found: LaunchLook) -> list[Check]:
    material = found.material
    return [
        *people.has_dri(context),
        *people.dri_knows(context),
        *jobs.platform_acts(context),
        *jobs.launch_state(context),
        *jobs.lineage_jobs(context),
        *jobs.next_by_itself(context),
        *code.lineage(context, material.changes, material.prior, first=True),
        *output_checks(context, material, found.would),
        *checkpoint.from_scratch(context),
        *found.origin,
        *identity.unused_tracker(context),
        *records.kept_records(context, material.read.book, material.read.book_trouble),
        *found.command,
        *_config(found.material),
        *store_there(context, material),
    ]


def _config(material: Material) -> list[Check]:
    """Say which config the launch is recorded with: the next relaunch is compared with it."""
    config = material.read.config
    if config is None or config.values is None:
        why = "no config_file is named" if config is None else config.trouble
        text = f"{why}: later relaunches cannot be compared with this launch"
        return [warned("config", text, Basis.INFERRED)]
    text = f"{len(config.values)} settings of {config.source} are recorded with the launch"
    return [passed("config", text)]


def to_create(run: RunSpec, book: Logbook | None) -> bool:
    """Tell whether a launch creates the issue: none is named, linked, and a place for it is."""
    records = run.records
    return records.issue is None and records.issue_repo is not None and linked_issue(book) is None


async def issue_to_create(run: RunSpec, book: Logbook | None, command: str | None) -> str:
    """Return the text of the issue that a launch creates, if it does: contract and logbook."""
    if not to_create(run, book):
        return ""
    if run.records.logbook is None:
        return new_issue(run, command=command)
    path, url = await logbook_link(run.records.logbook)
    return new_issue(run, logbook=path, logbook_url=url, command=command)


def preview(run: RunSpec, body: str) -> str:
    """Return what the plan shows of the issue that will be created."""
    head = f"A new issue in {shown(run.records.issue_repo or '')}, labels {', '.join(LABELS)}:"
    return f"{head}\n\n# {title(run)}\n\n{body}"


def create_step() -> Step:
    """Return the step that creates the issue and links it; nothing is started without it."""

    async def run(execution: Execution) -> str:
        spec, body = execution.context.spec, execution.plan.facts.get(BODY)
        if not body:
            raise SkipStep(
                "there is one" if spec.records.issue else "no issue_repo to create one in"
            )
        recorder = execution.context.parts.recorder
        made = await recorder.create_issue(spec, body)
        if made.url is None or made.trouble is not None:
            hint = f" ({made.url})" if made.url else ""
            raise StepError(f"not started: the issue: {made.trouble or 'it has no address'}{hint}")
        await execution.note(**{ISSUE: made.url})
        if spec.records.logbook is not None:
            commit = f"{spec.name}: link the issue"
            lasting(await recorder.contract(spec, {"Issue": made.url}, commit))
        return f'created {made.url}; add it to the run file: issue = "{made.url}"'

    return Step("create-issue", run)


async def archive(execution: Execution) -> str:
    """Archive what a job before this one has left; a run that never ran has nothing."""
    if execution.context.report.facets.job.value is None:
        raise SkipStep("no earlier job")
    return await evidence(execution)


async def look_again(execution: Execution) -> str:
    """Look once more before anything is started; raises ``StepError``."""
    run = execution.context.spec
    await nothing_lives(execution, run)
    report = await execution.context.parts.look(run.name)
    value = report.facets.checkpoints.value
    if value is not None and any(item.complete for item in value.items):
        raise StepError("not started: there is a complete checkpoint now, so this is a relaunch")
    if value is not None and value.unlisted:
        raise StepError(f"not started: {shown(', '.join(value.unlisted))} could not be listed")
    await prepare(execution, run, run.launch or run.resubmit, report, _origin(run), {})
    return "no job of this lineage is alive, and there is no complete checkpoint"


async def go(execution: Execution) -> str:
    """Submit the recorded launch command."""
    run = execution.context.spec
    words, _ = filled(run, run.launch or run.resubmit, execution, _origin(run))
    return await submit(execution, run, words)


def _origin(run: RunSpec) -> Pick | None:
    """Return the checkpoint of another run that this one begins with, if it does."""
    source = run.checkpoints.initialize_from if run.checkpoints is not None else None
    if source is None:
        return None
    return Pick(path=str(source), step=named_step(source.path) or 0, why="initialize_from")
