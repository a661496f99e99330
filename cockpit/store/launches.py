"""What became of launches: followed until they have proven themselves, and why jobs failed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from cockpit.model.base import Frozen, Instant
from cockpit.model.history import FormerFailure, Launched
from cockpit.model.jobs import Bundle
from cockpit.model.records import Rejected
from cockpit.store.store import StoreView, pack

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
