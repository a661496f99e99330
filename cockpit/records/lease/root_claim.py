"""A claim under a run's output root, which every machine that reaches it sees (SPEC A).

On this machine or on an ssh host: ``cockpit.hosts.claims`` reads and swaps it there. What has
become of a swap whose answer was lost is told by the nonce that is read back.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from cockpit.hosts import notes
from cockpit.hosts.here import call, host_of
from cockpit.hosts.link import NoPythonError
from cockpit.hosts.notes import INTENT, machine_id, number_of
from cockpit.model.base import Frozen, Instant
from cockpit.model.clock import Clock
from cockpit.model.place import SSH, Place
from cockpit.model.plan import Level
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec
from cockpit.records.lease.state import blocking, halted, lives, not_above, passing, this_holder
from cockpit.runtime.offload import offload
from cockpit.runtime.ssh import RemoteError
from cockpit.store.journal import Holder
from cockpit.text.safe import clean

DEADLINE: Final = 15.0


class Written(Frozen):
    """What a claim says; ``nonce`` tells it from every other."""

    holder: Holder
    operator: str
    what: str
    launch_id: str | None = None
    at: Instant
    nonce: str


class Root(NamedTuple):
    """How a root stands: ``trouble`` is why no claim can be put there."""

    written: Written | None = None
    launches: tuple[str, ...] = ()
    highest: str | None = None
    trouble: str | None = None
    missing: bool = False


class RootClaim:
    """The guard (``cockpit.actions.core.action.Guard``) under output roots of machines.

    ``operator`` returns who acts; ``holder`` returns the process that claims; ``do`` is
    ``cockpit.hosts.here.call``.
    """

    def __init__(
        self,
        clock: Clock,
        operator: Callable[[], str | None] = lambda: None,
        holder: Callable[[], Holder] = this_holder,
        do: Callable[..., Awaitable[Any]] = call,
    ) -> None:
        self._clock = clock
        self._operator = operator
        self._holder = holder
        self._do = do
        self._mine: dict[Place, str] = {}
        self._seen: dict[Place, str] = {}
        """The claim that was surveyed, by root: only that one is replaced by ``over``."""
        self._lost: set[str] = set()
        """Claims of ours of which nobody has told whether they were put: they may come late."""

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the claim stands, and the highest launch id noted under the root."""
        root = _root(run)
        if root is None:
            return _warn(f"the output root ({_where(run)}) is not on this machine or an ssh host")
        found = await self._read(run, root)
        if isinstance(found, Claim):
            return found
        if found.missing:
            return passing(f"the output root {root} is free: it is not there yet")
        if found.trouble is not None:
            return _warn(found.trouble, found.highest)
        written = found.written
        if written is not None and not self._is_ours(root, written):
            self._seen[root] = written.nonce
            alive = lives(written.holder)
            if alive is not False:
                return held_by(written, alive, found.highest)
        text = f"the claim under {root} is {'free' if written is None else 'free to take'}"
        by = await _launched_elsewhere(root, found.highest)
        return passing(text, found.highest).model_copy(update={"launched_by": by})

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the claim; one of a dead process of this machine is replaced.

        With ``over`` the one that was surveyed is too, unless its holder lives here. Makes the
        output root.
        """
        root = _root(run)
        if root is None:
            return await self.survey(run)
        found = await self._read(run, root)
        if isinstance(found, Claim):
            return found
        if found.trouble is not None:
            return _warn(found.trouble, found.highest)
        if not_above(launch_id, found.highest):
            text = f"launch id {launch_id} was given out under {root} already ({found.highest})"
            return blocking(f"{text}; plan again", found.highest)
        former = found.written
        if former is not None:
            alive = lives(former.holder)
            left = alive is False or self._is_ours(root, former)
            meant = over and alive is None and former.nonce == self._seen.get(root)
            if not left and not meant:
                return held_by(former, alive, former.launch_id)
        written = Written(
            holder=self._holder(),
            operator=self._operator() or "unknown",
            what=what,
            launch_id=launch_id,
            at=self._clock.now(),
            nonce=secrets.token_hex(16),
        )
        return await self._put(run, root, found, written)

    def _is_ours(self, root: Place, written: Written) -> bool:
        return written.nonce == self._mine.get(root) or written.nonce in self._lost

    async def _put(self, run: RunSpec, root: Place, found: Root, written: Written) -> Claim:
        """Put a claim in the place of what was read; read back after a lost answer."""
        try:
            said = await self._swap(run, root, found, written)
        except OSError as error:
            return _warn(f"no claim can be put under {root}: {_why(error)}")
        except RemoteError as error:
            if not error.sent:
                return _warn(str(error), unanswered=True)
            now = await self._read(run, root)
            there = None if isinstance(now, Claim) else now.written
            if there is None or there.nonce != written.nonce:
                self._lost.add(written.nonce)
                text = f"cannot tell whether the claim under {root} was taken: {error}"
                return blocking(f"{text}; plan again", written.launch_id)
            said = "mine"
        if said == "mine":
            self._mine[root] = written.nonce
            taken = passing(f"claimed under {root}", written.launch_id)
            return taken.model_copy(update={"at": written.at})
        if said == "busy":
            return blocking(f"the claim under {root} is being changed")
        now = await self._read(run, root)
        return held_by(None if isinstance(now, Claim) else now.written, None, None)

    async def still_mine(self, run: RunSpec) -> bool | None:
        """Return whether the claim that was taken stands; ``None`` where it cannot be read."""
        root = _root(run)
        if root is None or root not in self._mine:
            return None
        found = await self._read(run, root)
        if isinstance(found, Claim) or found.trouble is not None:
            return None
        return found.written is not None and found.written.nonce == self._mine[root]

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        """Remove the claim if it is the one that was taken here."""
        root = _root(run)
        nonce = None if root is None else self._mine.pop(root, None)
        if root is not None and nonce is not None:
            await self._remove(run, root, lambda written: written.nonce == nonce)

    async def clear(self, run: RunSpec) -> None:
        """Remove the claim if a dead process of this machine left it."""
        root = _root(run)
        if root is not None:
            await self._remove(run, root, lambda written: lives(written.holder) is False)

    async def _remove(self, run: RunSpec, root: Place, which: Callable[[Written], bool]) -> None:
        found = await self._read(run, root)
        if isinstance(found, Claim) or found.written is None or not which(found.written):
            return
        try:
            await self._swap(run, root, found, None)
        except (OSError, RemoteError):
            return  # it is a dead process's soon, and free to take

    async def _read(self, run: RunSpec, root: Place) -> Root | Claim:
        """Return how the root stands, or why that is not known."""
        what = f"the claim under {root.path}"
        try:
            said = await self._do(
                host_of(root), what, "read_claim", root=root.path, run=run.name, deadline=DEADLINE
            )
        except RemoteError as error:
            text = f"the claim under {root} cannot be read: {error}"
            never = isinstance(error, NoPythonError)  # else it may be reached later
            return blocking(text) if never else _warn(text, unanswered=True)
        except OSError as error:
            return _warn(f"no claim can be put under {root}: {_why(error)}")
        if "missing" in said:
            return Root(missing=True)
        if "trouble" in said:
            return Root(trouble=f"the output root {root} {clean(said['trouble'], 300)}")
        if "unreadable" in said:
            where = clean(said["unreadable"], 200)
            text = f"cannot tell whether {root} is claimed: this user cannot read {where} there"
            return Root(trouble=text)
        try:
            written = None if said["text"] is None else parsed(said["text"])
        except ValueError as error:
            where = f"{root}/.cockpit/claim.json"
            return blocking(f"{where} is no cockpit's claim ({error}): check it, then remove it")
        names = tuple(said["launches"])
        trouble = f"the output root {root} cannot be written to" if said["closed"] else None
        return Root(written, names, _highest(run, names), trouble)

    async def _swap(self, run: RunSpec, root: Place, found: Root, written: Written | None) -> str:
        """Put a claim (``None``: nothing) in the place of the one that was found."""
        said: str = await self._do(
            host_of(root), f"the claim under {root.path}", "swap_claim", deadline=DEADLINE,
            root=root.path, run=run.name, launches=found.launches,
            expected="" if found.written is None else found.written.nonce,
            nonce="" if written is None else written.nonce,
            text="" if written is None else text_of(written),
        )  # fmt: skip
        return said


def _root(run: RunSpec) -> Place | None:
    root = None if run.output_root is None else run.output_root.normal()
    return root if root is not None and (root.here or root.scheme == SSH) else None


def _where(run: RunSpec) -> str:
    return clean(run.output_root or "not set", 200)


def _why(error: OSError) -> str:
    return clean(error.strerror or error, 300)


def parsed(text: str) -> Written:
    """Return what the text of a claim says; raises ``ValueError`` for what is none of ours."""
    try:
        return Written.model_validate(json.loads(text))
    except ValidationError as error:
        raise ValueError(f"{error.error_count()} fields are wrong") from error


def text_of(written: Written) -> str:
    """Return a claim as its file holds it."""
    return json.dumps(written.model_dump(mode="python"), indent=1) + "\n"


def _highest(run: RunSpec, names: tuple[str, ...]) -> str | None:
    ids = {name.removesuffix(INTENT) for name in names}
    numbered = [(number, name) for name in ids if (number := number_of(run.name, name))]
    return max(numbered, default=(0, None))[1]


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


def held_by(written: Written | None, alive: bool | None, launch_id: str | None) -> Claim:
    """Return the claim of whoever holds it; ``alive`` ``None`` where that is not known."""
    if written is None:
        return blocking("another cockpit has just taken the claim")
    when = datetime.fromtimestamp(written.at, tz=UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    who, what = clean(written.operator, 80), clean(written.what, 40)
    where = clean(written.holder.label, 200)
    unsure = "; cannot tell from here whether it still runs"
    if alive:
        unsure = f"; it lives on this machine: wait for it, or end it first{halted(written.holder)}"
    return Claim(
        level=Level.BLOCK.value,
        text=f"{what} by {who} ({where}) in progress since {when}{unsure}",
        holder=f"{who}, {where}",
        launch_id=launch_id,
        at=written.at,
        living=bool(alive),
    )


def _warn(text: str, launch_id: str | None = None, *, unanswered: bool = False) -> Claim:
    return Claim(level=Level.WARN.value, text=text, launch_id=launch_id, unanswered=unanswered)
