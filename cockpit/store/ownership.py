"""Processes that share a store: who holds something, who watches a run, whose turn it is.

A beat is a number that goes up: an onlooker counts by its own clock how long it has not moved. A
turn is claimed by compare-and-swap, begun at the last moment before it is written, and done; one
that was begun is only taken over from a process that has died.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.model.clock import Moment
from cockpit.model.wording import utc_minute
from cockpit.runtime import process
from cockpit.runtime.account import login_name
from cockpit.runtime.process import Machine, Start, process_facts
from cockpit.store.store import Store, StoreView, instant, pack, unpack

BEAT: Final = 5.0
QUICKEST: Final = 0.5
"""Seconds between two beats, at most and at least: a shorter cadence has a quicker beat."""
MISSED: Final = 3.0
"""Beats after which a process that has not given one counts as hung."""
LOOKS: Final = 2.5
"""Seconds between two looks of whoever looks on, at most, while nothing holds it up."""
KEPT: Final = 30 * 86400.0


def beat_every(cadence: float) -> float:
    """Return the seconds between two beats of a watch of this cadence."""
    return min(BEAT, max(QUICKEST, cadence))


class Beat(NamedTuple):
    """The newest beat of a process; ``every`` is in seconds."""

    number: int
    at: Moment
    every: float
    stand_in: str | None = None


class StoodIn(NamedTuple):
    """Who notified people while a process hung, from when (epoch s), and since when it hung."""

    who: str
    at: float
    since: float


class _BeatSeen(NamedTuple):
    number: int
    silent: float
    looked_at: Moment


class Beats(StoreView):
    """Gives beats and listens to those of others."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._seen: dict[str, _BeatSeen] = {}

    def give(self, process: str, now: Moment, every: float) -> StoodIn | None:
        """Beat; return who has stood in for this process since its last beat."""
        known = "SELECT stand_in, stood_in_at, at FROM beats WHERE process = ?"
        with self._store.writing():
            row = self._first(known, process)
            self._change(
                "INSERT INTO beats (process, count, at, steady, boot, every)"
                " VALUES (?, 1, ?, ?, ?, ?) ON CONFLICT (process) DO UPDATE SET"
                " count = count + 1, at = excluded.at, steady = excluded.steady,"
                " every = excluded.every, stand_in = NULL, stood_in_at = NULL",
                process, now.wall, now.steady, now.boot, every,
            )  # fmt: skip
        return None if row is None or row[0] is None else StoodIn(row[0], row[1], row[2])

    def end(self, process: str, now: Moment) -> None:
        """Take a process's beats away as it leaves, and those of the long dead with them."""
        query = "DELETE FROM beats WHERE process = ? OR at < ?"
        self._change(query, process, now.wall - KEPT)

    def stand_in(self, process: str, who: str, now: Moment) -> None:
        """Write that ``who`` tells people from now on, for the hung process to find."""
        query = "UPDATE beats SET stand_in = ?, stood_in_at = ? WHERE process = ?"
        self._change(f"{query} AND stand_in IS NULL", who, now.wall, process)

    def silence(self, process: str, now: Moment) -> tuple[Beat, float] | None:
        """Return a process's last beat and how many beats it has missed; ``None``: it never beat.

        At a first look the age of a beat of this boot counts as well, but for the last beat: that
        one is waited for.
        """
        query = "SELECT at, steady, boot, count, every, stand_in FROM beats WHERE process = ?"
        row = self._first(query, process)
        if row is None:
            self._seen.pop(process, None)
            return None
        beat = Beat(row[3], Moment(*row[:3]), *row[4:])
        seen = self._seen.get(process)
        if seen is None:
            # Seconds count only where one boot has counted both ends.
            same = beat.at.boot is not None and beat.at.boot == now.boot
            silent = min(now.since(beat.at) if same else 0.0, (MISSED - 1) * beat.every)
        elif seen.number != beat.number:
            silent = 0.0
        else:
            passed = max(0.0, now.since(seen.looked_at))
            silent = seen.silent + min(passed, max(beat.every, LOOKS))
        self._seen[process] = _BeatSeen(beat.number, silent, now)
        return beat, silent / beat.every


class Owner(Frozen):
    """A process that watches; its start tells it from a later one with the same pid.

    ``ticks`` is that start as the kernel counts it and ``boot`` the boot it counts from: setting
    the machine's clock moves ``started_at``, never these.
    """

    name: str
    host: str
    pid: int
    started_at: Instant | None = None
    ticks: int | None = None
    boot: str | None = None

    @property
    def label(self) -> str:
        """``ada (watch on gpu-box, pid 4211)``, as a message names the owner."""
        return f"{self.name} (watch on {self.host}, pid {self.pid})"

    @property
    def process(self) -> str:
        """What tells this process from every other, on any host and after any restart."""
        began = self.started_at if self.ticks is None else self.ticks
        return f"{self.host} {self.boot} {self.pid} {began}"


class Owned(Frozen):
    """Who owns a run, since when, and when it last gave a sign of life."""

    owner: Owner
    since: Instant
    heartbeat: Instant
    cadence: Seconds


