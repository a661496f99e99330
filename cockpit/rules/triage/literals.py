"""Which plain words a line must hold to match an expression: to look for a word is far cheaper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from cockpit.rules.triage.lines import branches

SHORTEST: Final = 2
"""Letters below which a literal is found on nearly every line."""
_Node = tuple[Any, Any]


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
