"""Reads a hero run's logbook, whoever wrote it (SPEC L). Pure on text; nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from cockpit.model.base import Frozen
from cockpit.model.records import EventEntry
from cockpit.records.logbook.guarding import unguarded
from cockpit.records.logbook.labels import KNOWN, meant, plain
from cockpit.text.logbook_scan import (
    Blocks,
    Line,
    LogbookEntry,
    LogbookPage,
    contract_of,
    entries_of,
    indent_of,
    is_instances,
    read_page,
    scan,
    split_lines,
    without_indent,
)

_WORDS: Final = "|".join(re.escape(word) for word in KNOWN)
LABELLED: Final = re.compile(
    r"(?P<indent>[ \t]{0,3})(?P<bullet>[-*+][ \t]+)?(?P<opening>[*_`]{0,3})"
    r"(?P<label>[A-Za-z][^:|]{0,60}?)(?P<closing>[*_`]{0,3})"
    r"(?P<mark>[ \t]*:)(?!//)(?P<ending>[*_`]{0,3})(?=[ \t]|$)[ \t]*(?P<value>.*)"
)
DASHED: Final = re.compile(
    r"(?P<indent>[ \t]{0,3})(?P<bullet>[-*+][ \t]+)(?P<opening>[*_`]{0,3})"
    rf"(?P<label>{_WORDS})(?P<closing>[*_`]{{0,3}})"
    r"(?P<mark>[ \t]+[-–—])(?P<ending>)(?=[ \t]|$)[ \t]*(?P<value>.*)",
    re.IGNORECASE,
)
ROW: Final = re.compile(r"[ \t]*\|(?P<label>[^|]{1,60})\|(?P<value>(?:[^|]|(?<=\\)\|)*)\|?[ \t]*")
_RULE: Final = re.compile(r"[\s|:-]*")
_HEAD: Final = frozenset(("field", "key", "item", "label", "name", "property", "setting", "what"))
_BREAK: Final = re.compile(r"<br ?/?>")
_LOOSE: Final = 4
"""Columns that continue a label without a bullet for certain: nothing else can begin there."""


class LabelledValue(Frozen):
    """A labelled value as it stands in the file; ``line`` to ``end`` are its lines, 1-based."""

    label: str
    value: str
    line: int
    end: int = 0


class Instance(Frozen):
    """One launched instance: its entry, whose title is its id, and its fields."""

    entry: LogbookEntry
    fields: tuple[LabelledValue, ...]


class Logbook(Frozen):
    """A whole logbook. ``entries`` are in the order of the file, instances among them.

    ``newest_first`` is ``None`` when fewer than two entries of the event log carry a time.
    """

    title: str = ""
    contract: tuple[LabelledValue, ...] = ()
    instances: tuple[Instance, ...] = ()
    entries: tuple[LogbookEntry, ...] = ()
    newest_first: bool | None = None


def read_logbook(text: str) -> Logbook:
    """Return what ``text`` holds; never raises, and what it does not understand it leaves."""
    page = read_page(text)
    entries = entries_of(page)
    instances = [entry for entry in entries if is_instances(entry.section)]
    events = [entry for entry in entries if not is_instances(entry.section)]
    return Logbook(
        title=next((line.title for line in page.headings if line.level == 1), ""),
        contract=read_fields(_contract(page, entries)),
        instances=tuple(Instance(entry=each, fields=entry_fields(each)) for each in instances),
        entries=entries,
        newest_first=newest_first(events),
    )


def event_of(entry: LogbookEntry) -> EventEntry:
    """Return what an entry says in SPEC L's four fields, whatever words its file uses for them."""
    said = {}
    for field in entry_fields(entry):
        means = meant(field.label)
        if means is not None:
            said[means.lower()] = field.value
    return EventEntry(title=entry.title, at=entry.at or 0.0, **said)


def output_root_in(text: str) -> str | None:
    """Return the output root that a logbook's run contract records (SPEC L, C-16)."""
    return value_of(read_logbook(text).contract, "Output root")


