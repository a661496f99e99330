"""Checkpoint rules: C-07 (late, stuck or torn), C-08 (rollback cover thin), and retention (A-6).

Cover is thin when complete checkpoints that existed are gone, or a protected one is missing. What a
rollback deletes is no loss of cover: it lowers the newest step, and the count starts again there.
A clean-up by the cockpit never goes below the depth, so it never opens C-08.

Retention decides which checkpoints a clean-up may delete, and why each of the others stays. It
keeps what is unknown and what is not surely this run's. Suspect checkpoints are counted apart, so
that none of them takes the place of a good one. It always keeps the newest ones, the final one,
what a launch resumed from, recovery sources, milestones, what the trainer would load, and what is
being written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise

from pydantic import Field

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.model.clock import FILE_SKEW
from cockpit.model.history import CheckpointMark, History
from cockpit.model.lineage import named, newest_good, newest_of
from cockpit.model.observed import Checkpoint, CheckpointState, Phase
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.metrics.numerics import PAUSE
from cockpit.rules.present import StepClock, job_of, phase_of, phase_since, seen_after_end, seen_at

KEEP = 10
"""How many of the newest complete ones stay unless the run file says otherwise (HERO)."""
DEFAULT_INTERVAL = 3600.0
"""Seconds after which an unfinished one counts as left behind where no interval is known."""


class Policy(Frozen):
    """What the run file and the request ask for; ``keep`` is never below the rollback depth."""

    keep: int
    final_step: int | None = None
    permanent_every: int | None = None
    protect: tuple[int, ...] = ()
    save_every: Seconds = DEFAULT_INTERVAL


class Needed(Frozen):
    """What else is known of checkpoints; ``sources`` says by path which runs started from it."""

    now: Instant
    trainer_would_load: str | None = None
    sources: dict[str, str] = Field(default_factory=dict)


class Decision(Frozen):
    """One checkpoint, whether it may be deleted, and why, or why not."""

    item: Checkpoint
    delete: bool
    why: str


def policy_of(run: RunSpec, keep: int | None = None) -> Policy:
    """Return the run's policy; ``keep`` replaces its own, down to the rollback depth."""
    spec = run.checkpoints
    if spec is None:
        return Policy(keep=max(1, KEEP if keep is None else keep), final_step=run.final_step)
    own = KEEP if spec.keep is None else spec.keep
    return Policy(
        keep=max(own if keep is None else keep, depth_of(run)),
        final_step=run.final_step,
        permanent_every=spec.permanent_every,
        protect=spec.protect,
        save_every=spec.save_every or DEFAULT_INTERVAL,
    )


def depth_of(run: RunSpec) -> int:
    """Return how many complete checkpoints a rollback must be able to choose from."""
    depth = run.checkpoints.rollback_depth if run.checkpoints is not None else None
    return max(1, 1 if depth is None else depth)


def decide(items: Sequence[Checkpoint], policy: Policy, needed: Needed) -> tuple[Decision, ...]:
    """Return the decision about each checkpoint, in the order given.

    A temporary one, which the trainer deletes itself, never takes the place of one that stays.
    """
    own = [item for item in items if item.complete and item.own]
    newest: dict[tuple[bool, bool], tuple[int, ...]] = {}
    for good in (True, False):
        like = [item for item in own if item.good is good]
        lasting = [item for item in like if item.permanent is not False]
        newest[good, True] = _newest(like, policy)
        newest[good, False] = _newest(lasting or like, policy)
    return tuple(
        _decision(
            item, newest[item.good or not item.complete, item.permanent is False], policy, needed
        )
        for item in items
    )


def _newest(items: Sequence[Checkpoint], policy: Policy) -> tuple[int, ...]:
    steps = {item.step for item in items if item.step is not None}  # copies of a step count once
    return tuple(sorted(steps, reverse=True)[: max(1, policy.keep)])


def _decision(
    item: Checkpoint, newest: tuple[int, ...], policy: Policy, needed: Needed
) -> Decision:
    kept = [*_always(item, needed)]
    if item.state is CheckpointState.COMPLETE:
        kept += _complete(item, newest, policy)
    elif item.state is CheckpointState.INCOMPLETE and not item.half_deleted:
        kept += _unfinished(item, newest, policy, needed.now)
    if kept:
        return Decision(item=item, delete=False, why="; ".join(dict.fromkeys(kept)))
    return Decision(item=item, delete=True, why=_reason(item, newest))


