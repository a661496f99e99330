"""Which tracker tells of a run: the first one whose table the run file has (``TRACKER_TABLES``).

Beside finelog another one is read, too: it stands in where finelog does not answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.clock import Clock
from cockpit.model.facet import (
    FINELOG,
    MLFLOW,
    TENSORBOARD,
    TRACKER_KINDS,
    TRACKIO,
    WANDB,
    Facet,
    TrackerKind,
)
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.place import HERE, SSH, Place
from cockpit.model.run import RunSpec
from cockpit.sources.attempts import joined
from cockpit.sources.curve_fold import NoCurveError, RowChunk
from cockpit.sources.curves import FileCurves, SampledCurves
from cockpit.sources.file_tracker import Adapter, FileTracker, RecordLog
from cockpit.sources.finelog import FinelogStores, Reach
from cockpit.sources.finelog import place_in as controller_in
from cockpit.sources.mlflow import StoredLog
from cockpit.sources.mlflow_server import MlflowStores, place_in
from cockpit.sources.run_folders import PatternFiles
from cockpit.sources.run_rows import RunRows
from cockpit.sources.sqlite_copies import Database, LocalFile, RemoteFile
from cockpit.sources.tensorboard import EVENT_FILES, NAME, TAIL_AWAY, TensorboardRun
from cockpit.sources.trackio import DATABASES, TrackioRun
from cockpit.sources.two_trackers import FinelogAndOther, Part, Tracker, TwoTrackers
from cockpit.sources.wandb.online import OfflineWandb, Wandb
from cockpit.sources.wandb.online import places as wandb_places

PLACES: Final[dict[str, Callable[[Any], Place | None]]] = {
    "trackio": lambda spec: spec.db,
    "tensorboard": lambda spec: spec.dir,
    "mlflow": lambda spec: place_in(spec, os.environ),
    FINELOG.table: controller_in,
}
"""Where a run is read, by the table of its tracker; W&B has more than one place."""


def places(run: RunSpec) -> tuple[str, ...]:
    """Return where a run's tracker is asked for; empty for a run that names none."""
    return tuple(each for table in read_tables(run) for each in _endpoints(table, run))


def _endpoints(table: str, run: RunSpec) -> tuple[str, ...]:
    if table == WANDB.table:
        return wandb_places(run)
    place = PLACES[table](run.trackers[table])
    return () if place is None else (place.endpoint,)


def _somewhere(table: str, run: RunSpec) -> tuple[str, ...]:
    """Return the same; what names no place is asked all the same, for it says what is missing."""
    return _endpoints(table, run) or (HERE,)


def read_tables(run: RunSpec) -> tuple[str, ...]:
    """Return the tables of the trackers that are read: the first, and what stands in for it."""
    tables = tuple(run.trackers)
    if run.finelog is None:
        return tables[:1]
    nowhere = controller_in(run.finelog) is None and len(tables) > 1
    return tables[1:2] if nowhere else tables[:2]


def folders(run: RunSpec) -> tuple[str, ...]:
    """Return what of this machine is watched for news of a run's tracker, beside its files."""
    if not run.trackers or (run.job is not None and run.job.host is not None):
        return ()  # the dir may be there, as it was written
    specs = {table: run.trackers[table] for table in read_tables(run)}
    named = [PLACES[table](spec) for table, spec in specs.items() if table in PLACES]
    named += [run.wandb.dir] if run.wandb is not None and WANDB.table in specs else []
    return tuple(each.path for each in named if each is not None and each.here)


