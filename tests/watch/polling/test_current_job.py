"""Which job is the current one where several say it (INTERFACE, "The current job")."""

from __future__ import annotations

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import known
from cockpit.model.monitoring import MonitorValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.table import Platforms
from cockpit.store.memory import LaunchedJob
from cockpit.watch.polling.current_job import with_current_job
from cockpit.watch.runstate import RunState
from cockpit.watch.store_writer import Shared

RUN = RunSpec(name="toy", job=JobSpec(kind="slurm", id="30"))


def state(**monitor: str) -> RunState:
    made = RunState(RUN, "toy")
    made.shared = Shared(launch=LaunchedJob(job_id="37", at=100.0))
    value = MonitorValue(fresh=True, last_update=200.0, cadence_s=5.0, **monitor)
    made.facets = made.facets.model_copy(update={"monitor": known(value, "file", 200.0)})
    return made


@pytest.mark.parametrize(
    ("monitor", "expected"),
    [
        ({"job_id": "40"}, "40"),
        ({"job_id": "31", "retired": "30"}, "31"),
        ({"job_id": "31", "retired": "31"}, "37"),
        ({}, "37"),
    ],
)
def test_a_monitor_that_has_not_heard_of_a_relaunch_names_no_newer_job(
    monitor: dict[str, str], expected: str
) -> None:
    """It goes on writing its file: the newest file is not the newest job."""
    platform = Platforms(SystemClock()).of(RUN)
    run, _ = with_current_job(RUN, state(**monitor), platform)
    assert run.job is not None and run.job.id == expected
