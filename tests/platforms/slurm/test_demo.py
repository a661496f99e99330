"""The demo's runs as jobs of a real Slurm: submitted, found by launch id, taken away again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.config.file import load
from cockpit.demo import folder, guard
from cockpit.demo.away import session, site
from cockpit.demo.away.kinds import SlurmSite
from cockpit.demo.away.session import Journal, prepare, remove, running, situations_of
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import SITUATIONS
from cockpit.model.observed import Phase
from cockpit.platforms.base import CannotError
from tests.platforms.slurm.asking import platform, queries
from tests.platforms.slurm.rig import Rig
from tests.waiting import until


@pytest.fixture(autouse=True)
def here(slurm: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setattr(session, "SITUATIONS", SITUATIONS[3:5])
    monkeypatch.setattr(session, "SETTLE", 0.0)
    monkeypatch.setattr(site, "LOOK_EVERY", 0.1)
    yield
    slurm.clear()


@pytest.fixture
def layout(tmp_path: Path) -> DemoLayout:
    made = DemoLayout(tmp_path / "demo")
    folder.take(made)
    return made


def living(slurm: Rig) -> list[str]:
    return slurm.told("squeue", "-h", "-t", "R,PD,CG", "-o", "%j").split()


async def phases(layout: DemoLayout) -> dict[str, tuple[str | None, Phase]]:
    """Return launch id and phase of each run's job, as the cockpit sees them by its run file."""
    found = await platform().jobs(queries(*load(layout.run_file).runs))
    values = {name: facet.value for name, facet in found.items()}
    return {n: (v.launch_id, v.phase) for n, v in values.items() if v is not None}


async def test_it_is_submitted_seen_and_gone_without_a_trace(
    slurm: Rig, layout: DemoLayout
) -> None:
    other = slurm.sbatch("-J", "demo-healthy")  # somebody's, and none of the demo's
    journal = prepare(layout, SlurmSite())
    names = [each.name for each in situations_of(journal)]
    with running(journal, keep=False) as demo:
        until(lambda: all(journal.jobs.get(f"{name}-i001") for name in names))
        until(lambda: (layout.run(names[1]).folder / "run.log").exists())
        assert await phases(layout) == {name: (f"{name}-i001", Phase.RUNNING) for name in names}
        written = Journal.read(layout)
        assert written is not None and written.jobs == journal.jobs and written.jobs
        assert f"{names[0]}-i001" in layout.logbook(names[0]).read_text()
    assert demo.trouble is None
    assert living(slurm) == ["demo-healthy"] and not layout.folder.exists()
    assert slurm.told("squeue", "-h", "-j", other, "-o", "%T") in ("RUNNING", "PENDING")


def test_what_a_killed_demo_has_left_is_found_by_name(slurm: Rig, layout: DemoLayout) -> None:
    """Killed between a submission and its note, and one that was never submitted."""
    journal = prepare(layout, SlurmSite())
    first, second = situations_of(journal)
    assert journal.ground is not None
    journal.note(first.launch_id, None)
    journal.note(second.launch_id, None)
    journal.site.submit(first, journal.ground)
    until(lambda: living(slurm) == [first.name])
    remove(layout)
    assert living(slurm) == [] and not layout.folder.exists()


def test_a_kept_demo_is_returned_to_and_another_ones_jobs_are_not_its(
    slurm: Rig, layout: DemoLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.0)
    journal = prepare(layout, SlurmSite())
    with running(journal, keep=True):
        until(lambda: len([each for each in journal.jobs.values() if each]) == 2)
    again = prepare(layout, SlurmSite())
    assert again.jobs == journal.jobs
    new = prepare(layout, SlurmSite(options="--nice=1"))  # asked for otherwise: begun anew
    assert new.token != journal.token and living(slurm) == []


def test_a_partition_that_is_not_there(slurm: Rig, layout: DemoLayout) -> None:
    journal = prepare(layout, SlurmSite(options="-p nowhere"))
    with running(journal, keep=False) as demo:
        until(lambda: demo.trouble)
    assert demo.trouble is not None and "invalid partition" in demo.trouble.lower()
    assert not layout.folder.exists()


def test_a_cluster_that_is_not_there_leaves_no_folder(
    layout: DemoLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slurm.conf").write_text("Nonsense=1\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(CannotError, match="--host"):
        prepare(layout, SlurmSite())
    assert not layout.folder.exists()
