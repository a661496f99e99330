"""The one place that runs commands: argument lists, a deadline, capped output, killed as a group.

A command runs from a thread of its own (``offload``) and not through asyncio's subprocesses:
starting one means ``chdir`` and ``exec``, and on a hung file system these would stop the whole
event loop.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple

from cockpit.runtime.moment import Awake
from cockpit.runtime.mounts import is_folder, is_there
from cockpit.runtime.offload import offload

CHUNK: Final = 65536
LOOK: Final = 0.05
"""Seconds between two looks at whether the command itself has ended."""
LINGER: Final = 0.25
"""Seconds for which output is still read after the command has ended but a child of it holds
the pipe (an ssh master does that)."""
CANNOT_RUN: Final = 126
NO_PROGRAM: Final = 127


class Completed(NamedTuple):
    """How a command ended: ``rc`` as in Python (-9 = killed by signal 9), output as bytes.

    ``rc`` is 127 for a missing program or folder and 126 for one that cannot be executed
    (``err`` then says which); ``cut`` tells that output beyond the cap was dropped.
    """

    rc: int
    out: bytes
    err: bytes
    timed_out: bool = False
    cut: bool = False

    @property
    def ok(self) -> bool:
        """True when the command ended by itself with status 0."""
        return self.rc == 0 and not self.timed_out

    @property
    def text(self) -> str:
        """Standard output, decoded with replacement."""
        return self.out.decode("utf-8", "replace")


class _Capped:
    """Bytes up to a cap; the rest is read and dropped."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._kept = bytearray()
        self.cut = False

    def add(self, data: bytes) -> None:
        room = self._cap - len(self._kept)
        self._kept += data[:room]
        self.cut = self.cut or len(data) > room

    def __bytes__(self) -> bytes:
        return bytes(self._kept)


STARTS_WITHIN: Final = 0.2
"""Seconds that leaving waits for commands which are just being started."""
_READING: Final[set[_Run]] = set()
"""Commands under way by which nothing is lost if they end with this process."""


def end_reading() -> None:
    """Kill what only reads and is still under way: else what hangs would outlive every session.

    One that is just being started is killed by its own thread, which is given a moment for that.
    """
    under_way = tuple(_READING)
    for run in under_way:
        run.kill()
    until = time.monotonic() + STARTS_WITHIN
    for run in under_way:
        run.begun.wait(max(0.0, until - time.monotonic()))


atexit.register(end_reading)


@dataclass(eq=False)
class _Run:
    """One execution: started, fed, read and reaped in one thread; killable from another."""

    argv: tuple[str, ...]
    deadline: float
    cwd: str | None
    env: dict[str, str] | None
    stdin: bytes | None
    cap: int
    _process: subprocess.Popen[bytes] | None = None
    _killed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    begun: threading.Event = field(default_factory=threading.Event)
    """Set once it can be killed, or will never be started."""

    def work(self) -> Completed:
        """Run the command to its end or its deadline."""
        until = Awake(self.deadline)
        try:
            process = self._start()
        except (OSError, ValueError) as error:
            search_path = os.get_exec_path(self._environment())
            return _refused(self.argv, self.cwd, search_path, error)
        finally:
            self.begun.set()
        streams = {"out": _Capped(self.cap), "err": _Capped(self.cap)}
        timed_out = True
        try:
            timed_out = not self._pump(process, streams, until)
        finally:
            rc = self._finish(process, timed_out)
        out, err = streams["out"], streams["err"]
        return Completed(rc, bytes(out), bytes(err), timed_out, out.cut or err.cut)

    def kill(self) -> None:
        """Kill the command and everything in its group; harmless when it is over.

        The leader is not reaped before, so that its number cannot belong to another group.
        """
        with self._lock:
            self._killed = True
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def _environment(self) -> dict[str, str] | None:
        return None if self.env is None else {**os.environ, **self.env}

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL if self.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.cwd,
            env=self._environment(),
            start_new_session=True,
            bufsize=0,
        )
        with self._lock:
            self._process = process
            given_up = self._killed
        if given_up:
            self.kill()
        return process

    def _finish(self, process: subprocess.Popen[bytes], kill: bool) -> int:
        if kill:
            self.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        while not _has_ended(process):
            time.sleep(LOOK / 10)
        with self._lock:
            return process.wait()

    def _pump(
        self, process: subprocess.Popen[bytes], streams: dict[str, _Capped], until: Awake
    ) -> bool:
        """Move bytes until the pipes close or the command ends; False at the deadline."""
        with selectors.DefaultSelector() as selector:
            self._register(selector, process, streams)
            quiet_at: float | None = None
            while selector.get_map():
                left = until.left()
                if left <= 0:
                    return False
                ready = selector.select(min(LOOK, left))
                now = time.monotonic()
                for key, _ in ready:
                    key.data(selector)
                if ready or not _has_ended(process):
                    quiet_at = None
                elif quiet_at is None:
                    quiet_at = now
                elif now - quiet_at >= LINGER:
                    break
        # It may have closed its output and go on.
        pause = 0.001
        while not _has_ended(process):
            if until.left() <= 0:
                return False
            time.sleep(pause)
            pause = min(LOOK, pause * 2)
        return True

    def _register(
        self,
        selector: selectors.BaseSelector,
        process: subprocess.Popen[bytes],
        streams: dict[str, _Capped],
    ) -> None:
        for pipe, kept in ((process.stdout, streams["out"]), (process.stderr, streams["err"])):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, _reader(pipe, kept))
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            writer = _writer(process.stdin, self.stdin or b"")
            selector.register(process.stdin, selectors.EVENT_WRITE, writer)


