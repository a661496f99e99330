"""The agent of an ssh host: questions go out as they come, answers come back in any order.

One ssh per host carries them all. A question that gets no answer in time is *unknown*; while it
hangs there it is not asked again, and it keeps no other waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import secrets
import signal
import subprocess
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache, lru_cache
from importlib.resources import files
from typing import IO, Any, ClassVar, Final, NamedTuple, Protocol

from cockpit.hosts.agent import CALLS, FRAME, LATE, LONGEST, answer, unframed
from cockpit.model.facet import ErrorKind, Problem, kind_of
from cockpit.runtime.ssh import (
    ASKING,
    ENV,
    RemoteError,
    checked,
    quote,
    refusal,
    trouble,
    unreachable,
    words,
)
from cockpit.text.safe import clean

DEADLINE: Final = 12.0
"""Seconds for an answer, a login among them: less than any facet of a host is given."""
PATIENCE: Final = 4.0
"""Seconds without news after which those that have answered do not wait for the others."""
HUNG: Final = 2.0
"""Seconds for one that has hung before."""
LAST_WORDS: Final = 1.0
"""Seconds for which ssh may still say why it ended."""
NO_ANSWER: Final = 0.5
"""Seconds within which an agent says that a command is late."""
SIGN_OF_LIFE: Final = 30.0
"""Seconds after which an agent that does not even say its facts is given up."""
SAID: Final = 16_384
WORDS: Final = 300
"""Characters of an error that are shown: they come from the host."""
NO_PYTHON: Final = 127
OLD_PYTHON: Final = 86
OLDEST: Final = (3, 8)
_BEGIN: Final = (
    f"import sys;sys.version_info<{OLDEST!r} and sys.exit({OLD_PYTHON});"
    "sys.path[:]=[each for each in sys.path if each];import zlib;"
    "exec(zlib.decompress(sys.stdin.buffer.read({size})))"
)
"""Runs what follows. No module of the agent's is taken from the folder it starts in."""
_AGENT: Final = "cockpit.hosts.agent"
_OWN_FOLDER: Final = "cockpit.hosts.own_folder"
_PARTS: Final = (
    (_OWN_FOLDER, "cockpit.hosts.folders", "cockpit.hosts.saves"),
    (
        "cockpit.runtime.private_folder", _OWN_FOLDER, "cockpit.hosts.notes",
        "cockpit.hosts.supervisor", "cockpit.hosts.launches",
    ),
    ("cockpit.hosts.walking",),
    ("cockpit.hosts.acting",),
    ("cockpit.hosts.ranges",),
)  # fmt: skip
"""Modules with further calls, sent together when one of these is first asked for.

Each after those that it imports.
"""
_UNPACK: Final = """\
import sys, types
agent = sys.modules[{name!r}] = types.ModuleType({name!r})
exec(compile({text!r}, {name!r}, "exec"), agent.__dict__)
agent.serve(sys.argv[1])
"""


class Ask(NamedTuple):
    """A question: ``what`` people read, a function of the agent, its arguments as JSON."""

    what: str
    call: str
    arguments: str


def ask(what: str, call: str, **arguments: object) -> Ask:
    """Return a question for a function of ``cockpit.hosts.agent``."""
    return Ask(what, call, json.dumps(arguments))


def shell(what: str, script: str, seconds: float = 10.0, most: int = 1_000_000) -> Ask:
    """Return a question that a POSIX shell answers; its answer is ``[status, output, errors]``.

    Each output is cut at ``most`` bytes.
    """
    return ask(what, "run", argv=["sh", "-c", script, ASKING], seconds=seconds, most=most)


Value = Any
"""What a function of the agent returns, as JSON has it."""
Answers = Mapping[Ask, Value]
"""By question the agent's answer, or the ``Problem`` that it met."""


class Link(Protocol):
    """A way to ask a machine: ``HostLink`` behind ssh, ``HereLink`` this one."""

    @property
    def here(self) -> bool:
        """Whether it is this machine."""

    @property
    def host(self) -> str:
        """How people call it."""

    async def ask(
        self, asks: Iterable[Ask], deadline: float = DEADLINE, patience: float = PATIENCE
    ) -> Answers:
        """Return each question's answer or problem; never raises."""

    async def act(self, each: Ask, deadline: float = DEADLINE) -> Value:
        """Return the answer of what changes something there.

        Raises ``RemoteError``, which knows whether it was ``sent``, and the agent's ``OSError``.
        """


