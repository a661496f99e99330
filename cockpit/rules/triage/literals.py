"""Words of which each match of an expression holds some.

To look for words is many times faster than to try an expression, and most lines hold none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
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


_NO_FIGURES: Final = bytes(0x20 if chr(each).isdigit() else each for each in range(0x80)) + bytes(
    range(0x80, 0x100)
)

Needs = tuple[frozenset[str], ...]
"""Words in small letters: each match holds at least one of each set."""


class Alternative(NamedTuple):
    """One of the alternatives of an expression, and the words that each match of it holds."""

    needs: Needs
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
        return (Alternative((), pattern),)
    parts = (re.compile(branch, pattern.flags) for branch in branches(pattern.pattern))
    return tuple(Alternative(_needs(_TOKEN.finditer(part.pattern)), part) for part in parts)


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
    return [each for branch in found for each in _spread(branch)]


def _spread(branch: str) -> list[str]:
    """Return ``ac`` and ``bc`` for ``(?:a|b)c``: each of them has its own words."""
    depth = 0
    for token in _TOKEN.finditer(branch):
        kind = token.lastgroup
        if depth == 0 and token[0] != "(?:":
            break
        depth += (kind in ("looks", "opens")) - (kind == "closes")
        if depth == 0:
            inside, rest = branch[3 : token.start()], branch[token.end() :]
            after = _TOKEN.match(rest)
            if after is not None and after.lastgroup == "many":
                break
            return [each + rest for each in branches(inside)]
    return [branch]


def without(pattern: re.Pattern[str], line: str) -> str:
    """Return ``pattern.sub(" ", line)``, for a pattern that matches no empty text.

    Only the alternatives that may match are tried; of two at one place the first one counts.
    """
    low, next_ones = in_small_letters(line), list[re.Match[str]]()
    for needs, one in alternatives(pattern):
        if all(any(map(low.__contains__, words)) for words in needs) and (
            found := one.search(line)
        ):
            next_ones.append(found)
    kept, at = list[str](), 0
    while next_ones:
        first = min(next_ones, key=re.Match.start)
        kept.append(line[at : first.start()])
        at = first.end()
        next_ones = [
            found
            for each in next_ones
            if (found := each if each.start() >= at else each.re.search(line, at))
        ]
    return " ".join((*kept, line[at:]))


def _needs(tokens: Iterator[re.Match[str]]) -> Needs:
    """Return the words of what stands up to the bracket that closes, the rarest sets first.

    A digit is no part of one: lines are looked at with their figures taken out. Nor is a letter
    beyond ASCII, whose small one may be another, or two. Of several alternatives each counts with
    its rarest set, and all of them together are one set.
    """
    each, reading = list[Needs](), _Sequence()
    for token in tokens:
        kind = token.lastgroup
        if kind == "closes":
            break
        if kind == "bar":
            each.append(reading.needs())
            reading = _Sequence()
        elif kind == "opens":
            reading.part(_needs(tokens))
        elif kind == "looks":
            _needs(tokens)
            reading.part(())
        elif kind == "many":
            reading.repeat(least=_least(token))
        elif kind == "letter" and token["letter"].isascii() and not token["letter"].isdigit():
            reading.letter(token["letter"].lower())
        else:
            reading.part(())
    each.append(reading.needs())
    if len(each) == 1 or not all(each):
        return each[0] if len(each) == 1 else ()
    return (frozenset[str]().union(*(needs[0] for needs in each)),)


def _least(many: re.Match[str]) -> int:
    return int(many["least"] or many[0].startswith("+"))


class _Sequence:
    """The parts of one alternative, as they are read, and the words of each."""

    def __init__(self) -> None:
        self._found: list[frozenset[str]] = []
        self._run = ""
        self._last: Needs = ()
        """The words of a part that the next token may make optional."""

    def letter(self, letter: str) -> None:
        self._count_last()
        self._run += letter

    def part(self, words: Needs) -> None:
        self._count_last()
        self._count_run()
        self._last = words

    def repeat(self, *, least: int) -> None:
        """Note that the last part may come several times, or not at all."""
        if least == 0:
            self._run, self._last = self._run[:-1], ()
        self._count_last()
        self._count_run()

    def needs(self) -> Needs:
        self._count_last()
        self._count_run()
        first, *others = sorted(self._found, key=_worth, reverse=True) or [frozenset[str]()]
        rare = (words for words in others if min(map(len, words)) > SHORTEST + 1)
        return (first, *rare) if first else ()

    def _count_run(self) -> None:
        if len(self._run) >= SHORTEST:
            self._found.append(frozenset((self._run,)))
        self._run = ""

    def _count_last(self) -> None:
        self._found.extend(self._last)
        self._last = ()


def _worth(words: frozenset[str]) -> tuple[int, int]:
    return (min(map(len, words), default=0), -len(words))


class WordIndex:
    """Which of many lines hold what an expression needs.

    What stands between blanks and figures is gathered first: a text has few of these. A word that
    is in none of them is on no line; only of the others the lines are looked for.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = [line.translate(_NO_FIGURES) for line in lines]
        self._all = range(len(self._lines))
        self._text = b"\n".join(self._lines)
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._parts = b"\n".join(set(self._text.split()))
        self._pairs = set(pairwise(self._parts))
        """Any two letters in a row: to miss some of a word's is far cheaper than to search."""
        self._known: dict[frozenset[str], set[int]] = {}
        self._with: dict[bytes, set[int]] = {}

    @classmethod
    def of(cls, lines: Iterable[str]) -> WordIndex:
        """Return the index of lines of text, whatever their letters."""
        return cls(in_small_letters(line).encode("utf-8", "surrogatepass") for line in lines)

    def holding(self, needs: Needs) -> Collection[int]:
        """Return the lines (0-based) that may match an expression with these needs."""
        found: Collection[int] = self._all
        for words in needs:
            some = self._known.get(words)
            if some is None:
                some = self._known[words] = set().union(*map(self._with_word, words))
            found = some.intersection(found) if found is not self._all else some
            if not found:
                break
        return found

    def _with_word(self, word: str) -> set[int]:
        text = word.encode()
        known = self._with.get(text)
        if known is None:
            known = self._with[text] = set()
            at = self._text.find(text) if all(map(self._holds, text.split())) else -1
            while at >= 0:
                line = bisect_right(self._starts, at) - 1
                known.add(line)
                at = self._text.find(text, self._starts[line + 1])
        return known

    def _holds(self, part: bytes) -> bool:
        return self._pairs.issuperset(pairwise(part)) and part in self._parts
