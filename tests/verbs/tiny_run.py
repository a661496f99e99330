"""A real tiny training run: a process, its files, a run file, git, a logbook."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from unittest import mock

from cockpit.cli import main

TRAINER = """
import os, sys, time
step = 10
def line():
    with open("run.log", "a") as log:
        log.write(f"step {step}/1000 loss={2.0 + step % 7 / 10:.3f}\\n")
while True:
    step += 1
    line()
    if os.path.exists("please-die"):
        raise ValueError("asked to die")
    time.sleep(0.1)
"""

RUN_FILE = """
[cockpit]
cadence = "2s"
operator = "ada"

[[run]]
name = "tiny"
final_step = 1000
job = { kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }
checkpoints = { path = "checkpoints", layout = "levanter" }
monitor = { state = "scratch/*_monitoring_state.json" }
"""


class TinyRun:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "cockpit.toml"
        self.config.write_text(RUN_FILE)
        (folder / "trainer.py").write_text(TRAINER)
        (folder / "scratch").mkdir()
        self.save(10)
        self.monitored()
        self._process = subprocess.Popen(
            [sys.executable, "trainer.py"], cwd=folder, stderr=subprocess.DEVNULL
        )
        (folder / "run.pid").write_text(f"{self._process.pid}\n")
        self.wait_for(folder / "run.log")

    def save(self, step: int) -> None:
        checkpoint = self.folder / "checkpoints" / f"step-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "metadata.json").write_text(json.dumps({"step": step}))
        (checkpoint / "weights").write_bytes(b"w")

    def monitored(self) -> None:
        state = {
            "ts": int(time.time() * 1000),
            "job_id": "tiny",
            "restart_count": 0,
            "cadence_s": 600,
        }  # its file is not written again, and starting may take long
        path = self.folder / "scratch" / "20260101-0000_monitoring_state.json"
        path.write_text(json.dumps(state))

    def die(self) -> None:
        """End with a Python error, as a wrapper would record it."""
        (self.folder / "please-die").touch()
        (self.folder / "run.exit").write_text(f"{self._process.wait(60)}\n")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    @staticmethod
    def wait_for(path: Path) -> None:
        end = time.monotonic() + 60
        while not (path.exists() and path.stat().st_size):
            assert time.monotonic() < end, f"{path} never came"
            time.sleep(0.01)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "cockpit", *words]


def program(
    *words: str, folder: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the program in a folder, in this process: to start another costs a second.

    What its children write to the terminal is caught as well. One that hangs ends this process.
    """
    faulthandler.dump_traceback_later(90, exit=True, file=2)
    try:
        with (
            mock.patch.dict(os.environ, env or environment(), clear=True),
            contextlib.chdir(folder),
            _caught("stdout", 1) as out,
            _caught("stderr", 2) as err,
        ):
            try:
                code = main(list(words))
            except SystemExit as left:
                code = int(left.code or 0)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return subprocess.CompletedProcess(words, code, *map(_text_of, (out, err)))


@contextlib.contextmanager
def _caught(name: str, number: int) -> Iterator[IO[bytes]]:
    """Catch what this process and its children write to a stream and its descriptor."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it is read after the program has ended
    former, kept = getattr(sys, name), os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        with open(number, "w", encoding="utf-8", closefd=False) as stream:
            setattr(sys, name, stream)
            yield file
    finally:
        setattr(sys, name, former)
        os.dup2(kept, number)
        os.close(kept)


def _text_of(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read().decode()


def environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": root}
