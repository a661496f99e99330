"""A-12, teardown: the meter stops only once every artifact is pulled and verified by load."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Execution,
    Step,
    StepError,
    StepUnknownError,
    plural,
    safe,
)
from cockpit.actions.core.recording import comment_step, event_name, log_step
from cockpit.actions.retention.at_rest import nothing_lives
from cockpit.actions.sealing.pulled import CONSOLE, pulled, verified
from cockpit.hosts.supervisor import expand
from cockpit.model import check_rows as rows
from cockpit.model.base import Command
from cockpit.model.plan import Basis, Check, Draft, Plan, Request, StepState
from cockpit.model.records import EventText
from cockpit.model.report import Verdict
from cockpit.model.run import RunSpec, TeardownSpec
from cockpit.model.wording import duration
from cockpit.platforms.base import CannotError, CommandError
from cockpit.platforms.command import shown, words_of
from cockpit.runtime.shell import CANNOT_RUN, NO_PROGRAM, Completed, run_command
from cockpit.store.journal import JournalEntry
from cockpit.text.checks import blocked, finding, passed, warned

STORAGE: Final = ("delete_files", "cancel_storage")
"""What removes durable storage: always last (SPEC A-12)."""
VERIFY_WITHIN: Final = 1800.0
STEP: Final = "teardown"
RUN_WITHIN: Final = 600.0


class Teardown(Action):
    """Runs the recorded command that stops the meter; the last thing that is done to a run."""

    verb = "teardown"
    exclusive = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what stops, what survives, and whether everything is here and loads."""
        spec = context.spec.teardown
        if spec is None:
            none = blocked(rows.TEARDOWN_COMMAND, "no [run.teardown] in cockpit.toml")
            return Draft(words=f"teardown {request.run}", checks=(none,))
        command, about = _command(spec)
        copied, files = await pulled(context, spec.pulled_to)
        loaded, count = await _verified(context, spec, copied, files)
        checks = (
            about,
            _meaning(spec),
            *nothing_lives(context, self.verb),
            *_before(context.entries),
            *_storage(context, spec),
            copied,
            loaded,
        )
        return Draft(
            words=f"{spec.kind} {host_of(context.spec)} {count}",
            checks=checks,
            command=command,
            loses=f"what {spec.kind} removes; survives: {_survives(spec)}",
            facts={"kind": spec.kind, "host": host_of(context.spec), "verified": str(count)},
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: run the command once, log, comment."""
        return (
            Step(STEP, _run),
            log_step(_entry, f"{plan.run}: log teardown", after_failure=True),
            comment_step(event_name, _comment, after_failure=True),
        )


def host_of(run: RunSpec) -> str:
    """Return what a person types for the machine: the job's host, else this machine."""
    return (run.job.host if run.job is not None else None) or "local"


def _command(spec: TeardownSpec) -> tuple[str | None, Check]:
    if spec.command is None:
        return None, blocked(rows.TEARDOWN_COMMAND, "no command is recorded (teardown.command)")
    try:
        line = shown(words_of(spec.command))
    except CommandError as error:
        text = str(error).replace("resubmit", "teardown.command")
        return None, blocked(rows.TEARDOWN_COMMAND, text)
    return line, passed(rows.TEARDOWN_COMMAND, f"runs once: {line}")


def _meaning(spec: TeardownSpec) -> Check:
    meter = "stops the meter" if spec.stops_meter else "does NOT stop the meter: it goes on billing"
    back = "can be undone" if spec.reversible else "cannot be undone"
    text = f"{spec.kind} {meter}; survives: {_survives(spec)}; {back}"
    harmless = spec.stops_meter and spec.reversible
    return (passed if harmless else warned)(rows.METER, text)


def _survives(spec: TeardownSpec) -> str:
    return ", ".join(safe(each) for each in spec.survives) or "nothing"


def _before(entries: Sequence[JournalEntry]) -> Iterator[Check]:
    """Yield the hard facts of an earlier teardown: one that was begun may have happened."""
    for entry in reversed(entries):
        step = entry.step(STEP) if entry.action == "teardown" else None
        if step is None or step.state is StepState.FAILED:
            continue
        if step.state is StepState.DONE:
            text = f"already torn down by {entry.operator}"
        else:
            text = f"a teardown by {entry.operator} was started, outcome unknown"
        yield finding(rows.TORN_DOWN, f"{text}; {CONSOLE}")
        return


def _storage(context: ActionContext, spec: TeardownSpec) -> Iterator[Check]:
    """Durable storage goes last: when the run is sealed and its records are pushed."""
    if spec.kind not in STORAGE:
        return
    records = context.report.facets.records.value
    left = []
    if context.report.verdict is not Verdict.SEALED:
        left.append(f"the run is {context.report.verdict.value}, not sealed")
    if records is not None and records.logbook is not None and not records.pushed:
        left.append("its logbook is not pushed")
    if left:
        yield blocked(rows.STORAGE, f"{spec.kind} comes last: {'; '.join(left)}")
    else:
        yield passed(rows.STORAGE, "everything else is done: durable storage may go")


async def _verified(
    context: ActionContext, spec: TeardownSpec, pulled: Check, files: int
) -> tuple[Check, int]:
    """Load every artifact by the run file's own command; only that proves that they are whole."""
    if spec.verify is None:
        text = "no command verifies the artifacts by loading them (teardown.verify)"
        return blocked(rows.VERIFIED, text, Basis.RECORDED), 0
    if pulled.stands_in_the_way:
        return blocked(rows.VERIFIED, "not asked: not all artifacts are here"), 0
    try:
        done = await execute(context, spec.verify, VERIFY_WITHIN)
    except CommandError as error:
        return blocked(rows.VERIFIED, str(error).replace("resubmit", "teardown.verify")), 0
    if done.timed_out:
        text = f"verify did not end within {duration(VERIFY_WITHIN)}"
        return blocked(rows.VERIFIED, text), 0
    if done.rc != 0:
        return blocked(rows.VERIFIED, f"verify ended with {done.rc}: {last_line(done)}"), 0
    found = verified(done.text, files)
    if isinstance(found, str):
        return blocked(rows.VERIFIED, found), 0
    text = f"{plural(found, 'artifact')} verified by load"
    return passed(rows.VERIFIED, text, value=str(found)), found


async def execute(context: ActionContext, command: Command, deadline: float) -> Completed:
    """Run a recorded command beside the run file; its ``$VARS`` resolve now and nowhere else.

    Raises ``CommandError`` for one that cannot be run as it is written.
    """
    try:
        words = expand(words_of(command), os.environ)
    except KeyError as error:
        raise CommandError(f"${error.args[0]} is not set") from error
    return await run_command(words, deadline=deadline, cwd=Path(context.file.path).parent)


def last_line(done: Completed) -> str:
    """Return the last line that a command said, safe to show."""
    lines = [
        line for line in (done.err or done.out).decode("utf-8", "replace").splitlines() if line
    ]
    return safe(lines[-1]) if lines else "no message"


async def _run(execution: Execution) -> str:
    spec = execution.context.spec.teardown
    if spec is None or spec.command is None:
        raise StepError("cockpit.toml no longer has a teardown command")
    try:
        done = await execute(execution.context, spec.command, RUN_WITHIN)
    except CommandError as error:
        raise StepError(str(error)) from error
    if done.timed_out or done.rc < 0:
        late = f"did not answer within {duration(RUN_WITHIN)}"
        how = late if done.timed_out else "was killed"
        raise StepUnknownError(f"the command {how}: {CONSOLE}")
    if done.rc in (NO_PROGRAM, CANNOT_RUN):
        raise CannotError(f"the command could not be run: {last_line(done)}")
    if done.rc != 0:
        raise StepUnknownError(f"the command ended with {done.rc}: {last_line(done)}; {CONSOLE}")
    return f"{spec.kind} was ordered: {last_line(done)}"


def _entry(execution: Execution) -> EventText:
    facts, trouble = execution.facts, execution.trouble
    done = "ordered" if trouble is None else f"not certain: {trouble}"
    return EventText(
        title=f"teardown: {facts['kind']} {facts['host']}",
        status=f"{done}, by {execution.entry.operator}",
        evidence=f"{facts['verified']} artifacts verified by load; {execution.plan.command}",
        decision=f"confirmed as: {execution.plan.words}",
        next=CONSOLE if trouble else "check that the meter has stopped",
    )


def _comment(execution: Execution) -> str:
    facts = execution.facts
    text = f"Teardown ({facts['kind']} {facts['host']}) by {execution.entry.operator}"
    trouble = f" is not certain: {execution.trouble}" if execution.trouble else " was ordered"
    return f"{text}{trouble}. {facts['verified']} artifacts were verified by load before."
