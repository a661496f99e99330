"""The records of a ``.wandb`` file, and the rows among them.

Protobuf's wire format is walked over without schema or library, and only where needed (event files
of TensorBoard are, too). Of a row only the keys that matter are found.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from cockpit.model.base import step_of
from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.model.trend import timed_steps
from cockpit.sources.metric_keys import (
    WANDB_TIME,
    MetricKeys,
    choose,
    evaluates,
    interesting,
    true_time,
)
from cockpit.sources.wandb.file import Span


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


HISTORY, SUMMARY, OUTPUT, CONFIG, STATS = 2, 3, 4, 5, 7
OUTPUT_RAW, RUN, EXIT, HEADER, ENVIRONMENT = 13, 17, 18, 21, 26
_KINDS = frozenset((*range(2, 14), 17, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 100))
_DEPTH = 20
_NUMBER = 8


class RunInfo(NamedTuple):
    """What the run record says; empty strings of the file are ``None`` here."""

    id: str | None
    entity: str | None
    project: str | None
    name: str | None
    started_at: float | None
    git_commit: str | None
    client: str | None
    config: dict[str, object]


class Environment(NamedTuple):
    """What the environment record says."""

    git_commit: str | None
    slurm: dict[str, str]


class Item(NamedTuple):
    """One metric of a row: its dotted name, the bytes that its key is made of, its JSON text."""

    name: str
    key: bytes
    value: bytes


def kind_of(span: Span) -> tuple[int, Span]:
    """Return which record this is (a field number such as ``HISTORY``) and its message.

    ``(0, span)`` if it is none that is known, or not a record at all.
    """
    return _usual_record(span) or _any_record(span)


def _usual_record(span: Span) -> tuple[int, Span] | None:
    """Read a record that is its number and then its message, as nearly all are; else ``None``."""
    buffer, at, end = span
    if end - at < 4 or buffer[at] != _NUMBER:
        return None
    at += 2
    while at < end and buffer[at - 1] > 127:
        at += 1
    if at + 1 >= end or buffer[at] > 127 or buffer[at] & 7 != 2:
        return None
    kind, size, start = buffer[at] >> 3, buffer[at + 1], at + 2
    if size > 127 and start < end and buffer[start] < 128:
        size, start = size & 127 | buffer[start] << 7, start + 1
    if size > 127 and start + size != end:
        return None
    return (kind, (buffer, start, start + size)) if kind in _KINDS and start + size <= end else None


def _any_record(span: Span) -> tuple[int, Span]:
    buffer = span[0]
    try:
        for number, start, end in fields(span):
            if number in _KINDS and end >= 0:
                return number, (buffer, start, end)
    except BadMessageError:
        return 0, span
    return 0, span


def items(message: Span) -> Iterator[Item]:
    """Yield the metrics of a history, summary or config record, as they lie in the file."""
    buffer = message[0]
    for number, start, end in fields(message):
        if number == 1 and end >= 0:
            yield _item((buffer, start, end))


def _item(message: Span) -> Item:
    buffer, start, _ = message
    names: list[str] = []
    value = b"null"
    key_end = start
    for number, at, end in fields(message):
        if end < 0:
            continue
        if number in (1, 2):
            names.append(buffer[at:end].decode("utf-8", "replace"))
            key_end = end
        elif number == 16:
            value = buffer[at:end]
    return Item(".".join(names), buffer[start:key_end], value)


def history(message: Span) -> dict[str, object]:
    """Return a history row as ``{dotted name: value}``; nested objects are flattened."""
    row: dict[str, object] = {}
    for item in items(message):
        _flatten(item.name, json_value(item.value), row, 0)
    step = None if "_step" in row else _message_in(message, 2)
    if step is not None:
        row["_step"] = _number_in(step, 1) or 0
    return row


def _flatten(name: str, value: object, row: dict[str, object], depth: int) -> None:
    if isinstance(value, dict) and "_type" not in value and depth < _DEPTH:
        for key, inner in value.items():
            _flatten(f"{name}.{key}", inner, row, depth + 1)
    else:
        row[name] = value


def json_value(text: bytes) -> object:
    """Return the JSON value, ``None`` where the text is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def number(text: bytes) -> float | None:
    """Return the number that JSON text holds (NaN and infinities too), or ``None``.

    The strings ``"NaN"`` and ``"Infinity"``, which some writers use, count as numbers.
    """
    try:
        return float(text)
    except ValueError:
        pass
    if text.strip(b'"') in (b"NaN", b"Infinity", b"-Infinity"):
        return float(text.strip(b'"'))
    return None


