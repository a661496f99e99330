"""MLflow: one run of a tracking server, a SQLite store or an ``mlruns`` folder (SPEC S-15).

MLflow keeps a history of each metric. What was logged at one step becomes one record. Only the
metrics that the rules read are asked for: a run may have ten thousand.
"""

from __future__ import annotations

import ast
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

from cockpit.model.facet import Attempt
from cockpit.model.place import Place
from cockpit.model.run import MetricNames
from cockpit.sources.file_tracker import Adapter, Batch, Record
from cockpit.sources.metric_keys import USUAL, choose, interesting, plain_name
from cockpit.sources.run_folders import BadFileError
from cockpit.sources.run_rows import About
from cockpit.sources.trackio import LoggedRun, UnsureError, chosen, earlier_than, notes_on
from cockpit.text.safe import clean

STATES: Final = {
    "RUNNING": "running", "SCHEDULED": "starting", "FINISHED": "finished", "FAILED": "failed",
    "KILLED": "killed",
}  # fmt: skip
"""MLflow's words for what has become of a run, as a tracker's states."""
MOST_RUNS: Final = 50
"""Runs of one experiment or name that are looked at: the last that were started."""
AGAIN: Final = 60.0
"""Seconds after its end in which a run may still log: clocks differ."""
LARGEST: Final = 1.7976931348623157e308
"""A store has no infinity: it writes the largest number there is."""
MOST_ALIKE: Final = 200
"""Metrics among which those that matter are chosen, beside those of usual names."""
_SHOWN: Final = 5


class Point(NamedTuple):
    """One logged value: its time (epoch, s), its step, and the value."""

    at: float
    step: int
    value: float


class StoredRun(NamedTuple):
    """What a store says of a run; all text is foreign.

    ``names`` are all its metrics; ``newest`` has the value at its highest step of those that
    matter. ``ended`` is 0 before it has. ``version`` is another one when anything may have been
    logged, ``identity`` when the run was begun anew under its id.
    """

    id: str
    name: str
    experiment: str
    status: str
    began: float
    written: float
    ended: float = 0.0
    names: tuple[str, ...] = ()
    newest: Mapping[str, Point] = {}
    params: Mapping[str, str] = {}
    files: tuple[str, ...] = ()
    mtime: float = 0.0
    version: Hashable = None
    url: str | None = None
    notes: tuple[str, ...] = ()
    earlier: tuple[Attempt, ...] = ()
    producer: str = "MLflow"
    identity: tuple[Any, ...] = ()


class History(NamedTuple):
    """Logged values in the order of their times, each with its metric; ``more`` are there."""

    points: Sequence[tuple[str, Point]]
    cursor: Hashable
    more: bool


class Named(Protocol):
    """What says which run is meant."""

    @property
    def experiment(self) -> str | None:
        """The experiment's name or id."""

    @property
    def run(self) -> str | None:
        """The run's id or name."""


class Store(Protocol):
    """Where runs are kept. Methods block and raise ``OSError`` and ``BadFileError``."""

    pages_on: bool
    """Whether a history that was read to its end is cheap to read on."""

    def run(self, spec: Any) -> StoredRun:  # noqa: ANN401 - of the store's own kind
        """Return the run that the settings mean."""

    def history(self, run: StoredRun, names: Sequence[str], cursor: Hashable) -> History:
        """Return what was logged of these metrics behind a cursor (``None``: from the first)."""

    def ends(self, run: StoredRun, names: Sequence[str], count: int) -> list[tuple[str, Point]]:
        """Return about the last ``count`` values of each of these metrics, in any order."""


class Page(NamedTuple):
    """The next values of one metric, where its reading goes on, and whether more are there."""

    points: Sequence[Point]
    cursor: int
    more: bool


class _Reading:
    """How far each history was read, and what waits for the others."""

    def __init__(self) -> None:
        self.cursors: dict[str, int] = {}
        self.waiting: dict[str, deque[Point]] = {}
        self.behind: set[str] = set()


