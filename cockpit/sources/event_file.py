"""The format of TensorBoard's event files: a TFRecord of events, taken apart without TensorFlow.

Each record has a length, its checksum, data and their checksum.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from cockpit.sources.wandb.decode import BadMessageError as BadEventError
from cockpit.sources.wandb.decode import fields, varint

__all__ = ["HEAD", "BadEventError", "Event", "Piece", "deframe", "event_of", "starts_well"]

HEAD: Final = 12
FOOT: Final = 4
LARGEST: Final = 64 << 20
"""Bytes of one record at most: images are in there too."""
CHECKED: Final = 512
"""Bytes up to which a record's data is checked: a scalar has some fifty."""
_LENGTH: Final = struct.Struct("<Q")
_CRC: Final = struct.Struct("<I")


def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_TABLE: Final = _table()


def masked_crc(data: bytes) -> int:
    """Return the masked CRC-32C of ``data``."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


_short_crc: Final = functools.lru_cache(1024)(masked_crc)
"""For heads and empty records: a file has few lengths, and each would be summed up anew."""


class Piece(NamedTuple):
    """Whole records in some bytes, where reading goes on, and how many places were damaged.

    ``wants`` is how many bytes from ``offset`` on the next record has, 0 where that is unknown.
    """

    records: list[bytes]
    offset: int
    skipped: int = 0
    wants: int = 0


def deframe(data: bytes, start: int, *, synced: bool = True) -> Piece:
    """Return the whole records in ``data``, the file's bytes from offset ``start`` on.

    Not ``synced``: ``start`` is anywhere, and reading begins at the first record that is found.
    """
    records: list[bytes] = []
    at = skipped = 0
    if not synced:
        at = _next_head(data, 0)
    while at + HEAD <= len(data):
        length = _length(data, at)
        if length is None:
            at, skipped = _next_head(data, at + 1), skipped + 1
            continue
        end = at + HEAD + length + FOOT
        if end > len(data):
            return Piece(records, start + at, skipped, end - at)
        record = data[at + HEAD : end - FOOT]
        summed = masked_crc if length else _short_crc
        if length > CHECKED or _CRC.unpack_from(data, end - FOOT)[0] == summed(record):
            records.append(record)
        else:
            skipped += 1
        at = end
    return Piece(records, start + at, skipped)


def starts_well(data: bytes) -> bool:
    """Tell whether a file that begins so may be one of events; what is cut may be."""
    return len(data) < HEAD or _length(data, 0) is not None


def _length(data: bytes, at: int) -> int | None:
    """Return the length that a record's head tells, ``None`` if there is no head."""
    (length,) = _LENGTH.unpack_from(data, at)
    if length > LARGEST:
        return None
    (crc,) = _CRC.unpack_from(data, at + 8)
    return length if crc == _short_crc(data[at : at + 8]) else None


def _next_head(data: bytes, at: int) -> int:
    """Return where the next record starts; else the end, less what may be half a head."""
    while at + HEAD <= len(data):
        if data[at + 4 : at + 8] == b"\0\0\0\0" and _length(data, at) is not None:
            return at
        at += 1
    return max(0, min(at, len(data)))


_DOUBLE: Final = struct.Struct("<d")
_FLOAT: Final = struct.Struct("<f")
_TYPES: Final = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 4: "<B", 6: "<b", 5: "<h", 19: "<e"}
"""TensorFlow's numbers of types, as ``struct`` spells them."""
_BFLOAT16: Final = 14
_MOST_TAGS: Final = 2000
_LONGEST_TAG: Final = 500

Field = tuple[int, int | bytes]
"""A field's number, and its value: varints as they are, anything else as bytes."""


class Event(NamedTuple):
    """What was logged at one time: figures by tag; none in an event of another kind."""

    at: float | None
    step: int
    scalars: dict[str, float]


def event_of(data: bytes) -> Event:
    """Return an event; raises ``BadEventError``."""
    at, step = None, 0
    scalars: dict[str, float] = {}
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes) and len(value) == 8:
            at = float(_DOUBLE.unpack(value)[0])
        elif number == 2 and isinstance(value, int):
            step = _signed(value)
        elif number == 5 and isinstance(value, bytes):
            scalars.update(_summary(value))
    return Event(at, step, scalars)


def _summary(data: bytes) -> Iterator[tuple[str, float]]:
    for count, (number, value) in enumerate(_fields(data)):
        if count >= _MOST_TAGS:
            return
        if number == 1 and isinstance(value, bytes):
            found = _value(value)
            if found is not None:
                yield found


def _value(data: bytes) -> tuple[str, float] | None:
    tag, figure = "", None
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            tag = value[:_LONGEST_TAG].decode("utf-8", "replace")
        elif number == 2 and isinstance(value, bytes) and len(value) == 4:
            figure = float(_FLOAT.unpack(value)[0])
        elif number == 8 and isinstance(value, bytes):
            figure = _tensor(value)
    return (tag, figure) if tag and figure is not None else None


def _tensor(data: bytes) -> float | None:
    """Return the one figure of a tensor; ``None`` for one of many, of text or of another type."""
    kind, content, listed = 0, b"", None
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in (5, 6, 7, 10, 13):
            listed = _listed(number, value)
    if not content:
        return _bfloat16(listed) if kind == _BFLOAT16 else _half(kind, listed)
    if kind == _BFLOAT16 and len(content) == 2:
        return float(_FLOAT.unpack(b"\0\0" + content)[0])
    form = _TYPES.get(kind)
    if form is None or struct.calcsize(form) != len(content):
        return None
    return float(struct.unpack(form, content)[0])


def _listed(number: int, value: int | bytes) -> float | None:
    """Return the one entry of ``float_val``, ``double_val``, ``int(64)_val`` or ``half_val``."""
    if isinstance(value, int):
        return float(_signed(value))
    form = {5: "<f", 6: "<d"}.get(number)
    if form is None:
        (found, end) = varint(value, 0) if value else (0, -1)
        return float(_signed(found)) if end == len(value) else None
    return float(struct.unpack(form, value)[0]) if struct.calcsize(form) == len(value) else None


def _half(kind: int, listed: float | None) -> float | None:
    """Return an entry of ``half_val`` as the number whose bits it is; others as they are."""
    if kind != 19 or listed is None:
        return listed
    return float(struct.unpack("<e", struct.pack("<H", int(listed) & 0xFFFF))[0])


def _bfloat16(listed: float | None) -> float | None:
    if listed is None:
        return None
    return float(_FLOAT.unpack(struct.pack("<I", (int(listed) & 0xFFFF) << 16))[0])


def _fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message; raises ``BadEventError``."""
    for number, start, end in fields((data, 0, len(data))):
        yield number, start if end < 0 else data[start:end]


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
