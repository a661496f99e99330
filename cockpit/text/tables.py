"""Rows of a table of training, written as the lines of labelled figures that they stand for.

``epoch  train_loss  valid_loss`` above ``0  0.51  0.40``, as fastai, notebooks and CSV have it:
the row is read as ``epoch: 0, train_loss: 0.51``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.late_regex import late_regex

_HEAD_KEY: Final = late_regex(rb"(?=.{0,400}(?:step|epoch|iter))[a-z_/()|,%\[\]]{8,400}", re.I)
"""What is left of a head in a line's key, which lacks digits and blanks."""
_DIGIT: Final = late_regex(rb"\d")
_CELLS: Final = late_regex(rb"\s*[|,]\s*|\t\s*| {2,}")
_BLANKS: Final = late_regex(rb"(?<=[\d.%])\s+")
"""Figures alone are parted by one blank, too."""
_FIGURES: Final = late_regex(rb"[\s\d|,.:+%#aefin-]{3,400}", re.I)
"""A row, as far as a look at it tells; ``nan`` and ``1e-05`` are told apart by its cells."""
_CELL: Final = late_regex(rb"[-+]?\d[\d.:e+ -]{0,40}%?|nan|-?inf|-|#na#", re.I)
_EVALUATED: Final = late_regex(
    rb"(?<![a-z])(?:val|valid|validation|eval\w*|test|dev)(?![a-z])", re.I
)
_COUNTS: Final = late_regex(rb"(?:global[ _])?(?:steps?|epochs?|iter(?:ation)?s?)", re.I)
LASTS: Final = 200
"""Lines without a row after which a table is over."""


class Tables:
    """The table that is open at the end of what was read so far."""

    def __init__(self) -> None:
        self._heads: Sequence[bytes] = ()
        self._left = 0

    def written_out(self, lines: Sequence[bytes], keys: Sequence[bytes]) -> Sequence[bytes]:
        """Return the lines, of which rows are written out; ``keys`` are theirs (``_keyed``)."""
        heads = {key for key in set(keys) if b"oss" in key and _HEAD_KEY.fullmatch(key)}
        begins = {keys.index(key) for key in heads}
        if not begins and not self._left:
            return lines
        out = list(lines)
        for at in range(0 if self._left else min(begins), len(out)):
            if keys[at] in heads and self._opened(out[at]):
                continue
            self._left -= self._left > 0
            if self._left and _FIGURES.fullmatch(out[at]):
                out[at] = self._row(out[at])
        return out

    def _opened(self, line: bytes) -> bool:
        """Take a head of which a column counts."""
        cells = _CELLS.split(line.strip(b"| \t\r"))
        if _DIGIT.search(line) or not any(map(_COUNTS.fullmatch, cells)):
            return False
        self._heads, self._left = cells, LASTS
        return True

    def _row(self, line: bytes) -> bytes:
        text = line.strip(b"| \t\r")
        cells = _CELLS.split(text)
        cells = cells if len(cells) == len(self._heads) else _CELLS.split(_BLANKS.sub(b"  ", text))
        if len(cells) != len(self._heads) or not all(map(_CELL.fullmatch, cells)):
            return line
        self._left = LASTS
        named = zip(self._heads, cells, strict=True)
        own = [head + b": " + cell for head, cell in named if not _EVALUATED.search(head)]
        return b", ".join(own)
