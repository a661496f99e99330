"""The steps that write an action down: logbook entry, launched instance, issue comment (SPEC A).

Each may be done again after a crash: the entries carry the action's own time, so that one that
is there already is found. A run without a logbook, an issue or a run log (HPC) skips them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import ActionContext, Execution, SkipStep, Step, StepError, asked
from cockpit.actions.core.execution import ordered
from cockpit.model import check_rows as rows
from cockpit.model.plan import Check, Plan
from cockpit.model.records import EventEntry, EventText, InstanceEntry, Recorded, SaveStage
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import LAUNCHED, STOPPED, SharedFact
from cockpit.model.standing import PAST
from cockpit.records.git.committing import Edit
from cockpit.records.logbook.reading import Logbook, value_of
from cockpit.records.logbook.run_logs import new_run_log, run_log_of, with_results, with_status
from cockpit.runtime.offload import offload
from cockpit.store.journal import FAILED_STEP
from cockpit.store.store import Store, StoreError
from cockpit.text.checks import lacking, passed, warned
from cockpit.text.logbook_lines import message_lines
from cockpit.text.scrub import scrub

DEADLINE: Final = 10.0
ISSUE: Final = "issue"
"""The fact that holds the address of an issue that the action itself created."""
MARKED: Final = "marked"
"""The fact that what will be done is written where it will be done, for all to see."""
INTENT_WITHIN: Final = 5.0
"""Seconds for which an intent may wait for its push before the deed goes on."""
NO_LOGBOOK: Final = "no logbook in cockpit.toml (records.logbook)"
NO_ISSUE: Final = "no issue in cockpit.toml (records.issue)"
_ADDRESS: Final = re.compile(r"https?://[^\s<>()]+/issues/\d+")


def log_step(
    make: Callable[[Execution], EventText],
    commit: str,
    *,
    after_failure: bool = False,
    tells: Callable[[Execution], Sequence[SharedFact]] = lambda execution: (),
) -> Step:
    """Return the step that appends an entry to the event log, commits it as ``commit``, pushes.

    ``make`` must give the same entry for the same action: it is dated by when that was begun.
    ``tells`` is what every other cockpit is to read back from it; a job that was launched is
    told by itself.
    """

    async def run(execution: Execution) -> str | None:
        told = (*tells(execution), *stopped(execution), *launched(execution))
        told_there = await _tell_under(execution.context.spec, told)
        try:
            spec = _with_logbook(execution)
        except SkipStep as skipped:
            if told_there:
                return f"{skipped}; told under the output root"
            raise
        entry = _dated(make(execution), execution)
        said = "\n".join(filter(None, (entry.said, message_lines(told))))
        entry = entry.model_copy(update={"said": said})
        done = await execution.context.parts.recorder.event(spec, entry, commit)
        return lasting(done, execution, spec.records.logbook)

    return Step("log", run, records=True, after_failure=after_failure)


def _dated(text: EventText, execution: Execution) -> EventEntry:
    return EventEntry(**{**dict(text), "at": execution.entry.begun_at})


def intent_step(make: Callable[[Execution], EventText], commit: str) -> Step:
    """Return the step that makes public what will be done, before it is done.

    It waits a moment for the push. Where neither the logbook nor the place itself (the fact
    ``MARKED``) can tell others, nothing is done.
    """

    async def run(execution: Execution) -> str | None:
        spec, recorder = _with_logbook(execution), execution.context.parts.recorder
        done = await recorder.event(spec, _dated(make(execution), execution), commit)
        try:
            said = lasting(done, execution, spec.records.logbook)
        except StepError as error:
            if execution.facts.get(MARKED) != "yes":
                raise StepError(f"nobody else could see it, so nothing is done: {error}") from error
            raise SkipStep(f"marked in place, but not in the logbook: {error}") from error
        if done.pending and spec.records.logbook is not None:
            (push,) = await recorder.pushes([Path(spec.records.logbook)], INTENT_WITHIN)
            return f"{SaveStage.COMMITTED.value} {(done.commit or '')[:7]}, {push.text}"
        return said

    return Step("intent", run, again=True)


def shared_fact(
    execution: Execution, what: str, value: str, parts: Mapping[str, str] | None = None
) -> SharedFact:
    """Return what every other cockpit is to know of an action, by whom and of when it is."""
    at, who = execution.entry.begun_at, execution.entry.operator
    return SharedFact(what=what, value=value, at=at, typed_by=who, parts=dict(parts or {}))


def launched(execution: Execution) -> tuple[SharedFact, ...]:
    """Return what others must know of the job that an action has started."""
    if not execution.launch_id or not execution.job_id:
        return ()
    parts = {"job": execution.job_id, PAST: execution.facts.get(FAILED_STEP, "")}
    return (shared_fact(execution, LAUNCHED, execution.launch_id, parts),)


def stopped(execution: Execution) -> tuple[SharedFact, ...]:
    """Return which jobs an action has ordered to stop: by an unknown hand is another thing.

    One that did not come to its end tells of none: whether they ended is not known here.
    """
    if execution.trouble is not None:
        return ()
    return tuple(shared_fact(execution, STOPPED, each) for each in ordered(execution))


async def _tell_under(run: RunSpec, told: Sequence[SharedFact]) -> bool:
    """Tell it under the output root too; that it cannot be written there stops nothing."""
    from cockpit.records.recorder import tell_under

    if not told:
        return False
    try:
        return await offload(tell_under, run, tuple(told), deadline=DEADLINE)
    except (OSError, TimeoutError):
        return False


def instance_step(make: Callable[[Execution], InstanceEntry], commit: str) -> Step:
    """Return the step that appends a launched instance."""

    async def run(execution: Execution) -> str | None:
        spec = _with_logbook(execution)
        done = await execution.context.parts.recorder.instance(spec, make(execution), commit)
        return lasting(done, execution, spec.records.logbook)

    return Step("instance", run, records=True)


def comment_step(
    event: Callable[[Execution], str],
    body: Callable[[Execution], str],
    *,
    after_failure: bool = False,
    heard: Callable[[Execution, Recorded], Awaitable[None]] | None = None,
) -> Step:
    """Return the step that comments on the issue; one ``event`` is never posted twice.

    ``heard`` is told how that went: whether the comment stands there, waits or was refused.
    """

    async def run(execution: Execution) -> str | None:
        spec = await _with_issue(execution)
        recorder = execution.context.parts.recorder
        done = await recorder.comment(spec, event(execution), body(execution))
        if heard is not None:
            await heard(execution, done)
        return lasting(done)

    return Step("issue", run, records=True, after_failure=after_failure)


def event_name(execution: Execution) -> str:
    """Return the name of this very action, the same whenever it is asked for."""
    plan, begun = execution.plan, execution.entry.begun_at
    return f"{plan.action}:{execution.launch_id or plan.plan_id}:{begun:.3f}"


def approvals_text(plan: Plan) -> str:
    """Return who let which block pass and why, one line each; empty without any."""
    given = [check.approved for check in plan.checks if check.approved is not None]
    return "\n".join(f"{each.check} approved by {each.whose}: {each.reason}" for each in given)


async def records_ready(context: ActionContext) -> list[Check]:
    """Return the check that this user can write the records; empty while that is so.

    A hero run may not be launched without them; anything else goes on, and it is known before.
    """
    said = await context.parts.recorder.hindrance(context.spec)
    if said is None:
        return []
    text = f"the logbook cannot be written: {said}"
    check = (
        lacking(context.spec, rows.RECORDS, text)
        if context.launch_id
        else warned(rows.RECORDS, text)
    )
    return [check]


def linked_issue(book: Logbook | None) -> str | None:
    """Return the address of the issue that the Run Contract links, if it links one."""
    found = _ADDRESS.search((value_of(book.contract, "Issue") if book is not None else None) or "")
    return None if found is None else found.group()


def logbook_check(run: RunSpec) -> Check:
    """Return whether there is a logbook to write into."""
    if run.records.logbook is None:
        text = "no logbook in cockpit.toml: recorded only in this machine's journal"
        return warned(rows.RECORDED_IN, text)
    return passed(rows.RECORDED_IN, f"recorded in {run.records.logbook}")


def issue_check(run: RunSpec) -> Check:
    """Return whether there is an issue to comment on."""
    if run.records.issue is not None:
        return passed(rows.POSTED_TO, f"posted to {run.records.issue}")
    say = warned if run.tier == "hero" else passed
    return say(rows.POSTED_TO, "no issue in cockpit.toml: nothing is posted")


def _with_logbook(execution: Execution) -> RunSpec:
    if execution.context.spec.records.logbook is None:
        raise SkipStep(NO_LOGBOOK)
    return execution.context.spec


async def _with_issue(execution: Execution) -> RunSpec:
    """Return the run with its issue: the run file's, else the one that a launch has created."""
    spec = execution.context.spec
    url = spec.records.issue or execution.facts.get(ISSUE)
    if url is None and spec.records.issue_repo is not None:
        url = await offload(_linked, spec.records.logbook, deadline=DEADLINE)
    if url is None:
        raise SkipStep(NO_ISSUE)
    return spec.model_copy(update={"records": spec.records.model_copy(update={"issue": url})})


