"""What the cockpit tries and writes in folders of a machine, and the claim under an output root.

What is refused raises ``OSError`` and has changed nothing, unless the function says otherwise.

``<output root>/.cockpit/claim.json`` (SPEC A) is put there whole, and only if there is none (a link
to a finished file, which also holds on network file systems). One that is replaced or removed is
compared first, by its nonce, and renamed away; a lock keeps two from doing that at once. So a swap
whose answer was lost, and that comes late, changes nothing that it did not mean.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cockpit.hosts.agent import CALLS
from cockpit.hosts.own_folder import (
    OWN,
    follow,
    make_folder,
    put_new,
    read_whole,
    refuse_links,
)

FSTAB = "/etc/fstab"
TRIED = 65_536
"""Bytes that are written to see that a file system takes any: a quota is noticed only so."""
TRY = ".cockpit-try-"


def place_of(path: str) -> Path:
    """Return a path of this machine; one that starts at the home is expanded."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - ``~`` of no user stays as it is


def text_of(path: Path, most: int) -> str | None:
    """Return the text of a regular file up to ``most`` bytes, ``None`` where there is none."""
    try:
        return read_whole(path, most).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _refused(error: OSError, path: Path) -> list[str]:
    """Return why something was refused and where, without the name of what was only tried."""
    where = Path(error.filename if isinstance(error.filename, str) else str(path))
    where = where.parent if where.name.startswith(TRY) else where
    return [(error.strerror or str(error) or "it cannot be used").lower(), str(where)]


def try_folder(path: str, file: str = "", append: bool = False) -> dict[str, Any]:
    """Try to write into a folder or, before it exists, to make it; leave it as it was.

    ``file`` in it, if it is there, must be a file that can be appended to (``append``) or replaced.
    Return ``other`` for what is no folder, ``refused`` as ``[why, where]``, and of a folder that is
    not there ``above``, the nearest that is, and ``unmounted``, the mount point it would lie on.
    """
    folder = place_of(path)
    try:
        refuse_links(folder)
        if folder.is_dir():
            _write(folder)
        elif os.path.lexists(folder):
            return {"other": True}
        else:
            above = nearest(folder)
            Path(tempfile.mkdtemp(prefix=TRY, dir=above)).rmdir()
            return {"above": str(above), "unmounted": unmounted(folder)}
        if file:
            _take(place_of(file), append)
    except OSError as error:
        return {"refused": _refused(error, folder)}
    return {}


def _write(folder: Path) -> None:
    handle, name = tempfile.mkstemp(prefix=TRY, dir=folder)
    try:
        os.write(handle, bytes(TRIED))
        os.fsync(handle)
    finally:
        os.close(handle)
        with contextlib.suppress(OSError):
            Path(name).unlink()


def nearest(path: Path) -> Path:
    """Return the nearest that is there of the folders above a path."""
    return next((each for each in path.parents if os.path.lexists(each)), Path("/"))


def unmounted(path: Path) -> str | None:
    """Return the mount point above a path whose disk ``fstab`` names and that is not mounted."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = Path(FSTAB).read_text(encoding="utf-8", errors="replace").splitlines()
    for words in (line.split() for line in lines):
        if len(words) > 1 and not words[0].startswith("#") and words[1].startswith("/"):
            point = Path(words[1].replace("\\040", " "))
            if point in (path, *path.parents) and not os.path.ismount(point):
                return str(point)
    return None


def _take(path: Path, append: bool) -> None:
    """See that a file that is there can be appended to, or replaced."""
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise IsADirectoryError(21, "is a directory", str(path))
    if append:
        if not path.is_fifo():
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK))
        return
    above = path.parent.stat()
    owners = (0, path.lstat().st_uid, above.st_uid)
    if above.st_mode & stat.S_ISVTX and os.geteuid() not in owners:
        raise PermissionError(1, "only its owner may replace it", str(path))


def room(path: str) -> dict[str, Any]:
    """Return what the disk of a path, or of its nearest parent folder, has left for this user.

    ``free`` bytes and ``files``; each is ``None`` where the disk does not count them. ``there`` is
    the folder.
    """
    place = place_of(path)
    there = next((each for each in (place, *place.parents) if each.is_dir()), Path("/"))
    disk, root = os.statvfs(there), os.geteuid() == 0
    free = disk.f_frsize * (disk.f_bfree if root else disk.f_bavail)
    return {
        "there": str(there),
        "free": free if disk.f_blocks else None,
        "files": (disk.f_ffree if root else disk.f_favail) if disk.f_files else None,
    }


def why_not_begun(workdir: str, program: str, script: str = "") -> list[Any] | None:
    """Return why a command cannot begin: what is missing, and whether that is a file.

    What is missing is ``workdir``, ``enter`` (the workdir is closed), ``program`` or ``script``.
    A ``program`` with a variable in it is not looked for.
    """
    folder = place_of(workdir)
    if not folder.is_dir():
        return ["workdir", False]
    if not os.access(folder, os.X_OK):
        return ["enter", False]
    known = "$" not in program
    found = str(place_of(program)) if program.startswith("~") else program
    found = str(folder / found) if "/" in found else found
    if known and shutil.which(found) is None:
        return ["program", "/" in found and Path(found).is_file()]
    if known and script and not (folder / script).exists():
        return ["script", False]
    return None


def missing_for_launcher() -> str | None:
    """Return what a launch needs and this machine has not."""
    return None if os.access("/proc/self/stat", os.R_OK) else "/proc"


def why_unreadable(path: str, most: int) -> list[str] | None:
    """Return why a file, or one of the first files of a folder, cannot be read: ``[why, where]``.

    A link that leads nowhere is no file.
    """
    origin = place_of(path)
    try:
        for file in [origin] if origin.is_file() else _some_files(origin, most):
            with file.open("rb") as opened:
                opened.read(1)
    except OSError as error:
        return _refused(error, origin)
    return None


def _some_files(folder: Path, most: int) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error

    for where, _, names in os.walk(folder, onerror=fail):
        for path in (Path(where, name) for name in names):
            if path.is_file():
                yield path
                most -= 1
            if not most:
                return


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
        disk, above = unmounted(folder), nearest(folder)
        if disk is not None:
            return {"trouble": f"is not there: the disk at {disk} is not mounted"}
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            return {"trouble": f"is not there, and this user may not make it in {above}"}
        return {"missing": True}
    if not folder.is_dir() or not os.access(folder, os.X_OK):
        return {"trouble": "cannot be entered, or is not a folder"}
    try:
        refuse_links(own / LAUNCHES)
        names, text = _launches(own, run), text_of(own / CLAIM, MOST)
    except PermissionError as error:
        where = Path(str(error.filename)).relative_to(folder)
        return {"unreadable": str(where)}
    return {"launches": names, "text": text, "closed": not os.access(folder, os.W_OK)}


def _launches(own: Path, run: str) -> list[str]:
    try:
        names = os.listdir(own / LAUNCHES)  # noqa: PTH208 - names alone
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if name.startswith(f"{run}-i"))


def _nonce(path: Path) -> str | None:
    """Return the nonce of a claim: empty where there is none, ``None`` for what is no claim."""
    text = text_of(path, MOST)
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


for _each in (
    try_folder, room, why_not_begun, missing_for_launcher, why_unreadable, read_claim, swap_claim,
):  # fmt: skip
    CALLS[_each.__name__] = _each
