"""Where in a logbook entries stand, in which order, and where the next one goes (SPEC L)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cockpit.records.logbook.book import Heading, MarkdownFile
from cockpit.records.logbook.reading import newest_first
from cockpit.text.logbook_scan import LogbookEntry, contract_of, is_instances
from cockpit.text.times import written_stamp

_EVENT_LOG: Final = re.compile(r"\bevents\b|\bevent[- ]?log\b")
_LOG: Final = re.compile(
    r"(?:\w+ )?log(?:book)?|(?:status )?updates|timeline|history|journal|chronology"
)
_NEWEST: Final = re.compile(
    r"(?:newest|latest|most recent) (?:entr\w+ )?(?:first|on top|at the top)"
    r"|reverse[- ]chronolog",
    re.IGNORECASE,
)
_BULLET_DEPTH: Final = 7
_PREAMBLE: Final = 6


class EntrySection(NamedTuple):
    """A section that holds entries: its heading (``None``: the file), last line, and entries.

    ``entries`` are the dated ones of one form, in the order of the file; ``newest_first`` is
    ``None`` when they do not tell. ``loose``: the section holds other things too, so that a new
    entry goes next to the others rather than to the end.
    """

    heading: Heading | None
    last: int
    entries: tuple[LogbookEntry, ...]
    newest_first: bool | None
    loose: bool = False

    @property
    def level(self) -> int:
        """The heading level of its entries; 0 for dated bullets."""
        if self.entries:
            return self.entries[-1].level
        return min(6, (self.heading.level if self.heading is not None else 1) + 1)


def events_place(book: MarkdownFile) -> EntrySection | None:
    """Return where events are written: the event log, else where the dated entries are."""
    named = [each for each in _sections(book) if _EVENT_LOG.search(each.title.lower())]
    if named:
        return _best(book, named)
    places = _places_of_entries(book)
    if places:
        several = [place for place in places if len(place.entries) > 1]
        return max(several or places, key=_newest)
    logs = [each for each in _sections(book) if _LOG.fullmatch(_bare(each.title))]
    return _best(book, logs) if logs else None


def instances_place(book: MarkdownFile) -> EntrySection | None:
    """Return the section of launched instances."""
    named = [each for each in book.headings if not each.dated and each.level > 1]
    found = [each for each in named if is_instances(each.title)]
    places = [_inside(book, each, book.section_end(each.number, each.level)) for each in found]
    return max(places, key=_newest, default=None)


def named_place(book: MarkdownFile, title: str) -> EntrySection | None:
    """Return the section of that title, whatever its case."""
    wanted = _bare(title)
    found = [each for each in book.headings if not each.dated and _bare(each.title) == wanted]
    return _best(book, found) if found else None


def contract_heading(book: MarkdownFile) -> Heading | None:
    """Return the heading of the run contract, as the reader finds it."""
    plain = [each for each in book.headings if not each.dated]
    found = contract_of([each.title for each in plain])
    return None if found is None else plain[found]


def _bare(title: str) -> str:
    words = re.sub(r"\(.*?\)|[^\w\s]", " ", title.lower())
    return " ".join(words.split())


def _sections(book: MarkdownFile) -> list[Heading]:
    """Return the headings that may hold events."""
    return [
        each
        for number, each in enumerate(book.headings)
        if not each.dated
        and not (each.level == 1 and number == 0)
        and not is_instances(each.title)
        and "contract" not in each.title.lower()
    ]


def _best(book: MarkdownFile, headings: Sequence[Heading]) -> EntrySection:
    exact = [each for each in headings if _bare(each.title) == "event log"] or headings
    places = [_named(book, each) for each in exact]
    return max(reversed(places), key=_newest)


def _newest(place: EntrySection) -> float:
    return max((entry.at for entry in place.entries if entry.at is not None), default=-1.0)


def _named(book: MarkdownFile, heading: Heading) -> EntrySection:
    last = book.section_end(heading.number, heading.level)
    place = _inside(book, heading, last)
    if place.entries:
        return place
    beyond = book.section_end(heading.number, heading.level, past_entries=True)
    return _inside(book, heading, beyond)


def _inside(book: MarkdownFile, heading: Heading, last: int) -> EntrySection:
    inside = [entry for entry in book.entries if heading.number < entry.line <= last]
    entries = _of_one_form(book, inside)
    order = newest_first(entries)
    if order is None and _says_newest_first(book, heading, last):
        order = True
    return EntrySection(heading, last, entries, order)


def _of_one_form(book: MarkdownFile, entries: Sequence[LogbookEntry]) -> tuple[LogbookEntry, ...]:
    """Return the dated entries of the level that most have; bullets only without headings.

    Rows of a table are none: nothing can be put between them. Headings with a clock time alone
    stand below those of their days, which are the entries then.
    """
    entries = [entry for entry in entries if not book.line(entry.line).lstrip().startswith("|")]
    headed = [entry for entry in entries if entry.level]
    dated = [entry for entry in headed or entries if entry.at is not None]
    if not headed:
        return tuple(dated)
    if not dated:
        return ()
    days = [entry for entry in dated if written_stamp(book.start_of(entry))]
    levels = Counter(entry.level for entry in days or dated)
    level = max(levels, key=lambda each: (levels[each], -each))
    return tuple(entry for entry in dated if entry.level == level)


def _says_newest_first(book: MarkdownFile, heading: Heading, last: int) -> bool:
    below = range(heading.number + 1, min(last, heading.number + _PREAMBLE) + 1)
    headed = {each.number for each in book.headings}
    words = [heading.title, *(book.line(n) for n in below if n not in headed)]
    return any(_NEWEST.search(line) for line in words)


def _places_of_entries(book: MarkdownFile) -> list[EntrySection]:
    """Return every section that directly holds dated entries, instances and contract apart."""
    title = [each for each in book.headings[:1] if each.level == 1 and not each.dated]
    allowed: set[Heading | None] = {None, *_sections(book), *title}
    holding: dict[Heading | None, list[LogbookEntry]] = {}
    for entry, above in _with_parents(book):
        if entry.at is not None and above in allowed:
            holding.setdefault(above, []).append(entry)
    places = []
    for above, entries in holding.items():
        mine = _of_one_form(book, entries)
        last = book.section_end(above.number, above.level) if above is not None else book.last
        loose = above is None or above.level == 1
        places.append(EntrySection(above, last, mine, newest_first(mine), loose))
    return [place for place in places if place.entries]


def _with_parents(book: MarkdownFile) -> Iterable[tuple[LogbookEntry, Heading | None]]:
    """Yield each entry with the nearest heading above it that is a section."""
    sections = [each for each in book.headings if not each.dated]
    above: list[Heading] = []
    index = 0
    for entry in book.entries:
        while index < len(sections) and sections[index].number < entry.line:
            heading = sections[index]
            above = [each for each in above if each.level < heading.level] + [heading]
            index += 1
        level = entry.level or _BULLET_DEPTH
        yield entry, next((each for each in reversed(above) if each.level < level), None)


def next_line(book: MarkdownFile, place: EntrySection) -> int:
    """Return the line after which the section's next entry goes."""
    if place.newest_first and place.entries:
        return place.entries[0].line - 1
    first = (place.heading.number if place.heading is not None else book.skipped) + 1
    if place.newest_first:
        below = (each.number - 1 for each in book.headings if first <= each.number <= place.last)
        return max(book.content_end(first, next(below, place.last)), first - 1)
    if not place.entries or not (place.loose or not place.level):
        return max(book.content_end(first, place.last), first - 1)
    entry = place.entries[-1]
    # all down to a heading is read as a bullet's own
    last = min(place.last, book.section_end(entry.line, entry.level or 6))
    return max(book.content_end(entry.line, last), entry.line)
