"""Listens on loopback: gives the page to whoever was let in, pictures as they change, takes keys.

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
from typing import Final, Protocol

from cockpit.app.browser.door import OPEN, Door, Seats
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
"""Seconds in which a request's head must be here."""
TAKEN_WITHIN: Final = 20.0
"""Seconds in which a viewer must have taken a picture."""
ALIVE: Final = 5.0
"""Seconds between two signs of life: without one the page says that it may show the past."""
AT_ONCE: Final = 64
"""Connections at the same time."""
PAGES: Final = {
    "/": ("view.html", "text/html; charset=utf-8"),
    "/view.js": ("view.js", "text/javascript; charset=utf-8"),
    "/view.css": ("view.css", "text/css; charset=utf-8"),
}
FRAMES: Final = "/frames"
_LET_IN: Final = (
    b'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">'
    b'<title>cockpit</title><a href="/">open</a>\n'
)
"""Not a redirect: a strict cookie would not go along where another page held the link."""
NO_LINK: Final = (
    "This link is no longer valid: each opens once. "
    "The valid one is the last line in the terminal of `cockpit serve`."
)


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
        self._door = Door(seats)
        self._tell = tell
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
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
        return f"http://{LOOPBACK}:{self.port}{OPEN}{self._seats.link}"

    def close(self) -> None:
        """Stop listening, and end with everybody who looks."""
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.close()

    def painted(self) -> None:
        """Show everybody what is painted now."""
        if self._viewers:
            self._picture = self._window.picture()
        for each in self._viewers:
            each.set()

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= AT_ONCE:
            writer.close()
            return
        self._open.add(writer)
        try:
            await self._answer(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, BrokenError):
            pass  # it has gone, or was too slow, or does not keep to what it speaks
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_WITHIN):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            request = request_of(head)
        except ValueError:
            answer = refused(HTTPStatus.BAD_REQUEST, "This is not a request.")
        else:
            answer = self._door.refusal(request) or self._answer_to(request)
        if answer.status is HTTPStatus.SWITCHING_PROTOCOLS:
            writer.write(switched(request))
            await self._watched(reader, writer)
        else:
            writer.write(answer.encoded())
            await _taken(writer)

    def _answer_to(self, request: Request) -> Answer:
        """Return the answer to somebody who may ask."""
        if request.target.startswith(OPEN):
            return self._let_in(request)
        if request.target == FRAMES:
            return handshake(request)
        if request.target not in PAGES:
            return refused(HTTPStatus.NOT_FOUND, "Nothing here.")
        name, kind = PAGES[request.target]
        body = (files(__package__) / "page" / name).read_bytes()
        return Answer(HTTPStatus.OK, body, kind)

    def _let_in(self, request: Request) -> Answer:
        """Swap the token for a cookie; what a browser fetches ahead of a person opens nothing."""
        ahead = "sec-purpose" in request.headers or "purpose" in request.headers
        value = None if ahead else self._seats.open(request.target.removeprefix(OPEN))
        if value is None:
            return refused(HTTPStatus.FORBIDDEN, NO_LINK)
        self._tell(self.link)
        cookie = f"{self._seats.cookie}={value}; Path=/; HttpOnly; SameSite=Strict"
        html = "text/html; charset=utf-8"
        return Answer(HTTPStatus.OK, _LET_IN, html, (("Set-Cookie", cookie),))

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
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()

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


async def _taken(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(TAKEN_WITHIN):
        await writer.drain()
