"""Files that a run file names, read within a deadline; on which line each key of TOML stands.

``tomllib`` gives values without places: ``Lines`` reads a document that it has accepted. The run
file is read before there is an event loop, so reading waits for a daemon thread by itself; one that
hangs is left behind, and the same file is not asked for again until it comes back.
"""

from __future__ import annotations

import bisect
import errno
import re
import stat
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cockpit.model.late_regex import late_regex

PATIENCE: Final = 2.0
"""Seconds that a file is given; while another one hangs, ``BRIEF`` is: it may be one mount."""
BRIEF: Final = 0.2

_given_up: Final[dict[Path, threading.Thread]] = {}


class _Read(threading.Thread):
    """Reads one regular file; ``found`` is its text, or why there is none."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(name=f"read {path.name}", daemon=True)
        self._path, self._most = path, most
        self.found: bytes | Exception = b""

    def run(self) -> None:
        """Read it."""
        try:
            self.found = _read(self._path, self._most)
        except Exception as error:  # noqa: BLE001 - raised again where somebody waits for it
            self.found = error


def read_within(path: Path, most: int) -> bytes:
    """Return up to ``most`` bytes of a regular file.

    Raises ``OSError`` (``ValueError`` for no path at all), ``TimeoutError`` after ``PATIENCE``
    seconds without an answer.
    """
    hangs = [name for name, each in tuple(_given_up.items()) if each.is_alive()]
    if path in hangs:
        raise TimeoutError(errno.ETIMEDOUT, "still does not respond")
    thread, wait = _Read(path, most), min(PATIENCE, BRIEF) if hangs else PATIENCE
    thread.start()
    thread.join(wait)
    if thread.is_alive():
        _given_up[path] = thread
        raise TimeoutError(errno.ETIMEDOUT, f"did not respond within {wait:g} s")
    if isinstance(thread.found, Exception):
        raise thread.found
    return thread.found


def answers_again() -> bool:
    """Return whether a file that was given up answers again; each is reported once."""
    back = [name for name, each in tuple(_given_up.items()) if not each.is_alive()]
    for name in back:
        _given_up.pop(name, None)
    return bool(back)


def _read(path: Path, most: int) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    with path.open("rb") as file:
        return file.read(most)


KeyPath = tuple[str | int, ...]
"""Where a value stands: table names, keys and, in arrays, 0-based positions."""

_SKIP = late_regex(r"(?:[ \t\n\r]++|#[^\n]*+)*+")
_BLANK = late_regex(r"[ \t]*+")
_BARE_KEY = late_regex(r"[A-Za-z0-9_-]++")
_BASIC = late_regex(r'"(?:[^"\\]|\\.)*+"')
_LITERAL = late_regex(r"'[^']*+'")
_LONG_BASIC = late_regex(r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}', re.DOTALL)
_LONG_LITERAL = late_regex(r"'''(?:[^']|'(?!''))*+'{3,5}", re.DOTALL)
_STRINGS = (_LONG_BASIC, _LONG_LITERAL, _BASIC, _LITERAL)
_WORD = late_regex(r"[^,\]}#\n]*+")


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Return the 1-based line of every table, key and array item of a valid document."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of ``path``, or of the nearest thing around it that is written down."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self._tables: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        while self._peek(_SKIP):
            table = self._header() if self._char() == "[" else self._pair(table)

    def _peek(self, blank: re.Pattern[str]) -> bool:
        """Skip ``blank``; true when something is left to read."""
        self._take(blank)
        return self._at < len(self._text)

    def _char(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found.group()

    def _note_line(self, path: KeyPath) -> None:
        self.lines.setdefault(path, bisect.bisect_left(self._breaks, self._at) + 1)

    def _header(self) -> KeyPath:
        """Read ``[a.b]`` or ``[[a.b]]`` and return the table that the next pairs go to."""
        start, many = self._at, self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        path = self._inside(self._key())
        end, self._at = self._at, start
        if many:
            count = self._tables.get(path, 0)
            self._tables[path] = count + 1
            self._note_line(path)
            path = (*path, count)
        self._mark_all(path)
        self._at = end
        self._take(_BLANK)
        self._at += 2 if many else 1
        return path

    def _inside(self, key: KeyPath) -> KeyPath:
        """Resolve a header's key: a name of an array of tables means its newest table."""
        path: KeyPath = ()
        for position, part in enumerate(key):
            path = (*path, part)
            if path in self._tables and position < len(key) - 1:
                path = (*path, self._tables[path] - 1)
        return path

    def _pair(self, table: KeyPath) -> KeyPath:
        start = self._at
        key = self._key()
        end, self._at = self._at, start
        self._mark_all((*table, *key), above=len(table))
        self._at = end
        self._peek(_BLANK)
        self._at += 1
        self._value((*table, *key))
        return table

    def _mark_all(self, path: KeyPath, above: int = 0) -> None:
        for depth in range(above + 1, len(path) + 1):
            self._note_line(path[:depth])

    def _key(self) -> KeyPath:
        """Read a dotted key; stop behind its last part."""
        parts: list[str] = []
        while self._peek(_BLANK):
            parts.append(self._key_part())
            self._take(_BLANK)
            if self._char() != ".":
                break
            self._at += 1
        return tuple(parts)

    def _key_part(self) -> str:
        if bare := self._take(_BARE_KEY):
            return bare
        if literal := self._take(_LITERAL):
            return literal[1:-1]
        quoted = self._take(_BASIC)
        if not quoted:
            self._at += 1
            return ""
        return str(tomllib.loads(f"key = {quoted}")["key"])

    def _value(self, path: KeyPath) -> None:
        self._take(_BLANK)
        opening = self._char()
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        elif not any(self._take(pattern) for pattern in _STRINGS):
            self._take(_WORD)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        position = 0
        while self._peek(_SKIP) and self._char() != "]":
            self._note_line((*path, position))
            self._value((*path, position))
            self._peek(_SKIP)
            self._at += self._char() == ","
            position += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while self._peek(_SKIP) and self._char() != "}":
            self._pair(path)
            self._peek(_SKIP)
            self._at += self._char() == ","
        self._at += 1
