"""The same blocking look for many runs in one hop to a thread, and apart only where one is slow.

A hop costs more than the few system calls that most looks make, and each outcome that comes alone
wakes the event loop: for a thousand runs that was a fifth of what watching them took.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from cockpit.runtime.offload import each, is_stuck, offload

T = TypeVar("T")

BRIEF: Final = 0.5
"""Seconds in which one hop may look; what it has not come to then is looked at apart."""


class Call(NamedTuple, Generic[T]):
    """One blocking look; while one with an equal ``key`` hangs, it is not made again."""

    work: Callable[[], T]
    key: Hashable


class Outcome(NamedTuple, Generic[T]):
    """What a look returned, or what it raised."""

    found: T | None
    error: Exception | None = None

    @property
    def value(self) -> T:
        """What the look returned; raises what it raised, ``TimeoutError`` if it was late."""
        if self.error is not None:
            raise self.error
        return self.found  # type: ignore[return-value]  # ``T`` may be optional itself


async def offload_each(
    calls: Sequence[Call[T]], *, deadline: float, brief: float = BRIEF
) -> list[Outcome[T]]:
    """Return what each call gave, in order.

    One that hangs costs the others ``brief`` seconds, and itself ``deadline`` (s) beyond them.
    """
    found = await _in_one_hop(calls, brief) if len(calls) > 1 else {}
    rest = [at for at in range(len(calls)) if at not in found]

    async def apart(at: int) -> Outcome[T]:
        call = calls[at]
        try:
            return Outcome(await offload(call.work, deadline=deadline, key=call.key))
        except Exception as error:  # noqa: BLE001 - raised again by ``Outcome.value``
            return Outcome(None, error)

    found |= dict(zip(rest, await each(rest, apart), strict=True))
    return [found[at] for at in range(len(calls))]


async def _in_one_hop(calls: Sequence[Call[T]], brief: float) -> dict[int, Outcome[T]]:
    """Return what the calls gave that had their turn in time, by their place."""
    hop = _Hop([(at, call) for at, call in enumerate(calls) if not is_stuck(call.key)])
    try:
        await offload(hop.run, deadline=brief, key=hop)
    except TimeoutError:
        pass
    finally:
        found = hop.end()
    return found


class _Hop(Generic[T]):
    """Calls made one after the other in a thread, until somebody says that it takes too long."""

    def __init__(self, calls: Sequence[tuple[int, Call[T]]]) -> None:
        self._calls = calls
        self._found: dict[int, Outcome[T]] = {}
        self._over = False
        self._lock = threading.Lock()

    def run(self) -> None:
        """Make the calls; blocking."""
        for at, call in self._calls:
            try:
                outcome = Outcome(call.work())
            except Exception as error:  # noqa: BLE001 - raised again by ``Outcome.value``
                outcome = Outcome(None, error)
            with self._lock:
                if self._over:
                    return
                self._found[at] = outcome

    def end(self) -> dict[int, Outcome[T]]:
        """Return what was found by now; what comes later is nobody's."""
        with self._lock:
            self._over = True
            return self._found
