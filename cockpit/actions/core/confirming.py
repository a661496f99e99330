"""Which plan a confirmation means, why nothing is done, and how far its records are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.actions.core.action import Action, Dependencies, asked, grown
from cockpit.model import check_rows as rows
from cockpit.model.acts import RECORDS, Outcome, Records
from cockpit.model.plan import Approval, Level, Loss, Plan, Request, Result, deeds
from cockpit.records.git.repository import Limits
from cockpit.records.git.saver import Push, PushStage, push_of
from cockpit.store.journal import WORDS_FOR, JournalEntry
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

READ_ONLY = "this cockpit is read-only: no actions"
NO_JOURNAL = "the journal cannot be written, and nothing is done without it"


def without_journal(plan: Plan, why: str) -> Plan:
    """Return the plan with the block that says why nothing could be written down."""
    text = f"{NO_JOURNAL}: {scrub(clean(why))}"
    check = rows.JOURNAL.check(Level.BLOCK, text)
    return plan.model_copy(update={"checks": (check, *plan.checks)})


def changed(shown: Plan, what: str, now: Plan | None = None) -> Result:
    """Return the refusal of a plan that is another one by now, and what to do about it.

    ``now`` is that one, with what was approved: its words are offered where they would do it.
    """
    again = "plan again"
    if now is not None and not now.blocked:
        again += f', or confirm the new plan with "{now.words}"'
    return refused(shown.plan_id, f"changed since it was shown: {what}; {again}")


def blocked(plan: Plan) -> Result:
    """Return the refusal of a plan with what stands in its way."""
    why = "; ".join(check.text for check in plan.checks if check.stands_in_the_way)
    return refused(plan.plan_id, f"blocked: {why}")


def refused(plan_id: str, message: str) -> Result:
    """Return that nothing was done, and why."""
    return Result(plan_id=plan_id, outcome=Outcome.REFUSED, message=message)


class Confirmation(NamedTuple):
    """A confirmation: ``shown`` is the id of the plan that was seen, ``seen`` what it would lose.

    ``words`` are as typed, without blanks around them.
    """

    request: Request
    words: str
    given: tuple[Approval, ...]
    shown: str | None
    seen: Loss | None


class Meant(NamedTuple):
    """A plan that was confirmed, the approvals that count for it, and why others do not."""

    plan: Plan
    approvals: tuple[Approval, ...] = ()
    uncounted: tuple[str, ...] = ()


def why_not(action: Action, shown: Plan, now: Plan) -> str | None:
    """Return what has changed since a plan was shown so that it may not be done."""
    return action.revalidate(shown, now) or grown(shown, now)


class Meaning:
    """Finds the plan that is meant; ``planned`` makes one anew, ``action`` names who revalidates.

    ``key`` is the run's in the store. Raises ``StoreError`` and ``RefuseError``.
    """

    def __init__(
        self,
        parts: Dependencies,
        planned: Callable[[Request], Awaitable[Plan]],
        action: Callable[[str], Action],
    ) -> None:
        self._parts = parts
        self._planned = planned
        self._action = action

    async def plan(self, key: str, said: Confirmation) -> Meant | Result:
        """Return the plan that these words confirm, or the refusal.

        What was shown to whoever acts goes before what others have planned since.
        """
        journal, request = self._parts.journal, said.request
        assert journal is not None
        since = self._parts.clock.now() - WORDS_FOR
        known = await asked(journal.plans, key, request.action, since)
        mine = [plan for plan in known if deeds(plan.params) == deeds(request.params)]
        mine.sort(key=lambda plan: plan.operator != request.operator)
        if said.shown is None:
            plan = await self._by_words(said, mine)
        else:
            plan = await self._by_id(said, said.shown, mine)
        if isinstance(plan, Result):
            return plan
        if said.words != plan.words:
            return refused(plan.plan_id, f'wrong words; expected "{plan.words}"')
        wanted = said.shown
        shown = [
            each
            for each in mine
            if each.plan_id == wanted or (wanted is None and each.operator == request.operator)
        ]
        return _counted(plan, said.given, shown)

    async def _by_id(self, said: Confirmation, shown: str, known: Sequence[Plan]) -> Plan | Result:
        """Return the plan of this id, as it was shown last."""
        mine = [plan for plan in known if plan.plan_id == shown]
        if not mine:
            return refused(shown, f"no recent plan {shown}; plan again")
        plan = next((each for each in mine if each.words == said.words), mine[0])
        if said.seen is not None:
            plan = plan.model_copy(update={"lost": said.seen})
        if plan.params != said.request.params:
            plan = await self._with_remarks(said.request, plan)
        return plan

    async def _with_remarks(self, request: Request, shown: Plan) -> Plan:
        """Return a shown plan as it is with the remarks that came only with the words."""
        now = await self._planned(request)
        if self._why_not(shown, now) is not None:
            return shown
        return now.model_copy(update={"words": shown.words, "lost": shown.lost})

    def _why_not(self, shown: Plan, now: Plan) -> str | None:
        return why_not(self._action(now.action), shown, now)

    async def _by_words(self, said: Confirmation, known: Sequence[Plan]) -> Plan | Result:
        """Return the plan as it is now; or one shown lately that differs by moving figures only."""
        now, words = await self._planned(said.request), said.words
        # A plan that nobody could confirm was no offer.
        offered = [
            plan
            for plan in known
            if plan.words == words
            and not any(each.stands_in_the_way and not each.overridable for each in plan.checks)
        ]
        if not offered:
            return now
        if now.words == words and not now.targets:
            # What was agreed to is what was shown: a loss past that is shown first.
            return now.model_copy(update={"lost": offered[0].lost})
        # Words that count what will be deleted mean the list that was shown, not a new one.
        held = offered if now.words == words else [
            plan for plan in offered if self._why_not(plan, now) is None
        ]  # fmt: skip
        if not held:
            why = self._why_not(offered[0], now) or "it changed"
            return changed(offered[0], why, now.approved(said.given))
        plan = held[0]
        if plan.params == said.request.params:
            return plan
        return now.model_copy(update={"words": plan.words, "lost": plan.lost})


def _counted(plan: Plan, given: Sequence[Approval], shown: Sequence[Plan]) -> Meant:
    """Return a plan with the approvals of blocks that stood in a plan shown before.

    One that was typed before anybody could see what it lets pass is an approval of nothing.
    """
    seen = [(each.id, each.standing) for one in shown for each in one.checks]
    counted, uncounted = [], []
    for approval in given:
        named = (each for each in plan.checks if each.id == approval.check)
        block = next((each for each in named if each.standing is not None), None)
        refusal = [
            one for one in seen if block is None and one[0] == rows.SECOND_MACHINE.id and one[1]
        ]
        if refusal:  # what only the taking of a claim found out, and told with the refusal
            counted.append(approval.model_copy(update={"seen": refusal[0][1]}))
        elif block is None:
            uncounted.append(f"approval of {approval.check} not counted: it blocks nothing here")
        elif (block.id, block.standing) in seen:
            counted.append(approval.model_copy(update={"seen": block.standing}))
        else:
            why = "no plan has shown this block to you as it stands now"
            uncounted.append(f"approval of {approval.check} not counted: {why}; plan again first")
    return Meant(plan, tuple(counted), tuple(uncounted))


OPEN: Final = (Records.PENDING, Records.HERE)
"""What a push that comes late still changes."""


def after_push(records: Records, pushes: Sequence[Push]) -> Records:
    """Return how far something is written down whose pushes stand like this."""
    if records not in OPEN:
        return records
    stages = {each.stage for each in pushes}
    if stages & {PushStage.FAILED, PushStage.HELD}:
        return Records.HERE
    return Records.PENDING if stages & {PushStage.QUEUED, PushStage.PUSHING} else Records.KEPT


async def refreshed(
    entries: Sequence[JournalEntry], logbook: str | None
) -> tuple[JournalEntry, ...]:
    """Return the entries as their logbook's push stands at this moment; changes nothing."""
    if logbook is None or not any(entry.written in OPEN for entry in entries):
        return tuple(entries)
    push = await push_of(Path(logbook), Limits())
    return tuple(_as_pushed(entry, push) for entry in entries)


def _as_pushed(entry: JournalEntry, push: Push) -> JournalEntry:
    records = after_push(entry.written, (push,))
    if records is entry.written:
        return entry
    return entry.model_copy(update={"facts": {**entry.facts, RECORDS: records.value}})
