"""Between the engine and the store: batched, off the event loop, and never in the way.

A store that fails costs the history, not the watch: the reason becomes a notice, what could
not be written waits (bounded) for the next attempt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from cockpit.model import history
from cockpit.model.acts import AgentAct
from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.goodput import JobStart
from cockpit.model.jobs import Snapshot
from cockpit.model.records import Rejected
from cockpit.model.report import RunReport
from cockpit.model.shared_facts import SharedFact
from cockpit.model.standing import StandingOrder
from cockpit.records.lease.state import still_working
from cockpit.runtime.moment import moment
from cockpit.runtime.offload import offload
from cockpit.store import launches
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.journal import SUBMIT, Journal, JournalEntry, StandingOrders, handed_over
from cockpit.store.memory import Configs, LaunchedJob, RunMemory, SettingsKept, Snapshots
from cockpit.store.ownership import Owned, Owner, Ownership
from cockpit.store.store import Store, StoreError, loss_text

DEADLINE = 10.0
PENDING_LIMIT = 20_000
"""Writes that wait for a store that fails; then the oldest are dropped."""
CLOSED_FOR = 86400.0

R = TypeVar("R")
Change = Callable[[Store], object]


class Shared(Frozen):
    """What other cockpits may have changed of a run."""

    open: tuple[Kept, ...] = ()
    closed: tuple[Kept, ...] = ()
    launch: LaunchedJob | None = None
    starts: tuple[JobStart, ...] = ()
    """All jobs that cockpits started for it, oldest first."""
    owner: Owned | None = None
    ended: tuple[launches.Ended, ...] = ()
    failures: tuple[history.FormerFailure, ...] = ()
    launched: history.Launched | None = None
    unsettled: tuple[history.UnsettledLaunch, ...] = ()
    """Launches of which nobody has written down what became of them."""
    under_way: bool = False
    """True while a launch is being made: its process may die, which changes nothing here."""
    used: Snapshot | None = None
    """What the newest launch used."""
    stops: tuple[launches.Stopped, ...] = ()
    """Stops that our own actions have ordered, newest first."""
    rejected: tuple[Rejected, ...] = ()
    handed: tuple[SharedFact, ...] = ()
    """To whom the run was handed over by accounts that use this store."""
    sealed: str | None = None
    agents: tuple[AgentAct, ...] = ()
    """What agents plan, are about to do, or did of late."""
    standing: StandingOrder | None = None
    """The standing order that was armed last from here."""


class Remembered(Frozen):
    """All that the store knows of a run at the start."""

    shared: Shared = Shared()
    report: RunReport | None = None
    phases: tuple[history.PhaseMark, ...] = ()
    marks: tuple[history.CheckpointMark, ...] = ()
    configs: Configs = Configs()


class StoreWriter:
    """Reads the history once, follows what others change, and writes in batches."""

    def __init__(self, store: Store | None, ownership: Ownership | None, clock: Clock) -> None:
        self.notice: str | None = None
        self._store = store
        self._ownership = ownership
        self._clock = clock
        self._owned: dict[str, Owned] = {}
        self._pending: list[Change] = []
        self._version: tuple[int, int, float] = (-1, 0, 0.0)
        self._own: set[str] = set()
        self._under_way: set[str] = set()

    @property
    def notices(self) -> tuple[str | None, ...]:
        """What is wrong with the store now, and whether it was started again meanwhile."""
        begun = None if self._store is None else self._store.begun_anew
        return self.notice, None if begun is None else f"the store: {loss_text(begun)}"

    async def load(self, keys: Iterable[str], now: float) -> dict[str, Remembered]:
        """Return what is known of each run; nothing if the store cannot be read."""
        return await self._read(functools.partial(self._remembered, list(keys), now))

    async def news(self, keys: Iterable[str], now: float) -> dict[str, Shared]:
        """Return what has changed in the store since the last call, by run."""
        own, self._own = self._own, set()
        return await self._read(functools.partial(self._changed, list(keys), own, now))

    def later(self, change: Change) -> None:
        """Write this with the next batch; nothing is written to a store that is only read."""
        if self._store is not None and not self._store.read_only:
            self._pending.append(change)
            del self._pending[:-PENDING_LIMIT]

    async def flush(self) -> None:
        """Write what is pending in one transaction; keep it if that fails."""
        if self._store is None or not self._pending:
            return
        batch, self._pending = self._pending, []
        try:
            await offload(functools.partial(_apply, batch, self._store), deadline=DEADLINE)
        except (StoreError, TimeoutError) as error:
            self.notice = str(error)
            self._pending = (batch + self._pending)[-PENDING_LIMIT:]
        else:
            self.notice = None

    def save_alerts(self, key: str, changed: Sequence[Kept]) -> None:
        """Store alerts with the next batch."""
        self._own.add(key)
        self.later(lambda store: Alerts(store).save(key, changed))

    def save_passed(self, key: str, found: Sequence[Kept], grace: float) -> None:
        """Store with the next batch what came and went between two looks, each once."""
        self._own.add(key)
        self.later(lambda store: Alerts(store).add_passed(key, found, grace))

    async def _read(self, read: Callable[[Store], dict[str, R]]) -> dict[str, R]:
        if self._store is None:
            return {}
        try:
            return await offload(functools.partial(read, self._store), deadline=DEADLINE)
        except (StoreError, TimeoutError) as error:
            self.notice = str(error)
            return {}

    def _remembered(self, keys: list[str], now: float, store: Store) -> dict[str, Remembered]:
        memory = RunMemory(store)
        with store.reading():
            self._version = _version(store)
            self._owned |= (owned := self._watched(keys))
            return {
                key: Remembered(
                    shared=self._shared(store, owned.get(key), key, now),
                    report=memory.report(key),
                    phases=memory.phases(key),
                    marks=memory.checkpoint_marks(key),
                    configs=SettingsKept(store).of(key),
                )
                for key in keys
            }

    def _changed(
        self, keys: list[str], own: set[str], now: float, store: Store
    ) -> dict[str, Shared]:
        with store.reading():
            version = _version(store)
            by_others = version != self._version
            self._version = version
            owned, former = self._watched(keys), self._owned
            self._owned = owned
            own |= {key for key in keys if _who(owned.get(key)) != _who(former.get(key))}
            own |= self._under_way
            changed = keys if by_others else [key for key in keys if key in own]
            return {key: self._shared(store, owned.get(key), key, now) for key in changed}

    def _shared(self, store: Store, owner: Owned | None, key: str, now: float) -> Shared:
        found = _shared(store, owner, key, now)
        (self._under_way.add if found.under_way else self._under_way.discard)(key)
        return found

    def _watched(self, keys: list[str]) -> dict[str, Owned]:
        """Return who watches; asked at every look, since one that hangs changes nothing."""
        own = self._ownership
        return {} if own is None else own.watched(keys, moment(self._clock))


def _apply(batch: Sequence[Change], store: Store) -> None:
    with store.writing():
        for change in batch:
            change(store)


def _who(owned: Owned | None) -> Owner | None:
    return None if owned is None else owned.owner


def _shared(store: Store, owner: Owned | None, key: str, now: float) -> Shared:
    alerts, launch = Alerts(store), launches.FollowupStore(store).last(key)
    started = RunMemory(store).launches(key)
    journal = Journal(store)
    awaited = [each for each in journal.unfinished(key) if each.awaits_launch]
    left = [each for each in awaited if not _in_hand(each, journal.place)]
    return Shared(
        open=alerts.open(key),
        closed=alerts.closed(key, now - CLOSED_FOR),
        launch=started[-1] if started else None,
        starts=tuple(JobStart(one.at, one.job_id) for one in started),
        owner=owner,
        ended=launches.Endings(store).acknowledged(key),
        failures=launches.Failures(store).of(key),
        launched=None if launch is None else launch.launched,
        unsettled=tuple(map(_unsettled, left)),
        under_way=len(left) < len(awaited),
        used=Snapshots(store).last(key),
        stops=launches.Stops(store).of(key),
        rejected=launches.Rejections(store).of(key),
        handed=handed_over(journal.handovers(key)),
        sealed=launches.Seals(store).last(key),
        agents=launches.AgentRecords(store).current(key, now),
        standing=StandingOrders(store).of(key),
    )


def _in_hand(entry: JournalEntry, place: str) -> bool:
    """Tell whether a launch is being made at this moment, by a process that lives."""
    return entry.outcome is None and still_working(entry.holder, place, entry.number) is True


def _unsettled(entry: JournalEntry) -> history.UnsettledLaunch:
    """Return a launch of the journal that no record tells the end of."""
    submit = entry.step(SUBMIT)
    return history.UnsettledLaunch(
        launch_id=entry.launch_id or "",
        action=entry.action,
        by=entry.operator,
        since=entry.begun_at if submit is None else submit.at,
        text=entry.message or (submit.note if submit is not None and submit.note else ""),
    )


def _version(store: Store) -> tuple[int, int, float]:
    """Return what changes when others write, and when an action of this process does."""
    return (store.version(), *launches.Stops(store).acted())
