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
from cockpit.model.outcome import Outcome, Records
from cockpit.model.plan import Result, StepResult, StepState
from cockpit.platforms.base import CannotError, LostError
from cockpit.store.store import StoreError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

PUBLIC: Final = ("log", "intent", "instance", "issue", "run-log", "log-trouble", "section")
"""Steps that write where others read: logbook, run log, issue."""
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
        except StoreError as error:
            # The journal takes no more, and nothing unwritten may be done.
            changed = any(each.state is StepState.DONE for each in results)
            outcome = Outcome.UNKNOWN if changed or not step.records else Outcome.DONE
            message = f"the journal could not be written at {step.name}, so nothing more was done: "
            return _ended(execution, outcome, f"{message}{error}", results, missing=True)
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
    await asked(journal.step, number, place, begun)
    on_step(begun)
    at(f"{step.name}:begun")
    state, note = await _done(step, execution)
    at(f"{step.name}:did")
    said = None if note is None else scrub(clean(note))
    result = StepResult(name=step.name, state=state, at=clock.now(), note=said)
    await asked(journal.step, number, place, result)
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
    except StoreError:
        raise
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
