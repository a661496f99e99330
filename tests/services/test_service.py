"""Services beside the watch: begun in order, stopped together, heard of all alike."""

from __future__ import annotations

import asyncio
import time

from cockpit.services.service import BackgroundServices, Service


class Slow(Service):
    def __init__(self, name: str, heard: list[str]) -> None:
        self.name, self.heard = name, heard

    @property
    def notices(self) -> tuple[str, ...]:
        return (f"{self.name} has a trouble",)

    def start(self) -> None:
        self.heard.append(f"{self.name} begins")

    async def stop(self, within: float) -> None:
        self.heard.append(f"{self.name} ends")
        await asyncio.wait({asyncio.ensure_future(asyncio.sleep(60))}, timeout=within)


class Due(Slow):
    async def finish(self) -> None:
        self.heard.append(f"{self.name} sends its last")


async def test_they_begin_in_order_and_share_the_time_to_stop() -> None:
    heard: list[str] = []
    services = BackgroundServices([Slow("one", heard), Due("two", heard), Slow("three", heard)])
    services.start()
    await services.finish()
    begun = time.monotonic()
    await services.stop(0.5)
    assert time.monotonic() - begun + 0.01 >= 0.5
    assert time.monotonic() - begun < 1.4
    assert heard == [
        "one begins", "two begins", "three begins", "two sends its last",
        "one ends", "two ends", "three ends",
    ]  # fmt: skip
    assert services.notices == tuple(f"{name} has a trouble" for name in ("one", "two", "three"))
