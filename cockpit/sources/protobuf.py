"""A walk over protobuf's wire format, without schema or library: only what is asked for."""

from __future__ import annotations

from collections.abc import Iterator


class BadMessageError(ValueError):
    """The bytes are not the message that they should be."""


def varint(buffer: bytes, at: int) -> tuple[int, int]:
    """Return the varint at ``at`` and where it ends."""
    value = shift = 0
    try:
        while True:
            byte = buffer[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
            shift += 7
            if shift > 63:
                raise BadMessageError("a number of more than ten bytes")
    except IndexError:
        raise BadMessageError("the record ends inside a number") from None


def fields(span: tuple[bytes, int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield ``(field number, start, end)`` of each field of a message.

    A varint is ``(field number, value, -1)``. Raises ``BadMessageError`` where the bytes are no
    message.
    """
    buffer, at, end = span
    while at < end:
        tag, at = varint(buffer, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(buffer, at)
            yield tag >> 3, value, -1
            continue
        if wire == 2:
            length, at = varint(buffer, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise BadMessageError(f"wire type {wire}")
        if at + length > end:
            raise BadMessageError("a field is longer than its record")
        yield tag >> 3, at, at + length
        at += length
