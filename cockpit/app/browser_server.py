"""The listener of ``cockpit serve``: HTTP and WebSocket on loopback, and who may look.

The page itself holds nothing and goes to anybody; pictures go over a WebSocket to whoever has a
seat. A link opens once, and the tab it opened keeps a seat in its ``sessionStorage``, which belongs
to one port (cookies would go to every port of the host). All that a viewer sends is bounded: heads,
frames, their number, and the seconds each may take. A slow viewer gets fewer pictures, never a
queue.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import secrets
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import IntEnum
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from rich.cells import cell_len
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style

MOST_HEAD: Final = 16 * 1024
"""Bytes of a request's head; a longer one is refused."""
TEXT: Final = "text/plain; charset=utf-8"
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
GUARDS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Connection": "close",
}
"""Headers of every answer: nothing from outside is loaded, nothing is kept or framed."""


class Request(NamedTuple):
    """A request's first line and headers, their names in small letters."""

    method: str
    target: str
    headers: dict[str, str]


class Answer(NamedTuple):
    """A whole answer; ``more`` are headers beside ``GUARDS``."""

    status: HTTPStatus
    body: bytes
    kind: str = TEXT
    more: tuple[tuple[str, str], ...] = ()

    def encoded(self) -> bytes:
        """Return the answer as bytes."""
        own = {"Content-Type": self.kind, "Content-Length": str(len(self.body))}
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in (*(GUARDS | own).items(), *self.more)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def refused(status: HTTPStatus, why: str) -> Answer:
    """Return a refusal: one line that says why."""
    allowed = (("Allow", "GET"),) if status is HTTPStatus.METHOD_NOT_ALLOWED else ()
    return Answer(status, f"{why}\n".encode(), more=allowed)


def request_of(head: bytes) -> Request:
    """Return the request of a head that ends with an empty line; raises ``ValueError``."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1.") or not target.startswith("/"):
        raise ValueError("not a request of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        known = name.lower()
        if not colon or name != name.strip() or known in headers:
            raise ValueError("a header that is none, or twice")
        headers[known] = value.strip()
    return Request(method, target, headers)


NAMES: Final = frozenset(("127.0.0.1", "localhost", "::1"))
"""The names of this machine by which a browser, or an ssh tunnel's end, may ask."""
SEATS: Final = 32
"""Tabs that may look at the same time."""
USED: Final = (
    "This link is no longer valid: each opens once. "
    "The valid one is the last line in the terminal of `cockpit serve`."
)
NO_SEAT: Final = (
    "This tab was opened by an earlier `cockpit serve`, or by none. "
    "Open the link that stands last in its terminal."
)
FULL: Final = f"{SEATS} tabs are looking already: close one, then open this link again."


def refusal(request: Request) -> Answer | None:
    """Return why a request is not heard, or ``None``."""
    if request.method != "GET":
        return refused(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET: nothing can be sent here.")
    host = request.headers.get("host", "")
    if not _of_this_machine(host):
        said = "Ask as 127.0.0.1 or localhost; through a tunnel too."
        return refused(HTTPStatus.FORBIDDEN, said)
    if request.headers.get("origin", f"http://{host}") != f"http://{host}":
        return refused(HTTPStatus.FORBIDDEN, "Another page may not ask here.")
    return None


class SeatError(Exception):
    """Somebody may not look; the message says why."""


class Seats:
    """The link that still opens, and the seats of those whom one has let in."""

    def __init__(self, make: Callable[[], str] = secrets.token_urlsafe) -> None:
        self._make = make
        self.link = make()
        """The token that still opens."""
        self._looking: dict[str, int] = {}
        """Connections of each seat; the one that was left longest ago comes first."""

    def open(self, token: str) -> str:
        """Return a new seat for the token that still opens, which then opens no more.

        Where all seats are given away, the one that was left longest ago is given anew. Raises
        ``SeatError``.
        """
        if not secrets.compare_digest(token.encode(), self.link.encode()):
            raise SeatError(USED)
        if len(self._looking) >= SEATS:
            empty = next((seat for seat, count in self._looking.items() if not count), None)
            if empty is None:
                raise SeatError(FULL)
            del self._looking[empty]
        self.link, seat = self._make(), self._make()
        self._looking[seat] = 0
        return seat

    def take(self, given: str) -> str:
        """Return the seat that was given to a tab, now looked from; raises ``SeatError``."""
        for seat in self._looking:
            if secrets.compare_digest(given.encode(), seat.encode()):
                self._looking[seat] += 1
                return seat
        raise SeatError(NO_SEAT)

    def leave(self, seat: str) -> None:
        """Note that one connection of a seat has ended."""
        if seat in self._looking:
            self._looking[seat] = self._looking.pop(seat) - 1


def _of_this_machine(host: str) -> bool:
    """Return whether ``Host`` names this machine; its port may be a tunnel's own."""
    try:
        return urlsplit(f"//{host}").hostname in NAMES and "@" not in host
    except ValueError:
        return False


_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MOST_IN: Final = 125
"""Bytes that a browser may send at once: a key's name is short."""
VERSION: Final = "13"


class Opcode(IntEnum):
    """Kinds of frames."""

    TEXT = 1
    CLOSE = 8
    PING = 9
    PONG = 10


class Frame(NamedTuple):
    """One whole frame."""

    opcode: Opcode
    payload: bytes


class BrokenError(Exception):
    """The other side does not keep to the protocol, or to our bounds."""


def handshake(request: Request) -> Answer:
    """Return the answer to a request for a WebSocket: the switch, or why not."""
    headers = request.headers
    key = headers.get("sec-websocket-key", "")
    if headers.get("upgrade", "").lower() != "websocket" or not _is_key(key):
        return refused(HTTPStatus.BAD_REQUEST, "This address is for a WebSocket.")
    if "origin" not in headers:
        return refused(HTTPStatus.FORBIDDEN, "A WebSocket is opened by our own page alone.")
    if headers.get("sec-websocket-version") != VERSION:
        return refused(HTTPStatus.UPGRADE_REQUIRED, "WebSocket version 13 is needed.")
    return Answer(HTTPStatus.SWITCHING_PROTOCOLS, b"")


def switched(request: Request) -> bytes:
    """Return the bytes that switch a connection over."""
    key = request.headers["sec-websocket-key"].encode()
    accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n\r\n"
    ).encode()


