"""C-07, checkpoint not advancing: late, stuck in the middle, or torn by a dead job."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History
from cockpit.model.observed import Checkpoint, CheckpointState, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import say
from cockpit.rules.moving import moved
from cockpit.rules.present import StepClock, job_of, phase_of, phase_since, seen_after_end, seen_at

INTERVALS = 2
_UNFINISHED = (CheckpointState.INCOMPLETE, CheckpointState.WRITING)


def checkpoint_not_advancing(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-07. Without ``save_every`` nothing is late; a torn one of a dead job is torn anyway."""
    if history.facets.checkpoints.value is None:
        return
    yield from _late(run, history)
    yield from _torn(run, history)


def newest_complete(items: tuple[Checkpoint, ...]) -> Checkpoint | None:
    """Return the complete checkpoint of the highest step."""
    complete = [item for item in items if item.state is CheckpointState.COMPLETE]
    return max(complete, key=lambda item: -1 if item.step is None else item.step, default=None)


def _items(history: History) -> tuple[Checkpoint, ...]:
    value = history.facets.checkpoints.value
    return () if value is None else value.items


def _late(run: RunSpec, history: History) -> Iterator[Alert]:
    """Yield the alert for steps that have moved on for two intervals past the newest save.

    Only the time in which they moved counts: a job that was stopped could not save either.
    """
    spec = run.checkpoints
    if spec is None or not spec.save_every or phase_of(history).terminal:
        return
    stepped = StepClock(history).last
    saves = [i.saved_at for i in _items(history) if i.state is CheckpointState.COMPLETE]
    if stepped is None or any(at is None for at in saves):
        return
    newest = max((at for at in saves if at is not None), default=None)
    anchor = max(_began(history), newest if newest is not None else float("-inf"))
    reach = min(stepped, seen_at(history.facets.checkpoints, history.now))
    if anchor == float("-inf") or moved(history, anchor, reach) <= INTERVALS * spec.save_every:
        return
    yield _late_alert(run, history, spec.save_every, anchor)


def _began(history: History) -> float:
    """Return when this instance began to train, so that a relaunch gets its own time to save."""
    job, pace = job_of(history), history.trend.pace
    known = [pace.resumed_at, pace.first_at if history.rows_from == 0 else None]
    known.append(job.started_at if job is not None else None)
    return max((at for at in known if at is not None), default=float("-inf"))


def _late_alert(run: RunSpec, history: History, every: float, anchor: float) -> Alert:
    newest = newest_complete(_items(history))
    text = "there is no complete checkpoint"
    if newest is not None and newest.saved_at is not None:
        text = f"newest complete: {say.step(newest.step)}, saved at {say.moment(newest.saved_at)}"
    limit = f"steps move on; limit {INTERVALS} intervals of {say.span(every)}"
    source = history.facets.checkpoints.source
    return Alert(
        id="C-07",
        key=f"C-07:{run.name}",
        severity=Severity.ALERT,
        title="checkpoints do not advance",
        since=anchor,
        evidence=(Evidence(text=text, source=source), Evidence(text=limit, source=source)),
        confidence="sure",
        next_action="look for stuck writes or a full disk before the rollback window collapses",
    )


def _torn(run: RunSpec, history: History) -> Iterator[Alert]:
    newest = newest_complete(_items(history))
    listing = history.facets.checkpoints
    dead = phase_of(history).terminal and seen_after_end(listing, history)
    for item in _items(history):
        if item.state in _UNFINISHED and (dead or _stuck(run, history, item)):
            yield _torn_alert(run, history, item, _superseded(item, newest), dead)


def _stuck(run: RunSpec, history: History, item: Checkpoint) -> bool:
    every = run.checkpoints.save_every if run.checkpoints is not None else None
    touched = _touched(item)
    if not every or touched is None:
        return False
    return seen_at(history.facets.checkpoints, history.now) - touched > every


def _touched(item: Checkpoint) -> float | None:
    """Return when anything of it was last written: without its marker it was never saved."""
    return item.touched_at if item.saved_at is None else item.saved_at


def _superseded(item: Checkpoint, newest: Checkpoint | None) -> bool:
    """Tell whether a later save is complete: then the torn one is only litter."""
    step = item.name_step if item.step is None else item.step
    if step is None or newest is None or newest.step is None:
        return False
    return newest.step > step


def _torn_alert(
    run: RunSpec, history: History, item: Checkpoint, litter: bool, dead: bool
) -> Alert:
    step = item.name_step if item.step is None else item.step
    label = f"step-{step}" if step is not None else item.path
    cause = "torn: the job ended while it was written" if dead else "unfinished for too long"
    return Alert(
        id="C-07",
        key=f"C-07:{run.name}:{label}",
        severity=Severity.INFO if litter else Severity.ALERT,
        title=f"checkpoint {say.step(step)} is {cause}",
        since=say.first(_touched(item), phase_since(history)),
        evidence=(
            Evidence(text=item.note or f"{item.state.value}: {item.path}", source=item.path),
        ),
        confidence="sure" if dead else "likely",
        next_action=_next(run, history, litter),
    )


def _next(run: RunSpec, history: History, litter: bool) -> str:
    newest = newest_complete(_items(history))
    if litter:
        return "nothing; a later checkpoint is complete (retain can clear it away)"
    if newest is None:
        return f"escalate to {say.person(run)}: there is no complete checkpoint to resume from"
    if phase_of(history) in (Phase.FAILED, Phase.CANCELLED, Phase.SUCCEEDED):
        return f"do not resume from it; the newest complete one is {say.step(newest.step)}"
    return "look for stuck writes or a full disk; do not resume from it"
