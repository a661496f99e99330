"""The journal of guarded actions: what will be done is written before it is done (SPEC A).

An entry is begun together with the lease on its run, in one transaction: two cockpits on one
machine cannot both begin. Its steps are written one by one, before and after each. An entry
without an outcome whose process is gone was interrupted; nothing in here is ever repeated by
itself. Every method raises ``StoreError``; ``run`` is a ``run_key``.

The standing order of a run (SPEC A-15), read from the journal: arming it is an action.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from cockpit.model.acts import RECORDS, Outcome, Records, ending, records_of
from cockpit.model.base import Frozen, Instant
from cockpit.model.plan import Plan, StepResult, StepState
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import END as RUN_END
from cockpit.model.shared_facts import OWNER, SharedFact, by_standing_order
from cockpit.model.standing import StandingOrder, StandingRelaunch, StandingUse
from cockpit.model.wording import moment
from cockpit.store.ownership import Holder as Holder
from cockpit.store.store import StoreError, StoreView, pack, unpack

WORDS_FOR: Final = 3600.0
"""Seconds for which the words of a plan that was shown are known again."""
KEEP_PLANS: Final = 2 * WORDS_FOR
"""Seconds for which it is kept; whoever asks may have a clock that is a little behind."""
SUBMIT: Final = "submit"
"""The step that starts a job."""
UNREADABLE: Final = "?"
"""The id of a plan that this version cannot read."""


class Lease(Frozen):
    """Who may act on a run at this moment."""

    what: str
    operator: str
    holder: Holder
    at: Instant
    entry: int


class JournalEntry(Frozen):
    """One action that was begun; ``outcome`` is ``None`` until somebody knows.

    ``at_it`` is whether it is still being done then, as somebody looked who can
    (``cockpit.records.lease.state.looked_after``); ``None``: that cannot be told from here.
    """

    number: int
    run: str
    action: str
    operator: str
    holder: Holder
    plan: Plan
    begun_at: Instant
    launch_id: str | None = None
    job_id: str | None = None
    facts: dict[str, str] = Field(default_factory=dict)
    ended_at: Instant | None = None
    outcome: Outcome | None = None
    message: str = ""
    recorded: bool = True
    steps: tuple[StepResult, ...] = ()
    at_it: bool | None = True

    @property
    def written(self) -> Records:
        """How far it is written down, as it was when that was noted last."""
        return records_of(self.facts.get(RECORDS), recorded=self.recorded)

    @property
    def text(self) -> str:
        """How it ended, in the words that stand everywhere."""
        return ending(self.outcome, self.written, self.at_it)

    def step(self, name: str) -> StepResult | None:
        """Return a step by its name, if it was begun."""
        return next((step for step in self.steps if step.name == name), None)

    @property
    def awaits_launch(self) -> bool:
        """True when a launch was begun, and what became of it is not written down."""
        submit = self.step(SUBMIT)
        if self.launch_id is None or submit is None or self.outcome not in (None, Outcome.UNKNOWN):
            return False
        return submit.state not in (StepState.FAILED, StepState.SKIPPED)


class Busy(Exception):  # noqa: N818 - it is an answer, not an error
    """Another action holds the run; ``lease`` says whose."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(f"{lease.what} by {lease.operator} in progress ({lease.holder.label})")
        self.lease = lease


class UsedIdError(Exception):
    """A launch id was given out before: it is never given out again."""


