"""Secrets that a line above names: below ``data:`` of a Kubernetes secret, in a table's column."""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.text.secret_names import is_dense, is_named_secret, is_placeholder, is_tight

Range = tuple[int, int]

_OPENS: Final = late_regex(
    r"(?P<indent>[\s-]*)[\"']?(?P<name>data|stringData|secrets?|credentials|tokens|passwords"
    r"|api_?keys)[\"']?\s{0,3}[:=]\s{0,3}\{?\s*$",
    re.I,
)
_ENTRY: Final = late_regex(
    r"(?P<indent>\s*)[\"']?[\w.-]{1,80}[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<value>[^\s\"',]+)[\"']?,?"
    r"\s*$"
)
_ENCODED: Final = late_regex(r"(?=[A-Za-z0-9+/]*\d)[A-Za-z0-9+/]{16,}={0,2}$")
_CELL: Final = late_regex(r"\s*[\"']?(?P<name>[A-Za-z][A-Za-z _.-]{0,40})[\"']?\s*$")
_RULER: Final = late_regex(r"[\s|:+=-]+$")
_NOUNS: Final = ("ecret", "ECRET", "assw", "ASSW", "oken", "OKEN", "key", "KEY", "Key")


def may_begin(line: str) -> bool:
    """Return whether a block or a table may begin with ``line``: mostly not."""
    if line[-1:] in (":", "{"):
        return True
    if "," not in line and "|" not in line:
        return False
    for noun in _NOUNS:  # noqa: SIM110 - a plain loop is twice as fast
        if noun in line:
            return True
    return False


class Blocks:
    """Remembers the head of a block or of a table while its lines last."""

    def __init__(self) -> None:
        self._indent: int | None = None
        self._encoded = False
        self._mark = ""
        self._cells: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """True while what a line above has named may still come."""
        return self._indent is not None or bool(self._cells)

    def ranges(self, line: str) -> list[Range]:
        """Return what of ``line`` is secret by a line above, and remember what it begins."""
        found = self._entry(line) if self._indent is not None else self._row(line)
        if not self.open:
            self._begin(line)
        return found

    def _entry(self, line: str) -> list[Range]:
        entry = _ENTRY.match(line)
        if entry is None or len(entry["indent"]) <= (self._indent or 0):
            if line.strip():
                self._indent = None
            return []
        made = _ENCODED.match(entry["value"]) if self._encoded else is_tight(entry["value"])
        if not made or is_placeholder(entry["value"]):
            return []
        return [entry.span("value")]

    def _row(self, line: str) -> list[Range]:
        if not self._cells or (self._mark == "|" and _RULER.match(line)):
            return []
        cells = line.split(self._mark)
        if len(cells) != len(self._cells):
            self._cells = ()
            return []
        found, at = [], 0
        for name, cell in zip(self._cells, cells, strict=True):
            value = cell.strip().strip("\"'")
            if name and is_dense(value) and is_named_secret(name, value):
                start = at + cell.index(value)
                found.append((start, start + len(value)))
            at += len(cell) + 1
        return found

    def _begin(self, line: str) -> None:
        opens = _OPENS.match(line)
        if opens:
            self._indent, self._encoded = len(opens["indent"]), opens["name"].lower() == "data"
            return
        mark = "|" if "|" in line else ","
        cells = line.split(mark)
        names = [_CELL.match(cell) for cell in cells]
        if len(cells) > 1 and all(names[1:-1]) and (names[-1] or not cells[-1].strip()):
            told = tuple(_name(each) for each in names)
            if any(told):
                self._mark, self._cells = mark, told


def _name(cell: re.Match[str] | None) -> str:
    """Return the name of a column that holds secrets, else an empty one."""
    name = cell["name"].strip().replace(" ", "_") if cell else ""
    return name if name and is_named_secret(name) else ""
