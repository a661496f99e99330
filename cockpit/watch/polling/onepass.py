"""One look at everything, within a deadline: what ``check`` does (INTERFACE "Cadences")."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from cockpit.model.clock import Clock
from cockpit.model.facet import Facet, Problem
from cockpit.model.run import RunSpec
from cockpit.watch.fleet import Fleet
from cockpit.watch.ingest import feed_chunk
from cockpit.watch.polling.asking import Answers, Asker
from cockpit.watch.polling.cadences import DEADLINES
from cockpit.watch.polling.sources_bundle import Sources
from cockpit.watch.polling.supervise import Supervisor
from cockpit.watch.polling.systems import system_of
from cockpit.watch.runstate import RunState

ROWS_BUDGET = 8.0
SHARE_OF_FACET = 0.3
"""Three facets wait for one another (tracker, job, checkpoints): each may take this share."""
FOR_LOOKING = 0.9
"""The rest of the deadline is for judging and printing."""
READERS = 4
TOGETHER = 0.6
"""Share of a facet's time in which a bulk may answer; in the rest its runs are asked apart."""


class OnePass:
    """Asks for every facet of some runs once; a slow one is unknown, never waited for."""

    def __init__(
        self, fleet: Fleet, sources: Sources, supervisor: Supervisor, clock: Clock, deadline: float
    ) -> None:
        self._fleet = fleet
        self._sources = sources
        self._asker = Asker(sources, fleet.states)
        self._supervisor = supervisor
        self._clock = clock
        self._share = deadline * SHARE_OF_FACET
        self._end = clock.monotonic() + deadline * FOR_LOOKING
        self._readers = asyncio.Semaphore(READERS)

    async def run(self, runs: Sequence[RunSpec], *, feed: bool) -> None:
        """Fill the runs' states; ends within the deadline given, with or without answers."""
        chain = self._chain(runs, feed=feed)
        alone = (self._facet(facet, runs) for facet in ("log", "host", "code", "records"))
        await asyncio.gather(chain, *alone)

    async def _chain(self, runs: Sequence[RunSpec], *, feed: bool) -> None:
        await asyncio.gather(self._facet("tracker", runs), self._facet("monitor", runs))
        rows = (self._rows(runs),) if feed else ()
        await asyncio.gather(self._job_then_checkpoints(runs), *rows)

    async def _job_then_checkpoints(self, runs: Sequence[RunSpec]) -> None:
        await self._facet("job", runs)
        await self._facet("checkpoints", runs)

    async def _facet(self, facet: str, runs: Sequence[RunSpec]) -> None:
        groups: dict[str, list[RunSpec]] = {}
        for run in runs:
            groups.setdefault(system_of(facet, run), []).append(run)
        await asyncio.gather(*(self._group(facet, group) for group in groups.values()))

    async def _group(self, facet: str, runs: list[RunSpec]) -> None:
        left = self._end - self._clock.monotonic()
        seconds = max(0.0, min(DEADLINES[facet], self._share, left))
        if len(runs) == 1:
            await self._apart(facet, runs[0], seconds)
            return
        together = seconds * TOGETHER
        answer = await self._supervisor.run(facet, together, self._asker.ask(facet, runs))
        if not isinstance(answer, Problem):
            self._take(facet, answer)
        else:
            left = seconds - together
            await asyncio.gather(*(self._apart(facet, run, left) for run in runs))

    async def _apart(self, facet: str, run: RunSpec, seconds: float) -> None:
        """Ask about one run: in a bulk, the one that hangs would cost the others their answer."""
        answer = await self._supervisor.run(facet, seconds, self._asker.ask(facet, [run]))
        if isinstance(answer, Problem):
            answer = {run.name: Facet(source=facet, error=answer, since=self._clock.now())}
        self._take(facet, answer)

    def _take(self, facet: str, answer: Answers) -> None:
        for name, found in answer.items():
            state = self._fleet.states.get(name)
            if state is not None:
                state.take(facet, found)

    async def _rows(self, runs: Sequence[RunSpec]) -> None:
        end = min(self._end, self._clock.monotonic() + ROWS_BUDGET)
        states = [self._fleet.states[run.name] for run in runs]
        await asyncio.gather(*(self._read(state, end) for state in states))
        if self._clock.monotonic() < self._end:
            await self._facet("tracker", [state.spec for state in states if state.rows.any])

    async def _read(self, state: RunState, end: float) -> None:
        if state.facets.tracker.value is None:
            return
        async with self._readers:
            caught_up = False
            while not caught_up and (left := end - self._clock.monotonic()) > 0:
                chunk = await self._supervisor.run(
                    f"rows of {state.spec.name}",
                    left,
                    feed_chunk(self._sources.tracker, state.spec, state.rows),
                )
                caught_up = isinstance(chunk, Problem) or chunk.caught_up
