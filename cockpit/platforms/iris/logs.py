"""The log of an Iris job: fetched by cursor into a spool, then read like any other file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue
from cockpit.platforms.iris.access import AccessError, endpoint_of
from cockpit.platforms.iris.jobs import IrisJobs, id_of
from cockpit.platforms.iris.memory import Memory
from cockpit.platforms.iris.stream import Stream, Tail, Wanted
from cockpit.platforms.iris.words import phase_of
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.source import Logs

LONGEST: Final = 10.0
"""Seconds that fetching may take: reading the spools has a deadline of its own after it."""
NO_JOB: Final = "its job is unknown yet: the log is asked for after it"
IN_TURN: Final = "not fetched yet: what was written before is fetched for a few jobs at a time"
EMPTY: Final = "nothing written yet"


class IrisLogs:
    """Observes the logs of runs whose jobs ``jobs`` has looked at."""

    def __init__(self, clock: Clock, logs: Logs, jobs: IrisJobs) -> None:
        self._clock = clock
        self._logs = logs
        self._jobs = jobs
        self._streams: dict[int, Stream] = {}

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[LogValue]]:
        """Return the log facet of each run, by run name; never raises."""
        groups: dict[str, list[Query]] = {}
        for query in queries:
            if query.run.job is not None:
                groups.setdefault(endpoint_of(query.run.job), []).append(query)
        answers = await asyncio.gather(*(self._of_one(*group) for group in groups.items()))
        return {name: facet for answer in answers for name, facet in answer.items()}

    async def _of_one(self, endpoint: str, queries: list[Query]) -> dict[str, Facet[LogValue]]:
        """Return the facets of runs of one controller: they share its fate."""
        try:
            place = await self._jobs.place([query.run for query in queries])
            wanted = [each for query in queries if (each := _wanted(query, place.memory))]
            stream = self._streams.setdefault(id(place), Stream(place.controller))
            stream.offset = place.offset
            async with asyncio.timeout(min(place.patience, LONGEST)):
                tails = dict(await stream.look(wanted))
        except (HttpError, AccessError) as error:
            retry_in = error.retry_in if isinstance(error, HttpError) else None
            return self._all(queries, endpoint, error.kind, str(error), retry_in)
        except TimeoutError:
            text = f"{endpoint} did not send its lines in time: is its tunnel up?"
            return self._all(queries, endpoint, ErrorKind.TIMEOUT, text)
        except OSError as error:
            text = f"the lines cannot be kept here: {(error.strerror or 'no').lower()}"
            return self._all(queries, endpoint, ErrorKind.PERMISSION, text)
        return await self._read(endpoint, queries, tails)

    async def _read(
        self, endpoint: str, queries: list[Query], tails: dict[str, Tail]
    ) -> dict[str, Facet[LogValue]]:
        """Read the spools as the files that they are."""
        found = {query.name: self._why(endpoint, tails.get(query.name)) for query in queries}
        fetched = {name: tail for name, tail in tails.items() if tail.fetched}
        held = {name: tail.place for name, tail in fetched.items() if tail.since is not None}
        reading = [query for query in queries if query.name in held]
        answers = await self._logs.observe(reading, held)
        named = {
            name: facet.model_copy(update={"source": endpoint}) for name, facet in answers.items()
        }
        return found | {name: each for name, each in named.items() if _says(each)}

    def _why(self, endpoint: str, tail: Tail | None) -> Facet[LogValue]:
        """Return why there is no log of a run."""
        kind, text = ErrorKind.NOT_FOUND, NO_JOB if tail is None else EMPTY
        if tail is not None and tail.trouble is not None:
            kind, text = tail.trouble.kind, f"its lines cannot be fetched: {tail.trouble}"
        elif tail is not None and not (tail.joined or tail.fetched):
            kind, text = ErrorKind.TIMEOUT, IN_TURN
        return unknown(kind, f"{endpoint}: {text}", endpoint, self._clock.now())

    def _all(
        self,
        queries: Sequence[Query],
        endpoint: str,
        kind: ErrorKind,
        text: str,
        retry_in: float | None = None,
    ) -> dict[str, Facet[LogValue]]:
        facet: Facet[Any] = unknown(kind, text, endpoint, self._clock.now())
        facet = facet.model_copy(update={"retry_after": retry_in})
        return {query.name: facet for query in queries}


def _wanted(query: Query, memory: Memory) -> Wanted | None:
    current = query.job.id if query.job is not None else None
    own = memory.own(current or id_of(query.run))
    if own is None or query.run.job is None:
        return None
    return Wanted(query.name, query.run.job, own, phase_of(own).terminal)


def _says(facet: Facet[LogValue]) -> bool:
    """Tell whether a spool holds anything, or could not be read."""
    return facet.value is None or facet.value.size > 0
