"""trackio: which run of a project's database is read, and what it holds (SPEC S-15).

trackio opens and closes its database with every write, so no open file tells who lives: rows do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, TypeVar

from cockpit.model.facet import Attempt, TrackerAlert
from cockpit.model.place import Place
from cockpit.model.run import TrackioSpec
from cockpit.sources.figures import figures_in, json_of
from cockpit.sources.file_tracker import Batch, Record
from cockpit.sources.run_folders import BadFileError, PatternFiles, RunThere, beside, earlier
from cockpit.sources.run_rows import About
from cockpit.sources.sqlite_copies import Database, State
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST_RECORDS: Final = 5000
"""Records of one batch at most."""
PATIENCE: Final = 5.0
"""Usual gaps between a run's rows after which it has ended, where another one logs on."""
LEAST: Final = 180.0
"""Seconds that are waited for the next row in any case,"""
FIRST: Final = 600.0
"""and of a run with a single row, whose gaps are not known."""
_MOST_NAMED: Final = 5


class LoggedRun(NamedTuple):
    """A run by its rows: the numbers of the first and the last, their times (epoch, s), how many.

    ``key`` is what it is known by in the database: its id, its name in an older file.
    """

    key: str
    name: str
    first: int
    last: int
    began: float
    written: float
    rows: int


class UnsureError(Exception):
    """Several runs go on at once: nobody says which of them is meant."""

    def __init__(self, runs: Sequence[LoggedRun], setting: str) -> None:
        by_name = len({each.name for each in runs}) > 1
        shown = [clean(each.name if by_name else each.key, 80) for each in runs[:_MOST_NAMED]]
        more = f" and {len(runs) - _MOST_NAMED} more" if len(runs) > _MOST_NAMED else ""
        advice = f"set {setting} to the {'name' if by_name else 'id'} of one"
        super().__init__(
            f"cannot tell which run is meant: {', '.join(shown)}{more} log at once; {advice}"
        )


def chosen(runs: Sequence[LoggedRun], setting: str = "trackio.run") -> LoggedRun:
    """Return the run to read: the one begun last, unless an earlier one has logged on beside it.

    ``setting`` is what would name it. Raises ``UnsureError`` where more than one of them goes on.
    """
    newest = max(runs, key=lambda each: each.first)
    beside_it = [each for each in runs if each.last > newest.first and each is not newest]
    now = max(each.written for each in (newest, *beside_it))
    going_on = [each for each in (newest, *beside_it) if now - each.written <= _patience(each)]
    if len(going_on) > 1:
        raise UnsureError(sorted(going_on, key=lambda each: each.first, reverse=True), setting)
    return going_on[0]


def notes_on(runs: Sequence[LoggedRun], read: LoggedRun) -> tuple[str, ...]:
    """Return a line that names the runs which have logged since the one that is read was begun."""
    since = [RunThere(each.name, each.began, each.written) for each in runs if each is not read]
    own = RunThere(read.name, read.began, read.written)
    return beside([own, *(each for each in since if each.written >= own.began)], own)


def earlier_than(runs: Sequence[LoggedRun], read: LoggedRun) -> tuple[Attempt, ...]:
    """Return the runs that had logged their last before the one that is read was begun."""
    there = [RunThere(each.name, each.began, each.written) for each in runs if each is not read]
    return earlier(there, RunThere(read.name, read.began, read.written))


def _patience(run: LoggedRun) -> float:
    if run.rows < 2:
        return FIRST
    return max(LEAST, PATIENCE * (run.written - run.began) / (run.rows - 1))


SUFFIX: Final = ".db"
DATABASES: Final = f"*{SUFFIX}"
ALERTS: Final = 20
_SHOWN: Final = 5
_LONGEST: Final = 1_000_000
T = TypeVar("T")


class _Held(NamedTuple):
    """The run in one state of the file: which rows are its own, by their numbers."""

    state: State
    about: About
    where: str
    values: tuple[str, ...]
    first: int
    last: int

    def share(self, number: int) -> float:
        """Return what share of the run's rows come up to this number, as they are spread."""
        return min(1.0, max(0, number - self.first + 1) / max(1, self.last - self.first + 1))


