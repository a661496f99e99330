"""The source of jobs is asked for the current job, not for the one that the run file names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.facet import Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import MonitorValue
from cockpit.model.run import JobSpec
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.store import Store, run_key
from cockpit.watch.asking import Bulk
from cockpit.watch.engine import Engine
from tests.watch.fakes import Fake, World, until


class Jobs(Fake):
    """A source of jobs that remembers for which ids it was asked."""

    ids: list[str | None]

    async def observe(self, runs: Sequence[Any], at: str | None = None) -> dict[str, Facet[Any]]:
        assert all(isinstance(query, Query) for query in runs)
        self.ids += [query.run.job.id for query in runs]
        return await super().observe(runs, at)


class Asked:
    """An engine on one run of ``kind`` whose run file names job ``1``."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.world = World(cadence=4.0)
        value = self.world.fakes["job"].value
        self.jobs = Jobs(self.world.clock, value)
        self.jobs.ids = []
        self.world.fakes["job"] = self.jobs
        (run,) = self.world.file.runs
        job = JobSpec.model_validate({"kind": kind, "id": "1"})
        self.world.file = self.world.file.model_copy(
            update={"runs": (run.model_copy(update={"job": job}),)}
        )
        self.store = Store(folder / "store.sqlite")
        self.engine = Engine(
            self.world.file, store=self.store, clock=self.world.clock,
            sources=replace(self.world.sources, job=Bulk(self.jobs.observe)),
        )  # fmt: skip

    def launched(self, job_id: str, before: float, **more: str | None) -> None:
        told = {"launch_id": f"r-i{job_id:0>3}", **more}
        launch = LaunchedJob(at=self.world.clock.now() - before, job_id=job_id, **told)
        another = Store(self.store.path)  # as another cockpit would: the engine's sees it change
        RunMemory(another).add_launch(run_key(self.world.file.path, "r"), launch)
        another.close()

    def monitored(self, job_id: str, before: float) -> None:
        at = self.world.clock.now() - before
        self.world.fakes["monitor"].value = MonitorValue(
            fresh=True, last_update=at, cadence_s=60.0, job_id=job_id
        )

    async def source(self) -> str:
        report = await self.engine.check()
        return report.runs[0].facets.job.source


BY_ID = ("iris", "ray", "slurm")


@pytest.mark.parametrize("kind", BY_ID)
async def test_the_run_files_job_is_asked_for_while_nothing_is_newer(
    kind: str, tmp_path: Path
) -> None:
    asked = Asked(tmp_path, kind)
    assert await asked.source() == "fake"
    assert asked.jobs.ids == ["1"]


@pytest.mark.parametrize("kind", BY_ID)
async def test_the_last_launch_in_the_store_is_newer(kind: str, tmp_path: Path) -> None:
    asked = Asked(tmp_path, kind)
    asked.launched("2", before=60.0)
    source = await asked.source()
    assert asked.jobs.ids == ["2"]
    assert source == "fake; id from the last launch in the store (1 in the run file)"


@pytest.mark.parametrize("kind", BY_ID)
async def test_an_adopted_job_is_newer(kind: str, tmp_path: Path) -> None:
    asked = Asked(tmp_path, kind)
    asked.launched("2", before=60.0)
    asked.launched("3", before=30.0, launch_id=None, file_id="1")
    source = await asked.source()
    assert asked.jobs.ids == ["3"]
    assert source == "fake; id from the last adoption in the store (1 in the run file)"


@pytest.mark.parametrize("monitored", [False, True])
@pytest.mark.parametrize("kind", BY_ID)
async def test_an_id_that_was_edited_after_the_last_launch_is_the_newest(
    kind: str, monitored: bool, tmp_path: Path
) -> None:
    """A monitor from outside may go on with the job that it was given."""
    asked = Asked(tmp_path, kind)
    asked.launched("2", before=60.0, file_id="9")
    if monitored:
        asked.monitored("2", before=1.0)
    source = await asked.source()
    assert asked.jobs.ids == ["1"]
    expected = "the run file, edited after the last launch in the store (2)"
    assert source == f"fake; id from {expected}"


@pytest.mark.parametrize("file_id", ["1", None])
async def test_an_id_that_was_there_at_the_launch_is_not(
    file_id: str | None, tmp_path: Path
) -> None:
    """Of a launch by an older version it is not known: the launch stays the newest."""
    asked = Asked(tmp_path, "slurm")
    asked.launched("2", before=60.0, file_id=file_id)
    await asked.source()
    assert asked.jobs.ids == ["2"]


async def test_the_id_of_a_run_file_that_named_none_was_edited(tmp_path: Path) -> None:
    asked = Asked(tmp_path, "slurm")
    asked.launched("2", before=60.0, file_id="")
    await asked.source()
    assert asked.jobs.ids == ["1"]


@pytest.mark.parametrize("kind", BY_ID)
async def test_so_is_the_monitors_state_file(kind: str, tmp_path: Path) -> None:
    asked = Asked(tmp_path, kind)
    asked.launched("2", before=600.0)
    asked.monitored("3", before=60.0)
    source = await asked.source()
    assert asked.jobs.ids == ["3"]
    assert source == "fake; id from the monitor's state file (1 in the run file)"


async def test_of_both_the_newer_one_counts(tmp_path: Path) -> None:
    asked = Asked(tmp_path, "slurm")
    asked.launched("2", before=60.0)
    asked.monitored("3", before=600.0)
    await asked.source()
    assert asked.jobs.ids == ["2"]


@pytest.mark.parametrize("kind", ["local", "box"])
async def test_a_job_that_its_files_name_is_not_renamed(kind: str, tmp_path: Path) -> None:
    asked = Asked(tmp_path, kind)
    asked.launched("2", before=60.0)
    assert await asked.source() == "fake"
    assert asked.jobs.ids == ["1"]


async def test_a_watch_follows_a_launch(tmp_path: Path) -> None:
    asked = Asked(tmp_path, "slurm")
    loop = asyncio.create_task(asked.engine.run())
    try:
        await until(lambda: "1" in asked.jobs.ids)
        asked.launched("2", before=0.0)
        await until(lambda: asked.jobs.ids[-1] == "2")
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop
