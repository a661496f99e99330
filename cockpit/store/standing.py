"""The standing order of a run (SPEC A-15), read from the journal: arming it is an action."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cockpit.model.acts import Outcome
from cockpit.model.plan import StepResult, StepState
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import END as RUN_END
from cockpit.model.shared_facts import by_standing_order
from cockpit.model.standing import StandingOrder, StandingRelaunch, StandingUse
from cockpit.model.wording import moment
from cockpit.store.journal import SUBMIT, Journal, JournalEntry
from cockpit.store.store import StoreView, unpack

VERB: Final = "standing"
TERMS: Final = "terms"
"""The fact with what the order may do, as the run file had it."""
SPEC: Final = "spec"
"""The fact that tells the run's table, as the order was armed for it, from every other one."""
HEARD: Final = "heard"
"""The fact with what others had told by then: all else that they tell counts as later."""
ENDS: Final = "ends"
"""The fact with when it ends by itself (s since the epoch)."""
OFF: Final = "off"
"""The fact that this entry ends the order, if it says yes."""
END: Final = "end"
"""The step by which it is over before its time."""
FAILED_STEP: Final = "failed_step"
"""The fact of a relaunch with the step at which the job before it failed."""
PLACE: Final = 98
"""The place of that step in the entry: behind all that arming does."""
TAKES_OVER: Final = frozenset(
    ("launch", "relaunch", "lineage", "rollback", "stop", "adopt", "hold", "release", "requeue",
     "extend", "seal", "teardown", "handoff")
)  # fmt: skip
"""Actions after which somebody else has the run in hand: a standing order is over then."""


class StandingOrders(StoreView):
    """Reads and ends the standing orders of one store; every method raises ``StoreError``."""

    def of(self, run: str) -> StandingOrder | None:
        """Return the order that was armed last, if it was not ended by ``standing --off``."""
        return order_in(Journal(self._store).standing(run))

    def end(self, run: str, said: str, now: float) -> StandingOrder | None:
        """End the order that is in force, and return it; ``None`` where there is none."""
        with self._store.writing():
            order = self.of(run)
            if order is None or order.over is not None or now >= order.until:
                return None
            step = StepResult(name=END, state=StepState.DONE, at=now, note=said)
            Journal(self._store).step(order.entry, PLACE, step)
        return order


def run_digest(run: RunSpec) -> str:
    """Return what tells a run's table in the run file from every other one."""
    plain = run.model_dump(mode="json", exclude_defaults=True)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def order_in(entries: Sequence[JournalEntry], but_for: str | None = None) -> StandingOrder | None:
    """Return the order that these actions of a run, oldest first, have armed.

    ``but_for`` is a launch id: the action that has it is the one that is asked about.
    """
    found = (entry for entry in reversed(entries) if entry.action == VERB)
    armed = next((entry for entry in found if entry.outcome is Outcome.DONE), None)
    if armed is None or armed.plan.facts.get(OFF) == "yes":
        return None
    terms = unpack(StandingRelaunch, armed.plan.facts.get(TERMS, ""))
    spec = armed.plan.facts.get(SPEC)
    if terms is None or spec is None or ENDS not in armed.facts:
        return None  # of another version: what it may do is not known
    later = [
        entry
        for entry in entries
        if entry.number > armed.number and (but_for is None or entry.launch_id != but_for)
    ]
    return StandingOrder(
        entry=armed.number,
        by=armed.operator,
        at=armed.begun_at,
        until=float(armed.facts[ENDS]),
        terms=terms,
        spec=spec,
        heard=frozenset(armed.facts.get(HEARD, "").split()),
        uses=tuple(_uses(later)),
        over=_over(armed, later),
    )


def _uses(later: Iterable[JournalEntry]) -> Iterator[StandingUse]:
    """Yield its relaunches: all that may have started a job."""
    for entry in later:
        if entry.launch_id is None or not by_standing_order(entry.operator):
            continue
        if entry.outcome is Outcome.FAILED and entry.step(SUBMIT) is None:
            continue
        step = entry.facts.get(FAILED_STEP, "")
        yield StandingUse(
            launch_id=entry.launch_id,
            at=entry.begun_at,
            failed_step=int(step) if step.isdecimal() else None,
        )


def _over(armed: JournalEntry, later: Iterable[JournalEntry]) -> str | None:
    """Return why the order is over before its time."""
    ended = armed.step(END)
    if ended is not None:
        return f"{ended.note} at {moment(ended.at)}"
    for entry in later:
        if entry.outcome is Outcome.REFUSED:
            continue
        at_rest = entry.action == "ack" and entry.facts.get("key") == RUN_END
        if (at_rest or entry.action in TAKES_OVER) and not by_standing_order(entry.operator):
            return f"{entry.action} by {entry.operator} at {moment(entry.begun_at)}"
        told = entry.outcome in (Outcome.DONE, Outcome.UNKNOWN)
        if entry.action == "escalate" and told and by_standing_order(entry.operator):
            return f"it escalated at {moment(entry.begun_at)}"
    return None
