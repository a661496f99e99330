"""Limits of a run's metrics: what is wrong with them, and who is to read the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import Any

from cockpit.config.check import Trouble
from cockpit.config.reading import KeyPath
from cockpit.model.own_rules import SKIPPED, LimitSpec
from cockpit.model.run import RunSpec


def with_limits(run: RunSpec) -> RunSpec:
    """Let each tracker's names say which metrics have a limit, so that these are read."""
    names = tuple(each.metric for each in run.limit)
    if not names:
        return run
    tables: dict[str, Any] = {}
    for table in run.trackers:
        spec: Any = getattr(run, table)
        metrics = spec.metrics.model_copy(update={"limited": names})
        tables[table] = spec.model_copy(update={"metrics": metrics})
    return run.model_copy(update=tables)


def limit_troubles(limits: Sequence[LimitSpec], at: KeyPath) -> Iterator[Trouble]:
    """Yield what is wrong with a run's limits."""
    for place, limit in enumerate(limits):
        bounds = (limit.above, limit.below, limit.above_best, limit.below_usual)
        if sum(each is not None for each in bounds) != (limit.metric != SKIPPED):
            expected = "expected one of above, below, above_best and below_usual"
            few = f"expected rows and for: so many of {SKIPPED} within that time"
            yield Trouble((*at, place), few if limit.metric == SKIPPED else expected)
        elif limit.metric in {each.metric for each in limits[:place]}:
            yield Trouble((*at, place, "metric"), "has a limit above already")
        elif any(each is not None and isnan(each) for each in bounds):
            yield Trouble((*at, place), "expected a number, not nan")
