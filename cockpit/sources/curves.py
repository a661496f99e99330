"""Any metric of a run as a curve, on demand: from its tracker's files, or from its W&B server.

Files are read in short turns; what was read is kept and grows when it is asked for again. A server
samples rows, in one request.

A history as a file of rows: one JSON object a line (INTERFACE "PATH.jsonl").
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import BinaryIO, Final, Protocol

from cockpit.model.base import STEPS, step_of
from cockpit.model.clock import Clock
from cockpit.model.curve import GRAD_NORM, LOSS, THROUGHPUT, Curve, Curves, Span
from cockpit.model.observed import Row
from cockpit.model.own_rules import limited_by
from cockpit.model.run import MetricNames, RunSpec
from cockpit.runtime.http import HttpError
from cockpit.runtime.offload import offload
from cockpit.sources.curve_fold import CurveFold, NoCurveError, named, offered, standard, wanted_of
from cockpit.sources.figures import figure_of, json_of, leaves
from cockpit.sources.metric_keys import WANDB_STEP, WANDB_TIME, MetricKeys, true_time, unit_of
from cockpit.sources.run_rows import RunRows
from cockpit.sources.wandb.decode import STEPS_UNIT, StepRate
from cockpit.sources.wandb.online import OnlineWandb
from cockpit.sources.wandb.online_rows import mapping
from cockpit.sources.wandb.server import Document
from cockpit.text.safe import clean

MOST_READINGS: Final = 12
"""Metrics of one run beside the rules' own that are read at one time; the eldest is given up."""
NAMES_EVERY: Final = 30.0
"""Seconds after which it is looked for new metrics."""


class _Reading:
    """One pass over the rows: a fold for each metric that it gives.

    ``masked``: a zero can stand for a loss that is no number (``Row.true_loss``).
    """

    def __init__(self, rows: RunRows, *, masked: bool) -> None:
        self.rows = rows
        self._masked = masked
        self.share = 0.0
        self.trouble = ""
        """Why no more than was read can be read at the moment."""
        self._begin()

    def _begin(self) -> None:
        self.folds = {kind: CurveFold() for kind in (LOSS, THROUGHPUT, GRAD_NORM)}
        self._step = 0
        self._rate = StepRate()

    def advance(self, goes_on: Callable[[], bool]) -> None:
        """Read on until all is read or the time is over; at least one chunk.

        A host that does not answer is no reason to hide what was read: ``trouble`` says it.
        """
        self.trouble = ""
        try:
            self._advance(goes_on)
        except OSError as error:
            if not self.share:
                raise
            self.trouble = clean(error.strerror or error, 300)
            self.share = min(self.share, 0.999)

    def _advance(self, goes_on: Callable[[], bool]) -> None:
        self.rows.recent(1)  # finds the files of launches that are new
        while True:
            chunk = self.rows.more()
            if chunk.restarted:
                self._begin()
            self._take(chunk.rows, chunk.joints)
            self.share = 1.0 if chunk.caught_up else min(chunk.share, 0.999)
            if chunk.caught_up or chunk.later or not goes_on():
                return

    def _take(self, rows: Iterable[Row], joints: Collection[int]) -> None:
        loss, rate, grad = (self.folds[kind] for kind in (LOSS, THROUGHPUT, GRAD_NORM))
        keys = self.rows.keys
        if keys.throughput is None:  # rows that tell their batch carry no rate (``rated``)
            rows = self._rate.fill(rows, keys)
        for at, row in enumerate(rows):
            for fold in self.folds.values() if at in joints else ():
                fold.join()
            if row.step is not None:
                self._step = row.step
            value = row.true_loss if self._masked else row.loss
            if value is not None:
                loss.add(self._step, row.at, value)
            if row.throughput is not None:
                rate.add(self._step, row.at, row.throughput)
            if row.grad_norm is not None:
                grad.add(self._step, row.at, row.grad_norm)


