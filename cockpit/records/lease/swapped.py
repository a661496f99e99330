"""A lease moved by compare-and-swap (SPEC A, "Two machines"); one is a ref on a git remote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.plan import Level
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec
from cockpit.records.git.pushing import remote_now
from cockpit.records.git.repository import GitError, Limits, locate
from cockpit.records.lease.state import (
    HELD,
    CannotAskError,
    LeasePlace,
    LeaseState,
    LeaseValue,
    NoAnswerError,
    blocking,
    lease_ref,
    not_above,
    passing,
    read_lease,
    swap_lease,
)
from cockpit.store.journal import Holder
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_TRIES: Final = 3
HolderAlive = Callable[[Holder], bool | None]


@dataclass(frozen=True)
class SeatWords:
    """What the lease at one place is called: ``named`` where it is ours, left, or another's."""

    named: str
    taken: str
    nobody: str
    foreign: str
    held: str = "held by "


class Seat(ABC):
    """Where the lease of one run lies. Both calls raise ``CannotAskError``, and have a deadline."""

    words: SeatWords

    @abstractmethod
    async def read(self) -> LeaseValue:
        """Return what lies there at this moment."""

    @abstractmethod
    async def swap(self, expected: str, state: LeaseState) -> bool:
        """Put ``state`` in the place of ``expected`` (empty: of nothing); False if it is not that.

        An answer that was lost is looked up; ``NoAnswerError`` where that told nothing either.
        """


class SwappedLease(ABC):
    """The leases of many runs, as this process (``holder``) takes them for ``operator``.

    ``alive`` tells whether a holder still lives, ``None`` for one on another machine. No method
    raises for what git, a store or the network does.
    """

    def __init__(
        self,
        clock: Clock,
        holder: Holder,
        operator: Callable[[], str],
        alive: HolderAlive,
    ) -> None:
        self._clock = clock
        self._holder = holder
        self._operator = operator
        self._alive = alive
        self._seen: dict[str, str] = {}
        """The value that was shown to a person, by run: only that one is replaced by ``over``."""

    @abstractmethod
    async def _seat(self, run: RunSpec) -> Seat:
        """Return where a run's lease lies; raises ``CannotAskError``, ``GitError``, ``OSError``."""

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the lease stands: free or ours, somebody else's, or not to be used."""
        try:
            seat = await self._seat(run)
            value = await seat.read()
        except (CannotAskError, GitError, OSError) as error:
            return unusable(error)
        self._seen[run.name] = value.oid
        return self._claim(seat.words, value)

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the lease; ``over`` also replaces somebody else's, if it is the one surveyed."""
        try:
            seat = await self._seat(run)
            return await self._take(seat, run, launch_id, what, over)
        except (CannotAskError, GitError, OSError) as error:
            return self._not_taken(run, error, over=over)

    def _not_taken(self, run: RunSpec, error: Exception, *, over: bool) -> Claim:
        """Return what it means that the lease could not be taken, or that nobody told."""
        return unusable(error)

    async def still_mine(self, run: RunSpec) -> bool | None:
        """Return whether the remote still says that it is ours."""
        try:
            value = await (await self._seat(run)).read()
        except (CannotAskError, GitError, OSError):
            return None
        return value.state is not None and value.state.is_held and self._is_mine(value.state)

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        """Give the lease back if it is ours; what stands in the way is left to ``clear``."""
        await self._give_back(run, self._is_mine, used=used)

    async def clear(self, run: RunSpec) -> None:
        """Give back what a process of this machine has left that lives no more."""
        await self._give_back(run, self._is_left)

    async def _give_back(
        self, run: RunSpec, which: Callable[[LeaseState], bool], *, used: bool = True
    ) -> None:
        try:
            seat = await self._seat(run)
            for _ in range(_TRIES):
                value = await seat.read()
                if value.state is None or not value.state.is_held or not which(value.state):
                    return
                free = value.state.released(self._clock.now(), used=used)
                if await seat.swap(value.oid, free):
                    return
        except (CannotAskError, GitError, OSError):
            return

    async def _take(
        self, seat: Seat, run: RunSpec, launch_id: str | None, what: str, over: bool
    ) -> Claim:
        shown = self._seen.get(run.name)
        claim = blocking(f"{seat.words.named} changed hands while it was taken")
        for _ in range(_TRIES):
            value = await seat.read()
            claim = self._claim(seat.words, value)
            forced = over and not claim.living and shown in (None, value.oid)
            if claim.level == Level.BLOCK.value and not forced:
                return claim
            if not_above(launch_id, self._given_out(value.state)):
                given = f"launch id {launch_id} was given out to another machine meanwhile"
                return blocking(f"{given}; plan again")
            state = self._mine(run, launch_id, what, value.state)
            if await seat.swap(value.oid, state):
                taken, known = seat.words.taken, state.known_launch_id
                return Claim(level=Level.PASS.value, text=taken, launch_id=known, at=state.at)
            shown = shown or value.oid
        if claim.level == Level.BLOCK.value:
            return claim
        return blocking(f"{seat.words.named} is changing hands; try again")

    def _mine(
        self, run: RunSpec, launch_id: str | None, what: str, former: LeaseState | None
    ) -> LeaseState:
        return LeaseState(
            state=HELD,
            run=run.name,
            holder=self._holder,
            operator=scrub(clean(self._operator(), 200)),
            what=scrub(clean(what, 200)),
            at=self._clock.now(),
            launch_id=launch_id,
            last_launch_id=None if former is None else former.known_launch_id,
            last_holder=None if former is None else former.launcher,
        )

    def _given_out(self, state: LeaseState | None) -> str | None:
        """Return the highest launch id that is used; ours, while we hold it, is not."""
        if state is None:
            return None
        return state.last_launch_id if self._is_mine(state) else state.known_launch_id

    def _claim(self, words: SeatWords, value: LeaseValue) -> Claim:
        if not value.oid:
            return passing(words.nobody)
        state = value.state
        if state is None:
            return blocking(f"{words.foreign} is not a lease that this version understands")
        known = state.known_launch_id
        if not state.is_held:
            text = f"{words.named} is free; {state.given_back}"
        elif self._is_mine(state):
            text = f"{words.named} is ours"
        elif self._is_left(state):
            text = f"{words.named} was left by a process that has ended: {state.label}"
        else:
            living = self._alive(state.holder) is True
            end = "; it lives on this machine: wait for it, or end it first" if living else ""
            return Claim(
                level=Level.BLOCK.value,
                text=f"{words.held}{state.label}{end}",
                holder=clean(f"{state.operator} on {state.holder.label}", 200),
                launch_id=known,
                at=state.at,
                living=living,
            )
        return Claim(
            level=Level.PASS.value, text=text, launch_id=known, at=state.at,
            launched_by=self._elsewhere(state.launcher),
        )  # fmt: skip

    def _elsewhere(self, launcher: Holder | None) -> str | None:
        """Return who launched, if its processes cannot be seen from here."""
        mine = self._holder
        here = (mine.host, mine.machine, mine.space)
        if launcher is None or (launcher.host, launcher.machine, launcher.space) == here:
            return None
        return clean(launcher.label, 200)

    def _is_mine(self, state: LeaseState) -> bool:
        mine, other = self._holder, state.holder
        keys = (mine.host, mine.pid, mine.boot, mine.ticks)
        return keys == (other.host, other.pid, other.boot, other.ticks)

    def _is_left(self, state: LeaseState) -> bool:
        """Tell whether a dead process of this very machine and boot has left it.

        Machines share names (``localhost``), so another boot may be another machine: that one
        a person replaces, by name.
        """
        mine, other = self._holder, state.holder
        here = other.host == mine.host and other.boot in (mine.boot, None)
        return here and self._alive(other) is False


