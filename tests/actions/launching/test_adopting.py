"""Adopt: a living job that another run of the run file trains is not taken for this one's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cockpit.actions.launching.launch import Adopt
from cockpit.model.jobs import Live, NamedJob
from cockpit.model.run import CockpitFile, RunSpec
from tests.actions.resting import RUN, Rest, SetJobs, blocks, job


class TwoRuns(Rest):
    """Two runs of one run file."""

    @property
    def file(self) -> CockpitFile:
        found = super().file
        other = self.spec.model_copy(update={"name": "other", "output_root": None})
        return found.model_copy(update={"runs": (self.spec, other)})


class OfOne(SetJobs):
    """A job whose own words tell nothing, and which the platform knows to train one run."""

    def __init__(self, run: str) -> None:
        super().__init__()
        self.run = run

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        return {run.name: Live(jobs=(job("pid:9"),) * (run.name == self.run)) for run in runs}

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        return NamedJob(id=job_id, text="process 9 is running here: python t.py", lives=True)


@pytest.mark.parametrize(("run", "blocked"), [("other", True), (RUN, False), ("nobody", False)])
async def test_the_job_of_another_run_is_not_adopted(
    tmp_path: Path, run: str, blocked: bool
) -> None:
    world = TwoRuns(tmp_path, Adopt())
    world.platform = OfOne(run)
    world.service = world.another()
    plan = await world.plan(job_id="pid:9")
    found = blocks(plan)
    assert ("whose" in found) is blocked
    assert not blocked or found["whose"] == "it is a job of other: its launch id"


class OnTwoHosts(OfOne):
    """Each run has a host of its own: a process id of the one is another process on the other."""

    def endpoint(self, run: RunSpec) -> str:
        return f"host of {run.name}"


async def test_the_same_number_on_another_host_is_another_job(tmp_path: Path) -> None:
    world = TwoRuns(tmp_path, Adopt())
    world.platform = OnTwoHosts("other")
    world.service = world.another()
    assert "whose" not in blocks(await world.plan(job_id="pid:9"))
