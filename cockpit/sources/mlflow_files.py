"""MLflow's own stores on disk: a SQLite file, and an ``mlruns`` folder."""

from __future__ import annotations

import ast
import math
import os
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from cockpit.model.place import Place
from cockpit.model.run import MlflowSpec
from cockpit.runtime.mounts import is_folder, open_regular
from cockpit.sources.mlflow import (
    MOST_RUNS,
    History,
    Merge,
    Page,
    Point,
    StoredRun,
    missing,
    number_of,
    pick,
    spelled,
    value_of,
    wanted,
)
from cockpit.sources.run_folders import BadFileError
from cockpit.sources.sqlite_copies import Database, State
from cockpit.text.safe import clean

WINDOW: Final = 20_000
"""Rows of the whole store that one query looks through: a tenth of a second, if all are wanted."""
LAST: Final = 400_000
"""Rows at the store's end in which a run's last ones are looked for."""
_POINT: Final = """
CAST(key AS TEXT), COALESCE(CAST(timestamp AS REAL), 0) / 1000, COALESCE(CAST(step AS INTEGER), 0),
CASE WHEN is_nan THEN NULL ELSE CAST(value AS REAL) END
"""
_NEEDED: Final = {
    "runs": {"run_uuid", "name", "experiment_id", "status", "start_time", "lifecycle_stage"},
    "metrics": {"key", "value", "timestamp", "run_uuid", "step", "is_nan"},
    "latest_metrics": {"key", "value", "timestamp", "run_uuid", "step", "is_nan"},
}
_RUNS: Final = """
SELECT r.run_uuid, COALESCE(NULLIF(r.name, ''), t.value, r.run_uuid), e.name, r.status,
       r.start_time, r.end_time,
       (SELECT MAX(timestamp) FROM latest_metrics l WHERE l.run_uuid = r.run_uuid)
FROM runs r JOIN experiments e USING (experiment_id)
LEFT JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'mlflow.runName'
WHERE r.lifecycle_stage = 'active'
  AND (?1 IS NULL OR e.name = ?1 OR CAST(e.experiment_id AS TEXT) = ?1)
  AND (?2 IS NULL OR r.run_uuid = ?2 OR r.name = ?2 OR t.value = ?2)
ORDER BY r.start_time DESC LIMIT ?3
"""


T = TypeVar("T")


class SqliteStore:
    """A store of ``sqlite:///mlflow.db``; rows are read in the order in which they came."""

    pages_on = True

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: dict[tuple[str | None, str | None], StoredRun] = {}

    def run(self, spec: MlflowSpec) -> StoredRun:
        """Return the run; what has not changed is not read again."""
        state = self._asked(self._database.look)
        held = self._held.get((spec.experiment, spec.run))
        if held is None or held.version != state:
            held = self._asked(lambda: self._read(spec, state))
            self._held[spec.experiment, spec.run] = held
        return held

    def history(self, run: StoredRun, names: Sequence[str], cursor: Hashable) -> History:
        """Return the rows behind the row of this number."""
        ((low, last),) = self._rows(
            "SELECT (SELECT MIN(rowid) FROM metrics WHERE run_uuid = ?), MAX(rowid) FROM metrics",
            (run.id,),
        )
        at = cursor if isinstance(cursor, int) else (low or 1) - 1
        points: list[tuple[str, Point]] = []
        while not points and at < (last or 0):
            points = self._points(run, names, (at, at + WINDOW), "rowid")
            at += WINDOW
        return History(points, min(at, last or 0), at < (last or 0))

    def ends(self, run: StoredRun, names: Sequence[str], count: int) -> list[tuple[str, Point]]:
        """Return the run's last rows."""
        ((last,),) = self._rows("SELECT MAX(rowid) FROM metrics WHERE run_uuid = ?", (run.id,))
        limit = f"rowid DESC LIMIT {count * max(1, len(names))}"
        at = last or 0
        return self._points(run, names, (at - LAST, at), limit)[::-1]

    def _points(
        self, run: StoredRun, names: Sequence[str], span: tuple[int, int], order: str
    ) -> list[tuple[str, Point]]:
        marks = ", ".join("?" * len(names))
        query = (  # the sign keeps SQLite to the index of runs, whose rows are in order
            f"SELECT {_POINT} FROM metrics WHERE run_uuid = ?"
            f" AND +key IN ({marks}) AND rowid > ? AND rowid <= ? ORDER BY {order}"
        )
        return _points_of(self._rows(query, (run.id, *names, *span)))

    def _read(self, spec: MlflowSpec, state: State) -> StoredRun:
        where = spelled(self._database.place)
        for table, columns in _NEEDED.items():
            found = {str(row[1]) for row in self._database.rows(f"PRAGMA table_info({table})")}
            if not columns <= found:
                raise BadFileError(f"{where} is not an MLflow database")
        rows = self._database.rows(_RUNS, (spec.experiment, spec.run, MOST_RUNS))
        if not rows:
            there = self._database.rows("SELECT name FROM experiments LIMIT 6")
            raise FileNotFoundError(missing(spec, where, [str(row[0]) for row in there]))
        run = pick([self._stored(row, state) for row in rows], spec, where)
        newest = self._database.rows(
            f"SELECT {_POINT} FROM latest_metrics WHERE run_uuid = ?", (run.id,)
        )
        params = self._database.rows("SELECT key, value FROM params WHERE run_uuid = ?", (run.id,))
        return run._replace(
            names=tuple(str(row[0]) for row in newest),
            newest=dict(_points_of(newest)),
            params={str(key): str(value) for key, value in params},
        )

    def _stored(self, row: Sequence[Any], state: State) -> StoredRun:
        began, ended, latest = (number_of(each) / 1000 for each in (row[4], row[5], row[6]))
        written = latest or began
        run, name, experiment, status = map(str, row[:4])
        place = self._database.place
        return StoredRun(
            run, name, experiment, status, began, written, files=(str(place), f"{place}-wal"),
            mtime=min(state.mtime, written), version=state, ended=ended,
        )  # fmt: skip

    def _rows(self, query: str, values: Sequence[object]) -> list[Any]:
        return self._asked(lambda: self._database.rows(query, values))

    def _asked(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, BadFileError):
                raise
            where = spelled(self._database.place)
            raise BadFileError(f"{where}: {clean(error, 120)}") from None


