"""Tunes gc: freezes long-lived objects, so that full collections stay short.

A collection of the oldest generation holds the whole program up for as long as all that it
keeps takes to be walked: 0.4 s with a thousand runs. What is held of a run stays while it is
watched, so it is set aside once it has been read. That happens a bounded number of times.
In a window such a collection waits until no keys come.

Measured without it (``bench many_runs``, 1,000 runs): the event loop is late by over 50 ms
137 times instead of 10, and reading takes 21 s of processor time instead of 18.
"""

from __future__ import annotations

import gc
from typing import Final

STEP: Final = 50
"""Runs whose facts are set aside together."""
MANY: Final = 5_000
"""Objects more than before after which the young ones are looked through where as many runs are
read: an answer about some hundred of them makes 700, Python's own measure, several times over, and
nearly all of them replace others that go at once.
"""
YOUNG: Final = (5_000, 4, 1_000_000)
"""A window's thresholds (``gc.set_threshold``): a report that replaces another one is no reason to
collect, and the oldest generation is never collected by itself."""
DUE: Final = 10
"""Collections of the middle generation (25,000 objects more each) after which the oldest's is due.
"""
OVERDUE: Final = 100
"""The same while keys come without a pause."""
QUIET: Final = 1.0
"""Seconds without a key after which nobody waits for an answer."""


class Heap:
    """Sets aside what is held by now, whenever many more runs have been read."""

    def __init__(self) -> None:
        self._settled = 0

    def settled(self, total: int) -> bool:
        """Tell whether all of ``total`` runs have been set aside."""
        return self._settled >= total

    def settle(self, read: int, total: int) -> bool:
        """Set everything aside if many of ``total`` runs were ``read`` since; return whether."""
        last = read == total > self._settled
        if read - self._settled < STEP and not last:
            return False
        self._settled = read
        gc.collect(1)
        gc.freeze()
        young, middle, oldest = gc.get_threshold()
        if 0 < young < MANY and read >= STEP:
            gc.set_threshold(MANY, min(middle, YOUNG[1]), oldest)
        return True


def give_back() -> None:
    """Have the C library give back what it holds and nobody uses; blocks for some milliseconds.

    Each thread that has read a host's long answer leaves it with some of that: 27 MB with a
    thousand runs on four hosts. Another C library holds nothing that it could be asked for.
    """
    import ctypes  # few need it, and it takes its time

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class QuietHeap:
    """Has everything collected, when that is due, while nobody presses keys."""

    def __init__(self) -> None:
        self._former: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """Keep the collector from the oldest generation; ``look`` is to be called from now on."""
        self._former = gc.get_threshold()
        gc.set_threshold(*YOUNG)

    def end(self) -> None:
        """Leave everything to the collector again."""
        if self._former is not None:
            gc.set_threshold(*self._former)
            self._former = None

    def look(self, idle: float) -> bool:
        """Collect if it is due, ``idle`` seconds after the last key; return whether."""
        passed = gc.get_count()[2]
        if passed < DUE or (idle < QUIET and passed < OVERDUE):
            return False
        gc.collect()
        return True
