"""The screen as values: what a browser is given to paint."""

from __future__ import annotations

import asyncio
import struct

import pytest
from rich.segment import Segment
from rich.style import Style

from cockpit.app.browser.messages import Request
from cockpit.app.browser.picture import changed, picture
from cockpit.app.browser.served import key_of
from cockpit.app.browser.websocket import (
    MOST_IN,
    BrokenError,
    Frame,
    Opcode,
    encoded,
    handshake,
    read_frame,
    switched,
)

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


def test_wide_signs_count_twice() -> None:
    assert painted(("値a", ""))[0][1] == 3


def test_only_what_changed_is_sent() -> None:
    one, two = picture([[Segment("a")], [Segment("b")]], INK, GROUND)
    assert changed((), (one, two)) == {0: one, 1: two}
    assert changed((one, two), (one, two)) == {}
    assert changed((one, two), (two, two, one)) == {0: two, 2: one}


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


def test_a_browser_s_frame_is_read() -> None:
    assert read(from_browser(b"ArrowUp")) == Frame(Opcode.TEXT, b"ArrowUp")


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


def test_keys_have_the_table_s_names() -> None:
    named = {
        "ArrowUp": "up",
        "Escape": "escape",
        "a": "a",
        " ": "space",
        "/": "slash",
        "?": "question_mark",
    }
    assert {name: found.key for name in named if (found := key_of(name))} == named
