"""What a submit needs on an ssh host is proven there, before anything is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.actions.checks.places_away import _locks, _missing, places_away
from cockpit.model.observed import Pick
from cockpit.model.place import on_host
from cockpit.model.plan import Level
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec
from tests.platforms.box.making import spec
from tests.platforms.local.making import contents
from tests.sshd import Sshd, needs_sshd, reachable


@pytest.fixture(scope="module")
def host() -> Iterator[Sshd]:
    with reachable() as found:
        yield found


async def said(run: RunSpec, *words: str, pick: Pick | None = None) -> list[str]:
    checks = await places_away(run, words, pick, None)
    return [f"{check.level.value} {check.id}: {check.text}" for check in checks]


@needs_sshd
async def test_a_host_where_all_is_well_is_left_as_it_was(host: Sshd, tmp_path: Path) -> None:
    run = spec(host.host, tmp_path)
    found = await said(run, "sh", "-c", "true")
    assert [line.partition(":")[0] for line in found] == ["pass places"], found
    assert contents(tmp_path) == {}


@needs_sshd
async def test_each_thing_that_is_wrong_is_told_of_its_place(host: Sshd, tmp_path: Path) -> None:
    run = spec(host.host, tmp_path)
    root = tmp_path / "runs" / "buoy"
    (root / "run.log").mkdir(parents=True)
    (root / ".cockpit").write_text("in the way")
    (tmp_path / "tool").write_text("not executable")
    broken = root / "step-5"
    (broken / "shard").mkdir(parents=True)
    (broken / "shard" / "0").symlink_to("/nowhere")
    (broken / "metadata.json").write_text("{}")
    where = str(on_host(host.host, str(broken)))
    found = await said(run, "./tool", pick=Pick(path=where, step=5, why="test"))
    assert [line for line in found if "run.log" in line] == [
        "block places: the log's folder is not writable by this user: is a directory "
        f"({host.host}:{root}/run.log)"
    ]
    assert any("the cockpit's notes in it is not a folder" in line for line in found)
    assert "block program: no executable program ./tool (chmod +x ./tool)" in found
    assert not any(line.startswith("block C-17") for line in found)
    gone = Pick(path=f"{where}0", step=50, why="test")
    found = await said(run, "no-such-program", pick=gone)
    assert (
        f"block C-17:readable: step 50 cannot be read by this user: not found there ({where}0)"
        in found
    )
    found = await said(run, "python3", "no_such.py")
    assert any(line.startswith("block program: no_such.py does not exist, seen") for line in found)


@needs_sshd
async def test_the_login_node_of_a_slurm_job_is_tried_too(host: Sshd, tmp_path: Path) -> None:
    job = JobSpec(kind="slurm", host=host.host, workdir=on_host(host.host, "/no/such/folder"))
    run = RunSpec(
        name="toy",
        job=job,
        output_root=on_host(host.host, str(tmp_path / "out")),
        checkpoints=CheckpointSpec(path=(on_host(host.host, "/proc/1/none"),)),
    )
    found = await said(run, "sbatch", "job.sh")
    assert f"block program: workdir does not exist: {host.host}:/no/such/folder" in found
    assert any("the checkpoints' folder is not writable by this user" in line for line in found)


@needs_sshd
async def test_a_host_that_does_not_answer_blocks(host: Sshd, tmp_path: Path) -> None:
    checks = await places_away(spec("no-such-host.invalid", tmp_path), ("sh",), None, None)
    assert [check.level for check in checks] == [Level.BLOCK]
    assert "cannot be checked" in checks[0].text


def test_a_disk_that_is_not_mounted_there_is_not_written_beside() -> None:
    sure, perhaps = _missing("/", "/scratch"), _missing("/mnt", "")
    assert sure is not None and sure.sure and "the disk at /scratch is not mounted" in sure.text
    assert perhaps is not None and not perhaps.sure
    assert _missing("/home/ada", "") is None


def test_a_host_without_setsid_starts_nothing() -> None:
    assert [each.level for each in _locks([0, "no setsid\n", ""])] == [Level.BLOCK]
    assert _locks([0, "", ""]) == []
