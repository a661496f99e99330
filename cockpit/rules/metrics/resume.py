"""C-12: the first step after a start, and the loss after it beside that of the instance before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.history import History, Launched
from cockpit.model.lineage import LIGHTNING
from cockpit.model.observed import Checkpoint
from cockpit.model.run import RunSpec
from cockpit.model.trend import Seam
from cockpit.rules import present
from cockpit.rules.jobs.restarts import our_launch, restarts_in_place
from cockpit.rules.metrics.progress import REACH
from cockpit.rules.metrics.seam import DIFFERING, LEVEL
from cockpit.rules.present import CLOCK_SKEW, job_of, may_train, still_open

STEP_SLACK = 100
"""Steps by which the first one seen may lie behind: not every step is logged."""


Step = tuple[int, float]
"""A completed step, and when it was logged."""


class Start(NamedTuple):
    """The present job's start: since when, what it should load, and on whose word."""

    at: float
    expected: int
    name: str
    source: str
    order: str
    confidence: Literal["sure", "likely"]


def first_step_wrong(
    launched: Launched, first: int, at: float | None, usual_step_s: float | None
) -> str | None:
    """Return why the first step seen of a launch cannot be right (one line), or ``None``.

    ``at`` is when it was logged; without it, or without the usual pace (seconds per step), a
    step that is too far ahead is not known, nor soon after its start: the trainer's clock
    may be ahead, and the step one of the former job's.
    """
    expected = launched.resumes_from
    if expected is None:
        return None
    if first < expected:
        return _too_low(first, expected)
    if at is None or not usual_step_s or at < launched.begun + CLOCK_SKEW:
        return None
    reach = expected + 1 + STEP_SLACK + REACH * (at - launched.begun) / usual_step_s
    if first <= reach:
        return None
    return (
        f"first step seen: {wording.step(first)}, too far from {wording.step(expected)}:"
        " it loaded another checkpoint"
    )


def _too_low(first: int, expected: int) -> str:
    return f"first step seen: {wording.step(first)}, expected {wording.step(expected + 1)}"


def first_completed(steps: Sequence[Step]) -> Step | None:
    """Return the first step that was completed among those logged since a start.

    The lowest is the first: where clocks differ, a late row of the former job is above it. One
    that stands alone, far below all that follow it, was no step: a line about the start, an
    evaluation before training.
    """
    ordered = sorted(steps, key=lambda each: each[1])
    low = min(steps, default=None)
    if low is None:
        return None
    after = sorted(step for step, at in ordered if at >= low[1] and step > low[0])
    strides = [later - earlier for earlier, later in pairwise(after)]
    alone = sum(step == low[0] for step, _ in steps) == 1
    if alone and len(strides) > 1 and after[0] - low[0] > 2 * max(strides):
        return min(each for each in steps if each[0] > low[0])
    return low


def steps_since(at: float, history: History) -> list[Step]:
    """Return the newest steps that were logged since ``at``, as far as they are remembered."""
    log = history.facets.log.value
    rows = [] if log is None else [(row.step, row.at) for row in log.rows]
    timed = [*history.trend.pace.recent, *history.log_trend.pace.recent, *rows]
    known = ((step, when) for step, when in timed if step is not None and when is not None)
    return [each for each in dict.fromkeys(known) if each[1] >= at]


def first_since(at: float, history: History) -> Step | None:
    """Return the first completed step since ``at``: of the newest ones, or of the last resume."""
    kept = (history.trend.pace.began, history.log_trend.pace.began)
    began = [[each for each in steps if each[1] >= at] for steps in kept]
    found = (first_completed(steps) for steps in (*began, steps_since(at, history)))
    return min((each for each in found if each is not None), default=None)


def _from_the_start(first: Step, since: float, history: History) -> bool:
    """Tell whether a start's first step is known to be that: no row between the two is unread."""
    kept = ((history.trend.pace, history.rows_from), (history.log_trend.pace, history.log_from))
    for pace, unread in kept:
        if any(at < since for _, at in pace.recent) and first in pace.recent:
            return True
        begins = first in pace.began and not pace.began_late
        if begins and (pace.resumes > 0 or unread == 0):
            return True
    return False


