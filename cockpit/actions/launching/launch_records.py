"""What is written down of a launch: store, state file, logbook, issue, HPC run log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import Execution, SkipStep, Step, StepError, looking_first
from cockpit.actions.core.agents import USED
from cockpit.actions.core.recording import (
    RUN_LOG,
    approvals_text,
    begin,
    comment_step,
    event_name,
    instance_step,
    log_step,
    run_log_path,
    save,
    save_run_log,
    stored,
)
from cockpit.actions.core.recovery import DIED
from cockpit.actions.launching.compared import instance_fields, recorded_code
from cockpit.actions.launching.submitting import (
    BUNDLE,
    FILE_ID,
    UNSEEN,
    WAITS,
    snapshot_in,
    submitted_at,
)
from cockpit.actions.stopping.losses import LOST
from cockpit.model import check_rows as rows
from cockpit.model.alert import Severity
from cockpit.model.history import FormerFailure
from cockpit.model.lineage import named
from cockpit.model.plan import Level, Plan
from cockpit.model.records import EventText, InstanceEntry
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import by_standing_order, name_in
from cockpit.model.wording import steps
from cockpit.notify.message import NobodyReachedError
from cockpit.platforms.command import recorded
from cockpit.records.issue.service import Markdown, Rows, approved, code, coded, comment, prose
from cockpit.records.logbook.run_logs import (
    experiments_of,
    timeline_of,
    with_first_job,
    with_resumed_job,
)
from cockpit.runtime.offload import offload
from cockpit.store.journal import FAILED_STEP
from cockpit.store.launches import FIRST_CHECK, Failures, Followup, FollowupStore, Progressed
from cockpit.store.memory import LaunchedJob, RunMemory, Snapshots
from cockpit.store.store import Store, run_key, unpack
from cockpit.watch.headless import restarted

FAILURE: Final = "failure"
RESUMES_FROM: Final = "resumes_from"
STOPPED: Final = "stopped"
STATE_FILE: Final = "state_file"
RESTARTS: Final = "restarts"
DEADLINE: Final = 10.0
RunOf = Callable[[Execution], RunSpec]
MOST: Final = 10


def own_run(execution: Execution) -> RunSpec:
    """Return the run that the action is about."""
    return execution.context.spec


def record_steps(
    name: str, word: str, run: RunOf = own_run, *, instance: bool = True
) -> tuple[Step, ...]:
    """Return the steps that write a launch of run ``name`` down; ``word`` is what it is called.

    ``run`` gives the run that was launched; ``instance``: it is an instance of the run whose
    logbook is written.
    """

    def key(execution: Execution) -> str:
        """Return where the store is asked once the run file names that run."""
        return run_key(execution.context.file.path, run(execution).name)

    async def remember(execution: Execution) -> str:
        used, at = snapshot_in(execution), submitted_at(execution)
        launch = LaunchedJob(
            at=at, job_id=job_of(execution), launch_id=execution.entry.launch_id,
            file_id=execution.facts.get(FILE_ID),
        )  # fmt: skip

        def write(store: Store) -> None:
            with store.writing():
                RunMemory(store).add_launch(key(execution), launch)
                Snapshots(store).add(key(execution), used.model_copy(update={"at": at}))

        await stored(execution, write)
        return f"{launch.launch_id} is {launch.job_id}"

    async def follow(execution: Execution) -> str:
        followup = _followup(execution, run(execution))
        await stored(execution, lambda store: FollowupStore(store).add(key(execution), followup))
        if followup.state is Progressed.DIED:
            return "it has ended: nothing to follow"
        return f"first check {_first_check(execution)}"

    message = f"{name}: log {word}"
    steps = (
        Step("record-launch", remember, records=True),
        Step("failure", _record_failure, records=True),
        state_file_step(),
        Step("follow", follow, records=True),
        *((instance_step(_instance, f"{message} instance"),) if instance else ()),
        log_step(launch_event(word), message),
    )
    return (*steps, comment_step(event_name, launch_comment(word)))


def state_file_step() -> Step:
    """Return the step that names the present job in the monitor's state file."""
    return Step("state-file", _state_file, records=True)


