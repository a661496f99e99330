"""A-1, launch, a run's first job; and adopt, which takes over one started by hand (SPEC J)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.actions.checks import checkpoint, code, jobs, setup
from cockpit.actions.checks.checkpoint import initialize_from, named_step
from cockpit.actions.checks.code import DEADLINE, Material, gather
from cockpit.actions.checks.jobs import adoption_checks, job_name, whose_else
from cockpit.actions.checks.places import places
from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    SkipStep,
    Step,
    StepError,
    StepUnknownError,
    required_param,
)
from cockpit.actions.core.recording import (
    ISSUE,
    approvals_text,
    instance_step,
    lasting,
    linked_issue,
    log_step,
    logbook_check,
    shared_fact,
    stored,
)
from cockpit.actions.launching.compared import WouldRun, output_checks
from cockpit.actions.launching.launch_records import (
    RESTARTS,
    STATE_FILE,
    launched_step,
    record_steps,
    state_file_step,
    trouble_step,
)
from cockpit.actions.launching.relaunch import (
    filled,
    looked,
    nothing_lives,
    planned_facts,
    prepare,
    store_there,
    template_of,
)
from cockpit.actions.launching.submitting import CONFIRM, FILE_ID, submit
from cockpit.actions.stopping.stop import evidence
from cockpit.model import check_rows as rows
from cockpit.model.jobs import NamedJob
from cockpit.model.observed import Pick
from cockpit.model.plan import Basis, Check, Difference, Draft, Plan, Request
from cockpit.model.records import EventText, InstanceEntry
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import ADOPTED, SharedFact
from cockpit.platforms.command import shown as shown_command
from cockpit.platforms.command import values_of
from cockpit.records.issue.service import LABELS, logbook_link, new_issue, title
from cockpit.records.logbook.reading import Logbook
from cockpit.runtime.offload import offload
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.store import Store
from cockpit.text.checks import blocked, passed, warned
from cockpit.text.scrub import shown

BODY: Final = "issue_body"


class LaunchFindings(NamedTuple):
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
        found = await _findings(context)
        return Draft(
            words=f"launch {request.run}",
            checks=setup.for_dri(
                _checks(context, found),
                [rows.FROM_SCRATCH.id, *code.of_the_dri(context, found.material.changes)],
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


async def _findings(context: ActionContext) -> LaunchFindings:
    material = await gather(context)
    spec = context.spec
    source = spec.checkpoints.initialize_from if spec.checkpoints is not None else None
    command = spec.launch or spec.resubmit
    values = values_of(spec, context.launch_id, None if source is None else str(source), None)
    checks, words = setup.ready(context.platform, spec, command, values)
    if source is None or source.here:
        origin = await offload(initialize_from, spec, deadline=DEADLINE)
    else:
        origin = [await checkpoint.origin(source, context.parts.clock)]
    would = WouldRun(words, template_of(command), None)
    checks += await places(context, spec, words, _origin(spec))
    issue = await issue_to_create(spec, material.read.book, shown_command(words) or None)
    return LaunchFindings(material, would, checks, origin, issue)


def _checks(context: ActionContext, found: LaunchFindings) -> list[Check]:
    material = found.material
    return [
        *setup.has_dri(context),
        *setup.dri_knows(context),
        *jobs.platform_acts(context),
        *jobs.launch_state(context),
        *jobs.lineage_jobs(context),
        *jobs.next_by_itself(context),
        *code.lineage(context, material.changes, material.prior, first=True),
        *output_checks(context, material, found.would),
        *checkpoint.from_scratch(context),
        *found.origin,
        *setup.unused_tracker(context),
        *setup.kept_records(context, material.read.book, material.read.book_trouble),
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
        return [warned(rows.LAUNCH_CONFIG, text, Basis.INFERRED)]
    text = f"{len(config.values)} settings of {config.source} are recorded with the launch"
    return [passed(rows.LAUNCH_CONFIG, text)]


def to_create(run: RunSpec, book: Logbook | None) -> bool:
    """Tell whether a launch creates the issue: none is named, linked, and a place for it is."""
    setup = run.records
    return setup.issue is None and setup.issue_repo is not None and linked_issue(book) is None


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
        note = "" if made.note is None else f"; {made.note}"
        return f'created {made.url}; add it to the run file: issue = "{made.url}"{note}'

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


JOB: Final = "job"
STARTED: Final = "started"
TEXT: Final = "text"
FORMER: Final = "former"


class Adopt(Action):
    """Makes a living job that a person names the run's current one."""

    verb = "adopt"
    exclusive = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what the system tells of the job, and what speaks against taking it."""
        job_id = required_param(request, "job-id", "the job to adopt, by its system's id")
        words, platform = f"adopt {context.spec.name}", context.acting_platform
        if platform is None:
            lacking = blocked(rows.ADOPTED, "no job in cockpit.toml that this version can act on")
            return Draft(words=words, checks=(lacking,))
        job = await platform.named_job(context.spec, job_id)
        spec, monitor = context.spec, context.report.facets.monitor.value
        facts = {
            JOB: job.id,
            STARTED: "" if job.started_at is None else f"{job.started_at:.0f}",
            FORMER: context.job_id,
            FILE_ID: (spec.job.id if spec.job is not None else None) or "",
        }
        if monitor is not None and monitor.path is not None:
            facts[STATE_FILE] = monitor.path
            facts[RESTARTS] = str(monitor.restart_count or 0)
        elses = await whose_else(context, job)
        checks = (*adoption_checks(context, job, elses), logbook_check(spec))
        return Draft(words=words, checks=checks, facts=facts)

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: see that it still lives and note it, then store, state file and logbook."""
        return (
            Step("adopt", _adopt, again=True),
            Step("record-launch", _remember, records=True),
            state_file_step(),
            instance_step(_instance, f"{plan.run}: log adopted instance"),
            log_step(_entry, f"{plan.run}: log adoption", tells=_tells),
        )


