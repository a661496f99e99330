"""Writes into a logbook, in its own style: pure functions from bytes to bytes (SPEC L).

Only what is new is inserted; every other byte stays as it was, whatever it is. An entry that is
there already is not written again, so that a retry after a crash changes nothing. All texts
pass the scrubber once more; what is read back is what was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from cockpit.model.records import EventEntry, InstanceEntry
from cockpit.model.run import RunSpec
from cockpit.records.logbook import reading
from cockpit.records.logbook.book import (
    CutError,
    EntrySection,
    MarkdownFile,
    contract_heading,
    events_place,
    instances_place,
    named_place,
    next_line,
)
from cockpit.records.logbook.forms import (
    EntryForm,
    FieldForm,
    HeadForm,
    foreign,
    form_of,
    normal,
    one_line,
)
from cockpit.records.logbook.style import contract_form, entry_form, with_values
from cockpit.text.logbook_scan import LogbookEntry, heading_of, is_instances, split_lines
from cockpit.text.times import read_stamp

EVENTS: Final = "Event Log"
INSTANCES: Final = "Launched Instances"
RUN_CONTRACT: Final = "Run Contract"
NOTE: Final = "note"
"""What an entry is called whose writer gave it no heading."""
_LEVEL: Final = 2
_DATED_ITEM: Final = re.compile(r" {0,3}[-*+][ \t]+[*_`\[(]{0,3}(?:19|20)\d\d[-/.]\d")


def with_event(data: bytes, entry: EventEntry) -> bytes:
    """Return the logbook with an event in its event log."""
    return _short_of(data, entry.at, lambda book: _event_in(book, entry)) or data


def _event_in(book: MarkdownFile, entry: EventEntry) -> bytes | None:
    """Return the file with the event; ``None`` if it is there already."""
    if any(_same_event(each, entry) for each in _titled(book, entry.title, entry.at)):
        return None
    place, other = events_place(book), instances_place(book)
    _fit(book, place, other)
    form = entry_form(book, place, other)
    if place is None:
        return _at_end(book, EVENTS, _event_lines(_below(form, _level(book)), entry))
    return _placed(book, place, _event_lines(form, entry), form.gap)


def _short_of(
    data: bytes, at: float, write: Callable[[MarkdownFile], bytes | None]
) -> bytes | None:
    """Return what is written into as little of the file as an entry of that time concerns."""
    try:
        return write(MarkdownFile(data, at))
    except CutError:
        return write(MarkdownFile(data))


def _fit(book: MarkdownFile, *places: EntrySection | None) -> None:
    """Raise ``CutError`` if the sections that tell how to write may be others in the whole file.

    Where none is to be seen, there may be some in the whole file, too.
    """
    book.fit()
    for place in filter(None, places):
        heading = 0 if place.heading is None else place.heading.number
        book.fit_section(heading, place.last, place.level, place.newest_first)


def has_entry(data: bytes, title: str, at: float) -> bool:
    """Return whether the logbook has an entry of that title and that time (epoch s)."""
    return bool(_titled(MarkdownFile(data), title, at))


def written_since(data: bytes, title: str, since: float, until: float) -> bool:
    """Return whether the logbook has an entry of that title of a time between (epoch s)."""
    found = (each for each in MarkdownFile(data).entries if each.title == one_line(title))
    return any(each.at is not None and since < each.at <= until for each in found)


def with_instance(data: bytes, entry: InstanceEntry) -> bytes:
    """Return the logbook with a launched instance; its section is made where SPEC L has it."""
    return _short_of(data, entry.at, lambda book: _instance_in(book, entry)) or data


def _instance_in(book: MarkdownFile, entry: InstanceEntry) -> bytes | None:
    """Return the file with the instance; ``None`` if it is there already."""
    if any(_same_instance(each, entry) for each in _titled(book, entry.launch_id, entry.at)):
        return None
    place, events = instances_place(book), events_place(book)
    _fit(book, place, events)
    form = entry_form(book, place, events)
    if place is not None:
        return _placed(book, place, _instance_lines(form, entry), form.gap)
    block = _instance_lines(_below(form, _level(book)), entry)
    if events is None:
        return _at_end(book, INSTANCES, block)
    return _before(book, events, _section(book, INSTANCES, block))


def with_contract(data: bytes, values: Mapping[str, str], at: float = 0.0) -> bytes:
    """Return the logbook with these values in its run contract.

    One that is empty there is filled in; one that says something else stays, and the new value
    stands beside it with the date of ``at`` (epoch seconds), as this file writes dates.
    """
    book, values = MarkdownFile(data), {label: foreign(value) for label, value in values.items()}
    heading = contract_heading(book)
    if heading is not None:
        return with_values(book, heading, values, _day(book, at))
    form = contract_form(book)
    lines = [line for label, value in _non_empty(values) for line in form.write(label, value)]
    if not lines:
        return data
    place = instances_place(book) or events_place(book)
    if place is None:
        return _at_end(book, RUN_CONTRACT, lines)
    return _before(book, place, _section(book, RUN_CONTRACT, lines))


def _day(book: MarkdownFile, at: float) -> str:
    """Return the date of ``at`` in UTC, with the dashes or dots of this file's headings."""
    form = form_of(book.start_of(entry) for entry in book.entries)
    moment = datetime.fromtimestamp(at, UTC)
    return form.dash.join((f"{moment.year:04}", f"{moment.month:02}", f"{moment.day:02}"))