class Journal(StoreView):
    """Reads and writes the journal of one store."""

    @property
    def place(self) -> str:
        """Where the store lies."""
        return str(self._store.path)

    def keep_plan(self, run: str, plan: Plan) -> None:
        """Remember a plan that was shown, so that its words are known again.

        Nobody else's plan takes its place, nor one of the same with other words or figures.
        """
        key = f"{plan.plan_id} {plan.words} {plan.operator} {plan.made_at:.3f}"
        with self._store.writing():
            self._change("DELETE FROM plans WHERE at < ?", plan.made_at - KEEP_PLANS)
            self._insert(
                "OR REPLACE INTO plans", run=run, plan_id=key, action=plan.action,
                at=plan.made_at, words=plan.words, document=pack(plan),
            )  # fmt: skip

    def plans(self, run: str, action: str | None, since: float) -> tuple[Plan, ...]:
        """Return the plans of an action, or of all, that were shown since then, newest first."""
        return self._documents(
            Plan,
            "SELECT document FROM plans WHERE run = ? AND action = coalesce(?, action)"
            " AND at >= ? ORDER BY at DESC",
            run, action, since,
        )  # fmt: skip

    def lease(self, run: str) -> Lease | None:
        """Return who holds the run, dead or alive."""
        row = self._first(
            "SELECT action, what, operator, holder, at FROM leases WHERE run = ?", run
        )
        if row is None:
            return None
        holder = unpack(Holder, row[3]) or Holder(host="?", pid=0)
        return Lease(entry=row[0], what=row[1], operator=row[2], holder=holder, at=row[4])

    def begin(  # noqa: PLR0913 - each is a column of the row
        self,
        run: str,
        plan: Plan,
        operator: str,
        holder: Holder,
        now: float,
        *,
        exclusive: bool,
        over: Lease | None = None,
        launch_id: str | None = None,
    ) -> JournalEntry:
        """Begin an action and, if it is ``exclusive``, take the run's lease with it.

        ``over`` is the lease of a dead process that may be replaced. Raises ``Busy`` if the run
        is held by anyone else, ``UsedIdError`` for a launch id that was used before.
        """
        with self._store.writing():
            found = self.lease(run)
            if exclusive and found is not None and found != over:
                raise Busy(found)
            if launch_id is not None and launch_id in self.launch_ids(run):
                raise UsedIdError(launch_id)
            number = self._insert(
                "INTO actions", run=run, action=plan.action, plan_id=plan.plan_id,
                operator=operator, launch_id=launch_id, holder=pack(holder), plan=pack(plan),
                facts="{}", begun_at=now,
            ).lastrowid  # fmt: skip
            if exclusive:
                self._insert(
                    "OR REPLACE INTO leases", run=run, action=number, what=plan.action,
                    operator=operator, holder=pack(holder), at=now,
                )  # fmt: skip
            return self._entries("number = ?", number)[0]

    def step(self, number: int, place: int, step: StepResult) -> None:
        """Write how a step stands; ``place`` counts from 0."""
        with self._store.writing():
            self._see_it_there(number)
            self._insert(
                "OR REPLACE INTO action_steps", action=number, place=place, name=step.name,
                state=step.state.value, at=step.at, note=step.note,
            )  # fmt: skip

    def note(self, number: int, facts: dict[str, str], job_id: str | None = None) -> None:
        """Write what the steps have learned so far."""
        query = "UPDATE actions SET facts = ?, job_id = coalesce(?, job_id) WHERE number = ?"
        with self._store.writing():
            self._see_it_there(number)
            self._change(query, json.dumps(facts), job_id, number)

    def recorded(self, number: int, records: Records, message: str | None = None) -> None:
        """Write how far an action is written down for others, and what is said of it."""
        with self._store.writing():
            self._see_it_there(number)
            self._change(
                "UPDATE actions SET facts = json_set(facts, '$.records', ?),"
                " message = coalesce(?, message) WHERE number = ?",
                records.value, message, number,
            )  # fmt: skip

    def end(
        self, number: int, outcome: Outcome, now: float, message: str, *, recorded: bool = True
    ) -> None:
        """Write how an action ended, and give its lease back.

        One that was refused has used no launch id: the next one may have it.
        """
        with self._store.writing():
            self._see_it_there(number)
            self._change(
                "UPDATE actions SET outcome = ?, ended_at = ?, message = ?, recorded = ?,"
                " launch_id = CASE WHEN ? THEN NULL ELSE launch_id END WHERE number = ?",
                outcome.value, now, message, recorded, outcome is Outcome.REFUSED, number,
            )  # fmt: skip
            self._change("DELETE FROM leases WHERE action = ?", number)

    def entry(self, number: int) -> JournalEntry | None:
        """Return one entry with its steps."""
        return next(iter(self._entries("number = ?", number)), None)

    def holds(self, run: str, number: int, *, leased: bool) -> bool:
        """Return whether nobody has ended this action, and it has the run's lease if ``leased``."""
        with self._store.reading():
            row = self._first("SELECT 1 FROM actions WHERE number = ? AND outcome IS NULL", number)
            found = self.lease(run) if leased else None
        return row is not None and (not leased or (found is not None and found.entry == number))

    def entries(self, run: str, since: float = 0.0) -> tuple[JournalEntry, ...]:
        """Return a run's actions, oldest first."""
        return self._entries("run = ? AND begun_at >= ?", run, since)

    def any_unfinished(self) -> bool:
        """Return whether there is any action, of any run, that nobody has ended or can tell of."""
        return self._first(f"SELECT 1 FROM actions WHERE {_UNFINISHED} LIMIT 1") is not None

    def unfinished(self, run: str) -> tuple[JournalEntry, ...]:
        """Return the actions that nobody has ended, or whose outcome is unknown, oldest first."""
        return self._entries(f"run = ? AND {_UNFINISHED}", run)

    def launch_ids(self, run: str) -> tuple[str, ...]:
        """Return every launch id that was ever given out for a run on this machine."""
        rows = self._all(
            "SELECT launch_id FROM actions WHERE run = ? AND launch_id IS NOT NULL"
            " UNION SELECT launch_id FROM launches WHERE run = ? AND launch_id IS NOT NULL",
            run, run,
        )  # fmt: skip
        return tuple(str(row[0]) for row in rows)

    def handovers(self, run: str) -> tuple[JournalEntry, ...]:
        """Return the handovers that were done, oldest first."""
        return self._entries("run = ? AND action = 'handoff' AND outcome = 'done'", run)

    def standing(self, run: str) -> tuple[JournalEntry, ...]:
        """Return the newest order to arm or end a standing order, and all actions since."""
        return self._entries(
            "run = ? AND number >= (SELECT max(number) FROM actions WHERE run = ?"
            " AND action = 'standing' AND outcome = 'done')",
            run, run,
        )  # fmt: skip

    def last_stop(self, run: str, job_id: str) -> JournalEntry | None:
        """Return the newest of our own actions that ordered this job to stop."""
        found = self._entries(
            "run = ? AND EXISTS (SELECT 1 FROM action_steps s WHERE s.action = number"
            " AND s.name IN ('stop', 'successors') AND s.state != 'skipped')",
            run,
        )
        ordered = (entry for entry in reversed(found) if stopped(entry, job_id))
        return next(ordered, None)

    def _see_it_there(self, number: int) -> None:
        """Raise ``StoreError`` when the entry is gone: the store was removed meanwhile."""
        if self._first("SELECT 1 FROM actions WHERE number = ?", number) is None:
            raise StoreError("the store was removed or replaced while this was being done")

    def _entries(self, where: str, *values: object) -> tuple[JournalEntry, ...]:
        query = f"SELECT {_COLUMNS} FROM actions WHERE {where} ORDER BY number"
        with self._store.reading():  # nobody writes between an entry and its steps
            return self._values(self._entry, query, *values)

    def _entry(self, **fields: Any) -> JournalEntry:  # noqa: ANN401 - the columns
        steps = "SELECT name, state, at, note FROM action_steps WHERE action = ? ORDER BY place"
        fields |= {
            "plan": unpack(Plan, fields["plan"]) or _unreadable(fields),
            "holder": unpack(Holder, fields["holder"]) or Holder(host="?", pid=0),
            "facts": json.loads(fields["facts"]),
            "steps": self._values(StepResult, steps, fields["number"]),
        }
        return JournalEntry(**fields)