def unusable(error: Exception) -> Claim:
    """Return that a lease cannot be used here or now, and why."""
    text = clean(scrub(str(error)), 500) or "the lease cannot be asked for"
    unanswered = isinstance(error, NoAnswerError | TimeoutError)
    return Claim(level=Level.WARN.value, text=text, unanswered=unanswered)


DEADLINE: Final = 6.0
"""Seconds that one question to the remote may take; one that gave no answer is not asked again."""
LOCAL: Final = 10.0


class LeaseRef(SwappedLease):
    """The leases of many runs, as refs on the remotes of their logbooks."""

    def __init__(
        self,
        clock: Clock,
        holder: Holder,
        operator: Callable[[], str],
        alive: HolderAlive,
        deadline: float = DEADLINE,
    ) -> None:
        super().__init__(clock, holder, operator, alive)
        self._limits = Limits(local=max(deadline, LOCAL), network=deadline)

    async def _seat(self, run: RunSpec) -> Seat:
        return _RefSeat(await self._place(run))

    async def _place(self, run: RunSpec) -> LeasePlace:
        if run.records.logbook is None:
            raise CannotAskError("no logbook in cockpit.toml, so no remote for a lease")
        at = await locate(Path(run.records.logbook), self._limits)
        found = at.repository
        if found is None:
            raise CannotAskError(at.why)
        remote = await remote_now(found)
        if remote is None:
            raise CannotAskError("the logbook's repository has no remote for a lease")
        return LeasePlace(found, remote, lease_ref(run.name))


class _RefSeat(Seat):
    """A ref on a remote."""

    def __init__(self, place: LeasePlace) -> None:
        self._place = place
        self.words = SeatWords(
            named="the lease",
            taken=f"the lease on {clean(place.remote)} is ours",
            nobody=f"no lease of this run on {clean(place.remote)}",
            foreign=f"{place.ref} on the remote",
        )

    async def read(self) -> LeaseValue:
        return await read_lease(self._place)

    async def swap(self, expected: str, state: LeaseState) -> bool:
        return await swap_lease(self._place, expected, state)
