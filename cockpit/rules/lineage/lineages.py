"""Which saves are of the run's present lineage, and which are suspect (SPEC K). Pure.

A folder may hold the saves of two runs, or of steps that were trained again. A save is neither
deleted nor picked if

- a lower step was saved after it: training started again before it;
- it lies beyond the last step that this run logged, and is older than everything known of the run;
- its name is that of another run (``names``);
- its time is that of a copy, and the steps decide nothing either.

A save is suspect from the first non-finite step on, or from the first step of an open spike or
climb, of the trajectory that saved it. The step decides. The time of the save tells which
trajectory it was, where training went back and passed the same steps again. A save of which this
cannot be decided is suspect too; it is marked with the reason, and a person may choose it by name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.clock import FILE_SKEW
from cockpit.model.history import History
from cockpit.model.lineage import Stray, listed_steps, with_lineages, with_suspects
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Whose
from cockpit.model.report import Facets
from cockpit.model.trend import Taint, Trend
from cockpit.rules.lineage.names import of_several_runs
from cockpit.rules.metrics.nonfinite import ASTRAY
from cockpit.rules.metrics.resume import first_since, steps_since
from cockpit.rules.present import job_of

ROWS: Final = 3
"""Rows from which on it is known how many steps lie between two of them."""
LONG: Final = 3
"""Times the longest pause between two saves, after which a row is not of those that saved."""
BURST_S: Final = 1.0
"""Seconds from one save to the next, below which the times are those of a copy."""
BURST_SHARE: Final = 0.1
"""The share of the time that the steps between two saves take, below which it is a copy, too."""
AHEAD: Final = 3600.0
"""Seconds by which the clock of a file system may be ahead: a time beyond proves nothing."""
_MAY_BE_WHOLE: Final = (CheckpointState.COMPLETE, CheckpointState.UNKNOWN)
_EVIDENCE: Final = (CheckpointState.COMPLETE, CheckpointState.WRITING)


class _Save(NamedTuple):
    """A save with the two figures that tell its place: its step, and when it was written."""

    item: Checkpoint
    step: int
    at: float | None


class _Ancestry(NamedTuple):
    """What is known of the run itself.

    ``started`` is when the present job began, ``began`` the first sign of this lineage, ``reached``
    the highest step that was ever logged, ``between`` how far a save may lie beyond it: not every
    step is logged (``None``: not known). ``told`` is when the newest row was written.
    """

    started: float | None
    began: float | None
    reached: int | None
    between: int | None
    told: float | None
    usual: float | None
    now: float


def with_lineages_marked(history: History) -> Facets:
    """Return the facets with the saves of other lineages marked, and the picks made again."""
    facet = history.facets.checkpoints
    value = facet.value
    if value is None or not value.items:
        return history.facets
    strays, mixed = strays_in(value, history)
    found = with_lineages(value, strays, mixed)
    if found is value:
        return history.facets
    found = found.model_copy(update={"unreached": _unreached(found, history)})
    checkpoints = facet.model_copy(update={"value": found})
    return history.facets.model_copy(update={"checkpoints": checkpoints})


def strays_in(value: CheckpointsValue, history: History) -> tuple[dict[str, Stray], str | None]:
    """Return by path why saves are not the run's, and why nothing may be deleted, if that is so."""
    known = _known_of(history)
    saves = [
        _Save(item, step, item.written_at)
        for item in value.items
        if (step := item.any_step) is not None
    ]
    whole = [each for each in saves if each.item.complete]
    beyond = {each.item.path for each in _beyond(saves, known)}
    strays: dict[str, Stray] = {path: Stray(Whose.UNSURE, _beyond_text(known)) for path in beyond}
    for each, later in _overtaken(saves):
        whose = _whose(each, later, known, beyond)
        if whose is not Whose.AGAIN or each.item.state is not CheckpointState.REJECTED:
            strays[each.item.path] = Stray(whose, _overtaken_text(each, later, whose))
    strays |= _named_otherwise(value.items, known.started)
    mixed = _mixed(saves, strays) or _copied(whole, known) or _behind(whole, known, history)
    return strays, mixed


