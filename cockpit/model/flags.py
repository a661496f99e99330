"""A command's words as settings, so that two commands can be compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NUMBER: Final = re.compile(r"-\d+(\.\d+)?(e-?\d+)?", re.I)


def flags_of(words: Sequence[str]) -> dict[str, str]:
    """Return a command as settings: ``--name value``, ``--name=value``, ``name=value``, places.

    A flag that is given twice keeps both values; words that are no flag go by their place.
    """
    found: dict[str, str] = {}
    place, waiting = 0, ""
    for word in words:
        name, sign, value = word.partition("=")
        if word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word):
            waiting = "" if sign else name
            _add(found, name, value if sign else "")
        elif waiting:
            found[waiting] = word if not found[waiting] else f"{found[waiting]} {word}"
            waiting = ""
        elif sign and re.fullmatch(r"[+~]?[A-Za-z_][\w./-]*", name):
            _add(found, name, value)
        else:
            found[f"word {place}"] = word
            place += 1
    return found


def _add(found: dict[str, str], name: str, value: str) -> None:
    found[name] = f"{found[name]} {value}".strip() if name in found else value
