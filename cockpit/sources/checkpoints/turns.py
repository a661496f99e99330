"""Which of very many folders are looked at now: the newest, then those not seen for longest.

A root with tens of thousands of step folders cannot be walked within one look. Each look goes on
as long as its time lasts, and what it has not come to is known from before, or not judged yet.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

NEWEST: Final = 128
"""Folders of the highest numbers that every look begins with, whatever time that takes."""
SECONDS: Final = 1.0
"""Seconds that a look at one root takes beyond them."""
_NUMBER: Final = re.compile(r"\d{1,18}")


@dataclass
class Turns:
    """Remembers when each folder of roots with very many was looked at last.

    Without ``seconds`` every folder has its turn at every look.
    """

    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic
    _looks: int = 0
    _last: dict[str, dict[str, int]] = field(default_factory=dict)

    def order(self, root: str, entries: Sequence[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """Yield the folders of ``root`` whose turn it is, until the time is over."""
        if len(entries) <= NEWEST:
            self._last.pop(root, None)
            yield from entries
            return
        self._looks += 1
        former = self._last.get(root, {})
        last = self._last[root] = {
            entry.path: former[entry.path] for entry in entries if entry.path in former
        }
        ranked = sorted(entries, key=_rank)
        rest = sorted(ranked[NEWEST:], key=lambda entry: last.get(entry.path, 0))
        until = None if self.seconds is None else self.clock() + self.seconds
        for at, entry in enumerate((*ranked[:NEWEST], *rest)):
            if until is not None and at >= NEWEST and self.clock() >= until:
                return
            last[entry.path] = self._looks
            yield entry

    def unseen(self, root: str, entries: Sequence[os.DirEntry[str]]) -> int:
        """Return how many of the folders have never had their turn."""
        seen = self._last.get(root)
        return 0 if seen is None else sum(entry.path not in seen for entry in entries)


def _rank(entry: os.DirEntry[str]) -> tuple[bool, int]:
    """Sort names without a number first, then the highest number (a step, in every layout)."""
    found = _NUMBER.search(entry.name)
    return (found is not None, 0 if found is None else -int(found[0]))
