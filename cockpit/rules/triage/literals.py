"""Words of which each match of an expression holds one.

To look for words is many times faster than to try an expression, and most lines hold none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

SHORTEST: Final = 2
"""Letters below which a word is found on nearly every line."""
_TOKEN: Final = re.compile(
    r"""(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
    |(?P<looks>\(\?<?[=!])
    |(?P<same>\(\?P=\w+\))
    |(?P<opens>\((?!\?)|\(\?(?:P<\w+>|[aiLmsu-]*:|>))
    |(?P<other>\(\?|\\[1-9])
    |(?P<closes>\))
    |(?P<bar>\|)
    |(?P<many>(?:[*+?]|\{(?P<least>\d+)(?:,\d*)?\}|\{,\d*\})[?+]?)
    |(?P<code>\\(?:x..|u....|U.{8}|N\{[^}]*\}|\d+|[A-Za-z])|[.^$])
    |\\?(?P<letter>.)""",
    re.VERBOSE | re.DOTALL,
)
"""The parts of an expression; what stands for more than one character of a text is no letter.

What is *other* may change what stands around it: flags of the whole, a condition, a comment, or a
group's number.
"""
_FOLDED: Final = str.maketrans({"\u017f": "s", "\u0131": "i", "\u0307": None})
"""What ``re.I`` takes for an ASCII letter and ``lower`` leaves; İ has a dot apart once lowered."""


class Alternative(NamedTuple):
    """One of the alternatives of an expression, and words of which each match of it holds one."""

    words: frozenset[str] | None
    pattern: re.Pattern[str]


def in_small_letters(text: str) -> str:
    """Return a text as the words of an expression are to be looked for in it."""
    small = text.lower()
    return small if small.isascii() else small.translate(_FOLDED)


@lru_cache(maxsize=256)
def alternatives(pattern: re.Pattern[str]) -> tuple[Alternative, ...]:
    """Return the alternatives of an expression that stand in no bracket.

    One that has an *other* part, or is verbose, stays whole and has no sure word.
    """
    kinds = {token.lastgroup for token in _TOKEN.finditer(pattern.pattern)}
    if "other" in kinds or pattern.flags & re.VERBOSE:
        return (Alternative(None, pattern),)
    parts = (re.compile(branch, pattern.flags) for branch in branches(pattern.pattern))
    return tuple(Alternative(_words_of(part.pattern), part) for part in parts)


def branches(pattern: str) -> list[str]:
    """Return the alternatives of an expression that stand in no bracket."""
    found, depth = [""], 0
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        depth += (kind in ("looks", "opens")) - (kind == "closes")
        if kind == "bar" and depth == 0:
            found.append("")
        else:
            found[-1] += token[0]
    return found


def _words_of(pattern: str) -> frozenset[str] | None:
    """Return words, in small letters, of which each match holds one; ``None`` if none is sure.

    A digit is no part of one: lines are looked at with their figures taken out. Nor is a letter
    beyond ASCII, whose small one may be another, or two.
    """
    return _words(_TOKEN.finditer(pattern)) or None


def _words(tokens: Iterator[re.Match[str]]) -> frozenset[str]:
    """Return the words of what stands up to the bracket that closes; none where none is sure."""
    sure, reading = list[frozenset[str]](), _Sequence()
    for token in tokens:
        kind = token.lastgroup
        if kind == "closes":
            break
        if kind == "bar":
            sure.append(reading.words())
            reading = _Sequence()
        elif kind == "opens":
            reading.part(_words(tokens))
        elif kind == "looks":
            _words(tokens)
            reading.part(frozenset())
        elif kind == "many":
            reading.repeat(least=_least(token))
        elif kind == "letter" and token["letter"].isascii() and not token["letter"].isdigit():
            reading.letter(token["letter"].lower())
        else:
            reading.part(frozenset())
    sure.append(reading.words())
    return _long(word for words in sure for word in words) if all(sure) else frozenset()


def _least(many: re.Match[str]) -> int:
    return int(many["least"] or many[0].startswith("+"))


class _Sequence:
    """The parts of one alternative, as they are read: the surest words among them count."""

    def __init__(self) -> None:
        self._best = frozenset[str]()
        self._run = ""
        self._last = frozenset[str]()
        """The words of a part that the next token may make optional."""

    def letter(self, letter: str) -> None:
        self._count_last()
        self._run += letter

    def part(self, words: frozenset[str]) -> None:
        self._count_last()
        self._count_run()
        self._last = words

    def repeat(self, *, least: int) -> None:
        """Note that the last part may come several times, or not at all."""
        if least == 0:
            self._run, self._last = self._run[:-1], frozenset()
        self._count_last()
        self._count_run()

    def words(self) -> frozenset[str]:
        self._count_last()
        self._count_run()
        return self._best

    def _count_run(self) -> None:
        self._best = max(self._best, _long([self._run]), key=_worth)
        self._run = ""

    def _count_last(self) -> None:
        self._best = max(self._best, self._last, key=_worth)
        self._last = frozenset()


def _long(words: Iterable[str]) -> frozenset[str]:
    found = frozenset(words)
    return found if all(len(word) >= SHORTEST for word in found) else frozenset()


def _worth(words: frozenset[str]) -> tuple[int, int]:
    return (min(map(len, words), default=0), -len(words))
