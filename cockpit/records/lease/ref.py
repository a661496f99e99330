"""A lease on a run that other machines can see: a ref on the logbook's remote (SPEC A).

It is moved by compare-and-swap only (``git push --force-with-lease`` against the value that was
read), and each value is a commit on top of the one before, so that a remote which forbids
forced pushes and deletions serves as well. It is never deleted: given back, it still tells the
highest launch id, for the next machine. No local ref is made, and ``git status`` sees nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.plan import Level
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec
from cockpit.records.git import documents
from cockpit.records.git.repository import GitError, Limits, find_repository
from cockpit.records.git.troubles import of_discovery
from cockpit.records.git.upstream import remote_now
from cockpit.records.lease.state import (
    HELD,
    CannotAskError,
    LeasePlace,
    LeaseState,
    LeaseValue,
    NoAnswerError,
    lease_ref,
    not_above,
    read_lease,
    swap_lease,
)
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed
from cockpit.store.journal import Holder
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

DEADLINE: Final = 6.0
"""Seconds that one question to the remote may take; one that gave no answer is not asked again."""
LOCAL: Final = 10.0
_TRIES: Final = 3
HolderAlive = Callable[[Holder], bool | None]


class LeaseRef:
    """The lease refs of many runs, as this process (``holder``) takes them for ``operator``.

    ``alive`` tells whether a holder still lives, ``None`` for one on another machine. No method
    raises for what git or the network does.
    """

    def __init__(
        self,
        clock: Clock,
        holder: Holder,
        operator: Callable[[], str],
        alive: HolderAlive,
        deadline: float = DEADLINE,
    ) -> None:
        self._clock = clock
        self._holder = holder
        self._operator = operator
        self._alive = alive
        self._limits = Limits(local=max(deadline, LOCAL), network=deadline)
        self._seen: dict[str, str] = {}
        """The value that was shown to a person, by run: only that one is replaced by ``over``."""

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the lease stands: free or ours, somebody else's, or not to be used."""
        try:
            value = await read_lease(await self._place(run))
        except (CannotAskError, GitError, OSError) as error:
            return _unusable(error)
        self._seen[run.name] = value.oid
        return self._claim(run, value)

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the lease; ``over`` also replaces somebody else's, if it is the one surveyed."""
        try:
            place = await self._place(run)
            return await self._take(place, run, launch_id, what, over)
        except (CannotAskError, GitError, OSError) as error:
            return _unusable(error)

    async def still_mine(self, run: RunSpec) -> bool | None:
        """Return whether the remote still says that it is ours."""
        try:
            value = await read_lease(await self._place(run))
        except (CannotAskError, GitError, OSError):
            return None
        return value.state is not None and value.state.held and self._is_mine(value.state)

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
            place = await self._place(run)
            for _ in range(_TRIES):
                value = await read_lease(place)
                if value.state is None or not value.state.held or not which(value.state):
                    return
                free = value.state.released(self._clock.now(), used=used)
                if await swap_lease(place, value.oid, free):
                    return
        except (CannotAskError, GitError, OSError):
            return

    async def _take(
        self, place: LeasePlace, run: RunSpec, launch_id: str | None, what: str, over: bool
    ) -> Claim:
        shown = self._seen.get(run.name)
        claim = _blocked("the lease changed hands while it was taken")
        for _ in range(_TRIES):
            value = await read_lease(place)
            claim = self._claim(run, value)
            forced = over and shown in (None, value.oid)
            if claim.level == Level.BLOCK.value and not forced:
                return claim
            if not_above(launch_id, self._given_out(value.state)):
                given = f"launch id {launch_id} was given out to another machine meanwhile"
                return _blocked(f"{given}; plan again")
            state = self._mine(run, launch_id, what, value.state)
            if await swap_lease(place, value.oid, state):
                ours, known = f"the lease on {clean(place.remote)} is ours", state.known_launch_id
                return Claim(level=Level.PASS.value, text=ours, launch_id=known, at=state.at)
            shown = shown or value.oid
        blocked = claim.level == Level.BLOCK.value
        return claim if blocked else _blocked("the lease changes hands at this moment; try again")

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

    def _claim(self, run: RunSpec, value: LeaseValue) -> Claim:
        if not value.oid:
            return Claim(level=Level.PASS.value, text="no machine holds a lease on the run")
        state = value.state
        if state is None:
            what = f"{lease_ref(run.name)} on the remote"
            return _blocked(f"{what} is no lease that is understood here")
        known = state.known_launch_id
        if not state.held:
            text = f"the lease is free; {state.given_back}"
        elif self._is_mine(state):
            text = "the lease is ours"
        elif self._is_left(state):
            text = f"the lease was left by a process that lives no more: {state.label}"
        else:
            return Claim(
                level=Level.BLOCK.value,
                text=f"held by {state.label}",
                holder=clean(f"{state.operator} on {state.holder.label}", 200),
                launch_id=known,
                at=state.at,
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

    async def _place(self, run: RunSpec) -> LeasePlace:
        if run.records.logbook is None:
            raise CannotAskError("the run has no logbook, and so no remote for a lease")
        path = await offload(
            documents.real_path, Path(run.records.logbook), deadline=self._limits.local
        )
        found = await find_repository(path, self._limits)
        if isinstance(found, Completed):
            raise CannotAskError(of_discovery(found, path))
        remote = await remote_now(found)
        if remote is None:
            raise CannotAskError("the logbook's repository has no remote for a lease")
        return LeasePlace(found, remote, lease_ref(run.name))


def _blocked(text: str) -> Claim:
    return Claim(level=Level.BLOCK.value, text=text)


def _unusable(error: Exception) -> Claim:
    text = clean(scrub(str(error)), 500) or "the lease cannot be asked for"
    unanswered = isinstance(error, NoAnswerError | TimeoutError)
    return Claim(level=Level.WARN.value, text=text, unanswered=unanswered)
