"""What a path leads to: its mount, the machines that share it, and whether it is a regular file."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.text.safe import clean

OWN: Final = ("localhost", "localhost.localdomain", "[::1]", "::1")
"""A server of these names is each machine's own."""
HOLDS_DISKS: Final = ("/", "/mnt", "/media", "/run/media", "/net", "/Volumes")
"""Folders whose subfolders are disks: of what is missing there nobody can tell what it was."""


def holds_disks(folder: str) -> bool:
    """Tell of a folder whose subfolders are disks: what is missing there may be one."""
    return folder in HOLDS_DISKS or str(Path(folder).parent) in ("/media", "/run/media")


def shared_source(source: str) -> str | None:
    """Return what a network file system is mounted from; ``None`` for a disk of one machine.

    NFS and Lustre name ``server:/export``, CIFS ``//server/share``: on every machine the same.
    """
    server, sign, path = source.partition(":/")
    if source.startswith("//"):
        server, path = source[2:].partition("/")[::2]
    elif not sign:
        return None
    own = server.lower() in OWN or server.startswith(("/", "127."))
    return None if own or not server or not (path or sign) else source


PROC: Final = Path("/proc/self")
LOCAL: Final = frozenset(
    {
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "jfs", "nilfs2", "reiserfs"),
        *("zfs", "ufs", "hfs", "apfs", "tmpfs", "ramfs", "overlay", "aufs", "squashfs", "erofs"),
        *("iso9660", "udf", "vfat", "exfat", "msdos", "ntfs", "ntfs3", "fuseblk"),
    }
)
"""Types that one kernel alone writes to; of any other it is not known, so it counts as shared."""
NETWORK: Final = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph"),
        *("afs", "coda", "9p", "virtiofs", "gfs2", "ocfs2", "orangefs", "pvfs2", "panfs", "wekafs"),
        *("webdav", "ncpfs", "vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "fuse.sshfs", "fuse.ceph"),
        *("fuse.glusterfs", "fuse.juicefs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.nfs"),
    }
)


class FileSystem(NamedTuple):
    """What a folder lies on. ``shared`` is ``None`` where that is unknown (treated as shared)."""

    kind: str
    shared: bool | None

    @property
    def text(self) -> str:
        """``nfs4, a network file system``."""
        if self.shared is None:
            return f"{self.kind}: whether other machines see it cannot be told"
        return f"{self.kind}, {'a network file system' if self.shared else 'of this machine'}"


def file_system(path: Path, proc: Path = PROC) -> FileSystem:
    """Return what ``path``, or the nearest folder above it that is there, lies on."""
    path = path.absolute()
    there = next((each for each in (path, *path.parents) if each.exists()), Path("/"))
    found = _from_kernel(there, proc) if sys.platform == "linux" else None
    if found is not None:
        return found
    if sys.platform == "darwin":
        return _from_mount(there)
    return FileSystem("an unknown file system", None)


def judged(kind: str) -> FileSystem:
    """Return what a type's name tells."""
    known = False if kind in LOCAL else True if kind in NETWORK else None
    return FileSystem(clean(kind, 40), known)


def _from_kernel(path: Path, proc: Path) -> FileSystem | None:
    """Return the very mount that the kernel opens ``path`` on."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            info = (proc / "fdinfo" / str(handle)).read_text(encoding="ascii")
        finally:
            os.close(handle)
        number = re.search(r"^mnt_id:\s*(\d+)$", info, re.MULTILINE)
        lines = (proc / "mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):
        return None
    for line in lines:
        before, dash, after = line.partition(" - ")
        if number is not None and dash and before.split(" ", 1)[0] == number[1]:
            return judged(after.split(" ", 1)[0])
    return None


def _from_mount(path: Path) -> FileSystem:
    """Ask ``mount`` (macOS): ``/dev/disk1 on /Users (apfs, local, journaled)``."""
    from cockpit.runtime.shell import run_blocking  # where /proc tells, nothing is run

    lines = run_blocking(["/sbin/mount"], deadline=5.0, reads=True).text.splitlines()
    found = [re.match(r".* on (/.*?) \(([^,)]+)(.*)\)$", line) for line in lines]
    points = [(Path(each[1]), each[2], each[3]) for each in found if each is not None]
    over = [each for each in points if path.resolve().is_relative_to(each[0])]
    if not over:
        return FileSystem("an unknown file system", None)
    _, kind, options = max(over, key=lambda each: len(each[0].parts))
    return FileSystem(clean(kind, 40), "local" not in options.split(", "))


TEXT_SIZE: Final = 4 << 20
"""Bytes that are read at each end of a text."""


@contextmanager
def open_regular(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open ``path`` for reading as (descriptor, status); refuse all but regular files.

    A pipe would block and a device has no end. Raises ``OSError`` with ``strerror`` set.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(0, "not a regular file", path) from None
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file", path)
        yield fd, status
    finally:
        os.close(fd)


def is_folder(path: str | Path) -> bool:
    """Tell whether ``path`` is a folder; not being able to tell is a no."""
    try:
        return Path(path).is_dir()
    except OSError:
        return False


def is_there(path: str | Path) -> bool:
    """Tell whether ``path`` exists; not being able to tell is a no."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def read_text(path: Path) -> str:
    """Return a logbook's text; of a huge one its two ends (newest may be first or last).

    Blocking; raises ``OSError``.
    """
    with open_regular(str(path)) as (fd, found), open(fd, "rb", closefd=False) as file:
        head = file.read(TEXT_SIZE)
        file.seek(max(TEXT_SIZE, found.st_size - TEXT_SIZE))
        return (head + file.read(TEXT_SIZE)).decode("utf-8", "replace")


def check_regular(path: Path) -> None:
    """Raise ``OSError`` (``strerror`` says why) if something lies at ``path`` that is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, a socket or a device"
        raise OSError(errno.EINVAL, f"is {what}; expected a file", str(path))
