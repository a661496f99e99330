"""What holds on this machine holds on a host behind ssh: the same tests, asked of both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.jobs import Live
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.local.marks import locks_of
from tests.platforms.box import making as box_making
from tests.platforms.local import making as local_making
from tests.platforms.local.making import slay
from tests.sshd import Sshd, needs_sshd

HERE, THERE = "here", pytest.param("there", marks=needs_sshd)


@dataclass
class Host:
    """A host with its platform, whose processes and files are this machine's all the same."""

    platform: Platform
    spec: Callable[..., RunSpec]
    started: list[subprocess.Popen[bytes]]

    def start(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start a process that no cockpit knows, and wait until it says so."""
        process = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True, **more)
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        self.started.append(process)
        return process

    async def live(self, run: RunSpec) -> Live:
        return (await self.platform.live([run]))[run.name]


@pytest.fixture(params=[HERE, THERE])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    runs: list[RunSpec] = []
    server: Sshd | None = None if request.param == HERE else request.getfixturevalue("box")

    def spec(**job: Any) -> RunSpec:
        if server is None:
            run = local_making.spec(tmp_path, **job)
        else:
            (tmp_path / "runs" / "toy").mkdir(parents=True, exist_ok=True)
            run = box_making.spec(server.host, tmp_path, "toy", **job)
        runs.append(run)
        return run

    found = Host(local_making.local(tmp_path) if server is None else box_making.box(), spec, [])
    yield found
    for process in found.started:
        process.kill()
        process.wait()
    slay(*runs)


UP = "print('up', flush=True); import time; time.sleep(120)"


async def test_who_only_holds_the_lock_of_the_lineage_is_its_job(
    host: Host, tmp_path: Path
) -> None:
    run = host.spec()
    lock = tmp_path / "elsewhere" / sorted(locks_of(run))[0]
    lock.parent.mkdir()
    hold = f"import fcntl; f = open({str(lock)!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX); {UP}"
    holder = host.start(sys.executable, "-S", "-c", hold, cwd="/")
    live = await host.live(run)
    assert [job.id for job in live.jobs] == [f"pid:{holder.pid}"]
    assert "the lock" in live.jobs[0].why


async def test_a_command_line_is_read_to_its_end(host: Host, tmp_path: Path) -> None:
    run = host.spec(log=None)
    filler = [f"--filler={number:090}" for number in range(100)]
    root = tmp_path / "runs" / "toy"
    mine = host.start(sys.executable, "-S", "-c", UP, *filler, "--output_dir", str(root), cwd="/")
    live = await host.live(run)
    assert f"pid:{mine.pid}" in [job.id for job in (*live.jobs, *live.possible)]
