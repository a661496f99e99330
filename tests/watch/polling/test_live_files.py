"""The engine on real files of this machine, with the real sources."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.model.observed import Phase
from cockpit.model.report import RunReport
from cockpit.watch.engine import Engine
from tests.watch.fakes import until

RUN = """
[[run]]
name = "{name}"
final_step = 1000
cadence = "10m"
job = {{ kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }}
checkpoints = {{ path = "checkpoints", layout = "levanter" }}
"""
LOCAL_CHANGE_SHOWS_WITHIN = 10.0
"""Seconds; the sweep looks once a second, the rest is for a busy machine. Without the sweep the log
is read every 15 s and the job every 30 s."""


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "cockpit.toml").write_text(RUN.format(name="real"))
    (tmp_path / "checkpoints").mkdir()
    with (tmp_path / "run.log").open("a") as log:
        child = subprocess.Popen(("sleep", "60"), stdout=log, cwd=tmp_path)
        log.write("step 1/1000 loss=2.5\n")
    (tmp_path / "run.pid").write_text(f"{child.pid}\n")
    yield tmp_path / "cockpit.toml"
    child.kill()
    child.wait()


@asynccontextmanager
async def watching(config: Path) -> AsyncIterator[Engine]:
    engine = Engine(load(config), store=None, clock=SystemClock())
    loop = asyncio.create_task(engine.run())
    try:
        await until(lambda: engine.report().runs[0].facets.job.known)
        yield engine
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop


def edit(config: Path, text: str) -> None:
    config.write_text(text)


def the_run(engine: Engine) -> RunReport:
    return engine.report().runs[0]


def last_line(engine: Engine) -> str:
    log = the_run(engine).facets.log.value
    return log.lines[-1].plain if log is not None and log.lines else ""


async def test_changes_of_local_files_show_at_once_though_the_cadence_is_long(
    config: Path,
) -> None:
    folder = config.parent
    async with watching(config) as engine:
        await until(lambda: last_line(engine))
        began = time.monotonic()
        with (folder / "run.log").open("a") as log:
            log.write("step 2/1000 loss=2.4\n")
        await until(lambda: last_line(engine).startswith("step 2"))
        assert time.monotonic() - began < LOCAL_CHANGE_SHOWS_WITHIN
        began = time.monotonic()
        os.kill(int((folder / "run.pid").read_text()), signal.SIGKILL)
        (folder / "run.exit").write_text("1\n")
        await until(lambda: the_run(engine).alerts)
        assert time.monotonic() - began < LOCAL_CHANGE_SHOWS_WITHIN
        job = the_run(engine).facets.job.value
    assert job is not None and job.phase is Phase.FAILED


async def test_a_stopped_process_is_said_within_seconds_though_the_cadence_is_long(
    config: Path,
) -> None:
    pid = int((config.parent / "run.pid").read_text())

    def state() -> str:
        job = the_run(engine).facets.job.value
        return "" if job is None else job.state

    async with watching(config) as engine:
        began = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: [alert.id for alert in the_run(engine).alerts] == ["C-06"])
        assert state() == "stopped" and time.monotonic() - began < LOCAL_CHANGE_SHOWS_WITHIN
        os.kill(pid, signal.SIGCONT)
        await until(lambda: not the_run(engine).alerts)
        assert state() == "running"


async def test_a_good_edit_of_the_run_file_is_taken_over_and_a_bad_one_told(config: Path) -> None:
    async with watching(config) as engine:
        edit(config, RUN.format(name="real") + "\ncadense = 3\n")
        await until(lambda: engine.notices)
        assert "cockpit.toml" in engine.notices[0] and "stays in use" in engine.notices[0]
        assert [run.name for run in engine.report().runs] == ["real"]
        reloaded: list[int] = []
        engine.on_reload(lambda file: reloaded.append(len(file.runs)))
        edit(config, RUN.format(name="real") + RUN.format(name="second"))
        await until(lambda: len(engine.report().runs) == 2)
        await until(lambda: engine.report().runs[1].facets.job.known)
        assert reloaded == [2]
        assert engine.notices == ()
        edit(config, RUN.format(name="second"))
        await until(lambda: [run.name for run in engine.report().runs] == ["second"])
