"""How far a run is, how long it still takes, and which final step counts.

The final step is never guessed (C-20): it comes from the run file, else from what the present job
says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cockpit.model.finalstep import FinalStepSource, differing, final_step_in
from cockpit.model.history import History
from cockpit.model.observed import CheckpointState, Phase
from cockpit.model.report import Facets, Progress
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.jobs.terminal import diagnosis
from cockpit.rules.metrics.writers import Mixed, mixed
from cockpit.rules.present import CLOCK_SKEW, job_of, phase_of, steps_now, stopped


def final_step_sources(run: RunSpec, history: History) -> tuple[FinalStepSource, ...]:
    """Return all that tells the final step, whose word counts most first.

    First whoever wrote it into the run file, then the config shown by the job, then the
    one that it logged; the config and the command of the next launch last.
    """
    explicit = tuple(each for each in run.final_step_told if each.explicit)
    rest = tuple(each for each in run.final_step_told if not each.explicit)
    if run.final_step is not None and not run.final_step_told:  # a run that no file was read for
        source = run.final_step_source or "run file"
        explicit = (FinalStepSource(step=run.final_step, source=source, explicit=True),)
    return (*explicit, *_living(history), *rest)


def _living(history: History) -> Iterator[FinalStepSource]:
    job, tracker = history.facets.job.value, history.facets.tracker.value
    for source, config in (
        ("the job's own config", {} if job is None else job.config),
        ("the tracker's config", {} if tracker is None else tracker.config),
    ):
        found = final_step_in(config, source) if config else None
        if found is not None:
            yield found


def with_final_step(run: RunSpec, history: History) -> RunSpec:
    """Return the run with the final step that counts, its source, and all statements of it."""
    told = final_step_sources(run, history)
    chosen = next((each for each in told if each.step is not None), None)
    if chosen is None:
        why = next((each.text for each in told if each.why is not None), None)
        if why is None or run.final_step_source:
            return run
        return run.model_copy(update={"final_step_source": why})
    changes = {
        "final_step": chosen.step,
        "final_step_source": chosen.source,
        "final_step_told": told,
    }
    return run.model_copy(update=changes)


def doubt_about(run: RunSpec) -> str | None:
    """Return what else is stated as the final step, if it differs."""
    return differing(run.final_step_told)


REACH = 1.5
"""How much faster than usual training may have stepped, where that is to bound a step."""
PACES = 1.4
"""Ratio from which on two paces are not those of the same count."""


class StepSeen(NamedTuple):
    """A training step, when it was logged (at the latest), and which source tells it."""

    step: int
    at: float | None
    source: str


def progress(run: RunSpec, history: History) -> Progress:
    """Return the progress: ``~4600/5155``, ``~4600/unknown``, ``unknown/5155``."""
    two = mixed(run, history)
    newest, final = newest_step(history, two), run.final_step
    step = None if newest is None else newest.step
    left = "unknown" if step is None else f"~{step}"
    right = "unknown" if final is None else str(final)
    return Progress(
        step=step,
        step_source=None if newest is None else newest.source,
        final_step=final,
        final_step_source=run.final_step_source if final is not None else None,
        final_step_doubt=doubt_about(run),
        text=f"{left}/{right}",
        eta_s=_eta(run, history, step),
    )


def current_step(history: History) -> int | None:
    """Return the newest training step that any source tells."""
    newest = newest_step(history)
    return None if newest is None else newest.step


def newest_step(history: History, two: Mixed | None = None) -> StepSeen | None:
    """Return the newest step of the present incarnation over tracker, log and checkpoints.

    A step of a former one never wins by being larger; it stands in only where no job runs that
    could have made one. Nor does one that training cannot have reached yet: a line of the former
    job in the same log, a checkpoint that was copied here.
    """
    told = [one for one in (_tracked(history), *_logged(history, two), _saved(history)) if one]
    began = _began(history)
    present = [one for one in told if one.at is None or one.at >= began]
    if not present and phase_of(history) is Phase.RUNNING:
        return None
    if not present:
        former = max(told, key=lambda one: one.at or 0.0, default=None)
        return former and former._replace(source=f"{former.source}, before this job")
    newest = present[0]
    for other in present[1:]:
        if other.step > newest.step and _within_reach(newest, other, history):
            newest = other
    return newest


def _tracked(history: History) -> StepSeen | None:
    """Return the tracker's newest step: its newest value's, else that of its folded rows."""
    facet, pace = history.facets.tracker, history.trend.pace
    if _counts_otherwise(history):
        return None
    if facet.value is not None and facet.value.step is not None:
        return StepSeen(facet.value.step, facet.value.last_step_at, "tracker")
    if pace.step is None or history.trend is history.log_trend:
        return None
    return StepSeen(pace.step, pace.at, "tracker")


def _counts_otherwise(history: History) -> bool:
    """Tell whether the tracker counts something else than the log's steps.

    Where a trainer logs no step, the tracker counts calls; two calls a step are usual. Then
    its count runs at another pace than the steps of the log.
    """
    value = history.facets.tracker.value
    mine, logs = history.trend.usual_step_s, history.log_trend.usual_step_s
    if value is None or not value.counts_calls or not mine or not logs:
        return False
    return history.trend is not history.log_trend and not 1 / PACES < mine / logs < PACES


def _logged(history: History, two: Mixed | None) -> Iterator[StepSeen]:
    """Yield the log's newest step, as it was followed and as the diagnosis of its job found it.

    The diagnosis of a job that is over has read above the lines that are followed.
    """
    if two is not None:
        if two.own is not None:
            yield StepSeen(two.own.step, two.own.at, "log")
        return
    pace, found = history.log_trend.pace, diagnosis(history)
    if pace.step is not None:
        yield StepSeen(pace.step, pace.at, "log")
    elif (former := _read_before(history)) is not None:
        yield former
    if found is not None and found.step is not None:
        yield StepSeen(found.step, None, "log")


def _read_before(history: History) -> StepSeen | None:
    """Return the newest step of a log that nobody could read since this engine started."""
    facet = history.facets.log
    if facet.value is None or facet.value.told_step is None:
        return None
    return StepSeen(facet.value.told_step, facet.value.mtime, "log")


def _saved(history: History) -> StepSeen | None:
    """Return the checkpoint that was completed last."""
    value = history.facets.checkpoints.value
    complete = [
        StepSeen(item.step, item.saved_at, "checkpoints")
        for item in (value.items if value is not None else ())
        if item.state is CheckpointState.COMPLETE
        and item.step is not None
        and item.saved_at is not None
    ]
    return max(complete, key=lambda one: (one.at or 0.0, one.step), default=None)


def _began(history: History) -> float:
    """Return when the present incarnation began: its job's start, or the step went back."""
    job = job_of(history)
    marks = [
        None if job is None else job.started_at,
        history.trend.pace.resumed_at,
        history.log_trend.pace.resumed_at,
    ]
    return max((at for at in marks if at is not None), default=float("-inf"))


