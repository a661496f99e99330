"""Foreign text inside Markdown that goes to GitHub: shown as written, and it calls nobody.

GitHub turns ``@name`` into a notification and ``#12`` into a reference whatever is escaped
around it; only code and an invisible character in between keep it from doing so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

UNKNOWN: Final = "unknown"
MOST_LINES: Final = 60
_APART: Final = "\N{ZERO WIDTH SPACE}"
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|~$&])")
_CALL: Final = re.compile(r"@(?=[\w-])|#(?=\d)|\b(?<=GH-)(?=\d)", re.IGNORECASE)
_BLOCK: Final = re.compile(r"^([#+=-]|\d+(?=[.)]))")
_LOGIN: Final = re.compile(r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:/[A-Za-z0-9_.-]{1,100})?")


def prose(text: str | None, limit: int = 2000) -> str:
    """Return a person's words as one line of plain Markdown; ``unknown`` when there are none."""
    plain = scrub(clean(text, limit))
    if not plain:
        return UNKNOWN
    escaped = _SPECIAL.sub(r"\\\1", plain)
    called = _CALL.sub(lambda found: found.group() + _APART, escaped)
    return _BLOCK.sub(_opened, called)


def code(text: object, limit: int = 1000) -> str:
    """Return a name, a path or a command as a code span that it cannot leave."""
    plain = scrub(clean(text, limit))
    if not plain:
        return UNKNOWN
    ticks = "`" * (_longest_run(plain, "`") + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{pad}{plain}{pad}{ticks}"


def block(lines: str | Iterable[str]) -> str:
    """Return log lines as a code block that they cannot close; the last ``MOST_LINES`` of them."""
    text = lines if isinstance(lines, str) else "\n".join(lines)
    shown = [line.plain for line in safe_lines(text)]
    left_out = len(shown) - MOST_LINES
    if left_out > 0:
        shown = [f"… {left_out:,} lines before", *shown[-MOST_LINES:]]
    plain = scrub("\n".join(shown))
    fence = "`" * max(3, _longest_run(plain, "`") + 1)
    return f"{fence}text\n{plain}\n{fence}"


def fields(values: Iterable[tuple[str, str | None]]) -> str:
    """Return a list of labels and values that are Markdown already; ``None`` ones are left out."""
    return "\n".join(f"- {label}: {value}" for label, value in values if value is not None)


def person(name: str | None, *, call: bool = False) -> str:
    """Return a person's name; ``call`` notifies one who is written ``@login`` in the run file."""
    plain = clean(name, 200)
    if call and _LOGIN.fullmatch(plain):
        return plain
    return prose(plain)


def _opened(found: re.Match[str]) -> str:
    """Escape what would open a heading, a list or a rule at the start of a line."""
    sign = found.group(1)
    return f"{sign}{_APART}" if sign[0].isdigit() else f"\\{sign}"


def _longest_run(text: str, char: str) -> int:
    runs = re.findall(f"{re.escape(char)}+", text)
    return max(map(len, runs), default=0)