def run_info(message: Span) -> RunInfo:
    """Decode a run record."""
    buffer = message[0]
    texts: dict[int, str] = {}
    inner: dict[int, Span] = {}
    for field, start, end in fields(message):
        if end < 0:
            continue
        inner[field] = (buffer, start, end)
        if field in (1, 2, 3, 8):
            texts[field] = _text(buffer, start, end)
    return RunInfo(
        id=texts.get(1) or None,
        entity=texts.get(2) or None,
        project=texts.get(3) or None,
        name=texts.get(8) or None,
        started_at=timestamp(inner[17]) if 17 in inner else None,
        git_commit=_text_in(inner.get(21), 2),
        client=_text_in(inner.get(19), 5),
        config=config_update(inner[4]) if 4 in inner else {},
    )


def config_update(message: Span) -> dict[str, object]:
    """Decode a config record's updates as ``{dotted key: value}``, without the client's own."""
    changes = {item.name: json_value(item.value) for item in items(message)}
    return {key: value for key, value in changes.items() if not key.startswith("_wandb")}


def environment(message: Span) -> Environment:
    """Decode an environment record: the commit, and the Slurm variables of the process."""
    buffer = message[0]
    commit = None
    slurm: dict[str, str] = {}
    for field, start, end in fields(message):
        if field == 9 and end >= 0:
            commit = _text_in((buffer, start, end), 2)
        elif field == 27 and end >= 0:
            entry = (buffer, start, end)
            slurm[_text_in(entry, 1) or ""] = _text_in(entry, 2) or ""
    return Environment(commit, slurm)


def exit_code(message: Span) -> int:
    """Decode an exit record's code (0 is not written)."""
    code = _number_in(message, 1) or 0
    return code - (1 << 64) if code >= 1 << 63 else code


def producer(message: Span) -> str | None:
    """Decode a header record's client version (before 0.18 it holds none)."""
    return _text_in(_message_in(message, 1), 1)


def record_time(kind: int, message: Span) -> float | None:
    """Return when a stats or console record was made, seconds since the epoch."""
    made = _message_in(message, 2) if kind in (STATS, OUTPUT, OUTPUT_RAW) else None
    return None if made is None else timestamp(made)


def timestamp(message: Span) -> float:
    """Decode a protobuf timestamp."""
    seconds = _number_in(message, 1) or 0
    return seconds + (_number_in(message, 2) or 0) / 1e9


def _number_in(message: Span, wanted: int) -> int | None:
    for field, value, end in fields(message):
        if field == wanted and end < 0:
            return value
    return None


def _text_in(message: Span | None, wanted: int) -> str | None:
    text = None if message is None else _message_in(message, wanted)
    return None if text is None else _text(*text) or None


def _message_in(message: Span, wanted: int) -> Span | None:
    """Return the first field of that number that has a length: a message or a text."""
    for field, start, end in fields(message):
        if field == wanted and end >= 0:
            return message[0], start, end
    return None


def _text(buffer: bytes, start: int, end: int) -> str:
    return buffer[start:end].decode("utf-8", "replace")


VALUE = b"\x82\x01"
"""What stands between an item's key and the length of its value."""
_OF_EACH_SHAPE, _SHAPES = 3, 60

Needles = tuple[bytes, ...]


