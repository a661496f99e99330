"""The engine: polls every facet of every run, judges, remembers, and passes reports on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence

from cockpit.config.file import Reloader, state_dir
from cockpit.model.clock import Clock, next_beat
from cockpit.model.facet import Facet
from cockpit.model.observed import HostValue, JobValue
from cockpit.model.report import FACETS, FleetReport, RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.platforms.base import Platform
from cockpit.rules.jobs.host import at_ease
from cockpit.runtime.heap import STEP, Heap, give_back
from cockpit.runtime.moment import Jumps
from cockpit.runtime.offload import offload
from cockpit.store.alerts import Alerts
from cockpit.store.memory import Configs, Pasts, RunMemory, SettingsKept
from cockpit.store.ownership import Hung
from cockpit.store.store import Store
from cockpit.watch.asking import Answers, Asker, Sources, Tracker, real_sources
from cockpit.watch.fleet import Fleet, ownership_of, share
from cockpit.watch.judge import PATIENCE, CadenceLoop, Judge, remember_report
from cockpit.watch.onepass import OnePass, RowIngest
from cockpit.watch.past import PastReading
from cockpit.watch.poller import Pollers
from cockpit.watch.runstate import RunState
from cockpit.watch.store_writer import StoreWriter
from cockpit.watch.sweep import VISIBLE, Listeners, Preference, Supervisor, Sweeper, within

READ_EVERY = 2.0
STORE_EVERY = 2.0
PRUNE_EVERY = 86400.0
GIVE_BACK_EVERY = 20.0
"""Seconds between two times at which freed memory is given back to the system."""
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


FOR_RECALL = 0.4
"""The share of a check's deadline that the store may take."""
FOR_JUDGING = 0.95
"""The share of a check's deadline until which it may wait for logs to be read."""
LAST_WORDS = 0.3
"""Seconds that leaving may spend on writing the last state down."""


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
        only: Iterable[str] | None = None,
    ) -> None:
        self._clock = clock
        self._sources = sources or real_sources(clock)
        self._running = False
        self._jumps = Jumps(clock)
        self._news: Listeners[RunReport] = Listeners()
        self._every_round: Listeners[RunReport] = Listeners()
        self._reloads: Listeners[CockpitFile] = Listeners()
        self._supervisor = Supervisor(clock, state_dir() / "crashes")
        self.ownership = ownership_of(store)
        self._store_writer = StoreWriter(store, self.ownership, clock)
        self._fleet = Fleet(file, only, self._sources.platform_of, self._sources.tracker.forget)
        self.pasts = PastReading(store, self._fleet, clock)
        """How its runs were, and what happened to them."""
        self._preference = Preference(self._fleet.states)
        rank = self._preference.rank
        self._judge = Judge(
            self._fleet, self._store_writer, self._news, self._supervisor, clock, rank
        )
        self._cadence_loop = CadenceLoop(
            self._fleet, self._judge, self._store_writer, self._every_round, clock
        )
        asker = Asker(self._sources, self._fleet.states, self._clock)
        self._pollers = Pollers(asker, clock, self._supervisor, self._observed, rank)
        self._ingest = RowIngest(
            self._sources.tracker, self._fleet, self._judge, self._pollers, self._supervisor,
            clock, rank,
        )  # fmt: skip
        self._maintenance = Maintenance(
            file, self._fleet, self._judge, self._store_writer, self._pollers, self._reloads, clock
        )

    @property
    def file(self) -> CockpitFile:
        """The run file in use (it is read again when it changes)."""
        return self._fleet.file

    @property
    def tracker(self) -> Tracker:
        """What reads the trackers of the runs."""
        return self._sources.tracker

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about the cockpit itself, one line each."""
        own = (self._maintenance.notice, *self._store_writer.notices, self._jumps.notice)
        return (*(line for line in own if line is not None), *self._supervisor.faults)

    @property
    def hung(self) -> tuple[Hung, ...]:
        """Who owns runs of this file and does nothing: its process hangs."""
        return () if self.ownership is None else self.ownership.hung

    def report(self) -> FleetReport:
        """Return what is known now, at once."""
        return self._fleet.report(self._clock.now())

    def subscribe(self, callback: Callable[[RunReport], object]) -> Callable[[], None]:
        """Call back with every report that says something new; return how to stop that."""
        return self._news.join(callback)

    def on_round(self, callback: Callable[[RunReport], object]) -> Callable[[], None]:
        """Call back with every run's report once per cadence, changed or not."""
        return self._every_round.join(callback)

    def on_reload(self, callback: Callable[[CockpitFile], object]) -> Callable[[], None]:
        """Call back when an edited run file was taken over: runs may have come or gone."""
        return self._reloads.join(callback)

    async def recall(self) -> None:
        """Fill the reports from the store: the last known state, for a first paint."""
        await self._fleet.recall(self._store_writer, self._clock.now())

    async def check(
        self, names: Iterable[str] | None = None, deadline: float = 20.0
    ) -> FleetReport:
        """Look at every facet once, judge, and write nothing; raises ``UnknownRunError``.

        Facets that have not answered by ``deadline`` (s) are unknown.
        """
        runs = self._fleet.select(names)
        began = self._clock.monotonic()
        try:
            await within(self._clock, deadline * FOR_RECALL, self.recall())
        except TimeoutError:
            self._store_writer.notice = "the store does not respond: judged without history"
        deadline -= self._clock.monotonic() - began
        one = OnePass(self._fleet, self._sources, self._supervisor, self._clock, deadline)
        until = self._clock.monotonic() + deadline * FOR_JUDGING
        await one.run(runs, feed=not self._running)
        patience = max(PATIENCE, until - self._clock.monotonic())
        names = [run.name for run in runs]
        await self._judge.judge(names, keep=self._running, patience=patience)
        return self._fleet.report(self._clock.now(), runs)

    async def look(self, run: str, within: float) -> RunReport:
        """Return one run as it is now: ``check`` of it alone."""
        return (await self.check([run], within)).runs[0]

    async def run(self) -> None:
        """Watch until cancelled."""
        self._running = True
        await self.recall()
        self._judge.announce_remembered()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._pollers.start(tasks, self._fleet.file.runs)
                for work in (self._judge, self._ingest, self._cadence_loop, self._maintenance):
                    tasks.create_task(work.run())
        finally:
            self._running = False
            await self._leave()

    async def poke(self, name: str, facet: str | None = None) -> None:
        """Ask for a facet of a run, or for all of them, now."""
        for each in FACETS if facet is None else (facet,):
            self._pollers.wake(each, name, at_once=True)

    def prefer(self, visible: Sequence[str]) -> None:
        """Say which runs stand on a screen: they are read first, then those that are unwell."""
        self._preference.prefer(visible)

    def over(self, name: str) -> bool:
        """Return whether a run is terminal and somebody has acknowledged that (SPEC W)."""
        state = self._fleet.states.get(name)
        return state is None or state.over

    def platform_of(self, run: RunSpec) -> Platform | None:
        """Return the platform that reads a run's job: what acts on it is the same one."""
        return self._sources.platform_of(run)

    async def looked_at(self, name: str) -> None:
        """Record that a person has seen a run's alerts, so that none closes unseen."""
        state = self._fleet.states.get(name)
        keys = state.see() if state is not None else []
        if state is None or not keys:
            return
        self._store_writer.later(lambda store: Alerts(store).mark_seen(state.key, keys))
        self._judge.touch(name)

    def _observed(self, facet: str, answers: Answers) -> None:
        """Take what one system answered: what is new is judged, rows are read."""
        for name, found in answers.items():
            state = self._fleet.states.get(name)
            if state is None:
                continue
            job, host = state.facets.job.value, state.facets.host
            if state.take(facet, found):
                self._note(facet, state)
                if facet != "host" or self._hurries(state, host):
                    self._judge.touch(name)
            if facet == "job" and _places_from_job(state.facets.job.value) != _places_from_job(job):
                self._ask_where_the_job_says(state)
            if facet == "tracker" and found.known and self._rows_may_wait(state):
                self._ingest.offer(name)

    def _rows_may_wait(self, state: RunState) -> bool:
        """Tell whether a run may have rows that are not folded; of most at rest it is known."""
        return not state.rows.complete or self.tracker.may_have_rows(state.spec)

    def _hurries(self, state: RunState, old: Facet[HostValue]) -> bool:
        """Tell whether a new look at a host is judged before the run's turn comes.

        Load and memory move with every look; where nobody sees them, that is no news. That the
        host answers no more, or again, is.
        """
        new, unseen = state.facets.host, self._preference.rank(state.spec.name) > VISIBLE
        return not (unseen and old.error == new.error and at_ease(state.spec, old.value, new.value))

    def _ask_where_the_job_says(self, state: RunState) -> None:
        """Look at a log and a host that only the job tells of, now that it tells another."""
        platform, job = self.platform_of(state.spec), state.spec.job
        if platform is None or job is None or not platform.log_needs_job:
            return
        if job.log is None:
            self._pollers.wake("log", state.spec.name, at_once=True)
        if "host" in state.looked and not state.facets.host.known:
            self._pollers.wake("host", state.spec.name, at_once=True)

    def _note(self, facet: str, state: RunState) -> None:
        """Remember what a new answer changes in time, and ask those whom it concerns."""
        name, key, now = state.spec.name, state.key, self._clock.now()
        if facet in ("job", "tracker"):
            self._keep_configs(state, now)
        if facet == "job":
            phase = state.mark_phase(now)
            if phase is not None:
                self._store_writer.later(lambda store: RunMemory(store).add_phases(key, [phase]))
            self._pollers.wake("checkpoints", name)
        elif facet == "checkpoints":
            mark = state.mark_checkpoints(now)
            if mark is not None:
                self._store_writer.later(
                    lambda store: RunMemory(store).add_checkpoint_marks(key, [mark])
                )
        elif facet in ("log", "tracker") and state.job_may_differ:
            self._pollers.wake("job", name)

    def _keep_configs(self, state: RunState, now: float) -> None:
        """Keep what is known of the job's config and its predecessor's, where that is new."""
        key, known = state.key, Configs(state.settings.present, state.settings.former)
        if known != state.stored_configs:
            state.stored_configs = known
            self._store_writer.later(lambda store: SettingsKept(store).save(key, now, known))

    async def _leave(self) -> None:
        """Write down the last state, if that takes no time; a hang does not keep anyone here."""
        for state in self._fleet.states.values():
            remember_report(state, self._store_writer)
        with contextlib.suppress(TimeoutError):
            await within(self._clock, LAST_WORDS, self._store_writer.flush())


def _places_from_job(job: JobValue | None) -> tuple[str | None, ...]:
    """Return what a job tells of where its log and its machine are."""
    return () if job is None else (job.id, job.output, job.node)
