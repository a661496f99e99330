"""finelog: what a Levanter run reports through its Iris controller, asked by SQL (SPEC S-18).

``levanter.metrics`` holds one row for each metric and step; the server numbers them (``seq``). A
run that never wrote there is read by the status lines of its job's tasks (``iris.task_status``).
Answers are Arrow, which the extra ``finelog`` of this package reads.
"""

from __future__ import annotations

import base64
import importlib
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, Protocol

from cockpit.model.base import step_of
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place, place_of
from cockpit.model.run import FinelogSpec, JobSpec, MetricNames
from cockpit.runtime.http import BlockingHttp, Http, HttpError
from cockpit.sources.logs.remote import HostError
from cockpit.sources.metric_keys import USUAL
from cockpit.sources.mlflow import History, Point, StoredRun
from cockpit.text.safe import clean

SERVICE: Final = "proxy/system.log-server/finelog.stats.StatsService"
METRICS: Final = '"levanter.metrics"'
STATUS: Final = '"iris.task_status"'
EXTRA: Final = "pip install 'run-cockpit[finelog]'"
FRESH: Final = 5.0
"""Seconds for which an answer about runs is used again."""
WATCHED: Final = 600.0
"""Seconds after which a run that nobody has asked about is not asked about any more."""
PAGE: Final = 50_000
"""Values in one answer."""
DEADLINE: Final = 8.0
CAP: Final = 64_000_000
"""Bytes of one answer."""
LOSS: Final = "train/loss"
RATE: Final = "throughput/tokens_per_second"
_SHOWN: Final = 5
_COUNTED: Final = "value IS NOT NULL AND step IS NOT NULL"
_AT: Final = "CAST(date_part('epoch', {}(ts)) AS DOUBLE)"
_LINE: Final = "status_text_summary_md"
_STATUS_LINE: Final = re.compile(
    r"step (?P<step>[\d,]+)/[\d,]+.*?(?: · loss (?P<loss>[-+.\w]+))?"
    r"(?: · (?P<rate>[\d.,]+)(?P<unit>[kM]?) tok/s)?$"
)
"""As in ``step 89/400 (22.2%) · loss 0.055 · 20.9k tok/s``."""
_UNITS: Final = {"": 1.0, "k": 1e3, "M": 1e6}
_UNREADABLE: Final = (RuntimeError, ValueError, TypeError, LookupError, OSError, EOFError)
"""What the Arrow library raises for bytes that it cannot read."""


class Controller(Protocol):
    """An Iris controller, asked as the person who runs the cockpit."""

    async def call(
        self, method: str, body: Mapping[str, object], *, service: str
    ) -> dict[str, Any]:
        """Return the document that a method answers with; raises ``HttpError``."""


Reach = Callable[[Http, JobSpec], Controller]
"""Returns a job's controller; raises ``HttpError`` where it cannot be asked at all."""


class _Known:
    """What is known of one run in a table; ``since`` tells a table that was begun anew."""

    def __init__(self, table: str, since: int, task: str = "") -> None:
        self.table = table
        self.since = since
        self.task = task
        self.seq = -1
        self.began = math.inf
        self.written = 0.0
        self.steps: dict[str, int] = {}
        """The highest step of each metric, by its name there."""

    def take(self, name: str, seq: int, began: float, written: float, step: int) -> None:
        """Take in what is new of one metric."""
        self.seq = max(self.seq, seq)
        self.began, self.written = min(self.began, began), max(self.written, written)
        self.steps[name] = max(self.steps.get(name, 0), step)


