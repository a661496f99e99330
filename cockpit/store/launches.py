"""What became of launches: followed until they have proven themselves, and why jobs failed.

What agents did, and what people have agreed to once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
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
from cockpit.model.history import FormerFailure, Launched
from cockpit.model.jobs import Bundle
from cockpit.model.records import Rejected
from cockpit.store.store import StoreError, StoreView, pack, run_key

STOPS_READ = 10
FAILURES_KEPT = 100
SAME_START = 2.0
"""Seconds by which two tellings of one start may differ."""


class Ended(Frozen):
    """An end that somebody has acknowledged at ``at``: of which job, and of which start of it.

    An id may live twice (a requeue, a fixed name): each of its ends is acknowledged by itself.
    """

    job_id: str
    started_at: Instant | None
    at: Instant

    def covers(self, job_id: str | None, started_at: float | None) -> bool:
        """Tell whether this is the end of that job; one that began after it was seen is another."""
        if self.job_id != (job_id or ""):
            return False
        if started_at is None:
            return True
        if self.started_at is None:
            return started_at <= self.at
        return abs(started_at - self.started_at) <= SAME_START


class Endings(StoreView):
    """Who has taken note that a job of a run is over (SPEC W: terminal *and acknowledged*)."""

    def acknowledge(
        self, run: str, job_id: str | None, started_at: float | None, who: str, at: float
    ) -> None:
        """Record that ``who`` has seen that this job of the run, begun then, is over."""
        own = {"run": run, "job_id": job_id or "", "started_at": started_at}
        self._insert("OR IGNORE INTO ends", **own, who=who, at=at)

    def withdraw(self, run: str, job_id: str | None, started_at: float | None) -> None:
        """Take an acknowledgement back: the run is watched on."""
        query = "DELETE FROM ends WHERE run = ? AND job_id = ? AND started_at IS ?"
        with self._store.writing():
            for each in self.acknowledged(run):
                if each.covers(job_id, started_at):
                    self._change(query, run, each.job_id, each.started_at)

    def acknowledged(self, run: str) -> tuple[Ended, ...]:
        """Return the ends that somebody has acknowledged."""
        query = "SELECT job_id, started_at, at FROM ends WHERE run = ? ORDER BY at"
        return self._values(Ended, query, run)


class Stopped(Frozen):
    """A stop that one of our own actions ordered: of which jobs, by whom, when."""

    job_ids: tuple[str, ...]
    by: str
    at: Instant


class Stops(StoreView):
    """Which jobs our own actions have ordered to stop, read from the journal (SPEC J, C-01)."""

    def of(self, run: str) -> tuple[Stopped, ...]:
        """Return the newest stops of a run, newest first."""
        rows = self._all(
            "SELECT operator, begun_at, facts FROM actions WHERE run = ? AND EXISTS"
            " (SELECT 1 FROM action_steps s WHERE s.action = number AND s.state != 'skipped'"
            " AND s.name IN ('stop', 'successors')) ORDER BY number DESC LIMIT ?",
            run, STOPS_READ,
        )  # fmt: skip
        stops = ((who, at, str(json.loads(facts).get("stops", ""))) for who, at, facts in rows)
        return tuple(
            Stopped(job_ids=tuple(filter(None, ids.split("\n"))), by=who, at=at)
            for who, at, ids in stops
        )

    def acted(self) -> tuple[int, float]:
        """Return figures that change whenever a step of any action is written."""
        row = self._first("SELECT count(*), total(at) FROM action_steps")
        return int(row[0]), float(row[1])


class Seals(StoreView):
    """Which runs were sealed from this machine (SPEC A-7), read from the journal."""

    def last(self, run: str) -> str | None:
        """Return who sealed the run as it stands; ``None`` too when it was launched since."""
        row = self._first(
            "SELECT operator FROM actions WHERE run = ? AND action = 'seal'"
            " AND outcome = 'done' AND begun_at > coalesce("
            "(SELECT max(at) FROM launches WHERE launches.run = actions.run), 0)"
            " ORDER BY begun_at DESC LIMIT 1",
            run,
        )
        return None if row is None else str(row[0])


class Failures(StoreView):
    """The failures that a run was relaunched after: the same one twice is no accident (C-14)."""

    def add(self, run: str, failure: FormerFailure) -> None:
        """Record how a job of the run failed; one that is recorded already stays as it is."""
        own = {"run": run, "job_id": failure.job_id, "at": failure.at}
        with self._store.writing():
            self._insert("OR IGNORE INTO failures", **own, document=pack(failure))
            self._change(
                "DELETE FROM failures WHERE run = ? AND job_id IN (SELECT job_id FROM failures"
                " WHERE run = ? ORDER BY at DESC LIMIT -1 OFFSET ?)",
                run, run, FAILURES_KEPT,
            )  # fmt: skip

    def of(self, run: str) -> tuple[FormerFailure, ...]:
        """Return what is recorded of a run, oldest first."""
        query = "SELECT document FROM failures WHERE run = ? ORDER BY at"
        return self._documents(FormerFailure, query, run)


class Rejections(StoreView):
    """Which checkpoints were rejected, as this machine remembers it (SPEC A-4).

    The logbook is the truth that other machines read; here it is known before it is written.
    """

    def add(self, run: str, rejected: Iterable[Rejected]) -> None:
        """Remember these; of two of one path the later stays, since it covers the earlier."""
        rows = [(run, one.path, one.step, one.at, one.by, one.reason) for one in rejected]
        self._change_all(
            "INSERT INTO rejections (run, path, step, at, who, reason)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run, path) DO UPDATE SET"
            " step = excluded.step, at = excluded.at, who = excluded.who,"
            " reason = excluded.reason WHERE excluded.at > at",
            rows,
        )

    def of(self, run: str) -> tuple[Rejected, ...]:
        """Return all of a run, by step."""
        query = "SELECT step, path, at, who AS 'by', reason FROM rejections WHERE run = ?"
        return self._values(Rejected, f"{query} ORDER BY step, path", run)


FIRST_CHECK: Final = 120.0
"""Seconds after its job began until a launch is looked at for the first time (SPEC W)."""


class Progressed(StrEnum):
    """How far a launch has come: nothing seen, lives, steps as expected, past the failure.

    ``not_passed``, ``died`` and ``wrong_step`` are bad news; ``not_passed`` may still pass.
    ``stopped`` was ordered by a person through our own journal: it is no failure (SPEC J).
    """

    WAITING = "waiting"
    ALIVE = "alive"
    RESUMED = "resumed"
    PASSED = "passed"
    NOT_PASSED = "not-passed"
    DIED = "died"
    WRONG_STEP = "wrong-step"
    STOPPED = "stopped"

    @property
    def final(self) -> bool:
        """True when nothing more will be looked for."""
        return self in (Progressed.PASSED, Progressed.DIED, Progressed.STOPPED)

    @property
    def recorded(self) -> bool:
        """True for what is written into the records; a stop has its own entry there."""
        quiet = (Progressed.WAITING, Progressed.ALIVE, Progressed.RESUMED, Progressed.STOPPED)
        return self not in quiet


class Followup(Frozen):
    """One launch that is followed. ``run`` is the run's slug, ``passes`` the step to get past.

    ``started_at`` is when its job began, as far as that was seen; ``queued``: it was last seen
    waiting for its turn. ``bundle`` is the code that its job runs, once that was told. ``state``
    was judged at ``judged_at`` with the words ``text``; ``recorded`` is False while the journal
    and the logbook do not say so yet.
    """

    run: str
    launch_id: str
    job_id: str
    action: str
    operator: str
    at: Instant
    entry: int
    resumes_from: int | None = None
    failed_step: int | None = None
    first_step: int | None = None
    started_at: Instant | None = None
    queued: bool = False
    bundle: Bundle | None = None
    state: Progressed = Progressed.WAITING
    text: str = ""
    judged_at: Instant | None = None
    changed_at: Instant | None = None
    recorded: bool = True

    @property
    def launched(self) -> Launched:
        """Return what the rules are given of it."""
        return Launched(**{name: getattr(self, name) for name in Launched.model_fields})


class FollowupStore(StoreView):
    """Followups by launch id."""

    def add(self, run: str, followup: Followup) -> None:
        """Begin to follow a launch; one that is followed already stays as it is."""
        own = {"run": run, "launch_id": followup.launch_id, "at": followup.at}
        self._insert("OR IGNORE INTO followups", **own, document=pack(followup))

    def last(self, run: str) -> Followup | None:
        """Return the newest launch that is followed; older ones are over with it."""
        query = "SELECT document FROM followups WHERE run = ? ORDER BY at DESC LIMIT 1"
        return self._document(Followup, query, run)

    def followed(self) -> frozenset[str]:
        """Return the runs of which any launch is followed, by their keys; most have none."""
        return frozenset(str(run) for (run,) in self._all("SELECT DISTINCT run FROM followups"))

    def change(self, run: str, old: Followup, new: Followup) -> bool:
        """Replace ``old`` by ``new``; False if another cockpit has changed it meanwhile."""
        own = run, old.launch_id
        known = "SELECT document FROM followups WHERE run = ? AND launch_id = ?"
        changed = "UPDATE followups SET document = ? WHERE run = ? AND launch_id = ?"
        with self._store.writing():
            if self._document(Followup, known, *own) != old:
                return False
            return self._change(changed, pack(new), *own) == 1


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
