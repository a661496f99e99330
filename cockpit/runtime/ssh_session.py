"""One shell on one host that runs scripts one after the other, each answer in a frame.

The shell lives as long as the link, so that what its start costs (a login, a slow ``.bashrc``) is
paid once and not for each script. Every script stands between two markers that no other output
can hold, on both streams; what comes before or between frames is a banner's or a ``.bashrc``'s
and is dropped. Blocking; one thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Final

from cockpit.runtime.moment import Awake
from cockpit.runtime.shell import CHUNK, Completed

LAST_WORDS: Final = 0.25
"""Seconds for which a shell that has closed its output may still say why."""
_SAID: Final = 16_384
ASKING: Final = "cockpit-probe"
"""Stands in the command line of every shell that asks: what it runs is nobody's job."""
SHELL: Final = f"exec sh -s {ASKING}"
"""The command of a shell that runs one framed script after the other."""


def quote(text: str) -> str:
    """Return ``text`` as one word of a POSIX shell, whatever it holds.

    Raises ``ValueError`` for a NUL character, which no word can hold.
    """
    if "\0" in text:
        raise ValueError("a NUL character cannot stand in a shell's word")
    return shlex.quote(text)


def framed(script: str, mark: str, stdin: str = "</dev/null") -> bytes:
    """Return the lines that make a shell run ``script`` in a subshell between two markers.

    Its variables, its ``cd`` and its ``exit`` stay in there, and it reads nothing that is ours.
    """
    begin, end = f"printf '\\n%s\\n' {mark}b", f"printf '\\n%s %s\\n' {mark}e"
    lines = (
        f"{begin}; {begin} >&2",
        f"(eval {quote(script)}) {stdin}",
        f'set -- "$?"; {end} "$1"; {end} "$1" >&2',
    )
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def reading_once(script: str) -> str:
    """Return the command of a shell that runs one framed script, which reads the rest of its input.

    Made of what csh and fish read as a POSIX shell does. ``dd`` byte by byte: whatever else reads
    a pipe takes more than it was asked for.
    """
    size = len(framed(script, _mark(), ""))
    return f"exec sh -c 'eval \"$(dd bs=1 count={size} 2>/dev/null)\"' sh {ASKING}"


def _mark() -> str:
    return f"cockpit-{secrets.token_hex(8)}-"


class Frame:
    """What a stream brings between its markers, up to a cap; the rest is read and dropped."""

    def __init__(self, mark: str, cap: int) -> None:
        self._begin = f"\n{mark}b\n".encode()
        self._end = f"\n{mark}e ".encode()
        self._cap = cap
        self._rest = bytearray(b"\n")  # a marker may be the very first line
        self._kept = bytearray()
        self.begun = False
        self.rc: int | None = None
        self.cut = False

    def add(self, data: bytes) -> None:
        """Take what has come."""
        self._rest += data
        if not self.begun:
            self._look_for_begin()
        if self.begun and self.rc is None:
            self._look_for_end()

    def __bytes__(self) -> bytes:
        return bytes(self._kept)

    @property
    def so_far(self) -> bytes:
        """What has come of an output that has not ended."""
        return bytes(self._kept + self._rest)[: self._cap] if self.begun else b""

    def _look_for_begin(self) -> None:
        at = self._rest.find(self._begin)
        self.begun = at >= 0
        drop = at + len(self._begin) if self.begun else len(self._rest) - len(self._begin)
        del self._rest[: max(0, drop)]

    def _look_for_end(self) -> None:
        at = self._rest.find(self._end)
        line = self._rest.find(b"\n", at + len(self._end)) if at >= 0 else -1
        if line >= 0:
            self._keep(at)
            self.rc = int(self._rest[len(self._end) : line - at])
        elif at < 0:
            self._keep(len(self._rest) - len(self._end))

    def _keep(self, size: int) -> None:
        if size <= 0:
            return
        room = self._cap - len(self._kept)
        self._kept += self._rest[: min(size, room)]
        self.cut = self.cut or size > room
        del self._rest[:size]


class EndedError(Exception):
    """The shell is gone; ``rc`` is how its program ended, ``said`` its last words on stderr."""

    def __init__(self, rc: int, said: bytes, *, begun: bool, out: bytes) -> None:
        super().__init__(f"ended with {rc}")
        self.rc = rc
        self.said = said
        self.begun = begun
        self.out = out


class LateError(Exception):
    """The script has not ended in time; the shell cannot be used any more."""

    def __init__(self, *, begun: bool, out: bytes) -> None:
        super().__init__("late")
        self.begun = begun
        self.out = out


@dataclass(eq=False)
class _Exchange:
    """One script under way: what is still to be written, what has come, where the streams are."""

    data: memoryview
    frames: dict[int, Frame]
    said: bytearray = field(default_factory=bytearray)
    open: set[int] = field(default_factory=set)

    @property
    def done(self) -> bool:
        return all(frame.rc is not None for frame in self.frames.values())

    def broke_off(self, out: int, err: int) -> bool:
        """Tell whether the end of the script can come no more.

        Of two streams each comes at a time of its own: one may end before the other has told.
        """
        if self.done or out in self.open:
            return False
        return self.frames[out].rc is None or err not in self.open


