"""What scripts for a host are made of: words of the shell, and marks in their output."""

from __future__ import annotations

import re
import secrets
from typing import Final

from cockpit.runtime.ssh import quote

Record = tuple[list[str], bytes]
"""The words of a mark, and what was printed until the next one."""

_MAGIC: Final = re.compile(r"[*?[]")
_USER: Final = re.compile(r"~[A-Za-z0-9_.-]*")


def new_mark() -> str:
    """Return what tells the marks of one script from all other text."""
    return secrets.token_hex(12)


def marking(mark: str) -> str:
    """Return the lines that define ``mark`` in a script: it prints its words on a line."""
    return f"mark() {{ printf '\\n@{mark} %s\\n' \"$*\"; }}"


def records(out: bytes, mark: str) -> list[Record]:
    """Return the records of an output, wherever in it they stand."""
    found: list[Record] = []
    for record in out.split(f"\n@{mark} ".encode())[1:]:
        head, _, payload = record.partition(b"\n")
        found.append((head.decode("ascii", "replace").split() or [""], payload))
    return found


def is_pattern(path: str) -> bool:
    """Tell whether a path has letters that a pattern is made of."""
    return _MAGIC.search(path) is not None


def word_of(path: str, magic: bool = False) -> str:
    """Return a path as a word of the shell, from the home where it says so (``~/x``).

    With ``magic``, ``*``, ``?`` and ``[a-z]`` in it are a pattern; ``**`` is ``*``.
    """
    quoted = _pattern if magic else quote
    user = _USER.match(path) if path.startswith("~") else None
    if user is not None and path[user.end() : user.end() + 1] in ("", "/"):
        home = '"$HOME"' if user[0] == "~" else user[0]
        return home + (quoted(path[user.end() :]) if path[user.end() :] else "")
    return quoted(path) if path.startswith("/") else "./" + quoted(path)


def _pattern(text: str) -> str:
    parts = re.split(r"(\*+|\?|\[[!^]?\]?[^]/]*\])", text)
    return "".join(_magic(part) if at % 2 else quote(part) for at, part in enumerate(parts) if part)


def _magic(part: str) -> str:
    if not part.startswith("["):
        return part[0]
    plain = re.compile(r"[A-Za-z0-9_.\-\]]")
    inner = "".join(char if plain.match(char) else quote(char) for char in part[1:-1].lstrip("!^"))
    return f"[{'!' if part[1] in '!^' else ''}{inner}]"
