"""One look at everything, within a deadline: what ``check`` does (INTERFACE "Cadences")."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from cockpit.model.clock import Clock
from cockpit.model.facet import Facet, Problem
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.runtime.git import asked_anew
from cockpit.watch.asking import Answers, Asker, Key, Sources
from cockpit.watch.fleet import Fleet
from cockpit.watch.ingest import feed_chunk
from cockpit.watch.poller import DEADLINES
from cockpit.watch.runstate import RunState
from cockpit.watch.tasks import Supervisor

ROWS_BUDGET = 8.0
SHARE_OF_FACET = 0.3
"""Three facets wait for one another (tracker, job, checkpoints): each may take this share."""
SHARE_FOR_ASKING = 0.9
"""The rest of the deadline is for judging and printing."""
READERS = 4
HOST_ROUNDS = 2
"""Times that rows are read of files on a host, and the host is asked for more."""
TOGETHER = 0.6
"""Share of a facet's time in which a bulk may answer here; then its runs are asked apart."""


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
        self._end = clock.monotonic() + deadline * SHARE_FOR_ASKING
        self._readers = asyncio.Semaphore(READERS)

    async def run(self, runs: Sequence[RunSpec], *, feed: bool) -> None:
        """Fill the runs' states; ends within the deadline given, with or without answers.

        What an action does rests on this: no answer is one that git gave some time ago.
        """
        after = [run for run in runs if self._log_needs_job(run)]
        before = [run for run in runs if not self._log_needs_job(run)]
        alone = (self._facet(facet, before) for facet in ("log", "host"))
        chain = self._chain(runs, after, feed=feed)
        with asked_anew():
            await asyncio.gather(chain, self._facet("code", runs), *alone)

    def _log_needs_job(self, run: RunSpec) -> bool:
        platform = self._asker.platform_of(run)
        return platform is not None and platform.log_needs_job

    async def _chain(
        self, runs: Sequence[RunSpec], after: Sequence[RunSpec], *, feed: bool
    ) -> None:
        # what other cockpits reported names the job, and rejects checkpoints
        first = (self._facet(facet, runs) for facet in ("tracker", "monitor", "records"))
        await asyncio.gather(*first)
        rows = (self._rows(runs),) if feed else ()
        await asyncio.gather(self._job_and_what_needs_it(runs, after), *rows)

    async def _job_and_what_needs_it(
        self, runs: Sequence[RunSpec], after: Sequence[RunSpec]
    ) -> None:
        await self._facet("job", runs)
        later = (self._facet(facet, after) for facet in ("log", "host"))  # the job says where
        await asyncio.gather(self._facet("checkpoints", runs), *later)

    async def _facet(self, facet: str, runs: Sequence[RunSpec]) -> None:
        groups = self._asker.by_place(runs, (facet,))
        await asyncio.gather(*(self._group(key, group) for key, group in groups.items()))

    async def _group(self, key: Key, runs: list[RunSpec]) -> None:
        facet, place = key
        left = self._end - self._clock.monotonic()
        seconds = max(0.0, min(DEADLINES[facet].at(place), self._share, left))
        if len(runs) == 1 or place != HERE:
            await self._ask(key, runs, seconds)
            return
        together = seconds * TOGETHER
        answer = await self._supervisor.run(facet, together, self._asker.ask(facet, place, runs))
        if not isinstance(answer, Problem):
            self._take(key, answer)
        else:
            # In a bulk, the one file that hangs would cost the other runs their answer.
            left = seconds - together
            await asyncio.gather(*(self._ask(key, [run], left) for run in runs))

    async def _ask(self, key: Key, runs: list[RunSpec], seconds: float) -> None:
        """Ask once; what went wrong has gone wrong for all these runs."""
        facet, place = key
        what = facet if place == HERE else f"{facet} at {place}"
        answer = await self._supervisor.run(what, seconds, self._asker.ask(facet, place, runs))
        if isinstance(answer, Problem):
            source = facet if place == HERE else place
            failed = Facet[Any](source=source, error=answer, since=self._clock.now())
            answer = {run.name: failed for run in runs}
        self._take(key, answer)

    def _take(self, key: Key, answer: Answers) -> None:
        facet, place = key
        for name, found in self._asker.join(facet, place, answer).items():
            state = self._fleet.states.get(name)
            if state is not None:
                state.take(facet, found)

    async def _rows(self, runs: Sequence[RunSpec]) -> None:
        end = min(self._end, self._clock.monotonic() + ROWS_BUDGET)
        states = [self._fleet.states[run.name] for run in runs]
        for _ in range(HOST_ROUNDS):
            await asyncio.gather(*(self._read(state, end) for state in states))
            read = [state.spec for state in states if state.rows.any]
            groups = self._asker.by_place(read, ("tracker",))
            files = {key: own for key, own in groups.items() if _has_files(key)}
            if not files or self._clock.monotonic() >= self._end:
                break
            await asyncio.gather(*(self._second_look(key, own) for key, own in files.items()))
            away = {run.name for key, own in files.items() if key[1] != HERE for run in own}
            states = [each for each in states if each.spec.name in away and not each.rows.complete]

    async def _second_look(self, key: Key, runs: list[RunSpec]) -> None:
        """Look at files once more: they know more once they are read, and a host brings more.

        A host that is gone by now has answered a moment ago.
        """
        if key[1] == HERE:
            await self._group(key, runs)
            return
        facet, place = key
        left = max(0.0, self._end - self._clock.monotonic())
        asked = self._asker.ask(facet, place, runs)
        answer = await self._supervisor.run(f"{facet} at {place}", min(self._share, left), asked)
        if not isinstance(answer, Problem):
            self._take(key, {name: each for name, each in answer.items() if each.known})

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


def _has_files(key: Key) -> bool:
    """Tell whether a tracker's place is a file system; a server has said it all at once."""
    return "://" not in key[1]
