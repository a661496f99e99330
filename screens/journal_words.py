"""The journal's entries as the widgets paint them, and what a person has to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cockpit.actions.action import RefuseError
from cockpit.model.jobs import Found
from cockpit.model.plan import Outcome, Plan, StepState
from cockpit.model.words import clock_time
from cockpit.store.store import StoreError
from screens.ports import Cockpit
from widgets.paint_journal import Done, Open

if TYPE_CHECKING:
    from cockpit.actions.recovery import Settled
    from cockpit.store.journal import JournalEntry

UNDER_WAY: Final = "nothing: whoever is at it will end it; its plan stays blocked until then"
_DECIDE: Final = {
    Outcome.DONE: "nothing: s writes it down and finishes its records",
    Outcome.FAILED: "s writes it down; then look at the run and plan again if you still want it",
    Outcome.UNKNOWN: "look on the system itself whether it happened; s looks it up again; until "
    "it is known no other action on the run is possible",
    Outcome.REFUSED: "nothing",
}


def done_of(entry: JournalEntry) -> Done:
    """Return a journal entry as it is painted."""
    return Done(
        run=entry.plan.run,
        action=entry.action,
        by=entry.operator,
        begun_at=entry.begun_at,
        outcome=entry.outcome,
        ended_at=entry.ended_at,
        message=entry.message,
        job_id=entry.job_id,
        recorded=entry.recorded,
    )


async def done_to(cockpit: Cockpit, run: str) -> tuple[Done, ...]:
    """Return what was done to a run; nothing where there is no journal to ask."""
    try:
        entries = await (await cockpit.desk()).history(run)
    except (RefuseError, StoreError, TimeoutError):
        return ()
    return tuple(done_of(entry) for entry in entries)


async def meanwhile(cockpit: Cockpit, plan: Plan) -> str:
    """Return what somebody has done to the run since the plan was made, else nothing."""
    since = [
        done for done in await done_to(cockpit, plan.run)
        if done.begun_at >= plan.made_at and done.outcome is not Outcome.REFUSED
    ]  # fmt: skip
    if not since:
        return ""
    last = max(since, key=lambda done: done.begun_at)
    ended = "under way" if last.outcome is None else last.outcome.value
    at = clock_time(last.begun_at, seconds=True)
    return f". Meanwhile {last.by} began {last.action} at {at}: {ended}"


def open_of(settled: Settled) -> Open:
    """Return an interrupted action: what is known, what was looked up, what is to be decided."""
    entry = settled.entry
    done = done_of(entry)._replace(outcome=settled.outcome, job_id=settled.job_id or entry.job_id)
    looked = settled.looked_up
    clear = settled.outcome is not Outcome.UNKNOWN
    steps = ", ".join(f"{step.name} {_state(step.state, clear)}" for step in entry.steps)
    found = (
        "nothing had to be looked up"
        if looked is None
        else f"{_FOUND[looked.found]}: {looked.text}"
    )
    decide = UNDER_WAY if settled.outcome is None else _DECIDE[settled.outcome]
    what = settled.text if looked is None else f"{entry.action} by {entry.operator}"
    return Open(done, f"{what} ({steps or 'no step was begun'})", found, decide)


_FOUND: Final = {
    Found.LIVE: "it runs",
    Found.ENDED: "it ran and has ended",
    Found.ABSENT: "it never started, and never will",
    Found.UNKNOWN: "not known",
}


def _state(state: StepState, clear: bool) -> str:
    """Return how a step stands; ``clear``: what became of it all is known."""
    if state is not StepState.BEGUN:
        return state.value
    return "begun" if clear else "begun, its end unknown"


def settles(settled: Settled) -> bool:
    """Return whether a person can settle it here: whoever was at it is gone."""
    return settled.outcome is not None
