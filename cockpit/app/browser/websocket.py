"""The WebSocket protocol (RFC 6455) as far as this needs it: short texts in, texts out. Pure."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import struct
from enum import IntEnum
from http import HTTPStatus
from typing import Final, NamedTuple

from cockpit.app.browser.messages import Answer, Request, refused

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