def _always(item: Checkpoint, needed: Needed) -> Iterator[str]:
    if item.state is CheckpointState.WRITING:
        yield "being written"
    if item.lineage is not None:
        yield f"not, or not surely, this run's: {item.lineage}"
    if item.files > 1:
        yield f"one save of {item.files} files beside each other: delete it by hand"
    if item.state is CheckpointState.UNKNOWN:
        yield "its state is unknown" + (f": {item.note}" if item.note else "")
    yield from item.protected
    if item.path in needed.sources:
        yield needed.sources[item.path]
    if item.path == needed.trainer_would_load:
        yield "the trainer would load it"


def _complete(item: Checkpoint, newest: tuple[int, ...], policy: Policy) -> Iterator[str]:
    step = item.step
    if step is None:
        yield "its step is unknown"
        return
    if step in newest:
        kind = "" if item.good else " that are suspect"
        yield f"one of the newest {len(newest)}{kind}"
    if policy.final_step is not None and step in (policy.final_step - 1, policy.final_step):
        yield "final"
    if step in policy.protect:
        yield "protected in the run file"
    every = policy.permanent_every
    # A permanent one of the agreed rhythm; trainers count from 0 or from 1 (SPEC K).
    if every and item.permanent is not False and 0 in (step % every, (step + 1) % every):
        yield f"milestone: every {every:,} steps"


def _unfinished(
    item: Checkpoint, newest: tuple[int, ...], policy: Policy, now: float
) -> Iterator[str]:
    touched = item.touched_at
    if touched is None:
        yield "unfinished, and its age is unknown"
    elif now - touched <= policy.save_every:
        yield "unfinished, but changed within a save interval"
    elif not newest:
        yield "there is no complete one: a person may want to look at it"


def _reason(item: Checkpoint, newest: tuple[int, ...]) -> str:
    if item.state is CheckpointState.REJECTED:
        return item.note or "of a rejected lineage"
    if item.half_deleted:
        return "left half deleted by an earlier clean-up"
    if item.state is CheckpointState.INCOMPLETE:
        return "torn: " + (item.note or "never finished")
    kind = "" if item.good else " that are suspect"
    return f"older than the newest {len(newest)}{kind}, which begin at step {newest[-1]:,}"


INTERVALS = 2
"""Save intervals without a complete checkpoint after which C-07 opens."""
ORDINARY_DEPTH = 1
_UNFINISHED = (CheckpointState.INCOMPLETE, CheckpointState.WRITING)


