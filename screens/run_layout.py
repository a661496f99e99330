"""How the run screen is laid out: what stands beside or below its tab, and how high. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

WIDE: Final = 150
"""Columns from which what is wrong stands beside the tab."""
BELOW: Final = (100, 32)
"""Columns and rows from which it stands in a strip below the tab."""
ENLARGED: Final = (120, 40)
"""Columns and rows from which what matters is enlarged for those who look on."""
ABOVE_ALL: Final = (160, 48)
"""Columns and rows from which the selected run is enlarged above all the others, too."""
STRIP: Final = 9
"""Rows of the strip at least; it never takes more than two fifths of the screen."""


class Shape(Enum):
    """Where what is wrong, the loss and the checkpoints stand, whatever the tab."""

    ALONE = "alone"
    BELOW = "below"
    BESIDE = "beside"


class Want(NamedTuple):
    """Rows that a panel needs at least, and can use; 0 at least: none where there is no room."""

    least: int
    most: int


def shape_of(width: int, height: int) -> Shape:
    """Return the shape for a terminal of so many columns and rows."""
    if width >= WIDE:
        return Shape.BESIDE
    return Shape.BELOW if width >= BELOW[0] and height >= BELOW[1] else Shape.ALONE


def has_room(width: int, height: int) -> bool:
    """Return whether figures can be enlarged on a terminal of so many columns and rows."""
    return width >= ENLARGED[0] and height >= ENLARGED[1]


def has_room_above(width: int, height: int) -> bool:
    """Return whether figures of one run have room above the panels of all."""
    return width >= ABOVE_ALL[0] and height >= ABOVE_ALL[1]


def strip_height(height: int, wants: Sequence[int]) -> int:
    """Return the strip's rows on a terminal of ``height``, for panels that want so many each."""
    return max(STRIP, min(max(wants, default=0), height * 2 // 5))


def shares(room: int, wants: Sequence[Want], filler: int = 0) -> list[int]:
    """Share ``room`` rows out: first what each needs, in their order, then what each can use.

    A panel whose need does not fit gets none. What nobody can use goes to the ``filler``, or to
    the first that is shown.
    """
    given = []
    for want in wants:
        given.append(want.least if want.least <= room else 0)
        room -= given[-1]
    for at, want in enumerate(wants):
        more = min(room, max(0, want.most - given[at])) if given[at] else 0
        given[at] += more
        room -= more
    shown = [at for at, rows in enumerate(given) if rows]
    if shown:
        given[filler if filler in shown else shown[0]] += max(0, room)
    return given
