"""Does the steps of one action, each written into the journal before and after (SPEC A)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cockpit.actions.action import Doing, SkipStep, Step, StepError, StepUnknownError
from cockpit.actions.backend import CannotError, LostError
from cockpit.actions.keeping import Keeper
from cockpit.model.clock import Clock
from cockpit.model.plan import Outcome, StepResult, StepState
from cockpit.store.store import StoreError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

Told = Callable[[StepResult], None]
At = Callable[[str], None]


@dataclass
class Ran:
    """How the steps ended."""

    outcome: Outcome
    message: str
    recorded: bool
    steps: tuple[StepResult, ...]


class Runner:
    """Runs steps in order. ``at`` is called at every point where a crash could fall."""

    def __init__(self, keeper: Keeper, clock: Clock, told: Told, at: At) -> None:
        self._keeper = keeper
        self._clock = clock
        self._told = told
        self._at = at

    async def run(self, steps: Sequence[tuple[int, Step]], doing: Doing) -> Ran:
        """Do the steps, given with their places.

        The first that fails is the last, but for those that record the failure; a step that
        only records never stops the others.
        """
        results: list[StepResult] = []
        outcome, recorded, message = Outcome.DONE, True, ""
        for place, step in steps:
            if outcome is not Outcome.DONE and not step.after_failure:
                continue
            try:
                result = await self._one(place, step, doing)
            except StoreError as error:
                return self._unwritten(step, error, results)
            results.append(result)
            if result.state in (StepState.DONE, StepState.SKIPPED):
                continue
            said = f"{step.name}: {result.note}"
            message = "; ".join(filter(None, (message, said)))
            if step.records:
                recorded = False
            else:
                failed = result.state is StepState.FAILED
                outcome = Outcome.FAILED if failed else Outcome.UNKNOWN
                doing.trouble = said
        return Ran(outcome, message, recorded, tuple(results))

    async def _one(self, place: int, step: Step, doing: Doing) -> StepResult:
        number = doing.entry.number
        begun = StepResult(name=step.name, state=StepState.BEGUN, at=self._clock.now())
        await self._keeper.step(number, place, begun)
        self._told(begun)
        self._at(f"{step.name}:begun")
        state, note = await _done(step, doing)
        self._at(f"{step.name}:did")
        said = None if note is None else scrub(clean(note))
        result = StepResult(name=step.name, state=state, at=self._clock.now(), note=said)
        await self._keeper.step(number, place, result)
        self._told(result)
        self._at(f"{step.name}:done")
        return result

    def _unwritten(self, step: Step, error: StoreError, results: list[StepResult]) -> Ran:
        """Stop here: the journal takes no more, and nothing unwritten may be done."""
        text = f"the journal could not be written at {step.name}, so nothing more was done: {error}"
        changed = any(each.state is StepState.DONE for each in results)
        outcome = Outcome.UNKNOWN if changed or not step.records else Outcome.DONE
        return Ran(outcome, text, False, tuple(results))


async def _done(step: Step, doing: Doing) -> tuple[StepState, str | None]:
    try:
        return StepState.DONE, await step.run(doing)
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
        return kind, f"a fault of the cockpit: {type(error).__name__}: {error}"
