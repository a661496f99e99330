"""Where an engine and its windows meet: a Unix socket of this user's own, and connections to it.

Starts the engine of a run file for windows, in a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import cockpit
from cockpit.attach.wire import (
    BEAT,
    MISSED,
    Document,
    Hello,
    WireError,
    answer_in,
    build,
    frame,
    number_in,
    read_frame,
)
from cockpit.config.file import state_dir
from cockpit.model.clock import SystemClock, next_beat
from cockpit.runtime.account import machine_folder, scratch_folder
from cockpit.runtime.own_path import own_python
from cockpit.runtime.private_folder import MachineFolderError
from cockpit.runtime.process import process_facts
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

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


ASK_WITHIN: Final = 25.0
"""Seconds for an answer; the engine's own deadlines are shorter."""
SLICE: Final = 0.01
"""Seconds for which frames are taken before keys have their turn."""


class HungError(Exception):
    """The engine has given no sign of life for three beats."""


class Connection:
    """To one engine. ``take`` is called with each frame; ``hello`` is what it said first."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, run_file: str
    ) -> None:
        self._run_file = run_file
        self.hello: Hello | None = None
        self.peer: Peer | None = peer_of(writer.get_extra_info("socket"))
        self._reader = reader
        self._writer = writer
        self._heard = True
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Document]] = {}

    @classmethod
    async def over(cls, to_engine: socket.socket, run_file: str) -> Connection:
        """Return a connection over a connected socket, to the engine of a run file (real path)."""
        reader, writer = await asyncio.open_unix_connection(sock=to_engine)
        return cls(reader, writer, run_file)

    async def listen(self, take: Callable[[Document], None]) -> None:
        """Take frames until the engine goes (``EOFError``) or hangs (``HungError``).

        Raises ``WireError`` for an engine that speaks otherwise.
        """
        guard = asyncio.ensure_future(self._guard())
        taking = asyncio.ensure_future(self._taking(take))
        try:
            done, _ = await asyncio.wait((guard, taking), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (guard, taking):
                task.cancel()
            await asyncio.gather(guard, taking, return_exceptions=True)
            self.close()

    async def greeting(self) -> Hello:
        """Return how the engine greets; raises ``EOFError`` and ``WireError``."""
        return _checked(await read_frame(self._reader), self._run_file)

    def close(self) -> None:
        """Go; questions that were not answered end with ``TimeoutError``."""
        self._writer.close()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(TimeoutError("the engine is gone"))

    def say(self, **document: object) -> None:
        """Say something that wants no answer."""
        if not self._writer.is_closing():
            self._writer.write(frame(document))

    async def ask(self, what: str, *arguments: object) -> object:
        """Return the engine's answer; raises what asking raised there, or ``TimeoutError``."""
        number = next(self._numbers)
        answer = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            self.say(say="ask", id=number, what=what, arguments=arguments)
            async with asyncio.timeout(ASK_WITHIN):
                return answer_in(what, await answer)
        finally:
            del self._asked[number]

    async def _guard(self) -> None:
        """Count the beats that fail to come; a time in which this process slept is none.

        It looks as the next one is due: both wake this process once.
        """
        loop, clock = asyncio.get_running_loop(), SystemClock()
        missed, last = 0, loop.time()
        while missed < MISSED:
            await next_beat(clock, BEAT)
            late = loop.time() - last > 2 * BEAT
            missed = 0 if self._heard or late else missed + 1
            self._heard, last = False, loop.time()
        raise HungError

    async def _taking(self, take: Callable[[Document], None]) -> None:
        loop = asyncio.get_running_loop()
        self.hello = await self.greeting()
        until = loop.time() + SLICE
        while True:
            self._heard, began = True, loop.time()
            document = await read_frame(self._reader)
            if loop.time() - began >= SLICE:  # keys have had their turn meanwhile
                until = loop.time() + SLICE
            if document.get("say") == "answer":
                asked = self._asked.get(number_in(document))
                if asked is not None and not asked.done():
                    asked.set_result(document)
            else:
                take(document)
            if loop.time() >= until:
                await asyncio.sleep(0)
                until = loop.time() + SLICE


async def greeting_of(to_engine: socket.socket, run_file: str, but_for: int = 0) -> Hello | None:
    """Return how an engine greets; ``None`` for one of another version, or of pid ``but_for``."""
    connection = await Connection.over(to_engine, run_file)
    try:
        if connection.peer is not None and connection.peer.pid == but_for:
            return None
        return await connection.greeting()
    except (EOFError, OSError, WireError):
        return None
    finally:
        connection.close()


def _checked(document: Document, run_file: str) -> Hello:
    """Return an engine's first words; raises ``WireError`` for another version or run file."""
    try:
        hello = Hello.model_validate(document.get("hello"))
    except ValueError as error:
        raise WireError(
            "what answers at the engine's socket is not an engine of this version"
        ) from error
    if hello.build != build():
        raise WireError(
            f"the engine is of build {hello.build} ({hello.version}), "
            f"this window of {build()} ({cockpit.__version__})"
        )
    if hello.file != run_file:
        raise WireError(f"the engine serves another run file: {hello.file}")
    return hello


HOST: Final = "cockpit.attach.host"
_TOLD: Final = 2_000


class Starter:
    """Starts engines for one run file, one at a time, and knows why one did not come up."""

    def __init__(self, run_file: str) -> None:
        self._run_file = run_file
        self._log: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, meeting: Meeting, instead_of: Peer | None = None) -> None:
        """Start one unless one is coming up; ``instead_of`` hangs and is to be replaced.

        Blocking (some milliseconds); raises ``OSError``.
        """
        if self.coming_up:
            return
        words = [*own_python(HOST), self._run_file]
        if instead_of is not None:
            words += ["--instead-of", str(instead_of.pid)]
        self._log = meeting.log
        flags = (
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK
        )  # what lies there may be a FIFO
        handle = os.open(meeting.log, flags, 0o600)
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=handle, stderr=handle,
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(handle)
        threading.Thread(target=self._process.wait, daemon=True).start()  # no zombie stays

    def came_up(self) -> None:
        """Take note that an engine serves: the next one is started anew."""
        self._process = None

    @property
    def coming_up(self) -> bool:
        """Whether the engine that was started last still runs."""
        return self._process is not None and self._process.poll() is None

    def failed(self) -> str | None:
        """Return why the engine that was started last ended at once, if it did."""
        if self._process is None or self._process.poll() in (None, 0):
            return None
        try:
            said = "" if self._log is None else _end_of(self._log)
        except OSError:
            said = ""
        lines = [line for line in said.splitlines() if line.strip()]
        last = clean(scrub(lines[-1]), 200) if lines else "it said nothing"
        return f"exit status {self._process.returncode}: {last}"


def _end_of(log: Path) -> str:
    return log.read_bytes()[-_TOLD:].decode("utf-8", "replace")