class KeyLayout:
    """How one file spells its keys, learned from some of its rows; its size is bounded.

    ``rows`` holds the interesting names of learned rows. ``keys`` maps a name to the bytes
    of its key; a name that only exists inside a JSON object has none. ``style`` is the field
    number of keys in this file (1 before wandb 0.18, then 2), 0 while unknown.
    """

    def __init__(self, configured: MetricNames) -> None:
        self.rows: list[frozenset[str]] = []
        self.keys: dict[str, bytes | None] = {}
        self.style = 0
        self._configured = configured
        self._seen: Counter[int] = Counter()

    def notice(self, message: Span) -> None:
        """Learn from a history row, unless rows of as many items were learned before.

        It costs next to nothing on a row that looks like the others, so that it can be done
        for every row: a metric that is only logged now and then is found as well.
        """
        buffer, start, end = message
        items_in_row = buffer.count(VALUE, start, end)
        if self._seen[items_in_row] >= _OF_EACH_SHAPE or len(self._seen) > _SHAPES:
            return
        self._seen[items_in_row] += 1
        try:
            self._learn(message)
        except BadMessageError:
            return

    def knows(self, message: Span) -> bool:
        """Tell whether there is nothing to learn from a history row."""
        buffer, start, end = message
        items = buffer.count(VALUE, start, end)
        return self._seen[items] >= _OF_EACH_SHAPE or len(self._seen) > _SHAPES

    @property
    def has_loss(self) -> bool:
        """True when a key was seen that can be the training loss."""
        rows = self.rows
        return bool(rows) and choose(rows, self._configured).loss in frozenset().union(*rows)

    def _learn(self, message: Span) -> None:
        names: set[str] = set()
        for item in items(message):
            self.style = item.key[0] >> 3 if item.key else self.style
            if item.value[:1] == b"{":
                for name, value in history(message).items():
                    inside = name.startswith(item.name + ".") and isinstance(value, int | float)
                    if inside and self._matters(name):
                        self.keys.setdefault(name, None)
                        names.add(name)
            elif self._matters(item.name) and number(item.value) is not None:
                self.keys[item.name] = item.key
                names.add(item.name)
        self.rows.append(frozenset(names))

    def _matters(self, name: str) -> bool:
        return interesting(name, self._configured)


class RowReader:
    """Reads the rows of one file, given its layout and the keys that are wanted."""

    def __init__(self, keys: MetricKeys, layout: KeyLayout) -> None:
        self.keys = keys
        first = (keys.step, WANDB_TIME, keys.loss, keys.throughput, keys.grad_norm)
        wanted = (*first, *keys.other_names)
        self._names = wanted
        inside = any(name in layout.keys and layout.keys[name] is None for name in wanted if name)
        self.needles: Sequence[Needles] | None = None
        """What may stand before each value that is wanted; ``None``: a row is decoded whole."""
        if layout.style != 0 and not inside:
            self.needles = [_needles(name, layout) for name in wanted]

    def read(self, message: Span) -> Row:
        """Return the row of a history record's message.

        Raises ``BadMessageError`` (not always) when the message is damaged.
        """
        if self.needles is None:
            return self._read_slowly(message)
        step, at, loss, throughput, grad_norm, *beside = [
            _find(message, needles) for needles in self.needles
        ]
        return Row(
            None if step is None else whole_number(step),
            None if at is None else true_time(number(at)),
            None if loss is None else number(loss),
            None if throughput is None else number(throughput),
            None if grad_norm is None else number(grad_norm),
            False,
            *self.keys.beside([None if text is None else number(text) for text in beside]),
        )

    def evaluates(self, row: Row, message: Span) -> bool:
        """Tell whether a row is an evaluation's, whose step may be none of training's."""
        if row.trains or not self.keys.trains:
            return False
        if self.needles is None:
            return evaluates(history(message), self.keys)
        return evaluates((item.name for item in items(message)), self.keys)

    def missing(self, known: Row) -> tuple[bool, bool]:
        """Tell whether ``known`` lacks the step or the loss, and whether any other metric."""
        values = (known.step, known.at, known.loss, known.throughput, known.grad_norm)
        pairs = zip(self._names[: len(values)], values, strict=True)
        lacks = [name is not None and value is None for name, value in pairs]
        return lacks[0] or lacks[2], lacks[3] or lacks[4]

    def _read_slowly(self, message: Span) -> Row:
        row = history(message)
        step, at, loss, throughput, grad_norm, *beside = [
            None if name is None else _as_number(row.get(name)) for name in self._names
        ]
        others = self.keys.beside(beside)
        return Row(step_of(step), true_time(at), loss, throughput, grad_norm, False, *others)


