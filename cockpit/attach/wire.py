"""What engine and windows say to each other: frames of JSON, values, and what may be asked.

Reports cross in parts, so that a window reads anew only what has changed of a run.

The run's table, each facet and each facet's value are texts of their own: a facet is looked at
again and again, its value mostly stays. Of a thousand runs most say the same of what is not
configured, and of one run most values stay as they were: the engine writes such a text once, and
a window decodes and checks it once, whichever run it comes with, and knows it by its digest.

Of a run that a window was told of before only what changed crosses: a facet that was looked at
again and is as it was crosses as the time of that look.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import struct
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence, Set
from importlib import import_module
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args
from weakref import WeakValueDictionary

from pydantic import ValidationError

from cockpit.model.base import Frozen, SafeText
from cockpit.model.facet import Facet
from cockpit.model.logtext import Hit, LogPage, Matches, Near
from cockpit.model.place import Place
from cockpit.model.report import FACETS, Facets, RunReport
from cockpit.model.run import RunSpec
from cockpit.text.safe import clean

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


Cross = Callable[[Any], Any]
_FARTHEST: Final = 1 << 62
"""The largest offset or number that is asked for; a larger one fits no file."""


class Ask(NamedTuple):
    """One question: the kinds of its arguments, and how its answer is read."""

    arguments: tuple[type | tuple[type], ...]
    """A kind in a tuple of its own is a list of these."""
    read: Cross

    def check(self, given: Sequence[object]) -> None:
        """Raise ``TypeError`` where arguments of other kinds were given."""
        fits = len(given) == len(self.arguments) and all(map(_is_of_kind, given, self.arguments))
        if not fits:
            names = (
                kind.__name__ if isinstance(kind, type) else f"list of {kind[0].__name__}"
                for kind in self.arguments
            )
            raise TypeError(f"expected the arguments {', '.join(names)}")


def _is_of_kind(value: object, kind: type | tuple[type]) -> bool:
    if isinstance(kind, tuple):
        return isinstance(value, list) and all(_is_of_kind(each, kind[0]) for each in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if kind is int:
        return type(value) is int and abs(value) <= _FARTHEST
    return type(value) is kind


def _hit_in(found: Sequence[Any] | None) -> Hit | None:
    return None if found is None else Hit(bool(found[0]), int(found[1]), int(found[2]))


def _near_in(found: Sequence[Any] | None) -> Near | None:
    return None if found is None else Near(int(found[0]), float(found[1]))


def _matches_in(found: Sequence[Any]) -> Matches:
    offsets, begin, reached, size = found
    return Matches(tuple(int(at) for at in offsets), int(begin), int(reached), int(size))


def _past_log_in(found: Sequence[Any]) -> object:
    from cockpit.model.history import PastLog

    page, told = found
    return PastLog(page_in(page), clean(told))


def _late(module: str, name: str) -> Cross:
    """Return a reader that is imported when its first answer comes: a window opens without it."""

    def read(found: Any) -> object:  # noqa: ANN401 - whatever has come
        return attrgetter(name)(import_module(f"cockpit.model.{module}"))(found)

    return read


ASKS: Final[Mapping[str, Ask]] = {
    "check": Ask((str,), report_in),
    "tail": Ask((str, int), page_in),
    "page": Ask((str, int, int, bool), page_in),
    "search": Ask((str, str, int, bool), _hit_in),
    "find": Ask((str, str, int, bool), _hit_in),
    "matches": Ask((str, str, bool, int), _matches_in),
    "sift": Ask((str, int, int, bool, int), page_in),
    "exact_step": Ask((str, int), _hit_in),
    "line_at": Ask((str, int), lambda found: None if found is None else int(found)),
    "nearest_step": Ask((str, int, int), _near_in),
    "nearest_time": Ask((str, float, int), _near_in),
    "curves": Ask((str, (str,), bool, (float,), int), _late("curve", "curves_in")),
    "timeline": Ask((str,), _late("history", "timeline_in")),
    "then": Ask((str, float), _late("history", "Then.model_validate")),
    "log_then": Ask((str, float, int, bool), _past_log_in),
}
"""Every question. The first argument is a run.

