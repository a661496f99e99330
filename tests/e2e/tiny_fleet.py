"""Three real small runs: one that trains, one killed in the middle of a save, one that is done."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cockpit.hosts.launches import Started, start
from cockpit.hosts.supervisor import Launch

FINAL_STEP = 1000
NAMES = ("trains", "torn", "done")

WRITER = """
import itertools, sys, time
first, final = int(sys.argv[1]), int(sys.argv[2])
for step in itertools.count(first):
    print(f"step {step}/{final} loss={2.0 + step % 7 / 10:.3f}", flush=True)
    if step >= final:
        break
    time.sleep(0.2)
"""

RUN = """
[[run]]
name = "{name}"
final_step = 1000
job = {{ kind = "local", log = "{name}/run.log", pid_file = "{name}/run.pid", \
exit_file = "{name}/run.exit" }}
checkpoints = {{ path = "{name}/checkpoints", layout = "levanter" }}
resubmit = "false"
"""


def until(true: Callable[[], bool], what: Callable[[], str], patience: float = 120.0) -> None:
    """Wait until ``true``; after ``patience`` seconds fail with ``what`` was there instead."""
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


class TinyFleet:
    """Processes and their files in ``folder``; ``end`` leaves nothing behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "cockpit.toml"
        runs = "".join(RUN.format(name=name) for name in NAMES)
        self.config.write_text(f'[cockpit]\ncadence = "1m"\noperator = "ada"\n{runs}')
        (folder / "writer.py").write_text(WRITER)
        self.started: dict[str, Started] = {}
        try:
            self._make()
        except BaseException:
            self.end()
            raise

    def _make(self) -> None:
        for name, first in (("trains", 101), ("torn", 201), ("done", FINAL_STEP - 1)):
            self._launch(name, first)
        self.save("trains", 100)
        self.save("torn", 100)
        self.save("torn", 200, whole=False)
        self.save("done", FINAL_STEP)
        until(lambda: all(map(self._writes, NAMES)), lambda: "a run writes no log")
        self.kill("torn")
        self.started["done"].supervisor.wait(60)

    def _writes(self, name: str) -> bool:
        return (self.folder / name / "run.log").stat().st_size > 0

    def _launch(self, name: str, first: int) -> None:
        place = self.folder / name
        place.mkdir()
        self.started[name] = start(
            Launch(
                command=[sys.executable, "-S", "writer.py", str(first), str(FINAL_STEP)],
                log=place / "run.log",
                pid_file=place / "run.pid",
                exit_file=place / "run.exit",
                cwd=self.folder,
            )
        )

    def save(self, name: str, step: int, *, whole: bool = True) -> None:
        """Save as Levanter does: the arrays first, ``metadata.json`` last."""
        place = self.folder / name / "checkpoints" / f"step-{step}"
        (place / "model").mkdir(parents=True)
        (place / "model" / "weights").write_bytes(bytes(4096))
        if whole:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            note = {"step": step, "timestamp": stamp, "is_temporary": False}
            (place / "metadata.json").write_text(json.dumps(note))

    def pids(self) -> dict[str, str]:
        """Return what each run's pid file names: another job would have written itself there."""
        return {name: (self.folder / name / "run.pid").read_text() for name in NAMES}

    def kill(self, name: str) -> None:
        """End a run as the kernel's out-of-memory killer does."""
        os.kill(self.started[name].pid, signal.SIGKILL)
        self.started[name].supervisor.wait(60)

    def end(self) -> None:
        for name, started in self.started.items():
            if started.supervisor.poll() is None:
                self.kill(name)