class FileCurves:
    """The curves of one run; safe from any thread."""

    def __init__(
        self,
        make: Callable[[MetricNames], RunRows],
        configured: MetricNames,
        names: Callable[[], Iterable[str]],
        now: Callable[[], float],
    ) -> None:
        """``make`` reads rows under such names; ``names`` are the metrics that were logged."""
        self.tracker: object = None
        """What reads them."""
        self._make = make
        self._configured = configured
        self._look_for_names = names
        self._now = now
        self._lock = Lock()
        self._main = _Reading(make(configured), masked=True)
        self._others: dict[str, _Reading] = {}
        self._names: tuple[float, dict[str, str]] | None = None

    def names(self) -> tuple[str, ...]:
        """Return the metrics that were logged, as they are shown."""
        with self._lock:
            return tuple(self._there())

    def curve(self, metric: str, span: Span, goes_on: Callable[[], bool]) -> Curve:
        """Return a metric as far as it was read.

        Raises ``NoCurveError`` where there is none of it, ``OSError`` and ``ValueError`` where the
        files cannot be read.
        """
        with self._lock:
            if not self._main.share:
                self._main.rows.recent(1)
            keys = self._main.rows.keys
            kind = standard(metric, keys)
            if kind is None:
                return self._other(metric, keys, span, goes_on)
            self._main.advance(goes_on)
            logged = {LOSS: keys.loss, THROUGHPUT: keys.throughput, GRAD_NORM: keys.grad_norm}[kind]
            fold, share = self._main.folds[kind], self._main.share
            if not fold.rows and share == 1.0:
                raise NoCurveError(f"no {kind} among the logged metrics")
            unit = (keys.unit if keys.throughput else STEPS_UNIT) if kind == THROUGHPUT else None
            shown = next(iter(offered([logged])), kind) if logged else kind
            return fold.curve(shown, unit, span, share)._replace(note=self._main.trouble)

    def _other(
        self, metric: str, keys: MetricKeys, span: Span, goes_on: Callable[[], bool]
    ) -> Curve:
        raw, missing = metric, None
        try:
            raw = named(metric, self._there())
        except NoCurveError as error:  # where names are looked for it may not stand: read on
            missing = error
        reading = self._others.pop(raw, None)
        if reading is None:
            # Under these names a row's loss is that metric, at the run's own steps.
            names = self._configured.model_copy(update={"loss": raw, "step": keys.step})
            reading = _Reading(self._make(names), masked=False)
        self._others[raw] = reading  # the newest that was asked for stands last
        while len(self._others) > MOST_READINGS:
            del self._others[next(iter(self._others))]
        reading.advance(goes_on)
        if missing is not None and reading.share == 1.0 and not reading.folds[LOSS].rows:
            raise missing
        shown = next(iter(offered([raw])), metric)
        found = reading.folds[LOSS].curve(shown, None, span, reading.share)
        return found._replace(note=reading.trouble)

    def _there(self) -> dict[str, str]:
        if self._names is None or self._now() - self._names[0] > NAMES_EVERY:
            self._names = (self._now(), offered(self._look_for_names()))
        return self._names[1]


SAMPLES: Final = 1000
"""Rows of one metric that are asked for: more than a screen has columns."""
FRESH: Final = 20.0
"""Seconds for which an answer is used again: what is new comes to the server every 15 s."""
MOST_KEPT: Final = 64


