"""How long a missing training step is nothing unusual, and whether training steps now."""

from __future__ import annotations

import re

from cockpit.model.history import History
from cockpit.model.run import RunSpec
from cockpit.rules.present import StepClock

CADENCES = 2

LATELY = (60.0, 600.0)
"""Seconds, within these a cadence, after which a step is none of now: pauses may last that long."""

FLUSHING = (0, 31)
"""The first tracker client that writes its file at least every ``FLUSH`` seconds."""

FLUSH = 15.0

BLIND_ROWS = 64
"""Rows that older clients may hold back: a 32 KiB block is about half as many."""


def patience(run: RunSpec, history: History, window: float | None = None) -> float:
    """Return how long (s) a missing step is nothing unusual: ``window``, else two cadences.

    A step that is not logged cannot be seen: the usual time is that between two logged steps;
    and the tracker's client may keep steps to itself for a while.
    """
    least = CADENCES * run.cadence if window is None else window
    limit = max(run.thresholds.stall_factor * _usual(history), least)
    return limit if StepClock(history).direct else limit + held_back(history)


def _usual(history: History) -> float:
    """Return the usual seconds between two logged steps."""
    tracker, pace = history.facets.tracker.value, history.trend.pace
    recorded = tracker.usual_step_s if tracker is not None else None
    return max(pace.usual_gap_s or 0.0, pace.usual_step_s or recorded or 0.0)


def held_back(history: History) -> float:
    """Return how long (s) the tracker's client may keep rows to itself before it writes them."""
    tracker = history.facets.tracker.value
    found = re.search(r"(\d+)\.(\d+)", (tracker.producer or "") if tracker is not None else "")
    if found is None:
        return 0.0
    flushes = (int(found[1]), int(found[2])) >= FLUSHING
    return FLUSH if flushes else BLIND_ROWS * _usual(history)


def steps_now(run: RunSpec, history: History) -> bool:
    """Tell whether the newest training step, of any source, is one of now."""
    last = StepClock(history).last
    if last is None:
        return False
    least, most = LATELY
    return history.now - last <= patience(run, history, max(least, min(run.cadence, most)))
