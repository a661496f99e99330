"""A lease as an object under an output root in a bucket (SPEC A).

``<output root>/.cockpit/claim.json`` is put there only if there is none, and replaced only if it is
the one that was read. It is never deleted (buckets of hero runs forbid that): given back, it says
so.
"""

from __future__ import annotations

import json
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import SSH, Place
from cockpit.model.run import RunSpec
from cockpit.records.lease.folder_seat import FolderSeat
from cockpit.records.lease.seat import CannotAskError, Found, NoAnswerError, Seat, UnsureError
from cockpit.records.lease.state import LeaseState, read_state
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import BUCKETS, WritableBucket, known_by
from cockpit.runtime.http import Http
from cockpit.text.safe import clean

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


class RootSeats:
    """The seats under output roots: in folders here and on ssh hosts, and in buckets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._http = Http(clock)
        self._buckets: dict[tuple[str, str], WritableBucket] = {}
        self._honoured: dict[str, bool] = {}

    async def __call__(self, run: RunSpec) -> Seat:
        """Return where a run's claim lies; raises ``CannotAskError`` where none can lie."""
        root = None if run.output_root is None else run.output_root.normal()
        if root is not None and (root.here or root.scheme == SSH):
            return FolderSeat(run.name, root)
        return self.in_bucket(run)

    def in_bucket(self, run: RunSpec) -> BucketSeat:
        """Return where the claim of a run in a bucket lies; raises ``CannotAskError``."""
        root = None if run.output_root is None else run.output_root.normal()
        if root is None or root.scheme not in BUCKETS:
            where = clean(run.output_root or "not set", 200)
            places = "this machine, an ssh host or in a bucket"
            raise CannotAskError(f"the output root ({where}) is not on {places}")
        key = root.scheme, root.host
        if key not in self._buckets:
            self._buckets[key] = WritableBucket(*key, self._clock, self._http)
        return BucketSeat(self._buckets[key], root, self._honoured)


class BucketSeat(Seat):
    """The claim of one output root; ``honoured`` is by place."""

    def __init__(self, bucket: WritableBucket, root: Place, honoured: dict[str, bool]) -> None:
        self._bucket, self._honoured = bucket, honoured
        self._key = f"{root.path}/{BELOW}".lstrip("/")
        self.place = f"{bucket.scheme}://{bucket.name}/{self._key}"
        self.name = f"the claim {self.place}"

    @property
    def heeds(self) -> bool | None:
        """Whether the store heeds conditions, as far as that was seen."""
        return self._honoured.get(self.place)

    async def read(self) -> Found:
        """Return the claim; raises ``CannotAskError`` too where conditions are not heeded."""
        try:
            whole = await self._bucket.get(self._key, MOST)
        except BucketError as error:
            kind = NoAnswerError if error.kind in _TELLS else CannotAskError
            raise kind(f"the claim cannot be read: {error}") from None
        if whole is None:
            return Found()
        state, heeded = _parsed(whole.data)
        if heeded is not None:
            self._honoured[self.place] = heeded
        if self.heeds is False:
            raise CannotAskError(self._unheeded())
        return Found(whole.word, state, foreign=state is None)

    async def swap(self, word: str, state: LeaseState) -> bool:
        """Put ``state`` there, and see once that this store heeds conditions at all."""
        data = self._bytes(state)
        try:
            put = await self._bucket.swap(self._key, data, known_by(word))
        except BucketError as error:
            kind = CannotAskError if error.kind in _DEFINITE else UnsureError
            raise kind(str(error)) from None
        if put and self.heeds is None:
            await self._prove(word, data, state)
        return put

    async def _prove(self, word: str, data: bytes, state: LeaseState) -> None:
        """Put the same again: its condition holds no more, so it must be refused."""
        try:
            heeded = not await self._bucket.swap(self._key, data, known_by(word))
        except BucketError:
            return  # it is seen another time
        self._honoured[self.place] = heeded
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
        document = {**state.model_dump(by_alias=True), HONOURED: self.heeds}
        return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode("utf-8", "replace")

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
