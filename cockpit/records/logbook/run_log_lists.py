"""The two lists beside HPC run logs (SPEC S-12): experiments.md and timeline.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.records.git.committing import Edit
from cockpit.records.logbook.book import MarkdownFile
from cockpit.records.logbook.forms import cell, one_line
from cockpit.records.logbook.reading import cell_text, plain
from cockpit.records.logbook.run_logs import DATED

EXPERIMENTS: Final = "experiments.md"
FOLDER: Final = "run_logs"
COLUMNS: Final = ("run", "description", "val_loss", "status", "notes")
_BAR: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-*:?[ \t]*)*")
_KEYS: Final = frozenset(("run", "name", "experiment", "runname"))


class _Table(NamedTuple):
    """A table: its columns' names, how wide and on which side they stand, its rows' lines."""

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    sides: tuple[str, ...]
    rows: tuple[int, ...]
    last: int
    key: int


def with_row(data: bytes, row: Mapping[str, str]) -> bytes:
    """Return the summary with this run's row, updated if the run has one, in the table's own form.

    ``row`` is column → text and has the run's name. Of a column that the table does not have the
    text goes to its notes.
    """
    book = MarkdownFile(data)
    table = _table(book)
    texts = {plain(name): text for name, text in row.items()}
    name = next((texts[key] for key in texts if key in _KEYS), "")
    if not name:
        return data
    if table is None:
        return _begin_table(book, row)
    texts = _noted(table, texts, row)
    found = [
        line for line in table.rows if _cell_texts(book, line)[table.key : table.key + 1] == [name]
    ]
    if found:
        return _updated(book, table, found[-1], texts)
    texts.setdefault(plain(table.columns[table.key]), name)
    line = _row(table, [texts.get(plain(column), "") for column in table.columns])
    return book.with_lines(table.last, [line], 0, 0)


def experiments_of(path: Path, run: str, description: str) -> tuple[Path, Edit]:
    """Return the summary beside a run log, and what gives a run its row if it has none."""
    folder = next((each for each in path.parents if each.name == FOLDER), path.parent)
    row = {"run": run, "description": description, "status": "running"}

    def edit(data: bytes) -> bytes:
        has_row = data.strip() and with_row(data, {"run": run}) == data
        return data if has_row else with_row(data, row)

    return folder / EXPERIMENTS, edit


def _table(book: MarkdownFile) -> _Table | None:
    """Return the first table that has a column for the run."""
    for number in range(book.skipped + 1, book.last):
        head, rule = book.line(number), book.line(number + 1)
        if number in book.quoted or "|" not in head or not _RULE.fullmatch(rule):
            continue
        columns = _cells(head)
        key = next((n for n, column in enumerate(columns) if plain(column) in _KEYS), None)
        if key is None:
            continue
        rows = []
        last = number + 1
        while last < book.last and not book.blank(last + 1) and "|" in book.line(last + 1):
            last += 1
            rows.append(last)
        widths = tuple(len(text) - 2 for text in _parts(book.line(rows[-1] if rows else number)))
        sides = tuple(_side(text) for text in _cells(rule))
        return _Table(tuple(columns), widths, sides, tuple(rows), last, key)
    return None


def _parts(line: str) -> list[str]:
    """Return what stands between the bars of a row."""
    parts = _BAR.split(line.strip())
    parts = parts[1:] if parts and not parts[0].strip() else parts
    return parts[:-1] if parts and not parts[-1].strip() else parts


def _cells(line: str) -> list[str]:
    return [part.strip() for part in _parts(line)]


def _cell_texts(book: MarkdownFile, line: int) -> list[str]:
    return [cell_text(part).strip("`*_") for part in _parts(book.line(line))]


def _side(rule: str) -> str:
    return {(True, True): "^", (False, True): ">"}.get((rule[:1] == ":", rule[-1:] == ":"), "<")


def _row(table: _Table, texts: Sequence[str]) -> str:
    cells = []
    for n, text in enumerate(map(cell, texts)):
        width = table.widths[n] if n < len(table.widths) else 0
        side = table.sides[n] if n < len(table.sides) else "<"
        cells.append(f" {text:{side}{width}} " if width > 0 else f" {text} ")
    return f"|{'|'.join(cells)}|"


def _updated(book: MarkdownFile, table: _Table, line: int, texts: Mapping[str, str]) -> bytes:
    """Return the file with those cells of one row changed that say something else now."""
    text = book.line(line)
    bars = [match.start() for match in _BAR.finditer(text)]
    starts = [0 if not text.lstrip().startswith("|") else bars.pop(0) + 1]
    starts += [bar + 1 for bar in bars]
    for column in reversed(range(min(len(table.columns), len(starts)))):
        wanted = texts.get(plain(table.columns[column]))
        stop = starts[column + 1] - 1 if column + 1 < len(starts) else len(text)
        old = text[starts[column] : stop]
        if wanted is None or column == table.key or cell_text(old) == wanted:
            continue
        side = table.sides[column] if column < len(table.sides) else "<"
        new = f" {cell(wanted):{side}{max(0, len(old) - 2)}} "
        text = text[: starts[column]] + new + text[stop:]
    return book.with_replaced(line, 0, line, text) if text != book.line(line) else book.data


def _noted(table: _Table, texts: dict[str, str], row: Mapping[str, str]) -> dict[str, str]:
    """Return the texts with those of unknown columns added to the notes."""
    known = {plain(column) for column in table.columns} | _KEYS
    more = [f"{name}: {text}" for name, text in row.items() if text and plain(name) not in known]
    if not more or "notes" not in known:
        return texts
    return {**texts, "notes": "; ".join(text for text in (texts.get("notes", ""), *more) if text)}


def _begin_table(book: MarkdownFile, row: Mapping[str, str]) -> bytes:
    names = [*COLUMNS, *(name for name in row if plain(name) not in map(plain, COLUMNS))]
    given = {plain(name): text for name, text in row.items()}
    texts = [cell(given.get(plain(name), "")) for name in names]
    lines = [
        f"| {' | '.join(names)} |",
        "|" + "|".join("-" * (len(name) + 2) for name in names) + "|",
        f"| {' | '.join(texts)} |",
    ]
    title = [] if book.end > book.skipped else ["# Experiments", ""]
    return book.with_lines(book.end, [*title, *lines], 1, 0)


_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
TIMELINE: Final = "timeline.md"
_ITEM: Final = re.compile(r"(?P<indent> {0,3})(?P<number>\d{1,9})(?P<dot>[.)][ \t]+)(?P<rest>.*)")
"""An item of the list of run logs: ``3. `toy-r2` — Friday``."""
_DAY: Final = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
"""Such as ``2026-03-11``."""
_NAME: Final = re.compile(
    r"(?:`(?P<code>[^`]+)`|\[(?P<tick>`?)[^\]]+\]\((?P<link>[^)]+)\)|(?P<bare>\S+))"
    r"(?P<mark>[ \t]*[-–—:|]+[ \t]*|[ \t]+)"
)


def human_date(day: date) -> str:
    """Return ``Friday, Feb 20th``."""
    ending = _ENDINGS.get(day.day, "th")
    return f"{_DAYS[day.weekday()]}, {_MONTHS[day.month - 1]} {day.day}{ending}"


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
        return _begin_list(book, name, day, title)
    index = next((n for n, item in enumerate(items) if item.day and item.day > day), len(items))
    lazy = len(items) > 1 and items[0].number == items[1].number
    number = items[index].number if index < len(items) else items[-1].number + (not lazy)
    after = items[index].line - 1 if index < len(items) else _end(book, items[-1].line)
    line = _list_line(items[max(0, index - 1)].match, number, name, day)
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


def _list_line(like: re.Match[str], number: int, name: str, day: date) -> str:
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


def _begin_list(book: MarkdownFile, name: str, day: date, title: str) -> bytes:
    item = f"1. `{name}` — {human_date(day)}"
    heading = [f"# {one_line(title)} Timeline".replace("#  ", "# "), ""]
    return book.with_lines(book.end, [*([] if book.end > book.skipped else heading), item], 1, 0)
