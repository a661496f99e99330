"""The style of a logbook: how its people write, so that a new entry looks like theirs (SPEC L)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from cockpit.records.book import Book
from cockpit.records.forms import EntryForm, FieldForm, HeadForm, field_form, head_form, label_words
from cockpit.records.logbook import Field, entry_fields, read_fields
from cockpit.records.places import Place, contract_heading
from cockpit.records.stamps import form_of
from cockpit.text.logbook_scan import Entry

_SAMPLE: Final = 40
"""Entries that are looked at: those next to where the new one goes."""


def entry_form(book: Book, place: Place | None, other: Place | None = None) -> EntryForm:
    """Return how a section writes entries; from ``other`` section what it does not tell itself."""
    own = _sample(place)
    known = own or _sample(other)
    level = place.level if place is not None else 3
    starts = [book.start_of(entry) for entry in known]
    fields = [entry_fields(entry) for entry in known]
    stamp = form_of(starts)
    theirs = known[-1].level if known else level
    head = head_form(starts, theirs, stamp)
    if bool(theirs) is not bool(level):
        head = HeadForm(stamp=stamp, mark=head.mark)
    gap = _gap(book, own, place)
    return EntryForm(
        head=head.model_copy(update={"level": level}),
        fields=fields_form(book, fields) or contract_form(book, rows=False),
        words=label_words([field.label for field in each] for each in fields if own),
        air=_mostly([book.blank(entry.line + 1) for entry in known if entry.text.strip()]),
        gap=gap,
    )


def contract_form(book: Book, rows: bool = True) -> FieldForm:
    """Return how the run contract writes its values (``rows``: in a table, if it does)."""
    heading = contract_heading(book)
    if heading is None:
        return FieldForm()
    last = book.section_end(heading.number, 6)
    fields = read_fields(book.between(heading.number + 1, last))
    form = fields_form(book, [fields])
    return FieldForm() if form is None or (form.row and not rows) else form


def _sample(place: Place | None) -> tuple[Entry, ...]:
    if place is None:
        return ()
    return place.entries[:_SAMPLE] if place.newest_first else place.entries[-_SAMPLE:]


def fields_form(book: Book, entries: Sequence[Sequence[Field]]) -> FieldForm | None:
    """Return the form of these values' first lines, and whether blank lines set them apart."""
    lines = [book.line(field.line) for fields in entries for field in fields]
    apart = [
        later.line - former.end == 2 and book.blank(former.end + 1)
        for fields in entries
        for former, later in pairwise(fields)
    ]
    return field_form(lines, spaced=_mostly(apart))


def _gap(book: Book, entries: Sequence[Entry], place: Place | None) -> int:
    """Return how many blank lines stand above an entry that follows another."""
    top = place.heading.number if place is not None and place.heading is not None else 0
    gaps = [_blanks_above(book, entry.line) for entry in entries[1:] if entry.line - 1 != top]
    if not gaps:
        return 0 if place is not None and place.entries and not place.level else 1
    counted = Counter(gaps)
    return min(2, max(counted, key=lambda each: counted[each]))


def _blanks_above(book: Book, number: int) -> int:
    blanks = 0
    while number - blanks > 1 and book.blank(number - 1 - blanks):
        blanks += 1
    return blanks


def _mostly(told: Sequence[bool]) -> bool:
    return 2 * sum(told) > len(told)
