"""The style of a logbook: how its people write, so that what is added looks like theirs (SPEC L).

``with_values`` sets labelled values of a section in that style, and adds those that are missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Final

from cockpit.records.logbook import forms, reading
from cockpit.records.logbook.book import EntrySection, Heading, MarkdownFile, contract_heading
from cockpit.text.logbook_scan import LogbookEntry, indent_of

_SAMPLE: Final = 40
"""Entries that are looked at: those next to where the new one goes."""
_LOOSE: Final = 4
_UNFIT: Final = re.compile(r"[:|]")
_MARKS: Final = re.compile(r"[`<>*_()\[\],]+")
_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]")
"""Such as ``- an item``."""
_WORDS: Final = 4
"""Words that a label may have, where nothing but its colon marks it as one."""
_KNOWN: Final = frozenset(map(reading.plain, reading.KNOWN))


def entry_form(
    book: MarkdownFile, place: EntrySection | None, other: EntrySection | None = None
) -> forms.EntryForm:
    """Return how a section writes entries; from ``other`` section what it does not tell itself."""
    own = _sample(place)
    known = own or _sample(other)
    level = place.level if place is not None else 3
    starts = [book.start_of(entry) for entry in known]
    fields = [reading.entry_fields(entry) for entry in known]
    stamp = forms.form_of(starts)
    theirs = known[-1].level if known else level
    head = forms.head_form(starts, theirs, stamp)
    if bool(theirs) is not bool(level):
        head = forms.HeadForm(stamp=stamp, mark=head.mark)
    gap = _gap(book, own, place)
    return forms.EntryForm(
        head=head.model_copy(update={"level": level}),
        fields=fields_form(book, fields) or contract_form(book, rows=False),
        words=forms.label_words([field.label for field in each] for each in fields if own),
        air=_mostly([book.blank(entry.line + 1) for entry in known if entry.text.strip()]),
        gap=gap,
    )


def contract_form(book: MarkdownFile, rows: bool = True) -> forms.FieldForm:
    """Return how the run contract writes its values (``rows``: in a table, if it does)."""
    heading = contract_heading(book)
    if heading is None:
        return forms.FieldForm()
    last = book.section_end(heading.number, 6)
    fields = reading.read_fields(book.between(heading.number + 1, last))
    form = fields_form(book, [fields])
    return forms.FieldForm() if form is None or (form.row and not rows) else form


def _sample(place: EntrySection | None) -> tuple[LogbookEntry, ...]:
    if place is None:
        return ()
    return place.entries[:_SAMPLE] if place.newest_first else place.entries[-_SAMPLE:]


def fields_form(
    book: MarkdownFile, entries: Sequence[Sequence[reading.LabelledValue]]
) -> forms.FieldForm | None:
    """Return the form of these values' first lines, and whether blank lines set them apart."""
    entries = [[field for field in fields if is_field(book, field)] for fields in entries]
    lines = [book.line(field.line) for fields in entries for field in fields]
    apart = [
        later.line - former.end == 2 and book.blank(former.end + 1)
        for fields in entries
        for former, later in pairwise(fields)
    ]
    return forms.field_form(lines, spaced=_mostly(apart))


def _gap(book: MarkdownFile, entries: Sequence[LogbookEntry], place: EntrySection | None) -> int:
    """Return how many blank lines stand above an entry that follows another."""
    top = place.heading.number if place is not None and place.heading is not None else 0
    gaps = [_blanks_above(book, entry.line) for entry in entries[1:] if entry.line - 1 != top]
    if not gaps:
        return 0 if place is not None and place.entries and not place.level else 1
    counted = Counter(gaps)
    return min(2, max(counted, key=lambda each: counted[each]))


def _blanks_above(book: MarkdownFile, number: int) -> int:
    blanks = 0
    while number - blanks > 1 and book.blank(number - 1 - blanks):
        blanks += 1
    return blanks


def _mostly(answers: Sequence[bool]) -> bool:
    return 2 * sum(answers) > len(answers)


def with_values(
    book: MarkdownFile, heading: Heading, values: Mapping[str, str], day: str | None = None
) -> bytes:
    """Return the file with these values in the section of ``heading``; order kept, rest kept.

    With ``day`` a value that stands there stays: the new one is added beside it, so dated.
    """
    last = book.section_end(heading.number, 6)
    part = book.part(heading.number, last)
    for label, value in values.items():
        fit = _UNFIT.sub(" ", forms.one_line(label)).strip()
        part = _with_value(MarkdownFile(part), part, fit, value, day)
    return book.with_part(heading.number, last, part)


def _with_value(book: MarkdownFile, part: bytes, label: str, value: str, day: str | None) -> bytes:
    fields = [
        field for field in reading.read_fields(book.between(2, book.last)) if is_field(book, field)
    ]
    same = [field for field in fields if reading.plain(field.label) == reading.plain(label)]
    if day is not None and (not forms.normal(value) or (same and has_value(same[-1].value, value))):
        return part
    if not same and not forms.normal(value):
        return part
    if not same:
        return _added(book, fields, fields[-1:], label, value)
    if day is None or not same[-1].value:
        return _filled(book, part, same[-1], forms.normal(value))
    return _added(book, fields, same[-1:], reading.since(same[-1].label, day), value)