def _named_otherwise(items: Sequence[Checkpoint], started: float | None) -> dict[str, Stray]:
    """Return by path the saves with the names of several runs: none of them is surely this run's.

    But those of the one name that was saved since the present job began, if there is one alone.
    """
    strays: dict[str, Stray] = {}
    since = math.inf if started is None else started + FILE_SKEW
    for named in of_several_runs(items):
        fresh = [name for name, each in named.items() if max(map(_written, each)) >= since]
        names = ", ".join(sorted(filter(None, named)))
        for name, each in named.items():
            why = f"named {name or 'for no run'}: saves of several runs lie here ({names})"
            if fresh != [name]:
                strays |= {item.path: Stray(Whose.UNSURE, why) for item in each}
    return strays


def _written(item: Checkpoint) -> float:
    return item.written_at or 0.0


def _known_of(history: History) -> _Ancestry:
    job = job_of(history)
    return _Ancestry(
        started=None if job is None else job.started_at,
        began=_first_sign(history),
        reached=_reached(history),
        between=_between(history),
        told=_newest_row_at(history),
        usual=history.trend.usual_step_s or history.log_trend.usual_step_s,
        now=history.now,
    )


def _first_sign(history: History) -> float | None:
    """Return since when anything is known of this run: a launch, a job, a logged step."""
    signs = [start.at for start in history.starts]
    signs += [mark.began for mark in history.phases]
    job, launched = job_of(history), history.launched
    signs += [] if launched is None else [launched.at]
    signs += [] if job is None or job.started_at is None else [job.started_at]
    if history.trend is not history.log_trend and history.rows_from <= 0:  # a log may have no times
        first = history.trend.stepping.first_at
        signs += [] if first is None else [first]
    return min(signs, default=None)


def _reached(history: History) -> int | None:
    """Return the highest step in the rows of this run."""
    tracker, log = history.facets.tracker.value, history.facets.log.value
    told = [trend.stepping.high for trend in (history.trend, history.log_trend)]
    told += [trend.pace.step for trend in (history.trend, history.log_trend)]
    told += [] if tracker is None else [tracker.step]
    told += [] if log is None else [row.step for row in log.rows]
    return max((step for step in told if step is not None), default=None)


def _newest_row_at(history: History) -> float | None:
    """Return when a row was written last: of what was saved later they know nothing yet."""
    tracker, log = history.facets.tracker.value, history.facets.log.value
    told = [] if log is None else [log.mtime]
    told += [] if tracker is None or tracker.last_step_at is None else [tracker.last_step_at]
    return max(told, default=None)


def _between(history: History) -> int | None:
    """Return how many steps may lie between the last logged one and a save."""
    log = history.facets.log.value
    logged = [] if log is None else [row.step for row in log.rows if row.step is not None]
    folds = ([step for step, _ in t.pace.recent] for t in (history.trend, history.log_trend))
    for told in (logged, *folds):
        known = sorted(set(told))
        if len(known) >= ROWS:
            return 2 * max(b - a for a, b in pairwise(known[-ROWS:]))
    return None


def _overtaken(saves: Sequence[_Save]) -> Iterator[tuple[_Save, _Save]]:
    """Yield the saves after which a lower step was saved in the same root, with that one.

    What is torn, rejected or unknown proves nothing, but it may be overtaken.
    """
    roots: dict[str, list[_Save]] = {}
    for each in saves:
        if each.at is not None:
            roots.setdefault(each.item.root, []).append(each)
    for mine in roots.values():
        lower: _Save | None = None  # the one of all lower steps that was saved last
        for _, group in groupby(sorted(mine, key=_by_step), key=_by_step):
            same = list(group)  # copies of one step say nothing of each other
            yield from ((e, lower) for e in same if lower and _at(lower) > _at(e) + FILE_SKEW)
            proofs = [each for each in same if each.item.state in _EVIDENCE]
            lower = max([*proofs, *([lower] if lower else [])], key=_at, default=None)


def _by_step(save: _Save) -> int:
    return save.step


def _at(save: _Save) -> float:
    return 0.0 if save.at is None else save.at


