"""Lets the cockpit write and commit entries that nobody types; asked for once a run file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.core.action import Action, Execution, RefuseError, Step, StepError
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.recording import NO_LOGBOOK
from cockpit.model.plan import Basis, Check, Draft, Plan, Request
from cockpit.model.run import EVENT, NEVER, RunSpec
from cockpit.model.shared_facts import is_agent
from cockpit.model.wording import duration
from cockpit.records.git.behind import PushStage, push_of
from cockpit.records.git.repository import Limits
from cockpit.rules.lineage.success import entry_every
from cockpit.runtime.offload import offload
from cockpit.store.agents import AUTOLOG, Consent, Consents
from cockpit.store.store import StoreError
from cockpit.text.checks import blocked, passed, warned

DEADLINE: Final = 15.0
YES: Final = "yes"


class AutoLog(Action):
    """Gives the consent that automatic entries of a run file need, or takes it back."""

    verb = "autolog"

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what will be written when, and how far it goes."""
        off = (request.params.get("off") or "").strip().lower()
        if off not in ("", YES, "no"):
            raise RefuseError("--off expects yes or no")
        checks = [*_who(context), *await _consent(context, off=off == YES)]
        if off != YES:
            checks += [*_when(context), *await _how_far(context.spec)]
        return Draft(words=f"autolog {request.run}", checks=tuple(checks), facts={"off": off})

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return the one step: the consent is kept in the store."""
        return (Step("allow", _allow, again=True),)


def _who(context: ActionContext) -> Iterator[Check]:
    if is_agent(context.operator):
        yield blocked("who", "an agent cannot allow this: a person types it", Basis.RECORDED)


async def _consent(context: ActionContext, *, off: bool) -> list[Check]:
    store = context.parts.store
    if store is None:
        return [blocked("store", "there is no store to keep the consent in")]
    try:
        given = await offload(
            lambda: Consents(store).of(context.file.path, AUTOLOG), deadline=DEADLINE
        )
    except (StoreError, TimeoutError) as error:
        return [blocked("store", f"the store cannot be read: {error}")]
    if off:
        text = "no entry is written by itself any more" if given else "nobody has allowed it"
        return [passed("consent", text, Basis.RECORDED)]
    if given is not None:
        return [warned("consent", f"{given.who} has allowed it already", Basis.RECORDED)]
    return [passed("consent", f"for every run of {context.file.path}, once", Basis.RECORDED)]


def _when(context: ActionContext) -> Iterator[Check]:
    """Yield what will be written by itself, run by run."""
    if context.spec.records.logbook is None:
        yield blocked("logbook", NO_LOGBOOK, Basis.RECORDED)
    for run in context.file.runs:
        records = run.records
        if records.logbook is None and records.run_log is None:
            continue
        how = {NEVER: "nothing: log_every is never", EVENT: "an entry after each event"}
        every = entry_every(run)
        when = how[records.log_every or EVENT] if every is None else f"every {duration(every)}"
        yield passed(f"writes:{run.name}", f"{run.name}: {when}", Basis.RECORDED)


async def _how_far(run: RunSpec) -> list[Check]:
    """Return whether what is committed goes to a remote, too."""
    if run.records.logbook is None:
        return []
    push = await push_of(Path(run.records.logbook), Limits())
    if push.stage is PushStage.NONE:
        return [warned("push", "committed here alone: there is nowhere to push to")]
    if push.stage is PushStage.HELD:
        return [warned("push", f"committed here, not pushed: {push.trouble}")]
    return [passed("push", "committed on the branch that is checked out, pushed to its upstream")]


async def _allow(execution: Execution) -> str:
    store, file = execution.context.parts.store, execution.context.file.path
    if store is None:
        raise StepError("there is no store to keep the consent in")
    consents, who = Consents(store), execution.entry.operator
    off = execution.plan.facts["off"] == YES

    def keep() -> None:
        if off:
            consents.withdraw(file, AUTOLOG)
        else:
            consents.give(file, AUTOLOG, Consent(who=who, at=execution.entry.begun_at))

    try:
        await offload(keep, deadline=DEADLINE)
    except (StoreError, TimeoutError) as error:
        raise StepError(f"it could not be written: {error}") from error
    return "no automatic entries any more" if off else f"automatic entries allowed by {who}"