class Session:
    """A shell behind ``argv`` (an ssh, or a ``sh`` of this machine)."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Start it; raises ``OSError`` when the program cannot be started."""
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})}, start_new_session=True, bufsize=0,
        )  # fmt: skip
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    @property
    def _pipes(self) -> list[IO[bytes]]:
        process = self._process
        return [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe]

    @property
    def alive(self) -> bool:
        """False when it has ended, or its output is closed."""
        if self._process.poll() is not None:
            return False
        with selectors.DefaultSelector() as selector:
            out = self._pipes[1]
            selector.register(out, selectors.EVENT_READ)
            return not selector.select(0) or bool(self._read(out))

    def run(self, script: str, until: Awake, cap: int) -> Completed:
        """Run a script; raises ``EndedError`` and ``LateError``, after which it is closed."""
        return self._exchange(lambda mark: framed(script, mark), until, cap, keep=True)

    def run_once(self, script: str, stdin: bytes, until: Awake, cap: int) -> Completed:
        """Run a script that is given bytes to read, in a shell that waits for this one script.

        The shell was started by ``reading_once(script)``; it is closed afterwards.
        """
        try:
            return self._exchange(
                lambda mark: framed(script, mark, "") + stdin, until, cap, keep=False
            )
        finally:
            self.close()

    def close(self) -> None:
        """End it, at once; what it has started on the host may live on."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()

    def _exchange(
        self, make: Callable[[str], bytes], until: Awake, cap: int, *, keep: bool
    ) -> Completed:
        mark = _mark()
        stdin, out, err = self._pipes
        frames = {out.fileno(): Frame(mark, cap), err.fileno(): Frame(mark, cap)}
        exchange = _Exchange(memoryview(make(mark)), frames, open={out.fileno(), err.fileno()})
        try:
            self._pump(exchange, stdin, until, close=not keep)
        except (EndedError, LateError):
            self.close()
            raise
        first, second = frames.values()
        rc = first.rc if first.rc is not None else 0
        cut = first.cut or second.cut
        return Completed(rc, bytes(first), bytes(second), cut=cut)

    def _pump(self, exchange: _Exchange, stdin: IO[bytes], until: Awake, *, close: bool) -> None:
        out, err = self._pipes[1:]
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE)
            selector.register(out, selectors.EVENT_READ)
            selector.register(err, selectors.EVENT_READ)
            while not exchange.done:
                left = until.left()
                frame = exchange.frames[out.fileno()]
                if left <= 0:
                    raise LateError(begun=frame.begun, out=frame.so_far)
                for key, _ in selector.select(min(1.0, left)):
                    self._move(key.fileobj, exchange, selector, close=close)  # type: ignore[arg-type]
                if exchange.broke_off(out.fileno(), err.fileno()):
                    raise self._ended(exchange, err, selector)

    def _move(
        self,
        pipe: IO[bytes],
        exchange: _Exchange,
        selector: selectors.BaseSelector,
        *,
        close: bool,
    ) -> None:
        if pipe is self._process.stdin:
            exchange.data = _write(pipe, exchange.data)
            if not exchange.data:
                selector.unregister(pipe)
                if close:
                    pipe.close()
            return
        data = self._read(pipe)
        if data:
            exchange.frames[pipe.fileno()].add(data)
            if pipe is self._process.stderr:
                exchange.said += data
                del exchange.said[:-_SAID]
        elif data is not None:
            selector.unregister(pipe)
            exchange.open.discard(pipe.fileno())

    def _ended(
        self, exchange: _Exchange, err: IO[bytes], selector: selectors.BaseSelector
    ) -> EndedError:
        """Return how it ended, with its last words."""
        until = Awake(LAST_WORDS)
        while err.fileno() in exchange.open and (left := until.left()) > 0:
            for key, _ in selector.select(left):
                if key.fileobj is err:
                    self._move(err, exchange, selector, close=False)
                else:
                    selector.unregister(key.fileobj)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LAST_WORDS)
        rc = self._process.returncode
        frame = next(iter(exchange.frames.values()))
        said = bytes(exchange.said)
        return EndedError(255 if rc is None else rc, said, begun=frame.begun, out=frame.so_far)

    @staticmethod
    def _read(pipe: IO[bytes]) -> bytes | None:
        """Return what has come, nothing at the end of the stream, ``None`` if none has."""
        try:
            return os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""


def _write(pipe: IO[bytes], data: memoryview) -> memoryview:
    try:
        return data[os.write(pipe.fileno(), data[:CHUNK]) :]
    except BlockingIOError:
        return data
    except OSError:  # nobody reads it any more: the end of its output will tell
        return data[:0]
