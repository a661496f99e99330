"""One connection of a window to an engine: frames in, frames out, and whether it still lives."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from typing import Final

import cockpit
from cockpit.attach.asks import answer_in
from cockpit.attach.meeting import Peer, peer_of
from cockpit.attach.wire import (
    BEAT,
    MISSED,
    Document,
    Hello,
    WireError,
    build,
    frame,
    number_in,
    read_frame,
)
from cockpit.model.clock import SystemClock, next_beat

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