All are about logs but ``check``, ``curves`` and, about the past, ``timeline``, ``then`` and
``log_then``.
"""

_TROUBLE: Final[Mapping[str, type[Exception]]] = {
    "os": OSError,
    "timeout": TimeoutError,
    "value": ValueError,
}


async def answered(ask: Awaitable[object]) -> dict[str, Any]:
    """Return the answer to a question as it crosses, the trouble with it too."""
    try:
        return {"value": await ask}
    except TimeoutError as error:
        return {"trouble": "timeout", "text": str(error)}
    except OSError as error:
        return {"trouble": "os", "text": error.strerror or str(error)}
    except ValueError as error:
        return {"trouble": "value", "text": str(error)}


def answer_in(what: str, document: Mapping[str, Any]) -> object:
    """Return the value of an answer; raises what asking raised, or ``WireError``."""
    if "trouble" in document:
        kind = _TROUBLE.get(str(document["trouble"]), ValueError)
        text = str(document.get("text", ""))
        raise OSError(0, text) if kind is OSError else kind(text)
    try:
        return ASKS[what].read(document["value"])
    except (LookupError, TypeError, ValueError) as error:
        raise WireError(f"an answer to {what!r} of an unexpected shape") from error


_SPEC: Final = "spec"
_FACETS: Final[Mapping[str, Any]] = {name: Facets.model_fields[name].annotation for name in FACETS}
_VALUES: Final[Mapping[str, Any]] = {
    name: get_args(facet.model_fields["value"].annotation)[0] for name, facet in _FACETS.items()
}
_DIGEST: Final = 16


class Texts:
    """What is told of runs as texts; a value that is still the same one is not written anew."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, tuple[object, str]]] = {}

    def parted(self, report: RunReport) -> Document:
        """Return a report as it crosses."""
        known = self._known.setdefault(report.name, {})
        facets = {}
        for name, facet in report.facets.items():
            told = {**facet.__dict__, "value": None}
            facets[name] = (as_text(told), _kept(known, name, facet.value))
        return {**report.__dict__, _SPEC: _kept(known, _SPEC, report.spec), "facets": facets}

    def changed(self, report: RunReport, former: RunReport) -> Document:
        """Return what of a report differs from the ``former`` one of the same run table."""
        theirs = former.__dict__
        changed = {
            name: each
            for name, each in report.__dict__.items()
            if each is not theirs[name] and name != "facets" and each != theirs[name]
        }
        known = self._known.setdefault(report.name, {})
        facets: Document = {}
        for name, facet in report.facets.items():
            before: Facet[Any] = getattr(former.facets, name)
            if facet is before:
                continue
            if not facet.reads_as(before):
                told = {**facet.__dict__, "value": None}
                facets[name] = (as_text(told), _kept(known, name, facet.value))
            elif facet.observed_at != before.observed_at:
                facets[name] = facet.observed_at
        return {**changed, "facets": facets}

    def keep(self, names: Container[str]) -> None:
        """Forget all but these runs."""
        self._known = {name: texts for name, texts in self._known.items() if name in names}


def _kept(known: dict[str, tuple[object, str]], name: str, value: object) -> str | None:
    if value is None:
        known.pop(name, None)
        return None
    if name not in known or known[name][0] is not value:
        known[name] = (value, as_text(value))
    return known[name][1]


class Parts:
    """What a window holds of parts that crossed, for as long as any of its reports has them."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Frozen] = WeakValueDictionary()

    def joined(self, content: object) -> RunReport:
        """Return the report that crossed; raises ``WireError``."""
        if not isinstance(content, dict) or not isinstance(content.get("facets"), dict):
            raise WireError("a report of an unexpected shape")
        facets = {name: self._facet(name, part) for name, part in content["facets"].items()}
        spec = content.get(_SPEC)
        if isinstance(spec, str):
            spec = self._part(RunSpec, spec)
        return report_in({**content, _SPEC: spec, "facets": facets})

    def rejoined(self, content: object, former: RunReport | None) -> RunReport:
        """Return the report of which only what changed has crossed; raises ``WireError``."""
        parts = content.get("facets") if isinstance(content, dict) else None
        if former is None or not isinstance(content, dict) or not isinstance(parts, dict):
            raise WireError("news of a report that was never told")
        facets = former.facets.__dict__
        if not parts.keys() <= facets.keys():
            raise WireError("a report of an unexpected shape")
        changes = {
            name: facets[name].model_copy(update={"observed_at": part})
            if type(part) in (int, float)
            else self._facet(name, part)
            for name, part in parts.items()
        }
        return report_in({**former.__dict__, **content, "facets": {**facets, **changes}})

    def _facet(self, name: str, part: object) -> object:
        """Return a facet that came as two texts; what came as it is stays so."""
        match part:
            case [str(told), str() | None as text] if name in _FACETS:
                pass
            case _:
                return part
        if text is None:
            return self._part(_FACETS[name], told)
        value = self._part(_VALUES[name], text)
        return self._part(_FACETS[name], told, text, value)

    def _part(self, kind: Any, told: str, text: str = "", value: Frozen | None = None) -> Frozen:  # noqa: ANN401 - a class of the model
        """Return what texts say, the same object as long as they do."""
        digest = hashlib.blake2b(f"{kind.__name__} {told}\0{text}".encode(), digest_size=_DIGEST)
        found = self._known.get(digest.digest())
        if found is None:
            try:
                content = json.loads(told)
                content = content if value is None else {**content, "value": value}
                found = self._known[digest.digest()] = kind.model_validate(content)
            except (ValidationError, ValueError, TypeError) as error:
                raise WireError("a report of an unexpected shape") from error
        return found
