"""Which checkpoints are suspect, and why (SPEC K): the listing held against the rows.

Saved at or after the first non-finite step, or the first step of an open spike or climb, of the
trajectory that saved it. The step decides; the time of the save tells which trajectory it was,
where training went back and passed the same steps again. What cannot be told is suspect too: it
is marked with its reason, and a person may take it by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from cockpit.model import wording
from cockpit.model.history import History
from cockpit.model.lineage import with_suspects
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue
from cockpit.model.report import Facets
from cockpit.model.trend import Taint, Trend
from cockpit.rules.metrics.taints import ASTRAY
from cockpit.rules.present import job_of

NEVER = (CheckpointState.REJECTED, CheckpointState.INCOMPLETE)
"""What nobody takes anyway."""


def marked(history: History) -> Facets:
    """Return the facets with suspect checkpoints marked and the relaunch's pick made anew."""
    facet = history.facets.checkpoints
    value = facet.value
    if value is None or not value.items:
        return history.facets
    known = sorted(
        _taints(history), key=lambda each: (each.taint.metric in ASTRAY, _from(each.taint))
    )
    found = _with(value, history, tuple(known))
    if found is value:
        return history.facets
    checkpoints = facet.model_copy(update={"value": found})
    return history.facets.model_copy(update={"checkpoints": checkpoints})


class _Known(NamedTuple):
    """A taint as one source of rows tells it; ``partly``: earlier rows of it are not read."""

    taint: Taint
    partly: bool


def _with(value: CheckpointsValue, history: History, known: tuple[_Known, ...]) -> CheckpointsValue:
    whys: dict[str, str] = {}
    doubts: dict[str, str] = {}
    for item in value.items:
        if item.state in NEVER:
            continue
        for say, found in ((_why, whys), (_doubt, doubts)):
            said = (say(item, each, history) for each in known)
            why = next((each for each in said if each is not None), None)
            if why is not None and item.path not in whys:
                found[item.path] = why
    return with_suspects(value, whys, doubts)


def _taints(history: History) -> Iterator[_Known]:
    """Yield what is known of unsound rows: the tracker's, the log's where it knows more."""
    own, log = history.trend, history.log_trend
    partly = history.rows_from > 0
    yield from (_Known(taint, partly) for taint in (*own.taints.open, *own.taints.over))
    if own is not log:
        unread = history.log_from > 0
        yield from (_Known(taint, unread) for taint in _log_only(own, log))
    value, folded = history.facets.tracker.value, own.pace.step
    newest = None if value is None else value.true_loss
    if value is None or newest is None or math.isfinite(newest):
        return
    if value.step is None or folded is None or value.step > folded:
        loss, at, sound = str(newest), value.last_step_at, own.taints.sound
        taint = Taint(metric="loss", value=loss, step=value.step, at=at, sound=sound)
        yield _Known(taint, partly)


def _log_only(own: Trend, logged: Trend) -> Iterator[Taint]:
    """Yield the log's taints that the tracker's rows do not know, or know from a later step on.

    A tracker is often behind, or has fewer rows. Its rows are read from the beginning, the log's
    mostly from near its end: so how far all was sound is the tracker's to say where the log does
    not. What left its trend only where rows are few, and not where all of them are read, did not.
    """
    known, log = own.taints, logged.taints
    fewer = logged.rows < own.rows and known.rise is None
    beyond = known.sound if fewer and known.sound is not None else -math.inf
    theirs: dict[tuple[str, bool], float] = {}
    for taint in (*known.open, *known.over):
        key = (taint.metric, taint.left)
        theirs[key] = min(_from(taint), theirs.get(key, math.inf))
    for taint in (*log.open, *log.over):
        if taint.metric in ASTRAY and _from(taint) < beyond:
            continue
        if _from(taint) < theirs.get((taint.metric, taint.left), math.inf):
            sound = known.sound if taint.sound is None else taint.sound
            yield taint.model_copy(update={"sound": sound})


def _from(taint: Taint) -> float:
    return -1 if taint.step is None else taint.step


def _why(item: Checkpoint, known: _Known, history: History) -> str | None:
    """Return why ``item`` is suspect because of a taint, if it is."""
    taint = known.taint
    if not _same_trajectory(item, taint, history):
        return None
    step, what = item.step if item.step is not None else item.name_step, _what(taint)
    if step is None:
        saved = _saved(item)
        early = saved is not None and taint.at is not None and saved < taint.at
        return None if early else f"its step is unknown, and it may have been saved after {what}"
    if taint.step is None or step >= taint.step:
        return _spoilt(taint)
    if taint.sound is None and known.partly:
        return f"{what}, but earlier rows are not read: it may have begun before this save"
    return None


def _doubt(item: Checkpoint, known: _Known, history: History) -> str | None:
    """Return the remark on one that was saved between the last sound row and the first other."""
    taint, step = known.taint, item.step
    if step is None or taint.step is None or taint.sound is None or taint.metric in ASTRAY:
        return None
    if not taint.sound < step < taint.step or not _same_trajectory(item, taint, history):
        return None
    return f"saved between step {wording.step(taint.sound)}, still good, and {_what(taint)}"


def _same_trajectory(item: Checkpoint, taint: Taint, history: History) -> bool:
    """Tell whether ``item`` may have been saved in the trajectory, and before the taint's end."""
    saved, job = _saved(item), job_of(history)
    began = job.started_at if job is not None else None
    if saved is None:
        return True
    fresh = began is not None and saved >= began
    if taint.began is not None and saved < taint.began and not fresh:
        return False  # an earlier trajectory has saved it
    if not taint.over:
        return True
    if fresh and taint.left and began is not None and (taint.at is None or taint.at < began):
        return False  # the present job has saved it, and began after the taint
    if taint.until is not None:
        return saved < taint.until
    step = item.step if item.step is not None else item.name_step
    return taint.left or step is None or taint.last is None or step <= taint.last


def _saved(item: Checkpoint) -> float | None:
    return item.saved_at if item.saved_at is not None else item.touched_at


def _spoilt(taint: Taint) -> str:
    """Return why what was saved from there on is suspect: what decides stands first."""
    what = f"loss {taint.metric}" if taint.metric in ASTRAY else f"{taint.metric} {taint.value}"
    return f"{what} from step {wording.step(taint.step)}{_former(taint)}"


def _former(taint: Taint) -> str:
    return " (an earlier trajectory)" if taint.left and taint.metric not in ASTRAY else ""


def _what(taint: Taint) -> str:
    """Return what spoilt the weights, in a few words."""
    where = f"step {wording.step(taint.step)}"
    if taint.metric in ASTRAY:
        return f"the loss {taint.metric} that began at {where}"
    return f"{where}, where {taint.metric} was {taint.value}{_former(taint)}"
