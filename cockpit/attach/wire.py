"""What engine and windows say to each other: frames of JSON, values, and what may be asked.

A frame is four bytes of length (big-endian) and one JSON object. The engine says ``say``:
``hello``, ``order`` (the runs there are), ``report`` (with ``of``: what has changed of a run since
it was told last), ``file`` (an edited run file), ``beat`` (a sign of life, with the notices when
they changed), ``ring`` and ``answer``. A window says ``hello``, ``poke``, ``looked``, ``visible``
and ``ask``. Every answer has the ``id`` of its ask.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import struct
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from cockpit.model.base import Frozen, SafeText
from cockpit.model.logtext import LogPage
from cockpit.model.place import Place
from cockpit.model.report import RunReport

_CROSSES: Final = ("attach", "model")
"""The rooms whose sources say what crosses: frames here, their values there."""
BEAT: Final = 2.0
"""Seconds between two signs of life."""
MISSED: Final = 3
"""Signs of life that may fail to come before an engine counts as hung."""
MOST: Final = 64 * 1024 * 1024
"""Bytes of a frame at most: one report has some ten kilobytes, a run file of 1,000 runs 2 MB."""
_LENGTH: Final = struct.Struct(">I")

Document = dict[str, Any]


class WireError(Exception):
    """What came is not what this version understands; one line."""


class Hello(Frozen):
    """The first frame of either side. ``kind`` is ``watch`` or ``engine``, or ``window``.

    An engine of kind ``engine`` was started by a window and ends with the last one. ``attends``
    tells of a window whether its person is there to act: for one that only reads, nobody is told
    and nothing is recorded.
    """

    build: str
    version: str
    file: str
    kind: Literal["watch", "engine", "window"]
    attends: bool = False


@functools.cache
def build() -> str:
    """Return what tells this build from any other whose frames or values may differ.

    One version has many builds in a clone, and a process that runs on keeps the one it began
    with; an engine and a window of two builds never meet.
    """
    digest = hashlib.blake2b(digest_size=6)
    for room in _CROSSES:
        for path in sorted((Path(__file__).parents[1] / room).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def frame(document: Document) -> bytes:
    """Return a document as it crosses; it may hold values of the model."""
    data = as_text(document).encode()
    return _LENGTH.pack(len(data)) + data


def as_text(value: object) -> str:
    """Return a document, or a value of the model, as the JSON that crosses."""
    return json.dumps(value, separators=(",", ":"), default=_plain)


async def read_frame(reader: asyncio.StreamReader) -> Document:
    """Return the next document; raises ``EOFError`` when the other side has gone, ``WireError``."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > MOST:
            raise WireError(f"a frame of {length} bytes; at most {MOST} are taken")
        document = json.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise WireError("a frame that is no JSON") from error
    if not isinstance(document, dict):
        raise WireError("a frame that is no JSON object")
    return document


def number_in(document: Document) -> int:
    """Return which question an answer is to; 0 for none."""
    number = document.get("id")
    return number if isinstance(number, int) else 0


def texts_in(content: object) -> tuple[str, ...]:
    """Return the lines that crossed; what is no line is left out."""
    found = content if isinstance(content, list) else []
    return tuple(each for each in found if isinstance(each, str))


def _plain(value: object) -> object:
    """Return a value of the model as a mapping of all its fields.

    Its own JSON is for other programs: it leaves out what only the screens need. New rows are
    for the engine alone.
    """
    if isinstance(value, Frozen):
        left_out = {"rows": ()} if "rows" in value.__dict__ else {}
        return {**value.__dict__, **left_out}
    if isinstance(value, Place):
        return str(value)
    if isinstance(value, Set | Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} does not cross")


def report_in(content: object) -> RunReport:
    """Return the report that crossed; raises ``WireError``."""
    try:
        return RunReport.model_validate(content)
    except ValidationError as error:
        raise WireError("a report of an unexpected shape") from error


def page_in(content: Sequence[Any]) -> LogPage:
    """Return the log lines that crossed; raises ``WireError``."""
    try:
        lines, offsets, start, end, size, gaps, rest = content
        safe = tuple(SafeText.model_validate(line) for line in lines)
        return LogPage(safe, tuple(offsets), start, end, size, tuple(gaps), rest)
    except (ValidationError, LookupError, TypeError, ValueError) as error:
        raise WireError("log lines of an unexpected shape") from error
