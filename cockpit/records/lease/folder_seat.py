"""A lease as a claim under an output root, on this machine or on an ssh host (SPEC A).

``cockpit.hosts.folders`` reads and swaps it there. Given back, it is removed: what was launched
under the root stands in its notes.

A lease as an object under an output root in a bucket (SPEC A).

``<output root>/.cockpit/claim.json`` is put there only if there is none, and replaced only if it is
the one that was read. It is never deleted (buckets of hero runs forbid that): given back, it says
so.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from cockpit.hosts import notes
from cockpit.hosts.here import call, host_of
from cockpit.hosts.link import NoPythonError, Value
from cockpit.hosts.notes import INTENT, machine_id
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import SSH, Place
from cockpit.model.run import RunSpec
from cockpit.records.lease.seat import (
    BarredError,
    CannotAskError,
    Found,
    NoAnswerError,
    Seat,
    UnsureError,
)
from cockpit.records.lease.state import HELD, LeaseState, highest, read_state
from cockpit.runtime.bucket_client import BucketError
from cockpit.runtime.buckets import BUCKETS, WritableBucket, known_by
from cockpit.runtime.http import Http
from cockpit.runtime.offload import offload
from cockpit.runtime.ssh import RemoteError
from cockpit.text.safe import clean

DEADLINE: Final = 15.0
_WRITTEN: Final = ("holder", "operator", "what", "launch_id", "at", "nonce")
"""What a claim says of a lease."""


class FolderSeat(Seat):
    """The claim under one output root; ``do`` is ``cockpit.hosts.here.call``."""

    def __init__(self, run: str, root: Place, do: Callable[..., Awaitable[Any]] = call) -> None:
        self._run, self._root, self._do = run, root, do
        self.name = f"the claim under {root}"
        self.place = f"{root}/.cockpit/claim.json"

    async def read(self) -> Found:
        """Return the claim, with the run's highest launch id that is noted under the root."""
        try:
            said = await self._asked("read_claim")
        except RemoteError as error:
            never = isinstance(error, NoPythonError)  # else it may be reached later
            kind = BarredError if never else NoAnswerError
            raise kind(f"{self.name} cannot be read: {error}") from None
        if "missing" in said:
            return Found(_word("", ()))
        if "trouble" in said:
            raise CannotAskError(f"the output root {self._root} {clean(said['trouble'], 300)}")
        if "unreadable" in said:
            where = f"this user cannot read {clean(said['unreadable'], 200)} there"
            raise CannotAskError(f"cannot tell whether {self._root} is claimed: {where}")
        text, names = said["text"], said["launches"]
        state = None if text is None else self._parsed(text)
        noted = highest(self._run, *(name.removesuffix(INTENT) for name in names))
        return Found(
            word=_word("" if state is None else state.nonce, names),
            state=state,
            foreign=text is not None and state is None,
            noted=noted,
            launched_by=await _launched_elsewhere(self._root, noted),
            closed=f"the output root {self._root} cannot be written to" if said["closed"] else None,
        )

    async def swap(self, word: str, state: LeaseState) -> bool:
        """Put the claim there, or remove it where it is given back."""
        expected, launches = json.loads(word)
        held = {name: value for name, value in state.model_dump().items() if name in _WRITTEN}
        text = json.dumps({name: held[name] for name in _WRITTEN}, indent=1) + "\n"
        nonce, text = (state.nonce, text) if state.is_held else ("", "")
        put = {"expected": expected, "launches": launches, "nonce": nonce, "text": text}
        try:
            said = await self._asked("swap_claim", **put)
        except RemoteError as error:
            if not error.sent:
                raise NoAnswerError(str(error)) from None
            raise UnsureError(f"cannot tell whether {self.name} was taken: {error}") from None
        if said == "busy":
            raise BarredError(f"{self.name} is being changed")
        return bool(said != "changed")

    async def _asked(self, function: str, **more: object) -> Value:
        root, what = self._root, f"the claim under {self._root.path}"
        more |= {"root": root.path, "run": self._run}
        try:
            return await self._do(host_of(root), what, function, deadline=DEADLINE, **more)
        except OSError as error:
            why = clean(error.strerror or error, 300)
            raise CannotAskError(f"no claim can be put under {root}: {why}") from None

    def _parsed(self, text: str) -> LeaseState | None:
        """Return the lease that a claim says; ``None`` for what is none of ours."""
        try:
            said = json.loads(text)
            known = said if set(said) <= set(_WRITTEN) else {}
            return LeaseState.model_validate({"state": HELD, "run": self._run, **known})
        except (ValidationError, ValueError, TypeError, RecursionError):
            return None


def _word(nonce: str, launches: Iterable[str]) -> str:
    """Return what tells how a root stands: its claim, and the run's launches noted there."""
    return json.dumps([nonce, list(launches)])


async def _launched_elsewhere(root: Place, launch_id: str | None) -> str | None:
    """Return the other machine that runs a launch under a root here, as its note says.

    A dead one's note says it too.
    """
    if launch_id is None or not root.here:
        return None
    path = Path(root.path) / notes.BELOW / launch_id
    try:
        note = await offload(notes.read_note, path, deadline=DEADLINE) or {}
    except (OSError, TimeoutError):
        return None
    theirs, mine = note.get("machine"), machine_id()
    if note.get("state") not in (notes.STARTING, notes.RUNNING) or None in (theirs, mine):
        return None
    return None if theirs == mine else f"{clean(note.get('host', '?'), 200)} (by its note)"


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