class TrackioRun:
    """Reads one run (an ``Adapter``); ``databases`` gives the same database for the same place."""

    def __init__(
        self, spec: TrackioSpec, databases: Callable[[Place], Database], files: PatternFiles
    ) -> None:
        self._spec = spec
        self._databases = databases
        self._files = files
        self._database: Database | None = None
        self._held: _Held | None = None

    def about(self) -> About:
        """Look at the file; what has not changed is not read again."""
        database = self._database = self._databases(self._found())
        state = _sql(database, database.look)
        if self._held is None or self._held.state != state:
            self._held = _sql(database, lambda: self._read(database, state))
        return self._held.about

    reads_on = True

    def after(self, cursor: Hashable) -> Batch:
        """Return the records behind the row of this number."""
        held = self._known()
        after = cursor if isinstance(cursor, int) else held.first - 1
        rows = self._rows("id > ?", "id LIMIT ?", (after, MOST_RECORDS))
        if not rows:
            return Batch([], after or None, caught_up=True, share=1.0)
        records, skipped = _records(rows)
        last = int(rows[-1][0])
        return Batch(records, last, last >= held.last, held.share(last), skipped)

    def newest(self, count: int) -> tuple[list[Record], float]:
        """Return the run's last records."""
        held = self._known()
        rows = self._rows("1", "id DESC LIMIT ?", (count,))[::-1]
        share = 1.0 - held.share(int(rows[0][0]) - 1) if rows else 1.0
        return _records(rows)[0], share

    def _known(self) -> _Held:
        assert self._held is not None, "it is looked at first"
        return self._held

    def _rows(self, which: str, order: str, values: tuple[int, ...]) -> list[Any]:
        held, database = self._known(), self._database
        assert database is not None
        query = (  # the sign keeps SQLite from sorting the whole run for each page
            f"SELECT id, step, timestamp, metrics FROM metrics"
            f" WHERE id <= ? AND +{held.where} AND {which} ORDER BY {order}"
        )
        return _sql(database, lambda: database.rows(query, (held.last, *held.values, *values)))

    def _found(self) -> Place:
        """Return where the database is; in a folder the project's, or the only one there."""
        place, project = self._spec.db, self._spec.project
        there = _databases_at(place, self._files)
        if there is None:
            return place
        wanted = next(iter(there)) if project is None and len(there) == 1 else project
        named = next((each for each in there if each in (wanted, _file_name(wanted or ""))), None)
        if named is not None:
            return Place(place.scheme, place.host, there[named])
        shown = ", ".join(clean(each, 80) for each in sorted(there)[:_SHOWN]) or "none"
        what = "trackio.project is not set" if wanted is None else f"no project {clean(wanted)}"
        raise FileNotFoundError(f"{what} in {_spelled(place)}; there: {shown}")

    def _read(self, database: Database, state: State) -> _Held:
        columns = {str(row[1]) for row in database.rows("PRAGMA table_info(metrics)")}
        if not {"id", "step", "timestamp", "run_name", "metrics"} <= columns:
            raise BadFileError(f"{_spelled(database.place)} is not a Trackio database")
        wanted = self._spec.run
        there = list(_runs_in(database, "run_id" if "run_id" in columns else "run_name", wanted))
        if not there:
            raise FileNotFoundError(_missing(database, wanted))
        try:
            run = chosen(there)
        except UnsureError as error:
            raise BadFileError(f"{_spelled(database.place)}: {error}") from None
        where = "run_id = ?" if "run_id" in columns else "run_name = ?"
        values, first, last = [run.key], run.first, run.last
        name = wanted or run.name
        notes = notes_on(there, run) if wanted is None else _same_name(name, len(there) - 1)
        begun = database.rows("SELECT timestamp FROM metrics WHERE id = ?", (first,))
        about = About(
            id=name,
            name=run.name,
            project=self._spec.project or PurePosixPath(database.place.path).stem,
            producer="trackio",
            files=(str(database.place), f"{database.place}-wal"),
            mtime=_written(database, run, state),
            identity=(state.file[:2], *values, first, str(begun[0][0])),
            version=state,
            config=_config(database, where, values),
            alerts=tuple(_alerts(database, where, values)),
            earlier=earlier_than(there, run) if wanted is None else (),
            notes=notes,
        )
        return _Held(state, about, where, tuple(values), first, last)


def _sql(database: Database, work: Callable[[], T]) -> T:
    try:
        return work()
    except sqlite3.Error as error:
        raise BadFileError(f"{_spelled(database.place)}: {clean(error, 120)}") from None


