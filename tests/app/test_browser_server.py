"""Who may look at ``cockpit serve``, and what a picture of the screen holds."""

from __future__ import annotations

import asyncio
import struct
from http import HTTPStatus
from itertools import count

import pytest
from rich.segment import Segment
from rich.style import Style

from cockpit.app.browser_app import key_of
from cockpit.app.browser_picture import picture
from cockpit.app.browser_server import (
    FULL,
    MOST_IN,
    NOWHERE,
    SEATS,
    BrokenError,
    Frame,
    Opcode,
    Request,
    SeatError,
    Seats,
    address_of,
    encoded,
    handshake,
    read_frame,
    refusal,
    request_of,
    switched,
)


def seats() -> Seats:
    numbers = count(1)
    return Seats(lambda: f"token-{next(numbers):03}")


def asked(target: str = "/", method: str = "GET", url: str = "", **more: str) -> HTTPStatus | None:
    headers = {"host": "127.0.0.1:8765"} | {k.replace("_", "-"): v for k, v in more.items()}
    address = address_of(url) if url else NOWHERE
    answer = refusal(Request(method, target, headers), address)
    return None if answer is None else answer.status


def test_a_link_opens_once_and_its_seat_stays() -> None:
    own = seats()
    first = own.link
    seat = own.open(first)
    with pytest.raises(SeatError, match="each opens once"):
        own.open(first)
    assert own.link != first and own.open(own.link) != seat
    assert own.take(seat) == seat == own.take(seat)
    for other in (first, own.link, "", "none", f"é{seat}"):
        with pytest.raises(SeatError, match="earlier `cockpit serve`"):
            own.take(other)


def test_a_seat_that_nobody_looks_from_is_given_to_the_next() -> None:
    own = seats()
    taken = [own.take(own.open(own.link)) for _ in range(SEATS)]
    with pytest.raises(SeatError) as error:
        own.open(own.link)
    assert str(error.value) == FULL
    for each in (taken[5], taken[2]):
        own.leave(each)
    new = own.open(own.link)
    with pytest.raises(SeatError, match="earlier `cockpit serve`"):
        own.take(taken[5])
    assert own.take(taken[2]) == taken[2] and own.take(new) == new


def test_a_seat_with_two_connections_is_kept_while_one_looks() -> None:
    own = seats()
    twice = own.take(own.open(own.link))
    own.take(twice)
    others = [own.take(own.open(own.link)) for _ in range(SEATS - 1)]
    own.leave(twice)
    with pytest.raises(SeatError, match="close one"):
        own.open(own.link)
    own.leave(others[0])
    assert own.open(own.link)


@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD", "OPTIONS", "CONNECT", "get"])
def test_nothing_can_be_sent(method: str) -> None:
    assert asked(method=method) is HTTPStatus.METHOD_NOT_ALLOWED


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:8765", "", "a@127.0.0.1", "[::1", "0"],
)
def test_a_foreign_host_is_refused(host: str) -> None:
    assert asked(host=host) is HTTPStatus.FORBIDDEN
    assert asked("/frames", host=host) is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9000", "[::1]:8765", "localhost"])
def test_a_tunnel_s_end_may_have_another_port(host: str) -> None:
    assert asked(host=host, origin=f"http://{host}") is None


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8765", "http://127.0.0.1:9999"]
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    assert asked("/frames", origin=origin) is HTTPStatus.FORBIDDEN


PROXY = "https://ops.example/cockpit/"


@pytest.mark.parametrize(
    "host", ["ops.example", "OPS.example", "ops.example:443", "127.0.0.1:8765"]
)
def test_a_proxy_asks_by_its_own_name_or_by_one_of_this_machine(host: str) -> None:
    assert asked(url=PROXY, host=host) is None
    assert asked("/frames", url=PROXY, host=host, origin="https://ops.example") is None


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("ops.example", "http://ops.example"),
        ("ops.example", "https://ops.example.evil.example"),
        ("ops.example", "https://ops.example:8443"),
        ("ops.example", "null"),
        ("ops.example:8080", "https://ops.example"),
        ("evil.example", "https://ops.example"),
        ("127.0.0.1:8765", "https://evil.example"),
        ("127.0.0.1:8765", "http://127.0.0.1:1"),
    ],
)
def test_behind_a_proxy_another_page_is_refused_too(host: str, origin: str) -> None:
    own = {"x_forwarded_host": "ops.example", "x_forwarded_proto": "https"}
    assert asked("/frames", url=PROXY, host=host, origin=origin, **own) is HTTPStatus.FORBIDDEN


