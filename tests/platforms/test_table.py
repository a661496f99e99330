"""Every kind is asked through one table, each for its own runs."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import LaunchState, Query, Submission
from cockpit.model.observed import JobValue, LogValue, Phase
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, Platform
from cockpit.platforms.kinds import PLATFORMS, PRIVATE
from cockpit.platforms.table import Platforms, kind_of, platform_of
from cockpit.sources.logs.source import Logs
from tests.queries import queries_of

OTHERS = ("iris", "ray", "slurm", "box")
Ask = Callable[[Platforms, Sequence[Query]], Awaitable[Mapping[str, Facet[Any]]]]
ASKS: tuple[Ask, ...] = (
    lambda platforms, queries: platforms.jobs(queries),
    lambda platforms, queries: platforms.logs(queries),
    lambda platforms, queries: platforms.hosts(queries),
)


def run_of(kind: str, name: str = "a", **job: Any) -> RunSpec:
    return RunSpec(name=name, job=JobSpec.model_validate({"kind": kind, **job}))


def test_every_kind_of_a_run_file_has_one_platform() -> None:
    assert all(platform_of(kind).kind == kind for kind in PLATFORMS)
    assert sorted(PLATFORMS) == sorted(get_args(JobSpec.model_fields["kind"].annotation))


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as child:
        yield child.pid
        child.kill()


async def test_local_jobs_are_asked(tmp_path: Path, sleeper: int) -> None:
    (tmp_path / "pid").write_text(f"{sleeper}\n")
    run = run_of("local", pid_file=str(tmp_path / "pid"))
    facet = (await Platforms(SystemClock()).jobs(queries_of([run])))["a"]
    assert facet.value is not None and facet.value.phase is Phase.RUNNING


async def test_a_kind_of_which_only_the_name_is_known_is_unsupported() -> None:
    """What is not read is no answer about a run, and what cannot be done is refused."""

    class Named(Platform):
        kind = "ray"

    clock, run = SystemClock(), run_of("ray", id="1")
    made = Named(clock, Logs(clock))
    for facets in (await made.jobs(queries_of([run])), await made.hosts(queries_of([run]))):
        error = facets["a"].error
        assert error is not None and error.kind is ErrorKind.UNSUPPORTED
    assert "not supported" in str((await made.live([run]))["a"].unknown)
    assert (await made.look_up(run, "a-i001")).found is LaunchState.UNKNOWN
    (finding,) = await made.findings([run])
    assert finding.text == "ray jobs are not supported yet: a" and finding.remedy
    with pytest.raises(CannotError, match="not supported"):
        await made.accept(run, Submission(run="a", launch_id="a-i001", command=("true",)))
    with pytest.raises(CannotError, match="not supported"):
        await made.stop(run, [])


@pytest.mark.parametrize("kind", OTHERS)
async def test_a_log_of_this_machine_is_read_whatever_wrote_it(kind: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("step 3 loss=2.5\n")
    run = run_of(kind, id="1", log=str(tmp_path / "log"))
    facet = (await Platforms(SystemClock()).logs(queries_of([run])))["a"]
    assert facet.value is not None and facet.value.path == str(tmp_path / "log")


@pytest.mark.parametrize("ask", ASKS)
async def test_a_run_without_a_job(ask: Ask) -> None:
    platforms = Platforms(SystemClock())
    assert platforms.of(RunSpec(name="a")) is None
    assert not (await ask(platforms, queries_of([RunSpec(name="a")])))["a"].configured


@pytest.mark.parametrize("ask", ASKS)
async def test_every_run_has_an_answer_of_its_own_kind(ask: Ask) -> None:
    runs = [run_of(kind, kind) for kind in (*OTHERS, "local")]
    found = await ask(Platforms(SystemClock()), queries_of([*runs, RunSpec(name="none")]))
    assert set(found) == {*OTHERS, "local", "none"}


@pytest.mark.parametrize("kind", [*OTHERS, "local"])
def test_a_log_can_be_paged_where_it_is_a_file(kind: str) -> None:
    here = run_of(kind, log="/x/run-*.log")
    asked = kind_of(here)
    assert asked is not None
    named = asked.log_place(here, None)
    assert named is not None and named.path == "/x/run-*.log"
    read = asked.log_place(here, LogValue(path="/x/run-2.log", size=1, mtime=1.0))
    assert read is not None and read.path == "/x/run-2.log"
    for away in (run_of(kind, log="ssh://there/x"), run_of(kind, host="there", log="/x")):
        assert str(asked.log_place(away, None)) == "ssh://there/x"
        there = LogValue(path="ssh://there/x-2", size=1, mtime=1.0)
        assert str(asked.log_place(away, there)) == "ssh://there/x-2"
        spooled = asked.log_place(away, LogValue(path="/state/x.spool", size=1, mtime=1.0))
        assert spooled is not None and spooled.here
    assert asked.log_place(here, LogValue(path="gs://b/x", size=1, mtime=1.0)) is None
    assert kind_of(RunSpec(name="a")) is None


def test_only_a_local_job_has_a_process_to_watch() -> None:
    value = JobValue(id="pid:7", state="running", phase=Phase.RUNNING)
    files = {"pid_file": "/x/pid", "exit_file": "/x/exit"}
    for kind, watched in (("local", ("/x/pid", "/x/exit", "/proc/7")), ("slurm", ())):
        run = run_of(kind, **files)
        asked = kind_of(run)
        assert asked is not None and asked.watched_files(run, value) == watched


def test_whatever_names_a_host_or_a_person_is_masked() -> None:
    assert {"host", "address", "cluster", "session", "controller_url"} <= PRIVATE
    assert set(JobSpec.model_fields) >= PRIVATE


async def test_doctor_hears_of_each_system_once() -> None:
    runs = [run_of("box", name, host="gpu") for name in "abc"]
    runs += [run_of("iris", "d", controller_url="http://127.0.0.1:1"), run_of("local", "e")]
    found = await Platforms(SystemClock()).findings([*runs, RunSpec(name="none")])
    assert [each.endpoint for each in found] == ["iris http://127.0.0.1:1", "gpu"]
    assert all(each.remedy for each in found)
