"""What lines say, as data: the rows of ``signatures/*.toml`` and ``words/*.toml``.

A signature shows a class of SPEC T. Words are what the rules look for besides. Each row has its
patterns, the lines that they were written for, and lines that they must not find; the tests try
every line of every row against all of them. A part that several rows share stands once, under
``[parts]`` in ``parts.toml``, and is written ``<<name>>`` in a pattern.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final, NamedTuple

from cockpit.model.late_regex import late

_PART: Final = re.compile(r"<<(\w+)>>")
_WORDS: Final = ("words", "orders", "doubts", "data", "measures")
"""The files of words."""
NEAR: Final = 60
"""Characters that may stand between a thing and its trouble."""


class Signature(NamedTuple):
    """A row of a class: alternatives of which one stands on a line that shows it."""

    id: str
    patterns: Sequence[str]
    examples: Sequence[str] = ()
    others: Sequence[str] = ()
    """Lines that look like it and are not."""


class Words(NamedTuple):
    """A row of words, with what they mean."""

    id: str
    about: str
    patterns: Sequence[str]
    case: bool = False
    """Whether capitals count."""
    examples: Sequence[str] = ()


@cache
def _table(name: str) -> dict[str, Any]:
    text = files("cockpit.rules.triage").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _part(name: str) -> str:
    part = _table("parts")["parts"][name]
    return _joined([part] if isinstance(part, str) else part)


def expanded(pattern: str) -> str:
    """Return a pattern with the parts that it names; raises ``KeyError`` for one that is none."""
    return _PART.sub(lambda found: _part(found[1]), pattern)


def _joined(patterns: Sequence[str]) -> str:
    return "|".join(map(expanded, patterns))


def _compiled(patterns: Sequence[str], *, case: bool = False) -> re.Pattern[str]:
    return re.compile(_joined(patterns), 0 if case else re.I)


@cache
def signatures(name: str) -> tuple[Signature, ...]:
    """Return the rows of a class, as its file has them."""
    return tuple(Signature(**row) for row in _table(f"signatures/{name}")["row"])


def shown_by(name: str) -> re.Pattern[str]:
    """Return the pattern of a class, read when it is first used."""
    return late(lambda: _compiled([each for row in signatures(name) for each in row.patterns]))


@cache
def all_words() -> dict[str, Words]:
    """Return every row of words, by its id."""
    rows = (Words(**row) for file in _WORDS for row in _table(f"words/{file}")["words"])
    return {row.id: row for row in rows}


def words(name: str) -> re.Pattern[str]:
    """Return the pattern of a row of words, read when it is first used."""

    def pattern() -> re.Pattern[str]:
        row = all_words()[name]
        return _compiled(row.patterns, case=row.case)

    return late(pattern)


def names(name: str) -> frozenset[str]:
    """Return the names of exceptions of a row."""
    return next(frozenset(row["names"]) for row in _table("names")["row"] if row["id"] == name)


@cache
def things() -> tuple[tuple[str, Any, re.Pattern[str]], ...]:
    """Return (class, action, pattern) of each row of things and troubles, the surest first."""
    return tuple(
        (row["class"], row["ended"], late(partial(_near, row))) for row in _table("things")["row"]
    )


def _near(row: Mapping[str, Sequence[str]]) -> re.Pattern[str]:
    """Return the pattern of a thing and a trouble near each other, in either order."""
    if "patterns" in row:
        return _compiled(row["patterns"])
    thing, trouble = (rf"\b(?:{_joined(row[key])})\b" for key in ("things", "troubles"))
    between = rf".{{0,{NEAR}}}?"
    return _compiled((f"{thing}{between}{trouble}", f"{trouble}{between}{thing}"))