def value_of(fields: Iterable[LabelledValue], label: str) -> str | None:
    """Return the value under ``label``, whatever its case and punctuation; the last one wins."""
    wanted = plain(label)
    found = [field.value for field in fields if plain(field.label) == wanted]
    return found[-1] if found else None


def read_fields(lines: Iterable[Line]) -> tuple[LabelledValue, ...]:
    """Return labelled values: bullets, bold labels, table rows; indented lines continue one.

    What stands as deep as the text of a bullet belongs to that bullet, whatever it looks like.
    """
    found: list[_Reading] = []
    for line in lines:
        if found and found[-1].takes(line):
            continue
        match = None if line.quoted else match_of(line.text)
        if match is not None:
            found.append(_Reading(line, match))
        elif found and line.text.strip():
            found[-1].closed = True
    return tuple(each.field() for each in found if not each.heads)


def match_of(text: str) -> re.Match[str] | None:
    """Return the parts of a line that is a labelled value or a table row."""
    if _RULE.fullmatch(text):
        return None
    return ROW.fullmatch(text) or DASHED.fullmatch(text) or LABELLED.fullmatch(text)


def cell_text(text: str) -> str:
    """Return what a table cell says."""
    return _BREAK.sub("\n", text.strip()).replace("\\|", "|").replace("&lt;br&gt;", "<br>")


class _Reading:
    """A field while its lines are read."""

    def __init__(self, line: Line, match: re.Match[str]) -> None:
        parts = match.groupdict()
        self.row = "bullet" not in parts
        self.closed = self.row
        self.label = match["label"].strip(" \t*_`")
        self.heads = self.row and plain(self.label) in _HEAD
        self._line, self._end = line.number, line.number
        self._first = cell_text(match["value"]) if self.row else match["value"].strip()
        self._bullet = bool(parts.get("bullet"))
        self.depth = match.start("opening") if self._bullet else _LOOSE
        self._more: list[str] = []
        self._code: list[bool] = []
        self._blank = 0

    def takes(self, line: Line) -> bool:
        """Add ``line`` if it is one of this field's."""
        if self.closed:
            return False
        if not line.text.strip():
            self._blank += 1
            return True
        depth = indent_of(line.text)
        loose = depth >= 2 and not line.quoted and match_of(line.text) is None
        if depth < self.depth and not (loose and not self._blank):
            return False
        self._more += [""] * self._blank + [line.text]
        self._code += [False] * self._blank + [line.quoted]
        self._end, self._blank = line.number, 0
        return True

    def field(self) -> LabelledValue:
        depths = [indent_of(line) for line in self._more if line]
        depth = min([self.depth, *depths])
        more = [
            without_indent(text, depth).rstrip() if code else unguarded(without_indent(text, depth))
            for text, code in zip(self._more, self._code, strict=True)
        ]
        value = "\n".join([self._first, *more]).strip("\n")
        return LabelledValue(label=self.label, value=value, line=self._line, end=self._end)


def _contract(page: LogbookPage, entries: Iterable[LogbookEntry]) -> list[Line]:
    """Return the lines below the Run Contract's heading, down to the next heading."""
    dated = {each.line for each in entries if each.at is not None}
    plain = [line for line in page.headings if line.number not in dated]
    found = contract_of([line.title for line in plain])
    if found is None:
        return []
    first = plain[found].number
    later = (line.number for line in page.headings if line.number > first)
    return page.between(first + 1, next(later, len(page.lines) + 1) - 1)


def entry_fields(entry: LogbookEntry) -> tuple[LabelledValue, ...]:
    """Return the labelled values of an entry."""
    return read_fields(_numbered(entry.text, entry.line + 1))


def _numbered(text: str, first: int) -> list[Line]:
    return list(scan(split_lines(text), Blocks(), first))


def newest_first(entries: Iterable[LogbookEntry]) -> bool | None:
    """Return the order of dated entries, ``None`` when fewer than two tell it."""
    times = [entry.at for entry in entries if entry.at is not None]
    pairs = [(a, b) for a, b in pairwise(times) if a != b]
    return sum(a > b for a, b in pairs) * 2 > len(pairs) if pairs else None
