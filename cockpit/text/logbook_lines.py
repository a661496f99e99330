"""Lines that are written into a logbook and found again: rejected checkpoints, sent messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.records import Rejected
from cockpit.model.shared_facts import KINDS, SharedFact, instant_in, login_in, name_in, typist
from cockpit.text.logbook_scan import (
    Blocks,
    LogbookEntry,
    MarkdownLine,
    read_entries,
    scan,
    split_lines,
)
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

UNSAFE: Final = late_regex("[\x00-\x1f\x7f-\x9f\\\\\u2028\u2029\ud800-\udfff]")
_ESCAPED: Final = late_regex(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|\\)")
_TICKS: Final = late_regex("`+")


def code_span(value: str) -> str:
    """Return ``value`` as a code span of one line."""
    plain = UNSAFE.sub(_escape, value)
    runs = {len(run) for run in _TICKS.findall(plain)}
    ticks = "`" * next(count for count in range(1, len(plain) + 2) if count not in runs)
    edge = " " if plain[:1] in ("`", " ") or plain[-1:] in ("`", " ") else ""
    return f"{ticks}{edge}{plain}{edge}{ticks}"


def value_of(inside: str) -> str:
    """Return the value of a code span from what stands between its ticks; it may hold anything."""
    if inside.startswith(" ") and inside.endswith(" ") and inside.strip():
        inside = inside[1:-1]
    return _ESCAPED.sub(
        lambda found: "\\" if found[0] == "\\\\" else chr(int(found[0][2:], 16)), inside
    )


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    code = ord(char)
    return "\\\\" if char == "\\" else f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


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
"""Such as ``saved until 2026-03-11T08:41:07Z``."""
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


class _RejectLine(NamedTuple):
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
    words: list[_RejectLine] = []
    entries = read_entries(text) if "reject" in text.lower() else ()
    for number, entry in enumerate(entries):
        words += _reject_lines(entry, number)
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


def _in_order(words: list[_RejectLine]) -> list[_RejectLine]:
    """Return them oldest first; of one moment, in the direction in which the file is written."""
    times = [word.order[0] for word in words]
    falling = sum(a > b for a, b in pairwise(times))
    rising = sum(a < b for a, b in pairwise(times))
    turn = -1 if falling > rising else 1
    return sorted(words, key=lambda word: (word.order[0], turn * word.order[1]))


def _reject_lines(entry: LogbookEntry, number: int) -> Iterator[_RejectLine]:
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
        yield _RejectLine((entry.at or 0.0, number), withdrawn, step, path, one)


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


def whole_lines(lines: Iterable[MarkdownLine]) -> Iterator[str]:
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


MOST: Final = 2000
"""Lines that are kept of one file: the newest ones by their own time."""
_SPAN: Final = r"(?P<{0}ticks>`+)(?!`)(?P<{0}text>.*?[^`])(?P={0}ticks)(?!`)"
_MESSAGE_LABEL: Final = r"(?:[*_`]{0,3}[A-Za-z][A-Za-z /]{0,30}[*_`]{0,3}:[*_`]{0,3}[ \t]+)?"
_MESSAGE: Final = re.compile(
    rf"[ \t]*(?:[-*+][ \t]+)?{_MESSAGE_LABEL}(?P<what>{'|'.join(KINDS)}):[ \t]+{_SPAN.format('v')}"
    rf"(?P<rest>.*?)[ \t]+\((?P<at>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{{1,6}})?Z), "
    rf"typed by {_SPAN.format('t')}\)[ \t]*"
)
_PART: Final = re.compile(rf",[ \t]+(?P<name>[a-z][a-z ]{{0,30}}?)[ \t]+{_SPAN.format('p')}")
_WORDS: Final = (
    *(rf"{what[0]}(?={what[1:]}:\s+`)" for what in KINDS),
    *(rf"(?i:{word[0]}(?={word[1:]}[*_]{{0,3}}\s*[:—–-]))"
      for word in (r"rejected\s+checkpoint", r"rejection\s+withdrawn")),
)  # fmt: skip
_READ: Final = re.compile("|".join(_WORDS))
_APART: Final = "\N{ZERO WIDTH SPACE}"


def message_line(told: SharedFact) -> str:
    """Return the line, without a bullet; ``read_messages`` reads it back."""
    parts = "".join(f", {name} {_span(text)}" for name, text in told.parts.items() if text)
    moment = datetime.fromtimestamp(told.at, UTC).isoformat(timespec="microseconds")
    at = moment.replace("+00:00", "Z")
    return f"{told.what}: {_span(told.value)}{parts} ({at}, typed by {_span(told.typed_by)})"


def message_lines(told: Iterable[SharedFact]) -> str:
    """Return the Markdown for an entry: a bullet each."""
    return "\n".join(f"- {message_line(each)}" for each in told)


def read_messages(text: str, source: str, until: float) -> tuple[SharedFact, ...]:
    """Return the messages in a logbook's entries, but for those later than ``until``."""
    if not any(f"{what}:" in text for what in KINDS):
        return ()
    found = [
        told
        for entry in read_entries(text)
        for line in whole_lines(scan(split_lines(entry.text), Blocks(), entry.line + 1))
        if (told := _message_in(line, source)) is not None and told.at <= until
    ]
    return _newest(found)


def read_plain(text: str, source: str, until: float) -> tuple[SharedFact, ...]:
    """Return what a plain file of such lines tells."""
    found = (_message_in(line, source) for line in split_lines(text))
    return _newest([each for each in found if each is not None and each.at <= until])


def quoted(text: str) -> str:
    """Return text that, in an entry, neither tells nor rejects anything, however it is wrapped.

    Every word that a reader looks for, wherever it stands, is split by what nobody sees.
    """
    return _READ.sub(lambda found: found[0] + _APART, text)


def _newest(found: list[SharedFact]) -> tuple[SharedFact, ...]:
    return tuple(sorted(found, key=lambda each: each.at)[-MOST:])


def _message_in(line: str, source: str) -> SharedFact | None:
    match = _MESSAGE.fullmatch(line)
    at = None if match is None else instant_in(match["at"])
    if match is None or at is None:
        return None
    parts = dict(_parts(match["rest"]))
    return SharedFact(
        what=match["what"],
        value=_safe(match["vtext"]),
        at=at,
        typed_by=_safe(match["ttext"]),
        parts=parts,
        source=source,
    )


def _parts(text: str) -> Iterator[tuple[str, str]]:
    for found in _PART.finditer(text):
        yield found["name"], _safe(found["ptext"])


def _span(text: str) -> str:
    return code_span(text or "?")


def _safe(text: str) -> str:
    """Return a span's text: what was escaped is shown, never sent to a terminal as it is."""
    return scrub(clean(value_of(text), 1000))
