"""What a watch has found out when it is told to leave is said before it goes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable
from typing import Any, cast

import pytest

from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.store.store import Store
from cockpit.verbs.common import INTERRUPTED
from cockpit.verbs.watch import _until_done
from cockpit.watch.engine import Engine
from cockpit.watch.fleet import this_process
from cockpit.watch.headless import HeadlessWatch, StopPoint
from tests.verbs.tiny_run import TinyRun


class Watching:
    """A watch that finds something out while it gives its runs up."""

    lost: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.found: list[str] = []

    async def release(self) -> None:
        self.found.append("this watch hung")

    def messages(self, notices: Iterable[str]) -> list[str]:
        found, self.found = [*self.found, *notices], []
        return found


class Services:
    notices = ("a notice",)

    def start(self) -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)

    async def stop(self, within: float) -> None:
        return None


class Output:
    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    async def end(self, within: float) -> None:
        self.said.append("ended")


async def test_what_was_found_out_on_leaving_is_said() -> None:
    output, never = Output(), asyncio.get_running_loop().create_future()

    async def printing() -> None:
        await never

    told: Any = (Watching(), Services(), printing(), output)
    assert await _until_done(*told) == INTERRUPTED
    assert output.said == ["this watch hung", "a notice", "ended"]


async def test_a_beat_under_way_is_waited_for_on_leaving(
    tiny: TinyRun, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SystemClock()
    engine = Engine(load(tiny.config), store=Store(tmp_path / "store"), clock=clock)
    watching = HeadlessWatch(engine, this_process("ada"), clock, stop=StopPoint())
    begun, on = asyncio.Event(), asyncio.Event()

    async def beat() -> None:
        begun.set()
        await on.wait()
        cast(Any, watching)._said.append("stood in for")

    monkeypatch.setattr(watching, "_beat", beat)
    monkeypatch.setattr(HeadlessWatch, "_beat_every", 0.0)
    beating = asyncio.ensure_future(watching._beating())
    await begun.wait()
    beating.cancel()
    leaving = asyncio.ensure_future(watching.release())
    asyncio.get_running_loop().call_soon(on.set)
    await leaving
    assert "stood in for" in watching.messages(())


@pytest.mark.parametrize("steps", range(6))
async def test_a_signal_that_comes_just_as_a_report_does_ends_the_watch(
    steps: int, tiny: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``steps`` of the event loop lie between the two: at none of them the signal is lost."""
    engine = Engine(load(tiny.config), store=None, clock=SystemClock())
    hear: list[Any] = []

    def on_round(callback: object) -> Any:
        hear.append(callback)
        return lambda: None

    monkeypatch.setattr(engine, "on_round", on_round)
    monkeypatch.setattr(engine, "run", asyncio.Event().wait)
    watching = HeadlessWatch(engine, this_process("ada"), SystemClock(), stop=StopPoint())

    async def listen() -> None:
        async for _ in watching.rounds():
            pass

    listening = asyncio.ensure_future(listen())
    while not hear:  # noqa: ASYNC110 - steps of this loop are counted
        await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
    hear[0](engine.report().runs[0])
    for _ in range(steps):
        await asyncio.sleep(0)
    listening.cancel()
    done, _ = await asyncio.wait({listening}, timeout=10)
    listening.cancel()
    assert done
