"""A logbook as lines that can be put back byte for byte: its entries, and where new ones go."""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from cockpit.records.logbook.reading import newest_first
from cockpit.text import logbook_scan
from cockpit.text.times import written_stamp

LONG: Final = 100_000
"""Characters below which a file is read whole: that takes no time."""
KEPT: Final = 64
"""Entries that stay at both ends of a run: more than the style of a new one is taken from."""
LEAST: Final = 256
"""Entries that a run has at least."""
_DATE: Final = (
    r"(?:19|20)\d\d-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_HEAD: Final = (
    rf"#{{2,6}} {_DATE} (?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?"
    r"(?: (?:UTC|GMT|Z|CET|CEST|MSK|JST|PST|PDT|MST|MDT|EST|EDT)(?= [-–—|·] )|(?= [-–—] [A-Za-z]))"
)
_MARKS: Final = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*+"
_OTHER: Final = re.compile(
    rf"\n(?!{_HEAD})(?:{_MARKS}(?:```|~~~|<[!?pPsStT])|[ \t]*\#| {{0,3}}=+[ \t]*(?:\n|$)"
    r"|(?<!\n\n) {0,3}-{3,}[ \t]*(?:\n|$))"
)
"""What ends a run: whatever may be more than a line of an entry."""
_FENCE: Final = re.compile(r"\n```(?!`)[^`\n]*(?=\n)")
_FENCE_END: Final = re.compile(r"\n {0,3}`{3,}[ \t]*(?=\n|$)")
_DATED: Final = re.compile(rf"\n({_HEAD})")
_FRONT_END: Final = re.compile(r"\n(?:---|\.\.\.)[ \t]*(?=\n)")
_DIGITS: Final = str.maketrans("", "", "0123456789")

Span = tuple[int, int]


class CutError(Exception):
    """What was left out is needed after all: the whole file must be read."""


class Cut(NamedTuple):
    """Entries that were left out before character ``at`` of what is read.

    All are of one heading ``level``; ``newest_first`` is ``None`` when they do not tell.
    """

    at: int
    text: str
    level: int
    newest_first: bool | None


def shortened(text: str, around: float) -> tuple[str, tuple[Cut, ...]]:
    """Return a logbook without what has nothing to do with an entry of that time (epoch s)."""
    if len(text) < LONG or "\r" in text:
        return text, ()
    parts: list[str] = []
    cuts: list[Cut] = []
    done = length = 0
    for start, stop, level, downwards in _spare(text, _days(around)):
        parts.append(text[done:start])
        length, done = length + start - done, stop
        cuts.append(Cut(length, text[start:stop], level, downwards))
    return "".join((*parts, text[done:])), tuple(cuts)


def with_cuts(text: str, cuts: Sequence[Cut], start: int = 0) -> str:
    """Return a part of what is read, which begins at ``start``, with what was left out in it."""
    parts: list[str] = []
    done = 0
    for cut in cuts:
        if 0 < cut.at - start < len(text):
            parts += (text[done : cut.at - start], cut.text)
            done = cut.at - start
    return "".join((*parts, text[done:]))


def _days(around: float) -> frozenset[str]:
    """Return the dates that a time may have, whatever zone it is written in."""
    try:
        day = datetime.fromtimestamp(around, UTC)
        return frozenset(f"{day + timedelta(days=each):%Y-%m-%d}" for each in (-1, 0, 1))
    except (ValueError, OverflowError, OSError):
        return frozenset()


def _spare(text: str, days: frozenset[str]) -> Iterator[tuple[int, int, int, bool | None]]:
    """Yield what can be left out: from where to where, the heading level, and the order."""
    for spans in _runs(text):
        heads = [found for span in spans for found in _DATED.finditer(text, *span)]
        names = [found[1] for found in heads]
        level = names[0].index(" ") if len(names) >= LEAST else 0
        if not level or not _alike(names, level):
            continue
        down = sum(one > other for one, other in pairwise(names))
        up = sum(one < other for one, other in pairwise(names))
        for first, last in _ordered(names, level, days, falls=down > up):
            if last - first >= LEAST:
                here, there = heads[first + KEPT].start() + 1, heads[last - KEPT].start() + 1
                yield here, there, level, None if not down + up else down > up


