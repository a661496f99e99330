"""All pollers: one for each facet and system that the run file names."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence

from cockpit.model.clock import Clock
from cockpit.model.report import FACETS
from cockpit.model.run import RunSpec
from cockpit.watch.polling.asking import Asker
from cockpit.watch.polling.poller import Deliver, Poller
from cockpit.watch.polling.supervise import Supervisor
from cockpit.watch.polling.systems import system_of

Place = tuple[str, str]
"""(facet, system)."""


class Pollers:
    """Starts pollers as systems appear, and finds the one that answers for a run's facet."""

    def __init__(
        self, asker: Asker, clock: Clock, supervisor: Supervisor, deliver: Deliver
    ) -> None:
        self._asker = asker
        self._clock = clock
        self._supervisor = supervisor
        self._deliver = deliver
        self._pollers: dict[Place, Poller] = {}
        self._places: dict[tuple[str, str], Place] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup, runs: Sequence[RunSpec]) -> None:
        """Poll inside ``tasks`` from now on."""
        self._tasks = tasks
        self._pollers.clear()
        self.assign(runs)

    def assign(self, runs: Sequence[RunSpec]) -> None:
        """Say which runs there are now."""
        groups = _by_place(runs)
        for place in groups.keys() - self._pollers.keys():
            self._open(place)
        for place, poller in self._pollers.items():
            poller.assign(groups.get(place, []))
        self._places = {
            (place[0], run.name): place for place, group in groups.items() for run in group
        }

    def wake(self, facet: str, name: str, *, at_once: bool = False) -> None:
        """Ask for one facet of one run soon."""
        place = self._places.get((facet, name))
        if place is not None:
            self._pollers[place].wake(name, at_once=at_once)

    def swept(self, works: bool) -> None:
        """Say whether changes of local files are announced; if not, logs are polled faster."""
        for poller in self._pollers.values():
            poller.swept = works

    def _open(self, place: Place) -> None:
        facet = place[0]
        ask = functools.partial(self._asker.ask, facet)
        poller = Poller(facet, ask, self._clock, self._deliver, self._supervisor)
        self._pollers[place] = poller
        if self._tasks is not None:
            self._tasks.create_task(poller.run())


def _by_place(runs: Sequence[RunSpec]) -> Mapping[Place, list[RunSpec]]:
    groups: dict[Place, list[RunSpec]] = {}
    for facet in FACETS:
        for run in runs:
            groups.setdefault((facet, system_of(facet, run)), []).append(run)
    return groups
