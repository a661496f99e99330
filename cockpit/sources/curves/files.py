"""The curves of a run whose tracker is a file: every logged row, read in turns, then new ones.

One reading gives the three metrics that the rules read; any other metric has a reading of its own,
begun when it is first asked for. Everything blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Final, Protocol

from cockpit.model.curve import GRAD_NORM, LOSS, THROUGHPUT, Curve, Span
from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.curves.fold import CurveFold
from cockpit.sources.curves.naming import NoCurveError, named, offered, standard
from cockpit.sources.wandb.history import RowChunk
from cockpit.sources.wandb.metrics import MetricKeys
from cockpit.sources.wandb.rows import STEPS_UNIT, StepRate

MOST_READINGS: Final = 12
"""Metrics of one run beside the rules' own that are read at one time; the eldest is given up."""
NAMES_EVERY: Final = 30.0
"""Seconds after which it is looked for new metrics."""


class Rows(Protocol):
    """The rows of a run's files. Methods block and raise ``OSError`` and ``ValueError``."""

    @property
    def keys(self) -> MetricKeys:
        """Which logged name is which, as far as anything was read."""

    def more(self) -> RowChunk:
        """Return the next rows in order, from the very first, then only what is new."""

    def recent(self, most: int) -> RowChunk:
        """Return the newest rows; from then on ``keys`` are known."""


class _Reading:
    """One pass over the rows: a fold for each metric that it gives.

    ``masked``: a zero can stand for a loss that is no number (``Row.true_loss``).
    """

    def __init__(self, rows: Rows, *, masked: bool) -> None:
        self.rows = rows
        self._masked = masked
        self.share = 0.0
        self._begin()

    def _begin(self) -> None:
        self.folds = {kind: CurveFold() for kind in (LOSS, THROUGHPUT, GRAD_NORM)}
        self._step = 0
        self._rate = StepRate()

    def advance(self, goes_on: Callable[[], bool]) -> None:
        """Read on until all is read or the time is over; at least one chunk."""
        self.rows.recent(1)  # finds the files of launches that are new
        while True:
            chunk = self.rows.more()
            if chunk.restarted:
                self._begin()
            self._take(chunk.rows)
            self.share = 1.0 if chunk.caught_up else min(chunk.share, 0.999)
            if chunk.caught_up or chunk.later or not goes_on():
                return

    def _take(self, rows: Iterable[Row]) -> None:
        loss, rate, grad = (self.folds[kind] for kind in (LOSS, THROUGHPUT, GRAD_NORM))
        keys = self.rows.keys
        if keys.throughput is None:  # rows that tell their batch carry no rate (``rated``)
            rows = self._rate.fill(rows, keys)
        for row in rows:
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
        make: Callable[[MetricNames], Rows],
        configured: MetricNames,
        names: Callable[[], Iterable[str]],
        now: Callable[[], float],
        trouble: Callable[[], str] = str,
    ) -> None:
        """``make`` reads rows under such names; ``names`` are the metrics that were logged.

        ``trouble`` says why no more than was read can be read at the moment.
        """
        self._trouble = trouble
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
                found = self._other(metric, keys, span, goes_on)
            else:
                self._main.advance(goes_on)
                found = self._standard(kind, keys, span)
            return found._replace(note=self._trouble())

    def _standard(self, kind: str, keys: MetricKeys, span: Span) -> Curve:
        logged = {LOSS: keys.loss, THROUGHPUT: keys.throughput, GRAD_NORM: keys.grad_norm}[kind]
        fold, share = self._main.folds[kind], self._main.share
        if not fold.rows and share == 1.0:
            raise NoCurveError(f"no {kind} among the logged metrics")
        unit = (keys.unit if keys.throughput else STEPS_UNIT) if kind == THROUGHPUT else None
        shown = next(iter(offered([logged])), kind) if logged else kind
        return fold.curve(shown, unit, span, share)

    def _other(
        self, metric: str, keys: MetricKeys, span: Span, goes_on: Callable[[], bool]
    ) -> Curve:
        raw = named(metric, self._there())
        reading = self._others.pop(raw, None)
        if reading is None:
            reading = _Reading(self._make(self._names_for(raw, keys)), masked=False)
        self._others[raw] = reading  # the newest that was asked for stands last
        while len(self._others) > MOST_READINGS:
            del self._others[next(iter(self._others))]
        reading.advance(goes_on)
        shown = next(iter(offered([raw])), metric)
        return reading.folds[LOSS].curve(shown, None, span, reading.share)

    def _names_for(self, raw: str, keys: MetricKeys) -> MetricNames:
        """Return names under which a row's loss is that metric, at the run's own steps."""
        return self._configured.model_copy(update={"loss": raw, "step": keys.step})

    def _there(self) -> dict[str, str]:
        if self._names is None or self._now() - self._names[0] > NAMES_EVERY:
            self._names = (self._now(), offered(self._look_for_names()))
        return self._names[1]