def _within_reach(known: StepSeen, other: StepSeen, history: History) -> bool:
    """Tell whether training can have come from ``known`` to ``other`` by the time of that."""
    usual = history.trend.usual_step_s
    if usual is None or known.at is None or other.at is None:
        return True
    return other.at + CLOCK_SKEW >= known.at + (other.step - known.step) * usual / REACH


def reached(step: int, final: int) -> bool:
    """Tell whether ``step`` is the last one: trainers count to N or from 0 to N - 1 (SPEC K)."""
    return step >= final - 1


def _eta(run: RunSpec, history: History, step: int | None) -> float | None:
    """Return seconds to the final step while the job steps, by the usual step time."""
    final = run.final_step
    if step is None or final is None or phase_of(history) is not Phase.RUNNING:
        return None
    if stopped(history) is not None or history.not_read_yet or not steps_now(run, history):
        return None
    if reached(step, final):
        return 0.0
    tracker = history.facets.tracker.value
    paces = (
        history.trend.usual_step_s,
        None if tracker is None else tracker.usual_step_s,
        history.log_trend.usual_step_s,
    )
    usual = next((pace for pace in paces if pace is not None), None)
    return None if usual is None else (final - step) * usual


def with_baseline(facets: Facets, trend: Trend) -> Facets:
    """Return ``facets`` with the tracker's throughput baseline filled in, where there is one.

    Only where throughput is logged: a level of steps per second is no baseline for tokens.
    """
    value = facets.tracker.value
    if value is None or trend.baseline is None or not trend.throughput.measured:
        return facets
    filled = value.model_copy(update={"baseline": trend.baseline})
    tracker = facets.tracker.model_copy(update={"value": filled})
    return facets.model_copy(update={"tracker": tracker})
