"""C-12, the first step after a launch: a resume that found nothing starts silently at step 0.

It would later overwrite good checkpoints (SPEC K), so one glance at the first step decides.
Trainers count differently: one that loads step N goes on with N or N + 1; both are right.
"""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History, Launched
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.present import CLOCK_SKEW, may_train

REACH = 1.5
"""How much faster than usual a resumed run may step before its first step is out of reach."""
SLACK = 100
"""Steps by which the first one seen may lie behind: not every step is logged."""


def first_step_wrong(
    launched: Launched, first: int, at: float | None, usual_step_s: float | None
) -> str | None:
    """Return why the first step seen of a launch cannot be right (one line), or ``None``.

    ``at`` is when it was logged; without it, or without the usual pace (seconds per step), a
    step that is too far ahead cannot be told, nor soon after the launch: the trainer's clock
    may be ahead, and the step one of the former job's.
    """
    expected = launched.resumes_from
    if expected is None:
        return None
    if first < expected:
        return (
            f"the first step seen is {wording.step(first)}, expected {wording.step(expected + 1)}"
        )
    if at is None or not usual_step_s or at < launched.at + CLOCK_SKEW:
        return None
    reach = expected + 1 + SLACK + REACH * (at - launched.at) / usual_step_s
    if first <= reach:
        return None
    return (
        f"the first step seen is {wording.step(first)}, too far from {wording.step(expected)}:"
        " it has loaded another checkpoint"
    )


def _first_step_seen(launched: Launched, history: History) -> tuple[int, float] | None:
    """Return the lowest step that was logged after a launch, and when; ``None`` before one is.

    The lowest is the first: where clocks differ, a late row of the former job is above it.
    """
    log = history.facets.log.value
    rows = [] if log is None else [(row.step, row.at) for row in log.rows]
    timed = [*history.trend.pace.recent, *rows]
    after = [
        (step, at)
        for step, at in timed
        if step is not None and at is not None and at >= launched.at
    ]
    return min(after, default=None)


def resumed_elsewhere(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-12 (first step): at once, and until the next launch: what it overwrites is at stake."""
    launched = history.launched
    if launched is None or not may_train(history):
        return
    noted = None if launched.first_step is None else (launched.first_step, None)
    seen = [each for each in (noted, _first_step_seen(launched, history)) if each is not None]
    first, at = min(seen, key=lambda each: each[0], default=(None, None))
    pace = history.trend.usual_step_s
    wrong = None if first is None else first_step_wrong(launched, first, at, pace)
    if wrong is None:
        return
    meant = wording.step(launched.resumes_from)
    order = f"{launched.launch_id} was to load step {meant}"
    yield Alert(
        id="C-12",
        key=f"C-12:first-step:{run.name}:{launched.launch_id}",
        severity=Severity.ALERT,
        title=f"resumed at step {wording.step(first)}, not from {meant}",
        since=launched.at,
        evidence=(*present.evidence("logged rows", wrong), *present.evidence("journal", order)),
        confidence="sure",
        next_action=f"stop {run.name} before it overwrites good checkpoints; then look at its log",
    )
