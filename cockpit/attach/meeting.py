"""Where an engine and its windows meet: a Unix socket of this user's own, and connections to it.

The socket's path is the one truth of who serves: a new engine puts its own there by renaming,
which is atomic, and one that no longer finds its own there has been replaced. Whoever stands
behind a connection is told by the kernel, also while that process hangs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import struct
import time
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.attach.wire import build
from cockpit.config.file import state_dir
from cockpit.runtime.account import MachineFolderError, machine_folder, scratch_folder
from cockpit.runtime.process import process_facts

BACKLOG: Final = 64
LOOK_EVERY: Final = 0.05
_LONGEST: Final = 100
"""Bytes that a socket's path may have (107 on Linux, 103 on macOS)."""
_CREDENTIALS: Final = struct.Struct("3i")


class MeetingError(Exception):
    """There is no place to meet, or nobody can be met there; one line says why."""


class Peer(NamedTuple):
    """The process behind a connection; its start in ticks tells it from a later one."""

    pid: int
    ticks: int | None


class Meeting(NamedTuple):
    """The place of one run file, one store and one build on this machine."""

    folder: Path
    name: str
    run_file: str
    """Its real path: engine and window compare it."""

    @property
    def socket(self) -> Path:
        """Where the engine that serves is reached."""
        return self.folder / f"{self.name}.sock"

    @property
    def lock(self) -> Path:
        """What an engine holds while it comes up, so that several windows start but one."""
        return self.folder / f"{self.name}.lock"

    @property
    def log(self) -> Path:
        """Where an engine that a window has started writes what it cannot tell anybody."""
        return self.folder / f"{self.name}.log"


def meeting_of(run_file: str) -> Meeting:
    """Return where the engine of a run file is met; raises ``MeetingError``."""
    real = os.path.realpath(run_file)
    same = hashlib.sha256(f"{real}\0{state_dir()}".encode()).hexdigest()[:16]
    name = f"engine-{same}-{build()}"
    try:
        meeting = Meeting(machine_folder(), name, real)
        if len(os.fsencode(meeting.socket)) > _LONGEST:
            meeting = Meeting(scratch_folder(), name, real)
    except MachineFolderError as error:
        raise MeetingError(str(error)) from error
    return meeting


def listen(meeting: Meeting) -> socket.socket:
    """Return a socket that takes windows from now on, in place of any other engine's.

    Raises ``MeetingError``.
    """
    own = meeting.folder / f"{meeting.name}.{os.getpid()}"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        own.unlink(missing_ok=True)
        listening.bind(str(own))
        own.chmod(0o600)
        listening.listen(BACKLOG)
        listening.setblocking(False)
        own.rename(meeting.socket)
    except OSError as error:
        listening.close()
        own.unlink(missing_ok=True)
        raise MeetingError(f"cannot listen at {meeting.socket}: {error.strerror}") from error
    return listening


def of_other_builds(meeting: Meeting) -> tuple[Peer, ...]:
    """Return the engines of other builds that serve the same run file and store."""
    same = meeting.name.rpartition("-")[0]
    found = []
    for path in meeting.folder.glob(f"{same}-*.sock"):
        if path != meeting.socket:
            with contextlib.suppress(MeetingError):
                to_engine = connect(meeting._replace(name=path.stem))
                if to_engine is not None:
                    peer = peer_of(to_engine)
                    to_engine.close()
                    found += [peer] if peer is not None else []
    return tuple(found)


def place_of(meeting: Meeting) -> int | None:
    """Return what tells the socket that stands there now from any other (its inode)."""
    try:
        return meeting.socket.lstat().st_ino
    except OSError:
        return None


def leave(meeting: Meeting, inode: int | None) -> None:
    """Take the own socket away; another engine's stays."""
    if inode is not None and place_of(meeting) == inode:
        with contextlib.suppress(OSError):
            meeting.socket.unlink()


def connect(meeting: Meeting) -> socket.socket | None:
    """Return a connection to whoever serves, ``None`` if nobody does; never waits.

    The kernel takes a connection for an engine that hangs, too. Raises ``MeetingError`` where
    somebody else's process answers.
    """
    to_engine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    to_engine.setblocking(False)
    try:
        to_engine.connect(str(meeting.socket))
    except OSError:
        to_engine.close()
        return None
    if not ours(to_engine):
        to_engine.close()
        raise MeetingError(f"another user's process answers at {meeting.socket}: not attached")
    return to_engine


def wait_until_left(run_file: str, within: float) -> None:
    """Wait until no engine serves a run file, for at most ``within`` seconds. Blocking."""
    until = time.monotonic() + within
    with contextlib.suppress(MeetingError):
        meeting = meeting_of(run_file)
        while time.monotonic() < until:
            to_engine = connect(meeting)
            if to_engine is None:
                return
            to_engine.close()
            time.sleep(LOOK_EVERY)


def peer_of(connection: socket.socket) -> Peer | None:
    """Return the process behind a connection; ``None`` where the kernel does not tell."""
    found = _credentials(connection)
    if found is None:
        return None
    facts = process_facts(found[0])
    return Peer(found[0], facts.ticks)


def ours(connection: socket.socket) -> bool:
    """Return whether the process behind a connection is this user's, or root's."""
    found = _credentials(connection)
    return found is None or found[1] in (os.geteuid(), 0)


def _credentials(connection: socket.socket) -> tuple[int, int] | None:
    """Return the process and user behind a connection."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None  # macOS: the folder's mode is what keeps others out
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(data)
    return pid, uid
