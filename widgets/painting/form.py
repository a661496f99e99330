"""A small form: labels at the left, lines to type in or lists to pick from at the right. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from textual.content import Content

from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, Part, cut, fit, row, text, wrapped

LABEL: Final = 19
IN_SIGHT: Final = 7
"""Choices of a list that are in sight at once."""


class Choice(NamedTuple):
    """Something to pick: what it stands for, and how it is told from the others."""

    value: str
    shown: str
    note: str = ""


class FormField(NamedTuple):
    """One value that is asked for. With ``choices`` one of them is picked, else it is typed."""

    name: str
    label: str
    help: str
    required: bool = False
    choices: tuple[Choice, ...] = ()
    value: str = ""


class FormState(NamedTuple):
    """A form as it stands: the values, the focused field and what is said below."""

    intro: Sequence[Content]
    fields: Sequence[FormField]
    values: Mapping[str, str]
    at: int
    notice: str = ""


def height_of(field: FormField) -> int:
    """Return how many rows a field takes."""
    return min(IN_SIGHT, len(field.choices)) if field.choices else 1


def rows_of(state: FormState, width: int) -> list[int]:
    """Return the row of each field within the body."""
    place = len(_intro(state, width))
    rows = []
    for field in state.fields:
        rows.append(place)
        place += height_of(field)
    return rows


def paint_form(state: FormState, width: int) -> list[Content]:
    """Return the form's body; where something is typed, the row's right side is left blank."""
    lines = _intro(state, width)
    for place, field in enumerate(state.fields):
        chosen = place == state.at
        label = text(
            ("▸ " if chosen else "  ", ACCENT),
            (field.label, STRONG if chosen else DIM),
            ("*", "$attention") if field.required else "",
        )
        label = fit(label, LABEL)
        shown = _choices(field, state.values, chosen, width - LABEL)
        for number, line in enumerate(shown or [EMPTY]):
            lines.append(text(label if number == 0 else " " * LABEL, line))
    return [cut(line, width) for line in lines]


def _intro(state: FormState, width: int) -> list[Content]:
    lines = [piece for each in state.intro for piece in wrapped(each, width, 6) or [EMPTY]]
    return [*lines, EMPTY] if lines else []


def _choices(
    field: FormField, values: Mapping[str, str], focused: bool, width: int
) -> list[Content]:
    if not field.choices:
        return []
    at, count = place_of(field, values), len(field.choices)
    first = max(0, min(at - IN_SIGHT // 2, count - IN_SIGHT))
    last = min(count, first + IN_SIGHT)
    lines = []
    for place in range(first, last):
        each = field.choices[place]
        mark: Part = ("● ", ACCENT) if place == at else ("· ", DIM)
        more = _more(place, first, last, count)
        body = text(mark, each.shown, (f"  {each.note}", DIM) if each.note else "")
        line = row(fit(body, width - more.cell_length - 1), more, width) if more.plain else body
        line = fit(line, width)
        lines.append(line.stylize_before("on $cursor") if place == at and focused else line)
    return lines


def _more(place: int, first: int, last: int, count: int) -> Content:
    """Return how many choices lie beyond the first or the last row in sight."""
    if place == first and first:
        return text((f"↑ {first} more", ACCENT))
    if place == last - 1 and last < count:
        return text((f"↓ {count - last} more", ACCENT))
    return EMPTY


def place_of(field: FormField, values: Mapping[str, str]) -> int:
    """Return the place of the picked choice."""
    wanted = values.get(field.name, "")
    return next((n for n, each in enumerate(field.choices) if each.value == wanted), 0)
