"""A thin, laggy line: TCP passed on at a rate and with a delay, and what crossed it counted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Event, Thread
from typing import Final

PACKET: Final = 1448
"""Bytes that an Ethernet frame carries of a TCP stream."""
SLACK: Final = 0.002
"""Seconds of the line's time that a late wake-up may make good."""


class Relay(Thread):
    """Listens on loopback (``port``) and passes on to another port there.

    ``rate`` is in bytes a second, each way, and may be changed meanwhile; ``delay`` in seconds
    each way. ``down`` counts the bytes towards whoever connected, ``up`` those from there.
    """

    def __init__(self, to: int, rate: float, delay: float) -> None:
        super().__init__(daemon=True, name="relay")
        self.rate, self.delay = rate, delay
        self.down = self.up = self.port = 0
        self._to = to
        self._listening = Event()
        self._loop = asyncio.new_event_loop()

    def start(self) -> None:
        """Listen, and return once it does."""
        super().start()
        self._listening.wait()

    def run(self) -> None:
        """Pass on until ``stop``."""
        server = self._loop.run_until_complete(
            asyncio.start_server(self._pass_on, "127.0.0.1", 0, limit=PACKET)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        server.close()

    def stop(self) -> None:
        """End; what is under way is lost."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join()

    async def _pass_on(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        far, to_far = await asyncio.open_connection("127.0.0.1", self._to, limit=PACKET)
        with suppress(asyncio.CancelledError):  # the line is cut
            await asyncio.gather(
                self._way(near, to_far, up=True), self._way(far, to_near, up=False)
            )

    async def _way(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, *, up: bool
    ) -> None:
        """Take a packet once the line has room for it; it arrives after the delay."""
        loop, free = self._loop, 0.0
        while packet := await source.read(PACKET):
            if up:
                self.up += len(packet)
            else:
                self.down += len(packet)
            free = max(free, loop.time() - SLACK) + len(packet) / self.rate
            await asyncio.sleep(free - loop.time())
            loop.call_at(free + self.delay, to.write, packet)
        loop.call_at(free + self.delay, to.close)
