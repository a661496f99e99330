"""Which plain words a line must hold to match an expression: to look for a word is far cheaper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

from cockpit.model.late_regex import late_regex

SHORTEST: Final = 2
"""Letters below which a literal is found on nearly every line."""
_Node = tuple[Any, Any]
_SET: Final = late_regex(r"\[\^?\]?(?:\\.|[^\]\\])*\]")


class Alternative(NamedTuple):
    """One of the alternatives of an expression, and words of which each match of it holds one."""

    words: frozenset[str] | None
    pattern: re.Pattern[str]


@lru_cache(maxsize=256)
def alternatives(pattern: re.Pattern[str]) -> tuple[Alternative, ...]:
    """Return the alternatives of an expression that stand in no bracket.

    To look for words is many times faster than to try an expression, and most lines hold none.
    """
    parts = (re.compile(branch, pattern.flags) for branch in branches(pattern.pattern))
    found = ((literals_of(part), part) for part in parts)
    return tuple(
        Alternative(None if words is None else frozenset(map(bytes.decode, words)), part)
        for words, part in found
    )


def literals_of(pattern: re.Pattern[str]) -> frozenset[bytes] | None:
    """Return words, in small letters, of which each match holds one; ``None`` if none is sure.

    A digit is no part of one: lines are looked at with their figures taken out.
    """
    found: set[str] = set()
    for branch in branches(pattern.pattern):
        words = _needed(list(parser.parse(branch, pattern.flags)))
        if not words:
            return None
        found |= words
    return frozenset(word.encode() for word in found)


def _needed(nodes: Sequence[_Node]) -> frozenset[str]:
    """Return the alternatives of the surest part of a sequence; none where nothing is sure."""
    best: frozenset[str] = frozenset()
    run = ""
    for kind, value in [*nodes, (None, None)]:
        if kind is op.LITERAL and not chr(value).isdigit():
            run += chr(value).lower()
            continue
        best = max(best, _sure({run}), _inside((kind, value)), key=_worth)
        run = ""
    return best


def _inside(node: _Node) -> frozenset[str]:
    kind, value = node
    if kind is op.SUBPATTERN:
        return _needed(list(value[-1]))
    if kind is op.BRANCH:
        parts = [_needed(list(part)) for part in value[1]]
        return _sure(word for part in parts for word in part) if all(parts) else frozenset()
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT) and value[0] > 0:
        return _needed(list(value[-1]))
    return frozenset()


def _sure(words: Iterable[str]) -> frozenset[str]:
    found = frozenset(words)
    return found if all(len(word) >= SHORTEST for word in found) else frozenset()


def _worth(words: frozenset[str]) -> tuple[int, int]:
    return (min(map(len, words), default=0), -len(words))


def branches(pattern: str) -> list[str]:
    """Return the alternatives of an expression that stand in no bracket."""
    branches, depth, at = [""], 0, 0
    while at < len(pattern):
        step = 2 if pattern[at] == "\\" else 1
        if pattern[at] == "[":  # a bracket or a bar in a set of characters is only itself
            step = _SET.match(pattern, at).end() - at  # type: ignore[union-attr]
        piece = pattern[at : at + step]
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and depth == 0:
            branches.append("")
        else:
            branches[-1] += piece
        at += step
    return branches
