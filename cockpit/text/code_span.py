"""One value in a code span of Markdown, whatever it holds: written so that it is read back whole.

Control characters, line ends, backslashes and lone surrogates are escaped (a file's name may hold
any of them); the ticks around it are as many as it takes.
"""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.late_regex import late_regex

UNSAFE: Final = late_regex("[\x00-\x1f\x7f-\x9f\\\\\u2028\u2029\ud800-\udfff]")
_ESCAPED: Final = late_regex(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|\\)")
_TICKS: Final = late_regex("`+")


def code_span(value: str) -> str:
    """Return ``value`` as a code span of one line."""
    plain = UNSAFE.sub(_escape, value)
    runs = {len(run) for run in _TICKS.findall(plain)}
    ticks = "`" * next(count for count in range(1, len(plain) + 2) if count not in runs)
    edge = " " if plain[:1] in ("`", " ") or plain[-1:] in ("`", " ") else ""
    return f"{ticks}{edge}{plain}{edge}{ticks}"


def value_of(inside: str) -> str:
    """Return the value of a code span from what stands between its ticks; it may hold anything."""
    if inside.startswith(" ") and inside.endswith(" ") and inside.strip():
        inside = inside[1:-1]
    return _ESCAPED.sub(
        lambda found: "\\" if found[0] == "\\\\" else chr(int(found[0][2:], 16)), inside
    )


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    code = ord(char)
    return "\\\\" if char == "\\" else f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
