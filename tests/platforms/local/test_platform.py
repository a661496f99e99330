"""The local platform on real processes: started once, found again, saved, described."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.hosts import notes
from cockpit.hosts.launches import lock_files, locks_folders
from cockpit.hosts.notes import LockError
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import LaunchState
from cockpit.model.lineage import tag_of
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.records.lease.lease import Lease
from cockpit.records.lease.seat import RootSeats
from tests.platforms.local.making import (
    contents,
    living,
    local,
    slay,
    spec,
    submission,
    submit,
    text,
    trainers,
)
from tests.waiting import until


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunSpec]:
    found = spec(tmp_path)
    yield found
    slay(found)


def log(run: RunSpec) -> str:
    return text(run.job and run.job.log)


async def test_a_start_that_was_slow_is_found_later(tmp_path: Path, run: RunSpec) -> None:
    """The answer was lost, the job runs: it must be found, never started again."""
    fifo = Path(str(run.job and run.job.log))
    os.mkfifo(fifo)
    platform = local(tmp_path, answer_within=0.5)
    with pytest.raises(LostError):
        await submit(platform, run, submission(run))
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        until(lambda: trainers(run))
        found = await platform.look_up(run, "toy-i001")
        assert found.found is LaunchState.LIVE and found.job_id == f"pid:{trainers(run)[0]}"
        with pytest.raises(CannotError):
            await submit(platform, run, submission(run, 2))
    finally:
        os.close(reader)


async def test_a_lost_output_root_is_unknown_not_absent(tmp_path: Path, run: RunSpec) -> None:
    platform = local(tmp_path)
    folder = Path(str(run.output_root)) / notes.BELOW
    folder.parent.mkdir(parents=True)
    folder.symlink_to(folder)  # it cannot be read, whoever asks
    assert (await platform.look_up(run, "toy-i001")).found is LaunchState.UNKNOWN


async def test_the_command_keeps_its_variables_in_every_record(
    tmp_path: Path, run: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "sk-planted-secret-1234567890")
    code = "import sys, time; print('got', len(sys.argv[1]), flush=True); time.sleep(60)"
    told = submission(run, code=code)
    told = told.model_copy(update={"command": (*told.command, "$A_TOKEN")})
    await submit(local(tmp_path), run, told)
    until(lambda: log(run).endswith("\n"))  # print may hand over its words one by one
    assert log(run) == "got 28\n"
    assert not [name for name, told in contents(tmp_path).items() if "planted" in told]


async def test_a_remote_root_is_noted_beside_the_pid_file(tmp_path: Path, run: RunSpec) -> None:
    remote = run.model_copy(update={"output_root": place_of("gs://bucket/toy")})
    platform = local(tmp_path)
    try:
        job_id = await submit(platform, remote, submission(remote))
        note = Path(str(run.output_root)) / notes.BELOW / "toy-i001"
        assert f"pid={job_id[4:]}" in note.read_text()
        with pytest.raises(CannotError):
            await submit(platform, remote, submission(remote, 2))
    finally:
        slay(remote)


async def test_a_lineage_is_told_from_one_of_the_same_name(tmp_path: Path) -> None:
    """Two folders hold a run of one name, as two demos do: neither sees the other's job."""
    one, two = spec(tmp_path / "x"), spec(tmp_path / "y")
    assert tag_of(one) != tag_of(two)
    platform = local(tmp_path)
    try:
        first = await submit(platform, one, submission(one))
        second = await submit(platform, two, submission(two))
        assert [job.id for job in (await living(platform, one)).jobs] == [first]
        assert [job.id for job in (await living(platform, two)).jobs] == [second]
        await platform.stop(one, (await living(platform, one)).jobs)
        assert trainers(two) == [int(second[4:])] and not trainers(one)
    finally:
        slay(one, two)


async def test_our_own_folder_is_never_a_link(tmp_path: Path, run: RunSpec) -> None:
    """Locks, claims and notes were made in whatever folder it led to."""
    platform, foreign = local(tmp_path), tmp_path / "foreign"
    foreign.mkdir()
    root = Path(str(run.output_root and run.output_root.path))
    (root / ".cockpit").symlink_to(foreign)
    for work in (platform.try_start, platform.accept):
        with pytest.raises(CannotError, match=r"\.cockpit.*it is a link"):
            await work(run, submission(run))
    claim = Lease(SystemClock(), RootSeats(SystemClock()), lambda: "ada")
    for found in (
        await claim.survey(run),
        await claim.take(run, "toy-i001", "relaunch", over=False),
    ):
        assert found.level == "warn" and "it is a link" in found.text
    assert list(foreign.iterdir()) == []


def test_nobody_keeps_us_from_our_locks_by_taking_their_folders_name(tmp_path: Path) -> None:
    taken, link, own = tmp_path / "taken", tmp_path / "link", tmp_path / "own"
    taken.mkdir(mode=0o777)
    taken.chmod(0o777)
    link.symlink_to(tmp_path)
    (lock,) = lock_files(None, ["root:x"], (taken, link, own))
    assert lock.parent == own and own.stat().st_mode & 0o777 == 0o700
    both = lock_files(None, ["root:x"], (tmp_path / "first", own))
    assert [each.parent.name for each in both] == ["first", "own"], "a job holds them in each"
    with pytest.raises(LockError, match=r"no locks: .*taken is open to others"):
        lock_files(None, ["root:x"], (taken, link))


def test_where_our_locks_lie_is_told_by_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    before = locks_folders()
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("XDG_STATE_HOME", "/nowhere")
    assert locks_folders() == before and len(before) == 2
