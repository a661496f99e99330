"""Listens on loopback: gives the page to all, pictures to those who have a seat; takes their keys.

Everything of a viewer is bounded: heads, frames, their number, and the seconds that each has. A
slow one gets fewer pictures, never a queue of old ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, Protocol

from cockpit.app.browser.door import SeatError, Seats, refusal
from cockpit.app.browser.messages import MOST_HEAD, Answer, Request, refused, request_of
from cockpit.app.browser.picture import Picture, Row, changed
from cockpit.app.browser.websocket import (
    BrokenError,
    Opcode,
    encoded,
    handshake,
    read_frame,
    switched,
)

LOOPBACK: Final = "127.0.0.1"
HEAD_WITHIN: Final = 5.0
"""Seconds in which a request's head must be here, and the first word of a WebSocket."""
TAKEN_WITHIN: Final = 20.0
"""Seconds in which a viewer must have taken a picture."""
ALIVE: Final = 5.0
"""Seconds between two signs of life: without one the page says that it may show the past."""
WAITING: Final = 64
"""Connections without a seat at the same time; one more ends the oldest of them."""
PAGES: Final = {
    "/": ("view.html", "text/html; charset=utf-8"),
    "/view.js": ("view.js", "text/javascript; charset=utf-8"),
    "/view.css": ("view.css", "text/css; charset=utf-8"),
}
FRAMES: Final = "/frames"
LINK: Final = "link "
"""A tab's first word: this with a link's token, or else its seat."""


class Window(Protocol):
    """What is looked at."""

    def picture(self) -> Picture:
        """Return what stands on the screen."""

    @property
    def base_colours(self) -> tuple[str, str]:
        """Ink and ground, as ``#rrggbb``."""

    def press(self, name: str) -> None:
        """Take a key by its browser's name."""


class Server:
    """One listener on loopback; ``tell`` is told when somebody was let in."""

    def __init__(self, window: Window, seats: Seats, tell: Callable[[str], object]) -> None:
        self._window = window
        self._seats = seats
        self._tell = tell
        self._server: asyncio.Server | None = None
        self._waiting: dict[asyncio.StreamWriter, None] = {}
        """Connections without a seat, the oldest first."""
        self._seated: set[asyncio.StreamWriter] = set()
        self._viewers: set[asyncio.Event] = set()
        self._picture: Picture = ()
        self.port = 0

    async def listen(self, port: int) -> None:
        """Listen on a port (0: a free one); raises ``OSError``."""
        self._server = await asyncio.start_server(self._heard, LOOPBACK, port, limit=MOST_HEAD)
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def link(self) -> str:
        """The link that opens once."""
        return f"http://{LOOPBACK}:{self.port}/#{self._seats.link}"

    def close(self) -> None:
        """Stop listening, and end with everybody who looks."""
        if self._server is not None:
            self._server.close()
        for writer in (*self._waiting, *self._seated):
            writer.close()

    def painted(self) -> None:
        """Show everybody what is painted now."""
        if self._viewers:
            self._picture = self._window.picture()
        for each in self._viewers:
            each.set()

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._waiting) >= WAITING:
            next(iter(self._waiting)).transport.abort()
            self._waiting.pop(next(iter(self._waiting)))
        self._waiting[writer] = None
        try:
            await self._answer(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, BrokenError):
            pass  # it has gone, or was too slow, or does not keep to what it speaks
        except asyncio.CancelledError:
            pass  # the program ends: asyncio would print a traceback for a cancelled connection
        finally:
            self._waiting.pop(writer, None)
            self._seated.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_WITHIN):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            request = request_of(head)
        except ValueError:
            answer = refused(HTTPStatus.BAD_REQUEST, "This is not a request.")
        else:
            answer = refusal(request) or _answer_to(request)
        if answer.status is HTTPStatus.SWITCHING_PROTOCOLS:
            writer.write(switched(request))
            await self._seat(reader, writer)
        else:
            writer.write(answer.encoded())
            await _taken(writer)

    async def _seat(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hear the tab's first word: its seat, or a link that gives it one; then show pictures."""
        async with asyncio.timeout(HEAD_WITHIN):
            frame = await read_frame(reader)
        word = frame.payload.decode("utf-8", "replace") if frame.opcode is Opcode.TEXT else ""
        try:
            seat = self._seats.take(self._opened(word) if word.startswith(LINK) else word)
        except SeatError as error:
            writer.write(encoded(Opcode.TEXT, _document({"refused": str(error)})))
            await _taken(writer)
            return
        self._waiting.pop(writer, None)
        self._seated.add(writer)
        try:
            writer.write(encoded(Opcode.TEXT, _document({"seat": seat})))
            await self._watched(reader, writer)
        finally:
            self._seats.leave(seat)

    def _opened(self, word: str) -> str:
        """Swap a link's token for a seat, and give out the next link; raises ``SeatError``."""
        seat = self._seats.open(word.removeprefix(LINK))
        self._tell(self.link)
        return seat

    async def _watched(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send pictures and take keys until either ends."""
        news = asyncio.Event()
        self._viewers.add(news)
        self.painted()
        both = [
            asyncio.create_task(self._send(writer, news)),
            asyncio.create_task(self._take(reader, writer)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._viewers.discard(news)
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _send(self, writer: asyncio.StreamWriter, news: asyncio.Event) -> None:
        shown: tuple[Row, ...] = ()
        while True:
            told = False
            with suppress(TimeoutError):
                async with asyncio.timeout(ALIVE):
                    told = await news.wait()
            news.clear()
            now = self._picture
            rows = changed(shown, now) if told else {}
            if rows or not told:
                writer.write(encoded(Opcode.TEXT, self._message(rows, len(now))))
                await _taken(writer)
            shown = now if told else shown

    def _message(self, rows: dict[int, Row], height: int) -> bytes:
        """Return the rows that changed, as JSON; without any it is only a sign of life."""
        ink, ground = self._window.base_colours
        said = {"rows": rows, "height": height, "ink": ink, "ground": ground}
        return _document(said)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            frame = await read_frame(reader)
            if frame.opcode is Opcode.CLOSE:
                writer.write(encoded(Opcode.CLOSE, frame.payload[:2]))
                return
            if frame.opcode is Opcode.PING:
                writer.write(encoded(Opcode.PONG, frame.payload))
            elif frame.opcode is Opcode.TEXT:
                self._window.press(frame.payload.decode("utf-8", "replace"))


def _answer_to(request: Request) -> Answer:
    """Return the answer to a request that is heard."""
    if request.target == FRAMES:
        return handshake(request)
    if request.target not in PAGES:
        return refused(HTTPStatus.NOT_FOUND, "Nothing here.")
    name, kind = PAGES[request.target]
    body = (files(__package__) / "page" / name).read_bytes()
    return Answer(HTTPStatus.OK, body, kind)


def _document(said: dict[str, Any]) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


async def _taken(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(TAKEN_WITHIN):
        await writer.drain()
