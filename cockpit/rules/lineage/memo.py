"""Answers about configs, kept while the configs are the same objects: each judging asks anew.

A run is judged every few seconds and its config changes once a launch. What is kept is bounded,
and only ever what a pure function has answered.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

R = TypeVar("R")
MOST: Final = 2048
"""Answers kept: two for each of a thousand runs."""


class Memo(Generic[R]):
    """A pure function of objects that are never changed, known again by what they are."""

    def __init__(self, make: Callable[..., R]) -> None:
        self._make = make
        self._known: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], R]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *parts: object) -> R:
        """Return the answer for ``parts``; they are held on to, so that no other takes their id."""
        key = tuple(map(id, parts))
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key][1]
        answer = self._make(*parts)
        with self._lock:
            self._known[key] = parts, answer
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return answer
