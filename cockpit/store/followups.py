"""Launches that are still to prove themselves: past the failure, or not (SPEC A-2)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from cockpit.model.base import Frozen, Instant
from cockpit.model.history import Launched
from cockpit.model.jobs import Bundle
from cockpit.store.store import StoreView, pack, unpack

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
        told = ("at", "job_id", "launch_id", "resumes_from", "failed_step")
        names = (*told, "first_step", "started_at")
        return Launched(**{name: getattr(self, name) for name in names})


class FollowupStore(StoreView):
    """Followups by launch id."""

    def add(self, run: str, followup: Followup) -> None:
        """Begin to follow a launch; one that is followed already stays as it is."""
        with self._store.writing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO followups VALUES (?, ?, ?, ?)",
                (run, followup.launch_id, followup.at, pack(followup)),
            )

    def last(self, run: str) -> Followup | None:
        """Return the newest launch that is followed; older ones are over with it."""
        with self._store.reading() as connection:
            row = connection.execute(
                "SELECT document FROM followups WHERE run = ? ORDER BY at DESC LIMIT 1", (run,)
            ).fetchone()
        return None if row is None else unpack(Followup, str(row[0]))

    def followed(self) -> frozenset[str]:
        """Return the runs of which any launch is followed, by their keys; most have none."""
        with self._store.reading() as connection:
            found = connection.execute("SELECT DISTINCT run FROM followups").fetchall()
        return frozenset(str(run) for (run,) in found)

    def change(self, run: str, old: Followup, new: Followup) -> bool:
        """Replace ``old`` by ``new``; False if another cockpit has changed it meanwhile."""
        own = (run, old.launch_id)
        with self._store.writing() as connection:
            row = connection.execute(
                "SELECT document FROM followups WHERE run = ? AND launch_id = ?", own
            ).fetchone()
            if row is None or unpack(Followup, str(row[0])) != old:
                return False
            connection.execute(
                "UPDATE followups SET document = ? WHERE run = ? AND launch_id = ?",
                (pack(new), *own),
            )
            return True
