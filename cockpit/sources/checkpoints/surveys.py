"""One survey per endpoint: which tree answers there, and what a run wants of it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.observed import CheckpointsValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import CheckpointSpec, RunSpec
from cockpit.runtime.buckets import BUCKETS as BUCKETS
from cockpit.runtime.buckets import Bucket
from cockpit.runtime.http import Http
from cockpit.sources.checkpoints.assembly import Surveyed, Want
from cockpit.sources.checkpoints.bucket import BucketTree
from cockpit.sources.checkpoints.host import HostTree
from cockpit.sources.checkpoints.look import complete_of, names_of
from cockpit.sources.checkpoints.survey import Survey
from cockpit.sources.checkpoints.tree import ListingError, Tree
from cockpit.text.safe import clean

SECONDS: Final = 22.0
"""Seconds that a look at one endpoint takes at most: less than its poller waits for it."""
AT_FIRST: Final = 4.5
"""Seconds for the first look, of which everything is new: what it has no time for comes with the
next one. A check has no more for each of its questions."""
CLOCK_WITHIN: Final = 2.5


class Surveys:
    """The surveys of all endpoints, each with one look at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._http = Http(clock, deadline=CLOCK_WITHIN)
        self._surveys: dict[str, Survey] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def look(
        self, endpoint: str, wants: Collection[Want], seconds: float | None = None
    ) -> dict[Want, Surveyed | ListingError]:
        """List what is wanted at one endpoint; never raises."""
        if not wants:
            return {}
        usual = SECONDS if endpoint in self._surveys else AT_FIRST
        until = asyncio.get_running_loop().time() + (seconds or usual)
        every = dict.fromkeys(wants)
        place = next(iter(every)).place
        survey = self._survey(endpoint, place)
        if survey is None:
            scheme = clean(place.scheme, 20)
            text = f"{scheme}:// checkpoints cannot be read: expected a path, ssh, s3 or gs"
            return dict.fromkeys(every, ListingError(ErrorKind.UNSUPPORTED, text))
        turn = self._turns[endpoint]
        try:
            async with asyncio.timeout_at(until):
                await turn.acquire()
        except TimeoutError:
            late = ListingError(
                ErrorKind.TIMEOUT, f"{endpoint}: no listing yet; the previous one is still running"
            )
            return dict.fromkeys(every, late)
        try:
            return await survey.look(every, until)
        finally:
            turn.release()

    def settle(self, endpoint: str, values: Sequence[CheckpointsValue]) -> None:
        """Keep which checkpoints have been found complete there."""
        survey = self._surveys.get(endpoint)
        if survey is not None and values:
            complete = set().union(*map(complete_of, values))
            survey.settle(complete, {item.path for value in values for item in value.items})

    def _survey(self, endpoint: str, place: Place) -> Survey | None:
        if endpoint not in self._surveys:
            tree = self._tree(place)
            if tree is None:
                return None
            self._surveys[endpoint] = Survey(tree)
            self._turns[endpoint] = asyncio.Lock()
        return self._surveys[endpoint]

    def _tree(self, place: Place) -> Tree | None:
        return tree_at(place, self._clock, self._http)


def tree_at(place: Place, clock: Clock, http: Http | None = None) -> Tree | None:
    """Return what lists and reads the endpoint of a place; ``None``: nothing does."""
    if place.scheme in BUCKETS:
        asked = http or Http(clock, deadline=CLOCK_WITHIN)
        return BucketTree(Bucket(place.scheme, place.host, clock, asked))
    return HostTree(place.host) if place.scheme == SSH else None


def wants_of(spec: CheckpointSpec, endpoint: str, prefer: frozenset[str]) -> tuple[Want, ...]:
    """Return the roots of a run at one endpoint; raises ``ValueError`` for a bad layout."""
    pattern, markers = names_of(spec)
    there: Iterable[Place] = (each for each in spec.path if each.endpoint == endpoint)
    return tuple(Want(place, pattern, markers, prefer) for place in there)


def folder_names(run: RunSpec) -> frozenset[str]:
    """Return what the run's own folder may be called where a root holds many runs."""
    return frozenset({run.name} | ({run.wandb.id} if run.wandb and run.wandb.id else set()))