def _whose(each: _Save, later: _Save, known: _Ancestry, beyond: Collection[str]) -> Whose:
    """Return whose an overtaken save is; ``later`` is the lower one that was saved after it.

    It is another's for sure where the present job made the later one, or where the rows bear it
    out; times alone may be those of a file that was only touched, or of a clock that is wrong.
    """
    if known.began is not None and _at(each) >= known.began:
        return Whose.AGAIN
    began = math.inf if known.started is None else known.started
    fresh = began + FILE_SKEW <= _at(later) <= known.now + AHEAD
    return Whose.OTHER if fresh or each.item.path in beyond else Whose.UNSURE


_WORDS: Final = {
    Whose.AGAIN: "trained again since",
    Whose.OTHER: "another lineage",
    Whose.UNSURE: "maybe another lineage",
}


def _overtaken_text(each: _Save, later: _Save, whose: Whose) -> str:
    saved, lower = wording.moment(_at(each)), wording.step(later.step)
    at = wording.moment(_at(later))
    return f"{_WORDS[whose]}: saved at {saved}, before step {lower} ({at})"


def _beyond(saves: Sequence[_Save], known: _Ancestry) -> Iterator[_Save]:
    """Yield the saves beyond all that the run has logged, older than the first sign of it.

    Only where steps of the log and of the saves are the same thing: some save lies within, and
    none that the present job has made lies beyond.
    """
    reached, between = known.reached, known.between
    within = (each.item.complete and each.step <= (reached or 0) for each in saves)
    if reached is None or between is None or not any(within):
        return
    far = [each for each in saves if each.step > reached + between]
    started = known.started
    if started is not None and any(_at(each) >= started + FILE_SKEW for each in far):
        return
    for each in far:
        if known.told is not None and _at(each) > known.told + FILE_SKEW:
            continue  # a log that is held back tells of it later
        if known.began is None or each.at is None or each.at < known.began + FILE_SKEW:
            yield each


def _beyond_text(known: _Ancestry) -> str:
    last = wording.step(known.reached)
    return f"beyond the last logged step, {last}: it may be another run's"


def _copied(whole: Sequence[_Save], known: _Ancestry) -> str | None:
    """Return that the times of the saves are those of a copy, unless all else fits to one run.

    That is: the run has logged all their steps, and they lie at equal distances. What was saved
    since the first sign of this run is its own, whenever that was.
    """
    since = known.began
    older = [e for e in whole if e.at is not None and (since is None or e.at < since)]
    steps = sorted({each.step for each in older})
    if len(steps) < 2 or not _burst(older, known.usual):
        return None
    gaps = {b - a for a, b in pairwise(steps[:-1])}
    regular = len(gaps) <= 1 and all(step % min(gaps, default=1) == 0 for step in steps[:-1])
    if regular and known.reached is not None and steps[-1] <= known.reached + (known.between or 0):
        return None
    named = listed_steps([each.item for each in older])
    return f"{named} have the times of a copy, so it cannot be told which run saved them"


def _burst(saves: Sequence[_Save], usual: float | None) -> bool:
    """Tell whether most of the saves follow each other faster than anything can be trained."""
    each_step = {each.step: each for each in saves}  # two files of one save are written together
    fast, pairs = 0, list(pairwise(sorted(each_step.values(), key=lambda each: each.step)))
    for low, high in pairs:
        needs = BURST_S if usual is None else BURST_SHARE * usual * (high.step - low.step)
        fast += abs(_at(high) - _at(low)) < needs
    return 2 * fast > len(pairs)


def _mixed(saves: Sequence[_Save], strays: Mapping[str, Stray]) -> str | None:
    """Return which saves are whose, where not all are surely of this run.

    What is unknown may be whole: another run's saves are newer than the pointer of this one.
    """
    whole = [each for each in saves if each.item.complete]
    kept = [each for each in saves if each.item.state in _MAY_BE_WHOLE]
    others = [e for e in kept if (s := strays.get(e.item.path)) and s.whose is not Whose.AGAIN]
    if not others:
        return None
    own = [each for each in whole if each.item.path not in strays]
    why = strays[others[-1].item.path].why
    ours = (
        f"this run's: {listed_steps([e.item for e in own])}" if own else "surely this run's: none"
    )
    theirs = listed_steps([each.item for each in others])
    return f"{ours}; not, or not surely: {theirs} ({_step_text(others[-1])}: {why})"