def encoded(opcode: Opcode, payload: bytes) -> bytes:
    """Return a frame of ours: whole, unmasked."""
    size, first = len(payload), 0x80 | opcode
    if size <= 125:
        return struct.pack("!BB", first, size) + payload
    if size < 1 << 16:
        return struct.pack("!BBH", first, 126, size) + payload
    return struct.pack("!BBQ", first, 127, size) + payload


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Return a browser's next frame; raises ``BrokenError``, and ``EOFError`` at the end."""
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if not first & 0x80 or first & 0x70 or not second & 0x80 or size > MOST_IN:
        raise BrokenError("a frame that is cut, unmasked or too long")
    mask = await reader.readexactly(4)
    masked = await reader.readexactly(size)
    try:
        opcode = Opcode(first & 0x0F)
    except ValueError:
        raise BrokenError("a frame of an unknown kind") from None
    return Frame(opcode, bytes(byte ^ mask[at % 4] for at, byte in enumerate(masked)))


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False


Run = tuple[str, int, str, str, str]
Row = tuple[Run, ...]
Picture = tuple[Row, ...]
DIMMED: Final = 0.5
"""How far dim ink goes toward its background."""


def picture(strips: Iterable[Iterable[Segment]], ink: str, ground: str) -> Picture:
    """Return the rows; ``ink`` and ``ground`` (``#rrggbb``) are the default colours."""
    return tuple(_row(strip, ink, ground) for strip in strips)


def changed(shown: Sequence[Row], now: Sequence[Row]) -> dict[int, Row]:
    """Return the rows that differ from what is shown, by their place."""
    return {y: row for y, row in enumerate(now) if y >= len(shown) or shown[y] != row}


def _row(strip: Iterable[Segment], ink: str, ground: str) -> Row:
    runs: list[Run] = []
    for text, style, control in strip:
        if control or not text:
            continue
        look = _colours_of(style or Style.null(), ink, ground)
        if runs and runs[-1][2:] == look:
            text = runs.pop()[0] + text
        runs.append((text, cell_len(text), *look))
    return tuple(runs)


def _colours_of(style: Style, ink: str, ground: str) -> tuple[str, str, str]:
    fore, back = _hex(style.color, ink), _hex(style.bgcolor, ground)
    if style.reverse:
        fore, back = back, fore
    if style.dim:
        fore = _between(fore, back)
    marks = (("b", style.bold), ("i", style.italic), ("u", style.underline), ("s", style.strike))
    return fore, back, "".join(letter for letter, is_set in marks if is_set)


def _hex(color: Color | None, otherwise: str) -> str:
    return otherwise if color is None or color.is_default else color.get_truecolor().hex


def _between(fore: str, back: str) -> str:
    one, other = (bytes.fromhex(each[1:]) for each in (fore, back))
    mixed = (round(a + (b - a) * DIMMED) for a, b in zip(one, other, strict=True))
    return ColorTriplet(*mixed).hex


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
    """One listener on loopback; ``tell`` is called when somebody was let in."""

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
        self._server = await asyncio.start_server(self._read_head, LOOPBACK, port, limit=MOST_HEAD)
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

    async def _read_head(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            news_came = False
            with suppress(TimeoutError):
                async with asyncio.timeout(ALIVE):
                    news_came = await news.wait()
            news.clear()
            now = self._picture
            rows = changed(shown, now) if news_came else {}
            if rows or not news_came:
                ink, ground = self._window.base_colours
                update = {"rows": rows, "height": len(now), "ink": ink, "ground": ground}
                writer.write(encoded(Opcode.TEXT, _document(update)))
                await _taken(writer)
            shown = now if news_came else shown

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
