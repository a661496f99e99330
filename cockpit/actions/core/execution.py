"""Does the steps of one action, each written into the journal before and after (SPEC A)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cockpit.actions.core.action import (
    Execution,
    SkipStep,
    Step,
    StepError,
    StepUnknownError,
    asked,
)
from cockpit.model.acts import Outcome, Records
from cockpit.model.plan import Result, StepResult, StepState
from cockpit.platforms.base import CannotError, LostError
from cockpit.store.store import StoreError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

PUBLIC: Final = ("log", "intent", "instance", "issue", "run-log", "log-trouble", "section")
"""Steps that write where others read: logbook, run log, issue."""
QUIET: Final = ("evidence", "save")
"""Steps of which nobody else sees anything."""
LOOKING: Final = (*QUIET, "checkpoint")
"""Steps that change nothing outside of this program's own files."""
MISSED: Final = (StepState.FAILED, StepState.UNKNOWN)
StepListener = Callable[[StepResult], None]


async def run_steps(
    steps: Sequence[tuple[int, Step]],
    execution: Execution,
    on_step: StepListener = lambda step: None,
) -> Result:
    """Do the steps, given with their places.

    The first that fails is the last, but for those that record the failure; a step that only
    records never stops the others.
    """
    results: list[StepResult] = []
    outcome, message = Outcome.DONE, ""
    for place, step in steps:
        if outcome is not Outcome.DONE and not step.after_failure:
            continue
        try:
            result = await _one(place, step, execution, on_step)
        except _JournalError as lost:  # it takes no more, and nothing unwritten may be done
            results.append(lost.result)
            at, said = f"the journal could not be written at {step.name}", str(lost.error)
            if outcome is Outcome.DONE and not step.records:
                all_steps = [each for _, each in steps]
                started = execution.job_id is not None
                outcome = _without_journal(lost.result, all_steps, started=started)
            if outcome is Outcome.FAILED and not _changed(results, steps):
                return _ended(
                    execution, outcome, f"nothing was done: {at}: {said}", results, missing=True
                )
            message = f"{at}, so nothing more was done: {said}"
            return _ended(execution, outcome, message, results, missing=True)
        results.append(result)
        if result.state in (StepState.DONE, StepState.SKIPPED):
            continue
        said = f"{step.name}: {result.note}"
        message = "; ".join(filter(None, (message, said)))
        if not step.records:
            failed = result.state is StepState.FAILED
            outcome = Outcome.FAILED if failed else Outcome.UNKNOWN
            execution.trouble, execution.unknown = said, not failed
    recording = {step.name for _, step in steps if step.records}
    missing = any(each.name in recording and each.state in MISSED for each in results)
    return _ended(execution, outcome, message, results, missing=missing)


class _JournalError(Exception):
    """The journal could not be written; ``result`` is how its step stands all the same."""

    def __init__(self, error: StoreError, result: StepResult) -> None:
        super().__init__(str(error))
        self.error = error
        self.result = result


def _without_journal(last: StepResult, steps: Sequence[Step], *, started: bool) -> Outcome:
    """Return what an action came to whose ``last`` step could not be written down.

    What is left of it is not done: it has failed, unless the last step that acts is done. How far
    it came is not known where that step does not know, or where a job was ``started``.
    """
    if started or last.state is StepState.UNKNOWN:
        return Outcome.UNKNOWN
    acting = [step.name for step in steps if not step.records and not step.after_failure]
    done = last.state is not StepState.FAILED and acting[-1:] == [last.name]
    return Outcome.DONE if done else Outcome.FAILED


def _changed(results: Sequence[StepResult], steps: Sequence[tuple[int, Step]]) -> bool:
    """Tell whether a step that acts was done, or may have been."""
    acts = {step.name for _, step in steps if not step.records} - {*LOOKING}
    done = (StepState.DONE, StepState.UNKNOWN)
    return any(each.name in acts and each.state in done for each in results)


def _ended(
    execution: Execution,
    outcome: Outcome,
    message: str,
    steps: Sequence[StepResult],
    *,
    missing: bool,
) -> Result:
    return Result(
        plan_id=execution.plan.plan_id,
        outcome=outcome,
        job_id=execution.job_id,
        launch_id=execution.entry.launch_id,
        steps=tuple(steps),
        message=message,
        recorded=not missing,
        records=_records(execution, steps, missing=missing),
        waiting=tuple(map(str, execution.pushing)),
        entry=execution.entry.number,
    )


def _records(execution: Execution, steps: Sequence[StepResult], *, missing: bool) -> Records:
    """Return how far the steps are written down where others read it."""
    kept = any(each.name in PUBLIC and each.state is StepState.DONE for each in steps)
    if missing:
        return Records.PARTLY if kept else Records.NONE
    if execution.pushing:
        return Records.PENDING
    return Records.KEPT if kept else Records.JOURNAL


async def _one(place: int, step: Step, execution: Execution, on_step: StepListener) -> StepResult:
    journal, number, at = execution.journal, execution.entry.number, execution.at
    clock = execution.context.parts.clock
    begun = StepResult(name=step.name, state=StepState.BEGUN, at=clock.now())
    try:
        await asked(journal.step, number, place, begun)
    except StoreError as error:
        failed = begun.model_copy(update={"state": StepState.FAILED, "note": "not begun"})
        raise _JournalError(error, failed) from error
    on_step(begun)
    at(f"{step.name}:begun")
    state, note = await _done(step, execution)
    at(f"{step.name}:did")
    said = None if note is None else scrub(clean(note))
    result = StepResult(name=step.name, state=state, at=clock.now(), note=said)
    try:
        await asked(journal.step, number, place, result)
    except StoreError as error:
        raise _JournalError(error, result) from error
    on_step(result)
    at(f"{step.name}:done")
    return result


async def _done(step: Step, execution: Execution) -> tuple[StepState, str | None]:
    try:
        await _still_ours(step, execution)
        return StepState.DONE, await step.run(execution)
    except SkipStep as why:
        return StepState.SKIPPED, str(why)
    except (StepError, CannotError) as error:
        return StepState.FAILED, str(error)
    except (StepUnknownError, LostError, TimeoutError) as error:
        return StepState.UNKNOWN, str(error) or "no answer in time"
    except StoreError as error:  # noted in the middle of it: how far it came is not known
        harmless = step.records or step.name in LOOKING
        return StepState.FAILED if harmless else StepState.UNKNOWN, str(error)
    except Exception as error:  # noqa: BLE001 - any fault of a step is shown as its outcome
        kind = StepState.FAILED if step.records else StepState.UNKNOWN
        return kind, f"internal error: {type(error).__name__}: {error}"


async def _still_ours(step: Step, execution: Execution) -> None:
    """See, before a step that acts, that nobody has taken the run; raises ``StepError``."""
    if step.records or step.after_failure:
        return
    lost = await execution.held.lost_since()
    if lost is not None:
        raise StepError(lost)