def test_without_an_address_no_name_of_a_proxy_counts() -> None:
    assert asked(host="ops.example", x_forwarded_host="127.0.0.1") is HTTPStatus.FORBIDDEN
    assert asked(origin="https://ops.example") is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://ops.example", "https://ops.example", "/"),
        ("https://OPS.example:443/a/b", "https://ops.example", "/a/b/"),
        ("https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443", "/"),
    ],
)
def test_an_address_is_an_origin_and_a_path(url: str, origin: str, path: str) -> None:
    found = address_of(url)
    assert (found.origin, found.path) == (origin, path)


@pytest.mark.parametrize(
    "url",
    ["http://ops.example/", "ops.example", "https://", "https://a@ops.example/", "https://a/?b",
     "https://a/#b", "https://a:port/", "https://a/<b>"],
)  # fmt: skip
def test_what_is_no_address_of_an_https_proxy_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        address_of(url)


def test_headers_that_decide_nothing_may_come_twice() -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: b\r\nx-forwarded-for: c\r\n\r\n"
    assert request_of(head).headers == {"host": "a", "x-forwarded-for": "b, c"}


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nhost: evil\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n",
        b"GET http://evil/ HTTP/1.1\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_a_head_that_is_none_is_refused(head: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        request_of(head)


INK, GROUND = "#eeeeee", "#111111"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def painted(*pieces: tuple[str, str]) -> list[tuple[object, ...]]:
    strip = [Segment(text, Style.parse(style)) for text, style in pieces]
    return list(picture([strip], INK, GROUND)[0])


def test_neighbours_of_one_look_are_one_run() -> None:
    red = ("#ff0000", GROUND, "b")
    assert painted(("a", "bold #ff0000"), ("b", "bold #ff0000"), ("", "bold"), ("c", "")) == [
        ("ab", 2, *red), ("c", 1, INK, GROUND, ""),
    ]  # fmt: skip


def test_reverse_and_dim_are_colours_by_then() -> None:
    assert painted(("a", "reverse")) == [("a", 1, GROUND, INK, "")]
    assert painted(("a", "dim")) == [("a", 1, "#808080", GROUND, "")]
    assert painted(("a", "italic underline strike red on #000001")) == [
        ("a", 1, "#800000", "#000001", "ius")
    ]


def read(data: bytes) -> Frame:
    async def go() -> Frame:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await read_frame(reader)

    return asyncio.run(go())


def from_browser(payload: bytes, first: int = 0x81) -> bytes:
    mask = b"\x01\x02\x03\x04"
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return struct.pack("!BB", first, 0x80 | len(payload)) + mask + masked


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x05hello",  # unmasked
        from_browser(b"a", 0x01),  # to be continued
        from_browser(b"a", 0xC1),  # with an extension that nobody agreed to
        from_browser(b"a", 0x83),  # of an unknown kind
        b"\x81" + bytes([0x80 | 126]) + struct.pack("!H", MOST_IN + 1),
    ],
)
def test_a_frame_that_breaks_the_rules_ends_it(data: bytes) -> None:
    with pytest.raises(BrokenError):
        read(data)


@pytest.mark.parametrize("size", [0, 125, 126, 70_000])
def test_our_frames_tell_their_length(size: int) -> None:
    frame = encoded(Opcode.TEXT, b"x" * size)
    head = {0: b"\x81\x00", 125: b"\x81\x7d", 126: b"\x81\x7e\x00\x7e"}
    assert frame.startswith(head.get(size, b"\x81\x7f" + struct.pack("!Q", size)))
    assert frame.endswith(b"x" * size)


def test_the_handshake_is_the_standard_s() -> None:
    """The key and its answer are the example of RFC 6455."""
    headers = {"upgrade": "websocket", "sec-websocket-key": KEY, "sec-websocket-version": "13"}
    request = Request("GET", "/frames", {**headers, "origin": "http://127.0.0.1"})
    assert handshake(request).status == 101
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in switched(request)
    assert handshake(Request("GET", "/frames", headers)).status == 403
    for name, value in (("upgrade", "h2c"), ("sec-websocket-key", "short")):
        assert handshake(request._replace(headers=request.headers | {name: value})).status == 400
    old = request.headers | {"sec-websocket-version": "8"}
    assert handshake(request._replace(headers=old)).status == 426


@pytest.mark.parametrize("name", ["", "F5", "Control", "ab", "\x1b", "\x03", "ctrl+c", "\u200b"])
def test_what_is_no_key_for_looking_is_not_heard(name: str) -> None:
    assert key_of(name) is None
