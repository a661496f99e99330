"""Two-column tables of keys and commands. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from widgets.line import ACCENT, DIM, EMPTY, cut, fit, text

Section = tuple[str, Sequence[tuple[str, str, str]]]
"""A title, and (keys, what it is, what it does) of each line."""


def paint_help(sections: Sequence[Section], width: int) -> list[Content]:
    """Return the lines of a help screen; sections are separated by a blank line."""
    rows = [row for _, rows in sections for row in rows]
    keys = max((Content(key).cell_length for key, _, _ in rows), default=4) + 2
    titles = max((Content(title).cell_length for _, title, _ in rows), default=4) + 2
    lines: list[Content] = []
    for title, entries in sections:
        lines += [EMPTY] if lines else []
        lines.append(text((title, "bold")))
        lines += [_entry(entry, keys, titles, width) for entry in entries]
    return lines


def _entry(entry: tuple[str, str, str], keys: int, titles: int, width: int) -> Content:
    key, title, does = entry
    left = text(" ", fit(text((key, f"bold {ACCENT}")), keys), fit(Content(title), titles))
    return cut(text(left, (does, DIM)), width)