def is_field(book: MarkdownFile, field: reading.LabelledValue) -> bool:
    """Tell whether a labelled value is one, and no sentence that ends in a colon."""
    match = reading.match_of(book.line(field.line))
    parts = {} if match is None else match.groupdict()
    marked = "bullet" not in parts or parts["bullet"] or parts["opening"]
    return (
        bool(marked) or reading.plain(field.label) in _KNOWN or bool(field.value and _short(field))
    )


def _short(field: reading.LabelledValue) -> bool:
    return len(field.label.split()) <= _WORDS


def has_value(old: str, new: str) -> bool:
    """Tell whether a value says the new one already, whatever marks stand around it."""
    texts = [" ".join(_MARKS.sub(" ", forms.normal(each)).split()) for each in (old, new)]
    return texts[0] == texts[1] or (f" {texts[1]} " in f" {texts[0]} " and "/" in texts[1])


def _filled(book: MarkdownFile, part: bytes, field: reading.LabelledValue, value: str) -> bytes:
    """Return the section with a value in the place of what stood behind its label."""
    text = book.line(field.line)
    match = reading.match_of(text)
    if match is None or field.value == value:
        return part
    start = match.start("value")
    if "bullet" not in match.groupdict():
        new = f" {forms.cell(value)} ".ljust(len(match["value"]))
        return book.with_replaced(field.line, start, field.line, new + text[match.end("value") :])
    deep = match.start("opening") if match["bullet"] else _LOOSE
    first, more = forms.value_lines(value)
    space = " " if first and not text[:start].endswith((" ", "\t")) else ""
    lines = [text[:start] + space + first, *(" " * deep + line if line else "" for line in more)]
    if not match["bullet"] and more:
        lines = [f"{line}{forms.HARD}" if line else line for line in lines]
    new = "\n".join(reading.guarded(lines, 1))
    return book.with_replaced(field.line, 0, field.end, new)


def _added(
    book: MarkdownFile,
    fields: Sequence[reading.LabelledValue],
    beside: Sequence[reading.LabelledValue],
    label: str,
    value: str,
) -> bytes:
    """Return the section with one more value below ``beside``, in the form of its ``fields``."""
    form = fields_form(book, [fields]) or forms.FieldForm()
    lines = form.write(label, value)
    if not beside:
        after = max(book.content_end(2, book.last), 1)
        return book.with_lines(after, _last_bare(lines), 1, 0)
    after = beside[-1].end
    if reading.match_of(book.line(beside[-1].line)) is not None and form.row:
        return book.with_lines(after, [_row(book.line(after), label, value)], 0, 0)
    after = _last_line_of(book, beside[-1], {field.line for field in fields})
    loose = not form.bullet and not book.line(after).endswith((forms.HARD, "\\", "<br>"))
    more = after < book.last and not book.blank(after + 1)
    return book.with_lines(
        after, lines if more and not loose else _last_bare(lines), int(form.spaced or loose),
        int(loose and more),
    )  # fmt: skip


def _last_bare(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1].rstrip()]


def _last_line_of(book: MarkdownFile, field: reading.LabelledValue, starts: Set[int]) -> int:
    """Return the last line of what belongs to a field: its text goes on, or a block stands below.

    ``starts`` are the lines where fields begin. A label that ends in nothing introduces what
    follows it.
    """
    after, item = field.end, bool(_ITEM.match(book.line(field.line)))
    while after < book.last and after + 1 not in starts and _goes_on(book, after + 1):
        if item and after + 1 not in book.quoted and _ITEM.match(book.line(after + 1)):
            break
        after += 1
    if not book.line(after).rstrip().endswith(":"):
        return after
    below = after + 1
    while below < book.last and book.blank(below):
        below += 1
    if below > book.last or not (below in book.quoted or book.line(below)[:1] in (">", "|")):
        return after
    while (below < book.last and not book.blank(below + 1)) or below + 1 in book.quoted:
        below += 1
    return below


def _goes_on(book: MarkdownFile, number: int) -> bool:
    """Return whether the line is of the text above: a paragraph's, quoted, or set in below it."""
    if number in book.quoted or not book.blank(number):
        return True
    while number < book.last and book.blank(number):
        number += 1
    return not book.blank(number) and indent_of(book.line(number)) > 1


def _row(last: str, label: str, value: str) -> str:
    """Return a row of the table that ``last`` ends, as wide as that where the texts fit."""
    match = reading.ROW.fullmatch(last)
    wide = (0, 0) if match is None else (len(match["label"]) - 2, len(match["value"]) - 2)
    return f"| {label.ljust(wide[0])} | {forms.cell(value).ljust(wide[1])} |"
