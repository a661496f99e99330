"""A run's configuration as it may be shown: safe text, no secrets, bounded."""

from __future__ import annotations

from typing import Final

from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST_ENTRIES: Final = 5000
"""Values that are kept of one configuration, nested ones counted."""
_DEPTH: Final = 12


class ShownConfig:
    """Makes the shown form, and makes it again only when the configuration has changed."""

    def __init__(self) -> None:
        self._raw: dict[str, object] = {}
        self._shown: dict[str, object] = {}
        self._left = 0

    def shown(self, raw: dict[str, object]) -> dict[str, object]:
        """Return ``raw`` (JSON values) as it may be shown."""
        if raw != self._raw:
            self._raw = raw
            self._left = MOST_ENTRIES
            self._shown = self._mapping(raw, 0)
        return self._shown

    def _mapping(self, raw: dict[str, object], depth: int) -> dict[str, object]:
        safe: dict[str, object] = {}
        for key, value in raw.items():
            if self._left <= 0:
                break
            self._left -= 1
            name = scrub(clean(key))
            safe[name] = self._value(name, value, depth)
        return safe

    def _value(self, name: str, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, dict) and depth < _DEPTH:
            return self._mapping(value, depth + 1)
        if isinstance(value, list) and depth < _DEPTH:
            kept = value[: max(0, self._left)]
            self._left -= len(kept)
            return [self._value(name, one, depth + 1) for one in kept]
        label = f"{name}="
        return scrub(label + clean(value)).removeprefix(label)