class HostLink:
    """One agent of a host, started when it is first asked, and again after it was lost."""

    here: ClassVar[bool] = False

    def __init__(self, host: str) -> None:
        self.host = host
        self._lock = threading.Lock()
        self._numbers = 0
        self._agent: _Agent | None = None
        self._hung: dict[Ask, Future[Any]] = {}
        self._sign: tuple[_Agent, float, Future[Any]] | None = None

    async def ask(
        self, asks: Iterable[Ask], deadline: float = DEADLINE, patience: float = PATIENCE
    ) -> Answers:
        """Return each question's answer or problem; never raises.

        Once others have answered, no answer is waited for longer than ``patience`` seconds.
        """
        wanted = list(dict.fromkeys(asks))
        hung = [self._hung[each] for each in wanted if each in self._hung]
        if hung and len(hung) == len(wanted):  # else it is seen with the others whether one is back
            await answered(hung, HUNG, HUNG)
        futures = {each: self._asked(each) for each in wanted}
        await answered([each for each in futures.values() if each], deadline, patience)
        return {each: self._answer(each, future, deadline) for each, future in futures.items()}

    def close(self) -> None:
        """End the agent; it is started again when something is asked."""
        with self._lock:
            agent, self._agent = self._agent, None
        if agent is not None:
            agent.close()

    def send(self, each: Ask) -> Future[Any]:
        """Send one question; until it is on its way its answer to be can be cancelled."""
        with self._lock:
            return self._send(each)

    def late(self) -> None:
        """Note that an answer is late: an agent that gives no sign of life is started anew."""
        with self._lock:
            agent, now = self._agent, time.monotonic()
            if agent is None or agent.ended or not agent.answers:
                return
            if self._sign is None or self._sign[0] is not agent or self._sign[2].done():
                self._sign = (agent, now, self._send(ask("its facts", "about")))
            elif now - self._sign[1] > SIGN_OF_LIFE:
                agent.close()

    def _asked(self, each: Ask) -> Future[Any] | None:
        """Send a question, unless it hangs there: a late answer tells of a time that has passed."""
        with self._lock:
            self._hung = {asked: one for asked, one in self._hung.items() if not one.done()}
            return None if each in self._hung else self._send(each)

    def _send(self, each: Ask) -> Future[Any]:
        if self._agent is None or self._agent.ended:
            self._agent = _Agent(self.host, _PYTHONS.get(self.host, "python3"))
        self._numbers += 1
        return self._agent.send(self._numbers, each)

    @property
    def _connected(self) -> bool:
        return self._agent is not None and self._agent.answers

    def _answer(self, each: Ask, future: Future[Any] | None, deadline: float) -> object:
        if future is None:
            self.late()
            return late_answer(self.host, each)
        if not future.done():
            with self._lock:
                if future.cancel() or not self._connected:
                    text = f"{self.host}: no connection within {deadline:.2g} s"
                    return Problem(kind=ErrorKind.TIMEOUT, message=text)
                self._hung[each] = future
            self.late()
            return late_answer(self.host, each)
        error = future.exception()
        if error is None:
            late = each.call == "run" and future.result()[0] == LATE
            return late_answer(self.host, each) if late else future.result()
        if isinstance(error, RemoteError):
            return Problem(kind=error.kind, message=str(error))
        if isinstance(error, OSError):
            return problem_of(error, f"{self.host}: ")
        raise error

    async def act(self, each: Ask, deadline: float = DEADLINE) -> Value:
        """Return the answer of what changes something there; raises as ``Link.act``."""
        future = self.send(each)
        try:
            await answered([future], deadline, deadline)
            return self._acted(future, deadline)
        except NoPythonError as error:
            text = f"{error}; a host without Python is read only, and never acted on"
            raise NoPythonError(error.kind, text) from error
        finally:
            future.cancel()  # whoever is interrupted has given it up, too

    def act_blocking(self, each: Ask, deadline: float) -> Value:
        """Do what ``act`` does, for code that runs in a thread of its own."""
        future = self.send(each)
        try:
            with contextlib.suppress(Exception):  # it is raised below
                future.result(deadline + NO_ANSWER)
            return self._acted(future, deadline)
        finally:
            future.cancel()  # whoever is interrupted has given it up, too

    def _acted(self, future: Future[Any], deadline: float) -> Value:
        if not future.done():
            if future.cancel():
                text = f"no connection within {deadline:.2g} s"
                raise unreachable(self.host, ErrorKind.TIMEOUT, text)
            self.late()
            text = f"no answer within {deadline:.2g} s"
            raise trouble(self.host, ErrorKind.TIMEOUT, text, sent=True)
        try:
            return future.result()
        except OSError as error:
            if error.errno:
                raise
            raise fault(self.host, error) from error


def late_answer(host: str, each: Ask) -> Problem:
    """Return that a question got no answer in time."""
    text = f"{host}: {each.what} did not answer: does a disk hang there?"
    return Problem(kind=ErrorKind.TIMEOUT, message=text)


