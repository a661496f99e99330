"""A run whose files a test writes: a real process that lives, a log and a tracker of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.hosts.notes import boot_id, start_ticks
from cockpit.model.base import rfc3339
from cockpit.runtime.process import boot_time
from tests.sources.wandb import writer

RUN_FILE = """
[cockpit]
cadence = "10s"
operator = "ada"

[[run]]
name = "seen"
tier = "ordinary"
dri = "ada"
final_step = 300
job = { kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }
wandb = { id = "seen", dir = "wandb" }
checkpoints = { path = "checkpoints", layout = "levanter" }
"""


class SeenRun:
    """``start`` is when the process began; a check judges as of ``start + after``."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.config = folder / "cockpit.toml"
        self.config.write_text(RUN_FILE)
        ticks = start_ticks(process.pid) or 0
        self.start = (boot_time() or 0.0) + ticks / os.sysconf("SC_CLK_TCK")
        told = f"start={self.start:.6f}\nticks={ticks}\nboot={boot_id()}\n"
        (folder / "run.pid").write_text(f"{process.pid}\n{told}")
        os.utime(folder / "run.pid", (self.start, self.start))

    def log(self, text: str, after: float) -> None:
        """The whole log, last written at ``after``."""
        path = self.folder / "run.log"
        path.write_text(text)
        os.utime(path, (self.start + after, self.start + after))

    def tracked(self, records: Iterable[bytes], after: float) -> None:
        """The whole W&B file, last written at ``after``."""
        folder = self.folder / "wandb" / "offline-run-20260101_000000-seen"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "run-seen.wandb"
        path.write_bytes(writer.log([writer.run("seen", self.start), *records]))
        os.utime(path, (self.start + after, self.start + after))

    def saved(self, step: int, after: float) -> None:
        """A complete checkpoint."""
        folder = self.folder / "checkpoints" / f"step-{step}"
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "weights").write_bytes(bytes(64))
        (folder / "metadata.json").write_text(json.dumps({"step": step}))
        for path in (folder / "model" / "weights", folder / "metadata.json", folder):
            os.utime(path, (self.start + after, self.start + after))

    def check(self, capsys: pytest.CaptureFixture[str], after: float) -> dict[str, Any]:
        """What ``check --json`` says of the run at ``after``."""
        now = rfc3339(self.start + after)
        main(["check", "--json", "--config", str(self.config), "--now", now])
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        (run,) = document["runs"]
        return dict(run)

    def row(self, step: int, loss: str | None, after: float, **more: str) -> bytes:
        """A history record."""
        return writer.row(step, loss, self.start + after, **more)


def living() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing, for as long as it is needed."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


def steps_of(first: int, last: int, every: float = 1.0) -> list[tuple[int, float]]:
    """Steps and when they were logged, in seconds after the start."""
    return [(step, 1 + (step - first) * every) for step in range(first, last + 1)]


def ids(run: dict[str, Any]) -> list[str]:
    """The open conditions."""
    return [alert["id"] for alert in run["alerts"]]


def alert(run: dict[str, Any], rule: str) -> dict[str, Any]:
    """The one open alert of a rule."""
    (found,) = [alert for alert in run["alerts"] if alert["id"] == rule]
    return dict(found)
