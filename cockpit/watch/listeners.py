"""Who is told of one kind of event of a watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Listeners(Generic[T]):
    """Callbacks that are told of each event, in the order in which they joined."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[T], object]] = []

    def join(self, callback: Callable[[T], object]) -> Callable[[], None]:
        """Tell ``callback`` of every event from now on; return how to stop that."""
        self._callbacks.append(callback)

        def leave() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return leave

    def call(self, event: T) -> None:
        """Tell everyone of one event."""
        for callback in tuple(self._callbacks):
            callback(event)
