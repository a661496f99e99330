"""A file of records as lines of text that can be put back byte for byte, and edits on it."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from cockpit.records.logbook.shortening import Cut, CutError, shortened, whole
from cockpit.text.logbook_scan import Line, LogbookEntry, LogbookPage, entries_of, raw_lines

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
        self.raw: Sequence[str] = raw_lines(self.text)
        self._starts = [0, *accumulate(map(len, self.raw))]
        self._page = LogbookPage([line.rstrip("\r\n") for line in self.raw])
        self.skipped = self._page.skipped
        self.entries: tuple[LogbookEntry, ...] = entries_of(self._page)
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

    def start_of(self, entry: LogbookEntry) -> str:
        """Return the first line of an entry, of a heading its text."""
        return self._titles.get(entry.line, self.line(entry.line))

    def between(self, first: int, last: int) -> list[Line]:
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
        before = whole(self.text[:start], self._cuts)
        after = whole(self.text[stop:], self._cuts, stop)
        return _bytes(before) + safe + _bytes(after)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