def trouble_step(name: str, word: str) -> Step:
    """Return the step that logs an action which failed before anything was started."""

    def entry(execution: Execution) -> EventText:
        stopped = "; the job was stopped" if execution.facts.get(STOPPED) else ""
        title, status = f"{word} did not happen", "nothing was started"
        if execution.unknown:
            title = f"{word} {execution.launch_id}: outcome unknown"
            status = "it may have started; it is looked up before anything else is done"
        return EventText(
            title=title,
            status=status + stopped,
            evidence=execution.trouble or "",
            decision=f"{word} was ordered by {execution.entry.operator}",
            next="check the journal, then plan again",
        )

    async def has_trouble(execution: Execution) -> None:
        if execution.trouble is None or execution.job_id is not None:
            raise SkipStep("there is no trouble to log")

    step = log_step(entry, f"{name}: log failed {word}", after_failure=True)
    return looking_first(replace(step, name="log-trouble"), has_trouble)


async def _record_failure(execution: Execution) -> str:
    failure = unpack(FormerFailure, execution.facts.get(FAILURE, ""))
    if failure is None:
        raise SkipStep("there is no failure to recover from")
    key = execution.context.key
    kept = failure
    await stored(execution, lambda store: Failures(store).add(key, kept))
    return f"recovers from {failure.name}"


async def _state_file(execution: Execution) -> str:
    """Count the restart and name the new job in the monitor's state file, if there is one."""
    path = execution.facts.get(STATE_FILE)
    if not path:
        raise SkipStep("the run has no monitor state file")
    restarts = int(execution.facts.get(RESTARTS) or 0)
    now = execution.context.parts.clock.now()
    try:
        await offload(restarted, Path(path), job_of(execution), restarts, now, deadline=DEADLINE)
    except (OSError, TimeoutError) as error:
        raise StepError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return f"restart_count {restarts}, job_id {job_of(execution)}"


def _number(execution: Execution, name: str) -> int | None:
    text = execution.facts.get(name, "")
    return int(text) if text.isdecimal() else None


def _followup(execution: Execution, run: RunSpec) -> Followup:
    # How a launch stands that is over already: its end is in its own entry
    text = execution.facts.get(DIED)
    return Followup(
        run=run.name,
        launch_id=execution.launch_id,
        job_id=job_of(execution),
        action=execution.plan.action,
        operator=execution.entry.operator,
        at=submitted_at(execution),
        entry=execution.entry.number,
        resumes_from=_number(execution, RESUMES_FROM),
        failed_step=_number(execution, FAILED_STEP),
        **{} if text is None else {"state": Progressed.DIED, "text": text, "recorded": True},
    )


def _instance(execution: Execution) -> InstanceEntry:
    used = snapshot_in(execution)
    approved = next(
        (f"approved by {check.approved.whose}" for check in execution.plan.checks
         if check.id == rows.CODE.id and check.approved is not None), "",
    )  # fmt: skip
    platform = execution.context.platform
    bundled = platform is None or platform.bundled
    fields = instance_fields(
        execution.context.spec, used, approved, bundled=bundled, bundle=execution.facts.get(BUNDLE)
    )
    return InstanceEntry(launch_id=execution.launch_id, at=submitted_at(execution), fields=fields)


def job_of(execution: Execution) -> str:
    """Return the id of the job that was started."""
    return execution.job_id or execution.entry.job_id or execution.launch_id


def launch_event(word: str) -> Callable[[Execution], EventText]:
    """Return what makes the logbook's entry; ``word`` is what the action is called there."""

    def entry(execution: Execution) -> EventText:
        trouble = execution.facts.get(DIED) or execution.facts.get(UNSEEN)
        pick, reason = snapshot_in(execution).checkpoint, execution.plan.params.get("reason")
        origin = "from scratch" if pick is None else f"from {pick.place}"
        order = f"{word} by {execution.entry.operator}" + (f": {reason}" if reason else "")
        order = standing_said(execution) or order
        failed, goal = (
            execution.facts.get(FAILED_STEP, ""),
            "its steps advance and a checkpoint is saved",
        )
        doing = "is accepted and waiting" if execution.facts.get(WAITS) else "runs"
        if failed.isdecimal():
            goal = f"it is past step {steps(int(failed))}, where the last one failed"
        return EventText(
            title=f"{word} {execution.launch_id}",
            status=trouble or f"{execution.launch_id} {doing} as {job_of(execution)}, {origin}",
            evidence="\n".join(_evidence(execution)),
            decision="\n".join(filter(None, (order, approvals_text(execution.plan)))),
            next=_next(execution, goal),
        )

    return entry