def _unreached(found: CheckpointsValue, history: History) -> str | None:
    """Return that a relaunch would take a save to which no row of this run has come, if it would.

    Only where whose the saves are is not certain: a log that is held back ends early, too.
    """
    known, pick = _known_of(history), found.relaunch_from
    if found.mixed is None or known.reached is None or pick is None or pick.step is None:
        return None
    if pick.step <= known.reached + (known.between or 0):
        return None
    return f"the last step that this run has logged is {wording.step(known.reached)}; {found.mixed}"


def _step_text(save: _Save) -> str:
    """Return what a save is called in a sentence."""
    return f"step {wording.step(save.step)}"


def _behind(whole: Sequence[_Save], known: _Ancestry, history: History) -> str | None:
    """Return that the present job trains what others have saved already, and has saved nothing.

    It began before their steps, so they are none of its own ancestors; which of them are to be
    kept is known once it has saved.
    """
    started = known.started
    if started is None:
        return _long_before(whole, known)
    if any(_at(each) >= started + FILE_SKEW for each in whole):
        return None
    first = first_since(started, history)
    if first is None or not steps_since(started, history):
        return None
    above = [each for each in whole if each.step > first[0]]
    if not above:
        return None
    theirs = listed_steps([each.item for each in above])
    return (
        f"the present job was at step {wording.step(first[0])} after it began and has saved nothing"
        f" yet; {theirs} is above that and older than the job"
    )


def _long_before(whole: Sequence[_Save], known: _Ancestry) -> str | None:
    """Return that the rows lie below all saves and were written long after the last of them.

    So where nothing tells when the job began. A log that only counts otherwise is written while
    the saves are made, or soon after.
    """
    if known.reached is None or known.between is None or known.told is None or len(whole) < 2:
        return None
    if any(each.step <= known.reached + known.between for each in whole):
        return None
    times = sorted(_at(each) for each in whole)
    usual = max(b - a for a, b in pairwise(times))
    if known.told - times[-1] <= LONG * usual + FILE_SKEW:
        return None
    last, theirs = wording.step(known.reached), listed_steps([each.item for each in whole])
    return f"the last step logged is {last}, and {theirs} is above that and much older than the log"


NEVER = (CheckpointState.REJECTED, CheckpointState.INCOMPLETE)
"""What nobody takes anyway."""


def with_suspects_marked(history: History) -> Facets:
    """Return the facets with suspect checkpoints marked and the relaunch's pick made again."""
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


class _KnownTaint(NamedTuple):
    """A taint as one source of rows tells it; ``partly``: earlier rows of it are not read."""

    taint: Taint
    partly: bool


def _with(
    value: CheckpointsValue, history: History, known: tuple[_KnownTaint, ...]
) -> CheckpointsValue:
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


def _taints(history: History) -> Iterator[_KnownTaint]:
    """Yield what is known of unsound rows: the tracker's, the log's where it knows more."""
    own, log = history.trend, history.log_trend
    partly = history.rows_from > 0
    yield from (_KnownTaint(taint, partly) for taint in (*own.taints.open, *own.taints.over))
    if own is not log:
        unread = history.log_from > 0
        yield from (_KnownTaint(taint, unread) for taint in _log_only(own, log))
    value, folded = history.facets.tracker.value, own.pace.step
    newest = None if value is None else value.true_loss
    if value is None or newest is None or math.isfinite(newest):
        return
    if value.step is None or folded is None or value.step > folded:
        loss, at, sound = str(newest), value.last_step_at, own.taints.sound
        taint = Taint(metric="loss", value=loss, step=value.step, at=at, sound=sound)
        yield _KnownTaint(taint, partly)


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


def _why(item: Checkpoint, known: _KnownTaint, history: History) -> str | None:
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


def _doubt(item: Checkpoint, known: _KnownTaint, history: History) -> str | None:
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
