"""A claim under a run's local output root, which every machine that mounts it sees (SPEC A).

``<output root>/.cockpit/claim.json`` is put there whole, and only if there is none (a link to a
finished file, which also holds on network file systems). One that a dead process of this machine
left is renamed away first; a lock keeps two takers from doing that at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cockpit.model.base import Frozen, Instant
from cockpit.model.clock import Clock
from cockpit.model.lineage import local_root
from cockpit.model.plan import Level
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec
from cockpit.platforms.local.launcher import notes
from cockpit.platforms.local.launcher.notes import (
    follow,
    machine_id,
    make_folder,
    number_of,
    refuse_links,
    settle_folder,
    write_whole,
)
from cockpit.records.lease.holder import halted, lives, this_holder
from cockpit.records.lease.state import not_above
from cockpit.runtime.mounts import missing_disk, nearest
from cockpit.runtime.offload import offload
from cockpit.store.journal import Holder
from cockpit.text.safe import clean

DEADLINE: Final = 10.0
LOCK_WAIT: Final = 5.0
LOOK: Final = 0.01
MOST: Final = 65536


class Written(Frozen):
    """What a claim says; ``nonce`` tells it from every other."""

    holder: Holder
    operator: str
    what: str
    launch_id: str | None = None
    at: Instant
    nonce: str


def new_claim(
    at: Instant, holder: Holder, operator: str | None, launch_id: str | None, what: str
) -> Written:
    """Return a claim that nobody else can have put."""
    return Written(
        holder=holder,
        operator=operator or "unknown",
        what=what,
        launch_id=launch_id,
        at=at,
        nonce=secrets.token_hex(16),
    )


class _BusyError(Exception):
    """Another process is changing the claim at this moment."""


class RootClaim:
    """The guard (``cockpit.actions.core.action.Guard``) under local output roots.

    ``operator`` returns who acts; ``holder`` returns the process that claims.
    """

    def __init__(
        self,
        clock: Clock,
        operator: Callable[[], str | None] = lambda: None,
        holder: Callable[[], Holder] = this_holder,
    ) -> None:
        self._clock = clock
        self._operator = operator
        self._holder = holder
        self._mine: dict[Path, str] = {}
        self._seen: dict[Path, str] = {}
        """The claim that was surveyed, by root: only that one is replaced by ``over``."""

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the claim stands, and the highest launch id noted under the root."""
        return await self._ask(run, self._survey)

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the claim; one of a dead process of this machine is replaced.

        With ``over`` the one that was surveyed is too, unless its holder lives here. Makes the
        output root if the folder above it is there.
        """
        return await self._ask(
            run, lambda run, root: self._take(run, root, launch_id, what, over=over)
        )

    async def still_mine(self, run: RunSpec) -> bool | None:
        """Return whether the claim that was taken stands; ``None`` where it cannot be read."""
        root = _root(run)
        if root is None or root not in self._mine:
            return None
        try:
            written = await offload(_read, root, deadline=DEADLINE)
        except (OSError, TimeoutError, ValueError):
            return None
        return written is not None and written.nonce == self._mine[root]

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        """Remove the claim if it is the one that was taken here."""
        root = _root(run)
        nonce = None if root is None else self._mine.pop(root, None)
        if root is not None and nonce is not None:
            await self._quietly(root, lambda written: written.nonce == nonce)

    async def clear(self, run: RunSpec) -> None:
        """Remove the claim if a dead process of this machine left it."""
        root = _root(run)
        if root is not None:
            await self._quietly(root, lambda written: lives(written.holder) is False)

    async def _quietly(self, root: Path, which: Callable[[Written], bool]) -> None:
        with suppress(OSError, TimeoutError, ValueError, _BusyError):
            await offload(lambda: _remove(root, which), deadline=DEADLINE)

    async def _ask(self, run: RunSpec, work: Callable[[RunSpec, Path], Claim]) -> Claim:
        root = _root(run)
        if root is None:
            where = run.output_root or "not set"
            return _warn(f"the output root ({clean(where, 200)}) is not on this machine")
        try:
            return await offload(lambda: _in_own_folder(work, run, root), deadline=DEADLINE)
        except TimeoutError as error:
            return _warn(f"{root} does not answer: {error}", unanswered=True)
        except _BusyError:
            return Claim(level=Level.BLOCK.value, text=f"the claim under {root} is being changed")
        except OSError as error:
            return _warn(f"no claim can be put under {root}: {error.strerror or error}")
        except ValueError as error:
            text = f"{_file(root)} is no cockpit's claim ({error}): check it, then remove it"
            return Claim(level=Level.BLOCK.value, text=text)

    def _survey(self, run: RunSpec, root: Path) -> Claim:
        highest = _highest(run, root)
        if not os.path.lexists(root) and _can_be_made(root):
            text = f"the output root {root} is free: it is not there yet"
            return Claim(level=Level.PASS.value, text=text)
        if not root.is_dir():
            return _warn(_no_folder(root))
        if not os.access(root, os.W_OK):
            return _warn(f"the output root {root} cannot be written to", highest)
        written = _read(root)
        if written is not None and written.nonce != self._mine.get(root):
            self._seen[root] = written.nonce
            alive = lives(written.holder)
            if alive is not False:
                return held_by(written, alive, highest)
        text = f"the claim under {root} is {'free' if written is None else 'free to take'}"
        by = None if highest is None else _launched_elsewhere(root, highest)
        return Claim(level=Level.PASS.value, text=text, launch_id=highest, launched_by=by)

    def _take(
        self, run: RunSpec, root: Path, launch_id: str | None, what: str, *, over: bool
    ) -> Claim:
        if not root.is_dir():  # never beside a disk that is not mounted
            make_folder(root, parents=_can_be_made(root))
        written = new_claim(self._clock.now(), self._holder(), self._operator(), launch_id, what)
        with _changing(root):
            used = _highest(run, root)
            if not_above(launch_id, used):
                text = f"launch id {launch_id} was given out under {root} already ({used})"
                return Claim(level=Level.BLOCK.value, text=f"{text}; plan again", launch_id=used)
            former = _read(root)
            if former is not None:
                alive = lives(former.holder)
                left = alive is False or former.nonce == self._mine.get(root)
                meant = over and alive is None and former.nonce == self._seen.get(root)
                if not left and not meant:
                    return held_by(former, alive, former.launch_id)
                _set_aside(root, former)
            if not _put(root, written):
                return held_by(_read(root), None, None)
        self._mine[root] = written.nonce
        text = f"claimed under {root}"
        return Claim(level=Level.PASS.value, text=text, launch_id=launch_id, at=written.at)


def _in_own_folder(work: Callable[[RunSpec, Path], Claim], run: RunSpec, root: Path) -> Claim:
    refuse_links(_file(root).parent)
    return work(run, root)


def _root(run: RunSpec) -> Path | None:
    root = local_root(run)
    return None if root is None else Path(root)


def _can_be_made(root: Path) -> bool:
    missing, above = missing_disk(root), nearest(root)
    if missing is not None and missing.sure:
        return False
    return above.is_dir() and os.access(above, os.W_OK | os.X_OK)


def _no_folder(root: Path) -> str:
    """Say what keeps a claim from being put under a root that is not there."""
    missing = missing_disk(root)
    if os.path.lexists(root):
        return f"the output root {root} is not a folder"
    if missing is not None and missing.sure:
        return f"the output root {root} is not there: {missing.text}"
    return f"the output root {root} is not there, and this user may not make it in {nearest(root)}"


def _file(root: Path) -> Path:
    return root / ".cockpit" / "claim.json"


def _read(root: Path) -> Written | None:
    """Return the claim; raises ``OSError``, and ``ValueError`` for what is none of ours."""
    try:
        with _file(root).open("rb") as file:
            text = file.read(MOST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parsed(text)


def parsed(text: bytes) -> Written:
    """Return what the text of a claim says; raises ``ValueError`` for what is none of ours."""
    try:
        return Written.model_validate(json.loads(text))
    except ValidationError as error:
        raise ValueError(f"{error.error_count()} fields are wrong") from error


def text_of(written: Written) -> str:
    """Return a claim as its file holds it."""
    return json.dumps(written.model_dump(mode="python"), indent=1) + "\n"


def _put(root: Path, written: Written) -> bool:
    """Put the claim there whole if there is none; False if somebody else has."""
    place = _file(root)
    fresh = place.with_name(f".claim.{os.getpid()}.{written.nonce[:8]}")
    text = text_of(written)
    try:
        write_whole(fresh, text)
        try:
            place.hardlink_to(fresh)
        except FileExistsError:
            return False
        except OSError:
            if (
                fresh.stat().st_nlink != 2
            ):  # a lost answer of a network file system, or no links at all
                return _put_plainly(place, text)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    settle_folder(place.parent)
    return True


def _put_plainly(place: Path, text: str) -> bool:
    try:
        with place.open("x", encoding="utf-8") as file:
            follow(file.fileno(), place.parent)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    return True


def _set_aside(root: Path, former: Written) -> None:
    """Take away the claim that was read, and no other; raises ``_BusyError`` if it changed."""
    place = _file(root)
    aside = place.with_name(f".claim.{former.nonce[:16]}.old")
    place.rename(aside)
    try:
        moved = Written.model_validate(json.loads(aside.read_bytes()))
        if moved.nonce != former.nonce:
            with suppress(OSError):
                place.hardlink_to(aside)
            raise _BusyError
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def _remove(root: Path, which: Callable[[Written], bool]) -> None:
    written = _read(root)
    if written is None or not which(written):
        return
    with _changing(root):
        written = _read(root)
        if written is not None and which(written):
            _set_aside(root, written)


@contextmanager
def _changing(root: Path) -> Iterator[None]:
    """Hold the lock under which claims change; the kernel lets go when its holder dies.

    Where the file system has no locks, the link and the rename have to do. Raises ``_BusyError``.
    """
    folder = root / ".cockpit"
    make_folder(folder, parents=False)
    place = folder / "claim.lock"
    try:
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        follow(handle, folder)
    except PermissionError:  # another user's: it can be locked all the same
        handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    until = time.monotonic() + LOCK_WAIT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise _BusyError from None
            time.sleep(LOOK)
        except OSError:
            return
        else:
            return


def _highest(run: RunSpec, root: Path) -> str | None:
    try:
        known = notes.launch_ids(root / notes.BELOW)
    except OSError:
        return None
    numbered = [(number, name) for name in known if (number := number_of(run.name, name))]
    return max(numbered, default=(0, None))[1]


def _launched_elsewhere(root: Path, launch_id: str) -> str | None:
    """Return the other machine that runs a launch, as its note says; a dead one's says it too."""
    note = notes.read_note(root / notes.BELOW / launch_id) or {}
    theirs, mine = note.get("machine"), machine_id()
    if note.get("state") not in (notes.STARTING, notes.RUNNING) or None in (theirs, mine):
        return None
    return None if theirs == mine else f"{clean(note.get('host', '?'), 200)} (by its note)"


def held_by(written: Written | None, alive: bool | None, launch_id: str | None) -> Claim:
    """Return the claim of whoever holds it; ``alive`` ``None`` where that cannot be told."""
    if written is None:
        return Claim(level=Level.BLOCK.value, text="another cockpit has just taken the claim")
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