def _linked(logbook: str | None) -> str | None:
    """Return the issue that the logbook's Run Contract links; ``None`` if it cannot be told."""
    from cockpit.records.logbook.reading import read_logbook
    from cockpit.runtime.mounts import read_text

    try:
        return None if logbook is None else linked_issue(read_logbook(read_text(Path(logbook))))
    except (OSError, ValueError):
        return None


def lasting(
    recorded: Recorded, execution: Execution | None = None, path: str | Path | None = None
) -> str:
    """Return how far it came; raises ``StepError`` for a record that will not last by itself.

    A push that goes on behind is noted in ``execution``: its end is told with the outcome.
    """
    if not recorded.lasting:
        stage, why = recorded.stage, recorded.trouble or "it could not be kept"
        told = stage is SaveStage.NOTHING or why.startswith(f"{stage.value}, ")
        raise StepError(why if told else f"{stage.value}, but {why}")
    if recorded.queued:
        return recorded.trouble or "queued"
    if recorded.stage is SaveStage.NOTHING:
        return recorded.url or "posted"
    if recorded.as_far:
        return _with_note(recorded.trouble or recorded.stage.value, recorded)
    commit = "" if recorded.commit is None else f" {recorded.commit[:7]}"
    if recorded.pending and execution is not None and path is not None:
        execution.pushing.add(Path(path))
    after = "; the push follows" if recorded.pending else ""
    return _with_note(f"{recorded.stage.value}{commit}{after}", recorded)


