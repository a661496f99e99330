"""Adopt: a job that was submitted by hand becomes the run's current one (SPEC J).

Nothing is started or stopped. Store and logbook say which job it is, so that every cockpit finds
it; where jobs are found by files, the platform notes it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.actions.checks.adoption import adoption_checks
from cockpit.actions.core.action import Action, Execution, Step, StepError, StepUnknownError
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.parameters import required_param
from cockpit.actions.core.recording import approvals_text, instance_step, log_step, logbook_check
from cockpit.actions.launching.launch_records import RESTARTS, STATE_FILE, state_file_step, stored
from cockpit.actions.launching.submitting import FILE_ID, platform_of
from cockpit.model.jobs import NamedJob
from cockpit.model.plan import Draft, Plan, Request
from cockpit.model.records import EventEntry, InstanceEntry
from cockpit.model.shared_facts import ADOPTED, Told
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.store import Store
from cockpit.text.checks import blocked

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
            lacking = blocked("job", "no job in cockpit.toml that this version can act on")
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
        checks = (*adoption_checks(context, job), logbook_check(spec))
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
    platform, facts = platform_of(execution), execution.plan.facts
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


def _tells(execution: Execution) -> Sequence[Told]:
    """Return what every other cockpit is to know: which job is the current one."""
    told = Told(
        what=ADOPTED,
        value=execution.plan.facts[JOB],
        at=execution.entry.begun_at,
        typed_by=execution.entry.operator,
        parts={"run": execution.plan.run},
    )
    return (told,)


def _instance(execution: Execution) -> InstanceEntry:
    facts = execution.plan.facts
    fields = {
        "Job": execution.facts.get(TEXT) or facts[JOB],
        "Launch id": "none: it was submitted by hand",
        "Adopted by": execution.entry.operator,
    }
    name = f"adopted job {facts[JOB]}"
    return InstanceEntry(launch_id=name, at=execution.entry.begun_at, fields=fields)


def _entry(execution: Execution) -> EventEntry:
    facts = execution.plan.facts
    former = f"; before it was {facts[FORMER]}" if facts.get(FORMER) else ""
    order = f"adopt by {execution.entry.operator}"
    return EventEntry(
        title=f"adopted job {facts[JOB]}",
        at=execution.entry.begun_at,
        status=f"the current job is {facts[JOB]}, submitted by hand{former}",
        evidence=execution.facts.get(TEXT, ""),
        decision="\n".join(filter(None, (order, approvals_text(execution.plan)))),
        next="watch it as a job of this run",
    )
