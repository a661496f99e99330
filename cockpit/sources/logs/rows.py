"""The rows of training progress in the new states of a log, and when they were written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.model.observed import Row
from cockpit.sources.logs.stamp import line_time
from cockpit.text.progress_lines import read_raw
from cockpit.text.safe import safe_line


def last_line_at(
    newest_first: Sequence[str], mtime: float, utc: bool, offset: float
) -> float | None:
    """Return when the last line was written: what it says itself, else the file's mtime."""
    last = next((line for line in newest_first if line.strip()), None)
    if last is None:
        return None
    said = line_time(last, mtime, utc, offset)
    return mtime if said is None else said


def written_until(
    states: Sequence[bytes], place: int, *, mtime: float, utc: bool, offset: float
) -> float:
    """Return when a state was written: its own word, else until when by the next that tells one."""
    for raw in states[place : place + _NEXT]:
        said = line_time(safe_line(raw).plain, mtime, utc, offset)
        if said is not None:
            return said
    return mtime


_NEXT: Final = 100
"""States among which one that tells its time is looked for."""
FRESH: Final = 30.0
"""Seconds between two writes within which an unstamped line is as old as the last write."""


def read_rows(
    states: Sequence[bytes],
    mtime: float,
    since: float | None,
    utc: bool,
    step: int | None = None,
    offset: float = 0.0,
) -> list[Row]:
    """Return a row for each state that tells a step of the run (INTERFACE: scope ``run``).

    Figures that are logged without a step belong to the one before them, first of all ``step``.
    A bar's rate is no measurement: it is averaged since the bar was drawn, with the steps that a
    resume skipped, and stands still while nothing steps. Steps over time stand in for it.
    A row's time is the line's own; else ``mtime`` for the last row, and for all if the former
    write (``since``) was less than ``FRESH`` seconds before: an older guess would be a lie.
    """
    rows: list[Row] = []
    for number, progress in read_raw(states):
        if progress.scope != "run" or (progress.step is None and progress.format != "dict"):
            continue
        step = progress.step if progress.step is not None else step
        rate = None if progress.is_bar else per_second(progress.throughput, progress.unit)
        row = Row(
            step,
            line_time(safe_line(states[number - 1]).plain, mtime, utc, offset),
            progress.loss,
            rate,
            progress.grad_norm,
            progress.is_bar,
            *progress.beside,
        )
        rows.append(row)
    fresh = since is not None and mtime - since <= FRESH
    last = len(rows) - 1
    return [
        row._replace(at=mtime) if row.at is None and (fresh or at == last) else row
        for at, row in enumerate(rows)
    ]


def per_second(rate: float | None, unit: str | None) -> float | None:
    """Return a rate for which more is better: ``s/it`` and ``ms/it`` are turned around."""
    if rate is None or unit is None or unit.partition("/")[0] not in _TIMES:
        return rate
    return _TIMES[unit.partition("/")[0]] / rate if rate > 0 else None


_TIMES: Final = {"s": 1.0, "ms": 1000.0, "us": 1e6, "m": 1 / 60, "min": 1 / 60, "h": 1 / 3600}
