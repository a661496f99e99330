"""For how long words about time stay true: what words an age notes when it will read otherwise.

Whoever paints asks once for all that it painted, and need not paint again before. Nor for another
look that has found all as it was, unless what is painted goes by when that was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Lasting:
    """``seconds`` after which the first of some words changes; infinite if none ever does.

    ``of_look``: another look makes them others, though it has found nothing new.
    """

    def __init__(self) -> None:
        self.seconds = math.inf
        self.of_look = False


_ASKED: ContextVar[Lasting | None] = ContextVar("lasting", default=None)


@contextmanager
def lasting() -> Iterator[Lasting]:
    """Gather for how long what is worded inside stays as it is."""
    found = Lasting()
    former = _ASKED.set(found)
    try:
        yield found
    finally:
        _ASKED.reset(former)


def lasts(seconds: float) -> None:
    """Note that something just worded reads otherwise after so many seconds."""
    asked = _ASKED.get()
    if asked is not None and seconds < asked.seconds:
        asked.seconds = max(0.0, seconds)


def by_look() -> None:
    """Note that something just worded, or its style, goes by when it was looked."""
    asked = _ASKED.get()
    if asked is not None:
        asked.of_look = True
