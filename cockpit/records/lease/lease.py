"""The leases of runs: who may take one, keep it and give it back (SPEC A, "Two machines").

One compare-and-swap for all places (``cockpit.records.lease.seat``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cockpit.hosts.notes import number_of
from cockpit.model.clock import Clock
from cockpit.model.plan import Level
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec
from cockpit.records.git.repository import GitError
from cockpit.records.lease.seat import BarredError, CannotAskError, Found, Seat, Seats, UnsureError
from cockpit.records.lease.state import HELD, LeaseState, halted, highest, lives, this_holder
from cockpit.runtime.process import Where, where
from cockpit.store.journal import Holder
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_TRIES: Final = 3
_TROUBLE: Final = (CannotAskError, GitError, OSError)
HolderAlive = Callable[[Holder], bool | None]
_UNTOLD: Final = "cannot tell from here whether it still runs"
_UNSEEN: Final = {
    Where.HERE: _UNTOLD,
    Where.ELSEWHERE: f"{_UNTOLD}: that is another machine",
    Where.CONTAINER: f"{_UNTOLD}: that is another container",
    Where.UNCLEAR: f"{_UNTOLD}: this machine has restarted since, or another one has its name",
    Where.RESTARTED: "it ended when this machine restarted, unless a copy of this machine holds it",
}
"""What is known of a holder that does not live here, by where it is."""
_APPROVE: Final = "approve once you know that it has ended"


class Lease:
    """A guard (``cockpit.actions.core.action.Guard``): the leases of many runs at their ``seats``.

    This process (``holder``) takes them for ``operator``; what it has put is known by its nonce.
    ``alive`` tells whether a holder still lives, ``None`` for one on another machine. A lease that
    could be read when a plan was made and cannot be taken afterwards refuses the action: the plan
    had promised it. Where it is not ``needed``, that is so only if nobody tells whether it was
    taken, or if no other guard was taken. From then on plans of this process warn of it, and what
    they warn of does not refuse; approving ``second-machine`` by name goes on without, too.
    """

    def __init__(
        self,
        clock: Clock,
        seats: Seats,
        operator: Callable[[], str],
        holder: Holder | None = None,
        alive: HolderAlive = lives,
        *,
        needed: bool = True,
    ) -> None:
        self._clock = clock
        self._seats = seats
        self._operator = operator
        self._holder = holder or this_holder()
        self._alive = alive
        self._needed = needed
        self._nonces: set[str] = set()
        """Of all that was put here, or may have been: a swap may come late."""
        self._seen: dict[str, str] = {}
        """The word of what was shown to a person, by run: only that is replaced by ``over``."""
        self._usable: dict[str, bool] = {}
        """Whether a person was last told that the lease can be used, by run."""
        self._failed: dict[str, Claim] = {}
        """Why the lease of a run could not be taken the last time."""

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the lease stands: free or ours, somebody else's, or not to be used."""
        try:
            seat = await self._seats(run)
            found = await seat.read()
        except _TROUBLE as error:
            claim = _unusable(error)
        else:
            self._seen[run.name] = found.word
            claim = self._claim(seat, run, found)
        failed = self._failed.get(run.name)
        if claim.level == Level.PASS.value and failed is not None:
            told = ("level", "text", "unanswered")
            claim = claim.model_copy(update={name: getattr(failed, name) for name in told})
        self._usable[run.name] = claim.level != Level.WARN.value
        return claim

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the lease; ``over`` also replaces somebody else's, if it is the one surveyed."""
        try:
            claim = await self._take(run, launch_id, what, over=over)
        except _TROUBLE as error:
            return self._not_taken(run, error, over=over)
        if claim.level == Level.PASS.value:
            self._failed.pop(run.name, None)
        return claim

    async def still_mine(self, run: RunSpec) -> bool | None:
        """Return whether it is still ours; ``None`` where it cannot be read."""
        try:
            found = await (await self._seats(run)).read()
        except _TROUBLE:
            return None
        state = found.state
        if state is None or found.partial:
            return False
        return state.is_held and self._is_mine(state)

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        """Give the lease back if it is ours; what stands in the way is left to ``clear``."""
        await self._give_back(run, self._is_mine, used=used)

    async def clear(self, run: RunSpec) -> None:
        """Give back what a process of this machine has left that lives no more."""
        await self._give_back(run, self._is_left, used=True)

    async def _give_back(
        self, run: RunSpec, which: Callable[[LeaseState], bool], *, used: bool
    ) -> None:
        try:
            seat = await self._seats(run)
            for _ in range(_TRIES):
                found = await seat.read()
                state = found.state
                if state is None or not state.is_held or not which(state):
                    return
                free = state.of(run.name).released(self._clock.now(), used=used)
                if await self._put(seat, found, free):
                    return
        except _TROUBLE:
            return

    async def _take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        seat = await self._seats(run)
        for _ in range(_TRIES):
            found = await seat.read()
            claim = self._claim(seat, run, found)
            shown = found.word == self._seen.get(run.name)
            if claim.level == Level.BLOCK.value and not (over and shown and not claim.final):
                return claim
            if found.closed is not None:
                raise CannotAskError(found.closed)
            former = None if found.state is None else found.state.of(run.name)
            given = self._given_out(run, former, found.noted)
            if 0 < _number(run, launch_id) <= _number(run, given):
                text = f"launch id {launch_id} was given out already ({given})"
                return _blocking(f"{text}; plan again", given)
            state = self._mine(run, launch_id, what, former)
            if await self._replaced(seat, found, state, held=claim.level == Level.BLOCK.value):
                known = highest(run.name, found.noted, state.known_launch_id)
                text = f"{seat.name} is ours"
                return Claim(level=Level.PASS.value, text=text, launch_id=known, at=state.at)
        return _blocking(f"{seat.name} is changing hands; try again")

    async def _replaced(self, seat: Seat, found: Found, state: LeaseState, *, held: bool) -> bool:
        """Put a state as ``_put`` does; nobody goes on beside a lease that somebody else holds."""
        try:
            return await self._put(seat, found, state)
        except _TROUBLE as error:
            if not held:
                raise
            raise BarredError(f"{seat.name} was not taken over: {error}; plan again") from None

    async def _put(self, seat: Seat, found: Found, state: LeaseState) -> bool:
        """Put a state in the place of what was found; False if that is not there any more.

        It is looked up what became of it. After a lost answer the same is put once more: then the
        first one comes too late, or it was the one.
        """
        self._nonces.add(state.nonce)
        lost: UnsureError | None = None
        for again in (True, False):
            error: Exception | None = None
            try:
                if await seat.swap(found.word, state):
                    return True
            except _TROUBLE as caught:
                error = caught
                lost = caught if isinstance(caught, UnsureError) else lost
            try:
                now = await seat.read()
            except _TROUBLE as unread:
                raise (lost or error or unread) from None
            lies = now.state is not None and now.state.nonce == state.nonce
            put = lies and not now.partial
            if put and not (again and lost):
                return True
            if not put and (error is None or now.word != found.word):
                return False
            if error is not None and lost is None:
                raise error
        assert lost is not None
        raise lost

    def _not_taken(self, run: RunSpec, error: Exception, *, over: bool) -> Claim:
        """Return what it means that the lease could not be taken, or that nobody told."""
        claim = _unusable(error)
        if claim.level == Level.BLOCK.value:
            return claim
        self._failed[run.name] = claim
        unsure, told = isinstance(error, UnsureError), self._usable.get(run.name)
        promised = told is not False if unsure else told is True
        if over or not promised:
            return claim
        self._usable[run.name] = False
        text = f"{claim.text}; try again, or go on without the claim by approving"
        text += " second-machine by name"
        level = Level.BLOCK if unsure or self._needed else Level.WARN
        return claim.model_copy(update={"level": level.value, "text": text, "promised": True})

    def _mine(
        self, run: RunSpec, launch_id: str | None, what: str, former: LeaseState | None
    ) -> LeaseState:
        return LeaseState(
            state=HELD,
            run=run.name,
            holder=self._holder,
            operator=scrub(clean(self._operator() or "unknown", 200)),
            what=scrub(clean(what, 200)),
            at=self._clock.now(),
            launch_id=launch_id,
            last_launch_id=None if former is None else former.known_launch_id,
            last_holder=None if former is None else former.launcher,
        )

    def _given_out(self, run: RunSpec, former: LeaseState | None, noted: str | None) -> str | None:
        """Return the highest launch id that is used; ours, while we hold it, is not."""
        if former is None:
            return noted
        mine = former.is_held and self._is_mine(former)
        return highest(run.name, noted, *former.launch_ids[1 if mine else 0 :])

    def _claim(self, seat: Seat, run: RunSpec, found: Found) -> Claim:
        if found.foreign:
            text = f"{seat.place} is not a lease that this version understands"
            text = f"{text}: look who has put it there, then remove it"
            return _blocking(text, found.noted).model_copy(update={"final": True})
        state = None if found.state is None else found.state.of(run.name)
        known = highest(run.name, found.noted, None if state is None else state.known_launch_id)
        if state is None:
            text = f"{seat.name} is free"
        elif not state.is_held:
            text = f"{seat.name} is free; {state.given_back}"
        elif self._is_mine(state):
            text = f"{seat.name} is ours"
        elif self._is_left(state):
            text = f"{seat.name} was left by a process that has ended: {state.label}"
        else:
            return self._held(seat, state, known)
        if found.closed is not None:
            return Claim(level=Level.WARN.value, text=found.closed, launch_id=known)
        noted = known is not None and known == found.noted
        by = found.launched_by if noted else None
        if by is None and state is not None:
            by = self._elsewhere(state.launcher)
        return Claim(
            level=Level.PASS.value, text=text, launch_id=known,
            at=None if state is None else state.at, launched_by=by,
        )  # fmt: skip

    def _held(self, seat: Seat, state: LeaseState, known: str | None) -> Claim:
        living = self._alive(state.holder) is True
        end = f"{_UNSEEN[where(state.holder.place, self._holder.place)]}; {_APPROVE}"
        if living:
            end = "it lives on this machine: wait for it, or end it first"
            end += halted(state.holder)
        return Claim(
            level=Level.BLOCK.value,
            text=f"{seat.name} is held by {state.label}; {end}",
            holder=clean(f"{state.operator} on {state.holder.label}", 200),
            launch_id=known,
            at=state.at,
            final=living,
        )

    def _elsewhere(self, launcher: Holder | None) -> str | None:
        """Return who launched, if its processes cannot be seen from here."""
        mine = self._holder
        here = (mine.host, mine.machine, mine.space)
        if launcher is None or (launcher.host, launcher.machine, launcher.space) == here:
            return None
        return clean(launcher.label, 200)

    def _is_mine(self, state: LeaseState) -> bool:
        return state.nonce in self._nonces

    def _is_left(self, state: LeaseState) -> bool:
        """Tell whether a dead process of this very machine and boot has left it.

        Machines share names (``localhost``), so another boot may be another machine: that one
        a person replaces, by name.
        """
        mine, other = self._holder, state.holder
        here = other.host == mine.host and other.boot in (mine.boot, None)
        return here and self._alive(other) is False


def _unusable(error: Exception) -> Claim:
    """Return that a lease cannot be used here or now, and why."""
    text = clean(scrub(str(error)), 500) or "the lease cannot be asked for"
    level = getattr(error, "level", Level.WARN)
    unanswered = isinstance(error, TimeoutError) or getattr(error, "unanswered", False)
    return Claim(level=level.value, text=text, unanswered=unanswered)


def _blocking(text: str, launch_id: str | None = None) -> Claim:
    return Claim(level=Level.BLOCK.value, text=text, launch_id=launch_id)


def _number(run: RunSpec, launch_id: str | None) -> int:
    return number_of(run.name, launch_id or "") or 0