def _alike(names: Sequence[str], level: int) -> bool:
    """Tell whether all are of that level, and written in the same zone and form."""
    tails = {name[level + len(" 2026-03-11 08:55") :] for name in names}
    marks = {name[: level + 1] for name in names}
    return len(marks) == len({tail.translate(_DIGITS) for tail in tails}) == 1


def _ordered(
    names: Sequence[str], level: int, days: frozenset[str], *, falls: bool
) -> Iterator[Span]:
    """Yield the stretches of these headings that are in order and away from the ``days``."""
    first = 0
    for at, (one, other) in enumerate(pairwise(names)):
        wrong = one < other if falls else one > other
        if wrong or other[level + 1 : level + 11] in days:
            yield first, at
            first = at + 1
    yield first, len(names) - 1


def _runs(text: str) -> Iterator[list[Span]]:
    """Yield the runs of plain lines and whole fences, each as the spans outside of its fences."""
    begin = _after_front_matter(text)
    spans: list[Span] = []
    while begin is not None and begin < len(text):
        other = _OTHER.search(text, begin)
        end = len(text) if other is None else other.start()
        spans.append((begin, end + 1))
        fence = None if other is None else _FENCE.match(text, end)
        close = None if fence is None else _FENCE_END.search(text, fence.end())
        if close is None:
            yield spans
            spans = []
        begin = end + 1 if close is None else close.end()


def _after_front_matter(text: str) -> int | None:
    """Return where the front matter ends; ``None`` where it is never closed."""
    if not text.removeprefix("\ufeff").startswith("---"):
        return 0
    found = _FRONT_END.search(text)
    return None if found is None else found.end()


_BOM: Final = "\ufeff"


class Heading(NamedTuple):
    """A heading outside fences; ``dated`` when it begins an entry."""

    number: int
    level: int
    title: str
    dated: bool


