"""Settles what crashed cockpits left: looked up, written down, its records finished (SPEC A)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

from cockpit.actions.action import Action, Doing
from cockpit.actions.ground import Ground, Parts
from cockpit.actions.guards import Claims
from cockpit.actions.holder import at_it
from cockpit.actions.keeping import Keeper
from cockpit.actions.recovery import Settled, settle
from cockpit.actions.running import Runner
from cockpit.model.plan import Approval, Outcome, StepState
from cockpit.model.run import RunSpec
from cockpit.store.journal import UNREADABLE, JournalEntry

GroundOf = Callable[[RunSpec, str], Awaitable[Ground]]


class Settling:
    """Surveys interrupted actions; settles those whose process is gone."""

    def __init__(
        self,
        parts: Parts,
        actions: Mapping[str, Action],
        keeper: Keeper | None,
        ground_of: GroundOf,
        key: Callable[[str], str],
    ) -> None:
        self._parts = parts
        self._actions = actions
        self._keeper = keeper
        self._ground_of = ground_of
        self._key = key

    async def survey(
        self, spec: RunSpec, without: JournalEntry | None = None, gone: Collection[int] = ()
    ) -> tuple[Settled, ...]:
        """Return what is known of each action that nobody has ended.

        Those of other machines whose numbers are in ``gone`` count as over.
        """
        if self._keeper is None or self._parts.journal is None:
            return ()
        key = self._key(spec.name)
        backend = self._parts.backends(spec)
        entries = await self._keeper.unfinished(key)
        others = [each for each in entries if without is None or each.number != without.number]
        found = []
        for each in others:
            alive = at_it(each.holder, self._keeper.place, each.number)
            over = alive is None and each.number in gone
            found.append(await settle(spec, each, backend, False if over else alive))
        return tuple(found)

    async def settle(
        self, spec: RunSpec, gone: Mapping[int, Approval] | None = None
    ) -> tuple[Settled, ...]:
        """Settle a run's interrupted actions and return them; unknown ones stay unknown.

        With ``gone``, only those: somebody answers for that another machine does them no more.
        """
        found = await self.survey(spec, gone=gone or ())
        for each in found:
            by = None if gone is None else gone.get(each.entry.number)
            if each.outcome is not None and (gone is None or by is not None):
                await self._settle(spec, each if by is None else _on_the_word_of(by, each))
        return found

    async def _settle(self, spec: RunSpec, settled: Settled) -> None:
        assert self._keeper is not None
        settled = await self._all_but_recorded(spec, settled)
        entry, recorded = settled.entry, True
        if settled.outcome is Outcome.DONE:
            recorded = await self._finish(spec, settled)
        assert settled.outcome is not None
        await self._keeper.end(
            entry.number,
            settled.outcome,
            self._parts.clock.now(),
            settled.text,
            recorded=recorded,
        )
        if settled.outcome is not Outcome.UNKNOWN:
            await Claims(self._parts.guards).clear(spec)

    async def _all_but_recorded(self, spec: RunSpec, settled: Settled) -> Settled:
        """Return it as done if all that was left to do when it was interrupted is to record it."""
        entry = settled.entry
        action = self._actions.get(entry.action)
        if settled.outcome is not Outcome.FAILED or action is None or not entry.steps:
            return settled
        if entry.outcome is not None or entry.plan.plan_id == UNREADABLE:
            return settled
        ground = await self._ground_of(spec, entry.operator)
        acts = [step for step in action.steps(ground, entry.plan) if not step.records]
        if not acts or not all(_over(entry, step.name) for step in acts):
            return settled
        return settled.model_copy(update={"outcome": Outcome.DONE})

    async def _finish(self, spec: RunSpec, settled: Settled) -> bool:
        """Do the steps that only record and are not done yet; return whether all are now."""
        assert self._keeper is not None
        keeper, entry = self._keeper, settled.entry
        action = self._actions.get(entry.action)
        if action is None or entry.plan.plan_id == UNREADABLE:
            await keeper.note(entry.number, entry.facts, settled.job_id)
            return False
        ground = await self._ground_of(spec, entry.operator)
        doing = Doing(ground=ground, plan=entry.plan, entry=entry, save=_nothing)
        doing.facts.update(entry.facts)
        doing.job_id = settled.job_id or entry.job_id

        async def save() -> None:
            await keeper.note(entry.number, doing.facts, doing.job_id)

        doing.save = save
        await save()
        left = [
            (place, step)
            for place, step in enumerate(action.steps(ground, entry.plan))
            if step.records and not _over(entry, step.name)
        ]
        quiet = Runner(keeper, self._parts.clock, lambda step: None, lambda point: None)
        return (await quiet.run(left, doing)).recorded


def _on_the_word_of(by: Approval, settled: Settled) -> Settled:
    text = f"{by.by} says that it is over ({by.reason}): {settled.text}"
    return settled.model_copy(update={"text": text})


def _over(entry: JournalEntry, name: str) -> bool:
    step = entry.step(name)
    return step is not None and step.state in (StepState.DONE, StepState.SKIPPED)


async def _nothing() -> None:
    return None
