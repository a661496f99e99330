"""``run_logs/experiments.md``: one table that compares runs (SPEC S-12, HPC)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.records.git.committing import Edit
from cockpit.records.logbook.book import MarkdownFile
from cockpit.records.logbook.forms import cell
from cockpit.records.logbook.labels import plain
from cockpit.records.logbook.reading import cell_text

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
        return _begun(book, row)
    texts = _noted(table, texts, row)
    found = [line for line in table.rows if _said(book, line)[table.key : table.key + 1] == [name]]
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


def _said(book: MarkdownFile, line: int) -> list[str]:
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


def _begun(book: MarkdownFile, row: Mapping[str, str]) -> bytes:
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
