"""Writes ``.wandb`` bytes as the client does: for cut, damaged and very large files."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from zlib import crc32

BLOCK = 32768
MAGIC = b":W&B\xe1\xbe\x00"
_SMALL = [bytes([value]) for value in range(128)]


def varint(value: int) -> bytes:
    if 0 <= value < 128:
        return _SMALL[value]
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, payload: bytes | int) -> bytes:
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def items(values: Mapping[str, str], style: int = 2) -> bytes:
    return b"".join(_item(key, text, style) for key, text in values.items())


@lru_cache(1000)
def _item(key: str, text: str, style: int) -> bytes:
    """Most values of a large file are those of the row before."""
    return field(1, field(style, key.encode()) + field(16, text.encode()))


def stamp(at: float) -> bytes:
    return field(1, int(at)) + field(2, round(at % 1 * 1e9))


def record(number: int, kind: int, message: bytes) -> bytes:
    return field(1, number) + field(kind, message)


def history(number: int, values: Mapping[str, str], style: int = 2) -> bytes:
    return record(number, 2, items(values, style) + field(2, b""))


def row(step: int, loss: str | None, at: float, **more: str) -> bytes:
    values = {"global_step": str(step), "_step": str(step), "_timestamp": repr(at), **more}
    if loss is not None:
        values["train/loss"] = loss
    return history(step, values)


def run(run_id: str, started_at: float = 1_700_000_000.0, **texts: str) -> bytes:
    numbers = {"entity": 2, "project": 3, "name": 8}
    message = field(1, run_id.encode())
    for name, text in texts.items():
        message += field(numbers[name], text.encode())
    return record(2, 17, message + field(17, stamp(started_at)))


def stats(at: float) -> bytes:
    return record(9, 7, field(2, stamp(at)) + field(3, field(1, b"cpu") + field(16, b"1.5")))


def exited(code: int) -> bytes:
    return record(10, 18, field(1, code) if code else b"")


def frame(records: Iterable[bytes], at: int = len(MAGIC)) -> bytes:
    """The records as they lie in a log from offset ``at`` on."""
    out = bytearray()
    for payload in records:
        _append(out, at, payload)
    return bytes(out)


def log(records: Iterable[bytes]) -> bytes:
    """A whole file."""
    return MAGIC + frame(records)


def _append(out: bytearray, at: int, payload: bytes) -> None:
    first = True
    left = payload
    while True:
        room = BLOCK - (at + len(out)) % BLOCK
        if room < 7:
            out += bytes(room)
            continue
        part, left = left[: room - 7], left[room - 7 :]
        kind = _kind(first, last=not left)
        out += struct.pack("<IHB", crc32(bytes([kind]) + part), len(part), kind) + part
        first = False
        if not left:
            return


def _kind(first: bool, last: bool) -> int:
    if first:
        return 1 if last else 2
    return 4 if last else 3