def _reader(pipe: IO[bytes], kept: _Capped) -> Callable[[selectors.BaseSelector], None]:
    def read(selector: selectors.BaseSelector) -> None:
        data = os.read(pipe.fileno(), CHUNK)
        if data:
            kept.add(data)
        else:
            selector.unregister(pipe)

    return read


def _writer(pipe: IO[bytes], data: bytes) -> Callable[[selectors.BaseSelector], None]:
    rest = memoryview(data)

    def write(selector: selectors.BaseSelector) -> None:
        nonlocal rest
        with contextlib.suppress(BlockingIOError):
            try:
                rest = rest[os.write(pipe.fileno(), rest[:CHUNK]) :] if rest else rest
            except BrokenPipeError:  # it does not want the rest
                rest = rest[:0]
        if not rest:
            selector.unregister(pipe)
            pipe.close()

    return write


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether the command has ended, where possible without reaping it.

    Until it is reaped its number, and that of its group, cannot belong to anyone else.
    """
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return process.poll() is not None
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return ended is not None


def _refused(
    argv: Sequence[str], cwd: str | None, search_path: Sequence[str], error: Exception
) -> Completed:
    """Return the result of a command that could not be started."""
    reason = (error.strerror if isinstance(error, OSError) else str(error)) or str(error)
    if cwd is not None and isinstance(error, PermissionError) and error.filename == cwd:
        return Completed(CANNOT_RUN, b"", f"folder {cwd}: {reason}".encode())
    if cwd is not None and not is_folder(cwd):
        return Completed(NO_PROGRAM, b"", f"folder {cwd}: {reason}".encode())
    name = argv[0] if argv else "(empty command)"
    missing = isinstance(error, FileNotFoundError) or _is_nowhere(name, search_path, error)
    message = f"{name}: {'not found on PATH' if missing and '/' not in name else reason}"
    return Completed(NO_PROGRAM if missing else CANNOT_RUN, b"", message.encode())


def _is_nowhere(name: str, search_path: Sequence[str], error: Exception) -> bool:
    """Tell whether a program was refused only by folders of PATH that may not be searched.

    The kernel says "permission denied" of these; to a shell, and to a person, there is none.
    """
    if "/" in name or not isinstance(error, PermissionError):
        return False
    return not any(is_there(Path(folder, name)) for folder in search_path)


def run_blocking(
    argv: Sequence[str],
    *,
    deadline: float,
    env: Mapping[str, str] | None = None,
    stdin: bytes | str | None = None,
    cap: int = 1_000_000,
    reads: bool = False,
) -> Completed:
    """Do what ``run_command`` does, for code that already runs in a thread.

    What only ``reads`` is killed when the program leaves; anything else goes on to its end.
    """
    run = _prepare(argv, deadline, None, env, stdin, cap)
    if not reads:
        return run.work()
    _READING.add(run)
    try:
        return run.work()
    finally:
        _READING.discard(run)


def _prepare(
    argv: Sequence[str],
    deadline: float,
    cwd: str | Path | None,
    env: Mapping[str, str] | None,
    stdin: bytes | str | None,
    cap: int,
) -> _Run:
    if isinstance(argv, str):
        raise TypeError("a command is a list of arguments, not a string")
    data = stdin.encode() if isinstance(stdin, str) else stdin
    folder = None if cwd is None else str(cwd)
    return _Run(tuple(argv), deadline, folder, dict(env) if env else None, data, cap)


def start_detached(argv: Sequence[str], *, env: Mapping[str, str]) -> int:
    """Start a command that outlives this process, in a session of its own; return its pid.

    Nobody waits for it and nothing of it is read. Raises ``OSError`` and ``ValueError``.
    """
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        cwd="/", env={**os.environ, **env}, start_new_session=True,
    ).pid  # fmt: skip


async def run_command(
    argv: Sequence[str],
    *,
    deadline: float,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | str | None = None,
    cap: int = 1_000_000,
) -> Completed:
    """Run ``argv`` in a session of its own and return how it ended; never raises for its fate.

    ``deadline`` is in seconds; at it, and when the caller is cancelled, the whole group is
    killed. ``env`` is added to our own environment; ``stdin`` is closed unless given; at most
    ``cap`` bytes are kept of each stream, the rest is read and dropped.
    """
    run = _prepare(argv, deadline, cwd, env, stdin, cap)
    try:
        return await offload(run.work, deadline=deadline + 1.0)
    except TimeoutError:
        return Completed(-signal.SIGKILL, b"", b"could not be started in time", timed_out=True)
    finally:
        run.kill()
