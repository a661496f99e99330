"""Colours of foreign text, moved to where they can be read on a dark and on a light screen."""

from __future__ import annotations

import colorsys
from functools import lru_cache

NAMED: tuple[str | None, ...] = (None, "red", "green", "yellow", "blue", "magenta", "cyan", None)
"""The eight SGR colours. Black and white are the default ink: one of them is always invisible."""

_DARKEST, _LIGHTEST = 0.38, 0.62
_LEVELS = (0, 95, 135, 175, 215, 255)


@lru_cache(maxsize=512)
def legible(red: int, green: int, blue: int) -> str | None:
    """Return ``#rrggbb`` of the same hue in middle lightness; ``None`` for a grey or nonsense."""
    if max(red, green, blue) > 255:
        return None
    hue, light, depth = colorsys.rgb_to_hls(red / 255, green / 255, blue / 255)
    if depth < 0.15:
        return None
    light = min(max(light, _DARKEST), _LIGHTEST)
    return "#" + "".join(
        f"{round(part * 255):02x}" for part in colorsys.hls_to_rgb(hue, light, depth)
    )


def indexed(number: int) -> str | None:
    """Return colour ``number`` of the 256-colour table; ``None`` for greys and nonsense."""
    if number < 16:
        return NAMED[number % 8]
    if number > 231:
        return None
    cube = number - 16
    return legible(_LEVELS[cube // 36], _LEVELS[cube // 6 % 6], _LEVELS[cube % 6])
