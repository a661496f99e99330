"""The engine: every facet of every run at its own cadence, judged, remembered, and told on.

One engine serves the terminal UI, ``watch`` and ``check``. Its tasks are few, whatever the
number of runs: one poller per facet and system, one sweep over local files, one judge, one
reader of rows, one writer of history.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import TypeVar

from cockpit.config import state_dir
from cockpit.model.alert import Acknowledgement
from cockpit.model.clock import Clock
from cockpit.model.history import CheckpointMark, PhaseMark
from cockpit.model.report import FACETS, FleetReport, RunReport
from cockpit.model.run import CockpitFile
from cockpit.store.alerts import Alerts
from cockpit.store.memory import RunMemory
from cockpit.store.outcomes import Endings
from cockpit.store.ownership import Ownership
from cockpit.store.store import Store
from cockpit.watch.asking import Answers, Asker
from cockpit.watch.bench import Bench, remember_report
from cockpit.watch.feeder import Feeder
from cockpit.watch.fleet import Fleet
from cockpit.watch.historian import Historian
from cockpit.watch.onepass import OnePass
from cockpit.watch.pollers import Pollers
from cockpit.watch.rounds import Rounds
from cockpit.watch.runstate import RunState
from cockpit.watch.sources_bundle import Sources, real_sources
from cockpit.watch.supervise import Supervisor
from cockpit.watch.timing import within
from cockpit.watch.upkeep import Upkeep
from cockpit.watch.who import ownership_of

LAST_WORDS = 0.3
"""Seconds that leaving may spend on writing the last state down."""

L = TypeVar("L")
Told = Callable[[RunReport], None]


class Engine:
    """Watches the runs of one run file, or ``only`` some of them, on one event loop.

    Raises ``UnknownRunError`` if ``only`` names a run that the file does not have.
    """

    def __init__(
        self,
        file: CockpitFile,
        *,
        store: Store | None,
        clock: Clock,
        sources: Sources | None = None,
        ownership: Ownership | None = None,
        only: Iterable[str] | None = None,
    ) -> None:
        self._clock = clock
        self._sources = sources or real_sources(clock)
        self._told: list[Told] = []
        self._rounds_told: list[Told] = []
        self._reloaded: list[Callable[[CockpitFile], None]] = []
        self._running = False
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self.ownership = ownership or ownership_of(store)
        self._historian = Historian(store, self.ownership)
        self._fleet = Fleet(file, only)
        self._bench = Bench(self._fleet, self._historian, self._supervisor, clock, self._tell)
        self._feeder = Feeder(
            self._sources.tracker, clock, self._supervisor, self._fleet.rows_of, self._fed
        )
        asker = Asker(self._sources, self._fleet.states)
        self._pollers = Pollers(asker, clock, self._supervisor, self._deliver)
        self._rounds = Rounds(self._fleet, self._bench, self._historian, clock, self._round)
        self._upkeep = Upkeep(
            self._fleet, self._bench, self._historian, self._pollers, clock, file, self._adopt
        )

    @property
    def file(self) -> CockpitFile:
        """The run file in use (it is read again when it changes)."""
        return self._fleet.file

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about the cockpit itself, one line each."""
        own = (self._upkeep.notice, self._historian.notice)
        return (*(line for line in own if line is not None), *self._supervisor.faults)

    def report(self) -> FleetReport:
        """Return what is known now, at once."""
        return self._fleet.report(self._clock.now())

    def subscribe(self, callback: Told) -> Callable[[], None]:
        """Call back with every report that says something new; return how to stop that."""
        return _join(self._told, callback)

    def on_round(self, callback: Told) -> Callable[[], None]:
        """Call back with every run's report once per cadence, changed or not."""
        return _join(self._rounds_told, callback)

    def on_reload(self, callback: Callable[[CockpitFile], None]) -> Callable[[], None]:
        """Call back when an edited run file was taken over: runs may have come or gone."""
        return _join(self._reloaded, callback)

    async def recall(self) -> None:
        """Fill the reports from the store: the last known state, for a first paint."""
        keys = [state.key for state in self._fleet.states.values() if not state.remembered]
        if keys:
            self._fleet.remember(await self._historian.load(keys, self._clock.now()))

    async def check(
        self, names: Iterable[str] | None = None, deadline: float = 20.0
    ) -> FleetReport:
        """Look at every facet once, judge, and write nothing; raises ``UnknownRunError``.

        Facets that have not answered by ``deadline`` (s) are unknown.
        """
        runs = self._fleet.select(names)
        await self.recall()
        one = OnePass(self._fleet, self._sources, self._supervisor, self._clock, deadline)
        await one.run(runs, feed=not self._running)
        await self._bench.judge([run.name for run in runs], keep=self._running)
        return self._fleet.report(self._clock.now(), runs)

    async def run(self) -> None:
        """Watch until cancelled."""
        self._running = True
        await self.recall()
        self._tell_remembered()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._pollers.start(tasks, self._fleet.file.runs)
                for work in (self._bench, self._feeder, self._rounds, self._upkeep):
                    tasks.create_task(work.run())
        finally:
            self._running = False
            await self._leave()

    async def poke(self, name: str, facet: str | None = None) -> None:
        """Ask for a facet of a run, or for all of them, now."""
        for each in FACETS if facet is None else (facet,):
            self._pollers.wake(each, name, at_once=True)

    async def acknowledge(
        self,
        name: str,
        key: str,
        *,
        by: str,
        until: float | None = None,
        reason: str | None = None,
    ) -> bool:
        """Record that ``by`` has taken an open alert (SPEC A-14); False if it is not open."""
        state = self._fleet.states.get(name)
        if state is None or key not in state.open:
            return False
        taken = Acknowledgement(by=by, at=self._clock.now(), until=until)
        stored = await self._historian.acknowledge(state.key, key, taken, reason)
        state.acknowledge(key, taken)
        await self._bench.judge([name])
        return stored or not self._historian.writes

    async def acknowledge_end(self, name: str, *, by: str) -> None:
        """Record that ``by`` knows that the run's job is over: its watch may end (SPEC W)."""
        state = self._fleet.states[name]
        job = state.facets.job.value
        job_id = (job.id if job is not None else None) or ""
        now = self._clock.now()
        state.ended = state.ended | {job_id}
        await self._historian.write(
            lambda store: Endings(store).acknowledge(state.key, job_id, by, now)
        )

    def over(self, name: str) -> bool:
        """Return whether a run is terminal and somebody has acknowledged that (SPEC W)."""
        state = self._fleet.states.get(name)
        return state is None or state.over

    async def looked_at(self, name: str) -> None:
        """Record that a person has seen a run's alerts, so that none closes unseen."""
        state = self._fleet.states.get(name)
        keys = state.see() if state is not None else []
        if state is None or not keys:
            return
        self._historian.later(lambda store: Alerts(store).mark_seen(state.key, keys))
        self._bench.touch(name)

    def _tell(self, report: RunReport) -> None:
        for callback in tuple(self._told):
            callback(report)

    def _tell_remembered(self) -> None:
        for state in self._fleet.states.values():
            if state.told is None and state.report is not None:
                self._tell(state.report)

    def _round(self, report: RunReport) -> None:
        for callback in tuple(self._rounds_told):
            callback(report)

    def _deliver(self, facet: str, answers: Answers) -> None:
        now = self._clock.now()
        for name, found in answers.items():
            state = self._fleet.states.get(name)
            if state is not None and state.take(facet, found):
                self._note(facet, state, now)
                self._bench.touch(name)
            if state is not None and facet == "tracker" and found.known:
                self._feeder.offer(state.spec)

    def _note(self, facet: str, state: RunState, now: float) -> None:
        """Remember what a new answer changes in time, and ask those whom it concerns."""
        if facet == "job":
            self._keep(state, state.mark_phase(now))
            self._pollers.wake("checkpoints", state.spec.name)
        elif facet == "checkpoints":
            self._keep(state, state.mark_checkpoints(now))
        elif facet in ("log", "tracker") and state.job_may_differ:
            self._pollers.wake("job", state.spec.name)

    def _keep(self, state: RunState, mark: PhaseMark | CheckpointMark | None) -> None:
        if isinstance(mark, PhaseMark):
            self._historian.later(lambda store: RunMemory(store).add_phases(state.key, [mark]))
        elif mark is not None:
            self._historian.later(
                lambda store: RunMemory(store).add_checkpoint_marks(state.key, [mark])
            )

    def _fed(self, name: str) -> None:
        self._bench.touch(name)
        self._pollers.wake("tracker", name)

    async def _adopt(self, file: CockpitFile) -> None:
        self._fleet.adopt(file)
        await self.recall()
        self._tell_remembered()
        self._pollers.assign(self._fleet.file.runs)
        for name in self._fleet.states:
            self._bench.touch(name)
        for callback in tuple(self._reloaded):
            callback(file)

    async def _leave(self) -> None:
        """Write down the last state, if that takes no time; a hang does not keep anyone here."""
        for state in self._fleet.states.values():
            remember_report(state, self._historian)
        with contextlib.suppress(TimeoutError):
            await within(self._clock, LAST_WORDS, self._historian.flush())


def _join(listeners: list[L], listener: L) -> Callable[[], None]:
    listeners.append(listener)

    def leave() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return leave