def whole_number(text: bytes) -> int | None:
    """Return the whole number in JSON text (``7``, ``7.0``, ``1e+06``), or ``None``."""
    try:
        return step_of(int(text))
    except ValueError:
        return step_of(number(text))


def _as_number(value: object) -> float | None:
    if isinstance(value, str):
        return number(value.encode())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _needles(name: str | None, layout: KeyLayout) -> Needles:
    """Return the bytes that may stand before the value of ``name`` in this file."""
    if name is None:
        return ()
    known = layout.keys.get(name)
    spelled = (
        {known}
        if known is not None
        else {_key_bytes([name], layout.style), _key_bytes(name.split("."), layout.style)}
    )
    return tuple(key + VALUE for key in sorted(spelled))


def _key_bytes(parts: Sequence[str], style: int) -> bytes:
    tag = bytes([style << 3 | 2])
    encoded = (part.encode() for part in parts)
    return b"".join(tag + _length(len(part)) + part for part in encoded)


def _length(size: int) -> bytes:
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)
    return bytes(out)


def _find(message: Span, needles: Needles) -> bytes | None:
    """Return the JSON text of the first item that has one of these keys."""
    buffer, start, end = message
    for needle in needles:
        at = buffer.find(needle, start, end)
        while at >= 0:
            text = at + len(needle) + 1
            size = buffer[text - 1] if text <= end else 128
            if size < 128 and text + size <= end and _is_item(buffer, at, text + size):
                return buffer[text : text + size]
            at = buffer.find(needle, at + 1, end)
    return None


def _is_item(buffer: bytes, at: int, end: int) -> bool:
    """Tell whether ``[at, end)`` is the whole content of one item."""
    size = end - at
    if size < 128:
        return buffer[at - 1] == size and buffer[at - 2] == 10
    header = b"\x0a" + _length(size)
    return buffer[at - len(header) : at] == header


STEPS_UNIT = "it/s"
_ENOUGH = 3
"""Rows that tell how long a step takes."""


class StepRate:
    """Fills in ``throughput`` (steps per second) row by row, for a run that logs none.

    A row at the step or the time of the one before says nothing; one at a lower step or an
    earlier time (a resumed run) starts again. Where a metric of training is logged, a row without
    one (an evaluation) says nothing either: its step may be any.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._at = 0.0

    def fill(self, rows: Iterable[Row], keys: MetricKeys) -> Iterator[Row]:
        """Yield each row, with its rate where the rows before it give one."""
        trains = keys.trains
        for row in rows:
            seconds = None if trains and not row.trains else self._seconds(row)
            if seconds is not None:
                row = tuple.__new__(Row, (*row[:3], 1.0 / seconds, *row[4:]))
            yield row

    def _seconds(self, row: Row) -> float | None:
        if row.step is None or row.at is None:
            return None
        steps = row.step - self._step if self._step is not None else -1
        passed = row.at - self._at
        if steps == 0 or (steps > 0 and passed == 0):
            return None
        self._step, self._at = row.step, row.at
        return passed / steps if steps > 0 and passed > 0 else None


def rated(rows: Iterable[Row], keys: MetricKeys, rate: StepRate) -> list[Row]:
    """Return rows with a throughput: the logged one, else ``rate``'s.

    Rows that tell their batch keep none: the fold counts its samples over time (C-05).
    """
    return list(rows if keys.throughput or keys.batch else rate.fill(rows, keys))


def usual_step_seconds(rows: Sequence[Row]) -> float | None:
    """Return the median of seconds per step between one logged row and the next.

    Where enough rows tell a metric of training, by these alone: an evaluation's step may be any.
    """
    trained = [row for row in rows if row.trains]
    told = trained if len(trained) >= _ENOUGH else rows
    timed = [(row.step, row.at) for row in told if row.step is not None and row.at is not None]
    paces = [gap / steps for gap, steps in timed_steps(timed)]
    return median(paces) if paces else None