class Hung(NamedTuple):
    """An owner whose process may be there and does nothing, since its last beat (epoch s)."""

    owner: Owner
    since: float

    @property
    def line(self) -> str:
        """``watch of ada on gpu-box (pid 4211) hung since 2026-03-11 14:03 UTC``."""
        who = f"watch of {self.owner.name} on {self.owner.host} (pid {self.owner.pid})"
        return f"{who} hung since {utc_minute(self.since)}"


class Beaten(NamedTuple):
    """What a process finds as it beats: the runs it still owns, and who stood in for it."""

    runs: frozenset[str]
    stood_in: StoodIn | None


Alive = Callable[[Owner], bool]
"""Is that very process still alive on this machine."""


class Ownership(StoreView):
    """Claims and gives up runs."""

    def __init__(self, store: Store, alive: Alive) -> None:
        super().__init__(store)
        self._alive = alive
        self._beats = Beats(store)
        self.hung: tuple[Hung, ...] = ()
        """The owners that were found hung at the last look (``watched``)."""
        self.replaced: dict[str, Hung] = {}
        """The hung owners from whom runs were taken, by process."""

    def owner(self, run: str, now: Moment) -> Owned | None:
        """Return the living owner of a run."""
        return self.watched([run], now).get(run)

    def watched(self, runs: Iterable[str], now: Moment) -> dict[str, Owned]:
        """Return the runs that a living owner watches; one that hangs does not watch.

        How long an owner is silent is seen from call to call: to be asked every few seconds.
        """
        with self._store.reading():
            known = self._owned()
            found = {run: known[run] for run in runs if run in known}
            owners = {each.owner.process: each for each in found.values()}
            states = {name: self._state(each, now) for name, each in owners.items()}
        self.hung = tuple(state for state in states.values() if isinstance(state, Hung))
        return {run: each for run, each in found.items() if states[each.owner.process] is True}

    def claim(
        self, run: str, me: Owner, now: Moment, cadence: float, *, takeover: bool = False
    ) -> Owned | None:
        """Take a run for ``me``; return the living owner that is in the way, or ``None``."""
        with self._store.writing():
            found = self._owned(run).get(run)
            other = found is not None and found.owner != me
            if found is not None and other and not takeover:
                state = self._state(found, now)
                if state is True:
                    return found
                if isinstance(state, Hung):
                    self.replaced[found.owner.process] = state
            since = found.since if found is not None and not other else now.wall
            self._own(run, me, since, now.wall, cadence)
        return None

    def refresh(self, run: str, me: Owner, now: Moment, cadence: float) -> Owned | None:
        """Go on owning a run; return who has taken it over, or ``None`` if it is mine.

        A run that somebody took over and gave up again is taken back.
        """
        with self._store.writing():
            found = self._owned(run).get(run)
            if found is not None and found.owner != me:
                return found
            since = now.wall if found is None else found.since
            self._own(run, me, since, now.wall, cadence)
        return None

    def release(self, run: str, me: Owner) -> None:
        """Give a run up, if it is mine."""
        with self._store.writing():
            found = self._owned(run).get(run)
            if found is not None and found.owner == me:
                self._change("DELETE FROM owners WHERE run = ?", run)

    def beat(self, me: Owner, now: Moment, every: float) -> Beaten:
        """Give a sign of life for all runs of ``me``."""
        with self._store.writing():
            stood_in = self._beats.give(me.process, now, every)
            mine = frozenset(run for run, owned in self._owned().items() if owned.owner == me)
        return Beaten(mine, stood_in)

    def leave(self, me: Owner, now: Moment) -> None:
        """Beat no more."""
        self._beats.end(me.process, now)

    def doubt(self, owned: Owned, now: Moment) -> float:
        """Return for how many seconds to look on until it is certain that an owner hangs.

        Zero for one that has just beaten; by the wall clock, where no other is common.
        """
        silence = self._beats.silence(owned.owner.process, now)
        if silence is None:
            return 0.0
        beat, missed = silence
        silent = now.since(beat.at) >= (MISSED - 1) * beat.every
        return (MISSED - missed) * beat.every if silent else 0.0

    def stand_in(self, hung: Hung, who: str, now: Moment) -> None:
        """Write, for a hung owner to find, that ``who`` tells people in its place."""
        self._beats.stand_in(hung.owner.process, who, now)

    def _state(self, owned: Owned, now: Moment) -> bool | Hung:
        """Return whether the owner is there, or since when it hangs.

        By its process here, and by its beats; one that never beat is of an older version.
        """
        if not self._alive(owned.owner):
            return False
        silence = self._beats.silence(owned.owner.process, now)
        if silence is None:
            return True
        beat, missed = silence
        return True if missed < MISSED else Hung(owned.owner, beat.at.wall)

    def _own(self, run: str, me: Owner, since: float, heartbeat: float, cadence: float) -> None:
        process = me.model_dump(exclude={"name"})
        times = {"since": since, "heartbeat": heartbeat, "cadence": cadence}
        self._insert("OR REPLACE INTO owners", run=run, owner=me.name, **process, **times)

    def _owned(self, run: str | None = None) -> dict[str, Owned]:
        """Return who owns a run, or each of all."""
        query = f"SELECT {_COLUMNS} FROM owners WHERE run = coalesce(?, run)"
        return dict(self._values(_owned, query, run))


