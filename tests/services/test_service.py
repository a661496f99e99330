"""Services beside the watch: begun in order, stopped together, heard of all alike."""

from __future__ import annotations

import asyncio

from cockpit.services.service import BackgroundServices, Service


class Slow(Service):
    """One that ends only once all three are ending."""

    def __init__(self, name: str, heard: list[str], ending: asyncio.Barrier) -> None:
        self.name, self.heard, self.ending = name, heard, ending
        self.given = 0.0

    @property
    def notices(self) -> tuple[str, ...]:
        return (f"{self.name} has a trouble",)

    def start(self) -> None:
        self.heard.append(f"{self.name} begins")

    async def stop(self, within: float) -> None:
        self.heard.append(f"{self.name} ends")
        self.given = within
        await self.ending.wait()


class Due(Slow):
    async def finish(self) -> None:
        self.heard.append(f"{self.name} sends its last")


NAMES = ((Slow, "one"), (Due, "two"), (Slow, "three"))


async def test_they_begin_in_order_and_share_the_time_to_stop() -> None:
    heard: list[str] = []
    ending = asyncio.Barrier(3)
    all_three = [kind(name, heard, ending) for kind, name in NAMES]
    services = BackgroundServices(all_three)
    services.start()
    await services.finish()
    await asyncio.wait_for(services.stop(0.5), 30)
    assert [each.given for each in all_three] == [0.5] * 3
    assert heard == [
        "one begins", "two begins", "three begins", "two sends its last",
        "one ends", "two ends", "three ends",
    ]  # fmt: skip
    assert services.notices == tuple(f"{name} has a trouble" for _, name in NAMES)
