"""After a crash: what an interrupted action did, told from its journal and a look-up (SPEC A).

Nothing is repeated. A submit that was begun is looked up by its launch id; what cannot be
looked up stays unknown and stands in the way of every other action on the run.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping

from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Dependencies,
    Execution,
    Step,
    StepError,
    acting,
    asked,
)
from cockpit.actions.core.execution import QUIET, look_up, run_steps, where_to_look
from cockpit.actions.core.guards import Claims
from cockpit.actions.core.new_run import new_run
from cockpit.model import check_rows as rows
from cockpit.model.base import Frozen
from cockpit.model.jobs import LaunchState, LookUp
from cockpit.model.plan import (
    Approval,
    Basis,
    Check,
    Level,
    Outcome,
    Plan,
    Result,
    StepResult,
    StepState,
)
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError, Platform
from cockpit.records.lease.state import halted, still_working
from cockpit.store.journal import SUBMIT, UNREADABLE, JournalEntry

DIED = "died"
"""The fact that says how a job ended that was started, where it lives no more."""
ACCEPTED = "accepted"
"""The fact that holds what a platform calls what it accepted."""
HANDLE = "handle"
"""The fact that holds what the platform wants to know again of what it accepted, as JSON."""
ENTRY = "journal:"
"""How the check begins that speaks of an entry of the journal; its number follows."""
NOT_LOOKED_UP = ("teardown",)
"""Steps of which only a person can find out whether they happened."""
ContextOf = Callable[[RunSpec, str], Awaitable[ActionContext]]


class InterruptedAction(Frozen):
    """What is known of an interrupted action; ``outcome`` ``None``: it still runs, or elsewhere."""

    entry: JournalEntry
    outcome: Outcome | None
    text: str
    job_id: str | None = None
    looked_up: LookUp | None = None
    started_at: float | None = None
    elsewhere: bool = False
    by_person: bool = False


def looked_up(entry: JournalEntry) -> bool:
    """Tell whether a look at the systems tells what became of an action: a launch or a stop."""
    return entry.launch_id is not None or entry.action == "stop"


def handle_in(facts: Mapping[str, str]) -> dict[str, str] | None:
    """Return what the journal keeps of what was accepted; empty where nothing was.

    ``None`` where something was, and its handle is not there to be read (an entry of another
    version): then the launch id alone tells, and nobody may say that nothing was sent.
    """
    try:
        found = json.loads(facts[HANDLE]) if HANDLE in facts else None
    except ValueError:
        found = None
    if isinstance(found, dict):
        return {str(key): str(value) for key, value in found.items()}
    return None if HANDLE in facts or ACCEPTED in facts else {}


async def settle(
    run: RunSpec,
    entry: JournalEntry,
    platform: Platform | None,
    alive: bool | None,
    *,
    closes: bool = True,
) -> InterruptedAction:
    """Return what became of an action that nobody has ended; changes nothing here.

    ``alive`` says whether it is still being done (``None``: on another machine). With ``closes``
    the platform may close the launch id of what was never let go, to be certain of it.
    """
    if entry.outcome is None and alive is not False:
        where = "in progress" if alive else "started on another machine"
        still = halted(entry.holder) if alive else ""
        text = f"{_what(entry)}: {where}, by {entry.operator} ({entry.holder.label}){still}"
        return InterruptedAction(entry=entry, outcome=None, text=text, elsewhere=alive is None)
    if entry.outcome is Outcome.DONE:
        return InterruptedAction(
            entry=entry, outcome=Outcome.DONE, job_id=entry.job_id,
            text=f"{_what(entry)} was done, but not all of it was recorded",
        )  # fmt: skip
    for step in map(entry.step, NOT_LOOKED_UP):
        if step is not None and step.state in (StepState.BEGUN, StepState.UNKNOWN):
            text = f"{_what(entry)}: cannot tell whether {step.name} happened; check by hand"
            return InterruptedAction(
                entry=entry, outcome=Outcome.UNKNOWN, text=text, by_person=True
            )
    submit = entry.step(SUBMIT)
    if submit is None or submit.state in (StepState.FAILED, StepState.SKIPPED):
        return InterruptedAction(entry=entry, outcome=Outcome.FAILED, text=_interrupted(entry))
    if submit.state is StepState.DONE:
        return InterruptedAction(
            entry=entry, outcome=Outcome.DONE, job_id=entry.job_id, started_at=submit.at,
            text=f"{_what(entry)} had started {entry.launch_id} when it was interrupted",
        )  # fmt: skip
    return await _looked_up(run, entry, platform, submit.at, closes)


async def _looked_up(
    run: RunSpec, entry: JournalEntry, platform: Platform | None, begun: float, closes: bool
) -> InterruptedAction:
    lost = entry.action == "lineage" and entry.plan.plan_id == UNREADABLE
    if platform is None or entry.launch_id is None or lost:
        text = f"{_what(entry)}: its submit ({entry.launch_id}) cannot be looked up by this version"
        text += "; check by hand"
        return InterruptedAction(entry=entry, outcome=Outcome.UNKNOWN, text=text, by_person=True)
    found = await look_up(
        platform, _launched_run(run, entry), entry.launch_id, handle_in(entry.facts), settle=closes
    )
    what = f"{_what(entry)}: looked up {entry.launch_id}: {found.text}"
    if found.found is LaunchState.UNKNOWN:
        where = where_to_look(platform, run, entry.launch_id, entry.facts.get(ACCEPTED))
        text = f"{what}; it is looked up again before anything else is done; {where}"
        return InterruptedAction(
            entry=entry, outcome=Outcome.UNKNOWN, text=text, looked_up=found, by_person=found.final
        )
    outcome = Outcome.FAILED if found.found is LaunchState.ABSENT else Outcome.DONE
    return InterruptedAction(
        entry=entry, outcome=outcome, text=what, job_id=found.job_id, looked_up=found,
        started_at=begun,
    )  # fmt: skip


def _launched_run(run: RunSpec, entry: JournalEntry) -> RunSpec:
    """Return the run whose launch it was: a new lineage is looked up under its own root."""
    return new_run(run, entry.plan.params) if entry.action == "lineage" else run


def declared_over(plan: Plan) -> dict[int, Approval]:
    """Return the entries that began on another machine and that somebody says are over."""
    by_entry = {
        check.id.removeprefix(ENTRY): check.approved
        for check in plan.checks
        if check.id.startswith(ENTRY) and check.approved is not None
    }
    return {int(number): approval for number, approval in by_entry.items()}


def check_of(settled: InterruptedAction) -> Check:
    """Return what a plan says about an interrupted action."""
    level = {Outcome.UNKNOWN: Level.BLOCK, None: Level.BLOCK}.get(settled.outcome, Level.WARN)
    by_person = settled.elsewhere or settled.by_person
    row = rows.INTERRUPTED_ELSEWHERE if by_person else rows.INTERRUPTED
    number = settled.entry.number
    basis = Basis.RECORDED if settled.looked_up is None else Basis.OBSERVED
    # What is looked up is worded anew each time: the entry is the value.
    check = row.check(level, settled.text, basis, f"entry {number}", of=str(number))
    # Once a person has said that it is over, the approval stays noted in the plan.
    return check.model_copy(update={"overridable": row.approvable})


def _declared(settled: InterruptedAction, by: Approval) -> InterruptedAction:
    """Return an action that somebody answers for: what no look can tell any more has failed."""
    text = f"{by.by} says that it is over ({by.reason}): {settled.text}"
    final = settled.looked_up is not None and settled.looked_up.final
    outcome = Outcome.FAILED if final else settled.outcome
    return settled.model_copy(update={"text": text, "outcome": outcome})


def _what(entry: JournalEntry) -> str:
    return f"{entry.action} by {entry.operator}"


class Recovery:
    """Surveys interrupted actions; settles those whose process is gone."""

    def __init__(
        self,
        parts: Dependencies,
        actions: Mapping[str, Action],
        context_of: ContextOf,
        key: Callable[[str], str],
    ) -> None:
        self._parts = parts
        self._actions = actions
        self._journal = parts.journal
        self._context_of = context_of
        self._key = key

    async def survey(
        self,
        spec: RunSpec,
        without: JournalEntry | None = None,
        gone: Collection[int] = (),
        *,
        closes: bool = True,
        only: Callable[[JournalEntry], bool] = lambda entry: True,
    ) -> tuple[InterruptedAction, ...]:
        """Return what is known of each action that nobody has ended.

        Those of other machines whose numbers are in ``gone`` count as over; ``closes`` as in
        ``settle``; ``only`` says which are looked at.
        """
        if self._journal is None:
            return ()
        key = self._key(spec.name)
        platform = acting(self._parts.platforms(spec))
        entries = await asked(self._journal.unfinished, key)
        own = None if without is None else without.number
        others = [each for each in entries if each.number != own and only(each)]
        found = []
        for each in others:
            alive = still_working(each.holder, self._journal.place, each.number)
            over = alive is None and each.number in gone
            still = False if over else alive
            found.append(await settle(spec, each, platform, still, closes=closes))
        return tuple(found)

    async def settle(
        self, spec: RunSpec, gone: Mapping[int, Approval] | None = None
    ) -> tuple[InterruptedAction, ...]:
        """Settle a run's interrupted actions and return them; unknown ones stay unknown.

        With ``gone``, only those: somebody answers for that another machine does them no more.
        """
        found = await self.survey(spec, gone=gone or ())
        for each in found:
            by = None if gone is None else gone.get(each.entry.number)
            if each.outcome is not None and (gone is None or by is not None):
                await self._settle(spec, each if by is None else _declared(each, by))
        return found

    async def look_up(self, spec: RunSpec) -> tuple[InterruptedAction, ...]:
        """Settle what a look at the systems can settle: launches and stops that nobody is at.

        Nothing while another action is being done on the run.
        """
        if self._journal is None:
            return ()
        lease = await asked(self._journal.lease, self._key(spec.name))
        held = lease is not None and still_working(lease.holder, self._journal.place, lease.entry)
        if held is not False and lease is not None:
            return ()
        found = await self.survey(spec, only=looked_up)
        for each in found:
            if each.outcome is not None:
                await self._settle(spec, each)
        return found

    async def _settle(self, spec: RunSpec, settled: InterruptedAction) -> None:
        assert self._journal is not None
        unknown = settled.outcome is Outcome.UNKNOWN
        cut_short = None if unknown else await self._execution(spec, settled)
        ended: Result | None = None
        if cut_short is not None and settled.outcome is Outcome.FAILED:
            settled = await self._as_it_is(cut_short, settled)
        if cut_short is not None and settled.outcome is Outcome.DONE:
            ended = await self._finish(cut_short, settled)
        elif cut_short is not None and settled.outcome is Outcome.FAILED:
            ended = await self._correct(cut_short, settled)
        elif settled.outcome is Outcome.DONE:
            await asked(
                self._journal.note, settled.entry.number, settled.entry.facts, settled.job_id
            )
        await self._end(settled, ended, readable=cut_short is not None)
        if settled.outcome is not Outcome.UNKNOWN:
            await Claims(self._parts.guards).clear(spec)

    async def _end(
        self, settled: InterruptedAction, ended: Result | None, *, readable: bool
    ) -> None:
        assert self._journal is not None and settled.outcome is not None
        number, whole = settled.entry.number, readable or settled.outcome is not Outcome.DONE
        if ended is not None and ended.steps:
            await asked(self._journal.recorded, number, ended.written)
            whole = ended.written.written
        await asked(
            self._journal.end, number, settled.outcome, self._parts.clock.now(), settled.text,
            recorded=whole,
        )  # fmt: skip

    async def _execution(self, spec: RunSpec, settled: InterruptedAction) -> Execution | None:
        """Return the action as it can be gone on with; ``None`` for one of another version."""
        assert self._journal is not None
        entry = settled.entry
        if entry.action not in self._actions or entry.plan.plan_id == UNREADABLE:
            return None
        context = await self._context_of(spec, entry.operator)
        job_id = settled.job_id or entry.job_id
        return Execution(context, entry.plan, entry, self._journal, {**entry.facts}, job_id)

    def _steps(self, execution: Execution) -> list[tuple[int, Step]]:
        action = self._actions[execution.entry.action]
        return list(enumerate(action.steps(execution.context, execution.plan)))

    async def _as_it_is(
        self, execution: Execution, settled: InterruptedAction
    ) -> InterruptedAction:
        """Look at what was cut short, and do again what is harmless; done, if all is there."""
        if settled.entry.outcome is not None or not settled.entry.steps:
            return settled
        for place, step in self._steps(execution):
            if step.records or _over(execution.entry, step.name):
                continue
            was = execution.entry.step(step.name)
            if step.again:
                await run_steps([(place, step)], execution)
            elif step.seen is not None and was is not None:
                await self._see(execution, place, step)
            entry = await asked(execution.journal.entry, execution.entry.number)
            execution.entry = entry or execution.entry
            if not _over(execution.entry, step.name):
                return settled
        return settled.model_copy(update={"outcome": Outcome.DONE})

    async def _see(self, execution: Execution, place: int, step: Step) -> None:
        """Write a step down as done if what it does is there."""
        assert step.seen is not None
        try:
            text = await step.seen(execution)
        except (StepError, CannotError, LostError, TimeoutError):
            return
        if text is not None:
            now = self._parts.clock.now()
            done = StepResult(name=step.name, state=StepState.DONE, at=now, note=text)
            await asked(execution.journal.step, execution.entry.number, place, done)

    async def _correct(self, execution: Execution, settled: InterruptedAction) -> Result | None:
        """Record that it did not come to its end, where something of it was begun."""
        entry = execution.entry
        if not any(step.name not in QUIET for step in entry.steps):
            return None
        execution.trouble, execution.unknown = settled.text, False
        again = entry.outcome is Outcome.UNKNOWN  # what was said then is known better now
        left = [
            (place, step)
            for place, step in self._steps(execution)
            if step.after_failure and (again or not _over(entry, step.name))
        ]
        return await run_steps(left, execution)

    async def _finish(self, execution: Execution, settled: InterruptedAction) -> Result:
        """Do the steps that only record and are not done yet."""
        entry, looked = execution.entry, settled.looked_up
        if looked is not None and looked.found is LaunchState.ENDED:
            execution.facts[DIED] = looked.text
        await execution.note()
        left = [
            (place, step)
            for place, step in self._steps(execution)
            if step.records and not _over(entry, step.name)
        ]
        return await run_steps(left, execution)


def _over(entry: JournalEntry, name: str) -> bool:
    step = entry.step(name)
    return step is not None and step.state in (StepState.DONE, StepState.SKIPPED)


def _interrupted(entry: JournalEntry) -> str:
    done = [step.name for step in entry.steps if step.state is StepState.DONE]
    begun = [step.name for step in entry.steps if step.state is StepState.BEGUN]
    text = f"{_what(entry)} was interrupted"
    text += f" in {begun[-1]}" if begun else " before it changed anything" if not done else ""
    return text + (f"; done before that: {', '.join(done)}" if done else "")
