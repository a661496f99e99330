"""How long a job has waited by its own log, and what of it waits once more (SPEC T)."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (["[12:00:00] poll: WAITING_FOR_RESOURCES", "[13:20:00] poll: WAITING_FOR_RESOURCES"],
         "escalate"),
        (["[12:00:00] poll: WAITING_FOR_RESOURCES", "[12:10:00] poll: WAITING_FOR_RESOURCES"],
         "wait"),
        (["pending for 45 minutes (Priority)"], "escalate"),
        (["pending for 12 minutes (Priority)"], "wait"),
        (["pending since 12:45:00 (Priority)"], "wait"),
        (["PENDING (Resources), expected start in 3 hours"], "wait"),
        (["waiting for capacity: elapsed 5400s"], "escalate"),
        (["waiting for 8 GPUs (waited 02:10:00)"], "escalate"),
        (["submitted 2 hours ago, still queued"], "escalate"),
        (["t-0   0/1    Pending   0   3h12m"], "escalate"),
        (["t-0   0/1    Pending   0   5m12s"], "wait"),
        (["waiting for quota (timeout 2h)"], "wait"),
        ([f"waiting {'9' * 400}-00:00:00"], "wait"),
    ],
)  # fmt: skip
def test_a_wait_is_as_long_as_its_log_tells(lines: list[str], action: str) -> None:
    found = triage(lines, "pending", None)
    assert (found.name, found.action) == ("capacity_wait", action)


@pytest.mark.parametrize(
    ("line", "name", "action"),
    [
        ("*** JOB 4 ON c1 CANCELLED AT 10:10:10 DUE TO NODE FAILURE ***", "node_death", "wait"),
        ("*** JOB 4 ON c1 CANCELLED AT 10:10:10 DUE TO TIME LIMIT ***", "walltime", "wait"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=4.0.", "oom_host", "escalate"),
    ],
)
def test_what_ended_the_start_before_says_whether_to_wait(
    line: str, name: str, action: str
) -> None:
    found = triage([*TRAIN, line, "job requeued, PENDING (Priority)"], "pending", None)
    assert (found.name, found.action) == (name, action)


def test_a_container_that_dies_each_time_is_no_queue() -> None:
    again = [*TRAIN, "Killed", "Waiting: CrashLoopBackOff"]
    assert triage(again, "pending", 137).action == "escalate"


def test_steps_after_it_began_anew_show_that_it_runs_again() -> None:
    gone = [*TRAIN, "Job was evicted.", "001 (21.0) Job executing on host: <10.8.1.9:9618>"]
    steps = [f'{{"epoch": 3, "loss": "2.6", "num_updates": "{step}"}}' for step in (5, 6, 7)]
    assert triage(gone, "running", None).action == "wait"
    assert triage([*gone, *steps], "running", None).action == "none"
