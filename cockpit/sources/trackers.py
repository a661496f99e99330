"""Which tracker tells of a run: the first one whose table the run file has (``TRACKER_TABLES``).

Beside finelog another one is read, too: it stands in where finelog does not answer.
"""

from __future__ import annotations

import math
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
    OF_A_RUN,
    TENSORBOARD,
    TRACKER_KINDS,
    TRACKIO,
    WANDB,
    Facet,
    Problem,
    TrackerKind,
)
from cockpit.model.jobs import Query
from cockpit.model.observed import TrackerValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import RunSpec
from cockpit.sources.attempts import joined
from cockpit.sources.curve_fold import NoCurveError
from cockpit.sources.curves import FileCurves, SampledCurves
from cockpit.sources.file_tracker import FileTracker
from cockpit.sources.finelog import FinelogStores, Reach
from cockpit.sources.finelog import place_in as controller_in
from cockpit.sources.mlflow import StoredLog
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
    FINELOG.table: controller_in,
}
"""Where a run is read, by the table of its tracker; W&B has more than one place."""


def places(run: RunSpec) -> tuple[str, ...]:
    """Return where a run's tracker is asked for; empty for a run that names none."""
    found: list[str] = []
    for table in read_tables(run):
        place = PLACES[table](run.trackers[table]) if table in PLACES else None
        found += wandb_places(run) if table == WANDB.table else ()
        found += () if place is None else (place.endpoint,)
    return tuple(found)


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
        self,
        clock: Clock,
        wandb: Wandb | None = None,
        call: CallHost = call_blocking,
        reach: Callable[[], Reach] | None = None,
    ) -> None:
        """``call`` calls functions of the agents of ssh hosts, ``reach`` reaches controllers."""
        self._clock = clock
        self._wandb = wandb or Wandb(clock)
        self._sampled = SampledCurves(self._wandb.server, clock)
        self._databases: dict[Place, Database] = {}
        self._lock = Lock()
        self._runs: dict[str, RunSpec] = {}
        """Each run as it was asked about last."""
        self._pairs: dict[str, Pair] = {}
        databases = AwayFolders(DATABASES, call)
        events = AwayFolders(EVENT_FILES, call, TAIL_AWAY, NAME)

        def database(place: Place) -> Database:
            return self._database(place, databases)

        stores = MlflowStores(clock, database)
        self._finelog = FinelogStores(clock, reach)
        adapters: tuple[tuple[TrackerKind, Callable[[Any], Adapter], AwayFolders], ...] = (
            (TRACKIO, lambda spec: TrackioRun(spec, database, databases), databases),
            (TENSORBOARD, lambda spec: TensorboardRun(spec, events), events),
            (MLFLOW, lambda spec: StoredLog(spec, stores.of), databases),
            (FINELOG, lambda spec: StoredLog(spec, self._finelog.of), databases),
        )
        self._kinds = {
            kind.table: _tracker(clock, kind, adapter, away) for kind, adapter, away in adapters
        }

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> dict[str, Facet[TrackerValue]]:
        """Return what is said ``at`` a place (or everywhere) of each run; never raises."""
        asked = [
            (tracker, query)
            for query in queries
            for tracker in self._read(query.run)
            if at is None or tracker is self._at(query.run, at)
        ]
        for query in queries:
            self._runs[query.name] = query.run
            if query.run.finelog is not None:
                job = query.run.job
                self._finelog.know_job(query.run.finelog, None if job is None else job.id)
        found: dict[str, Facet[TrackerValue]] = {}
        for tracker in {id(each): each for each, _ in asked}.values():
            own = [query for each, query in asked if each is tracker]
            if isinstance(tracker, Wandb):
                answers = await tracker.observe(own, at)
            else:
                answers = await tracker.observe(own)
            for query in own:
                answer = answers[query.name]
                found[query.name] = (
                    self._paired(query.run, tracker, answer) if at is None else answer
                )
        return found

    def join(
        self, at: str, answers: Mapping[str, Facet[TrackerValue]]
    ) -> dict[str, Facet[TrackerValue]]:
        """Return the facet of each run, of which one place has answered."""
        joined = {}
        for name, answer in answers.items():
            run = self._runs.get(name)
            tracker = self._wandb if run is None else self._at(run, at)
            if tracker is self._wandb:
                answer = tracker.join(at, {name: answer})[name]
            joined[name] = answer if run is None else self._paired(run, tracker, answer)
        return joined

    async def more_rows(self, run: RunSpec) -> RowChunk:
        """Return the next rows in order, from the very first, then only what is new."""
        await self.settle(run)
        return await self._of(run).more_rows(run)

    async def settle(self, run: RunSpec) -> None:
        """Ask a run's trackers once, where it has two: then the one that answers is read."""
        if len(self._read(run)) > 1 and run.name not in self._pairs:
            await self.observe([Query(run=run)])

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
        for name in names:
            self._pairs.pop(name, None)
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
        found = FileCurves(make, spec.metrics, make(spec.metrics).names, self._clock.monotonic)
        found.tracker = tracker
        return found

    def curve_server(self, run: RunSpec) -> SampledCurves:
        """Return who asks the run's server."""
        return self._sampled

    def _of(self, run: RunSpec) -> Wandb | FileTracker:
        """Return what gives out a run's rows; after a change, all of them from the first one."""
        trackers, pair = self._read(run), self._pairs.get(run.name)
        if pair is None:
            return trackers[0]
        tracker = trackers[pair.stands_in]
        if pair.gives != pair.stands_in:
            tracker.rewind(run.name)
            pair.gives = pair.stands_in
        return tracker

    def _read(self, run: RunSpec) -> Sequence[Wandb | FileTracker]:
        tables = read_tables(run) or (WANDB.table,)
        return [self._kinds.get(table, self._wandb) for table in tables]

    def _at(self, run: RunSpec, at: str) -> Wandb | FileTracker:
        """Return which of a run's trackers is asked at a place."""
        first, *others = self._read(run)
        if not others or run.finelog is None:
            return first
        controller = controller_in(run.finelog)
        return first if controller is not None and controller.endpoint == at else others[0]

    def _paired(
        self, run: RunSpec, tracker: Wandb | FileTracker, answer: Facet[TrackerValue]
    ) -> Facet[TrackerValue]:
        """Return the facet that the answers of a run's trackers make."""
        trackers = self._read(run)
        alone = tracker is self._wandb and run.wandb is not None and run.wandb.former
        if alone and not self._wandb.seen_in_files(run):
            source = f"{answer.source}; wandb.former is joined where dir is read"
            answer = answer.model_copy(update={"source": source})
        if len(trackers) > 1:
            pair = self._pairs.setdefault(run.name, Pair())
            answer = pair.joined(answer, tracker is trackers[0], self._clock.monotonic())
        return _beside(run, answer)

    def _database(self, place: Place, away: AwayFolders) -> Database:
        """Return the one reader of a database that many runs may lie in."""
        with self._lock:
            if place not in self._databases:
                host = None if place.here else away.host(place)
                original = LocalFile(place.path) if host is None else RemoteFile(place, host)
                self._databases[place] = Database(original)
            return self._databases[place]


