"""How a file writes its labelled values, entries and times; used for new ones (SPEC L)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cockpit.model.base import Frozen
from cockpit.records.logbook import reading
from cockpit.text.logbook_lines import quoted
from cockpit.text.scrub import scrub
from cockpit.text.times import known_zone, read_stamp, written_stamp

T = TypeVar("T")
_AREAS: Final = {
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
    "MDT": "America/Denver",
    "CDT": "America/Chicago",
    "EST": "America/New_York",
    "EDT": "America/New_York",
    "BST": "Europe/London",
    "WEST": "Europe/Lisbon",
    "CET": "Europe/Berlin",
    "CEST": "Europe/Berlin",
    "EET": "Europe/Athens",
    "EEST": "Europe/Athens",
    "AEDT": "Australia/Sydney",
}
"""Zones that change their name with the season, so that July is not written in winter time."""

_LAST: Final = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_AMBIGUOUS: Final = frozenset(("CST", "IST"))


class StampForm(Frozen):
    """How a file writes a time. ``zone`` is as it is written; empty text is never a zone."""

    dash: str = "-"
    between: str = " "
    seconds: bool = False
    half: str = ""
    padded: bool = True
    gap: str = " "
    zone: str = "UTC"

    def write(self, at: float) -> str:
        """Return ``at`` (epoch seconds) so written, in UTC where this form would not say it.

        A time that no logbook can mean (before 1970, after 2099, not a number) is 1970's first.
        """
        at = at if 0.0 <= at < _LAST else 0.0
        whole = float(int(at)) if self.seconds else at // 60 * 60
        for form in (self, self.model_copy(update={"zone": "UTC", "gap": self.gap or " "})):
            text = form._text(whole)
            found = read_stamp(text)
            if found is not None and found.at == whole and not found.rest:
                return text
        return StampForm()._text(at // 60 * 60)

    def _text(self, at: float) -> str:
        zone, name = _zone_at(self.zone, at)
        moment = datetime.fromtimestamp(at, zone)
        clock = moment.strftime("%I:%M" if self.half else "%H:%M")
        clock = clock if self.padded else clock.removeprefix("0")
        clock += f":{moment:%S}" if self.seconds else ""
        if self.half:
            word = moment.strftime("%p")
            clock += self.half[:-2] + (word.lower() if self.half[-1].islower() else word)
        date = self.dash.join((f"{moment.year:04}", f"{moment.month:02}", f"{moment.day:02}"))
        open_, close = ("(", ")") if self.gap.endswith("(") else ("", "")
        return f"{date}{self.between}{clock}{self.gap.removesuffix(open_)}{open_}{name}{close}"


def _zone_at(text: str, at: float) -> tuple[tzinfo, str]:
    """Return the zone and the name it has at that time; UTC for one that is not certain."""
    area = _AREAS.get(text)
    if area is not None:
        try:
            zone: tzinfo = ZoneInfo(area)
        except (ZoneInfoNotFoundError, OSError):
            zone = known_zone(text) or UTC
            return zone, text
        return zone, datetime.fromtimestamp(at, zone).strftime("%Z")
    known = None if text in _AMBIGUOUS else known_zone(text)
    return (UTC, "UTC") if known is None else (known, text)


def form_of(texts: Iterable[str]) -> StampForm:
    """Return how most of these texts write their time (each text begins with or holds one)."""
    found = [match for text in texts if (match := written_stamp(text)) is not None]
    timed = [match for match in found if match["h"] is not None]
    if not timed:
        return StampForm(dash=most([match.string[match.end("Y")] for match in found], "-"))
    zoned = [match for match in timed if match["zone"] is not None]
    zone, gap = _zone_of(zoned)
    return StampForm(
        dash=most([match.string[match.end("Y")] for match in timed], "-"),
        between=most([match.string[match.end("D") : match.start("h")] for match in timed], " "),
        seconds=2 * sum(match["s"] is not None for match in timed) > len(timed),
        half=most([_half_of(match) for match in timed], ""),
        padded=all(len(match["h"]) > 1 for match in timed),
        gap=gap,
        zone=zone,
    )


def _zone_of(zoned: list[re.Match[str]]) -> tuple[str, str]:
    """Return the zone that most times name, in its newest spelling, and what stands before it."""
    if not zoned:
        return "UTC", " "
    family = most([_AREAS.get(match["zone"], match["zone"]) for match in zoned], "UTC")
    mine = [match for match in zoned if _AREAS.get(match["zone"], match["zone"]) == family]
    return mine[-1]["zone"], most([_gap_of(match) for match in mine], " ")


def _gap_of(match: re.Match[str]) -> str:
    ends = [match.end(name) for name in ("m", "s", "half") if match[name] is not None]
    gap = match.string[max(ends) : match.start("zone")]
    return gap if len(gap) <= 2 and not gap.strip(" (") else " "


def _half_of(match: re.Match[str]) -> str:
    if match["half"] is None:
        return ""
    end = match.end("m") if match["s"] is None else match.end("s")
    return match.string[end : match.end("half")]


def most(values: Sequence[T], default: T) -> T:
    """Return the value seen most often, of equals the last one; ``default`` without any."""
    counted = Counter(reversed(values))
    return max(counted, key=lambda value: counted[value], default=default)


_BREAKS: Final = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LOOSE: Final = "    "
HARD: Final = "  "
"""What Markdown takes for the end of a line, and no reader for a part of it."""
_DATED: Final = re.compile(r"[ \t]{0,3}(?P<bullet>[-*+][ \t]+)(?P<rest>.*)")
_SET_OFF: Final = re.compile(r"[ \t]*[-–—:|·,]+[ \t]*|[ \t]+")
_FOREIGN_ZONE: Final = re.compile(r"[ \t]+\(?[A-Z]{2,5}\)?(?=[ \t]*[-–—:|·,])")
"""A zone between a time and its title: `` (PST) -``."""
_OPENING: Final = re.compile(r"[*_`\[(]{0,3}")
_BLOCK: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]|`{3}|~{3}")
_PAIRS: Final = str.maketrans("([", ")]")
_KNOWN: Final = frozenset(map(reading.plain, reading.KNOWN))
_ENDING_MARKS: Final = re.compile(r"[ \t]#+$")
"""Such as ``Title ##``."""


