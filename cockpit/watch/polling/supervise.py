"""The one place where a fault in the cockpit's own code becomes something that is shown."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Problem
from cockpit.runtime.crash import fault_line, write_details

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