def _with_note(said: str, recorded: Recorded) -> str:
    return said if recorded.note is None else f"{said}; {recorded.note}"


RUN_LOG: Final = "run-log"
"""The name of each step that writes into the run log."""
NO_RUN_LOG: Final = "no run log in cockpit.toml (records.run_log)"


def status_step(make: Callable[[Execution], str], commit: str) -> Step:
    """Return the step that appends a dated line to ``## Status``; ``make`` gives its words."""

    async def write(execution: Execution) -> str:
        at, text = execution.entry.begun_at, scrub(make(execution))
        return await save_run_log(execution, at, lambda data: with_status(data, at, text), commit)

    return Step(RUN_LOG, write, records=True)


def results_step(
    results: Callable[[Execution], Mapping[str, str]],
    status: Callable[[Execution], str],
    commit: str,
) -> Step:
    """Return the step that fills ``## Results`` and says the end in ``## Status``."""

    async def write(execution: Execution) -> str:
        at, line = execution.entry.begun_at, scrub(status(execution))
        values = _masked(results(execution))
        edit = lambda data: with_results(with_status(data, at, line), values)  # noqa: E731
        return await save_run_log(execution, at, edit, commit)

    return Step(RUN_LOG, write, records=True)


async def save_run_log(execution: Execution, at: float, edit: Edit, commit: str) -> str:
    """Save an edit of the run log, which is begun where its file is empty; raises as ``save``."""
    begun = begin(execution, path := run_log_path(execution.context.spec, at))
    return await save(execution, path, lambda data: edit(begun(data)), commit)


def run_log_path(run: RunSpec, at: float) -> Path:
    """Return the run log; raises ``SkipStep`` without one, ``StepError`` for a folder's trouble."""
    if run.records.run_log is None:
        raise SkipStep(NO_RUN_LOG)
    try:
        return run_log_of(run.records.run_log, run.name, at)
    except OSError as error:
        raise StepError(f"{run.records.run_log}: {error.strerror or error}") from error


def begin(execution: Execution, path: Path, used: tuple[str, str] | None = None) -> Edit:
    """Return what makes a run log of an empty file and leaves every other one alone.

    ``used`` are the script and the commit of a first launch.
    """
    run = execution.context.spec
    task = path.stem.partition("_")[2] or path.stem
    config = {"config": f"`{run.config_file}`" if run.config_file else ""}
    if used is not None:
        config = {"script": used[0], **config, "code": used[1]}
    values = {
        "Mode": _masked({"run_type": run.records.run_type or "", "objective": run.goal or ""}),
        "Config": _masked(config),
    }
    new = new_run_log(scrub(task), scrub(run.name), values)
    return lambda data: data if data.strip() else new


def _masked(values: Mapping[str, str]) -> dict[str, str]:
    return {label: scrub(value) for label, value in values.items()}


async def stored(execution: Execution, write: Callable[[Store], object], what: str = "it") -> None:
    """Write something into the store, off the loop; raises ``StepError`` where it cannot be."""
    store = execution.context.parts.store
    if store is None:
        raise StepError(f"there is no store to remember {what} in")
    try:
        await asked(write, store)
    except StoreError as error:
        raise StepError(f"{what} could not be written: {error}") from error


async def save(execution: Execution, path: Path, edit: Edit, message: str) -> str:
    """Save, commit that file alone, push; raises ``StepError`` for what will not last."""
    done = await execution.context.parts.recorder.document(path, edit, message)
    return lasting(done, execution, path)
