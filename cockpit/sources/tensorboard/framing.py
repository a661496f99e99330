"""The framing of an event file (TFRecord): length, its checksum, data, its checksum.

Checksums are CRC-32C, "masked" so that data which holds checksums still has good ones. A record
that is cut at the end of the file is not written yet. Where a checksum does not fit, the records
up to the next place where one does are lost, and counted. Standard library only.
"""

from __future__ import annotations

import functools
import struct
from typing import Final, NamedTuple

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