def _next(execution: Execution, goal: str) -> str:
    """Return what comes next: a job that is dead already is not checked after 120 s."""
    if execution.facts.get(DIED):
        return "triage its log; the same failure again is escalated (C-14)"
    if execution.facts.get(UNSEEN):
        return f"look {execution.launch_id} up before doing anything else"
    return f"check {_first_check(execution)}, then every cadence, until {goal}"


def _first_check(execution: Execution) -> str:
    """Return when it is looked at first: of a job in a queue, however long, once it has begun."""
    begun = " it has begun" if execution.facts.get(WAITS) else ""
    return f"{FIRST_CHECK:g} s after{begun}" if begun else f"after {FIRST_CHECK:g} s"


def _evidence(execution: Execution) -> Sequence[str]:
    """Return why it could be done: what was not simply in order, and where the evidence is."""
    always = (rows.CAUSE.id, rows.RELAUNCH_STATE.id, rows.CHECKPOINT.id)
    spoken = [check for check in execution.plan.checks if check.id in always]
    warned = [check for check in execution.plan.checks if check.level is not Level.PASS]
    lines = [f"{check.id}: {check.text}" for check in dict.fromkeys((*spoken, *warned))]
    where, lost = execution.facts.get("evidence"), execution.facts.get(LOST)
    used = snapshot_in(execution)
    return [
        *lines,
        *_differing(execution.plan),
        *([f"commit {used.sha}"] if used.sha is not None else []),
        *([f"archived in {where}"] if where else []),
        *([f"lost {lost}, measured when the job had ended"] if lost else []),
    ]


def _differing(plan: Plan) -> list[str]:
    """Return what is another than before, old and new; settings have their checks already."""
    known = [each for each in plan.differences if each.ran is not None and not each.same]
    checked = {check.id.partition(":")[2] for check in plan.checks}
    return [
        f"{each.what}: {each.ran} → {each.would_run or 'not set'}"
        for each in known
        if each.what not in checked
    ][:MOST]


def launch_comment(word: str) -> Callable[[Execution], str]:
    """Return what makes the issue's comment."""

    def body(execution: Execution) -> str:
        make = {"launch": _launched, "relaunch": _relaunched}.get(word, _new_lineage)
        event, rows = make(execution)
        trouble = execution.facts.get(DIED) or execution.facts.get(UNSEEN)
        waits, said = execution.facts.get(WAITS), standing_said(execution)
        note = "" if waits is None else f"**Waits for its turn**: {prose(waits)}"
        note = note if trouble is None else f"**Trouble**: {prose(trouble)}"
        more = (approved(execution.plan), prose(said) if said else None, Markdown(note))
        return comment(execution.context.spec, event, rows, *more)

    return body


def _launched(execution: Execution) -> tuple[str, Rows]:
    used = snapshot_in(execution)
    values = {
        "Job": job_of(execution),
        "Command": recorded(used.command),
        "Git SHA": used.sha or "unknown",
        "Output root": used.output_root or "unknown",
        "Begins with": "nothing: from scratch" if used.checkpoint is None else used.checkpoint.path,
        "Launched by": execution.entry.operator,
    }
    return f"launched as {code(execution.launch_id)}", coded(values)


def _relaunched(execution: Execution) -> tuple[str, Rows]:
    used, job = snapshot_in(execution), execution.context.report.facets.job.value
    checks = {check.id: check.text for check in execution.plan.checks}
    at, former = used.checkpoint, None
    if job is not None and job.id != job_of(execution):
        former = code(job.id)
    rows = (
        ("Why it is recoverable", prose(checks.get("T") or checks.get("job-state"))),
        ("Job before", former),
        ("Checkpoint", code(None if at is None else f"{at.path} (step {at.step})")),
        ("Git SHA", code(used.sha)),
    )
    return f"relaunched as {code(execution.launch_id)}, same lineage", rows


