"""Does the steps of an action, each journaled before and after, and looks up launches (SPEC A)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from cockpit.model.clock import Clock
from cockpit.model.jobs import LaunchState, LiveJob, LookUp
from cockpit.model.place import HERE
from cockpit.model.plan import Result, StepResult, StepState
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError, Platform
from cockpit.runtime.moment import Awake
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


STOPS: Final = "stops"
"""The fact that holds the ids of all that are told to end: as planned, then as they were told."""
ORDERED: Final = "ordered"
"""The fact that something was told to end."""


async def order(execution: Execution, jobs: Iterable[LiveJob]) -> None:
    """Note that these are told to end, before they are; what was told before stays noted.

    Raises ``StepError`` where it cannot be noted: then nothing may be told.
    """
    told = dict.fromkeys((*(job.id for job in jobs), *ordered(execution)))
    try:
        await execution.note(**{STOPS: "\n".join(told), ORDERED: "yes"})
    except StoreError as error:
        text = f"nothing was told to stop: the journal could not be written: {error}"
        raise StepError(text) from error


def ordered(execution: Execution) -> tuple[str, ...]:
    """Return the ids of what this action has told to end."""
    return ids_in(execution.facts, STOPS) if execution.facts.get(ORDERED) else ()


def planned(execution: Execution) -> tuple[str, ...]:
    """Return the ids of what was to end by the plan."""
    return ids_in(execution.plan.facts, STOPS)


def ids_in(facts: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the ids of jobs that a fact holds."""
    return tuple(filter(None, facts.get(name, "").split("\n")))


def ended_words(execution: Execution, done: str, left: str) -> str:
    """Return which jobs of the plan were told to end, behind ``done``, and which behind ``left``.

    They are named as the plan names them.
    """
    names = dict(zip(planned(execution), execution.plan.stops, strict=False))
    told = [names.get(each, each) for each in ordered(execution)]
    parts = ((done, told), (left, [names[each] for each in spared(execution) if each in names]))
    return "; ".join(f"{what}: {', '.join(who)}" for what, who in parts if who)


def spared(execution: Execution) -> tuple[str, ...]:
    """Return the ids of what was to end by the plan, and was not told to."""
    return tuple(each for each in planned(execution) if each not in ordered(execution))


ANSWER_WITHIN: Final = 60.0
"""Seconds in which a look-up must end by itself: past them it is given up for unknown."""
LAP: Final = 15.0
"""Seconds that a look takes as a rule; what it takes beyond them this process may have stood."""
EASES: Final = 1.25
"""How much longer each wait is than the one before: many looks at first, few later."""
SLOWEST: Final = 10.0
"""Seconds between two looks at most, unless the platform wants more."""


async def look_up(
    platform: Platform,
    run: RunSpec,
    launch_id: str,
    handle: Mapping[str, str] | None = None,
    *,
    settle: bool = True,
) -> LookUp:
    """Return what became of a launch id; never raises, and ends within ``ANSWER_WITHIN``.

    ``handle`` and ``settle`` are those of ``Platform.look_up``; without a handle, which only the
    journal that began the launch has, it is looked up by its id alone.
    """
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            return await platform.look_up(run, launch_id, handle, settle=settle)
    except TimeoutError:
        why = f"no answer within {ANSWER_WITHIN:g} s"
    except Exception as error:  # noqa: BLE001 - whatever went wrong, nothing was learned
        why = f"{type(error).__name__}: {scrub(clean(error, 300))}"
    return LookUp(found=LaunchState.UNKNOWN, text=f"the look-up failed: {why}")


def where_to_look(platform: Platform, run: RunSpec, launch_id: str, accepted: str | None) -> str:
    """Return who a person has to ask what became of a launch, and for which name and id."""
    try:
        name = platform.name_for(launch_id)
        where = platform.endpoint(run)
    except Exception:  # noqa: BLE001 - only words are at stake
        return "check by hand"
    place = "" if where == HERE else f" at {where}"
    known = f", accepted as {accepted}" if accepted and accepted != name else ""
    return scrub(clean(f"check by hand for {name}{place}{known}", 400))


class Pace:
    """Waits between looks: first as often as the platform likes, then less and less often."""

    def __init__(self, clock: Clock, platform: Platform) -> None:
        self._clock = clock
        self._wait = platform.look_every
        self._slowest = max(SLOWEST, platform.look_every)

    def until(self, seconds: float) -> Awake:
        """Return a deadline that does not count the time in which this process was stopped."""
        return Awake(seconds, min(LAP + self._slowest, seconds / 2), self._clock.monotonic)

    async def wait(self) -> None:
        """Wait until the next look is due."""
        await self._clock.sleep(self._wait)
        self._wait = min(self._wait * EASES, self._slowest)


async def settled(
    platform: Platform,
    run: RunSpec,
    launch_id: str,
    clock: Clock,
    handle: Mapping[str, str] | None = None,
) -> LookUp:
    """Look up until it is known, for as long as the platform's fence needs to be definite."""
    pace = Pace(clock, platform)
    until = pace.until(platform.definite_within)
    while True:
        found = await look_up(platform, run, launch_id, handle)
        if found.found is not LaunchState.UNKNOWN or found.final or until.left() <= 0:
            return found
        await pace.wait()