def _databases_at(place: Place, files: PatternFiles) -> dict[str, str] | None:
    """Return the databases of a folder, path by name; ``None`` if it is none."""
    seen = files.seen(place)
    if seen.where == "file":
        return None
    there = (*(each.path for each in seen.files), *seen.unread)
    paths = sorted(there) if seen.where == "folder" else []
    return {PurePosixPath(path).stem: path for path in paths}


def _spelled(place: Place) -> str:
    return clean(str(place))


def _file_name(project: str) -> str:
    """Return how trackio names a project's file."""
    return "".join(each for each in project if each.isalnum() or each in "-_").rstrip() or "default"


def _runs_in(database: Database, key: str, wanted: str | None) -> Iterator[LoggedRun]:
    """Yield the runs of a database, or those that are called so; ``key`` is the column of ids.

    A name may be used again: each start without ``resume`` is a run of its own.
    """
    query = f"""
        SELECT found.run, newest.run_name, first, last, found.count,
               oldest.timestamp, newest.timestamp
        FROM (SELECT {key} AS run, MIN(id) AS first, MAX(id) AS last, COUNT(*) AS count
              FROM metrics GROUP BY {key}) AS found
        JOIN metrics AS oldest ON oldest.id = first
        JOIN metrics AS newest ON newest.id = last
        WHERE ?1 IS NULL OR ?1 IN (newest.run_name, found.run)
    """
    for run, name, first, last, count, began, written in database.rows(query, [wanted]):
        ends = _instant(began) or 0.0, _instant(written) or 0.0
        yield LoggedRun(str(run), str(name), int(first), int(last), *ends, int(count))


def _written(database: Database, run: LoggedRun, state: State) -> float:
    """Return when a run wrote last: where another one has logged since, the file does not tell."""
    ((newest,),) = database.rows("SELECT MAX(id) FROM metrics")
    return state.mtime if run.last == newest else min(run.written, state.mtime)


def _same_name(name: str, others: int) -> tuple[str, ...]:
    if others < 1:
        return ()
    count = f"{others} earlier run{'' if others == 1 else 's'}"
    return (f"{count} named {clean(name, 80)} in the same database: not read, the newest is",)


def _missing(database: Database, wanted: str | None) -> str:
    query = "SELECT run_name FROM metrics GROUP BY run_name ORDER BY MAX(id) DESC LIMIT ?"
    there = ", ".join(clean(row[0], 80) for row in database.rows(query, (_SHOWN,))) or "none"
    where = _spelled(database.place)
    return f"no run {clean(wanted, 80)} in {where}; there, the newest first: {there}"


def _config(database: Database, where: str, values: Sequence[str]) -> Mapping[str, object]:
    """Return what the run was configured with, without trackio's own entries."""
    with suppress(sqlite3.Error):  # a file from before there were configurations
        rows = database.rows(f"SELECT config FROM configs WHERE {where} ORDER BY id DESC", values)
        found = _json(rows[0][0]) if rows else None
        if isinstance(found, dict):
            return {name: each for name, each in found.items() if not name.startswith("_")}
    return {}


def _alerts(database: Database, where: str, values: Sequence[str]) -> Iterator[TrackerAlert]:
    query = (
        f"SELECT timestamp, level, title, text, step FROM alerts"
        f" WHERE {where} ORDER BY id DESC LIMIT ?"
    )
    rows: list[Any] = []
    with suppress(sqlite3.Error):  # a file from before there were alerts
        rows = database.rows(query, (*values, ALERTS))
    for at, level, title, text, step in rows:
        yield TrackerAlert(
            at=_instant(at),
            level=clean(level, 40),
            title=scrub(clean(title, 200)),
            text=scrub(clean(text, 500)) or None,
            step=step if isinstance(step, int) else None,
        )


def _records(rows: Sequence[Any]) -> tuple[list[Record], int]:
    """Return rows as records, and how many could not be read."""
    records: list[Record] = []
    for _, step, at, raw in rows:
        document = _json(raw)
        if isinstance(document, dict):
            number = step if isinstance(step, int) else None
            records.append(Record(number, _instant(at), figures_in(document, "/")))
    return records, len(rows) - len(records)


def _json(raw: object) -> object:
    if not isinstance(raw, str | bytes) or len(raw) > _LONGEST:
        return None
    return json_of(raw)


def _instant(raw: object) -> float | None:
    try:
        return datetime.fromisoformat(str(raw)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
