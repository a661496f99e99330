"""What a program meets while it leaves, and what one that was started again brings about."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage

RAISED = [
    "Traceback (most recent call last):",
    '  File "/home/ada/train.py", line 80, in main',
    "    batch = next(loader).shape",
    "AttributeError: 'NoneType' object has no attribute 'shape'",
]
TAKEN = "slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO PREEMPTION ***"
TRAINED = [f"step {at} loss 2.{at}" for at in range(1, 8)]


@pytest.mark.parametrize(("between", "action"), [(0, "relaunch"), (60, "escalate")])
def test_what_was_raised_far_below_a_preemption_is_of_another_start(
    between: int, action: str
) -> None:
    start = [f"reading shard {at} of the corpus" for at in range(between)]
    found = triage([*TRAINED, TAKEN, *start, *RAISED], "failed", 1)
    assert (found.name, found.action) == ("preempted", action)