def resumed_elsewhere(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-12 (first step): at once, and until the next start: what it overwrites is at stake."""
    if not may_train(history):
        return
    again = restarts_in_place(history)
    ours = None if again else our_launch(history)
    if ours is not None:
        yield from _launch_wrong(run, history, ours)
        return
    start = _observed_start(history, again[-1].until if again else None)
    first = None if start is None else first_since(start.at, history)
    if start is not None and first is not None and first[0] < start.expected:
        if _from_last(first[0], start.at, history):
            return
        where = _where(first[0], _every_step(history) and _from_the_start(first, start.at, history))
        yield _alert(run, start, where, _too_low(first[0], start.expected))


def _launch_wrong(run: RunSpec, history: History, launched: Launched) -> Iterator[Alert]:
    steps = steps_since(launched.at, history)
    found = first_since(launched.at, history)
    seen: list[tuple[int, float | None]] = [] if found is None else [found]
    noted = launched.first_step
    if noted is not None and all(step != noted for step, _ in steps):
        seen.append((noted, None))
    first, at = min(seen, key=lambda each: each[0], default=(None, None))
    pace = history.trend.usual_step_s
    wrong = None if first is None else first_step_wrong(launched, first, at, pace)
    if first is None or wrong is None or launched.resumes_from is None:
        return
    order = f"{launched.launch_id} was to load step {wording.step(launched.resumes_from)}"
    start = Start(launched.at, launched.resumes_from, launched.launch_id, "journal", order, "sure")
    known = found is None or first != found[0] or _from_the_start(found, launched.at, history)
    known = known and _every_step(history)
    yield _alert(run, start, _where(first, known), wrong)


def _observed_start(history: History, again: float | None = None) -> Start | None:
    """Return the start of a job that we did not launch, beside a checkpoint older than it.

    ``again`` is when it began again within itself.
    """
    job, saved = job_of(history), history.facets.checkpoints
    if job is None or job.started_at is None or saved.value is None:
        return None
    began = job.started_at if again is None else again
    before = [item for item in saved.value.items if _saved_before(item, began)]
    newest = max((item.step for item in before if item.step is not None), default=None)
    if newest is None:
        return None
    text = f"step {wording.step(newest)} was complete before this job started"
    name = job.launch_id or f"{job.id}@{job.started_at:.0f}"
    if again is not None:
        text, name = f"{text} again, inside itself,", f"{name}:{again:.0f}"
    order = f"{text} at {wording.moment(began)}"
    return Start(began, newest, name, saved.source, order, "likely")


def _from_last(first: int, started_at: float, history: History) -> bool:
    """Tell whether the trainer may have gone on from an older ``last.ckpt``, as Lightning does.

    It is written after the numbered ones, so a kill may leave it behind them; what it held at the
    start nobody knows once it is written again.
    """
    value = history.facets.checkpoints.value
    before = () if value is None else value.items
    return any(
        item.layout == LIGHTNING and item.step is not None and item.step <= first
        for item in before
        if _saved_before(item, started_at)
    )


def _every_step(history: History) -> bool:
    """Tell whether every step is logged, so that the first logged one is the first."""
    kept = (history.trend.pace.recent, history.log_trend.pace.recent)
    gaps = [b - a for pairs in kept for (a, _), (b, _) in pairwise(pairs) if b > a]
    return not gaps or min(gaps) == 1


def _saved_before(item: Checkpoint, started_at: float) -> bool:
    """Tell whether a good checkpoint was there before a job began; another clock has its slack.

    A suspect checkpoint is not expected: going back to before it is right.
    """
    slack = CLOCK_SKEW if "://" in item.path else 0.0
    good = item.good and item.own and item.saved_at is not None
    return good and (item.saved_at or 0.0) < started_at - slack


def _where(first: int, known: bool) -> str:
    """Return where it went on: a step that is not known to be the first is only the latest."""
    return f"{'at' if known or first == 0 else 'at or before'} step {wording.step(first)}"


def _alert(run: RunSpec, start: Start, where: str, wrong: str) -> Alert:
    meant = wording.step(start.expected)
    sure = start.confidence == "sure"
    title = f"Resumed {where}, not from {meant}"
    ask = f"ask who restarted {run.name} and from what; if not intended, "
    return Alert(
        key=f"C-12:first-step:{run.name}:{start.name}",
        title=title if sure else f"Restarted {where} although step {meant} was there",
        since=start.at,
        evidence=(
            *present.evidence("logged rows", wrong),
            *present.evidence(start.source, start.order),
        ),
        confidence=start.confidence,
        next_action=f"{'' if sure else ask}stop {run.name} before it overwrites good checkpoints;"
        " then read its log",
    )


CLOCK_SLACK: Final = CLOCK_SKEW
"""Seconds by which a job's start may seem to lie outside the pause that it made."""


def resume_mismatch(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-12 (loss): from where it shows until the next start; one restart is one alert."""
    seam = _seam(history)
    if seam is None or not may_train(history) or not _settled(run, history, seam):
        return
    if any(True for _ in resumed_elsewhere(run, history)):
        return  # it has loaded something else: that its loss is another one follows
    yield Alert(
        key=_key(run, seam),
        title=f"Resumed at step {wording.step(seam.first)}, but the loss does not match: "
        f"{_title(seam)}",
        since=present.first(seam.at, history.trend.last_step_at, history.now),
        evidence=(
            *present.evidence("logged rows", *_mismatch_texts(run, seam)),
            *present.gap(history),
        ),
        confidence="sure" if seam.back and history.rows_from == 0 else "likely",
        next_action=(
            f"compare config, data order and checkpoint of both starts; {wording.escalate(run)}"
            f" before {run.name} trains much further"
        ),
    )


def _settled(run: RunSpec, history: History, seam: Seam) -> bool:
    """Tell whether the former trend is known: not while rows before the first one read are missing.

    What both have logged is compared step by step, and needs no trend.
    """
    if seam.differ >= DIFFERING or history.rows_from == 0:
        return True
    return still_open(history, _key(run, seam)) is not None


def _key(run: RunSpec, seam: Seam) -> str:
    return f"C-12:loss:{run.name}:{seam.last}-{seam.first}"


def _seam(history: History) -> Seam | None:
    """Return the last restart whose loss does not fit."""
    known = history.trend.resumption
    if known.found is not None:
        return known.found
    job = job_of(history)
    starts = [None if job is None else job.started_at]
    starts.append(None if history.launched is None else history.launched.begun)
    for seam in reversed(known.shifts):
        low, high = seam.ended, seam.at
        if low is None or high is None:
            continue
        if any(at is not None and low - CLOCK_SLACK <= at <= high + CLOCK_SLACK for at in starts):
            return seam
    return None


def _title(seam: Seam) -> str:
    if seam.differ >= DIFFERING:
        return f"{seam.differ} of {seam.compared} compared steps differ"
    level, expected = seam.level or 0.0, seam.expected or 0.0
    way = "above" if level > expected else "below"
    share = abs(level - expected) / abs(expected) if expected else 0.0
    return f"{wording.percent(share, 1)} {way} the previous trend"


def _mismatch_texts(run: RunSpec, seam: Seam) -> Iterator[str]:
    limits = run.thresholds
    yield f"the previous job had logged up to step {wording.step(seam.last)}"
    if seam.compared:
        worst = f", the most by {seam.worst:+.3g} at step {wording.step(seam.worst_step)}"
        yield (
            f"{seam.differ} of {seam.compared} steps logged by both differ by more than"
            f" {limits.resume_catchup:g}{worst if seam.differ else ''}"
        )
    if seam.lr is not None and seam.lr_now is not None:
        yield f"learning rate {seam.lr:.4g} before the restart, {seam.lr_now:.4g} after it"
    if seam.level is not None and seam.expected is not None:
        yield (
            f"median of {LEVEL} rows {wording.number(seam.level)}, the previous job's trend gives"
            f" {wording.number(seam.expected)}; limit {wording.percent(limits.resume_after, 1)}"
        )
