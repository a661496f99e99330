"""A whole small world to act in from the command line: a trainer, code, records, remotes.

Everything is real: processes, git repositories with bare remotes, the program itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.verbs.tiny_run import environment, program

TRAINER = """
import json, pathlib, sys, time
root = pathlib.Path(sys.argv[1])
saved = root / "checkpoints"
saved.mkdir(parents=True, exist_ok=True)
step = max((json.loads(p.read_text())["step"] for p in saved.glob("*/metadata.json")), default=0)
while True:
    step += 1
    print(f"step {step}/100000 loss={3 - step / 1000:.3f}", flush=True)
    if step % 20 == 0:
        folder = saved / f"step-{step}"
        folder.mkdir(exist_ok=True)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        told = {"step": step, "timestamp": stamp, "is_temporary": False}
        (folder / "weights").write_bytes(b"w")
        (folder / "metadata.json").write_text(json.dumps(told))
    time.sleep(0.03)
"""
HEAD = """
[cockpit]
cadence = "2s"
operator = "ada"
[notify]
routes = [{{ min = "alert", command = ["tee", "-a", "{folder}/told.txt"] }}]
"""
RUN = """
[[run]]
name = "{name}"
tier = "{tier}"
dri = "ada"
goal = "to see that it works"
final_step = 100000
output_root = "out/{name}"
config_file = "config.json"
resubmit = ["{python}", "trainer.py", "../out/{name}"]
job = {{ kind = "local", log = "out/{name}.log", pid_file = "out/{name}.pid", exit_file = "out/{name}.exit", workdir = "code", grace = "{grace}" }}
wandb = {{ project = "{project}", id = "{name}", resume = "allow" }}
checkpoints = {{ path = "out/{name}/checkpoints", layout = "levanter", save_every = "5s", permanent_every = 20, keep = 2, rollback_depth = 1 }}
code = {{ repo = "code" }}
records = {{ {records} }}
"""  # noqa: E501


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


class World:
    """One folder with everything; ``close`` ends every trainer that was started in it."""

    def __init__(self, folder: Path, records: str = 'logbook = "records/{name}.md"') -> None:
        self.folder = folder
        self.env = environment()
        (folder / "out").mkdir()
        (folder / "config.json").write_text(json.dumps({"lr": 0.1, "seed": 0}))
        self._repository("code", {"trainer.py": TRAINER})
        self._repository("records", {"README.md": "# records\n"})
        self.config = folder / "cockpit.toml"
        self.config.write_text(HEAD.format(folder=folder))
        self._records = records

    def add(self, name: str, tier: str = "ordinary", records: str = "", grace: str = "5s") -> str:
        block = RUN.format(
            project=f"p-{os.getpid()}-{self.folder.name}",  # no lineage of another test at work
            name=name, tier=tier, python=sys.executable, grace=grace,
            records=(records or self._records).format(name=name),
        )  # fmt: skip
        with self.config.open("a") as file:
            file.write(block)
        return name

    def _repository(self, name: str, files: dict[str, str]) -> None:
        bare, work = self.folder / f"{name}.git", self.folder / name
        git(self.folder, "init", "-q", "--bare", "-b", "main", str(bare))
        git(self.folder, "clone", "-q", str(bare), str(work))
        git(work, "checkout", "-q", "-b", "main")
        for path, text in files.items():
            (work / path).write_text(text)
        git(work, "add", "-A")
        git(work, "commit", "-q", "-m", "begin")
        git(work, "push", "-q", "-u", "origin", "main")

    def said(self, *words: str) -> subprocess.CompletedProcess[str]:
        return program(*words, folder=self.folder, env=self.env)

    def told(self, *words: str) -> tuple[int, dict[str, Any], str]:
        """Run the program for its one JSON document; return exit code, document, messages."""
        done = self.said(*words, "--json")
        return done.returncode, json.loads(done.stdout), done.stderr

    def save(self, name: str, *steps: int) -> None:
        """Leave complete checkpoints, as a trainer would have."""
        for step in steps:
            folder = self.folder / "out" / name / "checkpoints" / f"step-{step}"
            folder.mkdir(parents=True)
            stamp = f"2026-01-01T00:{step % 60:02d}:00"
            told = {"step": step, "timestamp": stamp, "is_temporary": False}
            (folder / "weights").write_bytes(b"w")
            (folder / "metadata.json").write_text(json.dumps(told))
            at = time.time() - 7200 + step
            for file in (*folder.iterdir(), folder):
                os.utime(file, (at, at))

    def ended(self, name: str, status: int, *lines: str) -> None:
        """Leave a job that is over: its log, its pid, its exit status."""
        out = self.folder / "out"
        (out / f"{name}.log").write_text("\n".join(lines or ("step 40/100000 loss=2.1",)) + "\n")
        (out / f"{name}.pid").write_text("4194300\n")
        (out / f"{name}.exit").write_text(f"{status}\n")

    def pid(self, name: str) -> int:
        return int((self.folder / "out" / f"{name}.pid").read_text().split()[0])

    def kill(self, name: str) -> None:
        """Kill the trainer as a machine would, and wait for its exit status."""
        os.kill(self.pid(name), signal.SIGKILL)
        self.until((self.folder / "out" / f"{name}.exit").exists)

    def book(self, name: str) -> str:
        return (self.folder / "records" / f"{name}.md").read_text()

    @staticmethod
    def until(true: Callable[[], object], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, "it never came"
            time.sleep(0.05)

    def close(self) -> None:
        for path in (self.folder / "out").glob("*.pid"):
            with contextlib.suppress(OSError, ValueError):
                pid = int(path.read_text().split()[0])
                if Path(f"/proc/{pid}/cwd").resolve() == (self.folder / "code").resolve():
                    os.kill(pid, signal.SIGKILL)
