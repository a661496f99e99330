"""A claim under an output root in a bucket, which every machine that reaches it sees (SPEC A).

``<output root>/.cockpit/claim.json`` is put there only if there is none, and replaced only if it is
the one that was read. It is never deleted (buckets of hero runs forbid that): given back, it says
so. A put whose answer was lost is told by the nonce that is read back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from cockpit.hosts.notes import number_of
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.model.plan import Level
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec
from cockpit.records.lease.state import (
    CannotAskError,
    LeaseState,
    LeaseValue,
    NoAnswerError,
    lives,
    read_state,
    this_holder,
)
from cockpit.records.lease.swapped import HolderAlive, Seat, SeatWords, SwappedLease, unusable
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import BUCKETS, WritableBucket, known_by
from cockpit.runtime.http import Http
from cockpit.store.journal import Holder

BELOW: Final = ".cockpit/claim.json"
MOST: Final = 65536
HONOURED: Final = "conditional"
"""The key of a claim that says whether this store was seen to heed conditions."""
_DEFINITE: Final = frozenset(
    {ErrorKind.FORBIDDEN, ErrorKind.UNAUTHORIZED, ErrorKind.UNSUPPORTED, ErrorKind.RATE_LIMITED}
)
"""Refusals after which nothing was put and nothing will be."""
_TELLS: Final = frozenset({ErrorKind.TIMEOUT, ErrorKind.REFUSED, ErrorKind.DNS, ErrorKind.TLS})
"""Failures that are no answer."""


class StoreClaim(SwappedLease):
    """The guard (``cockpit.actions.core.action.Guard``) under output roots in buckets.

    A claim that could be read when a plan was made and not be taken afterwards refuses the action:
    the plan had promised it. From then on plans of this process warn of it, and what they warn of
    does not refuse; approving ``second-machine`` by name goes on without, too.
    """

    def __init__(
        self,
        clock: Clock,
        operator: Callable[[], str],
        holder: Holder | None = None,
        alive: HolderAlive = lives,
    ) -> None:
        super().__init__(clock, holder or this_holder(), operator, alive)
        self._http = Http(clock)
        self._buckets: dict[tuple[str, str], WritableBucket] = {}
        self._honoured: dict[str, bool] = {}
        self._promised: set[str] = set()
        self._failed: dict[str, Claim] = {}
        """Why the claim of a run could not be taken the last time."""

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the claim stands: one request that reads."""
        claim = await super().survey(run)
        if claim.level == Level.PASS.value:
            claim = self._failed.get(run.name, claim)
        keep = self._promised.discard if claim.level == Level.WARN.value else self._promised.add
        keep(run.name)
        return claim

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the claim by a conditional put; ``over`` also replaces the one that was surveyed."""
        claim = await super().take(run, launch_id, what, over=over)
        if claim.level == Level.PASS.value:
            self._failed.pop(run.name, None)
        return claim

    def heeded(self, run: RunSpec) -> bool | None:
        """Return whether the store was seen to heed conditions, by the claim as it was surveyed."""
        try:
            return self._at(run).heeds
        except CannotAskError:
            return None

    def _not_taken(self, run: RunSpec, error: Exception, *, over: bool) -> Claim:
        claim = self._failed[run.name] = unusable(error)
        if over or run.name not in self._promised:
            return claim
        self._promised.discard(run.name)
        text = f"{claim.text}; try again, or go on without the claim by approving"
        text += " second-machine by name"
        return claim.model_copy(update={"level": Level.BLOCK.value, "text": text})

    async def _seat(self, run: RunSpec) -> Seat:
        return self._at(run)

    def _at(self, run: RunSpec) -> _StoreSeat:
        root = None if run.output_root is None else run.output_root.normal()
        if root is None or root.scheme not in BUCKETS:
            raise CannotAskError(f"the output root ({root or 'not set'}) is in no bucket")
        key = root.scheme, root.host
        if key not in self._buckets:
            self._buckets[key] = WritableBucket(*key, self._clock, self._http)
        return _StoreSeat(self._buckets[key], root, run.name, self._honoured)


class _StoreSeat(Seat):
    """The claim of one output root."""

    def __init__(
        self, bucket: WritableBucket, root: Place, run: str, honoured: dict[str, bool]
    ) -> None:
        self._bucket, self._run, self._honoured = bucket, run, honoured
        self._key = f"{root.path}/{BELOW}".lstrip("/")
        self._where = f"{bucket.scheme}://{bucket.name}/{self._key}"
        self.words = SeatWords(
            named=f"the claim {self._where}",
            taken=f"claimed: {self._where}",
            nobody=f"no machine holds the claim {self._where}",
            foreign=self._where,
            held=f"{self._where} is held by ",
        )

    @property
    def heeds(self) -> bool | None:
        """Whether the store heeds conditions, as far as that was seen."""
        return self._honoured.get(self._where)

    async def read(self) -> LeaseValue:
        """Return the claim; raises ``CannotAskError`` too where conditions are not heeded."""
        try:
            whole = await self._bucket.get(self._key, MOST)
        except BucketError as error:
            raise _unreadable(error) from None
        if whole is None:
            return LeaseValue()
        state, heeded = _parsed(whole.data)
        if heeded is not None:
            self._honoured[self._where] = heeded
        if self._honoured.get(self._where) is False:
            raise CannotAskError(self._unheeded())
        return LeaseValue(whole.word, None if state is None else self._without_foreign_ids(state))

    async def swap(self, expected: str, state: LeaseState) -> bool:
        """Put ``state`` there, and see once that this store heeds conditions at all."""
        data = self._bytes(state)
        if not await self._swap(expected, data, state.nonce):
            return False
        if self._where not in self._honoured:
            await self._prove(expected, data, state)
        return True

    async def _swap(self, expected: str, data: bytes, nonce: str) -> bool:
        """Put it; after a lost answer once more: then the first one comes too late or was it."""
        lost: BucketError | None = None
        for _ in range(2):
            try:
                if await self._bucket.swap(self._key, data, known_by(expected)):
                    return True
            except BucketError as error:
                if error.kind in _DEFINITE:
                    raise CannotAskError(str(error)) from None
                lost = error
            found = await self.read()
            if found.state is not None and found.state.nonce == nonce:
                return True
            if found.oid != expected:
                return False
        raise NoAnswerError(f"{self._where}: {lost or 'the store contradicts itself'}")

    async def _prove(self, expected: str, data: bytes, state: LeaseState) -> None:
        """Put the same again: its condition holds no more, so it must be refused."""
        try:
            heeded = not await self._bucket.swap(self._key, data, known_by(expected))
        except BucketError:
            return  # it is seen another time
        self._honoured[self._where] = heeded
        if heeded:
            return
        try:
            whole = await self._bucket.get(self._key, MOST)
            free = self._bytes(state.released(state.at, used=False))
            await self._bucket.swap(self._key, free, whole)
        except BucketError:
            pass  # it is held by a process of this machine, and left once that is gone
        raise CannotAskError(self._unheeded())

    def _bytes(self, state: LeaseState) -> bytes:
        heeded = self._honoured.get(self._where)
        document = {**state.model_dump(by_alias=True), HONOURED: heeded}
        return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode("utf-8", "replace")

    def _without_foreign_ids(self, state: LeaseState) -> LeaseState:
        """Return the state without launch ids of other runs, which count in another way."""
        known = {name: getattr(state, name) for name in ("launch_id", "last_launch_id")}
        foreign = {
            name: None
            for name, text in known.items()
            if text is not None and number_of(self._run, text) is None
        }
        return state.model_copy(update=foreign) if foreign else state

    def _unheeded(self) -> str:
        text = f"{self._bucket.scheme}://{self._bucket.name} takes a conditional put whose"
        return f"{text} condition does not hold: no claim can be held there"


def _parsed(data: bytes) -> tuple[LeaseState | None, bool | None]:
    """Return what a claim says, and whether its store heeds conditions; nothing of other files."""
    try:
        document = json.loads(data)
        heeded = document.pop(HONOURED, None)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None, None
    state = read_state(json.dumps(document))
    return state, heeded if state is not None and isinstance(heeded, bool) else None


def _unreadable(error: BucketError) -> CannotAskError:
    kind = NoAnswerError if error.kind in _TELLS else CannotAskError
    return kind(f"the claim cannot be read: {error}")