def handed_over(entries: Iterable[JournalEntry]) -> tuple[SharedFact, ...]:
    """Return the handovers among these actions as facts shared with all cockpits."""
    return tuple(
        SharedFact(
            what=OWNER,
            value=entry.facts["to"],
            at=entry.begun_at,
            typed_by=entry.operator,
            parts={"from": entry.facts.get("of", ""), "run file": entry.facts.get("named", "")},
            source="journal",
        )
        for entry in entries
        if entry.action == "handoff" and entry.outcome is Outcome.DONE and entry.facts.get("to")
    )


def stopped(entry: JournalEntry, job_id: str) -> bool:
    """Return whether an action had ``job_id`` among the jobs it was to stop."""
    return job_id in entry.facts.get("stops", "").split("\n")


_UNFINISHED = "(outcome IS NULL OR outcome = 'unknown' OR (outcome = 'done' AND recorded = 0))"
_COLUMNS = (
    "number, run, action, operator, holder, plan, begun_at, launch_id, job_id, facts, ended_at,"
    " outcome, message, recorded"
)


def _unreadable(fields: Mapping[str, Any]) -> Plan:
    """Return a stand-in for a plan of another version: what holds the run must not be hidden."""
    return Plan(
        words="", plan_id=UNREADABLE, action=fields["action"], run=fields["run"],
        made_at=fields["begun_at"],
    )  # fmt: skip


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