class Merge:
    """Makes one history of many; ``pages`` reads on in each."""

    pages_on = True

    def pages(self, run: StoredRun, asked: Mapping[str, int]) -> Mapping[str, Page]:
        """Return the next page of each metric, from a cursor of its own on (0: the first)."""
        raise NotImplementedError

    def history(self, run: StoredRun, names: Sequence[str], cursor: Hashable) -> History:
        """Return the values up to where every history is known."""
        reading = cursor if isinstance(cursor, _Reading) else _Reading()
        waiting, behind = reading.waiting, reading.behind
        lacking = [name for name in names if name in behind and not waiting[name]]
        asked = lacking or (names if not behind else ())
        found = self.pages(run, {name: reading.cursors.get(name, 0) for name in asked})
        for name, page in found.items():
            waiting.setdefault(name, deque()).extend(page.points)
            reading.cursors[name] = page.cursor
            (behind.add if page.more else behind.discard)(name)
        ends = [waiting[name][-1].at for name in behind if waiting[name]]
        until = min(ends, default=None)
        taken: list[tuple[float, int, str, Point]] = []
        for name, points in waiting.items():
            at, rank = -1.0, 0
            while points and (until is None or points[0].at <= until):
                point = points.popleft()
                at, rank = point.at, rank + 1 if point.at == at else 0
                taken.append((at, rank, name, point))
        taken.sort(key=itemgetter(0, 1))  # what has one time stays in the order of its history
        return History([each[2:] for each in taken], reading, bool(behind))


class _Cursor(NamedTuple):
    """Where a store goes on, and values of a step whose other metrics come with the next page."""

    store: Hashable
    left: tuple[tuple[str, Point], ...] = ()


class StoredLog(Adapter):
    """Reads one run of a store."""

    def __init__(self, spec: Any, store: Callable[[Any], Store]) -> None:  # noqa: ANN401
        """``store`` returns where the run is kept; it may block."""
        self._spec = spec
        self._find = store
        self._store: Store | None = None
        self._run: StoredRun | None = None

    def about(self) -> About:
        """Ask the store about the run."""
        self._store = self._find(self._spec)
        run = self._run = self._store.run(self._spec)
        return About(
            id=run.id,
            name=run.name,
            project=run.experiment,
            producer=run.producer,
            files=run.files,
            mtime=run.mtime,
            identity=(run.id, *run.identity),
            version=run.version,
            config={name: _typed(text) for name, text in run.params.items()},
            notes=run.notes,
            earlier=run.earlier,
            state=_state(run),
            url=run.url,
            metrics=run.names,
        )

    @property
    def reads_on(self) -> bool:
        """Whether the store goes on where its last answer ended."""
        return self._store is not None and self._store.pages_on

    def newest(self, count: int) -> tuple[list[Record], float]:
        """Return the last records."""
        run, names, store = self._known()
        records = joined(sorted(store.ends(run, names, count), key=lambda each: each[1][:2]))[
            -count:
        ]
        return records, 1.0 if len(records) < count else _share(records, run)

    def after(self, cursor: Hashable) -> Batch:
        """Return the records that come next; the last step may go on with the page behind it."""
        run, names, store = self._known()
        at = cursor if isinstance(cursor, _Cursor) else _Cursor(None)
        found = store.history(run, names, at.store)
        points = [*at.left, *found.points]
        begin = _last_step(points) if found.more else len(points)
        left = points[begin:] if len(points) - begin <= 2 * len(names) else []
        records = joined(points[: len(points) - len(left)])
        last = max((point.step for point in run.newest.values()), default=0)
        step = (records[-1].step or 0) if records else 0
        share = min(1.0, step / max(1, last))
        return Batch(records, _Cursor(found.cursor, tuple(left)), not found.more, share)

    def _known(self) -> tuple[StoredRun, Sequence[str], Store]:
        assert self._run is not None and self._store is not None, "it is asked about first"
        return self._run, wanted(self._run.names, self._spec.metrics), self._store


@lru_cache(maxsize=64)
def wanted(names: tuple[str, ...], configured: MetricNames) -> tuple[str, ...]:
    """Return the metrics that the rules read; of a run that has none of these a few others."""
    known = [name for name in names if plain_name(name) in USUAL]
    found = [name for name in names if interesting(name, configured)]
    shortest = sorted(found, key=lambda name: (len(name), name))[:MOST_ALIKE]
    found = [*shortest, *known]
    keys = choose([frozenset(found)], configured)
    first = (keys.step, keys.loss, keys.throughput, keys.grad_norm, *keys.other_names)
    read = dict.fromkeys(name for name in first if name in found)  # a loss may have a limit, too
    return tuple(read) or tuple(sorted(names)[:_SHOWN])


