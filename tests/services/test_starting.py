"""Services that do not start at once are tried until they run, and nobody is left believing."""

from __future__ import annotations

import asyncio
import heapq
import threading

from cockpit.services.service import AT_ONCE, MAKE_WITHIN, Service, Starting

PATIENCE = 180.0


class Hand:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.at = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return 1_800_000_000.0 + self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        waiting = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.at + seconds, id(waiting), waiting))
        await waiting

    async def move(self, seconds: float) -> None:
        self.at += seconds
        while self._sleepers and self._sleepers[0][0] <= self.at:
            waiting = heapq.heappop(self._sleepers)[2]
            if not waiting.done():
                waiting.set_result(None)
        await asyncio.sleep(0)


class Quiet(Service):
    def __init__(self) -> None:
        self.heard: list[str] = []

    @property
    def notices(self) -> tuple[str, ...]:
        return ("all is well",)

    def start(self) -> None:
        self.heard.append("start")

    async def finish(self) -> None:
        self.heard.append("finish")

    async def stop(self, within: float) -> None:
        self.heard.append("stop")


async def soon(starting: Starting, words: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not any(words in each for each in starting.notices):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_fault_is_said_and_it_is_tried_again_until_they_run() -> None:
    clock, service, faults = Hand(), Quiet(), [OSError("the disk is away"), OSError("still")]

    def make() -> Service:
        if faults:
            raise faults.pop(0)
        return service

    starting = Starting(make, clock)
    starting.start()
    await soon(starting, "nobody is notified yet: starting failed (the services: ")
    while not service.heard:
        await clock.move(1.0)
        await asyncio.sleep(0.005)
    await soon(starting, "people are told now: starting took ")
    await clock.move(60.0)
    assert starting.notices == ("all is well",)
    await starting.finish()
    await starting.stop(1.0)
    assert service.heard == ["start", "finish", "stop"]


async def test_what_takes_long_is_said_and_is_not_given_up() -> None:
    """Five seconds of a busy machine once meant that nobody was ever told."""
    clock, service, ready = Hand(), Quiet(), threading.Event()

    def make() -> Service:
        ready.wait(PATIENCE)
        return service

    starting = Starting(make, clock)
    starting.start()
    await clock.move(AT_ONCE - 1)
    assert not list(starting.notices)
    await clock.move(MAKE_WITHIN / 2)
    (said,) = starting.notices
    assert said == "nobody is notified yet: starting takes long on this machine"
    ready.set()
    await soon(starting, "all is well")
    await starting.stop(1.0)
