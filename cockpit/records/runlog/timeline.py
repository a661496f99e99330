"""``timeline.md``: the numbered, chronological list of a group's run logs (SPEC S-12, HPC).

Days are named for people, ``Friday, Feb 20th``, the same in any locale.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.records.git.committing import Edit
from cockpit.records.logbook.book import MarkdownFile
from cockpit.records.logbook.forms import one_line
from cockpit.records.runlog.run_logs import DATED

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
TIMELINE: Final = "timeline.md"
_ITEM: Final = re.compile(r"(?P<indent> {0,3})(?P<number>\d{1,9})(?P<dot>[.)][ \t]+)(?P<rest>.*)")
_DAY: Final = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_NAME: Final = re.compile(
    r"(?:`(?P<code>[^`]+)`|\[(?P<tick>`?)[^\]]+\]\((?P<link>[^)]+)\)|(?P<bare>\S+))"
    r"(?P<mark>[ \t]*[-–—:|]+[ \t]*|[ \t]+)"
)


def human_date(day: date, *, year: bool = False) -> str:
    """Return ``Friday, Feb 20th``, or with its year ``Friday, Feb 20th, 2026``."""
    text = (
        f"{_DAYS[day.weekday()]}, {_MONTHS[day.month - 1]} {day.day}{_ENDINGS.get(day.day, 'th')}"
    )
    return f"{text}, {day.year}" if year else text


class _Item(NamedTuple):
    """One item of the list: its line, its number, and the day it is of."""

    line: int
    number: int
    day: date | None
    match: re.Match[str]


def with_run(data: bytes, file_name: str, day: date, title: str) -> bytes:
    """Return the list with a run log in the order of its day, and ``title`` for a new list.

    Of the other items only the numbers change that must; one that is listed stays as it is.
    """
    book = MarkdownFile(data)
    name = one_line(file_name).replace("`", "")
    items = _items(book)
    if any(name in re.split(r"[\s`()\[\]<>]+", item.match["rest"]) for item in items):
        return data
    if not items:
        return _begun(book, name, day, title)
    index = next((n for n, item in enumerate(items) if item.day and item.day > day), len(items))
    lazy = len(items) > 1 and items[0].number == items[1].number
    number = items[index].number if index < len(items) else items[-1].number + (not lazy)
    after = items[index].line - 1 if index < len(items) else _end(book, items[-1].line)
    line = _line(items[max(0, index - 1)].match, number, name, day)
    gap = int(len(items) > 1 and book.blank(items[1].line - 1))
    above, below = (0, gap) if index < len(items) else (gap, 0)
    if lazy:
        return book.with_lines(after, [line], above, below)
    return _renumbered(book, items[index:], number + 1).with_lines(after, [line], above, below)


def timeline_of(path: Path, at: float) -> tuple[Path, Edit]:
    """Return the list of a run log's group, and what puts it there in the order of its day."""
    named = _date(DATED.match(path.name))
    day = named if named is not None else datetime.fromtimestamp(at, tz=UTC).date()
    title = path.parent.name.replace("_", " ").title()
    return path.with_name(TIMELINE), lambda data: with_run(data, path.name, day, title)


def _renumbered(book: MarkdownFile, items: list[_Item], number: int) -> MarkdownFile:
    """Return the file with each item's number raised as far as the one before it asks."""
    lines = {}
    for item in items:
        if item.number >= number:
            break
        lines[item.line] = f"{item.match['indent']}{number}{item.match['dot']}{item.match['rest']}"
        number += 1
    return book.with_lines_replaced(lines)


def _items(book: MarkdownFile) -> list[_Item]:
    quoted = book.quoted
    found = []
    for number in range(book.skipped + 1, book.last + 1):
        match = None if number in quoted else _ITEM.fullmatch(book.line(number))
        if match is not None:
            day = _date(_DAY.search(match["rest"]))
            found.append(_Item(number, int(match["number"]), day, match))
    return found


def _date(found: re.Match[str] | None) -> date | None:
    try:
        return None if found is None else date(*map(int, found.groups()))
    except ValueError:
        return None


def _line(like: re.Match[str], number: int, name: str, day: date) -> str:
    form = _NAME.match(like["rest"])
    mark, shown = " — ", f"`{name}`"
    if form is not None:
        mark = form["mark"] if form["mark"].strip() else mark
        tick = form["tick"] or ""
        shown = f"[{tick}{name}{tick}]({name})" if form["link"] else shown
        shown = name if form["bare"] else shown
    return f"{like['indent']}{number}{like['dot']}{shown}{mark}{human_date(day)}"


def _end(book: MarkdownFile, line: int) -> int:
    """Return the last line of the item that begins there."""
    while line < book.last and book.line(line + 1).startswith((" ", "\t")):
        line += 1
    return line


def _begun(book: MarkdownFile, name: str, day: date, title: str) -> bytes:
    item = f"1. `{name}` — {human_date(day)}"
    heading = [f"# {one_line(title)} Timeline".replace("#  ", "# "), ""]
    return book.with_lines(book.end, [*([] if book.end > book.skipped else heading), item], 1, 0)