def checkpoint_not_advancing(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-07. Without ``save_every`` nothing is late; a torn one of a dead job is torn anyway."""
    value = history.facets.checkpoints.value
    if value is None or value.unlisted:
        return
    yield from _late(run, history)
    yield from _torn(run, history)


def newest_complete(items: tuple[Checkpoint, ...]) -> Checkpoint | None:
    """Return the newest complete checkpoint, suspect or not."""
    return newest_of(item for item in items if item.complete and item.own)


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
    saves += [i.touched_at for i in _unknown(history) if i.touched_at is not None]
    if stepped is None or any(at is None for at in saves):
        return
    newest = max((at for at in saves if at is not None), default=None)
    anchor = max(_began(history), newest if newest is not None else float("-inf"))
    reach = min(stepped, seen_at(history.facets.checkpoints, history.now))
    if anchor == float("-inf") or _moved(history, anchor, reach) <= INTERVALS * spec.save_every:
        return
    yield _late_alert(run, history, spec.save_every, anchor)


def _unknown(history: History) -> list[Checkpoint]:
    """Return what may be whole: an unknown layout, a pointer behind. It is not missing."""
    return [item for item in _items(history) if item.state is CheckpointState.UNKNOWN]


def _began(history: History) -> float:
    """Return when this instance began to train, so that a relaunch gets its own time to save."""
    job, pace = job_of(history), history.trend.pace
    known = [pace.resumed_at, pace.first_at if history.rows_from == 0 else None]
    known.append(job.started_at if job is not None else None)
    return max((at for at in known if at is not None), default=float("-inf"))


def _moved(history: History, start: float, end: float) -> float:
    """Return the seconds from ``start`` to ``end`` in which steps were logged as usual.

    A pause of training (a stop, a stall, a sleeping machine) does not count, whether it is
    among the folded rows or among the steps that are not folded yet.
    """
    pace, tracker, log = history.trend.pace, history.facets.tracker.value, history.facets.log.value
    pauses = list(pace.pauses)
    if pace.at is not None and pace.usual_gap_s is not None:
        instants = [tracker.last_step_at] if tracker is not None else []
        instants += [row.at for row in log.rows] if log is not None else []
        later = sorted(at for at in instants if at is not None and at > pace.at)
        longest = PAUSE * pace.usual_gap_s
        pauses += [(a, b) for a, b in pairwise([pace.at, *later]) if b - a > longest]
    paused = (min(until, end) - max(since, start) for since, until in pauses)
    return end - start - sum(max(0.0, seconds) for seconds in paused)


def _late_alert(run: RunSpec, history: History, every: float, anchor: float) -> Alert:
    newest = newest_complete(_items(history))
    text = "there is no complete checkpoint"
    if newest is not None and newest.saved_at is not None:
        saved = wording.moment(newest.saved_at)
        text = (
            f"newest complete checkpoint: {named(newest).removeprefix('step ')}, saved at {saved}"
        )
    elif newest is None and (unknown := _unknown(history)):
        text = f"none is known to be complete; {len(unknown)} in an unknown state"
    limit = f"steps advance; limit {INTERVALS} save intervals of {wording.span(every)}"
    return Alert(
        key=f"C-07:{run.name}",
        title="Checkpoints do not advance",
        since=anchor,
        evidence=present.evidence(history.facets.checkpoints.source, text, limit),
        next_action="look for stuck writes or a full disk, while an older one can still be used",
    )


def _torn(run: RunSpec, history: History) -> Iterator[Alert]:
    listing = history.facets.checkpoints
    every = run.checkpoints.save_every if run.checkpoints is not None else None
    dead = phase_of(history).terminal and seen_after_end(listing, history)
    began = present_since(history)
    together: dict[tuple[_Cause, bool], list[Checkpoint]] = {}
    for item in _items(history):
        touched = _touched(item)
        quiet = 0.0 if touched is None else seen_at(listing, history.now) - touched
        stuck = every and touched is not None and quiet > every
        former = touched is not None and began is not None and touched < began
        if item.state not in _UNFINISHED or not (dead or stuck or former):
            continue
        cause = _Cause.FORMER if former else _Cause.EMPTY if item.emptied else _cause(dead)
        litter = _is_litter(history, item, cause)
        if cause in _SHARED:
            together.setdefault((cause, litter), []).append(item)
        else:
            yield _torn_alert(run, history, [item], cause, litter)
    for (cause, litter), items in together.items():
        yield _torn_alert(run, history, items, cause, litter)


class _Cause(Enum):
    """What left a checkpoint unfinished, in a word for its alert."""

    DIED = "torn: the job died while writing it"
    FORMER = "torn: left by an earlier job"
    STUCK = "unfinished for too long"
    EMPTY = "without its data"


_SHARED = (_Cause.FORMER, _Cause.EMPTY)
"""What befalls many checkpoints at once: one cause is one alert, not one for each."""


def _cause(dead: bool) -> _Cause:
    return _Cause.DIED if dead else _Cause.STUCK


def present_since(history: History) -> float | None:
    """Return when the present job began, as well as that is known: what is older it did not write.

    ``None`` where nothing tells. A small slack is for the clocks of file systems.
    """
    job, launched = job_of(history), history.launched
    began = job.started_at if job is not None else None
    if began is None and launched is not None and job is not None and launched.job_id == job.id:
        began = launched.at
    if began is None:
        began = history.trend.pace.resumed_at
    return None if began is None else began - FILE_SKEW


def _touched(item: Checkpoint) -> float | None:
    """Return when anything of it was last written: without its marker it was never saved."""
    return item.touched_at if item.saved_at is None else item.saved_at


def _is_litter(history: History, item: Checkpoint, cause: _Cause) -> bool:
    """Tell whether a former job left it, or a later save made up for it."""
    newest = newest_complete(_items(history))
    last, step = newest.step if newest is not None else None, item.any_step
    former = cause is _Cause.FORMER and not phase_of(history).terminal
    return former or (step is not None and last is not None and last > step)


def _torn_alert(
    run: RunSpec, history: History, items: list[Checkpoint], cause: _Cause, litter: bool
) -> Alert:
    """Return the alert about checkpoints that one cause left unfinished, the lowest step first.

    It is known by the first of them, so that it stays the same while more follow.
    """
    first, steps = items[0], [item.any_step for item in items]
    label = f"step-{steps[0]}" if steps[0] is not None else first.path
    names = [_called(item) for item in items]
    title = f"Checkpoint {names[0]} is {cause.value}"
    texts = [first.note or f"{first.state.value}: {first.path}"]
    if len(items) > 1:
        title = f"{len(items)} checkpoints are {cause.value.replace(' its ', ' their ')}"
        shown = names if len(names) <= _NAMED else [*names[:_NAMED], "…", names[-1]]
        texts.append(f"{len(items)} like it: {', '.join(shown)}")
    return Alert(
        key=f"C-07:{run.name}:{label}",
        severity=Severity.INFO if litter else Severity.ALERT,
        title=title,
        since=present.first(_touched(first), phase_since(history)),
        evidence=present.evidence(first.path, *texts),
        confidence="likely" if cause is _Cause.STUCK else "sure",
        next_action=_next(run, history, cause, litter),
    )


_NAMED = 6
"""Checkpoints of one alert that are named; then only the last one."""


def _called(item: Checkpoint) -> str:
    return named(item).removeprefix("step ")


def _next(run: RunSpec, history: History, cause: _Cause, litter: bool) -> str:
    newest = newest_good(_items(history))
    if cause is _Cause.FORMER and not phase_of(history).terminal:
        return "nothing to do: do not resume from it (retain can delete it)"
    if litter:
        return "nothing to do: a later checkpoint is complete (retain can delete this one)"
    if newest is None:
        spoilt = any(item.complete for item in _items(history))
        what = (
            "every complete checkpoint is suspect" if spoilt else "there is no complete checkpoint"
        )
        return f"{wording.escalate(run)}: {what} to resume from"
    if phase_of(history) in (Phase.FAILED, Phase.CANCELLED, Phase.SUCCEEDED):
        return f"resume from {_called(newest)}, the newest complete checkpoint"
    if cause is _Cause.EMPTY:
        return "find what removed its data; do not resume from it"
    return "look for stuck writes or a full disk; do not resume from it"


def rollback_cover_thin(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-08. What cannot be listed is not gone."""
    value = history.facets.checkpoints.value
    if value is None or value.unlisted:
        return
    if run.checkpoints is None or phase_of(history) is Phase.SUCCEEDED:
        return
    done = [item for item in value.items if item.good]
    suspect = [item for item in value.items if item.complete and not item.good]
    depth = ORDINARY_DEPTH if run.tier == "ordinary" else depth_of(run)
    had, due = _had(history.checkpoints, _first(suspect)), _left_by_policy(run, history)
    unknown = len(_unknown(history))
    if len(done) + unknown < min(depth, max(had, due)):
        of = (
            f"of {had} that were there"
            if had >= due
            else f"of {due} that the policy should have kept"
        )
        text = f"{len(done)} complete checkpoints, {of}; rollback depth {depth}"
        text += f"; {len(suspect)} suspect not counted" if suspect else ""
        text += f"; {unknown} in an unknown state" if unknown else ""
        yield _cover_alert(
            run, history, f"C-08:{run.name}", "Too few checkpoints to roll back to", text
        )
    there = {item.step for item in done if item.step is not None}
    newest = max(there, default=-1)
    passed = (step for step in run.checkpoints.protect if step < newest)
    for step in (step for step in passed if not {step - 1, step} & there):
        text = f"no complete checkpoint of step {wording.step(step)}, which cockpit.toml protects"
        key = f"C-08:{run.name}:step-{step}"
        yield _cover_alert(
            run, history, key, f"Protected checkpoint {wording.step(step)} is missing", text
        )


def _left_by_policy(run: RunSpec, history: History) -> int:
    """Return how many complete ones the policy should have left by now.

    0 where it does not say how many it keeps, and where nothing was saved lately: that is C-07's.
    Counted from the present start: what was rolled back is no loss. The newest may be on its way.
    """
    spec, last = run.checkpoints, StepClock(history).last
    if spec is None or not spec.save_every or not spec.keep or last is None:
        return 0
    began = _began(history)
    if began == float("-inf") or any(_late(run, history)):
        return 0
    reach = min(last, seen_at(history.facets.checkpoints, history.now))
    saves = int(_moved(history, began, reach) // spec.save_every) - 1
    return max(0, min(spec.keep, saves))


def _first(suspect: list[Checkpoint]) -> int | None:
    return min((item.step for item in suspect if item.step is not None), default=None)


def _had(marks: tuple[CheckpointMark, ...], suspect_from: int | None) -> int:
    """Return the most complete ones seen since the newest step last went back.

    Those from ``suspect_from`` on were never cover: only what was there before them counts.
    """
    most, newest = 0, None
    for mark in marks:
        if suspect_from is not None and (mark.newest is None or mark.newest >= suspect_from):
            continue
        if newest is not None and mark.newest is not None and mark.newest < newest:
            most = 0
        newest = newest if mark.newest is None else mark.newest
        most = max(most, mark.complete)
    return most


def _cover_alert(run: RunSpec, history: History, key: str, title: str, text: str) -> Alert:
    listing = history.facets.checkpoints
    marks = history.checkpoints
    return Alert(
        key=key,
        title=title,
        since=marks[-1].at if marks else seen_at(listing, history.now),
        evidence=present.evidence(listing.source, text),
        confidence="likely",
        next_action="find what is deleting checkpoints, while there is still one to roll back to",
    )
