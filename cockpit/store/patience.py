"""How long in all one process waits for locks of others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

REFILL: Final = 0.1
"""The share of the time that goes by which may be spent waiting, after a first wait in vain."""
LOST: Final = 6.0
"""Seconds of looking on without a sign of life after which a holder may be taken over."""


class HeldError(Exception):
    """Somebody else has the lock; one line says who, and since when nothing is heard."""


class Patience:
    """One wait is as long as it is allowed to be; after one in vain those that follow are short.

    Else a store that somebody keeps locked costs its whole wait for each of many small questions.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failed_at: float | None = None
        self._left = 0.0

    @contextmanager
    def spent(self, most: float) -> Iterator[float]:
        """Give the seconds for which this wait may last, ``most`` at most.

        What is raised inside is a wait in vain; one that ends well restores all patience.
        """
        began = self._monotonic()
        wait = most
        if self._failed_at is not None:
            wait = min(most, self._left + REFILL * (began - self._failed_at))
        try:
            yield wait
        except Exception:
            now = self._monotonic()
            self._left = max(0.0, wait - (now - began))
            self._failed_at = now
            raise
        self._failed_at = None
