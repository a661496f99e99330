"""The base of every value; scalar types that print as INTERFACE says; durations; safe text."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import ModuleType
from typing import Annotated, Any, Final, NamedTuple, Self, TypeVar

from annotated_types import Ge, Le
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    WithJsonSchema,
    model_serializer,
)

from cockpit.model.wording import NO_TIME
from cockpit.model.wording import rfc3339 as rfc3339

LOADER: Final = "pydantic.plugin._loader"


def keep_plugins_out() -> None:
    """Have pydantic find no plugins, without a look; the environment of children is untouched."""
    loader = ModuleType(LOADER)
    vars(loader)["get_plugins"] = tuple
    sys.modules.setdefault(LOADER, loader)


T = TypeVar("T")

keep_plugins_out()

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])")


_set: Final = object.__setattr__
"""How a value that is being made is filled: once made it refuses."""


_GIVEN: Final[dict[frozenset[str], set[str]]] = {}
"""Each set of fields that some value was made with, once."""


def listed(text: str, between: str | None = None) -> tuple[str, ...]:
    """Return the words of a list that is written as one text, ``between`` them or blanks."""
    return tuple(text.split(between))


class Frozen(BaseModel):
    """An immutable value: unknown fields are errors, equality is by value.

    Modules of values have no ``from __future__ import annotations``: pydantic would compile and
    evaluate each of a thousand strings again, at every start.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_inf_nan="constants",
        defer_build=True,
        protected_namespaces=(),
    )

    def model_post_init(self, _context: object, /) -> None:
        """Share the set of the fields that were given with all values of which the same were.

        Nobody changes it in place; of a thousand runs 70,000 sets took 33 MB of an engine.
        """
        given = self.__pydantic_fields_set__
        _set(self, "__pydantic_fields_set__", _GIVEN.setdefault(frozenset(given), given))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values in it; what both have in common is shared."""
        if deep or type(self).__private_attributes__:
            return super().model_copy(update=update, deep=deep)
        values, given = self.__dict__.copy(), self.__pydantic_fields_set__
        if update:
            values.update(update)
            if not update.keys() <= given:
                given = given | update.keys()
                given = _GIVEN.setdefault(frozenset(given), given)
        copied = type(self).__new__(type(self))
        _set(copied, "__dict__", values)
        _set(copied, "__pydantic_extra__", None)
        _set(copied, "__pydantic_fields_set__", given)
        _set(copied, "__pydantic_private__", None)
        return copied

    def to_json(self) -> dict[str, Any]:
        """Return the JSON-ready document (INTERFACE shapes, aliases used)."""
        return self.model_dump(mode="json", by_alias=True)


STEPS: Final = 1e15
"""No run has as many steps; what says more is no step, and fits into no table."""


def step_of(value: float | None) -> int | None:
    """Return a number that was logged as a step, ``None`` for what can be none."""
    return int(value) if value is not None and -STEPS < value < STEPS else None


def plain_number(value: float) -> float | str:
    """Return ``value``, or INTERFACE's string for a number that JSON cannot hold."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _instant_text(instant: float) -> str | None:
    text = rfc3339(instant)
    return None if text == NO_TIME else text


Instant = Annotated[float, PlainSerializer(_instant_text, return_type=str | None, when_used="json")]
"""Seconds since the epoch, UTC; RFC 3339 in JSON, ``null`` for one that no calendar holds."""


def _instant_read(value: object) -> object:
    return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value


PrintedInstant = Annotated[Instant, BeforeValidator(_instant_read)]
"""An ``Instant`` that may come as a verb has printed it."""


class Printed(Frozen):
    """What a verb prints and another process reads: what a later version adds is left out."""

    model_config = ConfigDict(extra="ignore")


Number = Annotated[float, PlainSerializer(plain_number, when_used="json")]
"""A float that may be NaN or infinite; a string in JSON where JSON has no number."""

Seconds = float
"""A duration."""


DURATION_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": r"^\s*(\d+(\.\d+)?\s*(ms|[smhdwSMHDW])\s*)+$"},
    ]
}
"""What a duration may be in JSON: seconds, or ``"1h30m"``."""


def duration_text(seconds: float) -> str:
    """Return a duration as a run file writes it: ``"15m"``, ``"90s"``, ``"0.5s"``."""
    for unit in ("h", "m"):
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:g}{unit}"
    return f"{seconds:g}s"


def parse_duration(value: object) -> float:
    """Return seconds for ``"1h30m"``, ``"15m"`` or a number of seconds.

    Raises ``ValueError`` naming the expected form; booleans and negatives are refused.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError('expected a duration such as "15m", "2h" or "570s"')
    if isinstance(value, int | float):
        if not 0 <= value < float("inf"):
            raise ValueError("expected a duration of at least 0 seconds")
        return float(value)
    text = value.strip().lower()
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        raise ValueError(f'"{value}" is not a duration; expected "15m", "2h" or "570s"')
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Duration = Annotated[float, BeforeValidator(parse_duration), WithJsonSchema(DURATION_SCHEMA)]
"""Seconds; a run file may also write ``"15m"``."""
Command = str | tuple[str, ...]
"""Words for a shell, or a list of arguments."""
Count = Annotated[int, Ge(1), Le(10**6)]


def unchanging(values: Sequence[T]) -> Sequence[T]:
    """Return values that came as a list so that nothing can change them."""
    return tuple(values) if isinstance(values, list) else values


class Span(NamedTuple):
    """A run of characters ``[start, end)`` and its style in Rich/Textual terms (``bold red``)."""

    start: int
    end: int
    style: str


class SafeText(Frozen):
    """One displayable line: plain text and its colour spans. Prints as its plain text."""

    plain: str
    spans: tuple[Span, ...] = ()

    @model_serializer(mode="plain")
    def _as_text(self) -> str:
        return self.plain

    def __str__(self) -> str:
        return self.plain