async def _adopt(execution: Execution) -> str:
    """See on the system that the very job that was shown lives; raises ``StepError``."""
    platform, facts = execution.platform, execution.plan.facts
    run, job = execution.context.spec, await platform.named_job(execution.context.spec, facts[JOB])
    if job.lives is None:
        raise StepUnknownError(f"cannot tell whether {job.id} lives: {job.text}")
    if not job.lives or not _same(job, facts[STARTED]):
        raise StepError(f"nothing was adopted: {job.text if not job.lives else 'another job'}")
    await platform.adopt(run, job)
    execution.job_id = job.id
    await execution.note(**{TEXT: job.text})
    return job.text


def _same(job: NamedJob, started: str) -> bool:
    """Tell whether it is the execution that the plan has shown: ids are used again.

    One that waited then may have begun since.
    """
    return not started or (job.started_at is not None and abs(job.started_at - float(started)) < 5)


async def _remember(execution: Execution) -> str:
    facts, at = execution.plan.facts, execution.entry.begun_at
    taken = LaunchedJob(at=at, job_id=facts[JOB], file_id=facts.get(FILE_ID))

    def write(store: Store) -> None:
        RunMemory(store).add_launch(execution.context.key, taken)

    await stored(execution, write)
    return f"the current job is {taken.job_id}"


def _tells(execution: Execution) -> Sequence[SharedFact]:
    """Return what every other cockpit is to know: which job is the current one."""
    parts = {"run": execution.plan.run}
    return (shared_fact(execution, ADOPTED, execution.plan.facts[JOB], parts),)


def _instance(execution: Execution) -> InstanceEntry:
    facts = execution.plan.facts
    fields = {
        "Job": execution.facts.get(TEXT) or facts[JOB],
        "Launch id": "none: it was submitted by hand",
        "Adopted by": execution.entry.operator,
    }
    name = f"adopted job {facts[JOB]}"
    return InstanceEntry(launch_id=name, at=execution.entry.begun_at, fields=fields)


def _entry(execution: Execution) -> EventText:
    facts = execution.plan.facts
    former = f"; before it was {facts[FORMER]}" if facts.get(FORMER) else ""
    order = f"adopt by {execution.entry.operator}"
    return EventText(
        title=f"adopted job {facts[JOB]}",
        status=f"the current job is {facts[JOB]}, submitted by hand{former}",
        evidence=execution.facts.get(TEXT, ""),
        decision="\n".join(filter(None, (order, approvals_text(execution.plan)))),
        next="watch it as a job of this run",
    )
