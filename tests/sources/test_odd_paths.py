"""Paths that are not what the run file says they are: each is unknown with a reason, at once."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.run import (
    CheckpointSpec,
    CodeSpec,
    JobSpec,
    MonitorSpec,
    RecordsSpec,
    RunSpec,
)
from cockpit.watch.asking import real_sources
from tests.queries import queries_of

FACETS = ("job", "log", "checkpoints", "monitor", "records", "code", "host")
DEADLINE = 3.0


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        folder = Path.cwd()
        os.chdir(path.parent)  # the name of a socket must be short
        try:
            made.bind(path.name)
        finally:
            os.chdir(folder)


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _nothing(path: Path) -> None:
    assert not path.exists()


def odd(path: str) -> RunSpec:
    return RunSpec(
        name="odd",
        job=JobSpec(kind="local", log=path, pid_file=path, exit_file=path),
        checkpoints=CheckpointSpec(path=(path,)),
        monitor=MonitorSpec(state=path, events=path),
        records=RecordsSpec(logbook=path),
        code=CodeSpec(repo=path),
    )


def sound(folder: Path) -> RunSpec:
    (folder / "run.pid").write_text(f"{os.getpid()}\n")
    (folder / "run.log").write_text("step 1/10 loss=2.0\n")
    (folder / "step-1").mkdir()
    (folder / "step-1" / "metadata.json").write_text('{"step": 1}')
    (folder / "step-1" / "weights").write_bytes(b"w")
    (folder / "book.md").write_text("# Book\n")
    return RunSpec(
        name="sound",
        job=JobSpec(kind="local", log=f"{folder}/run.log", pid_file=f"{folder}/run.pid"),
        checkpoints=CheckpointSpec(path=(str(folder),)),
        monitor=MonitorSpec(events=f"{folder}/run.log"),
        records=RecordsSpec(logbook=f"{folder}/book.md"),
    )


@pytest.mark.parametrize("made", [_pipe, _socket, _loop, _device, _nothing])
async def test_an_odd_path_is_a_reason_and_costs_no_other_run_its_facet(
    tmp_path: Path, made: Callable[[Path], None]
) -> None:
    (tmp_path / "sound").mkdir()
    made(tmp_path / "odd")
    await _both(odd(str(tmp_path / "odd")), sound(tmp_path / "sound"))


async def test_a_name_that_is_too_long_is_a_reason_too(tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    await _both(odd(str(tmp_path / ("n" * 300))), sound(tmp_path / "sound"))


async def _both(bad: RunSpec, good: RunSpec) -> None:
    sources = real_sources(SystemClock())
    for name in FACETS:
        runs = [bad, good]
        queries: Any = queries_of(runs) if name in ("job", "log", "checkpoints", "host") else runs
        asked: Any = getattr(sources, name).observe(queries)
        found = await asyncio.wait_for(asked, DEADLINE)
        if name != "host":
            assert found["odd"].value is None, name
            assert found["odd"].error is not None and found["odd"].error.message, name
        if name != "code":
            assert found["sound"].known, (name, found["sound"].error)


async def test_a_pipe_in_a_checkpoint_keeps_nobody_waiting(tmp_path: Path) -> None:
    run = sound(tmp_path)
    (tmp_path / "step-2").mkdir()
    os.mkfifo(tmp_path / "step-2" / "metadata.json")
    observed = real_sources(SystemClock()).checkpoints.observe(queries_of([run]))
    found = (await asyncio.wait_for(observed, DEADLINE))["sound"]
    assert found.value is not None and found.value.latest_complete == 1
