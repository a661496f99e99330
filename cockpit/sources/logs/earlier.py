"""Where a loss stopped being a number, in a log of which only the end was read.

The lines in between are not parsed: in a run that went on for days they are thousands. Blocking.
"""

from __future__ import annotations

import re
import time
from typing import Final, NamedTuple

from cockpit.sources.logs.lines import state_start
from cockpit.sources.logs.ranged import Ranged

STEP: Final = 1 << 20
"""Bytes that are read at once, from the end upwards."""
MOST: Final = 16 << 20
"""Bytes before the known lines that are looked through at most."""
BUDGET_S: Final = 2.0
"""Seconds that looking may take: half of what a look at a log is given."""
CLEAN: Final = 400
"""Finite lines in a row above which no line of the same trouble is looked for."""
STATES: Final = 4000
"""States given back at most before the first broken line."""

_LINE = re.compile(rb"[^\r\n]+")
_LOSS = re.compile(rb"(?i)loss|grad_?norm")
_BROKEN = re.compile(
    rb"(?i)(?:loss|entropy|grad_?norm)[^\d\r\n]{0,12}?(?:nan|[-+]?inf(?:inity)?)\b"
)


class Earlier(NamedTuple):
    """States around the first broken line, oldest first; ``begin`` is where the reading began.

    ``found`` is False where no broken line stands before the known ones. ``begin`` is 0 when
    everything before was looked through without so many finite lines in a row, which end it.
    """

    states: tuple[bytes, ...]
    begin: int
    found: bool


def before(log: Ranged, end: int) -> Earlier:
    """Look upwards from offset ``end`` for the first broken line of the same trouble.

    Raises ``OSError``.
    """
    kept: list[bytes] = []
    clean, found, at = 0, False, end
    until = time.monotonic() + BUDGET_S
    with log.open() as opened:
        first = opened.stat.begin
        while at > first and end - at < MOST and time.monotonic() < until:
            start = state_start(opened, max(first, at - STEP), opened.stat.size)
            start = start if start < at else first
            lines = list(_LINE.finditer(opened.read(start, at)))
            for each in reversed(lines):
                line = each[0]
                if _BROKEN.search(line):
                    kept, clean, found = [], 0, True
                elif _LOSS.search(line):
                    clean += 1
                kept.append(line)
                if clean >= CLEAN or len(kept) > STATES:
                    return Earlier(tuple(reversed(kept)), max(start + each.start(), 1), found)
            at = start
    return Earlier(tuple(reversed(kept)), at, found)
