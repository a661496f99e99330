"""A terminal's screen after what a program wrote: letters and how they look, cell by cell.

Written by what the sequences mean (ECMA-48, xterm's), not by what the program's encoder does. It is
strict: a sequence that it does not know is an error. What a terminal may fill differently (lines
that come in when it scrolls) is full of marks, so that nothing can rest on it.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Callable

from rich.cells import cell_len

Look = tuple[str, str, frozenset[int], str]
"""Colours as SGR parameters, marks, the link's address."""
PLAIN: Look = ("", "", frozenset(), "")
UNDEFINED = ("\N{REPLACEMENT CHARACTER}", PLAIN)
_TOKEN = re.compile(
    r"\x1b\[(?P<private>[?<=>]?)(?P<numbers>[\d;:]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\](?P<command>[^\x07\x1b]*)(?:\x07|\x1b\\)|\x1bP.*?\x1b\\"
    r"|\x1b(?P<escape>[ -/]*[0-OQ-Z\\^-~])|(?P<control>[\x00-\x1a\x1c-\x1f])"
    r"|(?P<text>[^\x00-\x1f]+)",
    re.DOTALL,
)
_OFF = {22: {1, 2}, 23: {3}, 24: {4, 21}, 25: {5, 6}, 27: {7}, 28: {8}, 29: {9}, 54: {51, 52},
        55: {53}}  # fmt: skip
_SEEN_ON_BLANKS = {4, 5, 6, 7, 9, 21, 51, 52, 53}
_SILENT = {"h", "l", "u", "p", "n", "c", "q", "t"}
"""Modes, questions and the keyboard: no cell changes by them (but see ``?1049``)."""