def with_text(data: bytes, section: str, markdown: str, at: float | None = None) -> bytes:
    """Return the logbook with a person's own entry where ``section``'s next one goes, verbatim.

    Line ends become the file's, the heading's level that of the entries there; one without a
    heading is given one with the time ``at``. Other headings of that level and above, rules and
    fences that were left open are kept from taking in what follows.
    """
    book = MarkdownFile(data)
    place = named_place(book, section)
    if place is None and not is_instances(section):
        place = events_place(book)
    place = instances_place(book) if place is None and is_instances(section) else place
    form = entry_form(book, place) if place else _below(entry_form(book, None), _level(book))
    block = [_ends_nothing(book, line) for line in _own_lines(markdown, form.head, at)]
    if not block or book.holds(block, _same_head):
        return data
    if place is None:
        return _at_end(book, one_line(section) or EVENTS, block)
    if block[0].startswith("#") and place.entries and not place.level:
        place = place._replace(newest_first=None)  # bullets below a heading would become its own
    return _placed(book, place, block, form.gap)


def _ends_nothing(book: MarkdownFile, line: str) -> str:
    """Return a line that does not end the front matter that a file begins and never ends.

    All that lies between would be front matter by it. A blank before it changes no Markdown.
    """
    begins = not book.skipped and book.last > 0 and book.line(1).rstrip() == "---"
    return f" {line}" if begins and line.rstrip() in ("---", "...") else line


def _same_head(line: str, head: str) -> bool:
    """Tell whether a line heads the same entry, however the logbook writes its times."""
    if line == head:
        return True
    there, mine = read_stamp(line), read_stamp(head)
    if there is None or mine is None or there.at != mine.at:
        return False
    return reading.plain(there.rest) == reading.plain(mine.rest)


def preview(data: bytes, entry: EventEntry | InstanceEntry, *, empties: bool = False) -> str:
    """Return the Markdown of an entry alone, as it would be written into this logbook.

    With ``empties`` an event has all four labels, those without a value too: to be filled in.
    """
    book = MarkdownFile(data)
    events, instances = events_place(book), instances_place(book)
    if isinstance(entry, EventEntry):
        form = entry_form(book, events, instances)
        return "\n".join(_event_lines(form, entry, empties=empties))
    return "\n".join(_instance_lines(entry_form(book, instances, events), entry))


def new_logbook(run: RunSpec, values: Mapping[str, str]) -> bytes:
    """Return a new logbook: SPEC L's template, its contract filled from ``values`` and the run."""
    given = {reading.plain(label): foreign(value) for label, value in values.items()}
    known = {label: foreign(value) for label, value in contract_of(run).items()}
    lines = [f"# {one_line(run.name)}: Hero Run Logbook", "", f"## {RUN_CONTRACT}", ""]
    form = FieldForm()
    for label in reading.CONTRACT:
        lines += form.write(label, given.pop(reading.plain(label), known.get(label, "")))
    for label, value in values.items():
        if reading.plain(label) in given:
            lines += form.write(one_line(label), foreign(value))
    lines += ["", f"## {INSTANCES}", "", f"## {EVENTS}", ""]
    return "\n".join(lines).encode("utf-8", "replace")


def contract_of(run: RunSpec) -> dict[str, str]:
    """Return what the run file says of the run contract, by SPEC L's labels."""
    final = "" if run.final_step is None else str(run.final_step)
    if final and run.final_step_source:
        final += f", from {run.final_step_source}"
    wandb = run.wandb
    names = () if wandb is None else (wandb.entity, wandb.project, wandb.id)
    return {
        "DRI": run.dri or "",
        "Goal": run.goal or "",
        "Stop/escalation criteria": run.stop_criteria or "",
        "Issue": run.records.issue or "",
        "W&B": "" if wandb is None else wandb.url or "/".join(filter(None, names)),
        "Output root": f"`{run.output_root}`" if run.output_root else "",
        "Final step": final,
    }


