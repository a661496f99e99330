"""Reads a hero run's logbook, whoever wrote it (SPEC L). Pure on text; nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from cockpit.model.base import Frozen
from cockpit.text.logbook_scan import Entry, Line, read_entries, read_lines, split_front_matter

_BULLET: Final = re.compile(
    r"[ \t]{0,3}(?:[-*+][ \t]+)?[*_`]{0,3}(?P<label>[A-Za-z][^:|]{0,60}?)[*_`]{0,3}[ \t]*"
    r":(?!//)[*_`]{0,3}(?=[ \t]|$)[ \t]*(?P<value>.*)"
)
_ROW: Final = re.compile(r"[ \t]*\|(?P<label>[^|]{1,60})\|(?P<value>[^|]*)\|?[ \t]*")
_RULE: Final = re.compile(r"[\s|:-]*")
_INDENTED: Final = re.compile(r"(?:[ ]{2,}|\t)\S")


class Field(Frozen):
    """A labelled value as it stands in the file; ``line`` is 1-based."""

    label: str
    value: str
    line: int


class Instance(Frozen):
    """One launched instance: its entry, whose title is its id, and its fields."""

    entry: Entry
    fields: tuple[Field, ...]


class Logbook(Frozen):
    """A whole logbook. ``entries`` are in the order of the file, instances among them.

    ``newest_first`` is ``None`` when fewer than two entries of the event log carry a time.
    """

    title: str = ""
    front_matter: tuple[Field, ...] = ()
    contract: tuple[Field, ...] = ()
    instances: tuple[Instance, ...] = ()
    entries: tuple[Entry, ...] = ()
    newest_first: bool | None = None


def read_logbook(text: str) -> Logbook:
    """Return what ``text`` holds; never raises, and what it does not understand it leaves."""
    lines = read_lines(text)
    entries = read_entries(text)
    instances = [entry for entry in entries if _is_instances(entry.section)]
    events = [entry for entry in entries if not _is_instances(entry.section)]
    return Logbook(
        title=next((line.title for line in lines if line.level == 1), ""),
        front_matter=read_fields(_numbered(split_front_matter(text)[0], 2)),
        contract=read_fields(_section(lines, "contract")),
        instances=tuple(map(_instance, instances)),
        entries=entries,
        newest_first=_newest_first(events),
    )


def value_of(fields: Iterable[Field], label: str) -> str | None:
    """Return the value under ``label``, whatever its case and punctuation; the last one wins."""
    wanted = _plain(label)
    found = [field.value for field in fields if _plain(field.label) == wanted]
    return found[-1] if found else None


def read_fields(lines: Iterable[Line]) -> tuple[Field, ...]:
    """Return labelled values: bullets, bold labels, table rows; indented lines continue one."""
    fields: list[Field] = []
    for line in lines:
        match = _match(line.text)
        if match is not None:
            label, value = match.group("label").strip(" *_`"), match.group("value").strip()
            fields.append(Field(label=label, value=value, line=line.number))
        elif fields and _INDENTED.match(line.text):
            last = fields.pop()
            value = f"{last.value}\n{line.text.strip()}".strip()
            fields.append(last.model_copy(update={"value": value}))
    return tuple(fields)


def _match(text: str) -> re.Match[str] | None:
    if _RULE.fullmatch(text):
        return None
    return _ROW.fullmatch(text) or _BULLET.fullmatch(text)


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", label.lower())


def _section(lines: tuple[Line, ...], word: str) -> list[Line]:
    """Return the lines below the first heading that has ``word`` in it, down to the next."""
    inside: list[Line] | None = None
    for line in lines:
        if line.level:
            if inside is not None:
                break
            inside = [] if word in line.title.lower() and line.level > 1 else None
        elif inside is not None:
            inside.append(line)
    return inside or []


def _is_instances(section: str) -> bool:
    words = section.lower()
    return "instance" in words or "launches" in words


def _instance(entry: Entry) -> Instance:
    return Instance(entry=entry, fields=read_fields(_numbered(entry.text, entry.line + 1)))


def _numbered(text: str, first: int) -> list[Line]:
    return [Line(number, line) for number, line in enumerate(text.splitlines(), start=first)]


def _newest_first(events: Iterable[Entry]) -> bool | None:
    times = [entry.at for entry in events if entry.at is not None]
    pairs = [(a, b) for a, b in pairwise(times) if a != b]
    if not pairs:
        return None
    return sum(a > b for a, b in pairs) * 2 > len(pairs)
