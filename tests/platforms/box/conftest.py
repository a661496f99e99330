"""Runs and processes on the host of ``tests/platforms/conftest.py``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.script import run_script_blocking
from cockpit.model.place import Place, on_host
from cockpit.model.run import JobSpec, RunSpec
from tests.sshd import Sshd

MakeRun = Callable[..., RunSpec]
Start = Callable[..., int]


@pytest.fixture
def there(box: Sshd) -> Iterator[Callable[[str], str]]:
    """Give a way to run a script on the host by hand."""

    def run(script: str) -> str:
        done = run_script_blocking(box.host, script, deadline=20.0)
        assert done.rc == 0, done
        return done.text

    yield run


@pytest.fixture
def start(there: Callable[[str], str]) -> Iterator[Start]:
    """Give a way to start a process on the host, detached; all are ended with the test."""
    pids: list[int] = []

    def begin(*words: str, env: str = "") -> int:
        command = " ".join(f"'{word}'" for word in words)
        # the shell becomes the command: its pid is the one that is printed
        script = f"{env} setsid sh -c 'echo $$; exec \"$@\" >/dev/null' x {command} </dev/null &"
        pids.append(int(there(f"{script}\nwait_for=$!; sleep 0.1")))
        return pids[-1]

    yield begin
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def run_of(box: Sshd) -> MakeRun:
    """Make runs on the host; paths of a job are the host's."""

    def make(name: str, *, root: Path | None = None, **job: Any) -> RunSpec:
        paths = ("log", "pid_file", "exit_file", "done_marker")
        spelled = {
            key: on_host(box.host, str(value)) if key in paths else value
            for key, value in job.items()
        }
        spec = JobSpec(kind="box", **{"host": box.host, **spelled})
        place = None if root is None else Place("ssh", box.host, str(root))
        return RunSpec(name=name, job=spec, output_root=place)

    return make
