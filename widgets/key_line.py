"""The footer: the few keys that matter here, and what the cockpit has to say about itself."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from widgets.base.painted import Painted
from widgets.painting.line import ACCENT, DIM, EMPTY, row, text, whole, wrapped

Key = tuple[str, str]
KEYS = 24
"""Columns that are left to the keys beside a long notice."""
LAST = 11
"""Columns that are left, for the key to all keys, beside one that has no room otherwise."""
SHARE = 4
"""A longer notice has rows of its own: with the keys' at most one of so many of the screen."""
WAYS = ("palette", "keys")
"""Titles of the keys that lead to all others: in sight whatever else does not fit."""


def paint_keys(keys: Sequence[Key], notice: str, width: int) -> Content:
    """Return keys with their titles, as many as fit whole, and a notice at the right."""
    said = text((notice, "$attention")) if notice else EMPTY
    most = _most(width, said.cell_length)
    room = width - 2 - (min(said.cell_length, most) + 3 if notice else 0)
    needed = sum(each.cell_length for each in map(_item, keys))
    gap = "   " if needed + 3 * len(keys) <= room + 3 else "  "
    shown = whole(map(_item, _fitting(keys, room, len(gap))), room, gap)
    return row(text(" ", shown), said.truncate(most, ellipsis=True), width - 1)


def notice_rows(notice: str, width: int, most: int) -> list[Content]:
    """Return a notice over at most ``most`` rows; none where it fits beside the keys."""
    said = text((notice, "$attention"))
    if said.cell_length <= _most(width, said.cell_length):
        return []
    return [text(" ", each) for each in wrapped(said, width - 2, most)]


def _item(key: Key) -> Content:
    return text((key[0], f"bold {ACCENT}"), (f" {key[1]}", DIM))


def _fitting(keys: Sequence[Key], room: int, gap: int) -> Sequence[Key]:
    """Return the keys that fit, in their order, those that lead to all others before any."""
    ways = [each for each in keys if each[1] in WAYS]
    while (left := room - sum(_item(each).cell_length + gap for each in ways) + gap) < 0 and ways:
        ways.pop(0)
    chosen = list(ways)
    for each in keys:
        if each in ways:
            continue
        left -= _item(each).cell_length + gap
        if left < 0:
            break
        chosen.append(each)
    return [each for each in keys if each in chosen]


def _most(width: int, needed: int) -> int:
    """Return how much of a line a notice may take: it is read now, the keys are known soon."""
    return max(0, width // 2, width - (KEYS if needed <= width - KEYS else LAST))


class KeyLine(Painted):
    """The footer: a line, and above it a notice that needs more than its share of that."""

    DEFAULT_CSS = """
    KeyLine { height: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: Sequence[Key] = ()
        self._notice = ""
        self._painted: tuple[object, Content] = ((), EMPTY)
        """What was painted last, and of what: it is asked for with every look at the ages."""
        self._wrapped: tuple[object, list[Content]] = ((), [])
        self._rows = 1

    def show(self, keys: Sequence[Key], notice: str = "") -> None:
        """Show keys and, if there is one, a notice."""
        self._keys, self._notice = keys, notice
        self._take_rows()
        self.repaint()

    def on_resize(self) -> None:
        """Paint for the new size, in the rows that are needed there."""
        super().on_resize()
        self._take_rows()

    def _take_rows(self) -> None:
        """Have as many rows as are needed; another number of them is another layout."""
        rows = 1 + len(self._above(self.size.width))
        if rows != self._rows:
            self._rows = rows
            self.styles.height = rows

    def _above(self, width: int) -> list[Content]:
        about = (self._notice, width, self.app.size.height // SHARE - 1)
        if about != self._wrapped[0]:
            self._wrapped = (about, notice_rows(*about))
        return self._wrapped[1]

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the line, and before it the rows that there are for a long notice."""
        above = self._above(width) if height > 1 else []
        about = (tuple(self._keys), "" if above else self._notice, width)
        if about != self._painted[0]:
            self._painted = (about, paint_keys(*about))
        return [*above, self._painted[1]]
