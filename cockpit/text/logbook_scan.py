"""Finds the entries of a logbook, leniently (SPEC L): headings, dated bullets, any order.

Pure on text. Nothing is reordered. Texts are returned as they were written, so whoever shows them
makes them safe first.

The little of Markdown that matters (fences, comments, lists) follows CommonMark: a fence or a
heading inside a list item belongs to that item and ends with it. So what a person quotes in an item
never swallows the entries below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from cockpit.model.base import Frozen, Instant
from cockpit.model.late_regex import late_regex
from cockpit.text.times import Stamp, read_stamp, written_stamp

_RAW: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_HEADING: Final = re.compile(r"(#{1,6})(?=[ \t]|$)")
_FENCE: Final = re.compile(r"(?P<mark>`{3,})[^`]*$|(?P<wave>~{3,})")
_ITEM: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?P<gap>[ \t]+|$)")
_ITEM_STARTS: Final = frozenset("-*+0123456789")
_BLOCK_STARTS: Final = frozenset("#`~<")
_HTML_BLOCKS: Final = (
    (re.compile(r"<!--"), "-->"),
    (re.compile(r"<pre(?=[\s>]|$)", re.IGNORECASE), "</pre>"),
    (re.compile(r"<script(?=[\s>]|$)", re.IGNORECASE), "</script>"),
    (re.compile(r"<style(?=[\s>]|$)", re.IGNORECASE), "</style>"),
    (re.compile(r"<textarea(?=[\s>]|$)", re.IGNORECASE), "</textarea>"),
    (re.compile(r"<\?"), "?>"),
    (re.compile(r"<!\[CDATA\["), "]]>"),
)
"""What HTML quotes up to an end of its own, blank lines or not (CommonMark's kinds 1 to 5)."""
_DEEPEST: Final = 3
"""Columns by which a block may be indented; more is a continuation or indented code."""


def raw_lines(text: str) -> list[str]:
    """Return the lines with their ends (LF, CRLF or CR, as Markdown counts them)."""
    return _RAW.findall(text)


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends."""
    return [line.rstrip("\r\n") for line in _RAW.findall(text)]


def indent_of(line: str) -> int:
    """Return the columns of white space before a line's text; a tab goes to the next fourth."""
    spaces = len(line) - len(line.lstrip(" "))
    if line[spaces : spaces + 1] != "\t":
        return spaces
    columns = 0
    for char in line:
        if char == "\t":
            columns += 4 - columns % 4
        elif char == " ":
            columns += 1
        else:
            break
    return columns


def without_indent(line: str, columns: int) -> str:
    """Return ``line`` without at most ``columns`` columns of white space before its text."""
    taken = index = 0
    while taken < columns and index < len(line) and line[index] in " \t":
        taken += 4 - taken % 4 if line[index] == "\t" else 1
        index += 1
    return line[index:]


class Blocks:
    """Follows fences, comments and list items from line to line.

    ``opened_at`` is which of the lines ``taken`` opened the newest fence or comment.
    """

    def __init__(self) -> None:
        self.quoted = False
        self.taken = 0
        self.opened_at = 0
        self._end = ""
        self._inside = 0
        self._items: list[int] = []

    @property
    def open_end(self) -> str:
        """The line that would end the fence or comment that is open now; else empty.

        One that is open in a list item ends with the item and needs no line.
        """
        return "" if self._inside else self._end

    @property
    def open(self) -> bool:
        """True while a fence, a comment or another quoted block is open, in an item too."""
        return bool(self._end)

    def take(self, text: str) -> int:
        """Read the next line; return its heading level (0: none). ``quoted`` tells the rest."""
        self.taken += 1
        plain = text.lstrip(" \t")
        if self._end and self._still_quoted(text, plain):
            self.quoted = True
            return 0
        self.quoted = False
        if not plain:
            return 0
        if len(plain) < len(text):
            return self._block(plain, indent_of(text))
        if text[0] in "-*+" and text[1:2] == " " and text[2:3].isalpha():  # most lines are such
            self._items = [2]
            return 0
        if text[0].isalpha():
            self._items = []
            return 0
        return self._block(plain, 0)

    def _still_quoted(self, text: str, plain: str) -> bool:
        """Return whether the line is inside what is open, and close that where it ends."""
        if self._inside and plain and indent_of(text) < self._inside:
            self._end = ""
            return False
        if self._end[0] not in "`~":
            ends = self._end in plain.lower()
        else:
            mark = plain.rstrip()
            fence = mark.startswith(self._end) and not mark.strip(self._end[0])
            ends = fence and indent_of(text) - self._inside <= _DEEPEST
        if ends:
            self._end = ""
        return True

    def _block(self, plain: str, indent: int) -> int:
        while self._items and indent < self._items[-1]:
            self._items.pop()
        inside = self._items[-1] if self._items else 0
        while plain[:1] in _ITEM_STARTS and indent - inside <= _DEEPEST:
            item = _ITEM.match(plain)
            if item is None:
                break
            gap = len(item.group("gap"))
            inside = indent = indent + item.end() - (gap - 1 if gap > 4 else 0) + (not gap)
            self._items.append(inside)
            plain = plain[item.end() :]
        if plain[:1] not in _BLOCK_STARTS or indent - inside > _DEEPEST:
            return 0
        self._open(plain, inside)
        heading = None if inside or self._end else _HEADING.match(plain)
        return 0 if heading is None else len(heading.group(1))

    def _open(self, plain: str, inside: int) -> None:
        fence = _FENCE.match(plain)
        if fence is not None:
            self._end = fence[fence.lastgroup or 0]
        elif plain[0] == "<":
            end = next((end for start, end in _HTML_BLOCKS if start.match(plain)), "")
            self._end = "" if end and end in plain[2:].lower() else end
        if self._end:
            self._inside, self.quoted, self.opened_at = inside, True, self.taken


def conflict_line(data: bytes) -> int | None:
    """Return the line (from 1) at which a conflict that nobody has resolved begins, if one does."""
    begun = None
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.startswith(b"<<<<<<< "):
            begun = number
        elif line.startswith(b">>>>>>> ") and begun is not None:
            return begun
    return None


_SHA: Final = late_regex(r"\bgit[ _-](?:sha|commit)\W{1,8}([0-9a-f]{7,64})\b", re.IGNORECASE)
"""Such as ``git sha: 9f2c1ab``."""
_DATED_LINE: Final = late_regex(r"\s{0,3}(?:[-*+|]\s+)?[*_`\[(]{0,3}(?=(?:19|20)\d\d[-/.]\d)")
"""Such as ``- 2026-03-11 launched``."""
_CLOSING_MARKS: Final = late_regex(r"(?:^|[ \t])#+$")
_WORD: Final = late_regex(r"[a-z]+")
_APART: Final = late_regex(r"(?<=[a-z])(?=[A-Z])")
_FILLERS: Final = frozenset(("the", "a", "hero", "our", "this", "s"))
_UNDERLINE: Final = late_regex(r" {0,3}(?P<mark>=+|-{3,})[ \t]*")
_NO_TITLE: Final = late_regex(r"[ \t]{4}|\t|[ \t]*(?:[-*+>|`~#<]|\d{1,9}[.)][ \t]|\[)")
_SECTION: Final = late_regex(
    r"event[ -]?log|events|launched instances|instances|launches|(?:\w+ )?log(?:book)?|timeline"
    r"|history|journal|(?:run ?)?contract|notes|updates",
    re.IGNORECASE,
)
_INSTANCE_WORDS: Final = ("instance", "launches")


class LogbookEntry(Frozen):
    """One entry. ``line`` (1-based) is where it begins; ``text`` is what stands below it.

    ``section`` is the heading above that it belongs to (``Event Log``); ``level`` its heading's
    level, 0 for a dated line.
    """

    at: Instant | None
    title: str
    section: str
    text: str
    line: int
    level: int = 0


class MarkdownLine(NamedTuple):
    """One line outside the front matter; ``level`` is 0 unless it is a heading.

    ``quoted`` lines stand in a code fence or a comment, whatever they look like.
    """

    number: int
    text: str
    level: int = 0
    title: str = ""
    quoted: bool = False


def front_matter_of(lines: Sequence[str]) -> tuple[str, int]:
    """Return the front matter of a file's lines, and how many they are."""
    if not lines or lines[0].lstrip("\ufeff").rstrip() != "---":
        return "", 0
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() in ("---", "..."):
            return "\n".join(lines[1:index]), index + 1
    return "", 0


class LogbookPage:
    """A text as lines: which are headings, which are quoted. Numbers are 1-based.

    ``lines`` are all of them without their ends and without a byte order mark; ``skipped`` is
    how many the front matter takes; ``end_mark`` is the line that would close a fence or comment
    that is open at the end of the text since line ``left_open`` (0: none is).
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        if self.lines:
            self.lines[0] = self.lines[0].removeprefix("\ufeff")
        self.skipped = front_matter_of(self.lines)[1]
        blocks = Blocks()
        self.headings: list[MarkdownLine] = []
        self.quoted: set[int] = set()
        for number in range(self.skipped, len(self.lines)):
            level = blocks.take(self.lines[number])
            if level:
                self.headings.append(_heading(number + 1, self.lines[number], level))
            elif blocks.quoted:
                self.quoted.add(number + 1)
        self.underlines: set[int] = set()
        self._underlined()
        self.end_mark = blocks.open_end
        self.left_open = self.skipped + blocks.opened_at if self.end_mark else 0

    def _underlined(self) -> None:
        """Find the headings that a line of ``=`` or ``-`` makes of the one line above it.

        Under prose ``---`` was most often meant as a rule: there a title has to look like one,
        or the file to have others of that kind.
        """
        headed = {line.number for line in self.headings}
        found = [
            (number, mark)
            for number in range(self.skipped + 2, len(self.lines) + 1)
            if (mark := self._underline_at(number, headed))
        ]
        style = any(mark == "=" for _, mark in found)
        for number, mark in found:
            title = self.lines[number - 2].strip()
            if mark == "=" or style or _SECTION.fullmatch(title) or _begins_dated(title):
                level = 1 if mark == "=" else 2
                self.headings.append(MarkdownLine(number - 1, self.lines[number - 2], level, title))
                self.underlines.add(number)
        self.headings.sort()

    def _underline_at(self, number: int, headed: set[int]) -> str:
        """Return what underlines the line above ``number``; empty if nothing does."""
        found = _UNDERLINE.fullmatch(self.lines[number - 1])
        above, before = self.lines[number - 2], number - 3
        if found is None or {number, number - 1} & (self.quoted | headed) or not above.strip():
            return ""
        alone = before < self.skipped or not self.lines[before].strip() or before + 1 in headed
        plain = not _NO_TITLE.match(above) and not above.rstrip().endswith((".", ":", ",", ";"))
        return found["mark"][0] if alone and plain else ""

    def between(self, first: int, last: int) -> list[MarkdownLine]:
        """Return the lines ``first`` to ``last``, none of which is a heading."""
        return [
            MarkdownLine(number, self.lines[number - 1], quoted=number in self.quoted)
            for number in range(first, last + 1)
        ]


def read_page(text: str) -> LogbookPage:
    """Return a text as a page."""
    return LogbookPage(split_lines(text))


def scan(lines: Iterable[str], blocks: Blocks, first: int = 1) -> Iterator[MarkdownLine]:
    """Yield ``lines`` numbered from ``first``, as ``blocks`` sees them."""
    for number, text in enumerate(lines, start=first):
        level = blocks.take(text)
        yield (
            _heading(number, text, level)
            if level
            else MarkdownLine(number, text, quoted=blocks.quoted)
        )


def heading_of(text: str) -> MarkdownLine | None:
    """Return a line as the heading that it is by itself; ``None`` for anything else."""
    level = Blocks().take(text)
    return _heading(1, text, level) if level else None


def _heading(number: int, text: str, level: int) -> MarkdownLine:
    title = text.strip()[level:].strip()
    if title.endswith("#"):
        title = _CLOSING_MARKS.sub("", title).rstrip()
    return MarkdownLine(number, text, level, title)


def _begins_dated(title: str) -> bool:
    stamp = written_stamp(title)
    return stamp is not None and stamp.start() == 0


def read_entries(text: str) -> tuple[LogbookEntry, ...]:
    """Return the entries of a logbook in the order of the file.

    An entry is a heading below a section, any heading with a date, or a dated line that stands
    directly under a section. A heading with a clock time alone takes the date of the one above.
    """
    return entries_of(read_page(text))


def entries_of(page: LogbookPage) -> tuple[LogbookEntry, ...]:
    """Return the entries of a page that was read already."""
    return _Scan().read(page)


class _Scan:
    """One pass over the lines of a logbook."""

    def __init__(self) -> None:
        self._entries: list[LogbookEntry] = []
        self._sections: dict[int, str] = {}
        self._day: float | None = None
        self._open: MarkdownLine | None = None
        self._stamp: Stamp | None = None
        self._body: list[str] = []

    def read(self, page: LogbookPage) -> tuple[LogbookEntry, ...]:
        number = page.skipped + 1
        for heading in page.headings:
            self._below(page, number, heading.number - 1)
            self._heading(heading)
            number = heading.number + 1
        self._below(page, number, len(page.lines))
        self._close()
        return tuple(self._entries)

    def _below(self, page: LogbookPage, first: int, last: int) -> None:
        """Take the lines ``first`` to ``last``, none of which is a heading."""
        first += first in page.underlines
        if self._open is not None and self._open.level:
            self._body += page.lines[first - 1 : last]
            return
        for number in range(first, last + 1):
            text = page.lines[number - 1]
            if number in page.quoted or not _DATED_LINE.match(text):
                self._body.append(text)
            else:
                self._start(MarkdownLine(number, text), read_stamp(text))

    def _heading(self, line: MarkdownLine) -> None:
        opened, stamp = self._open, read_stamp(line.title, self._day)
        below = opened is not None and opened.level and line.level > opened.level
        if below and stamp is None:
            self._body.append(line.text)
            return
        self._close()
        if stamp is not None and not stamp.timed:
            self._day = stamp.at
        if stamp is None and line.level <= 2:
            self._day = None
        above = {level: name for level, name in self._sections.items() if level < line.level}
        self._sections = above if stamp is not None else {**above, line.level: line.title}
        if stamp is not None or line.level > 2:
            self._start(line, stamp)

    def _start(self, line: MarkdownLine, stamp: Stamp | None) -> None:
        self._close()
        self._open, self._stamp = line, stamp

    def _close(self) -> None:
        if self._open is not None:
            self._entries.append(self._entry(self._open, self._stamp))
        self._open, self._stamp, self._body = None, None, []

    def _entry(self, line: MarkdownLine, stamp: Stamp | None) -> LogbookEntry:
        level = line.level or 7
        above = [name for depth, name in self._sections.items() if 1 < depth < level]
        plain = line.title if line.level else line.text.strip()
        return LogbookEntry(
            at=None if stamp is None else stamp.at,
            title=plain if stamp is None else stamp.rest,
            section=above[-1] if above else "",
            text="\n".join(self._body).rstrip("\n"),
            line=line.number,
            level=line.level,
        )


def contract_of(titles: Sequence[str]) -> int | None:
    """Return which of these headings is the Run Contract's, however it is written; else ``None``.

    A heading that says "Contract" alone is meant where no other is; a heartbeat's contract, or
    any other thing's, never is.
    """
    words = [_WORD.findall(_APART.sub(" ", title).lower()) for title in titles]
    plain = [[word for word in each if word not in _FILLERS] for each in words]
    named = [n for n, each in enumerate(plain) if "".join(each[:2]).startswith("runcontract")]
    if not named:
        named = [n for n, each in enumerate(plain) if each in (["contract"], ["runcontract"])]
    return named[0] if named else None


def is_instances(section: str) -> bool:
    """Return whether a section of this title lists launched instances."""
    words = section.lower()
    return any(word in words for word in _INSTANCE_WORDS)


def last_entry_at(entries: Sequence[LogbookEntry], until: float) -> float | None:
    """Return the time of the newest entry; one after ``until`` is a slip of the pen."""
    return max((e.at for e in entries if e.at is not None and e.at <= until), default=None)


def launched_sha(entries: Sequence[LogbookEntry]) -> str | None:
    """Return the commit that the newest launched instance records, if it does."""
    recorded = [
        (entry.at or 0.0, entry.line, match.group(1).lower())
        for entry in entries
        if is_instances(entry.section) and (match := _SHA.search(entry.text))
    ]
    return max(recorded)[2] if recorded else None
