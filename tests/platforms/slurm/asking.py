"""Runs of Slurm, answers that were recorded, and what a platform makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.script import run_script
from cockpit.model.clock import SystemClock
from cockpit.model.facet import Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue
from cockpit.model.place import place_of
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.platforms.slurm import ask
from cockpit.platforms.slurm.jobs import SlurmJobs
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.runtime.shell import Completed
from cockpit.sources.logs.source import Logs

RECORDED = Path(__file__).parents[2] / "data" / "slurm"
VERSIONS = ("22.05", "24.11", "26.05")


def run_of(
    name: str, job_id: str | None = None, root: str | None = None, wandb: str | None = None,
    **job: Any,
) -> RunSpec:  # fmt: skip
    return RunSpec(
        name=name,
        output_root=None if root is None else place_of(root),
        wandb=None if wandb is None else WandbSpec(id=wandb),
        job=JobSpec(kind="slurm", id=job_id, **job),
    )


def queries(*runs: RunSpec) -> list[Query]:
    return [Query(run=run) for run in runs]


def platform(run: Any = run_script) -> SlurmPlatform:
    clock = SystemClock()
    return SlurmPlatform(clock, Logs(clock), run)


class Recording:
    """Answers each question with the next of some recorded answers, the last one for ever."""

    def __init__(self, *answers: str | Completed) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str | None, str]] = []

    async def __call__(
        self, host: str | None, script: str, *, deadline: float, cap: int = 0
    ) -> Completed:
        self.asked.append((host, script))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, Completed) else Completed(0, answer.encode(), b"")


def recorded(version: str) -> str:
    """Return what a version answered; sacct was not asked for AllocTRES then: it is empty."""
    text = (RECORDED / f"{version}.txt").read_bytes().decode()
    before, head, told = text.partition("sacct.out\n")
    lines = (f"{each}\x1fMARK\x1f" if "\x1fMARK\x1f" in each else each for each in told.split("\n"))
    return f"{before}{head}{chr(10).join(lines)}"


def reader(monkeypatch: pytest.MonkeyPatch, *answers: str | Completed) -> SlurmJobs:
    """Return a reader whose questions get recorded answers; these are marked ``MARK``."""
    monkeypatch.setattr(ask, "new_mark", lambda: "MARK")
    return SlurmJobs(SystemClock(), Recording(*answers))


async def observed(jobs: SlurmJobs, *runs: RunSpec) -> dict[str, Facet[JobValue]]:
    return await jobs.observe(queries(*runs))


def ids(version: str) -> dict[str, str]:
    """Return the ids of the recorded jobs by what they are for."""
    lines: Sequence[str] = (RECORDED / f"{version}.ids").read_text().splitlines()
    return {words[0]: words[1] for line in lines if len(words := line.split()) == 2}
