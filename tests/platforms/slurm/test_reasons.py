from __future__ import annotations

import pytest

from cockpit.model.observed import Phase
from cockpit.platforms.slurm.record import never_starts
from cockpit.rules.jobs.jobstate import pending_too_long
from tests.rules.making import T0, history, job, run_spec

WORDS = ("DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin", "PartitionNodeLimit")


@pytest.mark.parametrize("reason", [*WORDS, "BadConstraints", "(jobheldadmin)"])
def test_what_never_starts(reason: str) -> None:
    assert never_starts(reason)


@pytest.mark.parametrize("reason", ["Priority", "Resources", "BeginTime", "Dependency", "", None])
def test_what_has_its_turn_some_time(reason: str | None) -> None:
    assert not never_starts(reason)


@pytest.mark.parametrize("reason", WORDS)
def test_the_rule_says_so_at_once(reason: str) -> None:
    value = job(Phase.WAITING, pending_since=T0, reason=reason, never=never_starts(reason))
    (alert,) = pending_too_long(run_spec(), history(T0 + 1, job=value))
    assert (
        alert.title == "Job can never start" and "change the resource request" in alert.next_action
    )