def normal(value: str) -> str:
    """Return a value as it can be written and read back: safe, masked, no edges of white space."""
    text = value.encode("utf-8", "replace").decode()
    lines = _BREAKS.split(scrub("\n".join(_BREAKS.split(text))))
    clean = [_CONTROL.sub("", line).rstrip() for line in lines]
    while clean and not clean[0]:
        clean.pop(0)
    while clean and not clean[-1]:
        clean.pop()
    return "\n".join([clean[0].lstrip(), *clean[1:]]) if clean else ""


def foreign(value: str) -> str:
    """Return a value as plain text: no reader takes any of it for a message or a rejection.

    After ``normal``: a character that is taken out could join what was apart.
    """
    return quoted(normal(value))


def one_line(text: str) -> str:
    """Return a title: one line, as a heading can hold it."""
    line = " ".join(normal(text).split())
    while (end := _ENDING_MARKS.search(line)) is not None:
        line = line[: end.start()].rstrip()
    return "" if set(line) == {"#"} else line


class FieldForm(Frozen):
    """How one labelled value is written: bullet, emphasis, and what stands after the label.

    ``spaced`` is a blank line between two values. A ``row`` is a line of a table.
    """

    bullet: str = "- "
    opening: str = ""
    closing: str = ""
    mark: str = ":"
    ending: str = ""
    spaced: bool = False
    row: bool = False

    def write(self, label: str, value: str, indent: str = "") -> list[str]:
        """Return the lines of a value; those after the first are indented so that they stay its."""
        if self.row:
            return [f"| {label} | {cell(value)} |"]
        first, more = value_lines(normal(value))
        dashed = self.mark != ":" and reading.plain(label) in _KNOWN and "(" not in label
        name = label if self.opening else reading.written(label)
        head = f"{indent}{self.bullet}{self.opening}{name}{self.closing}"
        head += f"{self.mark if dashed else ':'}{self.ending}"
        deep = indent + (" " * len(self.bullet) if self.bullet else _LOOSE)
        lines = [f"{head} {first}".rstrip(), *(f"{deep}{line}" if line else "" for line in more)]
        return self._broken(reading.guarded(lines, 1))

    def _broken(self, lines: list[str]) -> list[str]:
        """Return lines that stay lines: without a bullet Markdown would make one paragraph."""
        if self.bullet or self.spaced:
            return lines
        return [f"{line}{HARD}" if line else line for line in lines]


def value_lines(value: str) -> tuple[str, list[str]]:
    """Return what stands beside the label and what below it: a list or a fence begins below."""
    first, *more = value.split("\n")
    return ("", [first, *more]) if _BLOCK.match(first) else (first, more)


def cell(value: str) -> str:
    """Return a value as the text of a table cell."""
    text = normal(value).replace("<br>", "&lt;br&gt;").replace("|", "\\|")
    return text.replace("\n", "<br>")


def field_form(lines: Sequence[str], spaced: bool = False) -> FieldForm | None:
    """Return the form most of these first lines of values have; ``None`` without any."""
    forms = [form for line in lines if (form := _form(line)) is not None]
    form = most(forms, None)
    return None if form is None else form.model_copy(update={"spaced": spaced})