class MarkdownFile:
    """Any bytes, read as Markdown. Line numbers are 1-based, ``skipped`` are front matter.

    For an entry ``around`` a time (epoch s) a long file is read without what has nothing to do
    with it: see ``shortening``. Lines can then only be put between those that are read.
    """

    def __init__(self, data: bytes, around: float | None = None) -> None:
        self.data = data
        text = data.decode("utf-8", "surrogateescape")
        self.text, self._cuts = (text, ()) if around is None else shortened(text, around)
        self.raw: Sequence[str] = logbook_scan.raw_lines(self.text)
        self._starts = [0, *accumulate(map(len, self.raw))]
        self._page = logbook_scan.LogbookPage([line.rstrip("\r\n") for line in self.raw])
        self.skipped = self._page.skipped
        self.entries: tuple[logbook_scan.LogbookEntry, ...] = logbook_scan.entries_of(self._page)
        dated = {entry.line for entry in self.entries if entry.at is not None}
        self.headings = tuple(
            Heading(line.number, line.level, line.title, line.number in dated)
            for line in self._page.headings
        )
        self._titles = {heading.number: heading.title for heading in self.headings}

    @property
    def last(self) -> int:
        """The number of the last line; 0 for an empty file."""
        return len(self.raw)

    @property
    def end(self) -> int:
        """The number of the last line that says something; at least that of the front matter's."""
        return max(self.content_end(self.skipped + 1, self.last), self.skipped)

    def holds(self, block: Sequence[str], same: Callable[[str, str], bool] = operator.eq) -> bool:
        """Return whether these very lines stand in the file, one below the other.

        ``same`` tells whether a line of the file is the block's first one.
        """
        lines = [line.rstrip("\r\n") for line in self.raw]
        starts = (index for index, line in enumerate(lines) if same(line, block[0]))
        rest = list(block[1:])
        return any(lines[start + 1 : start + len(block)] == rest for start in starts)

    def line(self, number: int) -> str:
        """Return a line without its end."""
        return self._page.lines[number - 1]

    def start_of(self, entry: logbook_scan.LogbookEntry) -> str:
        """Return the first line of an entry, of a heading its text."""
        return self._titles.get(entry.line, self.line(entry.line))

    def between(self, first: int, last: int) -> list[logbook_scan.MarkdownLine]:
        """Return the lines ``first`` to ``last``, none of which is a heading."""
        return self._page.between(first, last)

    def blank(self, number: int) -> bool:
        """Return whether there is no such line, or nothing on it."""
        return not (0 < number <= self.last and self.raw[number - 1].strip().strip(_BOM))

    def newline(self, number: int) -> str:
        """Return the line end that is used around line ``number``."""
        for near in (number, number + 1, 1):
            if 0 < near <= self.last:
                raw = self.raw[near - 1]
                end = raw[len(raw.rstrip("\r\n")) :]
                if end and not (end == "\r" and "\n" in self.text):
                    return end
        return "\n"

    def content_end(self, first: int, last: int) -> int:
        """Return the last line of ``first`` to ``last`` that says something; else ``first - 1``.

        A rule that sets off what comes after is not counted.
        """
        end = self._bare_end(first, last)
        while end > first and last < self.last and self._is_rule(end) and self.blank(end - 1):
            end = self._bare_end(first, end - 1)
        return end

    def _bare_end(self, first: int, last: int) -> int:
        while last >= first and self.blank(last):
            last -= 1
        return last

    def _is_rule(self, number: int) -> bool:
        marks = "".join(self.raw[number - 1].split())
        return len(marks) >= 3 and len(set(marks)) == 1 and marks[0] in "-*_"

    def section_end(self, heading: int, level: int, *, past_entries: bool = False) -> int:
        """Return the last line of what stands below a heading of that level (0: the file).

        ``past_entries``: dated headings of the same level belong to it.
        """
        after = bisect_right(self.headings, heading, key=lambda each: each.number)
        for each in self.headings[after:]:
            own = past_entries and each.dated and each.level == level
            if each.level <= level and not own:
                return each.number - 1
        return self.last

    def with_lines(self, after: int, block: Sequence[str], above: int, below: int) -> bytes:
        """Return the file with ``block`` after line ``after`` and blank lines around it.

        ``above`` and ``below`` are how many there should be at least; those that are there count.
        """
        end = self.newline(after)
        lines = [""] * self._missing(after, above, -1) + list(block)
        if 0 < self._page.left_open <= after:
            lines = [self._page.end_mark, *[""] * above, *block]
        lines += [""] * self._missing(after + 1, below, 1)
        whole = after == 0 or self.raw[after - 1].endswith(("\r", "\n"))
        inserted = ("" if whole else end) + "".join(line + end for line in lines)
        place = self._starts[after]
        if after == 0 and self.text.startswith(_BOM):
            place = 1
        return self._encoded(place, place, inserted)

    def _missing(self, number: int, wanted: int, step: int) -> int:
        there = 0
        while there < wanted and 0 < number <= self.last and self.blank(number):
            there, number = there + 1, number + step
        return wanted - there if 0 < number <= self.last else 0

    def with_replaced(self, number: int, column: int, last: int, text: str) -> bytes:
        """Return the file with what stands from there to the end of line ``last`` replaced."""
        start = self._starts[number - 1] + column
        stop = self._starts[last - 1] + len(self.raw[last - 1].rstrip("\r\n"))
        return self._encoded(start, stop, text.replace("\n", self.newline(number)))

    @property
    def quoted(self) -> set[int]:
        """The lines in code fences and comments."""
        return self._page.quoted

    def below(self, heading: Heading) -> int:
        """Return the line after a heading, and after what underlines it."""
        return heading.number + 1 + (heading.number + 1 in self._page.underlines)

    def with_lines_replaced(self, lines: Mapping[int, str]) -> MarkdownFile:
        """Return the file with these lines replaced, their ends kept."""
        raw = list(self.raw)
        for number, text in lines.items():
            former = raw[number - 1]
            raw[number - 1] = text + former[len(former.rstrip("\r\n")) :]
        return MarkdownFile(_bytes("".join(raw)))

    def part(self, first: int, last: int) -> bytes:
        """Return the bytes of these lines."""
        return _bytes(self.text[self._starts[first - 1] : self._starts[last]])

    def with_part(self, first: int, last: int, part: bytes) -> bytes:
        """Return the file with these lines replaced by other bytes."""
        before, after = self.text[: self._starts[first - 1]], self.text[self._starts[last] :]
        return _bytes(before) + part + _bytes(after)

    def fit(self) -> None:
        """Raise ``CutError`` if what was left out may be something else than entries.

        A comment that was open there may have ended in it: what follows reads otherwise then.
        """
        dated = {entry.line: entry.level for entry in self.entries if entry.at is not None}
        if any(dated.get(self._number(cut)) != cut.level for cut in self._cuts):
            raise CutError

    def fit_section(self, heading: int, last: int, level: int, newest_first: bool | None) -> None:
        """Raise ``CutError`` if a section may be another one with what was left out of it.

        It stands below line ``heading`` down to ``last``, with entries of that level and order.
        """
        for cut in self._cuts:
            number = self._number(cut)
            told = cut.newest_first is None or cut.newest_first == newest_first
            if heading < number <= last and (level != cut.level or not told):
                raise CutError

    def _number(self, cut: Cut) -> int:
        """Return before which line something was left out."""
        return bisect_right(self._starts, cut.at)

    def _encoded(self, start: int, stop: int, text: str) -> bytes:
        """Return the file with the characters ``start`` to ``stop`` replaced."""
        safe = text.encode("utf-8", "replace")
        if any(start <= cut.at <= stop for cut in self._cuts):
            raise CutError
        before = with_cuts(self.text[:start], self._cuts)
        after = with_cuts(self.text[stop:], self._cuts, stop)
        return _bytes(before) + safe + _bytes(after)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_EVENT_LOG: Final = re.compile(r"\bevents\b|\bevent[- ]?log\b")
