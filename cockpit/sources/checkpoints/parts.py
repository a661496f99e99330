"""Which part of a save a name tells: the model, its optimizer, one of two networks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from cockpit.model.late_regex import late_regex

_LAST_NUMBER: Final = late_regex(r"(.*?)(\d+)(\D*)")
_PART: Final = late_regex(
    r"(?i)(?:(?<=[-_.])|^)(model|net|weights|optim\w*?|opt|(?:lr[-_]?)?sched\w*?|scaler|rng|critic|actor"
    r"|discriminator|generator)(?:[-_.]|(?=\*)|$)"
)
"""Words for a part of a save in a name, with what stands between them and the next word."""


def part_of(name: str) -> tuple[str, str, str]:
    """Return what a save's name has in common with its other parts, which part it is, its number.

    The number is the last one; ``model_step_100.pt`` is ``step_*.pt``, ``model``, ``100``.
    """
    match = _LAST_NUMBER.fullmatch(name)
    if match is None:
        return name, "", ""
    form = f"{match[1]}*{match[3]}"
    return _PART.sub("", form), "-".join(_PART.findall(form)).lower(), match[2]


Kin = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Names by what they have in common, by the part that they tell, by their number."""


def kin_of(names: Iterable[str]) -> Kin:
    """Return the names so that the parts of one save stand beside each other."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for name in names:
        common, part, digits = part_of(name)
        found.setdefault(common, {}).setdefault(part, {})[digits] = name
    return found
