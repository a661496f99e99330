"""The claim under an output root: read and swapped on the machine that the root lies on (SPEC A).

``<output root>/.cockpit/claim.json`` is put there whole, and only if there is none (a link to a
finished file, which also holds on network file systems). One that is replaced or removed is
compared first, by its nonce, and renamed away; a lock keeps two from doing that at once. So a swap
whose answer was lost, and that comes late, changes nothing that it did not mean.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cockpit.hosts.agent import CALLS
from cockpit.hosts.folders import nearest, place_of, unmounted
from cockpit.hosts.own_folder import (
    OWN,
    follow,
    make_folder,
    put_new,
    read_whole,
    refuse_links,
)

CLAIM = "claim.json"
LAUNCHES = "launches"
LOCK = "claim.lock"
LOCK_WAIT = 5.0
LOOK = 0.01
MOST = 65_536
"""Bytes of a claim that are read."""


def read_claim(root: str, run: str) -> dict[str, Any]:
    """Return how the claim under a root stands, and the names of a run's launches noted there.

    ``trouble`` is why none can be read or put, ``missing`` that the root can be made, ``text`` the
    claim's. A root that cannot be written to is ``closed``; what it holds is told all the same.
    """
    folder = place_of(root)
    own = folder / OWN
    if not os.path.lexists(folder):
        return _of_missing(folder)
    if not folder.is_dir() or not os.access(folder, os.X_OK):
        return {"trouble": "cannot be entered, or is not a folder"}
    try:
        refuse_links(own / LAUNCHES)
        names, text = _launches(own, run), _text(own / CLAIM)
    except PermissionError as error:
        where = Path(str(error.filename)).relative_to(folder)
        return {"unreadable": str(where)}
    return {"launches": names, "text": text, "closed": not os.access(folder, os.W_OK)}


def _of_missing(folder: Path) -> dict[str, Any]:
    disk, above = unmounted(folder), nearest(folder)
    if disk is not None:
        return {"trouble": f"is not there: the disk at {disk} is not mounted"}
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        return {"trouble": f"is not there, and this user may not make it in {above}"}
    return {"missing": True}


def _launches(own: Path, run: str) -> list[str]:
    try:
        names = os.listdir(own / LAUNCHES)  # noqa: PTH208 - names alone
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if name.startswith(f"{run}-i"))


def _text(path: Path) -> str | None:
    try:
        return read_whole(path, MOST).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _nonce(path: Path) -> str | None:
    """Return the nonce of a claim: empty where there is none, ``None`` for what is no claim."""
    text = _text(path)
    try:
        return "" if text is None else str(json.loads(text)["nonce"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def swap_claim(
    root: str, run: str, expected: str, nonce: str, text: str, launches: list[str]
) -> str:
    """Put a claim in the place of the one with the nonce ``expected`` (empty: of none).

    An empty ``nonce`` removes it. A claim is put only while the run's launches that are noted there
    are still ``launches``. Return ``mine``, ``gone``, ``changed`` or ``busy`` (another holds the
    lock). Makes the root.
    """
    folder = place_of(root)
    own = folder / OWN
    refuse_links(own)
    if not nonce and not own.is_dir():
        return "gone"
    disk = None if folder.is_dir() else unmounted(folder)
    if disk is not None:  # never beside a disk that is not mounted
        raise FileNotFoundError(errno.ENOENT, f"the disk at {disk} is not mounted", str(folder))
    make_folder(folder)
    make_folder(own, parents=False)
    with _locked(own) as locked:
        held = _nonce(own / CLAIM)
        if nonce and held == nonce:
            return "mine"
        if not locked:
            return "busy"
        if held != expected or (nonce and _launches(own, run) != launches):
            return "changed"
        if expected and not _set_aside(own / CLAIM, expected):
            return "changed"
        if not nonce:
            return "gone"
        return "mine" if put_new(own / CLAIM, text) else "changed"


@contextlib.contextmanager
def _locked(own: Path) -> Iterator[bool]:
    """Hold the lock under which claims change; the kernel lets go when its holder dies.

    Where the file system has no locks, the link and the rename have to do.
    """
    place = own / LOCK
    try:
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        follow(handle, own)
    except PermissionError:  # another user's: it can be locked all the same
        handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    until = time.monotonic() + LOCK_WAIT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK)
        except OSError:
            return True
        else:
            return True


def _set_aside(place: Path, expected: str) -> bool:
    """Take away the claim with this nonce, and no other."""
    aside = place.with_name(f".claim.{expected[:16]}.old")
    try:
        place.rename(aside)
    except FileNotFoundError:
        return False
    try:
        if _nonce(aside) == expected:
            return True
        with contextlib.suppress(OSError):
            os.link(aside, place)
        return False
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()


for _each in (read_claim, swap_claim):
    CALLS[_each.__name__] = _each
