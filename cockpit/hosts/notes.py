"""The files of a launch: its notes, its locks, and how they are written (SPEC A, at most once).

Each launch id starts at most one job, ever. In ``<output root>/.cockpit/launches`` (beside the pid
file where the root is not local) lie:

* ``<launch id>.intent``: written by whoever is about to start a supervisor;
* ``<launch id>``: made by the supervisor, whole and only if there is none, before it starts the
  command. Whoever finds it there must not start anything under this id. It then says how the
  job fares, in lines ``key=value``: ``state`` is one of the words below.

The locks are held by the kernel for as long as anything of a job lives. A supervisor takes them
before it starts anything and hands the descriptors on to the command: the kernel lets go when the
last process that has one is gone, whoever was killed and however.

Standard library only, Python 3.8 and newer: it is sent along with the agent, and the supervisor of
a job loads it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cockpit.hosts.own_folder import (
    follow,
    make_folder,
    put_new,
    read_whole,
    refuse_links,
    settle_folder,
    write_atomically,
)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MACHINE_ID = Path("/etc/machine-id")
PID_SPACE = Path("/proc/self/ns/pid")
RETRIES, RETRY_AFTER = 20, 0.5
"""How often, and after how many seconds, a status that cannot be written is tried again."""
ROOM = 16
GUARD = 64


def started_at(pid: int) -> float | None:
    """Return when ``pid`` started (epoch seconds), or ``None`` where the kernel does not say."""
    ticks = start_ticks(pid)
    try:
        lines = Path("/proc/stat").read_bytes().splitlines()
    except OSError:
        return None
    boot = next(float(line.split()[1]) for line in lines if line.startswith(b"btime "))
    return None if ticks is None else boot + ticks / os.sysconf("SC_CLK_TCK")


def start_ticks(pid: int) -> int | None:
    """Return when ``pid`` started in ticks since boot, ``None`` where the kernel does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[19])


def boot_id() -> str | None:
    """Return what tells this boot of the machine from every other, where the kernel says."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def machine_id() -> str | None:
    """Return what tells this machine from every other, also after a restart, where it is told."""
    try:
        return MACHINE_ID.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def pid_space() -> str | None:
    """Return which process ids ours are, where the kernel says: a container counts its own."""
    try:
        return os.readlink(PID_SPACE)  # noqa: PTH115 - Python 3.8 has no other
    except OSError:
        return None


def exit_status(status: int) -> int:
    """Return what ``waitpid`` says as a shell tells it: 128 + n for signal n."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class Status:
    """The exit file, for which room is taken while there is some: a full disk cannot stop it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._handle = os.open(self._fresh, flags, 0o644)
        follow(self._handle, path.parent)
        try:
            os.pwrite(self._handle, b" " * (ROOM - 1) + b"\n", 0)
            os.fsync(self._handle)
        except OSError:
            self.drop()
            raise

    def drop(self) -> None:
        """Give the room back; nothing is written."""
        os.close(self._handle)
        with suppress(OSError):
            self._fresh.unlink()

    def write(self, status: int) -> None:
        """Put the status where it is looked for; tries for a while."""
        for _ in range(RETRIES):
            try:
                length = os.pwrite(self._handle, f"{status}\n".encode(), 0)
                os.ftruncate(self._handle, length)
                os.fsync(self._handle)
                self._fresh.replace(self._path)
                break
            except OSError:
                time.sleep(RETRY_AFTER)
        settle_folder(self._path.parent)


def end_mark(path: Path) -> tuple[int, int, int] | None:
    """Return inode, size and checksum of a log's end, where a job's lines will begin.

    The checksum is of the last ``GUARD`` bytes: it tells the place again after a rotation
    (``cockpit.sources.logs.present``). ``None`` if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            start = max(0, status.st_size - GUARD)
            before = os.pread(file.fileno(), status.st_size - start, start)
    except OSError:
        return None
    return status.st_ino, status.st_size, zlib.crc32(before)


STARTING = "starting"
"""The id is used; the command has not begun, and cannot unless this supervisor lets it."""
RUNNING = "running"
"""The command was let go: ``pid``, ``ticks`` and ``boot`` say which process it is."""
ENDED = "ended"
FAILED = "failed"
"""The command could not be started: nothing ran."""
CLOSED = "closed"
"""Nothing had been started under this id, and a look-up has made sure that nothing will be."""
INTENT = ".intent"
BELOW = Path(".cockpit", "launches")
MOST = 4096


_OF_ANY_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-i\d{3,6}")


def launch_id_in(words: Iterable[str]) -> str | None:
    """Return the first word that is a launch id, of whatever run."""
    return next((word for word in words if _OF_ANY_RUN.fullmatch(word)), None)


def launches_folder(output_root: Path | None, pid_file: Path) -> Path:
    """Return where a run's launches are noted."""
    return (pid_file.parent if output_root is None else output_root) / BELOW


def note_intent(folder: Path, launch_id: str, fields: Mapping[str, object]) -> None:
    """Note that a launch is about to be made; raises ``OSError``, then it must not be made."""
    make_folder(folder)
    write_atomically(folder / f"{launch_id}{INTENT}", _text(fields))


def claim_launch(folder: Path, launch_id: str, fields: Mapping[str, object]) -> Path:
    """Use a launch id up and return its file.

    Raises ``FileExistsError`` if it was used before, another ``OSError`` if it cannot be noted.
    """
    make_folder(folder)
    path = folder / launch_id
    if not put_new(path, _text(fields)):
        raise FileExistsError(errno.EEXIST, "it was used before", str(path))
    return path


