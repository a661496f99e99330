"""Sets labelled values of a section in place, and adds those that are missing (SPEC L)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cockpit.records.book import Book
from cockpit.records.forms import FieldForm, cell, normal, one_line, value_lines
from cockpit.records.labels import plain
from cockpit.records.logbook import ROW, Field, match_of, read_fields
from cockpit.records.style import fields_form
from cockpit.text.markdown_blocks import indent_of

_LOOSE: Final = 4
_UNFIT: Final = re.compile(r"[:|]")


def with_values(part: bytes, values: Mapping[str, str]) -> bytes:
    """Return the section ``part`` (its heading first) with these values; order kept, rest kept."""
    for label, value in values.items():
        part = _with_value(Book(part), part, _UNFIT.sub(" ", one_line(label)).strip(), value)
    return part


def _with_value(book: Book, part: bytes, label: str, value: str) -> bytes:
    fields = read_fields(book.between(2, book.last))
    same = [field for field in fields if plain(field.label) == plain(label)]
    if same:
        return _set(book, part, same[-1], normal(value))
    if not normal(value):
        return part
    return _added(book, fields, label, value)


def _set(book: Book, part: bytes, field: Field, value: str) -> bytes:
    text = book.line(field.line)
    match = match_of(text)
    if match is None or field.value == value:
        return part
    start = match.start("value")
    if "bullet" not in match.groupdict():
        old = match["value"]
        new = f" {cell(value)} ".ljust(len(old))
        return book.with_replaced(field.line, start, field.line, new + text[match.end("value") :])
    deep = match.start("opening") if match["bullet"] else _LOOSE
    first, more = value_lines(value)
    space = " " if first and not text[:start].endswith((" ", "\t")) else ""
    lines = [space + first, *(" " * deep + line if line else "" for line in more)]
    return book.with_replaced(field.line, start, field.end, "\n".join(lines))


def _added(book: Book, fields: tuple[Field, ...], label: str, value: str) -> bytes:
    """Return the section with one more value below the last one, in their form."""
    form = fields_form(book, [fields]) or FieldForm()
    lines = form.write(label, value)
    if not fields:
        after = max(book.content_end(2, book.last), 1)
        return book.with_lines(after, lines, 1, 0)
    after = fields[-1].end
    if form.row:
        lines = [_row(book.line(after), label, value)]
    while not form.row and after < book.last and _goes_on(book, after + 1):
        after += 1
    return book.with_lines(after, lines, int(form.spaced), 0)


def _goes_on(book: Book, number: int) -> bool:
    """Return whether the line is of the text above: a paragraph's, quoted, or set in below it."""
    if number in book.quoted or not book.blank(number):
        return True
    while number < book.last and book.blank(number):
        number += 1
    return not book.blank(number) and indent_of(book.line(number)) > 1


def _row(last: str, label: str, value: str) -> str:
    """Return a row of the table that ``last`` ends, as wide as that where the texts fit."""
    match = ROW.fullmatch(last)
    wide = (0, 0) if match is None else (len(match["label"]) - 2, len(match["value"]) - 2)
    return f"| {label.ljust(wide[0])} | {cell(value).ljust(wide[1])} |"