class FinelogServer:
    """The finelog of one controller; safe from any thread. Methods block and raise ``OSError``."""

    pages_on = True

    def __init__(self, clock: Clock, job: JobSpec, reach: Reach, jobs: Mapping[str, str]) -> None:
        """``jobs`` are the current jobs of runs, where they are known."""
        self._clock = clock
        self._job = job
        self._reach = reach
        self._jobs = jobs
        self._http = BlockingHttp(clock, DEADLINE, CAP)
        self._lock = Lock()
        self._asked: dict[str, float] = {}
        self._metrics: dict[str, _Known] = {}
        self._told: dict[str, _Known | OSError] = {}
        self._told_at = -math.inf
        self._begun = 0

    def run(self, spec: FinelogSpec) -> StoredRun:
        """Return the run; all that were asked about lately are asked about together."""
        name = spec.run or ""
        with self._lock:
            now = self._clock.monotonic()
            self._asked[name] = now
            if name not in self._told or now - self._told_at > FRESH:
                self._asked = {run: at for run, at in self._asked.items() if now - at <= WATCHED}
                self._told = self._ask_all(list(self._asked))
                self._told_at = self._clock.monotonic()
            found = self._told[name]
        if isinstance(found, OSError):
            raise found
        return self._stored(name, found, spec.metrics)

    def history(self, run: StoredRun, names: Sequence[str], cursor: Hashable) -> History:
        """Return the next values of these metrics, in the order in which they came."""
        after = cursor if isinstance(cursor, int) else -1
        rows = self._values(run, names, f"seq > {after} ORDER BY seq", PAGE)
        points = _points(rows, names)
        return History(points, rows[-1][0] if rows else after, len(rows) >= PAGE)

    def ends(self, run: StoredRun, names: Sequence[str], count: int) -> list[tuple[str, Point]]:
        """Return about the last ``count`` values of each of these metrics."""
        most = min(PAGE, count * max(1, len(names)))
        return _points(self._values(run, names, "true ORDER BY seq DESC", most)[::-1], names)

    def query(self, sql: str, *columns: Callable[[Any], Any]) -> list[tuple[Any, ...]]:
        """Return an answer's rows, each column as its type; none where there is no such table."""

        async def asked(http: Http) -> dict[str, Any]:
            return await self._reach(http, self._job).call("Query", {"sql": sql}, service=SERVICE)

        try:
            return rows_of(self._http.run(asked), columns)
        except HttpError as error:
            if error.status == 400 and "not found" in str(error):
                return []
            raise HostError(error.kind, str(error)) from None

    def _ask_all(self, names: Sequence[str]) -> dict[str, _Known | OSError]:
        """Return what is known of each run, or the ``OSError`` that says why nothing is."""
        try:
            self._look(names)
        except OSError as error:
            return dict.fromkeys(names, error)
        found: dict[str, _Known | OSError] = {}
        for name in names:
            try:
                found[name] = self._metrics.get(name) or self._by_status(name)
            except OSError as error:
                found[name] = error
        return found

    def _look(self, names: Sequence[str]) -> None:
        """Ask what is new of runs. The newest row that was seen has to come again."""
        rows = self._new(names)
        newest: dict[str, int] = {}
        for run, _, seq, *_ in rows:
            newest[run] = max(seq, newest.get(run, -1))
        lost = [
            name for name in names
            if name in self._metrics and newest.get(name, -1) < self._metrics[name].seq
        ]  # fmt: skip
        if lost:  # the table was begun anew, and its numbers
            self._begun += 1
            for name in lost:
                del self._metrics[name]
            rows = [row for row in rows if row[0] not in lost] + self._new(lost)
        for run, *row in rows:
            if run not in self._metrics:
                self._metrics[run] = _Known(METRICS, self._begun)
            self._metrics[run].take(*row)

    def _new(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        known = {name: self._metrics[name].seq for name in names if name in self._metrics}
        which = (f"(run_id = {_text(name)} AND seq >= {known.get(name, 0)})" for name in names)
        return self.query(
            "SELECT run_id, name, max(seq), min(timestamp_ms) / 1000.0,"
            f" max(timestamp_ms) / 1000.0, max(step) FROM {METRICS}"
            f" WHERE {_COUNTED} AND ({' OR '.join(which)}) GROUP BY run_id, name",
            str, str, int, float, float, int,
        )  # fmt: skip

    def _by_status(self, name: str) -> _Known:
        """Return what the job's first task that reports its steps has said."""
        job = self._jobs.get(name)
        rows = [] if job is None else self.query(
            f"SELECT task_id, max(seq), {_AT.format('min')}, {_AT.format('max')},"
            f" last_value({_LINE} ORDER BY seq) FROM {STATUS}"
            f" WHERE starts_with(task_id, {_text(job + '/')}) AND starts_with({_LINE}, 'step ')"
            " GROUP BY task_id ORDER BY task_id LIMIT 1",
            str, int, float, float, str,
        )  # fmt: skip
        if not rows:
            raise FileNotFoundError(self._missing(name, job))
        task, seq, began, written, line = rows[0]
        known = _Known(STATUS, self._begun, task)
        for step, metric, _ in said_in(line):
            known.take(metric, seq, began, written, step)
        return known

    def _missing(self, name: str, job: str | None) -> str:
        rows = self.query(
            f"SELECT run_id, max(seq) AS seq FROM {METRICS} GROUP BY run_id"
            f" ORDER BY seq DESC LIMIT {_SHOWN}",
            str, int,
        )  # fmt: skip
        there = ", ".join(clean(run, 80) for run, _ in rows)
        by_job = "" if job is None else f" and no status line of {clean(job, 200)}"
        said = f"finelog has no metrics of run {clean(name, 100)}{by_job}"
        return f"{said}; there: {there}" if there else said

    def _stored(self, name: str, known: _Known, metrics: MetricNames) -> StoredRun:
        # How metrics are called elsewhere, by their names in finelog.
        named = [each for each in metrics.to_json().values() if isinstance(each, str)]
        usual = [name for name in sorted(USUAL) if "/" in name]
        spelled = {flat(name): name for name in (*usual, *named)}
        newest = {
            spelled.get(each, each): Point(known.written, step, math.nan)
            for each, step in known.steps.items()
        }
        by_status = known.table == STATUS
        said = f"no metrics there: read by the status lines of {clean(known.task, 200)}"
        return StoredRun(
            id=name,
            name=name,
            experiment="",
            status="",
            began=known.began,
            written=known.written,
            names=tuple(newest),
            newest=newest,
            mtime=min(self._clock.now(), known.written),
            version=(known.since, known.seq),
            notes=(said,) if by_status else (),
            producer="Iris" if by_status else "Levanter",
            identity=(known.table, known.since, known.task),
        )

    def _values(
        self, run: StoredRun, names: Sequence[str], which: str, most: int
    ) -> list[tuple[Any, ...]]:
        """Return (number, time, step, metric, value) of what was logged."""
        table, _, task = run.identity
        if table == METRICS:
            named = ", ".join(_text(flat(name)) for name in names)
            return self.query(
                f"SELECT seq, timestamp_ms / 1000.0, step, name, value FROM {METRICS}"
                f" WHERE run_id = {_text(run.id)} AND name IN ({named}) AND {_COUNTED}"
                f" AND {which} LIMIT {most}",
                int, float, int, str, float,
            )  # fmt: skip
        rows = self.query(
            f"SELECT seq, {_AT.format('')}, {_LINE} FROM {STATUS}"
            f" WHERE task_id = {_text(task)} AND {which} LIMIT {most}",
            int, float, str,
        )  # fmt: skip
        return [(seq, at, *said) for seq, at, line in rows for said in said_in(line)]


class FinelogStores:
    """The finelog of every controller, each once."""

    def __init__(self, clock: Clock, reach: Callable[[], Reach] | None) -> None:
        """``reach`` returns what reaches controllers; ``None``: nothing does."""
        self._clock = clock
        self._reach = reach
        self._lock = Lock()
        self._servers: dict[JobSpec, FinelogServer] = {}
        self._jobs: dict[str, str] = {}

    def of(self, spec: FinelogSpec) -> FinelogServer:
        """Return where a run reports; raises ``OSError``."""
        if self._reach is None or spec.controller is None:
            raise HostError(ErrorKind.UNSUPPORTED, "finelog is not asked from here")
        with self._lock:
            if spec.controller not in self._servers:
                self._servers[spec.controller] = FinelogServer(
                    self._clock, spec.controller, self._reach(), self._jobs
                )
            return self._servers[spec.controller]

    def know_job(self, spec: FinelogSpec, job: str | None) -> None:
        """Note the current job of a run."""
        if job is not None and spec.run is not None:
            self._jobs[spec.run] = job


def place_in(spec: FinelogSpec) -> Place | None:
    """Return which controller is asked: its address, else the cluster."""
    job = spec.controller
    if job is None or (job.controller_url or job.cluster) is None:
        return None
    if job.controller_url is not None:
        return place_of(job.controller_url.strip().rstrip("/"))
    return Place("iris", job.cluster or "", "")


def rows_of(
    document: Mapping[str, Any], columns: Sequence[Callable[[Any], Any]]
) -> list[tuple[Any, ...]]:
    """Return the rows of an answer, each column as its type; raises ``OSError``."""
    try:
        arrow: Any = importlib.import_module("nanoarrow")
    except ImportError:
        text = f"finelog needs the package nanoarrow, which is not installed: {EXTRA}"
        raise HostError(ErrorKind.UNSUPPORTED, text) from None
    try:
        content = base64.b64decode(document["arrowIpc"], validate=True)
        found = arrow.ArrayStream.from_readable(content).read_all().iter_tuples()
        rows = [tuple(kind(cell) for kind, cell in zip(columns, row, strict=True)) for row in found]
        missing = int(document.get("rowCount", 0)) - len(rows)
    except _UNREADABLE:
        text = "finelog's answer holds no Arrow that can be read"
        raise HostError(ErrorKind.BAD_ANSWER, text) from None
    if missing > 0:  # cut off between two batches it still is an Arrow stream
        raise HostError(
            ErrorKind.BAD_ANSWER, f"finelog's answer is cut off: {missing} rows missing"
        )
    return rows


def flat(name: str) -> str:
    """Return a metric's name as Levanter writes it to finelog."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _points(rows: Iterable[Sequence[Any]], names: Sequence[str]) -> list[tuple[str, Point]]:
    """Return the values by the names that are asked for; what is no number is left out."""
    asked = {flat(name): name for name in names}
    return [
        (asked[flat(name)], Point(at, step_of(step) or 0, value))
        for _, at, step, name, value in rows
        if flat(name) in asked
    ]


def said_in(line: str) -> list[tuple[int, str, float]]:
    """Return step, metric and value of what a status line says."""
    found = _STATUS_LINE.match(line)
    if found is None:
        return []
    step, said = int(found["step"].replace(",", "")), []
    try:
        if found["loss"]:
            said.append((step, LOSS, float(found["loss"])))
        if found["rate"]:
            rate = float(found["rate"].replace(",", "")) * _UNITS[found["unit"]]
            said.append((step, RATE, rate))
    except ValueError:  # words, not numbers
        return []
    return said


def _text(value: str) -> str:
    """Return a text as SQL spells it."""
    return "'" + value.replace("'", "''") + "'"
