"""Which job is the current one where several say it (INTERFACE, "The current job")."""

from __future__ import annotations

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import known
from cockpit.model.observed import MonitorValue, RecordsValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.model.shared_facts import LAUNCHED, Told
from cockpit.platforms.table import Platforms
from cockpit.store.memory import LaunchedJob
from cockpit.watch.asking import with_current_job
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


@pytest.mark.parametrize(
    ("launch_id", "expected"), [("toy-i004", "44"), ("toy-2-i004", "37"), ("oy-i004", "37")]
)
def test_a_launch_of_another_run_told_in_a_shared_logbook_is_not_this_ones(
    launch_id: str, expected: str
) -> None:
    """Else its failure would be shown, and its job stopped, under this run's name."""
    made = state()
    told = Told(what=LAUNCHED, value=launch_id, at=150.0, typed_by="ada", parts={"job": "44"})
    records = RecordsValue(logbook="/b.md", told=(told,))
    made.facets = made.facets.model_copy(update={"records": known(records, "file", 200.0)})
    run, _ = with_current_job(RUN, made, Platforms(SystemClock()).of(RUN))
    assert run.job is not None and run.job.id == expected
