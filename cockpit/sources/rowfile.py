"""A history as a file of rows: one JSON object a line (INTERFACE "PATH.jsonl")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, Final

from cockpit.model.base import STEPS, step_of
from cockpit.model.observed import Row
from cockpit.model.own_rules import limited_by
from cockpit.sources.figures import json_of

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
