"""What the kernel says of a process's start, and files that are whole or not there at all.

Standard library only: the supervisor of a job loads this, and must start fast anywhere.
"""

from __future__ import annotations

import os
import time
import zlib
from contextlib import suppress
from pathlib import Path

from cockpit.platforms.local.launcher.modes import follow

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
        return str(PID_SPACE.readlink())
    except OSError:
        return None


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` so that a reader sees the former file or the whole new one, and it lasts.

    Raises ``OSError`` (a full disk, say); then the former file is still there.
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        write_whole(fresh, text)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    settle_folder(path.parent)


def write_whole(path: Path, text: str) -> None:
    """Write a file of our own and have the disk take it; raises ``OSError``."""
    with path.open("w", encoding="utf-8") as file:
        follow(file.fileno(), path.parent)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def settle_folder(folder: Path) -> None:
    """Have the disk take a folder's names; a file system that cannot is left at that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def exit_status(returncode: int) -> int:
    """Return Python's return code as a shell tells it: 128 + n for signal n."""
    return 128 - returncode if returncode < 0 else returncode


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
