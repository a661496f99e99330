"""How far a run is, and how long it still takes (C-20: the final step is never guessed)."""

from __future__ import annotations

from cockpit.model.history import History
from cockpit.model.observed import Phase
from cockpit.model.report import Facets, Progress
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.present import phase_of, stopped


def progress(run: RunSpec, history: History) -> Progress:
    """Return the progress: ``~4600/5155``, ``~4600/unknown``, ``unknown/5155``."""
    step, final = current_step(history), run.final_step
    left = "unknown" if step is None else f"~{step}"
    right = "unknown" if final is None else str(final)
    return Progress(
        step=step,
        final_step=final,
        final_step_source=run.final_step_source if final is not None else None,
        text=f"{left}/{right}",
        eta_s=_eta(history, step, final),
    )


def current_step(history: History) -> int | None:
    """Return the newest step: the tracker's, else that of the folded or the log's own rows."""
    tracker, log = history.facets.tracker.value, history.facets.log.value
    if tracker is not None and tracker.step is not None:
        return tracker.step
    if history.trend.pace.step is not None:
        return history.trend.pace.step
    rows = log.rows if log is not None else ()
    return next((row.step for row in reversed(rows) if row.step is not None), None)


def reached(step: int, final: int) -> bool:
    """Tell whether ``step`` is the last one: trainers count to N or from 0 to N - 1 (SPEC K)."""
    return step >= final - 1


def _eta(history: History, step: int | None, final: int | None) -> float | None:
    """Return seconds to the final step while the job runs, by the usual step time."""
    if step is None or final is None or phase_of(history) is not Phase.RUNNING:
        return None
    if stopped(history) is not None:
        return None
    if reached(step, final):
        return 0.0
    tracker = history.facets.tracker.value
    usual = history.trend.usual_step_s
    if usual is None and tracker is not None:
        usual = tracker.usual_step_s
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