def problem_of(error: OSError, where: str = "") -> Problem:
    """Return what an agent's error says; ``where`` begins it."""
    place = f"{error.filename}: " if error.filename else ""
    return Problem(kind=kind_of(error), message=clean(f"{where}{place}{error.strerror}", WORDS))


def fault(host: str, error: OSError) -> RemoteError:
    """Return an error without a number: what was to be done may be done all the same."""
    text = clean(f"no answer: {error.strerror}", WORDS)
    return trouble(host, ErrorKind.BAD_ANSWER, text, sent=True)


async def answered(futures: Sequence[Future[Any]], limit: float, patience: float) -> None:
    """Wait for answers, ``limit`` seconds at most.

    After the first, no longer than ``patience`` seconds for each next.
    """
    loop, news = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed by then
            loop.call_soon_threadsafe(news.set)

    for future in futures:
        future.add_done_callback(tell)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit):
            while left := sum(not future.done() for future in futures):
                async with asyncio.timeout(patience if left < len(futures) else limit):
                    await news.wait()
                news.clear()


class NoPythonError(RemoteError):
    """The host has no Python that an agent runs on."""


class _Agent:
    """One ssh with an agent behind it: a thread writes, a thread reads, until it ends."""

    def __init__(self, host: str, python: str) -> None:
        self.host = host
        self.answers = False
        self.ended = False
        self._python = python
        self._lock = threading.Lock()
        self._open: dict[int, Future[Any]] = {}
        self._queue: queue.SimpleQueue[tuple[bytes, Future[Any]] | None] = queue.SimpleQueue()
        self._loaded: set[str] = set()
        self._ready = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._error = unreachable(host, ErrorKind.REFUSED, "the connection broke off")
        threading.Thread(target=self._work, name=f"agent-{host}", daemon=True).start()

    def send(self, number: int, each: Ask) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self.ended:
                future.set_exception(self._error.again())
                return future
            self._open[number] = future
            parts = tuple(name for name in _parts_with(each.call) if name not in self._loaded)
            if parts:
                self._loaded.update(parts)
                self._queue.put((_load(parts), Future()))
        line = f'{{"id":{number},"call":{json.dumps(each.call)},"with":{each.arguments}}}\n'
        self._queue.put((line.encode("ascii"), future))
        return future

    def close(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _work(self) -> None:
        try:
            error = self._served()
        except RemoteError as found:
            error = found
        except (OSError, RuntimeError) as found:  # no ssh, or no thread left for it
            text = f"ssh cannot be started: {getattr(found, 'strerror', None) or found}"
            error = unreachable(self.host, ErrorKind.NOT_FOUND, text)
        with self._lock:
            self.ended, self._error = True, error
            waiting, self._open = list(self._open.values()), {}
        self._queue.put(None)
        self._ready.set()
        for future in waiting:
            own = error.again()
            own.sent = future.running()  # no other is written from now on
            if own.sent or (not future.cancelled() and future.set_running_or_notify_cancel()):
                future.set_exception(own)

    def _served(self) -> RemoteError:
        """Read answers until there are none any more, and return why."""
        source, mark = _source(), secrets.token_hex(8)
        begin = _BEGIN.format(size=len(source))
        python = f"exec {quote(self._python)} -E -s -X utf8 -uc '{begin}' {mark} {ASKING}"
        command = f"exec sh -c {quote(python)}"  # its status says the same in every login shell
        process = self._process = subprocess.Popen(
            [*words(self.host), "--", self.host, command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **ENV}, start_new_session=True, bufsize=0,
        )  # fmt: skip
        assert process.stdin and process.stdout and process.stderr
        said = bytearray()
        errors = threading.Thread(target=_drain, args=(process.stderr, said), daemon=True)
        errors.start()
        writer = threading.Thread(target=self._write, args=(process.stdin, source), daemon=True)
        writer.start()
        wrong = self._read(process.stdout, mark)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LAST_WORDS)
        errors.join(LAST_WORDS)
        self.close()
        process.wait()
        return wrong or self._why(process.returncode, bytes(said))

    def _write(self, pipe: IO[bytes], source: bytes) -> None:
        stream = zlib.compressobj(6)
        with contextlib.suppress(OSError), pipe:
            _write(pipe, source)
            self._ready.wait()  # what is asked for meanwhile can still be cancelled
            while (item := self._queue.get()) is not None:
                data, future = item
                with self._lock:
                    wanted = not self.ended and future.set_running_or_notify_cancel()
                if wanted:
                    _write(pipe, stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH))

    def _read(self, pipe: IO[bytes], mark: str) -> RemoteError | None:
        start, rest, stream = f"\n{mark}\n".encode(), bytearray(b"\n"), zlib.decompressobj()
        with pipe:
            while start not in rest:
                piece = pipe.read(1 << 16)
                if not piece:
                    return None
                del rest[: -len(start)]
                rest += piece
            self.answers = True
            self._ready.set()
            del rest[: rest.index(start) + len(start)]
            while True:
                while len(rest) < (size := _frame(rest)) <= LONGEST:
                    piece = pipe.read(1 << 16)
                    if not piece:
                        return None
                    rest += piece
                try:
                    if size > LONGEST:
                        raise ValueError(size)
                    self._take(unframed(stream.decompress(rest[FRAME.size : size], LONGEST)))
                except (zlib.error, ValueError, TypeError, KeyError):
                    text = "something else has written between its answers: does a shell's rc file?"
                    return trouble(self.host, ErrorKind.BAD_ANSWER, text, sent=True)
                del rest[:size]

    def _take(self, message: dict[str, Any]) -> None:
        with self._lock:
            future = self._open.pop(message["id"], None)
        if future is None or future.cancelled():
            return
        if "value" in message:
            future.set_result(message["value"])
        else:
            future.set_exception(
                OSError(message["errno"], message["text"], message["path"] or None)
            )

    def _why(self, status: int, said: bytes) -> RemoteError:
        name = f"name one in [hosts.{self.host}] python"
        if status == OLD_PYTHON:
            text = f"its {self._python} is older than 3.8: {name}"
        elif status == NO_PYTHON:
            text = f"it has no {self._python}: install it, or {name}"
        elif self.answers:
            return unreachable(self.host, ErrorKind.REFUSED, "the connection broke off")
        else:
            return refusal(self.host, said)
        return NoPythonError(ErrorKind.NOT_FOUND, f"{self.host}: {text}")


