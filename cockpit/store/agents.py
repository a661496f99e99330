"""What agents did, and what people have agreed to once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from cockpit.model.acts import (
    LATE,
    PLANNING_FOR,
    TELLS,
    VETO_HOLDS,
    AgentAct,
    AgentCalls,
    Stage,
)
from cockpit.model.base import Frozen, Instant
from cockpit.store.store import StoreError, StoreView, run_key

GONE: Final = "the agent went away"
KEEP: Final = 90 * 86400.0
"""Seconds for which acts and calls are kept."""
MOST: Final = 500
"""Acts and plans of a run, and rows of calls, that are kept at most."""
PLANS: Final = 20
"""Plans of a run that nobody has sent yet: every cockpit shows them."""
HOUR: Final = 3600.0
NEVER_BEGAN: Final = "never seen to begin when its grace was over"
_ACTS: Final = (
    "SELECT number, run, agent, action, plan_id, at, stage, changed_at, until, who AS 'by', said,"
    " times FROM agent_acts"
)


class OtherWaitsError(Exception):
    """Another act waits on the run already; ``act`` says whose."""

    def __init__(self, act: AgentAct) -> None:
        super().__init__(act.text)
        self.act = act


class Call(NamedTuple):
    """One use of a tool: on which run (a ``run_key``), by whom, how it ended, and when."""

    run: str
    agent: str
    tool: str
    ended: str
    at: float


class AgentRecords(StoreView):
    """The acts and the calls of agents."""

    def planned(self, run: str, agent: str, action: str, plan_id: str, now: float) -> None:
        """Note a plan; the same one made again within the hour is counted, not repeated."""
        with self._store.writing():
            again = self._change(
                "UPDATE agent_acts SET times = times + 1, changed_at = ? WHERE run = ?"
                " AND agent = ? AND action = ? AND plan_id = ? AND stage = 'planned' AND at > ?",
                now, run, agent, action, plan_id, now - HOUR,
            )  # fmt: skip
            if not again:
                self._add(run, agent, action, plan_id, now, Stage.PLANNED)

    def wait(
        self, run: str, agent: str, action: str, plan_id: str, now: float, until: float
    ) -> AgentAct:
        """Note an act, of a plan that is noted already, that begins at ``until`` unless stopped.

        Raises ``OtherWaitsError`` while one waits on the run, whoever's it is. What only tells
        is neither held up by that nor holds anything up.
        """
        with self._store.writing():
            self._withdraw_late(run, now)
            waiting = self._acts("run = ? AND stage = 'waiting'", run)
            others = (act for act in waiting if act.action not in TELLS)
            other = None if action in TELLS else next(others, None)
            if other is not None:
                raise OtherWaitsError(other)
            number = self._first(
                "SELECT max(number) FROM agent_acts WHERE run = ? AND agent = ? AND action = ?"
                " AND plan_id = ? AND stage = 'planned'",
                run, agent, action, plan_id,
            )[0]  # fmt: skip
            if number is None:
                number = self._add(run, agent, action, plan_id, now, Stage.WAITING)
            self._change(
                "UPDATE agent_acts SET stage = 'waiting', changed_at = ?, until = ?"
                " WHERE number = ?",
                now, until, number,
            )  # fmt: skip
            return self.act(number)

    def begin(self, number: int, now: float) -> AgentAct | None:
        """Let an act begin; return ``None`` if it may, else how it stands: it was stopped."""
        changed = self._change(
            "UPDATE agent_acts SET stage = 'begun', changed_at = ? WHERE number = ?"
            " AND stage = 'waiting'",
            now, number,
        )  # fmt: skip
        return None if changed else self.act(number)

    def act(self, number: int) -> AgentAct:
        """Return an act as it stands."""
        found = self._acts("number = ?", number)
        if not found:
            raise StoreError("the store was removed or replaced while an agent waited")
        return found[0]

    def end(self, number: int, stage: Stage, said: str, now: float) -> None:
        """Write how an act ended; one that a person has stopped stays so."""
        self._change(
            "UPDATE agent_acts SET stage = ?, said = ?, changed_at = ? WHERE number = ?"
            " AND stage IN ('waiting', 'begun')",
            stage.value, said, now, number,
        )  # fmt: skip

    def left(self, agent: str, plan_ids: Iterable[str], now: float) -> None:
        """Note that an agent has gone: what it planned of late it is planning no more."""
        self._change_all(
            "UPDATE agent_acts SET stage = 'withdrawn', said = ?, changed_at = ?"
            " WHERE agent = ? AND plan_id = ? AND stage = 'planned' AND changed_at >= ?",
            [(GONE, now, agent, plan_id, now - PLANNING_FOR) for plan_id in plan_ids],
        )

    def stop(self, run: str, by: str, said: str, now: float, stage: Stage) -> tuple[AgentAct, ...]:
        """Stop what waits on a run, and with a veto what is only planned; return what was."""
        with self._store.writing():
            self._withdraw_late(run, now)
            acts = [
                act
                for act in self._acts("run = ? AND stage IN ('waiting', 'planned')", run)
                if act.stage is Stage.WAITING
                or (stage is Stage.VETOED and now - act.changed_at <= PLANNING_FOR)
            ]
            self._change_all(
                "UPDATE agent_acts SET stage = ?, who = ?, said = ?, changed_at = ?"
                " WHERE number = ?",
                [(stage.value, by, said, now, act.number) for act in acts],
            )
            return tuple(self.act(act.number) for act in acts)

    def vetoed(self, run: str, action: str, now: float) -> AgentAct | None:
        """Return the newest act whose veto still holds for this action."""
        where = "run = ? AND stage = 'vetoed' AND action = ? AND changed_at > ?"
        found = self._acts(where, run, action, now - VETO_HOLDS)
        return max(found, key=lambda act: act.changed_at, default=None)

    def waiting(self, run: str) -> bool:
        """Return whether anything waits on a run, however late: cheaper than trying to stop it."""
        return bool(self._acts("run = ? AND stage = 'waiting'", run))

    def current(self, run: str, now: float) -> tuple[AgentAct, ...]:
        """Return what agents are about on a run, and how what they did of late ended.

        Newest first; of many plans that were never sent the newest alone.
        """
        where = "run = ? AND iif(stage = 'waiting', until >= ?, changed_at > ?)"
        found = self._acts(where, run, now - LATE, now - HOUR)
        plans = [act.number for act in found if act.stage is Stage.PLANNED]
        left_out = set(plans[:-PLANS])
        return tuple(act for act in reversed(found) if act.number not in left_out)

    def acts(self, run: str) -> tuple[AgentAct, ...]:
        """Return all that is kept of what agents did on a run, oldest first."""
        return self._acts("run = ?", run)

    def calls(self, run: str) -> tuple[AgentCalls, ...]:
        """Return how agents used their tools on a run, hour by hour, oldest first."""
        query = "SELECT agent, tool, ended, hour, count, last_at FROM agent_calls WHERE run = ?"
        return self._values(AgentCalls, f"{query} ORDER BY hour, last_at", run)

    def called(self, calls: Iterable[Call]) -> None:
        """Count calls, by the hour."""
        with self._store.writing():
            for call in calls:
                hour = call.at - call.at % HOUR
                self._change(
                    "INSERT INTO agent_calls VALUES (?, ?, ?, ?, ?, 1, ?) ON CONFLICT DO UPDATE"
                    " SET count = count + 1, last_at = max(last_at, excluded.last_at)",
                    call.run, call.agent, call.tool, call.ended, hour, call.at,
                )  # fmt: skip
                self._change(
                    "DELETE FROM agent_calls WHERE run = ? AND (hour < ? OR hour < (SELECT"
                    " min(hour) FROM (SELECT hour FROM agent_calls WHERE run = ? ORDER BY hour"
                    " DESC LIMIT ?)))",
                    call.run, call.at - KEEP, call.run, MOST,
                )  # fmt: skip

    def _acts(self, where: str, *values: object) -> tuple[AgentAct, ...]:
        return self._values(_act, f"{_ACTS} WHERE {where} ORDER BY number", *values)

    def _withdraw_late(self, run: str, now: float) -> None:
        """See that what nobody can stop any more (``AgentAct.waits``) does not begin either."""
        self._change(
            "UPDATE agent_acts SET stage = 'withdrawn', said = ?, changed_at = ?"
            " WHERE run = ? AND stage = 'waiting' AND coalesce(until, 0) + ? < ?",
            NEVER_BEGAN, now, run, LATE, now,
        )  # fmt: skip

    def _add(
        self, run: str, agent: str, action: str, plan_id: str, now: float, stage: Stage
    ) -> int:
        """Write a row of a run; what is older than all that is kept of the run goes.

        What waits, and a veto that holds, stay however many come after them.
        """
        added = self._insert(
            "INTO agent_acts", run=run, agent=agent, action=action, plan_id=plan_id, at=now,
            stage=stage.value, changed_at=now,
        )  # fmt: skip
        self._change(
            "DELETE FROM agent_acts WHERE run = ? AND (at < ? OR number NOT IN (SELECT number"
            " FROM agent_acts WHERE run = ? ORDER BY number DESC LIMIT ?))"
            " AND NOT (stage IN ('waiting', 'vetoed') AND changed_at > ?)",
            run, now - KEEP, run, MOST, now - VETO_HOLDS,
        )  # fmt: skip
        return int(added.lastrowid or 0)


def _act(run: str, **fields: Any) -> AgentAct:  # noqa: ANN401 - the columns
    return AgentAct(run=run.rpartition("#")[2], **fields)


AUTOLOG: Final = "autolog"
"""To write and commit logbook and run log entries that nobody typed."""


class Consent(Frozen):
    """Who has allowed it, and when."""

    who: str
    at: Instant


class Consents(StoreView):
    """One row for each run file and kind; every method raises ``StoreError``."""

    def give(self, run_file: str, what: str, consent: Consent) -> None:
        """Remember that it is allowed."""
        key = run_key(run_file, "")
        self._insert("OR REPLACE INTO consents", run=key, what=what, who=consent.who, at=consent.at)

    def withdraw(self, run_file: str, what: str) -> None:
        """Forget that it was allowed."""
        self._change("DELETE FROM consents WHERE run = ? AND what = ?", run_key(run_file, ""), what)

    def of(self, run_file: str, what: str) -> Consent | None:
        """Return who has allowed it; ``None`` if nobody has."""
        query = "SELECT who, at FROM consents WHERE run = ? AND what = ?"
        return next(iter(self._values(Consent, query, run_key(run_file, ""), what)), None)
