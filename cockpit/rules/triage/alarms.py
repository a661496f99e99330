r"""Alarming lines among megabytes that nobody reads: one pass over the bytes, by their shapes.

A log that is written faster than it can be parsed consists of a few shapes of line that differ in
their figures. Each shape is held against everything that triage knows, once; the lines themselves
are only cut and looked up. ``\r`` separates lines as ``\n`` does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.logtext import Alarm
from cockpit.rules.triage.data_words import DATA
from cockpit.rules.triage.literals import alternatives
from cockpit.rules.triage.orders import STOPPED
from cockpit.rules.triage.signs import SIGNS
from cockpit.rules.triage.tracebacks import BEGIN
from cockpit.rules.triage.words import (
    CRASH,
    KILLED,
    NETWORK,
    TASK_DIED,
    TERMINATED,
)

LONGEST: Final = 1000
"""Bytes of a line that are looked at: a sign stands near the beginning of its line."""
REMEMBERED: Final = 8192
"""Shapes of up to ``LONGEST`` bytes whose meaning is kept; then it is found anew."""
_BROKEN: Final = late_regex(
    r"(?:loss|entropy|grad_?norm)[^\d\r\n]{0,12}?(?:nan|[-+]?inf(?:inity)?)\b", re.I
)
_ALIKE: Final = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789\r", b"abcdefghijklmnopqrstuvwxyz000000000\n"
)
_SPELLED: Final = late_regex(
    rb"errno 0|signal:? ?0|(?:code|status):? ?-?0|scale.{0,24}\bto 0"
    rb"|\b000\b.{0,40}(?:error|too many|unavailable|gateway|timeout|retry)"
)
"""Where a sign means one figure and no other."""
_SGR: Final = late_regex(rb"\x1b\[[\d;]*m")


class _Sign(NamedTuple):
    name: str
    literals: frozenset[bytes] | None
    pattern: re.Pattern[bytes]


def _signs(name: str, pattern: re.Pattern[str]) -> Iterator[_Sign]:
    for words, one in alternatives(pattern):
        literals = None if words is None else frozenset(word.encode() for word in words)
        yield _Sign(name, literals, re.compile(one.pattern.encode(), re.I))


_NAMES: Final = (
    *((sign.name, sign.pattern) for sign in SIGNS),
    ("numeric_instability", _BROKEN),
    ("traceback", late_regex(re.escape(BEGIN))),
    ("crash", CRASH),
    ("data_error", DATA),
    ("killed", KILLED),
    ("killed", TASK_DIED),
    ("terminated", TERMINATED),
    ("user_stopped", STOPPED),
    ("network_transient", NETWORK),
)
_KNOWN: Final = tuple(sign for name, pattern in _NAMES for sign in _signs(name, pattern))
_LITERALS: Final = frozenset(word for sign in _KNOWN for word in sign.literals or ())
_Signs = tuple[_Sign, ...]
_seen: dict[bytes, _Signs] = {}
"""What the lines of a shape may be signs of, whatever their figures; each of them is asked."""


def alarms_in(data: bytes) -> list[Alarm]:
    """Return the alarming lines of ``data``, in order, by where they stand in it."""
    shapes = data.translate(_ALIKE).split(b"\n")
    own = set(shapes)
    own.discard(b"")
    if len(_seen) > REMEMBERED:
        _seen.clear()
    known = {shape: signs for shape in own if (signs := _seen.get(shape)) is not None}
    if len(known) < len(own):
        fresh = _possible([shape for shape in own if shape not in known])
        _seen.update((shape, signs) for shape, signs in fresh.items() if len(shape) <= LONGEST)
        known |= fresh
    bad = {shape: signs for shape, signs in known.items() if signs}
    return list(_places(data, shapes, bad)) if bad else []


def _places(data: bytes, shapes: Sequence[bytes], bad: dict[bytes, _Signs]) -> Iterator[Alarm]:
    at = 0
    for shape in shapes:
        end = at + len(shape)
        if signs := bad.get(shape):
            head = _SGR.sub(b"", data[at:end])[:LONGEST]
            name = next((sign.name for sign in signs if sign.pattern.search(head)), None)
            if name is not None:
                yield Alarm(at, end, name)
        at = end + 1


def _possible(shapes: Sequence[bytes]) -> dict[bytes, _Signs]:
    """Return what the lines of each shape may be signs of.

    ``0 errors`` is none and ``3 errors`` is one, so a shape is read with both figures.
    """
    heads = [_SGR.sub(b"", shape)[:LONGEST] for shape in shapes]
    spelled = {at for at, head in enumerate(heads) if _SPELLED.search(head)}
    holding = _holding(heads)
    found: list[list[_Sign]] = [[] for _ in heads]
    for sign in _KNOWN:
        some = sign.literals
        for at in range(len(heads)) if some is None else _any_of(holding, some):
            texts = (heads[at], heads[at].replace(b"0", b"1"))
            if at in spelled or any(map(sign.pattern.search, texts)):
                found[at].append(sign)
    return dict(zip(shapes, map(tuple, found), strict=True))


def _any_of(holding: dict[bytes, set[int]], words: Iterable[bytes]) -> set[int]:
    return {at for word in words for at in holding[word]}


def _holding(heads: Sequence[bytes]) -> dict[bytes, set[int]]:
    """Return which lines hold each of the literals; to find one is a search through all."""
    text = b"\n".join(heads)
    starts = [0, *accumulate(len(head) + 1 for head in heads)]
    holding: dict[bytes, set[int]] = {}
    for word in _LITERALS:
        lines = holding[word] = set[int]()
        at = text.find(word)
        while at >= 0:
            line = bisect_right(starts, at) - 1
            lines.add(line)
            at = text.find(word, starts[line + 1])
    return holding
