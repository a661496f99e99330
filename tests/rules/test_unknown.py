"""What cannot be seen opens no alert about what a run is, and closes none that is open."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.history import History
from cockpit.model.observed import Phase
from cockpit.rules.judge import ROWS, judge, rules_of
from tests.house.test_rules import CASES, Case
from tests.rules.making import T0, blind, history, job, run_spec

HELD = ("C-13", "C-15", "C-16", "C-17", "C-18", "C-22")
"""What rests on looks that may fail while the job is known to run."""
AWAY: dict[str, Any] = {name: blind() for name in ("log", "tracker", "host", "code", "checkpoints")}


def case_of(condition: str) -> Case:
    """Return a situation that opens a condition."""
    return CASES[rules_of(ROWS[condition])[0].__name__]()


def dark(condition: str, phase: Phase = Phase.RUNNING) -> tuple[set[str], set[str]]:
    """Return the keys that a situation has opened, and those after all but the job went dark."""
    case = case_of(condition)
    opened = tuple(each for each in judge(case.run, case.past) if each.id == condition)
    past = history(T0 + 60, job=job(phase), open=opened, **AWAY)
    after = {each.key for each in judge(case.run, past) if each.id == condition}
    return {each.key for each in opened}, after


@pytest.mark.parametrize("condition", HELD)
def test_an_open_alert_outlasts_blindness_and_ends_with_its_job(condition: str) -> None:
    opened, after = dark(condition)
    assert opened and after == opened
    assert dark(condition, Phase.SUCCEEDED)[1] == set()


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.WAITING, Phase.UNKNOWN])
def test_nothing_opens_of_a_run_of_which_nothing_is_seen(phase: Phase) -> None:
    for condition in HELD:
        run = case_of(condition).run
        past: History = history(T0 + 1, job=job(phase), **AWAY)
        assert not [each.key for each in judge(run, past) if each.id in HELD]
    assert not judge(run_spec(), History(now=T0))
