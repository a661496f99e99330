"""Any metric of a run at a W&B server: rows that the server samples, in one request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cockpit.model.base import step_of
from cockpit.model.clock import Clock
from cockpit.model.curve import Curve, Curves, Span
from cockpit.model.run import RunSpec
from cockpit.runtime.http import HttpError
from cockpit.sources.curves.fold import CurveFold
from cockpit.sources.curves.naming import NoCurveError, named, offered, standard
from cockpit.sources.wandb.clocks import true_time
from cockpit.sources.wandb.graphql import Document
from cockpit.sources.wandb.metrics import WANDB_STEP, WANDB_TIME, MetricKeys, unit_of
from cockpit.sources.wandb.online import OnlineWandb
from cockpit.sources.wandb.online_fields import mapping, number_of

SAMPLES: Final = 1000
"""Rows of one metric that are asked for: more than a screen has columns."""
FRESH: Final = 20.0
"""Seconds for which an answer is used again: what is new comes to the server every 15 s."""
MOST_KEPT: Final = 64
_DEPTH: Final = 4


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
            fields = await self._server.asked(run, lambda _: "summaryMetrics")
            names = offered(_numbers(mapping(fields.get("summaryMetrics")) or {}, "", 0))
            kept = self._names[run.name] = (self._clock.monotonic(), names)
        return kept[1]

    async def _ask(self, run: RunSpec, raws: Sequence[str]) -> None:
        """Ask for what is not known freshly; raises ``HttpError``."""
        now, keys = self._clock.monotonic(), self._server.keys_of(run)
        stale = [raw for raw in dict.fromkeys(raws) if not self._fresh((run.name, raw), now)]
        if not stale:
            return
        fields = await self._server.asked(run, lambda document: _history(document, stale, keys))
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
        value = number_of(row.get(raw))
        step = step_of(number_of(row.get(keys.step))) if keys.step in row else None
        if step is None:
            step = step_of(number_of(row.get(WANDB_STEP)))
        if value is not None and step is not None:
            yield step, true_time(number_of(row.get(WANDB_TIME))), value


def _numbers(raw: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
    for key, value in raw.items():
        if isinstance(value, dict) and depth < _DEPTH:
            yield from _numbers(value, f"{prefix}{key}.", depth + 1)
        elif number_of(value) is not None:
            yield prefix + key
