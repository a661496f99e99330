"""The listener of ``cockpit serve``: HTTP and WebSocket on loopback, and who may look.

The page itself holds nothing and goes to anybody; pictures go over a WebSocket to whoever has a
seat. A link opens once, and the tab it opened keeps a seat in its ``sessionStorage``, which belongs
to one port (cookies would go to every port of the host). All that a viewer sends is bounded: heads,
frames, their number, and the seconds each may take. A slow viewer gets fewer pictures, never a
queue.

The screen has the size of one viewer's window: of the one who did something last.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import re
import secrets
import struct
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from cockpit.app.browser_picture import Picture, Row, changed

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


ONCE: Final = frozenset(
    ("host", "origin", "upgrade", "content-length", "transfer-encoding", "sec-websocket-key",
     "sec-websocket-version", "x-cockpit-token")
)  # fmt: skip
"""Headers that decide something: of two of them nobody knows which one a proxy has looked at."""


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
        if not colon or name != name.strip() or (known in headers and known in ONCE):
            raise ValueError("a header that is none, or twice")
        former = f"{headers[known]}, " if known in headers else ""
        headers[known] = former + value.strip()
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


class Address(NamedTuple):
    """Where a proxy offers the page, such as ``https://ops.example/cockpit/``; empty: nowhere.

    ``token`` is what the proxy sends with each request of somebody whom it has let in. Nothing
    else that a proxy says of a request is believed (``X-Forwarded-For`` and its kin).
    """

    host: str = ""
    path: str = "/"
    token: str = ""

    @property
    def origin(self) -> str:
        """The origin of its page."""
        return f"https://{self.host}" if self.host else ""

    def vouches(self, request: Request) -> bool:
        """Return whether the proxy has let in who asks."""
        given = request.headers.get("x-cockpit-token", "")
        knows = bool(self.token) and secrets.compare_digest(given.encode(), self.token.encode())
        return knows and request.headers.get("origin") == self.origin


def address_of(url: str, token: str = "") -> Address:
    """Return the address of a proxy; raises ``ValueError`` where the URL is not one to open."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or "@" in parts.netloc:
        raise ValueError("expected https://HOST/ or https://HOST/PATH/")
    if parts.query or parts.fragment or not re.fullmatch(r"[\w./~-]*", parts.path, re.ASCII):
        raise ValueError("expected a path of letters, digits and . _ ~ - alone")
    port = "" if parts.port in (None, 443) else f":{parts.port}"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Address(host + port, f"/{parts.path.strip('/')}/".replace("//", "/"), token)


NOWHERE: Final = Address()


