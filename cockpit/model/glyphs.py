"""The shapes of the screen: one glyph per state everywhere, and its ASCII twin.

Every twin is as wide as its glyph (one cell), so that a painted line can be translated to
ASCII after it was laid out (``[ui] ascii``).
"""

from __future__ import annotations

from typing import Final

GLYPHS: Final[dict[str, tuple[str, str]]] = {
    "healthy": ("●", "*"),
    "attention": ("▲", "!"),
    "critical": ("■", "#"),
    "unknown": ("?", "?"),
    "finished": ("◆", "="),
    "sealed": ("✓", "v"),
    "complete": ("✓", "v"),
    "incomplete": ("✗", "x"),
    "rejected": ("✗", "x"),
    "writing": ("◌", "o"),
    "info": ("·", "-"),
    "warning": ("▲", "!"),
    "alert": ("▲", "!"),
    "stale": ("⧗", "~"),
    "pick": ("▸", ">"),
    "next": ("→", ">"),
    "nonfinite": ("×", "x"),
}
"""Name of a state or mark: its glyph, its ASCII twin."""

_TWINS: Final[dict[str, str]] = {
    **dict(GLYPHS.values()),
    **dict(zip("╭╮╰╯├┤┬┴┼│─┃━┏┓┗┛", "++++++++||-|=++++", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇█", "_.,-=+*#", strict=True)),
    **dict(zip("·−…–—±≈•↑↓←▌▏⏎└┊⚑", "--.--+~*^v<||>`|P", strict=True)),
}


def _braille_twin(pattern: int) -> str:
    """Return how dense a braille cell is, in ASCII."""
    return " ..::+++#"[pattern.bit_count()]


_TO_ASCII: Final = str.maketrans(
    _TWINS | {chr(0x2800 + pattern): _braille_twin(pattern) for pattern in range(256)}
)


def glyph(state: str, ascii_only: bool = False) -> str:
    """Return the glyph of a state's name; ``?`` for one that has none."""
    return GLYPHS.get(state, GLYPHS["unknown"])[1 if ascii_only else 0]


def to_ascii(text: str) -> str:
    """Return ``text`` with the cockpit's own glyphs replaced by their twins, cell by cell."""
    return text.translate(_TO_ASCII)