PATIENCE: Final = 600.0
"""Seconds for which finelog may fail to answer before another tracker stands in."""
LEAD: Final = 300.0
"""Seconds by which the other tracker's last step is newer where finelog has lost its writer."""
_OF_THE_OTHER: Final = (
    "id", "name", "entity", "project", "url", "config", "config_since", "git_commit",
    "slurm_job_id", "alerts",
)  # fmt: skip
"""What finelog does not know."""


class Pair:
    """What finelog and another tracker have said last of one run, and which one it is read by."""

    def __init__(self) -> None:
        self.stands_in = False
        """Whether the other one is."""
        self.gives = False
        self._first: Facet[TrackerValue] | None = None
        self._other: Facet[TrackerValue] | None = None
        self._answered = -math.inf

    def joined(
        self, answer: Facet[TrackerValue], of_finelog: bool, now: float
    ) -> Facet[TrackerValue]:
        """Take an answer in, and return the facet of the run."""
        if of_finelog:
            self._first = answer
            self._answered = now if answer.known else self._answered
        else:
            self._other = answer
        first, other = self._first, self._other
        if first is None or other is None:
            return answer
        if first.value is not None and first.known:
            return self._by_finelog(first, first.value, other)
        assert first.error is not None, "no value without a reason"
        if not other.known:
            why = f"{first.error.message}; {other.why_unknown('no answer')}"
            return first.model_copy(update={"error": Problem(kind=first.error.kind, message=why)})
        if first.error.kind not in OF_A_RUN and now - self._answered < PATIENCE:
            return first
        self.stands_in = True
        return other.model_copy(update={"source": f"{other.source}; {first.error.message}"})

    def _by_finelog(
        self, first: Facet[TrackerValue], value: TrackerValue, other: Facet[TrackerValue]
    ) -> Facet[TrackerValue]:
        its = other.value
        self.stands_in = other.known and its is not None and _leads(its, value)
        if self.stands_in:
            source = f"{other.source}, ahead of {first.source}"
            return other.model_copy(update={"source": source})
        if its is None:
            return first.model_copy(update={"source": f"{first.source}; {other.why_unknown('')}"})
        known = {name: getattr(its, name) or getattr(value, name) for name in _OF_THE_OTHER}
        source = f"{first.source}, preferred to {other.source}"
        return first.model_copy(update={"value": value.model_copy(update=known), "source": source})


def _leads(one: TrackerValue, other: TrackerValue) -> bool:
    """Tell whether ``one`` shows newer steps: its last one is newer, and another.

    After a resume from an earlier checkpoint a newer step has a lower number.
    """
    times, steps = (one.last_step_at, other.last_step_at), (one.step, other.step)
    if None in times or None in steps:
        return other.last_step_at is None and one.last_step_at is not None
    return times[0] > times[1] + LEAD and steps[0] != steps[1]  # type: ignore[operator]


def _tracker(
    clock: Clock, kind: TrackerKind, adapter: Callable[[Any], Adapter], away: AwayFolders
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


def _beside(run: RunSpec, facet: Facet[TrackerValue]) -> Facet[TrackerValue]:
    """Return the facet; its source names the trackers that are not read beside this one."""
    read = read_tables(run)
    others = [
        kind.name for kind in TRACKER_KINDS.values()
        if kind.table in run.trackers and kind.table not in read
    ]  # fmt: skip
    if not others:
        return facet
    source = f"{facet.source}; {' and '.join(others)} is not read beside it"
    return facet.model_copy(update={"source": source})
