"""After a crash: what an interrupted action did, told from its journal and a look-up (SPEC A).

Nothing is repeated. A submit that was begun is looked up by its launch id; what cannot be
looked up stays unknown and stands in the way of every other action on the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

from cockpit.actions.core.action import Action, Execution, asked
from cockpit.actions.core.context import ActionContext, Dependencies, acting
from cockpit.actions.core.execution import run_steps
from cockpit.actions.core.guards import Claims
from cockpit.model.base import Frozen
from cockpit.model.jobs import Found, LookUp
from cockpit.model.plan import Approval, Basis, Check, Level, Outcome, Plan, StepState
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.records.lease.holder import still_working
from cockpit.store.journal import UNREADABLE, JournalEntry

SUBMIT = "submit"
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


async def settle(
    run: RunSpec, entry: JournalEntry, platform: Platform | None, alive: bool | None
) -> InterruptedAction:
    """Return what became of an action that nobody has ended; changes nothing.

    ``alive`` says whether it is still being done (``None``: on another machine).
    """
    if entry.outcome is None and alive is not False:
        where = "is at it" if alive else "began it on another machine"
        text = f"{_what(entry)}: {entry.operator} {where} ({entry.holder.label})"
        return InterruptedAction(entry=entry, outcome=None, text=text, elsewhere=alive is None)
    if entry.outcome is Outcome.DONE:
        return InterruptedAction(
            entry=entry, outcome=Outcome.DONE, job_id=entry.job_id,
            text=f"{_what(entry)} was done, but not all of it was recorded",
        )  # fmt: skip
    for step in map(entry.step, NOT_LOOKED_UP):
        if step is not None and step.state in (StepState.BEGUN, StepState.UNKNOWN):
            text = f"{_what(entry)}: nobody knows whether {step.name} happened; look for yourself"
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
    return await _looked_up(run, entry, platform, submit.at)


async def _looked_up(
    run: RunSpec, entry: JournalEntry, platform: Platform | None, begun: float
) -> InterruptedAction:
    lost = entry.action == "lineage" and entry.plan.plan_id == UNREADABLE
    if platform is None or entry.launch_id is None or lost:
        text = f"{_what(entry)}: its submit ({entry.launch_id}) cannot be looked up by this version"
        text += "; look for yourself"
        return InterruptedAction(entry=entry, outcome=Outcome.UNKNOWN, text=text, by_person=True)
    found = await platform.look_up(_subject(run, entry), entry.launch_id)
    what = f"{_what(entry)}: looked up {entry.launch_id}: {found.text}"
    if found.found is Found.UNKNOWN:
        return InterruptedAction(entry=entry, outcome=Outcome.UNKNOWN, text=what, looked_up=found)
    outcome = Outcome.FAILED if found.found is Found.ABSENT else Outcome.DONE
    return InterruptedAction(
        entry=entry, outcome=outcome, text=what, job_id=found.job_id, looked_up=found,
        started_at=begun,
    )  # fmt: skip


def _subject(run: RunSpec, entry: JournalEntry) -> RunSpec:
    """Return the run whose launch it was: a new lineage is looked up under its own root."""
    if entry.action != "lineage":
        return run
    from cockpit.actions.launching.lineage import subject

    return subject(run, entry.plan)


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
    return Check(
        id=f"{ENTRY}{settled.entry.number}",
        level=level,
        text=settled.text,
        basis=Basis.RECORDED if settled.looked_up is None else Basis.OBSERVED,
        overridable=settled.elsewhere or settled.by_person,
        about_acting=True,
    )


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
        self, spec: RunSpec, without: JournalEntry | None = None, gone: Collection[int] = ()
    ) -> tuple[InterruptedAction, ...]:
        """Return what is known of each action that nobody has ended.

        Those of other machines whose numbers are in ``gone`` count as over.
        """
        if self._journal is None:
            return ()
        key = self._key(spec.name)
        platform = acting(self._parts.platforms(spec))
        entries = await asked(self._journal.unfinished, key)
        others = [each for each in entries if without is None or each.number != without.number]
        found = []
        for each in others:
            alive = still_working(each.holder, self._journal.place, each.number)
            over = alive is None and each.number in gone
            found.append(await settle(spec, each, platform, False if over else alive))
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
                said = f"{by.by} says that it is over ({by.reason}): " if by is not None else ""
                await self._settle(spec, each.model_copy(update={"text": said + each.text}))
        return found

    async def _settle(self, spec: RunSpec, settled: InterruptedAction) -> None:
        assert self._journal is not None
        settled = await self._all_but_recorded(spec, settled)
        entry, recorded = settled.entry, True
        if settled.outcome is Outcome.DONE:
            recorded = await self._finish(spec, settled)
        assert settled.outcome is not None
        await asked(
            self._journal.end,
            entry.number,
            settled.outcome,
            self._parts.clock.now(),
            settled.text,
            recorded=recorded,
        )
        if settled.outcome is not Outcome.UNKNOWN:
            await Claims(self._parts.guards).clear(spec)

    async def _all_but_recorded(
        self, spec: RunSpec, settled: InterruptedAction
    ) -> InterruptedAction:
        """Return it as done if all that was left to do when it was interrupted is to record it."""
        entry = settled.entry
        action = self._actions.get(entry.action)
        if settled.outcome is not Outcome.FAILED or action is None or not entry.steps:
            return settled
        if entry.outcome is not None or entry.plan.plan_id == UNREADABLE:
            return settled
        context = await self._context_of(spec, entry.operator)
        acts = [step for step in action.steps(context, entry.plan) if not step.records]
        if not acts or not all(_over(entry, step.name) for step in acts):
            return settled
        return settled.model_copy(update={"outcome": Outcome.DONE})

    async def _finish(self, spec: RunSpec, settled: InterruptedAction) -> bool:
        """Do the steps that only record and are not done yet; return whether all are now."""
        assert self._journal is not None
        entry = settled.entry
        action = self._actions.get(entry.action)
        if action is None or entry.plan.plan_id == UNREADABLE:
            await asked(self._journal.note, entry.number, entry.facts, settled.job_id)
            return False
        context = await self._context_of(spec, entry.operator)
        job_id = settled.job_id or entry.job_id
        execution = Execution(context, entry.plan, entry, self._journal, {**entry.facts}, job_id)
        await execution.note()
        left = [
            (place, step)
            for place, step in enumerate(action.steps(context, entry.plan))
            if step.records and not _over(entry, step.name)
        ]
        return (await run_steps(left, execution)).recorded


def _over(entry: JournalEntry, name: str) -> bool:
    step = entry.step(name)
    return step is not None and step.state in (StepState.DONE, StepState.SKIPPED)


def _interrupted(entry: JournalEntry) -> str:
    done = [step.name for step in entry.steps if step.state is StepState.DONE]
    begun = [step.name for step in entry.steps if step.state is StepState.BEGUN]
    text = f"{_what(entry)} was interrupted"
    text += f" in {begun[-1]}" if begun else " before it changed anything" if not done else ""
    return text + (f"; done before that: {', '.join(done)}" if done else "")
