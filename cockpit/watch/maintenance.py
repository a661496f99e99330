"""What goes on beside the polling: the sweep over local files, the store, the run file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from cockpit.config.file import Reloader
from cockpit.model.clock import Clock, next_beat
from cockpit.model.run import CockpitFile
from cockpit.runtime.heap import STEP, Heap, give_back
from cockpit.runtime.offload import offload
from cockpit.store.memory import RunMemory
from cockpit.store.pasts import Pasts
from cockpit.watch.fleet import Fleet, share
from cockpit.watch.judge import Judge
from cockpit.watch.listeners import Listeners
from cockpit.watch.polling.pollers import Pollers
from cockpit.watch.polling.sweeper import Sweeper
from cockpit.watch.store_writer import StoreWriter

READ_EVERY = 2.0
STORE_EVERY = 2.0
PRUNE_EVERY = 86400.0
GIVE_BACK_EVERY = 20.0
READ_DEADLINE = 5.0
OLD_STAYS = "the previous version of the run file stays in use"


class Maintenance:
    """Two small loops and the sweep; none of them can delay a facet.

    ``notice`` says why an edit of the run file is not in use.
    """

    def __init__(
        self,
        file: CockpitFile,
        fleet: Fleet,
        judge: Judge,
        store_writer: StoreWriter,
        pollers: Pollers,
        reloads: Listeners[CockpitFile],
        clock: Clock,
    ) -> None:
        self.notice: str | None = None
        self._fleet = fleet
        self._judge = judge
        self._store_writer = store_writer
        self._pollers = pollers
        self._reloads = reloads
        self._clock = clock
        self._reloader = Reloader(file)
        self._used = file
        self._sweeper = Sweeper(lambda: fleet.whole, pollers.rank, pollers.wake, clock)
        self._pruned_at = float("-inf")
        self._heap = Heap()
        self._gave_back_at = float("-inf")

    async def run(self) -> None:
        """Run them until cancelled."""
        self._sweeper.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._every(STORE_EVERY, self._keep_store))
                tasks.create_task(self._every(READ_EVERY, self._read_file))
        finally:
            self._sweeper.stop()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await work()
            await next_beat(self._clock, seconds)

    async def _keep_store(self) -> None:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        if monotonic - self._pruned_at >= PRUNE_EVERY:
            self._pruned_at = monotonic
            self._store_writer.later(lambda store: RunMemory(store).prune(now))
            self._store_writer.later(lambda store: Pasts(store).prune(now))
        await self._store_writer.flush()
        by_key = {state.key: state for state in self._fleet.states.values()}
        for key, news in (await self._store_writer.news(by_key, now)).items():
            share(by_key[key], news)
            self._judge.touch(by_key[key].spec.name)
        settled = False
        if not self._heap.settled(len(by_key)):
            read = sum(state.not_read_yet is None for state in by_key.values())
            settled = self._heap.settle(read, len(by_key))
        if len(by_key) >= STEP and (settled or monotonic - self._gave_back_at >= GIVE_BACK_EVERY):
            self._gave_back_at = monotonic
            with contextlib.suppress(TimeoutError):
                await offload(give_back, deadline=READ_DEADLINE)

    async def _read_file(self) -> None:
        """Take an edited run file over; a bad edit keeps the old one and says so."""
        self._pollers.swept(not self._sweeper.late())
        try:
            await offload(self._reloader.check, deadline=READ_DEADLINE)
        except TimeoutError as error:
            self.notice = f"the run file cannot be read: {error}; {OLD_STAYS}"
            return
        problems = self._reloader.problems
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self.notice = f"{problems[0]}{more}; {OLD_STAYS}" if problems else None
        if not problems and self._reloader.file != self._used:
            self._used = self._reloader.file
            await self._adopt(self._used)

    async def _adopt(self, file: CockpitFile) -> None:
        self._fleet.adopt(file)
        await self._fleet.recall(self._store_writer, self._clock.now())
        self._judge.announce_remembered()
        self._pollers.assign(self._fleet.file.runs)
        for name in self._fleet.states:
            self._judge.touch(name)
        self._reloads.call(file)
