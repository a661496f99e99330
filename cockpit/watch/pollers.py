"""All pollers: one for each facet and place that the run file names."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence

from cockpit.model.clock import Clock
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec
from cockpit.watch.asking import Answers, Asker, Key, fate_of
from cockpit.watch.poller import AwayPoller, Deliver, Poller, Rest, cadence_away
from cockpit.watch.tasks import Supervisor


class Pollers:
    """Starts pollers as places appear, and finds those that answer for a run's facet."""

    def __init__(
        self,
        asker: Asker,
        clock: Clock,
        supervisor: Supervisor,
        deliver: Deliver,
        rank: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.rank = rank
        self._asker = asker
        self._clock = clock
        self._supervisor = supervisor
        self._deliver = deliver
        self._here: dict[str, Poller] = {}
        self._away: dict[Key, AwayPoller] = {}
        self._rests: dict[str, Rest] = {}
        self._keys: dict[tuple[str, str], tuple[Key, ...]] = {}
        """The pollers of each facet and run."""
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup, runs: Sequence[RunSpec]) -> None:
        """Poll inside ``tasks`` from now on."""
        self._tasks = tasks
        self._here.clear()
        self._away.clear()
        self.assign(runs)

    def assign(self, runs: Sequence[RunSpec]) -> None:
        """Say which runs there are now."""
        groups = self._asker.by_place(runs)
        known = {(facet, HERE) for facet in self._here} | self._away.keys()
        for key in groups.keys() | known:
            poller = self._poller(key) or self._open(key)
            poller.assign(groups.get(key, []))
        self._keys = {}
        for key, group in groups.items():
            for run in group:
                at = key[0], run.name
                self._keys[at] = (*self._keys.get(at, ()), key)

    def wake(self, facet: str, name: str, *, at_once: bool = False) -> None:
        """Ask for one facet of one run soon; places away from here only if ``at_once``."""
        for key in self._keys.get((facet, name), ()):
            poller = self._poller(key)
            if poller is not None:
                poller.wake(name, at_once=at_once)

    def swept(self, works: bool) -> None:
        """Say whether changes of local files are announced; if not, logs are polled faster."""
        for poller in self._here.values():
            poller.swept = works

    def _poller(self, key: Key) -> Poller | AwayPoller | None:
        facet, place = key
        return self._here.get(facet) if place == HERE else self._away.get(key)

    def _open(self, key: Key) -> Poller | AwayPoller:
        facet, place = key
        ask = functools.partial(self._asker.ask, facet, place)
        deliver = functools.partial(self._answered, place)
        poller: Poller | AwayPoller
        if place == HERE:
            poller = Poller(facet, ask, self._clock, deliver, self._supervisor, self.rank)
            self._here[facet] = poller
        else:
            rest = self._rests.setdefault(fate_of(place), Rest())
            cadence = functools.partial(self._cadence, facet)
            poller = AwayPoller(key, ask, cadence, self._clock, deliver, self._supervisor, rest)
            self._away[key] = poller
        if self._tasks is not None:
            self._tasks.create_task(poller.run())
        return poller

    def _cadence(self, facet: str, run: RunSpec) -> float:
        platform = self._asker.platform_of(run)
        return cadence_away(facet, run, platform.log_every if platform is not None else None)

    def _answered(self, place: str, facet: str, answers: Answers) -> None:
        self._deliver(facet, self._asker.join(facet, place, answers))
