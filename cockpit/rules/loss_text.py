"""Steps and losses in log lines, only as far as triage needs them (a coarse reading)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import median

_STEP = re.compile(
    r"\b(?:global[_ ]?step|iteration|iter|step|steps)\b['\"]?\s*[:=#/]?\s*\[?\s*(\d[\d,]*)(?!\.?\d)"
    r"|\b(\d[\d,]*)(?:it)?\s*/\s*\d[\d,.]*[kM]?(?:it)?\s*\[.*(?:it/s|s/it)",
    re.I,
)
_LOSS = re.compile(
    r"\bloss\b['\"]?\s*[:=]?\s*([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf(?:inity)?))(?![\w%])", re.I
)
_EVAL = re.compile(r"\b(val|valid|validation|eval|evaluation|test)\w*[ _/-]*loss\b", re.I)

SIDE = 3
"""Lines that must stand on either side of a jump."""

JUMP = 1.5
"""How much higher the loss must be after it (SPEC C-11)."""

KEPT = 500


def newest_step(lines: Sequence[str]) -> int | None:
    """Return the step that the last training line names."""
    for line in reversed(lines):
        found = _STEP.search(line)
        if found and not _EVAL.search(line):
            return int((found[1] or found[2]).replace(",", "")[:18])
    return None


def losses_leave_trend(lines: Sequence[str]) -> list[int]:
    """Return the indexes of the lines whose loss stays above 1.5 times the earlier median.

    Or of those whose loss is not a number. Empty when the loss behaves.
    """
    seen = [(index, loss) for index, line in enumerate(lines) if (loss := _loss(line)) is not None]
    broken = [index for index, loss in seen if not math.isfinite(loss)]
    if broken:
        return broken
    seen = seen[-KEPT:]
    values = [loss for _, loss in seen]
    for cut in range(SIDE, len(values) - SIDE + 1):
        before = median(values[:cut])
        if before > 0 and min(values[cut:]) > JUMP * before:
            return [index for index, _ in seen[cut:]]
    return []


def _loss(line: str) -> float | None:
    found = _LOSS.search(line)
    if found is None or _EVAL.search(line):
        return None
    try:
        return float(found[1])
    except ValueError:
        return None
