"""A host of this user's own for all tests of a module; both hosts, for what holds on both."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.jobs import Live
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from tests.platforms.box import making as box_making
from tests.platforms.kubernetes import rig as kubernetes_rig
from tests.platforms.local import making as local_making
from tests.platforms.local.making import slay
from tests.platforms.ray.real_head import RealHead, real_head
from tests.platforms.slurm.rig import Rig, lacking
from tests.sshd import Sshd, needs_sshd, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here: apt-get install tmux")
    with (
        tempfile.TemporaryDirectory(prefix="ck-", dir="/tmp") as root,
        serving(Path(root)) as found,
    ):
        yield found
        with suppress(OSError):
            os.kill(int((found.home / "tmux.pid").read_text()), signal.SIGKILL)


@pytest.fixture(scope="session")
def slurm() -> Iterator[Rig]:
    """A real Slurm; skipped where there is none, with a line that says how to get it."""
    why = lacking()
    if why is not None:
        pytest.skip(f"{why} (CI installs it)")
    folder = Path(tempfile.mkdtemp(prefix="cks-", dir="/tmp"))  # a socket's path must be short
    rig = Rig(folder)
    try:
        rig.up()
        yield rig
    finally:
        rig.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def head() -> Iterator[RealHead]:
    """A real head for all tests that need one; they are skipped without a Ray."""
    if "COCKPIT_RAY" not in os.environ:
        pytest.skip("needs a real Ray: make test-ray")
    with real_head(Path(os.environ["COCKPIT_RAY"])) as made:
        yield made


@pytest.fixture(scope="session")
def cluster() -> Iterator[kubernetes_rig.Rig]:
    """A real Kubernetes for all tests that need one; they are skipped without."""
    why = kubernetes_rig.lacking()
    if why is not None:
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="ckk-", dir="/tmp") as folder:
        rig = kubernetes_rig.Rig(Path(folder))
        try:
            rig.up()
            yield rig
        finally:
            rig.down()


@pytest.fixture
def sshd(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    monkeypatch.setenv("PATH", f"{server.root}/bin:{os.environ['PATH']}")
    return server


@pytest.fixture
def box(sshd: Sshd) -> Sshd:
    return sshd


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

    def spec(name: str = "toy", **job: Any) -> RunSpec:
        (tmp_path / "runs" / name).mkdir(parents=True, exist_ok=True)
        if server is None:
            run = local_making.spec(tmp_path, name, **job)
        else:
            run = box_making.spec(server.host, tmp_path, name, **job)
        runs.append(run)
        return runs[-1]

    found = Host(local_making.local(tmp_path) if server is None else box_making.box(), spec, [])
    yield found
    for process in found.started:
        process.kill()
        process.wait()
    slay(*runs)