class Trackers:
    """The tracker of every run; one tells of a run, and the facet's source says which."""

    def __init__(
        self, clock: Clock, call: CallHost = call_blocking, reach: Callable[[], Reach] | None = None
    ) -> None:
        """``call`` calls functions of the agents of ssh hosts, ``reach`` reaches controllers."""
        self._clock = clock
        self._wandb = Wandb(clock, OfflineWandb(clock, call))
        self._sampled = SampledCurves(self._wandb.server, clock)
        self._databases: dict[Place, Database] = {}
        self._lock = Lock()
        self._runs: dict[str, RunSpec] = {}
        """Each run as it was asked about last."""
        databases = PatternFiles(DATABASES, call)
        events = PatternFiles(EVENT_FILES, call, TAIL_AWAY, NAME)

        def database(place: Place) -> Database:
            return self._database(place, databases)

        stores = MlflowStores(clock, database)
        self._finelog = FinelogStores(clock, reach)
        adapters: tuple[tuple[TrackerKind, Callable[[Any], Adapter], PatternFiles], ...] = (
            (TRACKIO, lambda spec: TrackioRun(spec, database, databases), databases),
            (TENSORBOARD, lambda spec: TensorboardRun(spec, events), events),
            (MLFLOW, lambda spec: StoredLog(spec, stores.of), databases),
            (FINELOG, lambda spec: StoredLog(spec, self._finelog.of), databases),
        )
        own: dict[str, Tracker] = {
            kind.table: _tracker(clock, kind, adapter, away) for kind, adapter, away in adapters
        }
        first = Part(own[FINELOG.table], partial(_somewhere, FINELOG.table))
        own[WANDB.table] = self._wandb
        beside = {
            f"{FINELOG.table}+{table}": TwoTrackers(
                clock, (first, Part(other, partial(_somewhere, table))), FinelogAndOther
            )
            for table, other in own.items()
            if table != FINELOG.table
        }
        self._kinds = {**own, **beside}

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> dict[str, Facet[TrackerValue]]:
        """Return what is said ``at`` a place (or everywhere) of each run; never raises."""
        by_tracker: dict[int, list[Query]] = {}
        for query in queries:
            run = self._runs[query.name] = query.run
            by_tracker.setdefault(id(self._tracker(run)), []).append(query)
            if run.finelog is not None:
                self._finelog.know_job(run.finelog, None if run.job is None else run.job.id)
        found: dict[str, Facet[TrackerValue]] = {}
        for own in by_tracker.values():
            found |= await self._tracker(own[0].run).observe(own, at)
        return found if at is not None else {name: self._noted(name, found[name]) for name in found}

    def join(
        self, at: str, answers: Mapping[str, Facet[TrackerValue]]
    ) -> dict[str, Facet[TrackerValue]]:
        """Return the facet of each run, of which one place has answered."""
        joined = {}
        for name, answer in answers.items():
            tracker = self._tracker(self._runs[name]) if name in self._runs else self._wandb
            joined[name] = self._noted(name, tracker.join(at, {name: answer})[name])
        return joined

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next rows in order, from the very first, then only what is new."""
        await self.settle(run)
        return await self._tracker(run).more_rows(run)

    async def settle(self, run: RunSpec) -> None:
        """Ask a run's trackers once, where it has two: then the one that answers is read."""
        if len(read_tables(run)) > 1 and run.name not in self._runs:
            await self.observe([Query(run=run)])

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return whether ``more_rows`` might give any, as the last look found its source."""
        return self._tracker(run).may_have_rows(run)

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the newest rows, without those before them."""
        return await self._tracker(run).recent(run, rows)

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew with runs: the next rows of each are its first ones."""
        names = tuple(names)
        for name in names:
            self._runs.pop(name, None)
        for tracker in self._kinds.values():
            tracker.forget(names)

    def curve_files(self, run: RunSpec) -> FileCurves | None:
        """Return a reader of all that the run's files hold; ``None``: its server is asked.

        Raises ``NoCurveError`` where nothing can be read.
        """
        if not run.trackers:
            raise NoCurveError("no tracker in cockpit.toml: nothing else read here has metrics")
        tracker = self._tracker(run).best(run)
        if tracker is self._wandb.server:
            return None
        why = tracker.why_not_read(run)
        if why:
            raise NoCurveError(why)
        spec: Any = tracker.spec(run)
        make = partial(tracker.reader, spec)
        found = FileCurves(make, spec.metrics, make(spec.metrics).names, self._clock.monotonic)
        found.tracker = tracker
        return found

    def curve_server(self, run: RunSpec) -> SampledCurves:
        """Return who asks the run's server."""
        return self._sampled

    def _tracker(self, run: RunSpec) -> Tracker:
        """Return what tells of a run: its first tracker, or finelog together with another one."""
        return self._kinds["+".join(read_tables(run) or (WANDB.table,))]

    def _noted(self, name: str, facet: Facet[TrackerValue]) -> Facet[TrackerValue]:
        """Return a run's facet; its source names what the run file has that is not read."""
        run = self._runs.get(name)
        if run is None:
            return facet
        source, read = facet.source, read_tables(run)
        if run.wandb is not None and run.wandb.former and WANDB.table in read:
            by_server = self._tracker(run).best(run) is self._wandb.server
            source += "; wandb.former is joined where dir is read" if by_server else ""
        others = [
            kind.name for kind in TRACKER_KINDS.values()
            if kind.table in run.trackers and kind.table not in read
        ]  # fmt: skip
        source += f"; {' and '.join(others)} is not read beside it" if others else ""
        return facet if source == facet.source else facet.model_copy(update={"source": source})

    def _database(self, place: Place, files: PatternFiles) -> Database:
        """Return the one reader of a database that many runs may lie in."""
        with self._lock:
            if place not in self._databases:
                host = files.host(place)
                original = LocalFile(place.path) if host.here else RemoteFile(place, host)
                self._databases[place] = Database(original)
            return self._databases[place]


def _tracker(
    clock: Clock, kind: TrackerKind, adapter: Callable[[Any], Adapter], away: PatternFiles
) -> FileTracker:
    """Return a tracker whose runs are read by adapters, at one place each."""
    place_of = PLACES[kind.table]

    def sought(spec: Any) -> Place | None:  # noqa: ANN401 - of the tracker's table
        place = place_of(spec)
        return place if place is not None and place.scheme == SSH else None

    def reader(spec: Any) -> RunRows:  # noqa: ANN401
        return RunRows(
            joined(kind, spec, lambda each: RecordLog(kind, adapter(each), each.metrics))
        )

    return FileTracker(clock, kind, place_of, reader, away, sought)
