"""What goes on beside the polling: the sweep over local files, the store, the run file."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable

from cockpit.model.clock import Clock
from cockpit.model.run import CockpitFile
from cockpit.sources.offload import offload
from cockpit.store.memory import RunMemory
from cockpit.watch.bench import Bench
from cockpit.watch.fleet import Fleet, share
from cockpit.watch.historian import Historian
from cockpit.watch.pollers import Pollers
from cockpit.watch.reload import RunFile
from cockpit.watch.sweep import Signature, changed, signatures

SWEEP_EVERY = 1.0
SWEEP_DEADLINE = 3.0
STORE_EVERY = 2.0
PRUNE_EVERY = 86400.0


class Upkeep:
    """Three small loops; none of them can delay a facet."""

    def __init__(
        self,
        fleet: Fleet,
        bench: Bench,
        historian: Historian,
        pollers: Pollers,
        clock: Clock,
        file: CockpitFile,
        adopt: Callable[[CockpitFile], Awaitable[None]],
    ) -> None:
        self._fleet = fleet
        self._bench = bench
        self._historian = historian
        self._pollers = pollers
        self._clock = clock
        self._adopt = adopt
        self._file = RunFile(file)
        self._seen: dict[tuple[str, str], Signature] = {}
        self._pruned_at = float("-inf")

    @property
    def notice(self) -> str | None:
        """Why an edit of the run file is not in use."""
        return self._file.notice

    async def run(self) -> None:
        """Keep house until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._every(SWEEP_EVERY, self._sweep))
            tasks.create_task(self._every(STORE_EVERY, self._keep_store))
            tasks.create_task(self._every(SWEEP_EVERY, self._read_file))

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await work()
            await self._clock.sleep(seconds)

    async def _sweep(self) -> None:
        watched = {name: state.paths for name, state in self._fleet.states.items()}
        look = functools.partial(signatures, watched)
        try:
            seen = await offload(look, deadline=SWEEP_DEADLINE)
        except TimeoutError:
            self._pollers.swept(False)
            return
        self._pollers.swept(True)
        for name, facet in changed(self._seen, seen):
            self._pollers.wake(facet, name)
        self._seen = seen

    async def _keep_store(self) -> None:
        now = self._clock.now()
        self._plan_pruning(now)
        await self._historian.flush()
        by_key = {state.key: state for state in self._fleet.states.values()}
        for key, news in (await self._historian.news(by_key, now)).items():
            share(by_key[key], news)
            self._bench.touch(by_key[key].spec.name)

    def _plan_pruning(self, now: float) -> None:
        monotonic = self._clock.monotonic()
        if monotonic - self._pruned_at >= PRUNE_EVERY:
            self._pruned_at = monotonic
            self._historian.later(lambda store: RunMemory(store).prune(now))

    async def _read_file(self) -> None:
        newer = await self._file.newer()
        if newer is not None:
            await self._adopt(newer)
