"""The garbage collector kept short: what stays for good is not walked through again and again.

A collection of the oldest generation holds the whole program up for as long as all that it
keeps takes to be walked: 0.4 s with a thousand runs. What is held of a run stays while it is
watched, so it is set aside once it has been read. That happens a bounded number of times.
"""

from __future__ import annotations

import gc
from typing import Final

STEP: Final = 50
"""Runs whose facts are set aside together."""


class Heap:
    """Sets aside what is held by now, whenever many more runs have been read."""

    def __init__(self) -> None:
        self._settled = 0

    def settle(self, read: int, total: int) -> bool:
        """Set everything aside if many of ``total`` runs were ``read`` since; return whether."""
        last = read == total > self._settled
        if read - self._settled < STEP and not last:
            return False
        self._settled = read
        gc.collect(1)
        gc.freeze()
        return True
