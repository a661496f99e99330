"""What follows an action by itself: told when it has ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.model.plan import Outcome, StepState
from cockpit.model.report import RunReport
from cockpit.model.words import clock_time, duration
from screens.deeds import Deed

FIRST_CHECK: Final = 120.0
"""Seconds after a submit at which the run is checked first (SPEC W)."""
_FOLLOW: Final = "follow"


def follows(deed: Deed, reports: Sequence[RunReport]) -> str:
    """Return when the run is checked next, for an action that has started a job."""
    result = deed.result
    if result is None or result.outcome is not Outcome.DONE or result.job_id is None:
        return ""
    step = next((each for each in result.steps if each.name == _FOLLOW), None)
    if step is None or step.state is not StepState.DONE:
        return ""
    cadence = next((each.spec.cadence for each in reports if each.name == deed.request.run), None)
    then = f", then every {duration(cadence)}" if cadence else ""
    return f"first check at {clock_time(step.at + FIRST_CHECK)}{then}"
