"""A long logbook without the entries that a new one has nothing to do with (SPEC L).

Where a new entry goes, and how it is written, is told by the sections, by the entries around that
place and by their order. What lies within a long run of plain dated entries tells nothing more:
it is left out of what is read, and put back byte for byte into what is written. A megabyte is
searched by expressions in a hundredth of the time that reading it line by line takes.

Nothing is left out that could mean anything else: a heading of another form, what may open or
close a fence or a comment, what may underline a heading, and every entry of the days around the
new one, which may be that very entry. Whoever reads must ``fit`` what was left out to what was
found; where it does not fit, the whole file is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

LONG: Final = 100_000
"""Characters below which a file is read whole: that takes no time."""
KEPT: Final = 64
"""Entries that stay at both ends of a run: more than the style of a new one is taken from."""
LEAST: Final = 256
"""Entries that a run has at least."""
_DATE: Final = (
    r"(?:19|20)\d\d-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_HEAD: Final = (
    rf"#{{2,6}} {_DATE} (?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?"
    r"(?: (?:UTC|GMT|Z|CET|CEST|MSK|JST|PST|PDT|MST|MDT|EST|EDT)(?= [-–—|·] )|(?= [-–—] [A-Za-z]))"
)
_MARKS: Final = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*+"
_OTHER: Final = re.compile(
    rf"\n(?!{_HEAD})(?:{_MARKS}(?:```|~~~|<[!?pPsStT])|[ \t]*\#| {{0,3}}=+[ \t]*(?:\n|$)"
    r"|(?<!\n\n) {0,3}-{3,}[ \t]*(?:\n|$))"
)
"""What ends a run: whatever may be more than a line of an entry."""
_FENCE: Final = re.compile(r"\n```(?!`)[^`\n]*(?=\n)")
_FENCE_END: Final = re.compile(r"\n {0,3}`{3,}[ \t]*(?=\n|$)")
_DATED: Final = re.compile(rf"\n({_HEAD})")
_FRONT_END: Final = re.compile(r"\n(?:---|\.\.\.)[ \t]*(?=\n)")
_DIGITS: Final = str.maketrans("", "", "0123456789")

Span = tuple[int, int]


class CutError(Exception):
    """What was left out is needed after all: the whole file must be read."""


class Cut(NamedTuple):
    """Entries that were left out before character ``at`` of what is read.

    All are of one heading ``level``; ``newest_first`` is ``None`` when they do not tell.
    """

    at: int
    text: str
    level: int
    newest_first: bool | None


def shortened(text: str, around: float) -> tuple[str, tuple[Cut, ...]]:
    """Return a logbook without what has nothing to do with an entry of that time (epoch s)."""
    if len(text) < LONG or "\r" in text:
        return text, ()
    parts: list[str] = []
    cuts: list[Cut] = []
    done = length = 0
    for start, stop, level, newest_first in _spare(text, _days(around)):
        parts.append(text[done:start])
        length, done = length + start - done, stop
        cuts.append(Cut(length, text[start:stop], level, newest_first))
    return "".join((*parts, text[done:])), tuple(cuts)


def whole(text: str, cuts: Sequence[Cut], start: int = 0) -> str:
    """Return a part of what is read, which begins at ``start``, with what was left out in it."""
    parts: list[str] = []
    done = 0
    for cut in cuts:
        if 0 < cut.at - start < len(text):
            parts += (text[done : cut.at - start], cut.text)
            done = cut.at - start
    return "".join((*parts, text[done:]))


def _days(around: float) -> frozenset[str]:
    """Return the dates that a time may have, whatever zone it is written in."""
    try:
        day = datetime.fromtimestamp(around, UTC)
        return frozenset(f"{day + timedelta(days=each):%Y-%m-%d}" for each in (-1, 0, 1))
    except (ValueError, OverflowError, OSError):
        return frozenset()


def _spare(text: str, days: frozenset[str]) -> Iterator[tuple[int, int, int, bool | None]]:
    """Yield what can be left out: from where to where, the heading level, and the order."""
    for spans in _runs(text):
        heads = [found for span in spans for found in _DATED.finditer(text, *span)]
        names = [found[1] for found in heads]
        level = names[0].index(" ") if len(names) >= LEAST else 0
        if not level or not _alike(names, level):
            continue
        down = sum(one > other for one, other in pairwise(names))
        up = sum(one < other for one, other in pairwise(names))
        for first, last in _ordered(names, level, days, falls=down > up):
            if last - first >= LEAST:
                here, there = heads[first + KEPT].start() + 1, heads[last - KEPT].start() + 1
                yield here, there, level, None if not down + up else down > up


def _alike(names: Sequence[str], level: int) -> bool:
    """Tell whether all are of that level, and written in the same zone and form."""
    tails = {name[level + len(" 2026-03-11 08:55") :] for name in names}
    marks = {name[: level + 1] for name in names}
    return len(marks) == len({tail.translate(_DIGITS) for tail in tails}) == 1


def _ordered(
    names: Sequence[str], level: int, days: frozenset[str], *, falls: bool
) -> Iterator[Span]:
    """Yield the stretches of these headings that are in order and away from the ``days``."""
    first = 0
    for at, (one, other) in enumerate(pairwise(names)):
        wrong = one < other if falls else one > other
        if wrong or other[level + 1 : level + 11] in days:
            yield first, at
            first = at + 1
    yield first, len(names) - 1


def _runs(text: str) -> Iterator[list[Span]]:
    """Yield the runs of plain lines and whole fences, each as the spans outside of its fences."""
    begin = _after_front_matter(text)
    spans: list[Span] = []
    while begin is not None and begin < len(text):
        other = _OTHER.search(text, begin)
        end = len(text) if other is None else other.start()
        spans.append((begin, end + 1))
        fence = None if other is None else _FENCE.match(text, end)
        close = None if fence is None else _FENCE_END.search(text, fence.end())
        if close is None:
            yield spans
            spans = []
        begin = end + 1 if close is None else close.end()


def _after_front_matter(text: str) -> int | None:
    """Return where the front matter ends; ``None`` where it is begun and never ended."""
    if not text.removeprefix("\ufeff").startswith("---"):
        return 0
    found = _FRONT_END.search(text)
    return None if found is None else found.end()
