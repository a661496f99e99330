"""Which place and which job is asked."""

from __future__ import annotations

import pytest

from cockpit.hosts.link import PATIENCE
from cockpit.hosts.script import run_script_blocking
from cockpit.model.clock import SystemClock
from cockpit.model.facet import known
from cockpit.model.observed import MonitorValue, RecordsValue
from cockpit.model.place import HERE
from cockpit.model.report import FACETS
from cockpit.model.run import CheckpointSpec, CodeSpec, JobSpec, RunSpec, WandbSpec
from cockpit.model.shared_facts import LAUNCHED, SharedFact
from cockpit.platforms.local import host, jobs
from cockpit.platforms.table import Platforms
from cockpit.runtime.ssh import RemoteError
from cockpit.sources import file_tracker
from cockpit.sources.checkpoints import source as checkpoints
from cockpit.sources.logs import source as logs
from cockpit.sources.wandb import online
from cockpit.store.memory import LaunchedJob
from cockpit.watch.asking import Asker, places_of, with_current_job
from cockpit.watch.poller import DEADLINES
from cockpit.watch.runstate import RunState
from cockpit.watch.store_writer import Shared
from tests.watch.fakes import World

PLATFORMS = Platforms(SystemClock())


def places(facet: str, run: RunSpec) -> tuple[str, ...]:
    return places_of(facet, run, PLATFORMS.of(run))


def with_job(**job: object) -> RunSpec:
    return RunSpec(name="r", job=JobSpec.model_validate(job))


@pytest.mark.parametrize("facet", FACETS)
async def test_of_a_run_that_an_edit_has_removed_nothing_is_asked(facet: str) -> None:
    world = World("a")
    assert await Asker(world.sources, {}).ask(facet, HERE, world.file.runs) == {}


def test_one_host_is_one_place_for_job_log_host_folder_roots_and_code() -> None:
    run = RunSpec(
        name="r",
        job=JobSpec(kind="box", host="gpu-box", log="ssh://gpu-box/run.log"),
        wandb=WandbSpec(dir="ssh://gpu-box/wandb"),
        checkpoints=CheckpointSpec(path=("ssh://gpu-box/a", "ssh://gpu-box/b")),
        code=CodeSpec(repo="ssh://gpu-box/src"),
    )
    facets = ("job", "log", "host", "tracker", "checkpoints", "code")
    assert {places(facet, run) for facet in facets} == {("gpu-box",)}


def test_a_host_whose_alias_is_here_is_another_machine_all_the_same() -> None:
    job = JobSpec(kind="box", host="here", log="ssh://here/run.log")
    run = RunSpec(name="r", job=job)
    assert {places(facet, run) for facet in ("job", "log", "host")} == {("here",)}
    with pytest.raises(RemoteError):
        run_script_blocking(HERE, "true", deadline=1.0)


@pytest.mark.parametrize(
    ("job", "place"),
    [
        ({"kind": "iris", "controller_url": "http://c:1"}, "iris http://c:1"),
        ({"kind": "ray", "address": "http://r:2"}, "ray http://r:2"),
        ({"kind": "slurm", "host": "isambard"}, "slurm isambard"),
        ({"kind": "slurm"}, "slurm here"),
        ({"kind": "local", "log": "/x/log"}, HERE),
    ],
)
def test_the_platform_names_the_place_of_its_jobs_logs_and_hosts(
    job: dict[str, str], place: str
) -> None:
    assert {places(facet, with_job(**job)) for facet in ("job", "log", "host")} == {(place,)}


@pytest.mark.parametrize(
    ("wandb", "place"),
    [
        ({"url": "https://wandb.ai/e/p/runs/x"}, "https://api.wandb.ai/e/p"),
        ({"url": "https://forge.coreweave.com/wandb/e/p/runs/x"},
         "https://api.forge.coreweave.com/e/p"),
        ({"entity": "e", "project": "p", "id": "x", "base_url": "https://W.example.org/"},
         "https://w.example.org/e/p"),
        ({"project": "p", "id": "x", "base_url": "http://w:8"}, "http://w:8/~/p"),
        ({"id": "x"}, HERE),
        ({"dir": "/x", "project": "p", "id": "x"}, HERE),
    ],
)  # fmt: skip
def test_w_and_b_is_asked_where_its_project_is(wandb: dict[str, str], place: str) -> None:
    assert places("tracker", RunSpec(name="r", wandb=WandbSpec(**wandb))) == (place,)


def test_an_online_run_whose_files_are_here_has_two_places() -> None:
    wandb = WandbSpec(dir="/x/wandb", url="https://w.example.org/e/p/runs/x")
    found = places("tracker", RunSpec(name="r", wandb=wandb))
    assert found == (HERE, "https://w.example.org/e/p")


def test_each_root_has_the_place_of_its_own_endpoint() -> None:
    roots = ("/a", "gs://b/x", "gs://b/y", "ssh://box/z")
    run = RunSpec(name="r", checkpoints=CheckpointSpec(path=roots))
    assert places("checkpoints", run) == (HERE, "gs://b", "box")


def test_each_source_gives_up_before_its_poller_does() -> None:
    assert DEADLINES["log"].here > logs.DEADLINE
    assert DEADLINES["tracker"].here > file_tracker.DEADLINE
    assert DEADLINES["tracker"].away > online.DEADLINE + online.LOGIN
    assert DEADLINES["checkpoints"].here > checkpoints.DEADLINE
    assert DEADLINES["job"].here > PATIENCE + jobs.REAP_WAIT + jobs.JUDGING
    assert DEADLINES["host"].here > host.PATIENCE


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
    told = SharedFact(what=LAUNCHED, value=launch_id, at=150.0, typed_by="ada", parts={"job": "44"})
    records = RecordsValue(logbook="/b.md", told=(told,))
    made.facets = made.facets.model_copy(update={"records": known(records, "file", 200.0)})
    run, _ = with_current_job(RUN, made, Platforms(SystemClock()).of(RUN))
    assert run.job is not None and run.job.id == expected
