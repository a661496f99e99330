"""Which tracker tells of a run: the first one whose table the run file has (``TRACKER_TABLES``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.clock import Clock
from cockpit.model.facet import MLFLOW, TENSORBOARD, TRACKER_KINDS, TRACKIO, Facet, TrackerKind
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import RunSpec
from cockpit.sources.curve_fold import NoCurveError
from cockpit.sources.curves import FileCurves, SampledCurves
from cockpit.sources.file_tracker import FileTracker
from cockpit.sources.mlflow import MlflowRun
from cockpit.sources.mlflow_server import MlflowStores, place_in
from cockpit.sources.rowlog import Adapter, RecordLog
from cockpit.sources.run_folders import AwayFolders
from cockpit.sources.run_rows import RunRows
from cockpit.sources.sqlite_copies import Database, LocalFile, RemoteFile
from cockpit.sources.tensorboard import EVENT_FILES, NAME, TAIL_AWAY, TensorboardRun
from cockpit.sources.trackio import DATABASES, TrackioRun
from cockpit.sources.wandb.history import RowChunk
from cockpit.sources.wandb.tracker import Wandb
from cockpit.sources.wandb.tracker import places as wandb_places

PLACES: Final[dict[str, Callable[[Any], Place | None]]] = {
    "trackio": lambda spec: spec.db,
    "tensorboard": lambda spec: spec.dir,
    "mlflow": lambda spec: place_in(spec, os.environ),
}
"""Where a run is read, by the table of its tracker; W&B has more than one place."""


def places(run: RunSpec) -> tuple[str, ...]:
    """Return where a run's tracker is asked for; empty for a run that names none."""
    table = next(iter(run.trackers), None)
    if table is None or run.wandb is not None:
        return wandb_places(run)
    place = PLACES[table](run.trackers[table])
    return () if place is None else (place.endpoint,)


def folders(run: RunSpec) -> tuple[str, ...]:
    """Return what of this machine is watched for news of a run's tracker, beside its files."""
    if not run.trackers or (run.job is not None and run.job.host is not None):
        return ()  # the dir may be there, as it was written
    table, spec = next(iter(run.trackers.items()))
    named = run.wandb.dir if run.wandb is not None else PLACES[table](spec)
    return (named.path,) if named is not None and named.here else ()


