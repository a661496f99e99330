"""Rejected checkpoints as a logbook says them: one line each, found again by anyone (SPEC A-4).

Written as ``- rejected checkpoint: step 340 `runs/x/checkpoints/step-340` (saved until
2026-03-11T08:55:31Z, by ada: loss spike)`` below an entry's Evidence. A line that begins with
``rejection withdrawn`` in a later entry takes it back. Prose about rejecting is neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.records import Rejected
from cockpit.model.shared_facts import login_in, name_in, typist
from cockpit.text.code_span import UNSAFE, code_span, value_of
from cockpit.text.logbook_scan import Line, LogbookEntry, read_entries, scan
from cockpit.text.markdown_blocks import Blocks, split_lines

_MARKS: Final = r"[*_]{0,3}"
_LABEL: Final = r"(?:[*_`]{0,3}[A-Za-z][A-Za-z /]{0,30}[*_`]{0,3}:[*_`]{0,3}[ \t]+)?"
_SAID: Final = late_regex(
    rf"[ \t]*(?:(?:[-*+•]|\d{{1,3}}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?{_LABEL}{_MARKS}"
    r"(?P<what>rejected[ \t]+checkpoint|rejection[ \t]+withdrawn)"
    rf"{_MARKS}[ \t]*[:—–-]{_MARKS}[ \t]+{_MARKS}step{_MARKS}[ \t]+"
    rf"[*_`]{{0,3}}(?P<step>\d[\d,_]{{0,24}})(?![\w.])[*_`]{{0,3}}"
    r"(?P<rest>.*)",
    re.IGNORECASE,
)
_CODE: Final = late_regex(r"[ \t]*[:,—–-]?[ \t]*(?P<ticks>`+)(?!`)(?P<path>.*?[^`])(?P=ticks)(?!`)")
_PLAIN: Final = late_regex(r"[ \t]*[:,—–-]?[ \t]*(?P<path>[^\s`(),;]*/[^\s`(),;]*)")
_UNTIL: Final = late_regex(r"saved until (?P<until>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)Z")
_BY: Final = late_regex(r"\bby (?P<by>[^:()]+?(?: \(login [^:()]+\))?)(?:: (?P<reason>.*))?$")
_NEW_ITEM: Final = late_regex(
    r"[ \t]*(?:[-*+•>|#]|\d{1,3}[.)][ \t]|[*_`]{0,3}[A-Za-z][^:|]{0,40}:)"
)
_PEOPLE: Final = late_regex(
    r"[ \t]*(?:[-*+][ \t]+)?[*_`]{0,3}(?:by|decided by|operator|author|dri|who)"
    r"[*_`]{0,3}:[*_`]{0,3}[ \t]+(?P<by>.+)",
    re.IGNORECASE,
)
_MINUTE, _DAY = 60.0, 86400.0


class _Word(NamedTuple):
    """One line that rejects or takes back; ``path`` is empty where it names a step alone."""

    order: tuple[float, int]
    withdrawn: bool
    step: int
    path: str
    rejected: Rejected


def rejection_lines(rejected: Sequence[Rejected]) -> str:
    """Return the Markdown for an entry's Evidence, read back exactly by ``read_rejections``."""
    return "\n".join(f"- rejected checkpoint: {_where(one)} ({_why(one)})" for one in rejected)


def read_rejections(text: str) -> tuple[Rejected, ...]:
    """Return the checkpoints that a logbook rejects and does not take back later, by step.

    Where a line does not say it, the moment is the end of the minute (or day) in its entry's
    heading, and the person the one whom the entry names.
    """
    words: list[_Word] = []
    entries = read_entries(text) if "reject" in text.lower() else ()
    for number, entry in enumerate(entries):
        words += _words(entry, number)
    words = _in_order(words)
    held: dict[tuple[int, str], Rejected] = {}
    for word in words:
        if not word.withdrawn:
            held[word.step, word.path] = word.rejected
        elif word.path:
            held.pop((word.step, word.path), None)
        else:
            held = {key: one for key, one in held.items() if key[0] != word.step}
    return tuple(held[key] for key in sorted(held))


def _in_order(words: list[_Word]) -> list[_Word]:
    """Return them oldest first; of one moment, in the direction in which the file is written."""
    times = [word.order[0] for word in words]
    falling = sum(a > b for a, b in pairwise(times))
    rising = sum(a < b for a, b in pairwise(times))
    turn = -1 if falling > rising else 1
    return sorted(words, key=lambda word: (word.order[0], turn * word.order[1]))


def _words(entry: LogbookEntry, number: int) -> Iterator[_Word]:
    if "reject" not in entry.text.lower():
        return
    body = list(whole_lines(scan(split_lines(entry.text), Blocks(), entry.line + 1)))
    person = next((match["by"] for line in body if (match := _PEOPLE.fullmatch(line))), "")
    for line in body:
        said = _SAID.fullmatch(line)
        if said is None:
            continue
        place = _CODE.match(said["rest"]) or _PLAIN.match(said["rest"])
        withdrawn = said["what"].lower().startswith("rejection")
        if place is None and not withdrawn:
            continue
        step = int(re.sub(r"\D", "", said["step"]))
        path = "" if place is None else value_of(place["path"])
        more = said["rest"] if place is None else said["rest"][place.end() :]
        one = _rejection(entry, step, path, more, person)
        yield _Word((entry.at or 0.0, number), withdrawn, step, path, one)


def _rejection(entry: LogbookEntry, step: int, path: str, more: str, person: str) -> Rejected:
    """Return the rejection with the moment, person and reason that the line's end says."""
    more = more.strip().removeprefix("(")
    more = more.removesuffix(")") if more.count(")") > more.count("(") else more
    until, by = _UNTIL.match(more), _BY.search(more)
    at = entry.at or 0.0  # then until the end of what the heading may mean: a day, a minute
    if entry.at is not None:
        at += _DAY if at % _DAY == 0 else _MINUTE
    return Rejected(
        step=step,
        path=path,
        at=at if until is None else _seconds(until["until"]),
        by=(by["by"] if by is not None else person).strip(),
        reason=(by["reason"] or "").strip() if by is not None else "",
    )


def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def whole_lines(lines: Iterable[Line]) -> Iterator[str]:
    """Yield the lines outside quotes, each with those that it was wrapped into."""
    whole = ""
    for line in lines:
        plain = "" if line.quoted else line.text.rstrip()
        wraps = whole and plain.startswith((" ", "\t")) and not _NEW_ITEM.match(plain)
        if wraps:
            whole = f"{whole} {plain.strip()}"
            continue
        if whole:
            yield whole
        whole = plain
    if whole:
        yield whole


def _where(one: Rejected) -> str:
    return f"step {one.step} {code_span(one.path)}"


def _why(one: Rejected) -> str:
    by = typist(_plain(name_in(one.by)), _plain(login_in(one.by))) or "unknown"
    reason = _flat(one.reason)
    reason_text = f"by {by}: {reason}" if reason else f"by {by}"
    try:
        moment = datetime.fromtimestamp(one.at, UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return f"saved until {moment.isoformat().replace('+00:00', 'Z')}, {reason_text}"


def _plain(name: str) -> str:
    """Return a name without what parts the words of the line."""
    return " ".join(re.sub("[:()]", " ", _flat(name)).split())


def _flat(text: str) -> str:
    return " ".join(UNSAFE.sub(" ", text).split())
