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
from cockpit.model.run import RunSpec
from cockpit.records.git import documents
from cockpit.records.git.repository import Limits, find_repository
from cockpit.records.git.troubles import of_discovery
from cockpit.records.git.upstream import remote_now
from cockpit.records.lease.state import (
    CannotAskError,
    LeasePlace,
    LeaseState,
    LeaseValue,
    lease_ref,
    read_lease,
    swap_lease,
)
from cockpit.records.lease.swapped import HolderAlive, Seat, SeatWords, SwappedLease
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import Completed
from cockpit.store.journal import Holder
from cockpit.text.safe import clean

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