def _points_of(rows: Iterable[Sequence[Any]]) -> list[tuple[str, Point]]:
    nan = math.nan
    return [
        (name, Point(at, step, nan if value is None else value_of(value)))
        for name, at, step, value in rows
    ]


MOST_READ: Final = 262_144
"""Bytes of one metric's file that are read at once: some eight thousand values."""
METRICS: Final = "metrics"
LINE: Final = 64
"""Bytes of a value's line, about."""
MOST_FILES: Final = 20_000
MOST_MEASURED: Final = 100
"""Metrics whose files tell when a run has logged last."""
_STATUS: Final = {"1": "RUNNING", "2": "SCHEDULED", "3": "FINISHED", "4": "FAILED", "5": "KILLED"}


class _Meta(NamedTuple):
    """A run's folder, and its ``meta.yaml``: a line for each setting."""

    folder: Path
    experiment: str
    settings: Mapping[str, str]


class FolderStore(Merge):
    """An ``mlruns`` folder: ``EXPERIMENT/RUN/metrics/NAME`` has a line for each value."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._metas: dict[str, tuple[int, Mapping[str, str]]] = {}

    def run(self, spec: MlflowSpec) -> StoredRun:
        """Return the run, by its files as they are now."""
        root, where = Path(self._place.path), spelled(self._place)
        if not is_folder(root):
            raise FileNotFoundError(f"there is no {where}")
        metas = [each for each in self._runs(root, spec) if _is_meant(each, spec)]
        metas.sort(key=lambda each: number_of(each.settings.get("start_time")), reverse=True)
        if not metas:
            there = [str(each.get("name")) for _, each in self._experiments(root)]
            raise FileNotFoundError(missing(spec, where, there))
        found = {each.folder: _stored(each) for each in metas[:MOST_RUNS]}
        run = pick(list(found.values()), spec, where)
        folder = next(path for path in found if path.name == run.id)
        names = tuple(_names(folder / METRICS))
        own = {name: folder / METRICS / name for name in wanted(names, spec.metrics)}
        newest = {name: points[-1] for name, path in own.items() if (points := _last(path, 1))}
        return run._replace(
            names=names,
            newest=newest,
            params={name: _text(folder / "params" / name) for name in _names(folder / "params")},
            mtime=max((_status(path).st_mtime for path in own.values()), default=run.written),
            version=(run.status, tuple((name, _status(own[name]).st_size) for name in own)),
            files=(str(folder),),
        )

    def pages(self, run: StoredRun, asked: Mapping[str, int]) -> Mapping[str, Page]:
        """Return the values behind an offset of each metric's file."""
        folder = Path(run.files[0], METRICS)
        return {name: _page(folder / name, at) for name, at in asked.items()}

    def ends(self, run: StoredRun, names: Sequence[str], count: int) -> list[tuple[str, Point]]:
        """Return the values at the end of each metric's file."""
        folder = Path(run.files[0], METRICS)
        return [(name, point) for name in names for point in _last(folder / name, count)]

    def _experiments(self, root: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
        for path in sorted(root.iterdir())[:MOST_FILES]:
            settings = self._meta(path)
            if settings is not None and "experiment_id" in settings:
                yield path, settings

    def _runs(self, root: Path, spec: MlflowSpec) -> Iterator[_Meta]:
        for folder, experiment in self._experiments(root):
            name = experiment.get("name", folder.name)
            if spec.experiment not in (None, name, folder.name):
                continue
            for path in sorted(folder.iterdir())[:MOST_FILES]:
                settings = self._meta(path)
                if settings is not None and settings.get("lifecycle_stage") == "active":
                    yield _Meta(path, name, settings)

    def _meta(self, folder: Path) -> Mapping[str, str] | None:
        """Return the settings of a folder; what has not changed is not read again."""
        path = folder / "meta.yaml"
        with suppress(OSError):
            changed = path.stat().st_mtime_ns
            former = self._metas.get(str(folder))
            if former is None or former[0] != changed:
                former = (changed, dict(_settings(_text(path))))
                self._metas[str(folder)] = former
            return former[1]
        return None


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of a ``meta.yaml``: MLflow writes one flat mapping."""
    for line in text.splitlines():
        name, sign, value = line.partition(":")
        if sign and not name.startswith((" ", "-")):
            yield name, _unquoted(value.strip())


def _unquoted(value: str) -> str:
    if value[:1] == "'":
        return value[1:-1].replace("''", "'")
    with suppress(ValueError, SyntaxError):
        return str(ast.literal_eval(value)) if value[:1] == '"' else value
    return value


def _is_meant(meta: _Meta, spec: MlflowSpec) -> bool:
    return spec.run in (None, meta.folder.name, meta.settings.get("run_name"))


def _stored(meta: _Meta) -> StoredRun:
    told, folder = meta.settings, meta.folder
    began = number_of(told.get("start_time")) / 1000
    some = [folder / METRICS / name for name in islice(_names(folder / METRICS), MOST_MEASURED)]
    return StoredRun(
        folder.name, told.get("run_name", folder.name), meta.experiment,
        _STATUS.get(told.get("status", ""), told.get("status", "")), began,
        max((_status(path).st_mtime for path in some), default=began),
        ended=number_of(told.get("end_time")) / 1000,
    )  # fmt: skip


def _names(folder: Path) -> Iterator[str]:
    """Yield the paths of the files below a folder: the slashes of a metric's name are folders."""
    left, begin = MOST_FILES, len(str(folder)) + 1
    for where, _, names in os.walk(folder):
        for name in names[:left]:
            yield f"{where}/{name}"[begin:]
        left -= len(names)
        if left <= 0:
            return


def _page(path: Path, at: int) -> Page:
    with open_regular(str(path)) as (file, status):
        data = os.pread(file, MOST_READ, at)
    whole = data[: data.rfind(b"\n") + 1]
    return Page(_points(whole), at + len(whole), bool(whole) and at + len(whole) < status.st_size)


def _last(path: Path, count: int) -> list[Point]:
    with suppress(OSError), open_regular(str(path)) as (file, status):
        begin = max(0, status.st_size - LINE * (count + 1))
        data = os.pread(file, status.st_size - begin, begin)
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        return _points(b"".join(lines if begin == 0 else lines[1:]))[-count:]
    return []


def _points(data: bytes) -> list[Point]:
    """Return the values of whole lines (time in ms, value, step), without what is no such line."""
    points = []
    for line in data.splitlines():
        words = line.split()
        with suppress(ValueError, IndexError, OverflowError):
            step = int(words[2]) if len(words) > 2 else 0
            points.append(Point(int(words[0]) / 1000, step, value_of(float(words[1]))))
    return points


def _status(path: Path) -> os.stat_result:
    with suppress(OSError):
        return path.stat()
    return os.stat_result((0,) * 10)


def _text(path: Path) -> str:
    with suppress(OSError), open_regular(str(path)) as (file, _):
        return os.pread(file, 1 << 16, 0).decode("utf-8", "replace")
    return ""
