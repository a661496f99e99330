"""For how long training moved: a pause (a stop, a stall, a sleeping machine) does not count."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from cockpit.model.history import History
from cockpit.rules.pace import PAUSE


def moved(history: History, start: float, end: float) -> float:
    """Return the seconds from ``start`` to ``end`` in which steps were logged as usual."""
    paused = (min(until, end) - max(since, start) for since, until in _pauses(history))
    return end - start - sum(max(0.0, seconds) for seconds in paused)


def _pauses(history: History) -> Iterator[tuple[float, float]]:
    """Yield the pauses among the folded rows, then those among the steps not folded yet."""
    pace = history.trend.pace
    yield from pace.pauses
    if pace.at is None or pace.usual_gap_s is None:
        return
    for earlier, later in pairwise([pace.at, *_later_steps(history, pace.at)]):
        if later - earlier > PAUSE * pace.usual_gap_s:
            yield earlier, later


def _later_steps(history: History, folded: float) -> list[float]:
    tracker, log = history.facets.tracker.value, history.facets.log.value
    told = [tracker.last_step_at] if tracker is not None else []
    told += [row.at for row in log.rows] if log is not None else []
    return sorted(at for at in told if at is not None and at > folded)
