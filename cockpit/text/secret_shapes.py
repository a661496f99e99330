"""Secrets by their own shape: keys that begin in a known way, credentials in a statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.text.secret_names import is_dense, is_named_secret, is_placeholder, is_tight
from cockpit.text.secret_rows import places, shapes

_MADE: Final = late_regex(
    r"\b(?!(?:chat)?cmpl|msg|req|resp|run|thread|batch|job|call|toolu|file|org|proj|user|evt|step"
    r"|asst|raysubmit|artifact|ids?\b|uu?id|hash|sha|rev|commit|cache|trace|span|event|image|blob)"
    r"[a-z][a-z0-9]{1,11}[_-](?:[a-z0-9]{1,7}[_-])?"
    r"(?=[A-Za-z]*\d)(?=[A-Z\d]*[a-z])(?=[a-z\d]*[A-Z])[A-Za-z0-9]{32,}(?![\w/.-])"
)
"""What a vendor makes that nobody has named here: a short word, then random figures and letters
of both sizes. What a service calls its requests, files and runs looks alike, and opens nothing."""
_LONG_WORD: Final = late_regex(r"[\w-]{35}")
_DISCORD: Final = late_regex(r"\b[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,}")
"""A bot's token, which holds no word that one could look for first."""
_CUT_SHAPE = late_regex(
    r"\b(?:hf_|gh[pousr]_|github_pat_|wandb_v1_|sk-|xox[a-z]-|AKIA|AIza|ya29\.)[\w.-]{2,}…$"
)
"""A key whose end was cut off with the line."""
_TORN: Final = late_regex(
    r"\b(?:hf_|gh[pousr]_|github_pat_|wandb_v1_|sk-(?:proj-|ant-)?|glpat-|AKIA|AIza|ya29\.)"
    r"(?=[\w-]*\d)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{8,19}$"
)
"""A key that goes on in the next line: too short by itself, but with what no name has."""


SHORTEST: Final = 15
"""Characters without a blank that the shortest key has."""
_RUN: Final = late_regex(rf"[\w.-]{{{SHORTEST}}}")


def may_hold_key(words: Iterable[str]) -> bool:
    """Return whether one of a line's words is long enough for a key."""
    for word in words:  # noqa: SIM110 - as below
        if len(word) >= SHORTEST and _RUN.search(word):
            return True
    return False


def shaped_secrets(line: str) -> list[tuple[int, int]]:
    """Return the ranges of ``line`` that have a key's shape."""
    found: list[tuple[int, int]] = []
    shaped: list[re.Match[str]] = []
    hints, shape = shapes()
    if holds_any(line, hints):
        shaped += shape.finditer(line)
        found += (match.span() for match in _TORN.finditer(line))
    if line.count(".") > 1:
        shaped += _DISCORD.finditer(line)
    found += (match.span() for match in shaped if len(set(match[0][-8:])) > 1)  # hf_xxxx: for one
    if _LONG_WORD.search(line):
        found += (match.span() for match in _MADE.finditer(line))
    if line.endswith("…"):
        found += (match.span() for match in _CUT_SHAPE.finditer(line))
    return found


def holds_any(text: str, words: Iterable[str]) -> bool:
    """Return whether ``text`` holds one of the words; a plain loop is twice as fast as ``any``."""
    for word in words:  # noqa: SIM110 - a generator costs more than the search itself
        if word in text:
            return True
    return False


Range = tuple[int, int]
_Test = Callable[[str], bool]

_ESCAPED: Final = late_regex(
    r"(?:%(?:25)*(?:26|3[fF])|\\u0026|\\x26)(?P<name>[A-Za-z][\w.-]{0,60})(?:%(?:25)*3[dD]|="
    r"|\\u003[dD])"
    r"(?P<value>(?:[\w.~+/-]|%(?!(?:25)*26)[0-9A-Fa-f]{2})+)"
)
"""A part of a query whose ``&`` is written as an address, JSON or Python writes it."""
_NOUN: Final = (
    r"(?:(?:api|access|secret|auth|private|license|account|storage|wandb|w&b)[ _-]?(?:key|token)"
    r"|token|password|passphrase|secret|credentials?)s?"
)
_SPOKEN: Final = late_regex(
    rf"\b{_NOUN}[\"'`]?(?:[:=,]?\s{{1,3}}(?:(?:provided|given|used|value|found|named?|from|for|in"
    rf"|is|was"
    r"|of|the|this|user|invalid|rejected|expired|supplied|received|set|to|as|new|sent|here|your)\b"
    r"|[a-z]+@\S+|->|→)){0,4}\s{0,2}[:=]?\s{1,3}[\"'`(\[<]?(?P<value>[\w+/.~-]{20,}={0,2})",
    re.I,
)
"""``retrying with api key …``, ``invalid token provided: …``: then a word that nobody writes."""
_KEPT: Final = late_regex(
    r"\b(?:secrets?\s+(?:set|put|create|write|add|update)|kv\s+(?:put|patch))\s(?P<rest>[^"
    r"|;&]{1,400})"
)
"""What stores a secret is told it by whatever argument."""
_WORD: Final = late_regex(r"(?:[\w.-]*=)?[\"']?(?P<value>[\w+/.~-]{16,}={0,2})")
_MIXED: Final = late_regex(r"(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[\w+/.~=-]+$")
_RARE: Final = late_regex("secret|credential")
_LONG: Final = 20
_HEX: Final = late_regex(r"[0-9a-f]{32,}$")
"""Such as ``0123456789abcdef0123456789abcdef``."""
_NEVER: Final = late_regex(r"https?:|[\w.-]*/[\w./-]+\.\w{1,8}$|[a-z][\w-]*(?:/[\w.-]+)+$|\w+\(")


def formed_secrets(line: str, low: str) -> Iterator[Range]:
    """Yield the ranges of ``line`` that are secrets by its form; ``low``: it in small letters."""
    if "%" in line or "\\" in line:
        for match in _ESCAPED.finditer(line):
            if is_named_secret(match["name"], match["value"]):
                yield match.span("value")
    for place in places():
        if not place.near or holds_any(low, place.near):
            yield from _if(_TESTS[place.is_], place.pattern, line)
    if "secret" in low:
        yield from _stored(line)
    if _holds_long(low) and ("key" in low or "token" in low or "pass" in low or _RARE.search(low)):
        yield from _if(_is_no_word, _SPOKEN, line)


def _holds_long(low: str) -> bool:
    """Return whether a word is as long as one that is only spoken of must be."""
    for word in low.split():  # noqa: SIM110 - a plain loop is twice as fast
        if len(word) >= _LONG and not word.startswith(("http", "/")):
            return True
    return False


def _if(is_secret: _Test, rule: re.Pattern[str], line: str) -> Iterator[Range]:
    for match in rule.finditer(line):
        if is_secret(match["value"]):
            yield match.span("value")


def _stored(line: str) -> Iterator[Range]:
    for stored in _KEPT.finditer(line):
        for word in _WORD.finditer(line, *stored.span("rest")):
            if _is_no_word(word["value"]):
                yield word.span("value")


def _any(value: str) -> bool:
    return not is_placeholder(value)


def _tight(value: str) -> bool:
    return is_tight(value) and not is_placeholder(value)


_TESTS: Final[Mapping[str, _Test]] = {"any": _any, "tight": _tight, "dense": is_dense}


def _is_no_word(value: str) -> bool:
    """Return whether nobody would write such a word: no file, no name of a thing."""
    made = _MIXED.match(value) is not None or _HEX.match(value) is not None
    return made and is_dense(value) and not (_NEVER.match(value) or is_placeholder(value))
