"""The one way in which anything is done to a run (SPEC A): plan, words, journal, do, record.

The terminal UI and the command line both ask here. A plan changes nothing. Acting takes the
run's lease, makes the plan again under it, and stops if anything that matters has changed since
it was shown; then every step is written into the journal before and after it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Dependencies,
    Execution,
    Failpoint,
    RefuseError,
    acting,
    asked,
    living,
    masked_plan,
    masked_request,
    people_of,
)
from cockpit.actions.core.agents import USED, AgentGuard, Turn, Vetoed, forbidden, standing_check
from cockpit.actions.core.confirming import (
    NO_JOURNAL,
    READ_ONLY,
    Confirmation,
    Meaning,
    after_push,
    blocked,
    changed,
    refreshed,
    refused,
    why_not,
    without_journal,
)
from cockpit.actions.core.execution import StepListener, run_steps
from cockpit.actions.core.guards import (
    Claims,
    Hold,
    claim_checks,
    known_here,
    looked_up_elsewhere,
    noted_ids,
    take,
    unread_ids,
)
from cockpit.actions.core.recording import records_ready
from cockpit.actions.core.recovery import InterruptedAction, Recovery, check_of, declared_over
from cockpit.hosts.notes import next_launch_id
from cockpit.model.acts import Outcome, Records
from cockpit.model.jobs import Live
from cockpit.model.plan import Approval, Check, Draft, Loss, Plan, Request, Result, plan_of
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec, agents_of
from cockpit.model.shared_facts import by_standing_order, is_agent, own_word, typist
from cockpit.model.standing import armed_by
from cockpit.records.lease.state import looked_after, this_holder, under_way
from cockpit.store.journal import Busy, JournalEntry, UsedIdError
from cockpit.store.store import StoreError, run_key
from cockpit.text.safe import clean

PUSH_WITHIN = 3.0
"""Seconds after its end for which an action waits to hear that its records were pushed."""
LAUNCH_ID = "launch_id"
ENDS_ELSEWHERE = "orders on other machines end as soon as they read it"
Given = tuple[Approval, ...]


class ActionService:
    """Plans and does guarded actions on the runs of one run file.

    ``file`` returns the run file in use. ``at`` is called at every point where a crash could
    fall (tests kill the process there).
    """

    def __init__(
        self,
        file: Callable[[], CockpitFile],
        parts: Dependencies,
        actions: Mapping[str, Action],
        *,
        read_only: bool = False,
        at: Failpoint = lambda point: None,
    ) -> None:
        self.actions = actions
        self.read_only = read_only
        self._file = file
        self._parts = parts
        self._at = at
        self._journal = parts.journal
        told = (parts.notifier, self._takes_over, parts.reread)
        self._agents = AgentGuard(parts.store, parts.clock, *told)
        self._meaning = Meaning(parts, self._planned, self._action)
        self._settling = Recovery(parts, actions, self._context_of, self._key)

    async def plan(self, request: Request, approvals: Sequence[Approval] = ()) -> Plan:
        """Return what would be done, as it may be shown; changes nothing but the memory of it.

        Raises ``RefuseError`` for a request that makes no sense.
        """
        plan = masked_plan(await self._planned(request, approvals))
        if self.read_only:
            return plan
        return await self._agents.noted(self._key(plan.run), plan, self._over(request))

    async def draft(self, request: Request) -> Plan:
        """Return a plan to look at: nobody is told that it was made.

        Raises ``RefuseError`` for a request that makes no sense.
        """
        return masked_plan(await self._planned(request))

    async def _planned(self, request: Request, approvals: Sequence[Approval] = ()) -> Plan:
        """Return the plan as it is acted on: its paths are those of the files."""
        request, approvals = masked_request(request, approvals)
        context, settled = await self._context(request)
        approvals = self._typed(request, approvals, context)
        plan = await self._draft(request, context, settled)
        if self._journal is None or not self._journal.writes:
            plan = without_journal(plan, "nothing can be written into the store")
        elif not self.read_only:
            try:
                await asked(self._journal.keep_plan, context.key, plan)
            except StoreError as error:
                plan = without_journal(plan, str(error))
        return plan.approved(approvals)

    async def act(
        self,
        request: Request,
        words: str,
        approvals: Sequence[Approval] = (),
        *,
        shown: str | None = None,
        seen: Loss | None = None,
        on_step: StepListener = lambda step: None,
    ) -> Result:
        """Do what was planned, if the words are right and nothing has changed.

        ``shown`` is the id of the plan that the person saw; without it the words must be those
        of a plan that was shown lately, or of the plan as it is now. ``seen`` is what would be
        lost as the page said last, which follows the run. ``on_step`` hears of every
        step. Raises ``RefuseError`` for a request that makes no sense.
        """
        if self.read_only or self._journal is None or not self._journal.writes:
            return refused(shown or "", READ_ONLY if self.read_only else NO_JOURNAL)
        request, approvals = masked_request(request, approvals)
        try:
            await self.recover(request.run)
            await self._parts.recorder.push_left(self._spec(request.run))
            approvals = self._typed(request, approvals)
            said = Confirmation(request, words.strip(), approvals, shown, seen)
            meant = await self._meaning.plan(self._key(request.run), said)
            if isinstance(meant, Result):
                return meant
            approved = meant.plan.approved(meant.approvals)
            if not approved.blocked:
                await self._settling.settle(self._spec(request.run), declared_over(approved))
            spec, over = self._spec(request.run), self._over(request)
            told = forbidden(self._file(), spec, request.operator, request.action)
            grace = agents_of(self._file(), spec).grace
            turn = Turn(self._key(request.run), spec, request, approved, told, grace, over, on_step)
            begin = partial(self._begin, request, meant.plan, meant.approvals, on_step)
            result = await (begin() if approved.blocked else self._agents.attended(turn, begin))
            said_so = "; ".join(filter(None, (result.message, *meant.uncounted)))
            return result.model_copy(update={"message": said_so})
        except StoreError as error:
            return refused(shown or "", f"{NO_JOURNAL}: {error}")

    async def veto(self, run: str, by: str, reason: str = "") -> Vetoed:
        """End a run's standing order and stop what agents are about there; return what that was.

        Raises ``StoreError``, and ``RefuseError`` for an agent and for a run that is not there.
        """
        if is_agent(by) or self.read_only:
            raise RefuseError("a veto is for a person to give, in a cockpit that may act")
        spec, who = self._spec(run), typist(by, self._parts.login)
        return await self._agents.veto(self._key(spec.name), who, reason)

    async def end_elsewhere(self, run: str, by: str, *, ended: bool) -> str | None:
        """Tell other machines that no standing order holds; return how that went, in one line.

        ``ended`` tells that one was ended here. ``None`` where no order is known anywhere.
        """
        if not ended and self._spec(run).standing is None:
            return None
        request = Request(action="standing", run=run, operator=by, params={"off": "yes"})
        try:
            records = (await self._parts.look(run)).facets.records.value
            if not ended and not armed_by(() if records is None else records.told):
                return None
            plan = await self.plan(request)
            result = await self.act(request, plan.words, shown=plan.plan_id)
        except (RefuseError, StoreError, TimeoutError) as error:
            why = str(error)
        else:
            if result.outcome is Outcome.DONE and result.written.written:
                return ENDS_ELSEWHERE
            why = result.message or result.text
        other = f'cockpit standing {run} --off yes --confirm "standing {run}"'
        return f"orders on other machines may still hold ({why}); {other} ends them"

    def _over(self, request: Request) -> str | None:
        """Return who takes the run over by this, if they are a person."""
        over = self._takes_over(request.action)
        return typist(request.operator, self._parts.login) if over else None

    def _takes_over(self, verb: str) -> bool:
        return self._action(verb).exclusive

    async def recover(self, run: str) -> tuple[InterruptedAction, ...]:
        """Settle what crashed cockpits left of a run: look up, write down, give leases back."""
        if self.read_only or self._journal is None or not self._journal.writes:
            return ()
        return await self._settling.settle(self._spec(run))

    async def look_up(self, run: str) -> tuple[InterruptedAction, ...]:
        """Look up the launches and stops whose outcome nobody knows, and write it down."""
        if self.read_only or self._journal is None or not self._journal.writes:
            return ()
        return await self._settling.look_up(self._spec(run))

    async def interrupted(self, run: str) -> tuple[InterruptedAction, ...]:
        """Return what is known of actions that nobody has ended; changes nothing."""
        return await self._settling.survey(self._spec(run), closes=False)

    async def history(self, run: str) -> tuple[JournalEntry, ...]:
        """Return every action on a run, oldest first; raises ``StoreError``."""
        if self._journal is None:
            return ()
        told = await asked(self._journal.entries, self._key(run))
        known = await refreshed(told, self._spec(run).records.logbook)
        moved = (now for was, now in zip(told, known, strict=True) if was is not now)
        for entry in moved if self._journal.writes and not self.read_only else ():
            await asked(self._journal.recorded, entry.number, entry.written)
        return looked_after(known, self._journal.place)

    def measured(self, plan: Plan, report: RunReport) -> Plan:
        """Return a shown plan with its moving figures as a report has them; asks nobody."""
        return self._action(plan.action).measured(plan, report)

    async def _begin(
        self, request: Request, shown: Plan, approvals: Given, on_step: StepListener
    ) -> Result:
        assert self._journal is not None
        action = self._action(request.action)
        if shown.approved(approvals).blocked:
            return blocked(shown.approved(approvals))
        try:
            entry = await asked(
                self._journal.begin,
                self._key(request.run),
                shown.approved(approvals),
                typist(request.operator, self._parts.login),
                this_holder(),
                self._parts.clock.now(),
                exclusive=action.exclusive,
                launch_id=shown.facts.get(LAUNCH_ID) if action.launches else None,
            )
        except Busy as busy:
            return refused(shown.plan_id, f"{busy}; nothing was done")
        except UsedIdError as used:
            return changed(shown, f"launch id {used} was used meanwhile")
        self._at("begun")
        claims = Claims(self._parts.guards if action.exclusive else ())
        with under_way(self._journal.place, entry.number):
            try:
                result = await self._under_lease(request, shown, entry, claims, approvals, on_step)
            except RefuseError as error:
                result = refused(shown.plan_id, str(error))
            # Anything else that is raised leaves the entry open: it will be looked up.
            result = await self._end(entry, result, claims, self._spec(request.run))
        return await self.pushed(result, PUSH_WITHIN)

    async def _under_lease(
        self,
        request: Request,
        shown: Plan,
        entry: JournalEntry,
        claims: Claims,
        approvals: Given,
        on_step: StepListener,
    ) -> Result:
        action, spec = self._action(request.action), self._spec(request.run)
        assert self._journal is not None
        over = claims.approved_over(approvals)
        held = (spec, self._key(spec.name), entry.number, self._parts, claims)
        hold = Hold(*held, exclusive=action.exclusive)
        taken = await take(hold, entry.launch_id, action.verb, over=over)
        if taken is not None:
            now = self._parts.clock.now()
            told = claims.refusing(shown, taken).model_copy(update={"made_at": now})
            await asked(self._journal.keep_plan, self._key(spec.name), told)
            return refused(shown.plan_id, taken)
        self._at("claimed")
        context, settled = await self._context(request, entry)
        approvals = self._typed(request, approvals, context)
        plain = await self._draft(request, context, settled)
        fresh = plain.approved(approvals)
        why = why_not(action, shown, fresh)
        if why is not None:
            # Its figures are told with the refusal: the same words again mean them.
            await asked(self._journal.keep_plan, context.key, plain)
            return changed(shown, why, fresh)
        if fresh.blocked:
            return blocked(fresh)
        lost = await hold.lost()
        if lost is not None:
            return refused(shown.plan_id, lost)
        self._at("planned")
        plan = shown.approved(approvals)
        execution = Execution(context, plan, entry, self._journal, at=self._at, held=hold)
        await execution.note(**plan.facts)
        steps = list(enumerate(action.steps(context, plan)))
        return await run_steps(steps, execution, on_step)

    async def _end(
        self, entry: JournalEntry, result: Result, claims: Claims, spec: RunSpec
    ) -> Result:
        """Write the end down and give everything back; an unknown outcome keeps its claim."""
        assert self._journal is not None
        try:
            if result.records is not None:
                await asked(self._journal.recorded, entry.number, result.records)
            await asked(
                self._journal.end,
                entry.number,
                result.outcome,
                self._parts.clock.now(),
                result.message,
                recorded=result.written.written,
            )
        except StoreError as error:
            said = "; ".join(filter(None, (result.message, f"outcome not written: {error}")))
            lost = {"recorded": False, "records": Records.PARTLY, "message": said}
            return result.model_copy(update=lost)
        self._at("ended")
        if result.outcome is not Outcome.UNKNOWN:
            await claims.release(spec, used=result.outcome is not Outcome.REFUSED)
        self._at("released")
        return result

    async def pushed(self, result: Result, within: float = 0.0) -> Result:
        """Return an outcome with how the pushes of its records stand, at the latest in a while.

        It is noted in the journal too; raises nothing.
        """
        if self._journal is None or not result.waiting or result.entry is None:
            return result
        paths = map(Path, result.waiting)
        pushes = await self._parts.recorder.pushes(paths, within)
        records = after_push(result.written, pushes)
        if records is result.written:
            return result
        why = "; ".join(each.text for each in pushes if each.trouble is not None)
        said = result.message if why in result.message else f"{result.message}; {why}".strip("; ")
        told = {"records": records, "recorded": records.whole, "message": said}
        with suppress(StoreError):
            await asked(self._journal.recorded, result.entry, records, said)
        return result.model_copy(update=told)

    async def _context(
        self, request: Request, own: JournalEntry | None = None
    ) -> tuple[ActionContext, tuple[InterruptedAction, ...]]:
        """Look at the run anew; ``own`` is our own entry, which is no hindrance to itself."""
        action = self._action(request.action)
        spec = self._spec(request.run)
        closes = not self.read_only and self._journal is not None and self._journal.writes
        settled = await self._settling.survey(spec, without=own, closes=closes)
        claims = Claims(self._parts.guards if action.exclusive else ())
        context, seen = await asyncio.gather(
            self._context_of(spec, request.operator), claims.survey(spec)
        )
        context = replace(context, claims=seen)
        if own is not None:
            return replace(context, launch_id=own.launch_id), settled
        if not action.launches:
            return context, settled
        known = await known_here(self._journal, context)
        known |= {claim.launch_id for claim in context.claims if claim.launch_id}
        noted = await noted_ids(spec, context.acting_platform)
        launch_id = next_launch_id(spec.name, known | noted.ids)
        return replace(context, launch_id=launch_id, ids_unread=noted.unread), settled

    async def _context_of(self, spec: RunSpec, operator: str) -> ActionContext:
        report, live = await asyncio.gather(self._parts.look(spec.name), self._live(spec))
        return ActionContext(
            file=self._file(),
            spec=spec.model_copy(update={"dri": report.spec.dri}),
            report=report,
            key=self._key(spec.name),
            now=self._parts.clock.now(),
            operator=operator,
            parts=self._parts,
            live=living(report, live),
            entries=await self.history(spec.name),
        )

    async def _live(self, spec: RunSpec) -> Live:
        platform = acting(self._parts.platforms(spec))
        if platform is None:
            return Live(unknown="no job in cockpit.toml that this version can act on")
        return (await platform.live([spec]))[spec.name]

    async def _draft(
        self, request: Request, context: ActionContext, settled: tuple[InterruptedAction, ...]
    ) -> Plan:
        action = self._action(request.action)
        draft = await action.draft(context, request)
        checks: list[Check] = []
        if action.exclusive:
            here = await known_here(self._journal, context) if action.launches else None
            checks = [check_of(each) for each in settled]
            told = await looked_up_elsewhere(context, here or ()) if action.launches else {}
            checks += claim_checks(context.spec.name, context.claims, here, told)
        checks += [*unread_ids(context), *await records_ready(context)]
        checks = [*await self._agents.checks(context, request.action), *checks, *draft.checks]
        facts = dict(draft.facts)
        if action.launches and context.launch_id is not None:
            facts[LAUNCH_ID] = context.launch_id
        if action.launches and by_standing_order(request.operator):
            checks = [standing_check(context, checks), *checks]
            facts[USED] = checks[0].value or ""
        full = Draft.model_validate({**dict(draft), "checks": tuple(checks), "facts": facts})
        return plan_of(request, full, context.now)

    def _typed(
        self, request: Request, approvals: Sequence[Approval], context: ActionContext | None = None
    ) -> Given:
        """Return the approvals with who typed them, whatever name they were given under."""
        who = typist(request.operator, self._parts.login)
        people = people_of(self._file(), None if context is None else context.report)
        return tuple(
            each.model_copy(update={"typed_by": who, "own": own_word(each.by, who, people)})
            for each in approvals
        )

    def _action(self, verb: str) -> Action:
        if verb not in self.actions:
            raise RefuseError(f"no action {clean(verb)!r}")
        return self.actions[verb]

    def _spec(self, run: str) -> RunSpec:
        file = self._file()
        found = next((each for each in file.runs if each.name == run), None)
        if found is None:
            names = ", ".join(each.name for each in file.runs)
            raise RefuseError(f"{file.path} has no run {clean(run)!r}; it has: {names}")
        return found

    def _key(self, run: str) -> str:
        return run_key(self._file().path, run)
