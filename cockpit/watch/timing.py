"""Waiting with the injected clock: deadlines and interruptible pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from cockpit.model.clock import Clock

T = TypeVar("T")


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
        raise TimeoutError(f"no answer within {seconds:g} s")
    finally:
        timer.cancel()
        if not task.done():
            task.add_done_callback(_swallow)
            task.cancel()


async def pause(clock: Clock, seconds: float, bell: asyncio.Event) -> None:
    """Wait for ``seconds`` or until ``bell`` rings, whichever is first; the bell is silenced."""
    waiters = {
        asyncio.ensure_future(bell.wait()),
        asyncio.ensure_future(clock.sleep(max(0.0, seconds))),
    }
    try:
        await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()
    bell.clear()


def _swallow(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