def _non_empty(values: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(label, value) for label, value in values.items() if normal(value)]


def _event_lines(form: EntryForm, entry: EventEntry, *, empties: bool = False) -> list[str]:
    fields = zip(form.words, _texts(entry), strict=True)
    return form.write(entry.at, entry.title, fields, empties=empties)


def _texts(entry: EventEntry) -> tuple[str, str, str, str]:
    """Return the four texts of an event; messages for other cockpits stand below the evidence."""
    status, evidence, decision, follow = map(
        foreign, (entry.status, entry.evidence, entry.decision, entry.next)
    )
    return status, "\n".join(filter(None, (evidence, entry.said))), decision, follow


def _instance_lines(form: EntryForm, entry: InstanceEntry) -> list[str]:
    fields = [(label, foreign(value)) for label, value in entry.fields.items()]
    return form.write(entry.at, entry.launch_id, fields)


def _titled(book: MarkdownFile, title: str, at: float) -> list[LogbookEntry]:
    """Return the entries of that title whose time, in whole minutes or seconds, may be ``at``."""
    line = one_line(title)
    near = [each for each in book.entries if each.at is not None and 0 <= at - each.at < 60]
    return [each for each in near if each.title == line]


def _same_event(found: LogbookEntry, entry: EventEntry) -> bool:
    said = reading.event_of(found)
    texts = zip(("status", "evidence", "decision", "next"), _texts(entry), strict=True)
    return all(getattr(said, name) == normal(text) for name, text in texts)


def _same_instance(found: LogbookEntry, entry: InstanceEntry) -> bool:
    said = {reading.plain(field.label): field.value for field in reading.entry_fields(found)}
    same = all(
        said.get(reading.plain(name)) == foreign(value) for name, value in _non_empty(entry.fields)
    )
    return is_instances(found.section) and same


def _placed(book: MarkdownFile, place: EntrySection, block: Sequence[str], gap: int) -> bytes:
    after = next_line(book, place)
    if place.newest_first and place.entries:
        return book.with_lines(after, block, 0, gap)
    heads = place.heading is not None and place.heading.number == after
    return book.with_lines(after, block, _air(book) if heads else gap, gap)


def _before(book: MarkdownFile, place: EntrySection, block: Sequence[str]) -> bytes:
    """Return the file with a section before the one that holds ``place``, below the title.

    Entries that stand in no section of their own would become the new one's: it goes to the end.
    """
    heading, title = place.heading, next((e.number for e in book.headings if e.level == 1), 0)
    if heading is not None and heading.level > 1 and heading.number > title:
        return book.with_lines(heading.number - 1, block, 1, 1)
    return book.with_lines(book.end, block, 1, 1)


def _at_end(book: MarkdownFile, title: str, block: Sequence[str]) -> bytes:
    return book.with_lines(book.end, _section(book, title, block), 1, 1)


def _section(book: MarkdownFile, title: str, block: Sequence[str]) -> list[str]:
    return [f"{'#' * _level(book)} {title}", *[""] * _air(book), *block]


def _level(book: MarkdownFile) -> int:
    """Return the level of the sections that SPEC L names, as this file has them."""
    places = (events_place(book), instances_place(book))
    found = [contract_heading(book), *(place.heading for place in places if place is not None)]
    levels = [each.level for each in found if each is not None and each.level > 1]
    return levels[0] if levels else _LEVEL


def _below(form: EntryForm, level: int) -> EntryForm:
    """Return ``form`` with headings one level below a section of that level."""
    head = form.head.model_copy(update={"level": min(6, level + 1)})
    return form.model_copy(update={"head": head})


def _air(book: MarkdownFile) -> int:
    """Return 1 if this file has blank lines below the headings of its sections."""
    airy = [book.blank(book.below(each)) for each in book.headings if not each.dated]
    return int(2 * sum(airy) >= len(airy))


def _own_lines(markdown: str, head: HeadForm, at: float | None) -> list[str]:
    """Return a person's text as the lines of one entry, whatever it looks like."""
    lines = split_lines(markdown.encode("utf-8", "replace").decode())
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return []
    first = heading_of(lines[0])
    if first is not None and at is not None and read_stamp(first.title) is None:
        lines[0] = head.write(at, first.title)
    elif first is not None and head.level:
        lines[0] = f"{'#' * head.level} {first.title}".rstrip()
    elif first is None and at is not None and not _DATED_ITEM.match(lines[0]):
        lines[:0] = [head.write(at, NOTE)]
    return reading.closed(reading.contained(lines, head.level or 6))
