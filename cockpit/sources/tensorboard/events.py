"""An event's scalars, taken out of its bytes without its schema's library.

``Event``: wall_time (1, double), step (2, varint), file_version (3), summary (5). ``Summary``:
value (1), each with tag (1), simple_value (2, float), tensor (8) and metadata (9). Since
TensorFlow 2 a scalar is a tensor without dimensions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from cockpit.sources.protobuf import BadMessageError as BadEventError
from cockpit.sources.protobuf import fields, varint

__all__ = ["BadEventError", "Event", "event_of"]

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
