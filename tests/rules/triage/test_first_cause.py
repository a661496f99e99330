"""What stands after the cause in time: lost nodes, cancelled steps, limits that are reached."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN, raised

OOM = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
LOST_NODE = "core_worker.cc:1234: The node with node id abc has been marked dead: heartbeats"


@pytest.mark.parametrize(
    ("cause", "after", "state", "name"),
    [
        (OOM, [LOST_NODE] * 40, "failed", "oom_device"),
        (raised("RuntimeError: could not read shard 17"), [LOST_NODE], "failed", "data_error"),
        (raised("ray.exceptions.RayActorError: it died"), [LOST_NODE], "failed", "node_death"),
        (
            OOM,
            ["slurmstepd: *** JOB 7 CANCELLED AT 10:00 DUE TO TIME LIMIT"],
            "failed",
            "oom_device",
        ),
        (OOM, ["waiting"], "TIMEOUT", "oom_device"),
        ([LOST_NODE], OOM, "failed", "node_death"),
    ],
)
def test_a_node_that_is_lost_after_the_cause_is_its_echo(
    cause: list[str], after: list[str], state: str, name: str
) -> None:
    assert triage([*TRAIN, *cause, *after], state, 1).name == name


CANCELLED_STEP = "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-01T06:00:00 ***"


@pytest.mark.parametrize(
    ("before", "name"),
    [
        (raised("RuntimeError: could not read shard 17"), "data_error"),
        (["srun: error: n3: task 7: Segmentation fault (core dumped)"], "complex_code_bug"),
        ([], "user_stopped"),
    ],
)
def test_a_step_that_slurm_cancels_once_a_task_has_failed_was_stopped_by_nobody(
    before: list[str], name: str
) -> None:
    log = [*TRAIN, *before, CANCELLED_STEP, "srun: error: n1: tasks 0-6: Terminated"]
    assert triage(log, "failed", 1).name == name


def test_that_an_actor_has_died_tells_not_of_what() -> None:
    said = "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task."
    why = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR"
    for lines in ([said], [said, why]):
        found = triage([*TRAIN, *lines], "failed", 1)
        assert (found.name, found.action) == ("unknown", "escalate")
    lost = triage([*TRAIN, said, "The actor is dead because its node has died."], "failed", 1)
    assert lost.name == "node_death"
