"""A lease as a claim under an output root, on this machine or on an ssh host (SPEC A).

``cockpit.hosts.folders`` reads and swaps it there. Given back, it is removed: what was launched
under the root stands in its notes.
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
from cockpit.model.place import Place
from cockpit.records.lease.seat import (
    BarredError,
    CannotAskError,
    Found,
    NoAnswerError,
    Seat,
    UnsureError,
)
from cockpit.records.lease.state import HELD, LeaseState, highest
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