def write_note(path: Path, fields: Mapping[str, object]) -> None:
    """Write what is known now; raises ``OSError``, then the former note stands."""
    write_atomically(path, _text(fields))


def read_note(path: Path) -> dict[str, str] | None:
    """Return what a note says, ``None`` if there is none; raises ``OSError``.

    A note that is there and says nothing (the disk was full) counts as ``starting``.
    """
    try:
        text = read_whole(path, MOST).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parsed_note(text)


def parsed_note(text: str) -> dict[str, str]:
    """Return what the text of a note says, by key."""
    return {"state": STARTING, **dict(li.split("=", 1) for li in text.splitlines() if "=" in li)}


def launch_ids(folder: Path) -> set[str]:
    """Return every launch id that was ever meant or used; raises ``OSError``."""
    try:
        names = [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {
        name[: -len(INTENT)] if name.endswith(INTENT) else name
        for name in names
        if not name.startswith(".")
    }


def _text(fields: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in fields.items() if value is not None)


def number_of(run: str, text: str) -> int | None:
    """Return the number in a launch id of this run, ``None`` for anything else."""
    match = re.fullmatch(re.escape(run) + r"-i(\d{1,6})", text.strip())
    return None if match is None else int(match[1])


def next_launch_id(run: str, known: Iterable[str]) -> str:
    """Return the first launch id above all that are known."""
    numbers = (number for text in known if (number := number_of(run, text)) is not None)
    return f"{run}-i{max(numbers, default=0) + 1:03d}"


UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""What a file system says that has no locks."""
JOB_LOCK = Path(".cockpit", "job.lock")
"""Below an output root: locked while a job writes there."""


class LockError(Exception):
    """A lock could not be taken; the message is one line that says why."""


class HeldError(LockError):
    """A lock is held: something of another job of this lineage lives."""


def take_locks(paths: Sequence[Path]) -> list[int]:
    """Lock every file and return the descriptors; all or none, in one order for everybody.

    Raises ``HeldError`` naming who holds one, ``LockError`` if none can be locked at all.
    """
    taken: list[int] = []
    why = ""
    try:
        for path in sorted(set(paths)):
            try:
                taken.append(_lock(path))
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise LockError(f"cannot lock {path}: {error.strerror}") from error
                why = f"{path}: {error.strerror}"
        if paths and not taken:
            raise LockError(f"no lock can be held here ({why})")
    except LockError:
        release_locks(taken)
        raise
    return taken


def try_open(paths: Iterable[Path]) -> None:
    """See that each lock could be opened, taking none; raises ``OSError``.

    Not locked for a moment either: whoever starts a job just then would find it held.
    """
    for path in paths:
        refuse_links(path)
        if os.path.lexists(path):
            os.close(_open_lock(path))
            if not stat.S_ISREG(path.lstat().st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))


def release_locks(handles: Iterable[int]) -> None:
    """Let go of locks that were taken; others who were handed them hold on."""
    for handle in handles:
        os.close(handle)


def _lock(path: Path) -> int:
    """Return a locked descriptor of ``path``; raises ``HeldError`` or ``OSError``."""
    make_folder(path.parent)
    while True:
        handle = _open_lock(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(handle)):
                    return handle
        except BlockingIOError:
            text = held_by(path, handle)
            os.close(handle)
            raise HeldError(text) from None
        except OSError:
            os.close(handle)
            raise
        os.close(handle)  # removed by somebody between opening and locking: take the new one


def _open_lock(path: Path) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT | os.O_NONBLOCK
    try:
        handle = os.open(path, os.O_RDWR | flags, 0o644)
    except PermissionError:  # another user's: it can be locked all the same
        return os.open(path, os.O_RDONLY | flags & ~os.O_CREAT)
    follow(handle, path.parent)
    return handle


def describe(handles: Iterable[int], text: str) -> None:
    """Write into the locks who holds them, for people; the lock does not depend on it."""
    for handle in handles:
        with suppress(OSError):
            os.pwrite(handle, text.encode(), 0)
            os.ftruncate(handle, len(text.encode()))


def held_by(path: Path, handle: int) -> str:
    """Return one line about who holds ``path``, from its text and the process table."""
    with suppress(OSError):
        written = os.pread(handle, 500, 0).decode("utf-8", "replace").split("\n")
        told = dict(line.split("=", 1) for line in written if "=" in line)
        name = told.get("launch_id")
    launch = "" if not name else f" of {name}"
    pids = holders(path)
    who = ", ".join(f"pid {pid} ({_name(pid)})" for pid in pids[:5]) or "a process out of sight"
    return f"{path} is locked: something of a job{launch} still lives: {who}"


def holders(path: Path) -> list[int]:
    """Return the processes, ours apart, that have ``path`` open, as far as we may look."""
    real = os.path.realpath(path)
    pids = (int(name) for name in _names(Path("/proc")) if name.isdigit())
    return [pid for pid in sorted(pids) if pid != os.getpid() and _has_open(pid, real)]


def _has_open(pid: int, real: str) -> bool:
    folder = Path(f"/proc/{pid}/fd")
    for name in _names(folder):
        with suppress(OSError):
            if os.readlink(folder / name) == real:  # noqa: PTH115
                return True
    return False


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?"
    return "".join(char for char in text.strip() if char.isprintable())