"""Such as ``event log``."""
_LOG: Final = re.compile(
    r"(?:\w+ )?log(?:book)?|(?:status )?updates|timeline|history|journal|chronology"
)
_NEWEST: Final = re.compile(
    r"(?:newest|latest|most recent) (?:entr\w+ )?(?:first|on top|at the top)"
    r"|reverse[- ]chronolog",
    re.IGNORECASE,
)
"""What a heading says of the order below it: ``newest first``."""
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
    entries: tuple[logbook_scan.LogbookEntry, ...]
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
    found = [each for each in named if logbook_scan.is_instances(each.title)]
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
    found = logbook_scan.contract_of([each.title for each in plain])
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
        and not logbook_scan.is_instances(each.title)
        and "contract" not in each.title.lower()
    ]


def _best(book: MarkdownFile, headings: Sequence[Heading]) -> EntrySection:
    exact = [each for each in headings if _bare(each.title) == "event log"] or headings
    places = [_section_under(book, each) for each in exact]
    return max(reversed(places), key=_newest)


def _newest(place: EntrySection) -> float:
    return max((entry.at for entry in place.entries if entry.at is not None), default=-1.0)


def _section_under(book: MarkdownFile, heading: Heading) -> EntrySection:
    place = _inside(book, heading, book.section_end(heading.number, heading.level))
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


def _of_one_form(
    book: MarkdownFile, entries: Sequence[logbook_scan.LogbookEntry]
) -> tuple[logbook_scan.LogbookEntry, ...]:
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
    holding: dict[Heading | None, list[logbook_scan.LogbookEntry]] = {}
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


def _with_parents(book: MarkdownFile) -> Iterable[tuple[logbook_scan.LogbookEntry, Heading | None]]:
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
