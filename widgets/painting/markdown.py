"""Pages of Markdown as they are meant: headings, lists, tables, quotes and code. Pure.

Only the marks that our own pages use are read; nothing of a line is ever parsed as markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from textual.content import Content, Span

from widgets.painting.line import ACCENT, DIM, EMPTY, LINE, STRONG, cut, text, wrapped

MOST: Final = 400
"""Rows that one line of a page may take."""
FENCE: Final = "```"
_HEADING: Final = re.compile(r"(#{1,6}) +(.*)")
_BULLET: Final = re.compile(r"( *)[-*] +(.*)")
_LABEL: Final = re.compile(r"[A-Z][\w& ]{1,26}: ")
_CODE: Final = re.compile(r"`([^`\n]+)`")
_RULE: Final = re.compile(r"\|?[\s:|-]+\|?")
_CODED: Final = "$accent"


def paint_page(lines: Sequence[str], width: int) -> list[Content]:
    """Return the rows of a page at a width; what is read as code keeps its blanks."""
    rows: list[Content] = []
    fenced = False
    for is_table, group in groupby(lines, key=lambda line: line.startswith("|")):
        if is_table and not fenced:
            rows += _table(list(group), width)
            continue
        for line in group:
            if line.startswith(FENCE):
                fenced = not fenced
                continue
            rows += _code(line, width) if fenced else _line(line, width)
    return rows


def change_words(page: str, change: Callable[[str], str]) -> str:
    """Return a page with its words changed, but for what stands in code on a line.

    A tick without a fellow on its line begins no code, wherever the next one stands.
    """
    changed, at = "", 0
    for found in _CODE.finditer(page):
        changed += change(page[at : found.start()]) + found[0]
        at = found.end()
    return changed + change(page[at:])


def _line(line: str, width: int) -> list[Content]:
    heading, bullet = _HEADING.fullmatch(line), _BULLET.fullmatch(line)
    if heading is not None:
        return _heading(len(heading[1]), heading[2], width)
    if bullet is not None:
        return _hung(text(" " * len(bullet[1]), ("• ", DIM)), _inline(bullet[2]), width)
    if line.startswith(">"):
        return _hung(text(("▏ ", ACCENT)), _inline(line[1:].strip()), width, again=True)
    return wrapped(_inline(line), width, MOST) or [EMPTY]


def _heading(level: int, words: str, width: int) -> list[Content]:
    """Return a page's title, or a section's with a rule as wide as the page."""
    if level == 1:
        return wrapped(text((words, f"{STRONG} {ACCENT}")), width, MOST)
    title = cut(text((words, STRONG)), max(1, width - 4))
    rule = "─" * max(0, width - title.cell_length - 1)
    return [text(title, " ", (rule, LINE))]


def _hung(head: Content, body: Content, width: int, again: bool = False) -> list[Content]:
    """Return a body behind its mark, the rows that follow below the first, marked ``again``."""
    indent = head if again else Content(" " * head.cell_length)
    pieces = wrapped(body, max(1, width - head.cell_length), MOST) or [EMPTY]
    return [text(head if place == 0 else indent, piece) for place, piece in enumerate(pieces)]


def _inline(words: str) -> Content:
    """Return words with code in the accent, a label before a colon dim."""
    plain, spans, at = "", [], 0
    for found in _CODE.finditer(words):
        plain += words[at : found.start()]
        spans.append(Span(len(plain), len(plain) + len(found[1]), _CODED))
        plain += found[1]
        at = found.end()
    plain += words[at:]
    label = _LABEL.match(plain)
    if label is not None:
        spans.append(Span(0, label.end(), DIM))
    return Content(plain, spans)


def _code(line: str, width: int) -> list[Content]:
    return [text("  ", piece) for piece in wrapped(text((line, _CODED)), max(1, width - 2), MOST)]


def _table(lines: Sequence[str], width: int) -> list[Content]:
    """Return a table in columns, its first row as their titles; the last column gives way."""
    table = list(_cells(lines))
    count = max((len(cells) for cells in table), default=0)
    if not count:
        return []
    table = [[*cells, *[EMPTY] * (count - len(cells))] for cells in table]
    widths = [max(cells[column].cell_length for cells in table) for column in range(count)]
    rows = [_table_row(cells, widths, width) for cells in table]
    return [rows[0].stylize(STRONG), *rows[1:]]


def _cells(lines: Sequence[str]) -> Iterator[list[Content]]:
    for line in lines:
        if not _RULE.fullmatch(line):
            yield [_inline(cell.strip()) for cell in line.strip().strip("|").split("|")]


def _table_row(cells: Sequence[Content], widths: Sequence[int], width: int) -> Content:
    padded = (
        text(cell, " " * (room - cell.cell_length + 2))
        for cell, room in zip(cells, widths, strict=True)
    )
    return cut(Content("").join(padded), width)
