"""What the watch loop is made of: supervised tasks, listeners, and whose turn it is."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Problem
from cockpit.runtime.account import fault_line, write_details

if TYPE_CHECKING:
    from cockpit.watch.runstate import RunState


T = TypeVar("T")


class Supervisor:
    """Runs one piece of work with a deadline, and turns its failure into a problem that is shown.

    ``faults`` holds one line for each distinct place that failed; its details are written once.
    """

    def __init__(self, clock: Clock, crashes: Path) -> None:
        self._clock = clock
        self._crashes = crashes
        self._lines: dict[str, str] = {}

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults so far, one line each."""
        return tuple(self._lines.values())

    async def run(self, what: str, seconds: float, work: Coroutine[Any, Any, T]) -> T | Problem:
        """Return what ``work`` gives, or the problem that kept it from giving anything."""
        try:
            return await within(self._clock, seconds, work)
        except TimeoutError:
            message = f"{what}: no answer within {seconds:.2g} s"
            return Problem(kind=ErrorKind.TIMEOUT, message=message)
        except Exception as error:  # noqa: BLE001 - any fault of a source is shown, none ends the watch
            return Problem(kind=ErrorKind.BAD_ANSWER, message=f"{what}: {self._record(error)}")

    def _record(self, error: Exception) -> str:
        place = "".join(traceback.format_tb(error.__traceback__)[-1:]) + type(error).__name__
        if place not in self._lines:
            details = write_details(error, self._crashes, self._clock.now())
            self._lines[place] = fault_line(error, details)
        return self._lines[place]


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` returns, or raise ``TimeoutError`` after ``seconds``.

    Work that is late is cancelled and not waited for: it may be stuck in the kernel.
    """
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"no answer within {seconds:.2g} s")
    finally:
        timer.cancel()
        if not task.done():
            task.add_done_callback(_swallow)
            task.cancel()


def _swallow(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


Event = TypeVar("Event")


class Listeners(Generic[Event]):
    """Callbacks that get each event, in the order in which they joined."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Event], object]] = []

    def join(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """Tell ``callback`` of every event from now on; return how to stop that."""
        self._callbacks.append(callback)

        def leave() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return leave

    def call(self, event: Event) -> None:
        """Tell everyone of one event."""
        for callback in tuple(self._callbacks):
            callback(event)


HEAD_START: Final = 1000
"""Places by which a run of one rank comes before those of the next: none waits for good."""


class WaitingRuns:
    """Names of runs, each once: by ``rank``, else first come first served."""

    def __init__(self, rank: Callable[[str], int] | None = None) -> None:
        self._names: dict[str, int] = {}
        self._rank = rank
        self._came = 0
        self._bell = asyncio.Event()

    def add(self, name: str) -> None:
        """Let a run wait; one that waits already keeps its place."""
        self._came += 1
        self._names.setdefault(name, self._came)
        self._bell.set()

    async def until_any(self) -> None:
        """Return as soon as a run waits."""
        while not self._names:
            await self._bell.wait()
            self._bell.clear()

    def take(self, most: int) -> list[str]:
        """Return the runs whose turn it is, ``most`` of them; they wait no more."""
        names = nsmallest(most, self._names, key=self._place)
        for name in names:
            del self._names[name]
        return names

    def _place(self, name: str) -> int:
        rank = 0 if self._rank is None else self._rank(name)
        return self._names[name] + rank * HEAD_START


VISIBLE: Final = 0
UNWELL: Final = 1
OTHER: Final = 2
LARGE: Final = 200
"""Runs beyond which a fleet's files are looked at by turns, and what nobody sees less often."""


class Preference:
    """Ranks runs; a rank is a head start, so that the last ones wait longer but never for good."""

    def __init__(self, states: Mapping[str, RunState]) -> None:
        self._states = states
        self._visible: frozenset[str] = frozenset()

    def prefer(self, visible: Iterable[str]) -> None:
        """Say which runs stand on a screen now."""
        self._visible = frozenset(visible)

    def rank(self, name: str) -> int:
        """Return the run's rank: the lower, the sooner it is its turn."""
        if name in self._visible:
            return VISIBLE
        state = self._states.get(name)
        return UNWELL if state is not None and state.unwell else OTHER


class Turns:
    """Whose turn it is: those on a screen always, of the unwell and of the others the next ``few``.

    So what a second costs does not grow with the fleet, nor when all of it is unwell at once.
    """

    def __init__(self, rank: Callable[[str], int], few: int) -> None:
        self._rank = rank
        self._few = few
        self._waiting: dict[int, dict[str, None]] = {UNWELL: {}, OTHER: {}}

    def take(self, names: Iterable[str]) -> list[str]:
        """Return the runs whose turn it is; none waits longer than the others of its rank."""
        by_rank: dict[int, dict[str, None]] = {VISIBLE: {}, UNWELL: {}, OTHER: {}}
        for name in names:
            by_rank[self._rank(name)][name] = None
        return [*by_rank[VISIBLE], *self._next(UNWELL, by_rank), *self._next(OTHER, by_rank)]

    def _next(self, rank: int, by_rank: Mapping[int, dict[str, None]]) -> list[str]:
        there, known = by_rank[rank], self._waiting[rank]
        if there.keys() != known.keys():
            waiting = [name for name in known if name in there]
            known = dict.fromkeys((*waiting, *there))
            self._waiting[rank] = known
        now = list(islice(known, self._few))
        for name in now:  # behind all others
            del known[name]
            known[name] = None
        return now