class Emulator:
    """A screen of ``width`` by ``height``; ``bce``: erased cells get the pen's background."""

    def __init__(
        self,
        width: int,
        height: int,
        *,
        bce: bool = True,
        repeats: bool = True,
        measure: Callable[[str], int] = cell_len,
    ) -> None:
        self.width, self.height = width, height
        self._bce, self._repeats, self._measure = bce, repeats, measure
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._known_narrow: set[str] = set()
        self.wraps = True
        self.answers: list[str] = []
        """What it has to say to the program by now: where its cursor is."""
        self.look: Look = PLAIN
        self._clear()

    def _clear(self) -> None:
        self.cells = [[(" ", PLAIN)] * self.width for _ in range(self.height)]
        self.y = self.x = 0
        self.top, self.bottom = 0, self.height - 1
        self._late = False
        self._last = ""

    def feed(self, data: bytes | str) -> None:
        """Take what a program wrote; a sequence may be cut anywhere."""
        text = self._rest + (data if isinstance(data, str) else self._decode(data))
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                assert len(text) - at < 4096 and text[at] == "\x1b", f"what is {text[at:][:40]!r}?"
                break
            self._token(found)
            at = found.end()
        self._rest = text[at:]

    def _token(self, found: re.Match[str]) -> None:
        if found["text"] is not None:
            self._print(found["text"])
        elif found["final"] is not None:
            self._control(found)
        elif found["command"] is not None:
            kind, _, rest = found["command"].partition(";")
            if kind == "8":
                self.look = (*self.look[:3], rest.partition(";")[2])
        elif found["control"] is not None:
            self._single(found["control"])
        elif found["escape"] is not None:
            self._escape(found["escape"])

    def _single(self, control: str) -> None:
        self._late, self._last = False, ""
        if control == "\r":
            self.x = 0
        elif control == "\n":
            self.x = 0  # as the line discipline writes it
            self._down()
        elif control == "\b":
            self.x = max(0, self.x - 1)
        else:
            assert control in "\x07\t", f"a control character {control!r}"

    def _escape(self, escape: str) -> None:
        assert escape == "M", f"what is ESC {escape!r}?"
        self._late = False
        if self.y == self.top:
            self._scroll(-1)
        elif self.y:
            self.y -= 1

    def _down(self) -> None:
        if self.y == self.bottom:
            self._scroll(1)
        elif self.y < self.height - 1:
            self.y += 1

    def _scroll(self, lines: int) -> None:
        for _ in range(abs(lines)):
            gone, new = (self.top, self.bottom) if lines > 0 else (self.bottom, self.top)
            del self.cells[gone]
            self.cells.insert(new, [UNDEFINED] * self.width)

    def _print(self, text: str) -> None:
        if self.x + len(text) < self.width and not self._late and self._narrow(text):
            self._put_all(text)
            return
        for letter in text:
            size = self._measure(letter)
            if letter == "\N{VARIATION SELECTOR-16}" and self._joins_wider():
                continue
            if self._last.endswith("\N{ZERO WIDTH JOINER}"):
                size = 0
            if size:
                self._put(letter, size)
            elif self._last:
                self._join(letter)
            self._last = letter if size else self._last + letter

    def _joins_wider(self) -> bool:
        """Take the letter before as an emoji, which has two cells."""
        if self._measure(self._last + "\N{VARIATION SELECTOR-16}") <= self._measure(self._last):
            return False
        x = self.x if self._late else self.x - 1
        self.x, self._late = x, False
        self._put(self.cells[self.y][x][0] + "\N{VARIATION SELECTOR-16}", 2)
        self._last += "\N{VARIATION SELECTOR-16}"
        return True

    def _join(self, letter: str) -> None:
        x = self.x if self._late else self.x - 1
        while x > 0 and not self.cells[self.y][x][0]:
            x -= 1
        was, look = self.cells[self.y][x]
        self.cells[self.y][x] = (was + letter, look)

    def _put(self, letter: str, size: int) -> None:
        if self._late and self.wraps:
            self.x = 0
            self._down()
        self._late = False
        if self.x + size > self.width:
            self.x = self.width - size
        row = self.cells[self.y]
        self._split(row, self.x)
        self._split(row, self.x + size)
        row[self.x : self.x + size] = [(letter, self.look), *[("", self.look)] * (size - 1)]
        self.x += size
        if self.x >= self.width:
            self.x, self._late = self.width - 1, True

    def _narrow(self, text: str) -> bool:
        """Return whether each letter has a cell of its own."""
        for letter in set(text) - self._known_narrow:
            if self._measure(letter) != 1:
                return False
            self._known_narrow.add(letter)
        return True

    def _put_all(self, text: str) -> None:
        """Put letters of one cell each, with room for all."""
        row, end = self.cells[self.y], self.x + len(text)
        self._split(row, self.x)
        self._split(row, end)
        row[self.x : end] = [(letter, self.look) for letter in text]
        self.x, self._last = end, text[-1]

    def _split(self, row: list[tuple[str, Look]], x: int) -> None:
        """Blank a wide character whose halves lie on both sides of a column."""
        if x < self.width and not row[x][0]:
            start, end = x - 1, x
            while start > 0 and not row[start][0]:
                start -= 1
            while end < self.width and not row[end][0]:
                end += 1
            row[start:end] = [(" ", look) for _, look in row[start:end]]

    def _control(self, found: re.Match[str]) -> None:
        final, numbers = found["final"], found["numbers"]
        values = [int(each or 0) for each in re.split("[;:]", numbers)] if numbers else []
        if final == "m" and not found["private"]:
            self._style(values)
        elif final == "n" and values == [6]:
            self.answers.append(f"\x1b[{self.y + 1};{self.x + 1}R")
        elif final in _SILENT or found["private"] or found["between"]:
            self._mode(found["private"] + final, values)
        else:
            self._late = False
            self._act(final, values)
            self._last = self._last if final == "b" else ""

    def _mode(self, final: str, values: list[int]) -> None:
        if final in ("?h", "?l"):
            if 1049 in values:
                self._clear()
            if 7 in values:
                self.wraps = final == "?h"

    def _style(self, values: list[int]) -> None:
        fg, bg, marks, link = self.look
        values = values or [0]
        while values:
            code = values.pop(0)
            if code in (38, 48):
                part = [code, *values[: 2 if values[0] == 5 else 4]]
                del values[: len(part) - 1]
                fg, bg = (";".join(map(str, part)), bg) if code == 38 else (
                    fg, ";".join(map(str, part)))  # fmt: skip
            elif code == 0:
                fg, bg, marks = "", "", frozenset()
            elif code in _OFF:
                marks -= _OFF[code]
            elif 30 <= code <= 39 or 90 <= code <= 97:
                fg = "" if code == 39 else str(code)
            elif 40 <= code <= 49 or 100 <= code <= 107:
                bg = "" if code == 49 else str(code)
            else:
                assert code in {mark for each in _OFF.values() for mark in each}, f"SGR {code}?"
                marks |= {code}
        self.look = (fg, bg, marks, link)

    def _act(self, final: str, values: list[int]) -> None:
        first = values[0] if values else 0
        count = max(1, first)
        if final in "ABCDGdH":
            self._move(final, count, values[1] if len(values) > 1 else 1)
        elif final == "r":
            self.top, self.bottom = count - 1, (values[1] if len(values) > 1 else self.height) - 1
            assert not values or self.top < self.bottom < self.height, f"margins {values}"
            self.y = self.x = 0
        elif final == "J":
            assert first in (0, 2)
            self._erase(0 if first == 2 else self.y, 0 if first == 2 else self.x, self.height)
        elif final == "K":
            assert first == 0
            self._erase(self.y, self.x, self.y + 1)
        elif final == "X":
            self._erase(self.y, self.x, self.y + 1, count)
        elif final == "b":
            if self._repeats:
                self._print(self._last[:1] * count)
        else:
            raise AssertionError(f"what is CSI {values} {final}?")

    def _move(self, final: str, count: int, column: int) -> None:
        if final == "H":
            self.y, self.x = min(count, self.height) - 1, min(max(1, column), self.width) - 1
        elif final == "G":
            self.x = min(count, self.width) - 1
        elif final == "d":
            self.y = min(count, self.height) - 1
        elif final in "AB":
            inside = self.top <= self.y <= self.bottom
            low, high = (self.top, self.bottom) if inside else (0, self.height - 1)
            self.y = min(high, max(low, self.y + (count if final == "B" else -count)))
        else:
            self.x = min(self.width - 1, max(0, self.x + (count if final == "C" else -count)))

    def _erase(self, y: int, x: int, end: int, count: int = 0) -> None:
        look: Look = ("", self.look[1] if self._bce else "", frozenset(), "")
        for row in self.cells[y:end]:
            last = min(self.width, x + count) if count else self.width
            self._split(row, x)
            self._split(row, last)
            row[x:last] = [(" ", look)] * (last - x)
            x = 0

    def lines(self) -> list[str]:
        """Return the rows' text."""
        return ["".join(letter for letter, _ in row) for row in self.cells]

    def text(self) -> str:
        """Return the screen's text."""
        return "\n".join(self.lines())

    def seen(self) -> list[list[tuple[str, Look]]]:
        """Return what can be seen: of an empty cell neither the ink nor its weight."""
        return [[_seen(*cell) for cell in row] for row in self.cells]


def _seen(letter: str, look: Look) -> tuple[str, Look]:
    fg, bg, marks, link = look
    if letter == " ":
        marks &= _SEEN_ON_BLANKS
        fg = fg if marks else ""
    return letter, (fg, bg, marks, link)