def refusal(request: Request, address: Address = NOWHERE) -> Answer | None:
    """Return why a request is not heard, or ``None``.

    A proxy hands on the name by which it was asked, or asks by a name of this machine.
    """
    if request.method != "GET":
        return refused(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET: nothing can be sent here.")
    host = request.headers.get("host", "")
    here = _of_this_machine(host)
    if not here and (not address.host or host.lower() not in (address.host, f"{address.host}:443")):
        said = "Ask as 127.0.0.1 or localhost; through a tunnel too."
        return refused(HTTPStatus.FORBIDDEN, said)
    allowed = {f"http://{host}" if here else "", address.origin} - {""}
    if request.headers.get("origin", address.origin or f"http://{host}") not in allowed:
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
        seat = self.give()
        self.link = self._make()
        return seat

    def give(self) -> str:
        """Return a new seat, for somebody who may look; raises ``SeatError``."""
        if len(self._looking) >= SEATS:
            empty = next((seat for seat, count in self._looking.items() if not count), None)
            if empty is None:
                raise SeatError(FULL)
            del self._looking[empty]
        seat = self._make()
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
_PLACED: Final = re.compile(r"(size|tap) ([0-9]{1,4})x([0-9]{1,4})", re.ASCII)
"""What else a tab says than a key's name: the cells of its window, and the cell that was tapped."""
APART: Final = 0.01
"""Seconds between two words of a viewer that are heard: who floods us waits."""
Size = tuple[int, int]
"""Columns and rows."""


class Window(Protocol):
    """What is looked at."""

    def picture(self) -> Picture:
        """Return what stands on the screen."""

    def about(self) -> dict[str, object]:
        """Return what else a page shows of it: its size, its colours, what is critical, keys."""

    def press(self, name: str) -> None:
        """Take a key by its browser's name."""

    def tap(self, column: int, row: int) -> None:
        """Take a click on a cell."""

    def fit(self, size: Size) -> None:
        """Take the size of a viewer's window, as far as it can."""


class Viewer:
    """One connection of a seat."""

    def __init__(self, seat: str) -> None:
        self.seat = seat
        self.news = asyncio.Event()
        self.size: Size | None = None
        """Its window's; unknown before it says so."""


class Server:
    """One listener on loopback; ``tell`` is called when somebody was let in."""

    def __init__(
        self,
        window: Window,
        seats: Seats,
        tell: Callable[[str], object],
        address: Address = NOWHERE,
    ) -> None:
        self._window = window
        self._seats = seats
        self._tell = tell
        self._address = address
        self._server: asyncio.Server | None = None
        self._waiting: dict[asyncio.StreamWriter, None] = {}
        """Connections without a seat, the oldest first."""
        self._seated: set[asyncio.StreamWriter] = set()
        self._viewers: set[Viewer] = set()
        self._sizes: dict[str, Size] = {}
        """The windows of seats; the one who did something last stands last."""
        self._picture: Picture = ()
        self.port = 0

    async def listen(self, port: int) -> None:
        """Listen on a port (0: a free one); raises ``OSError``."""
        self._server = await asyncio.start_server(self._read_head, LOOPBACK, port, limit=MOST_HEAD)
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def link(self) -> str:
        """The link that opens once."""
        here = f"http://{LOOPBACK}:{self.port}/"
        page = f"{self._address.origin}{self._address.path}" if self._address.host else here
        return f"{page}#{self._seats.link}"

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
            each.news.set()

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
            answer = refusal(request, self._address) or _answer_to(request, self._address.path)
        if answer.status is HTTPStatus.SWITCHING_PROTOCOLS:
            writer.write(switched(request))
            await self._seat(reader, writer, self._address.vouches(request))
        else:
            writer.write(answer.encoded())
            await _taken(writer)

    async def _seat(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, let_in: bool
    ) -> None:
        """Hear the tab's first word: its seat, or a link that gives it one; then show pictures.

        Whom the proxy has ``let_in`` needs neither.
        """
        async with asyncio.timeout(HEAD_WITHIN):
            frame = await read_frame(reader)
        word = frame.payload.decode("utf-8", "replace") if frame.opcode is Opcode.TEXT else ""
        try:
            seat = self._taken_seat(word, let_in)
        except SeatError as error:
            writer.write(encoded(Opcode.TEXT, _document({"refused": str(error)})))
            await _taken(writer)
            return
        self._waiting.pop(writer, None)
        self._seated.add(writer)
        try:
            writer.write(encoded(Opcode.TEXT, _document({"seat": seat})))
            await self._watched(reader, writer, Viewer(seat))
        finally:
            self._seats.leave(seat)

    def _taken_seat(self, word: str, let_in: bool) -> str:
        """Return a seat for a tab's first word; raises ``SeatError``."""
        try:
            if not word.startswith(LINK):
                return self._seats.take(word)
            seat = self._seats.open(word.removeprefix(LINK))
            self._tell(self.link)
        except SeatError:
            if not let_in:
                raise
            seat = self._seats.give()
        return self._seats.take(seat)

    async def _watched(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, viewer: Viewer
    ) -> None:
        """Send pictures and take keys until either ends."""
        self._viewers.add(viewer)
        self.painted()
        both = [
            asyncio.create_task(self._send(writer, viewer)),
            asyncio.create_task(self._take(reader, writer, viewer)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._viewers.discard(viewer)
            self._fit()
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _send(self, writer: asyncio.StreamWriter, viewer: Viewer) -> None:
        shown: tuple[Row, ...] = ()
        said: dict[str, object] = {}
        while True:
            news_came = False
            with suppress(TimeoutError):
                async with asyncio.timeout(ALIVE):
                    news_came = await viewer.news.wait()
            viewer.news.clear()
            now, about = self._picture, self._window.about()
            rows = changed(shown, now)  # news may come in the moment in which the wait ends
            if rows or about != said or not news_came:
                update = {"rows": rows, "height": len(now), **about}
                writer.write(encoded(Opcode.TEXT, _document(update)))
                await _taken(writer)
            shown, said = now, about

    def _heard(self, viewer: Viewer, word: str) -> None:
        """Take a word of a viewer: the size of a window, a tap, else a key."""
        placed = _PLACED.fullmatch(word)
        where = (int(placed[2]), int(placed[3])) if placed else (0, 0)
        if placed and placed[1] == "size":
            viewer.size = where
            if self._sizes.get(viewer.seat) == where:
                self._fit()  # a tab that is back has done nothing
                return
        elif placed:
            self._window.tap(*where)
        else:
            self._window.press(word)
        if viewer.size is not None:
            self._sizes.pop(viewer.seat, None)
            self._sizes[viewer.seat] = viewer.size
            self._sizes = dict([*self._sizes.items()][-SEATS:])
            self._fit()

    def _fit(self) -> None:
        """Give the screen the window of the one who did something last and still looks."""
        looking = {each.seat for each in self._viewers}
        last = [size for seat, size in self._sizes.items() if seat in looking][-1:]
        if last:
            self._window.fit(last[0])

    async def _take(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, viewer: Viewer
    ) -> None:
        while True:
            frame = await read_frame(reader)
            if frame.opcode is Opcode.CLOSE:
                writer.write(encoded(Opcode.CLOSE, frame.payload[:2]))
                return
            if frame.opcode is Opcode.PING:
                writer.write(encoded(Opcode.PONG, frame.payload))
            elif frame.opcode is Opcode.TEXT:
                self._heard(viewer, frame.payload.decode("utf-8", "replace"))
            await asyncio.sleep(APART)


def _answer_to(request: Request, path: str = "/") -> Answer:
    """Return the answer to a request that is heard; a proxy may leave its ``path`` before ours."""
    target = request.target
    if target == path.removesuffix("/") != "":
        there = (("Location", path),)
        return Answer(HTTPStatus.PERMANENT_REDIRECT, b"", more=there)
    if target.startswith(path):
        target = f"/{target.removeprefix(path)}"
    if target == FRAMES:
        return handshake(request)
    if target not in PAGES:
        return refused(HTTPStatus.NOT_FOUND, "Nothing here.")
    name, kind = PAGES[target]
    body = (files(__package__) / "page" / name).read_bytes()
    return Answer(HTTPStatus.OK, body, kind)


def _document(said: dict[str, Any]) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


async def _taken(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(TAKEN_WITHIN):
        await writer.drain()
