"""The engine's own way from files to alerts, once a cadence, on a clock that is set.

What is put together here is what ``cockpit.watch.engine.Engine`` puts together, but for the
waiting: its sources, its one look at everything, its folds, its judge and its reconciling. The
clock, and the shell that would ask Slurm, are the only stand-ins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.judgement.clock import START
from bench.judgement.stage import Stage
from cockpit.hosts import link
from cockpit.hosts.here import HereLink
from cockpit.hosts.link import Ask
from cockpit.model.alert import Alert
from cockpit.model.facet import Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import HostValue
from cockpit.model.place import HERE
from cockpit.model.report import RunReport
from cockpit.platforms.local.host import HostHealth
from cockpit.platforms.local.platform import LocalPlatform
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.platforms.table import Platforms, _alarms_in
from cockpit.sources.logs.source import Logs
from cockpit.store.store import Store
from cockpit.watch.asking import Bulk, Sources, real_sources
from cockpit.watch.fleet import Fleet, share
from cockpit.watch.judge import Judge
from cockpit.watch.onepass import OnePass
from cockpit.watch.store_writer import StoreWriter
from cockpit.watch.sweep import Listeners, Supervisor

PATIENCE = 20.0
"""Seconds that a look, and reading a log for its end, may really take."""


@dataclass
class Seen:
    """One alert over time: when looks saw it open first and last; seconds since the start."""

    alert: Alert
    opened: float
    last: float
    spans: list[tuple[float, float]] = field(default_factory=list)

    @property
    def times(self) -> int:
        """How often it opened."""
        return len(self.spans)


class StagedMachine(HereLink):
    """The machine we are on, with the kernel's accounts of memory from a folder of the stage."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def ask(
        self, asks: Iterable[Ask], deadline: float = link.DEADLINE, patience: float = link.PATIENCE
    ) -> link.Answers:
        """Return what this machine answers, but for its memory."""
        answers = await super().ask(asks, deadline, patience)
        files = (path for path in self._root.rglob("*") if path.is_file())
        texts = {f"/{path.relative_to(self._root)}": path.read_text() for path in files}
        return {each: texts if each.call == "memory" else said for each, said in answers.items()}


def sources_of(stage: Stage) -> Sources:
    """Return the real sources with the stage's cluster in the place of a shell.

    A stage that has a machine of its own is read as the local platform reads this one.
    """
    clock, sources = stage.clock, real_sources(stage.clock)
    logs = Logs(clock, _alarms_in)
    made = (SlurmPlatform(clock, logs, stage.cluster), LocalPlatform(clock, logs))
    platforms = Platforms(clock, made)
    here = None
    if stage.machine is not None:
        staged = StagedMachine(stage.machine)
        here = HostHealth(clock, lambda _: staged)

    async def hosts(queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        if here is None:
            return await platforms.hosts(queries)
        return await here.observe(HERE, queries)

    return Sources(
        job=Bulk(platforms.jobs),
        log=Bulk(platforms.logs),
        tracker=sources.tracker,
        checkpoints=sources.checkpoints,
        monitor=sources.monitor,
        host=Bulk(hosts),
        code=sources.code,
        records=sources.records,
        platform_of=platforms.of,
        findings=platforms.findings,
    )


class Watch:
    """Looks at one stage; ``seen`` holds every alert by key."""

    def __init__(self, stage: Stage, store: Store) -> None:
        clock = stage.clock
        self._stage = stage
        self.seen: dict[str, Seen] = {}
        self._sources = sources_of(stage)
        self._supervisor = Supervisor(clock, Path(stage.folder) / "crashes")
        self._writer = StoreWriter(store, None, clock)
        self._fleet = Fleet(stage.run_file(), None, self._sources.platform_of)
        news: Listeners[RunReport] = Listeners()
        self._judge = Judge(self._fleet, self._writer, news, self._supervisor, clock)
        self._open: set[str] = set()
        (self.state,) = self._fleet.states.values()

    @property
    def faults(self) -> tuple[str, ...]:
        """What failed in the cockpit itself meanwhile."""
        return self._supervisor.faults

    async def begin(self) -> None:
        """Begin from what the store knows."""
        await self._fleet.recall(self._writer, self._stage.now)

    async def look(self) -> RunReport:
        """Look at everything as it is now, and judge it."""
        state, now = self.state, self._stage.now
        runs = self._fleet.select(None)
        look = OnePass(self._fleet, self._sources, self._supervisor, self._stage.clock, PATIENCE)
        await look.run(runs, feed=True)
        state.mark_phase(now)
        state.mark_checkpoints(now)
        await self._judge.judge([state.spec.name], patience=PATIENCE)
        await self._writer.flush()
        for key, news in (await self._writer.news([state.key], now)).items():
            if key == state.key:
                share(state, news)
        self._note(now - START)
        assert state.report is not None
        return state.report

    def _note(self, at: float) -> None:
        """Remember what is open, and what came and went between two looks."""
        lately = [kept for kept in self.state.closed if kept.alert.key not in self.seen]
        for kept in (*self.state.open.values(), *lately):
            alert = kept.alert
            found = self.seen.setdefault(alert.key, Seen(alert, at, at))
            if alert.key not in self._open:
                found.spans.append((at, at))
            found.spans[-1] = (found.spans[-1][0], at)
            found.last = at
        self._open = set(self.state.open)
