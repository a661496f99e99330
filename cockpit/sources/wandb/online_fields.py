"""From a W&B server's fields to checked values: what is of another type is left out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from cockpit.model.base import step_of
from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.wandb.clocks import true_time
from cockpit.sources.wandb.ledger import Raw
from cockpit.sources.wandb.metrics import (
    WANDB_STEP,
    WANDB_TIME,
    MetricKeys,
    interesting,
    of_evaluation,
)
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

SUMMARY_TIME: Final = (WANDB_STEP, WANDB_TIME)
EVALUATION: Final = "_evaluation"
"""Stands in a row for the metrics of an evaluation, whose names do not matter."""
_DEPTH: Final = 4
_MOST_NAMES: Final = 20_000
_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Head(NamedTuple):
    """What a server says of a run beside its metrics; times are by the server's clock."""

    name: str | None = None
    display_name: str | None = None
    state: str = "unknown"
    created: str | None = None
    heartbeat_at: float | None = None
    lines: int | None = None
    commit: str | None = None


def head_of(fields: Mapping[str, Any]) -> Head:
    """Return a run's fields, checked; what is of another type than it should be is left out."""
    lines = fields.get("historyLineCount")
    whole = isinstance(lines, int) and not isinstance(lines, bool) and lines >= 0
    return Head(
        name=text(fields.get("name")),
        display_name=text(fields.get("displayName")),
        state=text(fields.get("state")) or "unknown",
        created=text(fields.get("createdAt")),
        heartbeat_at=instant(fields.get("heartbeatAt")),
        lines=lines if whole else None,
        commit=text(fields.get("commit")),
    )


def text(raw: object) -> str | None:
    """Return a short text made safe, ``None`` for anything else."""
    return scrub(clean(raw)) or None if isinstance(raw, str) else None


def instant(raw: object) -> float | None:
    """Return a time as W&B writes it (UTC where it names no zone), in epoch seconds."""
    if not isinstance(raw, str):
        return None
    try:
        found = datetime.fromisoformat(raw.strip())
        aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return aware.timestamp()
    except (ValueError, OverflowError):
        return None


def mapping(raw: object) -> dict[str, Any] | None:
    """Return the object in a JSON text (or the object itself), ``None`` for anything else."""
    if isinstance(raw, str | bytes):
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError):
            return None
    return raw if isinstance(raw, dict) else None


def config_of(raw: object) -> dict[str, object] | None:
    """Return a run's configuration without W&B's own wrapping and entries."""
    found = mapping(raw)
    if found is None:
        return None
    entries = ((key, each) for key, each in found.items() if key not in ("_wandb", "wandb_version"))
    return {
        key: each["value"] if isinstance(each, dict) and "value" in each else each
        for key, each in entries
    }


def client_of(raw: object) -> str | None:
    """Return the version of the client that wrote the configuration."""
    own = (mapping(raw) or {}).get("_wandb")
    value = own.get("value") if isinstance(own, dict) else None
    return text(value.get("cli_version")) if isinstance(value, dict) else None


class Names:
    """Which logged names matter to a run; asked of every key of every row, so it remembers."""

    def __init__(self, configured: MetricNames) -> None:
        self._configured = configured
        self._known: dict[str, bool] = {}

    def numbers(self, raw: object) -> Raw:
        """Return the numbers that matter of one row or summary (JSON text or an object)."""
        found = mapping(raw)
        return {} if found is None else dict(self._numbers(found, "", 0))

    def _numbers(
        self, raw: Mapping[str, Any], prefix: str, depth: int
    ) -> Iterator[tuple[str, float]]:
        for key, value in raw.items():
            name = prefix + key
            if isinstance(value, dict) and depth < _DEPTH:
                yield from self._numbers(value, f"{name}.", depth + 1)
            elif self._matters(name) and (number := number_of(value)) is not None:
                yield name, number
            elif of_evaluation(name):
                yield EVALUATION, 1.0

    def _matters(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            known = name in SUMMARY_TIME or interesting(name, self._configured)
            if len(self._known) < _MOST_NAMES:
                self._known[name] = known
        return known


def number_of(value: object) -> float | None:
    """Return a JSON value as a number; NaN and infinities may come as words."""
    if isinstance(value, str):
        return _WORDS.get(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def rows_in(raw: object, names: Names) -> list[Raw]:
    """Return the rows of a history (JSON texts or objects); what has no step is left out.

    One with a metric of an evaluation is marked by ``EVALUATION``.
    """
    if not isinstance(raw, list):
        return []
    rows = (names.numbers(each) for each in raw)
    return [row for row in rows if math.isfinite(row.get(WANDB_STEP, math.nan))]


def row_of(raw: Raw, keys: MetricKeys) -> Row:
    """Return a row with the metrics that the rules read."""
    return Row(
        step_of(raw.get(keys.step)),
        true_time(raw.get(WANDB_TIME)),
        raw.get(keys.loss) if keys.loss is not None else None,
        raw.get(keys.throughput) if keys.throughput is not None else None,
        raw.get(keys.grad_norm) if keys.grad_norm is not None else None,
        False,
        *[None if name is None else raw.get(name) for name in keys.beside],
    )


def evaluated(raw: Raw, row: Row, keys: MetricKeys) -> bool:
    """Tell whether a row is an evaluation's, whose step may be none of training's."""
    return EVALUATION in raw and keys.trains and not row.trains
