"""Processes of one test: each is known to be up, and all are gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cockpit.hosts.here import HereLink
from cockpit.hosts.link import DEADLINE, PATIENCE, Answers, Ask
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.platforms.local.census import census, census_of, descendants
from tests.platforms.reading import live_jobs
from tests.waiting import until

PYTHON = (sys.executable, "-S")
WAIT = "import sys, time; print('up', flush=True); time.sleep(60)"


class Zoo:
    """Processes of one test, each known to be up, all gone afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._all: list[subprocess.Popen[bytes]] = []

    def add(
        self, *args: str, env: dict[str, str] | None = None, cwd: Path | None = None,
        code: str = WAIT,
    ) -> int:  # fmt: skip
        return self.run(*PYTHON, "-c", code, *args, env=env, cwd=cwd)

    def run(
        self, *argv: str, env: dict[str, str] | None = None, cwd: Path | None = None,
        quiet: bool = False,
    ) -> int:  # fmt: skip
        process = subprocess.Popen(
            argv, cwd=cwd or self.folder, env={**os.environ, **(env or {})},
            stdout=subprocess.PIPE, stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._all.append(process)
        assert process.stdout is not None
        if not quiet:
            process.stdout.readline()
        return process.pid

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._all]

    def end(self) -> None:
        below = descendants(census(), [process.pid for process in self._all])
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._all:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None and process.stdin is not None
            process.stdout.close()
            process.stdin.close()


def noted(pid_file: Path) -> int:
    """Return the pid that a shell has noted, once that process is the program and not the shell.

    A shell that says ``up`` tells nothing of what it has started: that is a copy of the shell until
    its exec.
    """

    def words() -> tuple[str, ...]:
        told = pid_file.read_text().strip() if pid_file.exists() else ""
        process = census().get(int(told or 0))
        return () if process is None else process.argv

    until(lambda: words()[:1] == PYTHON[:1])
    return int(pid_file.read_text())


def run_spec(folder: Path, name: str = "a", **job: Any) -> RunSpec:
    root = folder / "runs" / name
    root.mkdir(parents=True, exist_ok=True)
    return RunSpec(
        name=name,
        output_root=str(root),
        job=JobSpec(kind="local", pid_file=str(root / "run.pid"), **job),
        wandb=WandbSpec(entity="e", project="p", id=f"{name}-id", dir=str(root / "wandb")),
    )


class WithoutOthers(HereLink):
    """This machine without the zoos of other workers: their runs have the same names."""

    async def ask(
        self, asks: Iterable[Ask], deadline: float = DEADLINE, patience: float = PATIENCE
    ) -> Answers:
        answers = dict(await super().ask(asks, deadline, patience))
        for each, rows in answers.items():
            if each.call == "processes":
                processes = census_of(rows)
                others = descendants(processes, [os.getppid()]) - {os.getpid()}
                others -= descendants(processes, [os.getpid()])
                answers[each] = [row for row in rows if row[0] not in others]
        return answers


def live(run: RunSpec) -> Live:
    return live_jobs((run,), WithoutOthers())[run.name]


def _pid(job: LiveJob) -> int:
    return int(job.id.removeprefix("pid:"))


def pids(found: Live) -> list[int]:
    return [_pid(job) for job in found.jobs]


def possible(found: Live) -> list[int]:
    return [_pid(job) for job in found.possible]


def spared(found: Live) -> list[int]:
    return [_pid(job) for job in found.spared]