def _form(line: str) -> FieldForm | None:
    if reading.ROW.fullmatch(line):
        return FieldForm(row=True)
    match = reading.DASHED.fullmatch(line) or reading.LABELLED.fullmatch(line)
    if match is None:
        return None
    opening = match["opening"]
    code = opening == "`" and reading.plain(match["label"]) == "initializefrom"
    closed = match["closing"] or match["ending"]
    if code or closed != opening[::-1]:
        opening = ""
    bullet = match["bullet"] or ""
    return FieldForm(
        bullet=bullet.replace("\t", " ")[:4],
        opening=opening,
        closing=match["closing"] if opening else "",
        mark=match["mark"].lstrip() if match["mark"].endswith(":") else match["mark"],
        ending=match["ending"] if opening else "",
    )


class HeadForm(Frozen):
    """How the first line of an entry is written; ``level`` 0 is a dated bullet."""

    level: int = 3
    bullet: str = "- "
    opening: str = ""
    closing: str = ""
    mark: str = " - "
    stamp: StampForm = StampForm()

    def write(self, at: float, title: str) -> str:
        """Return the line, written so that the title is read back from it."""
        title = one_line(title)
        for mark in (self.mark, " - ", ": "):
            line = self._head_line(at, f"{mark}{title}" if title else "")
            found = read_stamp(line)
            if found is not None and found.rest == title:
                return self._start() + line
        return self._start() + f"{StampForm().write(at)} - {title}"

    def _head_line(self, at: float, rest: str) -> str:
        return f"{self.opening}{self.stamp.write(at)}{self.closing}{rest}"

    def _start(self) -> str:
        return f"{'#' * self.level} " if self.level else self.bullet


def head_form(lines: Iterable[str], level: int, stamp: StampForm) -> HeadForm:
    """Return the form most of these first lines have (headings without their marks)."""
    found = [form for line in lines if (form := _head(line, level, stamp)) is not None]
    return most(found, HeadForm(level=level, stamp=stamp))


def _head(line: str, level: int, stamp: StampForm) -> HeadForm | None:
    bullet = "- "
    if not level:
        dated = _DATED.fullmatch(line)
        if dated is None:
            return None
        bullet, line = dated["bullet"].replace("\t", " ")[:4], dated["rest"]
    match = written_stamp(line)
    opening = _OPENING.match(line)
    if match is None or opening is None or opening.end() != match.start():
        return None
    rest, closing = line[match.end() :], opening.group()[::-1].translate(_PAIRS)
    if not rest.startswith(closing):
        return None
    rest = rest[len(closing) :]
    foreign = _FOREIGN_ZONE.match(rest)
    mark = _SET_OFF.match(rest[foreign.end() :] if foreign is not None else rest)
    return HeadForm(
        level=level,
        bullet=bullet,
        opening=opening.group(),
        closing=closing,
        mark=" - " if mark is None or len(mark.group()) > 4 else mark.group(),
        stamp=stamp,
    )


def label_words(labels: Iterable[Sequence[str]]) -> tuple[str, str, str, str]:
    """Return the four words that these entries use for an event's four labels (SPEC L).

    Another word than SPEC's is taken only from a file that uses it and never SPEC's.
    """
    used: dict[str, Counter[str]] = {label: Counter() for label in reading.EVENT}
    for entry in labels:
        for label in entry:
            means = reading.meant(label)
            if means is not None:
                used[means][label] += 1
    theirs = not any(
        reading.plain(word) == reading.plain(label)
        for label in reading.EVENT
        for word in used[label]
    )
    status, evidence, decision, follow = (
        _label_word(label, used[label], theirs) for label in reading.EVENT
    )
    return status, evidence, decision, follow


def _label_word(label: str, counted: Counter[str], theirs: bool) -> str:
    """Return the word for one label; one seen once counts if the file has ``theirs`` for all."""
    own = [word for word in counted if reading.plain(word) == reading.plain(label)]
    if own or not counted:
        return label
    word, times = counted.most_common(1)[0]
    return word if theirs or times > 1 else label


class EntryForm(Frozen):
    """How a section writes its entries.

    ``air`` is a blank line below the heading, ``gap`` the number of blank lines between two
    entries, ``words`` the labels of an event's four fields.
    """

    head: HeadForm = HeadForm()
    fields: FieldForm = FieldForm()
    words: tuple[str, str, str, str] = ("Status", "Evidence", "Decision", "Next")
    air: bool = False
    gap: int = 1

    def write(
        self, at: float, title: str, values: Iterable[tuple[str, str]], *, empties: bool = False
    ) -> list[str]:
        """Return the lines of an entry; values that are empty are left out, unless ``empties``."""
        indent = "" if self.head.level else " " * len(self.head.bullet)
        form = self.fields if self.head.level else self.fields.model_copy(update={"spaced": False})
        if form.row or (indent and not form.bullet):
            form = FieldForm()
        body: list[str] = []
        for label, value in values:
            if empties or normal(value):
                body += [""] * (form.spaced and bool(body)) + form.write(label, value, indent)
        if body:
            body[-1] = body[-1].rstrip()
        air = [""] if self.air and body and self.head.level else []
        return [self.head.write(at, title), *air, *body]