def joined(points: Iterable[tuple[str, Point]]) -> list[Record]:
    """Return records: values one after the other that have one step, and no metric twice."""
    records: list[Record] = []
    values: dict[str, float] = {}
    last, latest = None, 0.0
    for name, (at, step, value) in points:
        if step != last or name in values:
            last, latest, values = step, at, {}
            records.append(Record(step, at, values))
        elif at > latest:
            latest = at
            records[-1] = Record(step, at, values)
        values[name] = value
    return records


def _last_step(points: Sequence[tuple[str, Point]]) -> int:
    """Return where the values of the last step begin."""
    at = len(points)
    while at and points[at - 1][1].step == points[-1][1].step:
        at -= 1
    return at


def pick(runs: Sequence[StoredRun], spec: Named, where: str) -> StoredRun:
    """Return the run that is meant; raises ``FileNotFoundError`` and ``BadFileError``.

    Without ``run`` an experiment's newest, unless an earlier one that has not ended goes on.
    """
    if not runs:
        raise FileNotFoundError(missing(spec, where))
    first = max(runs, key=lambda each: each.began)
    going_on = [each for each in runs if each is first or each.status == "RUNNING"]
    logged = {_logged(each): each for each in going_on}
    try:
        run = logged[chosen(list(logged), "mlflow.run")]
    except UnsureError as error:
        raise BadFileError(f"{where}: {error}") from None
    same = sum(each.name == run.name for each in runs) - 1
    notes = notes_on([_logged(each) for each in runs], _logged(run))
    if same:
        count = f"{same} other run{'' if same == 1 else 's'}"
        notes += (f"{count} named {clean(run.name, 80)} there: not read",)
    ended = [_logged(each)._replace(written=each.ended or each.written) for each in runs]
    return run._replace(notes=notes, earlier=earlier_than(ended, _logged(run)))


def missing(spec: Named, where: str, there: Sequence[str] = ()) -> str:
    """Say that the run is not there, and what is."""
    named = "" if spec.experiment is None else f" in experiment {clean(spec.experiment, 100)}"
    what = "run" if spec.run is None else f"run {clean(spec.run, 100)}"
    shown = ", ".join(clean(each, 80) for each in there[:_SHOWN])
    return f"no {what}{named} in {where}" + (f"; there: {shown}" if shown else "")


def number_of(raw: object) -> float:
    """Return a number as JSON or a text has it; 0 for what is none, or has no end."""
    try:
        number = float(raw) if isinstance(raw, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def value_of(value: float) -> float:
    """Return a value as it was logged: where the largest number stands, infinity was meant."""
    if abs(value) < LARGEST:
        return value
    return float("inf") if value > 0 else -float("inf") if value < 0 else value


def _logged(run: StoredRun) -> LoggedRun:
    began, written = int(run.began * 1000), int(run.written * 1000)
    return LoggedRun(run.id, run.name, began, written, run.began, run.written, 1)


def _share(records: Sequence[Record], run: StoredRun) -> float:
    """Return what part of a run's steps its last records cover."""
    last = max((point.step for point in run.newest.values()), default=0)
    first = (records[0].step or 0) if records else 0
    return min(1.0, max(0, last - first + 1) / (last + 1)) if last >= 0 else 1.0


def _state(run: StoredRun) -> str | None:
    """Return what has become of a run; one that logs on after its end was taken up again."""
    last = max((point.at for point in run.newest.values()), default=0.0)
    if run.ended and last > run.ended + AGAIN:
        return "running"
    return None if not run.status else STATES.get(run.status, "unknown")


def _typed(text: str) -> object:
    """Return a parameter as the number or truth that was logged: a store has text only."""
    if text in ("None", "null"):
        return None
    try:
        value = ast.literal_eval(text) if len(text) < 40 else text
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, bool | int | float) else text


def spelled(place: Place) -> str:
    """Return a place as it is shown."""
    return clean(str(place), 300)
