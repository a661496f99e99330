"""After a crash: what an interrupted action did, told from its journal and a look-up (SPEC A).

Nothing is repeated. A submit that was begun is looked up by its launch id; what cannot be
looked up stays unknown and stands in the way of every other action on the run.
"""

from __future__ import annotations

from cockpit.actions.backend import Backend
from cockpit.model.base import Frozen
from cockpit.model.jobs import Found, LookUp
from cockpit.model.plan import Approval, Basis, Check, Level, Outcome, Plan, StepState
from cockpit.model.run import RunSpec
from cockpit.store.journal import UNREADABLE, JournalEntry

SUBMIT = "submit"
ENTRY = "journal:"
"""How the check begins that speaks of an entry of the journal; its number follows."""
NOT_LOOKED_UP = ("teardown",)
"""Steps of which only a person can find out whether they happened."""


class Settled(Frozen):
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
    run: RunSpec, entry: JournalEntry, backend: Backend | None, alive: bool | None
) -> Settled:
    """Return what became of an action that nobody has ended; changes nothing.

    ``alive`` says whether it is still being done (``None``: on another machine).
    """
    if entry.outcome is None and alive is not False:
        where = "is at it" if alive else "began it on another machine"
        text = f"{_what(entry)}: {entry.operator} {where} ({entry.holder.label})"
        return Settled(entry=entry, outcome=None, text=text, elsewhere=alive is None)
    if entry.outcome is Outcome.DONE:
        return Settled(
            entry=entry, outcome=Outcome.DONE, job_id=entry.job_id,
            text=f"{_what(entry)} was done, but not all of it was recorded",
        )  # fmt: skip
    for step in map(entry.step, NOT_LOOKED_UP):
        if step is not None and step.state in (StepState.BEGUN, StepState.UNKNOWN):
            text = f"{_what(entry)}: nobody knows whether {step.name} happened; look for yourself"
            return Settled(entry=entry, outcome=Outcome.UNKNOWN, text=text, by_person=True)
    submit = entry.step(SUBMIT)
    if submit is None or submit.state in (StepState.FAILED, StepState.SKIPPED):
        return Settled(entry=entry, outcome=Outcome.FAILED, text=_interrupted(entry))
    if submit.state is StepState.DONE:
        return Settled(
            entry=entry, outcome=Outcome.DONE, job_id=entry.job_id, started_at=submit.at,
            text=f"{_what(entry)} had started {entry.launch_id} when it was interrupted",
        )  # fmt: skip
    return await _looked_up(run, entry, backend, submit.at)


async def _looked_up(
    run: RunSpec, entry: JournalEntry, backend: Backend | None, begun: float
) -> Settled:
    lost = entry.action == "lineage" and entry.plan.plan_id == UNREADABLE
    if backend is None or entry.launch_id is None or lost:
        text = f"{_what(entry)}: its submit ({entry.launch_id}) cannot be looked up by this version"
        text += "; look for yourself"
        return Settled(entry=entry, outcome=Outcome.UNKNOWN, text=text, by_person=True)
    found = await backend.look_up(_subject(run, entry), entry.launch_id)
    what = f"{_what(entry)}: looked up {entry.launch_id}: {found.text}"
    if found.found is Found.UNKNOWN:
        return Settled(entry=entry, outcome=Outcome.UNKNOWN, text=what, looked_up=found)
    outcome = Outcome.FAILED if found.found is Found.ABSENT else Outcome.DONE
    return Settled(
        entry=entry, outcome=outcome, text=what, job_id=found.job_id, looked_up=found,
        started_at=begun,
    )  # fmt: skip


def _subject(run: RunSpec, entry: JournalEntry) -> RunSpec:
    """Return the run whose launch it was: a new lineage is looked up under its own root."""
    if entry.action != "lineage":
        return run
    from cockpit.actions.lineage import subject

    return subject(run, entry.plan)


def gone_by_word(plan: Plan) -> dict[int, Approval]:
    """Return the entries that began on another machine and that somebody says are over."""
    by_entry = {
        check.id.removeprefix(ENTRY): check.approved
        for check in plan.checks
        if check.id.startswith(ENTRY) and check.approved is not None
    }
    return {int(number): approval for number, approval in by_entry.items()}


def check_of(settled: Settled) -> Check:
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


def _interrupted(entry: JournalEntry) -> str:
    done = [step.name for step in entry.steps if step.state is StepState.DONE]
    begun = [step.name for step in entry.steps if step.state is StepState.BEGUN]
    text = f"{_what(entry)} was interrupted"
    text += f" in {begun[-1]}" if begun else " before it changed anything" if not done else ""
    return text + (f"; done before that: {', '.join(done)}" if done else "")
