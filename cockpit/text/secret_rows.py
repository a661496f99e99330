"""What secrets look like, as data: the rows of ``secrets/*.toml``, which say what they mean.

A row has examples; the tests try each of them against the masking as a whole.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from cockpit.model.late_regex import late, late_regex

_WORD: Final = r"(?:\"(?P<vd>[^\"]+)|'(?P<vs>[^']+)|(?P<vb>[^\s\"'|;&<>]+))"
_SOME: Final = r"[^|;&\n]{0,160}?"
"""Other arguments of the same command."""


class Shapes(NamedTuple):
    """``pattern`` finds secrets by their shape, on a line that holds one of ``hints``."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]


class Place(NamedTuple):
    """What stands around a secret, which is the pattern's group ``value``."""

    near: tuple[str, ...]
    """Words, in small letters, of which one stands on the line; none: any line may hold it."""
    is_: str
    """What a value must be: ``any``, ``tight`` or ``dense``."""
    pattern: re.Pattern[str]


@cache
def table(name: str) -> dict[str, Any]:
    """Return ``secrets/NAME.toml`` as it stands there."""
    # not by importlib.resources, which loads much before the first paint
    path = Path(__file__).with_name("secrets") / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def shapes() -> Shapes:
    """Return all shapes as one."""
    rows = table("shapes")["row"]
    hints = dict.fromkeys(hint for row in rows for hint in row["hints"])
    return Shapes(tuple(hints), late_regex("|".join(row["pattern"] for row in rows)))


@cache
def places() -> tuple[Place, ...]:
    """Return what stands around secrets, a row each."""
    found, senders = table("places"), "|".join(table("places")["senders"])
    return tuple(
        Place(
            tuple(row.get("near", ())),
            row.get("is", "any"),
            late_regex(
                row["pattern"].replace("<<senders>>", senders), re.I if row.get("any_case") else 0
            ),
        )
        for row in found["row"]
    )


@cache
def tools() -> dict[str, tuple[re.Pattern[str], ...]]:
    """Return, by the first word of a command, where it takes a secret: a group of ``vd vs vb``."""
    found: dict[str, tuple[re.Pattern[str], ...]] = {}
    for row in table("tools")["row"]:
        pattern = late(partial(_taking, row["tools"], row["takes"]))
        for tool in row["tools"]:
            found[tool] = (*found.get(tool, ()), pattern)
    return found


def _taking(names: list[str], takes: str) -> re.Pattern[str]:
    behind = takes.replace("{some}", _SOME).replace("{word}", _WORD)
    return re.compile(rf"(?<![\w/-])(?:\S*/)?(?:{'|'.join(map(re.escape, names))}){behind}")
