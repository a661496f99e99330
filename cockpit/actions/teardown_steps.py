"""What a teardown does: the recorded command, once, and what was seen of it (SPEC A-12)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.action import Doing, Step, StepError, StepUnknownError
from cockpit.actions.backend import CannotError
from cockpit.actions.command import CommandError, words_of
from cockpit.actions.ground import Ground
from cockpit.actions.recording import comment_step, event_name, log_step
from cockpit.actions.saying import safe
from cockpit.launch.supervisor import expand
from cockpit.model.plan import Plan
from cockpit.model.records import EventEntry
from cockpit.model.run import Command
from cockpit.model.words import duration
from cockpit.sources.shell import CANNOT_RUN, NO_PROGRAM, Completed, run_command

STEP: Final = "teardown"
CONSOLE: Final = "look at the provider's console"
RUN_WITHIN: Final = 600.0


def steps_of(plan: Plan) -> Sequence[Step]:
    """Return the steps; an answer that was lost is recorded as well."""
    return (
        Step(STEP, _run),
        log_step(_entry, f"{plan.run}: log teardown", after_failure=True),
        comment_step(event_name, _comment, after_failure=True),
    )


async def execute(ground: Ground, command: Command, deadline: float) -> Completed:
    """Run a recorded command beside the run file; its ``$VARS`` resolve now and nowhere else.

    Raises ``CommandError`` for one that cannot be run as it is written.
    """
    try:
        words = expand(words_of(command), os.environ)
    except KeyError as error:
        raise CommandError(f"${error.args[0]} is not set") from error
    return await run_command(words, deadline=deadline, cwd=Path(ground.file.path).parent)


def last_line(done: Completed) -> str:
    """Return the last line that a command said, safe to show."""
    lines = [
        line for line in (done.err or done.out).decode("utf-8", "replace").splitlines() if line
    ]
    return safe(lines[-1]) if lines else "no message"


async def _run(doing: Doing) -> str:
    spec = doing.ground.spec.teardown
    if spec is None or spec.command is None:
        raise StepError("the run file has no teardown command any more")
    try:
        done = await execute(doing.ground, spec.command, RUN_WITHIN)
    except CommandError as error:
        raise StepError(str(error)) from error
    if done.timed_out or done.rc < 0:
        how = "was killed" if not done.timed_out else f"gave no answer in {duration(RUN_WITHIN)}"
        raise StepUnknownError(f"the command {how}: {CONSOLE}")
    if done.rc in (NO_PROGRAM, CANNOT_RUN):
        raise CannotError(f"the command could not be run: {last_line(done)}")
    if done.rc != 0:
        raise StepUnknownError(f"the command ended with {done.rc}: {last_line(done)}; {CONSOLE}")
    return f"{spec.kind} was ordered: {last_line(done)}"


def _entry(doing: Doing) -> EventEntry:
    facts, trouble = doing.facts, doing.trouble
    done = "ordered" if trouble is None else f"not certain: {trouble}"
    return EventEntry(
        title=f"teardown: {facts['kind']} {facts['host']}",
        at=doing.entry.begun_at,
        status=f"{done}, by {doing.entry.operator}",
        evidence=f"{facts['verified']} artifacts verified by load; {doing.plan.command}",
        decision=f"confirmed as: {doing.plan.words}",
        next=CONSOLE if trouble else "see that the meter has stopped",
    )


def _comment(doing: Doing) -> str:
    facts = doing.facts
    text = f"Teardown ({facts['kind']} {facts['host']}) by {doing.entry.operator}"
    trouble = f" is not certain: {doing.trouble}" if doing.trouble else " was ordered"
    return f"{text}{trouble}. {facts['verified']} artifacts were verified by load before."