def _new_lineage(execution: Execution) -> tuple[str, Rows]:
    used, pairs = snapshot_in(execution), execution.plan.differences
    rows = (
        ("Reason", prose(execution.plan.params.get("reason"))),
        *coded({each.what: each.ran or "unknown" for each in pairs}, " before"),
        *coded({each.what: each.would_run or "unknown" for each in pairs}, " now"),
        ("Starts from", code(None if used.checkpoint is None else used.checkpoint.path)),
        ("Git SHA", code(used.sha)),
    )
    return "goes on as a new lineage", rows


def standing_said(execution: Execution) -> str:
    """Return how a standing order relaunched the run, in one line; nothing where a person did.

    Such as ``relaunched by standing order of ada, 2 of 3, from step 46,000; lost 12 steps``.
    """
    count = execution.plan.facts.get(USED)
    if not count:
        return ""
    pick, loses = snapshot_in(execution).checkpoint, execution.plan.loses or "an unknown number"
    origin = "from scratch" if pick is None else f"from {named(pick)}"
    lost = loses.partition(" since ")[0]
    return f"relaunched by {name_in(execution.entry.operator)}, {count}, {origin}; lost {lost}"


def standing_step(plan: Plan) -> tuple[Step, ...]:
    """Return the step that tells people of a relaunch which nobody typed; none for a person's."""

    async def tell(execution: Execution) -> str:
        said = standing_said(execution)
        title = f"{plan.run}: {said}"
        body = (
            f"{execution.launch_id} runs as {job_of(execution)}. cockpit veto {plan.run} ends it."
        )
        spec, severity = execution.context.spec, Severity.ALERT.value
        try:
            send = execution.context.parts.notifier().send
            return await send(spec, event_name(execution), title, body, severity)
        except NobodyReachedError as error:
            raise SkipStep(str(error)) from error

    return (Step("notify", tell, records=True),) if by_standing_order(plan.operator) else ()


EXPERIMENT: Final = "experiment"


def launched_step(run: str) -> Step:
    """Return the step that begins the run log of a first launch, and lists it."""

    async def write(execution: Execution) -> str:
        spec, at = execution.context.spec, submitted_at(execution)
        path = run_log_path(spec, at)
        used, fields = snapshot_in(execution), _submitted(execution, "submitted/start")
        begun = begin(execution, path, (recorded_code(used.command), used.sha or ""))
        first = lambda data: with_first_job(begun(data), fields)  # noqa: E731
        await save(execution, path, first, f"{run}: begin the run log")
        await save(execution, *timeline_of(path, at), f"{run}: list the run log")
        if (spec.records.run_type or "").startswith(EXPERIMENT):
            listed = experiments_of(path, spec.name, spec.goal or "")
            await save(execution, *listed, f"{run}: list the experiment")
        return str(path)

    return Step(RUN_LOG, write, records=True)


def resumed_step(run: str) -> Step:
    """Return the step that appends ``## Job (resumed)`` after a relaunch (HPC, Resumptions)."""

    async def write(execution: Execution) -> str:
        at = submitted_at(execution)
        used, fields = snapshot_in(execution), _submitted(execution, "submitted")
        if used.checkpoint is not None:
            step = "unknown" if used.checkpoint.step is None else used.checkpoint.step
            fields["resumed from"] = f"`{used.checkpoint.path}` (step {step})"
        edit = lambda data: with_resumed_job(data, fields)  # noqa: E731
        return await save_run_log(execution, at, edit, f"{run}: log relaunch in the run log")

    return Step(RUN_LOG, write, records=True)


def _submitted(execution: Execution, label: str) -> dict[str, str]:
    moment = datetime.fromtimestamp(submitted_at(execution), tz=UTC)
    return {
        "execution_id": f"{job_of(execution)} ({execution.launch_id})",
        label: f"{moment:%Y-%m-%d %H:%M} UTC",
    }