_COLUMNS = "run, owner, host, pid, started_at, since, heartbeat, cadence, ticks, boot"


def _owned(run: str, owner: str, **fields: Any) -> tuple[str, Owned]:  # noqa: ANN401 - the columns
    times = {name: fields.pop(name) for name in ("since", "heartbeat", "cadence")}
    return run, Owned(owner=Owner(name=owner, **fields), **times)


class Holder(Frozen):
    """The process that acts: enough to tell it from any other, also after a restart.

    ``machine`` is the machine's own id, ``boot`` its boot, ``space`` the pid namespace, ``ticks``
    the process's start in kernel ticks, ``login`` its account; each ``None`` where the system
    does not tell.
    """

    host: str
    pid: int
    machine: str | None = None
    boot: str | None = None
    space: str | None = None
    ticks: int | None = None
    started_at: Instant | None = None
    login: str | None = None

    @property
    def label(self) -> str:
        """``gpu-box, pid 4211``."""
        return f"{self.host}, pid {self.pid}"

    @property
    def place(self) -> Machine:
        """Where its process id counts."""
        return Machine(self.host, self.machine, self.boot, self.space)


def this_holder() -> Holder:
    """Return this process, known by its start in kernel ticks and by the machine's boot."""
    facts, place = process_facts(os.getpid()), process.here()
    return Holder(
        host=place.host or "",
        pid=facts.pid,
        machine=place.machine,
        boot=place.boot,
        space=place.space,
        ticks=facts.ticks,
        started_at=facts.started_at,
        login=login_name(),
    )


def lives(holder: Holder) -> bool | None:
    """Return whether that very process lives; ``None`` for one on another machine."""
    return process.lives(holder.pid, holder.place, Start(holder.ticks, holder.started_at))


CLAIMED_FOR: Final = 60.0
"""Seconds within which a claimed turn must be begun."""
_CLAIMED, _BEGUN, _DONE = "claimed", "begun", "done"


class Turn(NamedTuple):
    """A turn that is ours; ``again``: a process that died had begun it, perhaps written it.

    ``at`` is when it was claimed first: the time of what is written, also by whoever takes over.
    """

    run: str
    what: str
    at: Moment
    claim: str
    again: bool = False


class NotOursError(ValueError):
    """The turn was not begun in time, and is another cockpit's now."""


class Turns(StoreView):
    """The turns as the process ``me`` sees them.

    ``died`` tells whether a process is surely gone; one of another machine never is.
    """

    def __init__(self, store: Store, me: Owner, died: Callable[[Owner], bool]) -> None:
        super().__init__(store)
        self._me = me
        self._died = died

    def take(self, run: str, what: str, every: float, now: Moment) -> Turn | None:
        """Claim the turn of a period that lasts ``every`` s; ``None`` if it is not due or taken."""
        query = "SELECT at, steady, boot, state, claimant FROM turns WHERE run = ? AND what = ?"
        with self._store.writing():
            row = self._first(query, run, what)
            found = None
            if row is not None:
                found = _Row(Moment(*row[:3]), row[3], unpack(Owner, row[4]))
            if found is None or not 0 <= now.since(found.at) < every:  # over, whatever became of it
                turn = Turn(run, what, now, uuid.uuid4().hex)
            elif found.state != _DONE and self._free(found, now):
                again = found.state == _BEGUN
                turn = Turn(run, what, found.at, uuid.uuid4().hex, again)
            else:
                return None
            self._insert(
                "OR REPLACE INTO turns", run=run, what=what, **instant(turn.at), claim=turn.claim,
                claimant=pack(self._me), state=_CLAIMED,
            )  # fmt: skip
        return turn

    def begin(self, turn: Turn) -> None:
        """Say that it is written now; raises ``NotOursError``."""
        if not self._step(turn, _CLAIMED, _BEGUN):
            raise NotOursError(f"{turn.what}: another cockpit is writing it")

    def done(self, turn: Turn) -> None:
        """Say that it is written, or cannot be: the next one is due a period after it."""
        with self._store.writing():
            self._step(turn, _CLAIMED, _DONE)
            self._step(turn, _BEGUN, _DONE)

    def _step(self, turn: Turn, old: str, new: str) -> bool:
        query = "UPDATE turns SET state = ? WHERE run = ? AND what = ? AND claim = ? AND state = ?"
        return self._change(query, new, turn.run, turn.what, turn.claim, old) == 1

    def _free(self, found: _Row, now: Moment) -> bool:
        late = found.state == _CLAIMED and now.since(found.at) >= CLAIMED_FOR
        return late or (found.claimant is not None and self._died(found.claimant))


class _Row(NamedTuple):
    at: Moment
    state: str
    claimant: Owner | None