class SampledCurves:
    """Asks W&B servers for curves; what was asked for lately is not asked for again."""

    def __init__(self, server: OnlineWandb, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._kept: dict[tuple[str, str], tuple[float, CurveFold]] = {}
        self._names: dict[str, tuple[float, dict[str, str]]] = {}

    async def curves(self, run: RunSpec, wanted: Sequence[str], span: Span) -> Curves:
        """Return these metrics of a run; never raises."""
        try:
            there = await self._there(run)
            logged = {each: self._logged(run, each, there) for each in wanted}
            await self._ask(run, [raw for raw in logged.values() if not raw.startswith(_NONE)])
        except HttpError as error:
            return Curves((), tuple(Curve(each, why=str(error)) for each in wanted))
        found = tuple(self._curve(run, each, raw, span) for each, raw in logged.items())
        return Curves(tuple(there), found)

    def _logged(self, run: RunSpec, metric: str, there: dict[str, str]) -> str:
        """Return the logged name; where there is none, why, behind ``_NONE``."""
        keys = self._server.keys_of(run)
        kind = standard(metric, keys)
        own = {"loss": keys.loss, "throughput": keys.throughput, "grad norm": keys.grad_norm}
        try:
            return own.get(kind or "") or named(metric, there)
        except NoCurveError as error:
            return f"{_NONE}{error}"

    def _curve(self, run: RunSpec, metric: str, raw: str, span: Span) -> Curve:
        if raw.startswith(_NONE):
            return Curve(metric, why=raw.removeprefix(_NONE))
        kept = self._kept.get((run.name, raw))
        if kept is None or not kept[1].rows:
            return Curve(metric, why="the server has no rows of this metric")
        shown = next(iter(offered([raw])), metric)
        unit = unit_of(raw) if raw == self._server.keys_of(run).throughput else None
        found = kept[1].curve(shown, unit, span, 1.0)
        few = f"{found.rows:,} rows, sampled by the server"
        return found._replace(note=few) if found.rows >= SAMPLES // 2 else found

    async def _there(self, run: RunSpec) -> dict[str, str]:
        kept = self._names.get(run.name)
        if kept is None or self._clock.monotonic() - kept[0] > FRESH:
            fields = await self._server.ask_run(run, lambda _: "summaryMetrics")
            summary = leaves(mapping(fields.get("summaryMetrics")) or {}, ".")
            names = offered(name for name, value in summary if figure_of(value) is not None)
            kept = self._names[run.name] = (self._clock.monotonic(), names)
        return kept[1]

    async def _ask(self, run: RunSpec, raws: Sequence[str]) -> None:
        """Ask for what is not known freshly; raises ``HttpError``."""
        now, keys = self._clock.monotonic(), self._server.keys_of(run)
        stale = [raw for raw in dict.fromkeys(raws) if not self._fresh((run.name, raw), now)]
        if not stale:
            return
        fields = await self._server.ask_run(run, lambda document: _history(document, stale, keys))
        raw_rows = fields.get("c")
        rows = raw_rows if isinstance(raw_rows, list) else []
        for at, raw in enumerate(stale):
            sets = [rows[place] for place in (2 * at, 2 * at + 1) if place < len(rows)]
            folds = [_folded(each, raw, keys) for each in sets]
            fold = next((each for each in folds if each.rows), CurveFold())
            self._kept[(run.name, raw)] = (now, fold)
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def _fresh(self, key: tuple[str, str], now: float) -> bool:
        kept = self._kept.get(key)
        return kept is not None and now - kept[0] <= FRESH


_NONE: Final = "\0"
"""Begins why there is none: no name that came through JSON as a metric's begins so."""


def _history(document: Document, raws: Sequence[str], keys: MetricKeys) -> str:
    """Return the field that asks for rows: of each metric with the trainer's step, else without.

    A row that lacks one of a specification's keys is left out.
    """
    specs = []
    for raw in raws:
        for step in (keys.step, WANDB_STEP):
            wanted = list(dict.fromkeys((WANDB_STEP, WANDB_TIME, step, raw)))
            specs.append(json.dumps({"keys": wanted, "samples": SAMPLES}))
    return f"c: sampledHistory(specs: {document.variable('[JSONString!]!', specs)})"


def _folded(rows: object, raw: str, keys: MetricKeys) -> CurveFold:
    fold = CurveFold()
    for step, at, value in _values(rows, raw, keys):
        fold.add(step, at, value)
    return fold


def _values(rows: object, raw: str, keys: MetricKeys) -> Iterator[tuple[int, float | None, float]]:
    for each in rows if isinstance(rows, list) else []:
        row = mapping(each) or {}
        value = figure_of(row.get(raw))
        step = step_of(figure_of(row.get(keys.step))) if keys.step in row else None
        if step is None:
            step = step_of(figure_of(row.get(WANDB_STEP)))
        if value is not None and step is not None:
            yield step, true_time(figure_of(row.get(WANDB_TIME))), value


TURN: Final = 0.2
"""Seconds of reading in one answer, for all its curves: the rest comes with the next."""
DEADLINE: Final = 10.0
MOST_RUNS: Final = 16
"""Runs whose curves are kept: the last that were asked for."""
MOST_PARTS: Final = 2000


class CurveFiles(Protocol):
    """What knows the files of runs' trackers."""

    def curve_files(self, run: RunSpec) -> FileCurves | None:
        """Return a new reader of the run's files, ``None`` where its server is to be asked.

        Raises ``NoCurveError``.
        """

    def curve_server(self, run: RunSpec) -> SampledCurves:
        """Return who asks the run's server."""


class CurveReading:
    """The curves of runs; nothing here raises, why a curve is not known stands in it."""

    def __init__(self, trackers: CurveFiles, clock: Clock) -> None:
        self._trackers = trackers
        self._clock = clock
        self._kept: dict[str, tuple[RunSpec, FileCurves]] = {}
        self._turn = asyncio.Lock()

    async def curves(self, run: RunSpec, metrics: Sequence[str], span: Span) -> Curves:
        """Return these metrics of a run, as far as they are read; ``share`` tells how far."""
        wanted = wanted_of(metrics)
        span = span._replace(most=max(1, min(MOST_PARTS, span.most)))
        try:
            files = self._files(run)
        except NoCurveError as error:
            return Curves((), tuple(Curve(each, why=str(error)) for each in wanted))
        if files is None:
            return await self._trackers.curve_server(run).curves(run, wanted, span)
        async with self._turn:
            try:
                return await offload(_read, files, wanted, span, deadline=DEADLINE)
            except TimeoutError:
                why = f"its files do not answer within {DEADLINE:.0f} s"
            except (OSError, ValueError) as error:
                strerror = error.strerror if isinstance(error, OSError) else None
                why = clean(strerror or error, 300)
        return Curves((), tuple(Curve(each, why=why) for each in wanted))

    def _files(self, run: RunSpec) -> FileCurves | None:
        """Return who reads the run's files, with all that was read before."""
        former = self._kept.pop(run.name, None)
        files = self._trackers.curve_files(run)
        if files is None:
            return None
        same = (
            former is not None
            and former[0].trackers == run.trackers
            and former[1].tracker is files.tracker
        )
        kept = former if former is not None and same else (run, files)
        self._kept[run.name] = kept
        while len(self._kept) > MOST_RUNS:
            del self._kept[next(iter(self._kept))]
        return kept[1]


def _read(files: FileCurves, wanted: Sequence[str], span: Span) -> Curves:
    """Read on for one turn, shared by the curves (it runs in a thread)."""
    end = time.monotonic() + TURN
    found = []
    for at, metric in enumerate(wanted):
        until = end - TURN * (len(wanted) - at - 1) / len(wanted)
        try:
            found.append(files.curve(metric, span, partial(_before, until)))
        except NoCurveError as error:
            found.append(Curve(metric, why=str(error)))
    return Curves(files.names(), tuple(found))


def _before(until: float) -> bool:
    return time.monotonic() < until


EVERY: Final = 10.0
"""Seconds between two rows that tell no time."""
EARLIEST: Final = -6.2e10
LATEST: Final = 2.5e11
"""The years 5 and 9892: what is told beyond, or is no number, is no time."""
BESIDE: Final = ("z_loss", "router_loss", "router_entropy", "skipped", "lr", "batch_size")
"""Further metrics that a row may have (C-05, C-10, C-12), in a ``Row``'s order."""
NONE: Final = (None,) * len(BESIDE)
_BESIDE: Final = frozenset(BESIDE)
_KNOWN: Final = frozenset(("step", "time", "loss", "throughput", "grad_norm", *BESIDE))
LONGEST: Final = 1_048_576
"""Bytes of a line: a longer one is no row."""


class RowFile:
    """Reads rows in order, in constant memory; ``bad`` counts the lines that are none.

    ``first_bad`` is the number (from 1) of the first of these. A row that tells no time is
    ``every`` seconds after the one before it; its time is ``None`` where ``every`` is.
    """

    def __init__(
        self, file: BinaryIO, every: float | None = EVERY, own: tuple[str, ...] = ()
    ) -> None:
        self._file = file
        self._every, self._own = every, own
        self.bad = 0
        self.first_bad: int | None = None

    def __iter__(self) -> Iterator[Row]:
        every = self._every
        at = None if every is None else -every
        number = 0
        while line := self._file.readline(LONGEST):
            number += 1
            if not line.strip():
                continue
            row = _row(line, None if at is None or every is None else at + every, self._own)
            if row is None:
                self.bad += 1
                self.first_bad = number if self.first_bad is None else self.first_bad
                continue
            at = None if every is None else row.at
            yield row


def _row(line: bytes, otherwise: float | None, own: tuple[str, ...]) -> Row | None:
    """Return one line's row, ``otherwise`` its time where it tells none; ``None`` for no row."""
    told = json_of(line)
    if type(told) is not dict or not told:
        return None
    get = told.get
    step, at = get("step"), get("time")
    if type(step) is not int or not -STEPS < step < STEPS:
        step = _whole(step)
        if step is None:
            return None
    at = at if type(at) is float else _number(at)
    loss, throughput, grad_norm = get("loss"), get("throughput"), get("grad_norm")
    beside = NONE if _BESIDE.isdisjoint(told) else map(_number, map(get, BESIDE))
    others = told.keys() - _KNOWN
    return tuple.__new__(Row, (  # ``Row(…)``, in half the time
        step,
        at if at is not None and EARLIEST < at < LATEST else otherwise,
        loss if type(loss) is float else _number(loss),
        throughput if type(throughput) is float else _number(throughput),
        grad_norm if type(grad_norm) is float else _number(grad_norm),
        False, *beside, _limited(told, others, own) if others else None,
    ))  # fmt: skip


def _limited(
    told: Mapping[str, object], names: Iterable[str], own: tuple[str, ...]
) -> tuple[tuple[str, float], ...] | None:
    """Return the values of metrics that have a limit; of several names the shortest counts."""
    found: dict[str, float] = {}
    for name in sorted(names, key=lambda name: (len(name), name)):
        limit, value = limited_by(name, own), _number(told[name])
        if limit is not None and value is not None:
            found.setdefault(limit.metric, limit.factor * value)
    return tuple(found.items()) or None


def _whole(told: object) -> int | None:
    step = _number(told)
    if step is None or not step.is_integer() or step_of(step) is None:
        return None
    return int(step)


def _number(value: object) -> float | None:
    """Return a number as JSON or INTERFACE's strings hold it (``"NaN"``), else ``None``."""
    if value is None or type(value) is float:
        return value  # most are
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return None
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else None
