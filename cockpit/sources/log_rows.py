"""Training progress in log lines, as the rows that rules read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.model.observed import Row
from cockpit.sources.log_stamp import line_time
from cockpit.text.progress import LineProgress, read_lines
from cockpit.text.safe import safe_line

FRESH: Final = 30.0
"""Seconds between two writes within which an unstamped line is as old as the last write."""


def read_rows(states: Sequence[bytes], mtime: float, since: float | None, utc: bool) -> list[Row]:
    """Return a row for each state that tells a step of the run (INTERFACE: scope ``run``).

    A row's time is the line's own; else ``mtime`` for the last row, and for all if the former
    write (``since``) was less than ``FRESH`` seconds before: an older guess would be a lie.
    """
    lines = [safe_line(state).plain for state in states]
    rows = [
        _row(progress, line_time(lines[number - 1], mtime, utc))
        for number, progress in read_lines(lines)
        if progress.step is not None and progress.scope == "run"
    ]
    return _with_times(rows, mtime, since is not None and mtime - since <= FRESH)


def _with_times(rows: list[Row], mtime: float, fresh: bool) -> list[Row]:
    last = len(rows) - 1
    return [
        row._replace(at=mtime) if row.at is None and (fresh or at == last) else row
        for at, row in enumerate(rows)
    ]


def _row(progress: LineProgress, at: float | None) -> Row:
    rate = per_second(progress.throughput, progress.unit)
    return Row(step=progress.step, at=at, loss=progress.loss, throughput=rate)


def per_second(rate: float | None, unit: str | None) -> float | None:
    """Return a rate for which more is better: ``s/it`` and ``ms/it`` are turned around."""
    if rate is None or unit is None or unit.partition("/")[0] not in _TIMES:
        return rate
    return _TIMES[unit.partition("/")[0]] / rate if rate > 0 else None


_TIMES: Final = {"s": 1.0, "ms": 1000.0, "us": 1e6, "m": 1 / 60, "min": 1 / 60, "h": 1 / 3600}
