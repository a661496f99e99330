"""A plain pid file on a disk that machines share: whose number it is, nobody can tell from it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from cockpit.hosts import agent
from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.notes import machine_id
from cockpit.model.clock import SystemClock
from cockpit.model.facet import Facet
from cockpit.model.jobs import Live
from cockpit.model.observed import JobValue, Phase
from cockpit.model.place import HERE, place_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local import files
from cockpit.platforms.local.jobs import ProcessJobs
from cockpit.runtime.mounts import judged
from cockpit.runtime.process import process_facts
from tests.platforms.local.test_jobs import dead_pid
from tests.platforms.reading import live_jobs
from tests.queries import queries_of

NAMELESS = "the pid file is on nfs4, a network file system, and names no machine"
DAY = 86400.0


class Shared:
    """A run whose folder is, as far as the kernel tells, on NFS."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = {"pid_file": "run.pid", "exit_file": "exit", "log": "log"}
        files = {key: place_of(str(folder / name)) for key, name in paths.items()}
        self.run = RunSpec(name="r", job=JobSpec(kind="local", **files))
        self.jobs = ProcessJobs(SystemClock(), lambda _: HERE_LINK, reap_wait=0.0)
        self.write("log", "step 1\n")
        self.children: list[subprocess.Popen[bytes]] = []

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def start(self, cwd: Path | str, stdout: IO[str] | None = None) -> subprocess.Popen[bytes]:
        code = "import time; time.sleep(60)"
        child = subprocess.Popen((sys.executable, "-S", "-c", code), cwd=cwd, stdout=stdout)
        self.children.append(child)
        return child

    async def look(self) -> Facet[JobValue]:
        return (await self.jobs.observe(HERE, queries_of([self.run])))["r"]

    async def phase(self) -> Phase:
        value = (await self.look()).value
        assert value is not None
        return value.phase

    def lives(self) -> Live:
        return live_jobs([self.run])["r"]


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    monkeypatch.setattr(files, "file_system", lambda _: judged("nfs4"))
    made = Shared(tmp_path)
    yield made
    for child in made.children:
        child.kill()
        child.wait()


async def test_that_no_process_here_has_its_number_is_no_end(shared: Shared) -> None:
    shared.write("run.pid", f"{dead_pid()}\n")
    facet = await shared.look()
    assert facet.value is not None and facet.value.phase is Phase.UNKNOWN
    assert facet.error is not None and NAMELESS in facet.error.message
    assert NAMELESS in (shared.lives().unknown or ""), "nothing is started beside it"
    shared.write("exit", "0\n")
    assert await shared.phase() is Phase.SUCCEEDED


async def test_what_else_writes_its_files_here_is_told_all_the_same(shared: Shared) -> None:
    """Whom a pid file means is one question, what lives of the lineage another."""
    shared.write("run.pid", f"{dead_pid()}\n")
    assert (value := (await shared.look()).value) is not None and not value.rivals
    with (shared.folder / "log").open("a") as log:
        child = shared.start("/", stdout=log)
    for rivals in ([f"pid:{child.pid}"], []):
        assert (value := (await shared.look()).value) is not None
        assert (value.phase, [one.id for one in value.rivals]) == (Phase.UNKNOWN, rivals)
        child.kill()
        child.wait()


async def test_on_a_disk_of_this_machine_it_is_one(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "file_system", lambda _: judged("ext4"))
    shared.write("run.pid", f"{dead_pid()}\n")
    assert await shared.phase() is Phase.FAILED
    assert shared.lives().unknown is None


@pytest.mark.skipif(machine_id() is None, reason="a machine without an id")
async def test_a_file_that_names_this_machine_tells_an_end(shared: Shared) -> None:
    shared.write("run.pid", f"{dead_pid()}\nmachine={machine_id()}\n")
    assert await shared.phase() is Phase.FAILED


async def test_a_stranger_with_its_number_is_not_the_job_though_the_log_grows(
    shared: Shared,
) -> None:
    child = shared.start("/")
    shared.write("run.pid", f"{child.pid}\n")
    assert await shared.phase() is Phase.UNKNOWN
    assert not shared.lives().jobs


async def test_that_its_number_is_a_later_process_here_is_no_end(shared: Shared) -> None:
    child = shared.start("/")
    shared.write("run.pid", f"{child.pid}\nstart={time.time() - DAY}\nticks=1\n")
    facet = await shared.look()
    assert facet.error is not None and NAMELESS in facet.error.message
    assert f"pid {child.pid} now belongs to another process" in facet.error.message


async def test_a_job_that_was_seen_here_ends_here(shared: Shared) -> None:
    child = shared.start(shared.folder)
    shared.write("run.pid", f"{child.pid}\n")
    os.utime(shared.folder / "run.pid", (time.time() + 5, time.time() + 5))
    assert await shared.phase() is Phase.RUNNING
    child.kill()
    child.wait()
    assert await shared.phase() is Phase.FAILED
    shared.write("run.pid", f"{dead_pid()}\n")
    assert await shared.phase() is Phase.UNKNOWN, "another job of it"


async def test_a_job_that_was_seen_here_is_gone_when_another_process_has_its_number(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = shared.start(shared.folder)
    shared.write("run.pid", f"{child.pid}\nticks={process_facts(child.pid).ticks}\n")
    assert await shared.phase() is Phase.RUNNING
    listed = agent.CALLS["processes"]
    monkeypatch.setitem(
        agent.CALLS, "processes",
        lambda **asked: [[*one[:6], one[6] + 1, *one[7:]] for one in listed(**asked)],
    )  # fmt: skip
    facet = await shared.look()
    assert facet.value is not None and facet.value.phase is Phase.FAILED
    assert f"pid {child.pid} now belongs to another process" in str(facet.value.reason)


async def test_without_the_process_table_a_number_alone_is_nobody(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(**asked: object) -> None:
        raise OSError(5, "it cannot be read")

    monkeypatch.setitem(agent.CALLS, "processes", late)
    shared.write("run.pid", f"{shared.start(shared.folder).pid}\n")
    facet = await shared.look()
    assert facet.value is None
    assert facet.error is not None and "it cannot be read" in facet.error.message
