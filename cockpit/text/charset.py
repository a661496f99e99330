"""Which characters a terminal can show, and text drawn with no others.

A locale without UTF-8 gets ASCII (tmux would turn every glyph into ``_``), the console of Linux
what its fonts have, any other terminal everything. Cells are replaced one for one, so that
nothing moves.
"""

from __future__ import annotations

import locale
import os
import unicodedata
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Final

from cockpit.model.wording import to_ascii

_CONSOLE_TWINS: Final = str.maketrans("╭╮╰╯┏┓┗┛┍┃━", "┌┐└┘┌┐└┘┌│─")
_CONSOLE: Final = frozenset("─│┌┐└┘├┤┬┴┼█■▲→←↑↓·•±")
"""What the kernel's own font and every usual console font have beside ASCII and Latin-1."""
_VARIABLES: Final = ("LC_ALL", "LC_CTYPE", "LANG")
_LOST: Final = "?"


class Charset(Enum):
    """How much a terminal can show."""

    UNICODE = "unicode"
    CONSOLE = "console"
    ASCII = "ascii"


def charset_of(variables: Mapping[str, str], codeset: str = "") -> Charset:
    """Return what the terminal can show; ``codeset`` is the C library's word for the locale.

    The name of the locale decides where it names an encoding: it tells what the terminal was set
    up for, also on a machine on which that locale is not installed.
    """
    named = next((value for name in _VARIABLES if (value := variables.get(name))), "")
    language, _, coding = named.partition("@")[0].partition(".")
    if language in ("", "C", "POSIX") and not coding:
        return Charset.ASCII
    if _plain(coding or codeset) != "utf8":
        return Charset.ASCII
    return Charset.CONSOLE if variables.get("TERM") == "linux" else Charset.UNICODE


def terminal_charset() -> Charset:
    """Return what the terminal of this process can show."""
    return charset_of(given_variables(), locale.nl_langinfo(locale.CODESET))


def given_variables() -> dict[str, str]:
    """Return the variables that the process was started with.

    In the locale C the interpreter sets ``LC_CTYPE=C.UTF-8`` for itself, which the terminal knows
    nothing of: the kernel still has the variables as they were given.
    """
    try:
        raw = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environ)
    pairs = (each.partition(b"=") for each in raw.split(b"\0") if each)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def drawn(text: str, charset: Charset) -> str:
    """Return ``text`` with what the terminal cannot show replaced, cell by cell."""
    if charset is Charset.UNICODE or text.isascii():
        return text
    if charset is Charset.CONSOLE:
        return "".join(map(_on_console, text.translate(_CONSOLE_TWINS)))
    return "".join(map(_in_ascii, text))


def _plain(coding: str) -> str:
    return coding.lower().replace("-", "").replace("_", "")


@lru_cache(maxsize=4096)
def _on_console(letter: str) -> str:
    latin = letter <= "\xff" and letter.isprintable() and letter == to_ascii(letter)
    return letter if letter in _CONSOLE or latin else _in_ascii(letter)


@lru_cache(maxsize=4096)
def _in_ascii(letter: str) -> str:
    """Return a character's twin, the letter below its accent, or as many ``?`` as it has cells."""
    if letter.isascii():
        return letter
    twin = to_ascii(letter)
    if twin.isascii():
        return twin
    base = unicodedata.normalize("NFKD", letter)
    cells = _cells(letter)
    plain = "".join(each for each in base if each.isascii() and each.isprintable())
    return plain if cells and len(plain) == cells else _LOST * cells


def _cells(letter: str) -> int:
    """Return how many cells a character takes: none for what joins the one before it."""
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1