def _frame(data: bytearray) -> int:
    """Return how many bytes the frame takes that begins ``data``, its length among them."""
    size: int = FRAME.unpack_from(data)[0] if len(data) >= FRAME.size else 0
    return FRAME.size + size


def _write(pipe: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) :]


def _drain(pipe: IO[bytes], said: bytearray) -> None:
    with contextlib.suppress(OSError), pipe:
        while piece := pipe.read(4096):
            said += piece
            del said[:-SAID]


@lru_cache(maxsize=1)
def _source() -> bytes:
    """Return the agent as it is sent."""
    text = _text(_AGENT)
    return zlib.compress(_UNPACK.format(name=_AGENT, text=text).encode(), 9)


def _text(name: str) -> str:
    package, _, module = name.rpartition(".")
    return files(package).joinpath(f"{module}.py").read_text(encoding="utf-8")


@cache
def _load(parts: tuple[str, ...]) -> bytes:
    """Return the line that gives an agent some modules."""
    texts = {name: _text(name) for name in parts}
    return f"{json.dumps({'load': texts})}\n".encode("ascii")


@cache
def _parts_with(call: str) -> tuple[str, ...]:
    """Return the modules that an agent must have for a call, none where it has them."""
    name = CALLS[call].__module__ if call in CALLS else ""
    return next((parts for parts in _PARTS if name in parts), ())


_LINKS: dict[str, HostLink] = {}
_PYTHONS: dict[str, str] = {}
_LOCK = threading.Lock()


def know_pythons(pythons: Mapping[str, str]) -> None:
    """Take over which Python each host has, by ssh alias; an agent that runs already goes on."""
    with _LOCK:
        _PYTHONS.clear()
        _PYTHONS.update(pythons)


def _forget() -> None:
    """Forget, in a process that was forked, the links whose threads are its parent's."""
    global _LOCK  # a thread of the parent may have held it
    _LOCK = threading.Lock()
    _LINKS.clear()


os.register_at_fork(after_in_child=_forget)


def link_to(host: str) -> HostLink:
    """Return this process's one link to a host."""
    with _LOCK:
        return _LINKS.setdefault(host, HostLink(host))


def called(each: Ask) -> Value:
    """Return what a function of the agent says of this machine; blocking, raises ``OSError``."""
    message = answer(each.call, json.loads(each.arguments))
    if "value" in message:
        return message["value"]
    raise OSError(message["errno"], message["text"], message["path"] or None)


class CallHost(Protocol):
    """Calls a function of a host's agent (``call_blocking``)."""

    def __call__(self, host: str, each: Ask, deadline: float) -> Any:  # noqa: ANN401
        """Return the answer; raises ``RemoteError``, or the ``OSError`` that was met there."""


def call_blocking(host: str, each: Ask, deadline: float) -> Any:  # noqa: ANN401
    """Return what a host's agent answers, as ``HostLink.act_blocking`` does."""
    return link_to(checked(host)).act_blocking(each, deadline)
