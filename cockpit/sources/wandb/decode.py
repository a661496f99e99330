"""The records of a ``.wandb`` file: a walk over protobuf's wire format, only where needed.

Nothing here imports protobuf or the client: the messages are "persistent on disk", so their
field numbers are stable (read from wandb 0.16 to 0.31). Values are JSON text; ``NaN``,
``Infinity`` and ``-Infinity`` are bare words in it. A nested metric is one item with several
key parts (0.18 and later) or one item whose value is a JSON object (before); both become one
dotted name here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from cockpit.sources.protobuf import BadMessageError, fields
from cockpit.sources.wandb.file import Span

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
    """Decode an environment record: the commit, and what Slurm told the process."""
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