class Trackers:
    """The tracker of every run; one tells of a run, and the facet's source says which."""

    def __init__(
        self, clock: Clock, wandb: Wandb | None = None, call: CallHost = call_blocking
    ) -> None:
        """``call`` calls functions of the agents of ssh hosts."""
        self._clock = clock
        self._wandb = wandb or Wandb(clock)
        self._sampled = SampledCurves(self._wandb.server, clock)
        self._databases: dict[Place, Database] = {}
        self._lock = Lock()
        self._told_by_wandb: dict[str, bool] = {}
        databases = AwayFolders(DATABASES, call)
        events = AwayFolders(EVENT_FILES, call, TAIL_AWAY, NAME)

        def database(place: Place) -> Database:
            return self._database(place, databases)

        stores = MlflowStores(clock, database)
        adapters: tuple[tuple[TrackerKind, Callable[[Any], Adapter], AwayFolders], ...] = (
            (TRACKIO, lambda spec: TrackioRun(spec, database, databases), databases),
            (TENSORBOARD, lambda spec: TensorboardRun(spec, events), events),
            (MLFLOW, lambda spec: MlflowRun(spec, stores.of), databases),
        )
        self._kinds = {
            kind.table: _tracker(clock, kind, adapter, away) for kind, adapter, away in adapters
        }

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> dict[str, Facet[TrackerValue]]:
        """Return what is said ``at`` a place (or everywhere) of each run; never raises."""
        groups: dict[int, list[Query]] = {}
        of = [self._of(query.run) for query in queries]
        for query, tracker in zip(queries, of, strict=True):
            self._told_by_wandb[query.name] = tracker is self._wandb
            groups.setdefault(id(tracker), []).append(query)
        found: dict[str, Facet[TrackerValue]] = {}
        for tracker in {id(each): each for each in of}.values():
            own = groups[id(tracker)]
            if isinstance(tracker, Wandb):
                found |= await tracker.observe(own, at)
            else:
                answers = await tracker.observe(own)
                found |= {each.name: _beside(each.run, answers[each.name]) for each in own}
        return found

    def join(
        self, at: str, answers: Mapping[str, Facet[TrackerValue]]
    ) -> dict[str, Facet[TrackerValue]]:
        """Return the facet of each run, of which one place has answered."""
        of_wandb = {
            name: answer for name, answer in answers.items() if self._told_by_wandb.get(name, True)
        }
        return {**answers, **self._wandb.join(at, of_wandb)}

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next rows in order, from the very first, then only what is new."""
        return await self._of(run).more_rows(run)

    def may_have_rows(self, run: RunSpec) -> bool:
        """Return whether ``more_rows`` might give any, as the last look found its source."""
        return self._of(run).may_have_rows(run)

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:
        """Return the newest rows, without those before them."""
        return await self._of(run).recent(run, rows)

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew with runs: the next rows of each are its first ones."""
        names = tuple(names)
        self._wandb.forget(names)
        for tracker in self._kinds.values():
            tracker.forget(names)

    def curve_files(self, run: RunSpec) -> FileCurves | None:
        """Return a reader of all that the run's files hold; ``None``: its server is asked.

        Raises ``NoCurveError`` where nothing can be read.
        """
        tracker = self._of(run)
        if isinstance(tracker, Wandb):
            if run.wandb is None:
                raise NoCurveError("no tracker in cockpit.toml: nothing else read here has metrics")
            if not tracker.seen_in_files(run):
                return None
            tracker = tracker.files
        why = tracker.why_not_read(run)
        if why:
            raise NoCurveError(why)
        spec: Any = tracker.spec(run)
        make = partial(tracker.reader, spec)
        return FileCurves(make, spec.metrics, make(spec.metrics).names, self._clock.monotonic)

    def curve_server(self, run: RunSpec) -> SampledCurves:
        """Return who asks the run's server."""
        return self._sampled

    def _of(self, run: RunSpec) -> Wandb | FileTracker:
        return self._kinds.get(next(iter(run.trackers), ""), self._wandb)

    def _database(self, place: Place, away: AwayFolders) -> Database:
        """Return the one reader of a database that many runs may lie in."""
        with self._lock:
            if place not in self._databases:
                host = None if place.here else away.host(place)
                original = LocalFile(place.path) if host is None else RemoteFile(place, host)
                self._databases[place] = Database(original)
            return self._databases[place]


def _tracker(
    clock: Clock, kind: TrackerKind, adapter: Callable[[Any], Adapter], away: AwayFolders
) -> FileTracker:
    """Return a tracker whose runs are read by adapters, at one place each."""
    place_of = PLACES[kind.table]

    def sought(spec: Any) -> Place | None:  # noqa: ANN401 - of the tracker's table
        place = place_of(spec)
        return place if place is not None and place.scheme == SSH else None

    def reader(spec: Any) -> RunRows:  # noqa: ANN401
        return RunRows(RecordLog(kind, adapter(spec), spec.metrics))

    return FileTracker(clock, kind, place_of, reader, away, sought)


def _beside(run: RunSpec, facet: Facet[TrackerValue]) -> Facet[TrackerValue]:
    """Return the facet; its source names the trackers that are not read beside this one."""
    others = [kind.name for kind in TRACKER_KINDS.values() if kind.table in [*run.trackers][1:]]
    if not others:
        return facet
    source = f"{facet.source}; {' and '.join(others)} is not read beside it"
    return facet.model_copy(update={"source": source})
