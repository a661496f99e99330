"""The local platform on real processes: started once, found again, saved, described."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
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
from cockpit.platforms.local.files import PidNote
from cockpit.platforms.local.platform import LocalPlatform
from cockpit.records.lease.root_claim import RootClaim
from tests.platforms.local.making import (
    REPO,
    carrying,
    contents,
    living,
    local,
    slay,
    spec,
    stranger,
    submission,
    submit,
    supervisors,
    text,
    trainers,
)
from tests.platforms.reading import read_pid
from tests.waiting import until


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunSpec]:
    found = spec(tmp_path)
    yield found
    slay(found)


def log(run: RunSpec) -> str:
    return text(run.job and run.job.log)


async def test_a_submitted_job_is_found_by_everything(tmp_path: Path, run: RunSpec) -> None:
    platform = local(tmp_path)
    job_id = await submit(platform, run, submission(run))
    live = await living(platform, run)
    assert [job.id for job in live.jobs] == [job_id] and live.unknown is None
    assert live.jobs[0].launch_id == "toy-i001"
    found = await platform.look_up(run, "toy-i001")
    assert (found.found, found.job_id) == (LaunchState.LIVE, job_id)
    note = read_pid(str(run.job and run.job.pid_file))
    assert isinstance(note, PidNote) and f"pid:{note.pid}" == job_id


async def test_the_same_launch_id_starts_one_job_ever(tmp_path: Path, run: RunSpec) -> None:
    platform = local(tmp_path)
    await submit(platform, run, submission(run, code="print('ran')"))
    until(lambda: not supervisors(run))
    with pytest.raises(CannotError, match="toy-i001 was used before: state=ended"):
        await submit(platform, run, submission(run, code="print('ran')"))
    assert log(run) == "ran\n"
    found = await platform.look_up(run, "toy-i001")
    assert (found.found, found.text[-12:]) == (LaunchState.ENDED, "ended with 0")


async def test_a_live_job_refuses_another(tmp_path: Path, run: RunSpec) -> None:
    platform = local(tmp_path)
    first = await submit(platform, run, submission(run))
    with pytest.raises(CannotError, match=f"a job of this lineage is still alive: {first} "):
        await submit(platform, run, submission(run, 2))
    assert len(trainers(run)) == 1
    found = await platform.look_up(run, "toy-i002")
    assert found.found is LaunchState.ABSENT


async def test_a_job_that_nobody_recorded_refuses_another(tmp_path: Path, run: RunSpec) -> None:
    other = stranger("--out", str(run.output_root))
    try:
        platform = local(tmp_path)
        with pytest.raises(CannotError, match=f"pid:{other.pid} .*output root in its arguments"):
            await submit(platform, run, submission(run))
    finally:
        other.kill()
        other.wait()


async def test_a_launch_that_was_meant_and_never_began_is_closed_by_looking(
    tmp_path: Path, run: RunSpec
) -> None:
    platform = local(tmp_path)
    folder = Path(str(run.output_root)) / notes.BELOW
    assert (await platform.look_up(run, "toy-i001")).found is LaunchState.ABSENT
    assert notes.launch_ids(folder) == set()
    notes.note_intent(folder, "toy-i001", {"by": 1})
    found = await platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT and "closed" in found.text
    with pytest.raises(CannotError, match="was used before: state=closed"):
        await submit(platform, run, submission(run))
    assert not trainers(run)
    await submit(platform, run, submission(run, 2))


async def test_a_start_that_hangs_is_unknown_until_it_is_over(tmp_path: Path, run: RunSpec) -> None:
    os.mkfifo(str(run.job and run.job.log))
    platform = local(tmp_path, answer_within=0.5)
    with pytest.raises(LostError):
        await submit(platform, run, submission(run))
    found = await platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.UNKNOWN and "still starting" in found.text
    until((Path(str(run.output_root)) / notes.BELOW / "toy-i001").exists)
    for pid in supervisors(run):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not supervisors(run))
    found = await platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT and "nothing ran" in found.text


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


async def test_a_job_that_died_without_a_status_has_ended(tmp_path: Path, run: RunSpec) -> None:
    platform = local(tmp_path)
    await submit(platform, run, submission(run))
    for pid in [*supervisors(run), *trainers(run)]:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not trainers(run))
    found = await platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.ENDED and "without an exit status" in found.text


async def test_a_lost_output_root_is_unknown_not_absent(tmp_path: Path, run: RunSpec) -> None:
    platform = local(tmp_path)
    folder = Path(str(run.output_root)) / notes.BELOW
    folder.parent.mkdir(parents=True)
    folder.symlink_to(folder)  # it cannot be read, whoever asks
    assert (await platform.look_up(run, "toy-i001")).found is LaunchState.UNKNOWN


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": ("echo", "$NOT_SET_ANYWHERE")}, r"\$NOT_SET_ANYWHERE, which is not set"),
        ({"command": ("no-such-program-at-all",)}, "cannot start no-such-program-at-all"),
        ({"command": ("./missing",)}, "cannot start ./missing: No such file"),
        ({"command": ()}, "no command"), ({"workdir": "/no/such/folder"}, "is not there"),
        ({"launch_id": "../../x"}, "bad launch id"), ({"launch_id": ".x"}, "bad launch id"),
        ({"command": ("a\0b",)}, "zero byte"),
    ],
)  # fmt: skip
async def test_what_cannot_start_is_said_in_one_line(
    tmp_path: Path, run: RunSpec, changes: dict[str, object], said: str
) -> None:
    told = submission(run).model_copy(update=changes)
    with pytest.raises(CannotError, match=said) as caught:
        await submit(local(tmp_path), run, told)
    assert "\n" not in str(caught.value)
    assert not carrying(run)


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


async def test_without_anything_to_guard_nothing_starts(tmp_path: Path, run: RunSpec) -> None:
    bare = run.model_copy(update={"output_root": None, "wandb": None})
    with pytest.raises(CannotError, match="no output root and no W&B id"):
        await submit(local(tmp_path), bare, submission(run))


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


async def test_what_was_accepted_does_not_run_and_looking_ends_it(
    tmp_path: Path, run: RunSpec
) -> None:
    platform = local(tmp_path)
    accepted = await platform.accept(run, submission(run))
    assert not trainers(run) and not supervisors(run)
    found = await platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT and "closed" in found.text
    with pytest.raises(CannotError, match="was used before: state=closed"):
        await platform.go(run, accepted)
    with pytest.raises(CannotError, match="was used before: state=closed"):
        await submit(platform, run, submission(run))
    assert not trainers(run)


async def test_what_was_let_go_is_not_ended_by_looking(tmp_path: Path, run: RunSpec) -> None:
    platform = local(tmp_path)
    job_id = await platform.go(run, await platform.accept(run, submission(run)))
    found = await local(tmp_path).look_up(run, "toy-i001")
    assert (found.found, found.job_id) == (LaunchState.LIVE, job_id)


HALTED = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, {repo!r})
from cockpit.platforms.base import CannotError
from tests.platforms.local.making import local, spec, submission

async def main():
    run = spec(Path({folder!r}))
    platform = local(Path({folder!r}))
    accepted = await platform.accept(run, submission(run))
    print("accepted", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    print(await platform.go(run, accepted))

try:
    asyncio.run(main())
except CannotError as error:
    print("refused", error)
"""


@pytest.mark.parametrize("looked", [True, False])
def test_a_cockpit_that_was_halted_between_the_two(
    tmp_path: Path, run: RunSpec, looked: bool
) -> None:
    """It goes on late: it starts the job, unless somebody has looked for it meanwhile."""
    halted = subprocess.Popen(
        [sys.executable, "-c", HALTED.format(repo=str(REPO), folder=str(tmp_path))],
        stdout=subprocess.PIPE, text=True, cwd=REPO,
    )  # fmt: skip
    try:
        assert halted.stdout is not None and halted.stdout.readline() == "accepted\n"
        until(lambda: Path(f"/proc/{halted.pid}/stat").read_text().rpartition(")")[2][1] == "T")
        platform = local(tmp_path)
        if looked:
            assert asyncio.run(platform.look_up(run, "toy-i001")).found is LaunchState.ABSENT
        halted.send_signal(signal.SIGCONT)
        said = halted.communicate(timeout=60)[0]
        assert said.startswith("refused" if looked else "pid:"), said
        found = asyncio.run(platform.look_up(run, "toy-i001")).found
        assert (found, len(trainers(run))) == (
            (LaunchState.ABSENT, 0) if looked else (LaunchState.LIVE, 1)
        )
    finally:
        halted.kill()
        halted.communicate()


SOAK = bool(os.environ.get("SOAK"))

RACER = """
import asyncio, sys
from functools import partial
from pathlib import Path
sys.path.insert(0, {repo!r})
from cockpit.platforms.base import CannotError
from tests.platforms.local.making import local, spec, submission, submit
print("ready", flush=True)
for line in sys.stdin:
    folder, name, number = line.split()
    run = spec(Path(folder), name)
    try:
        print(asyncio.run(submit(local(Path(folder)), run, submission(run, int(number)))))
    except CannotError as error:
        print("refused", str(error)[:150])
    sys.stdout.flush()
"""


@pytest.mark.slow
def test_two_cockpits_that_submit_at_once_start_one_job_every_time(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER.format(repo=str(REPO))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPO,
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        assert all(racer.stdout and racer.stdout.readline() == "ready\n" for racer in racers)
        for round_ in range(100 if SOAK else 12):
            run = spec(tmp_path, f"r{round_}")
            numbers = (1, 1) if round_ % 2 else (1, 2)
            for racer, number in zip(racers, numbers, strict=True):
                assert racer.stdin is not None
                racer.stdin.write(f"{tmp_path} {run.name} {number}\n")
                racer.stdin.flush()
            said = [racer.stdout.readline() for racer in racers if racer.stdout is not None]
            assert sum(line.startswith("pid:") for line in said) == 1, said
            alive = trainers(run)
            assert [f"pid:{pid}\n" for pid in alive] == [
                line for line in said if "pid:" in line[:4]
            ]
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


def _decided(platform: LocalPlatform, run: RunSpec) -> bool:
    """Tell whether the supervisor that was left behind has started the job, or has ended."""
    found = asyncio.run(platform.look_up(run, f"{run.name}-i001"))
    return found.found is not LaunchState.UNKNOWN


@pytest.mark.slow
def test_cockpits_killed_at_random_never_leave_two(tmp_path: Path) -> None:
    """Each round kills the one that submits; whoever looks afterwards knows, and starts one."""
    dice = random.Random(3)
    counts = {LaunchState.LIVE: 0, LaunchState.ABSENT: 0}
    for round_ in range(60 if SOAK else 12):
        run = spec(tmp_path, f"k{round_}")
        racer = subprocess.Popen(
            [sys.executable, "-c", RACER.format(repo=str(REPO))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPO,
        )  # fmt: skip
        assert racer.stdin is not None and racer.stdout is not None
        racer.stdout.readline()
        racer.stdin.write(f"{tmp_path} {run.name} 1\n")
        racer.stdin.flush()
        if round_ % 2:
            until(partial(supervisors, run), 60)
        with suppress(subprocess.TimeoutExpired):
            racer.wait(dice.uniform(0.0, 0.1))
        if round_ % 4 == 3:
            racer.stdout.readline()
        racer.kill()
        racer.communicate()
        platform = local(tmp_path)
        found = asyncio.run(platform.look_up(run, f"{run.name}-i001"))
        if found.found is LaunchState.UNKNOWN:
            until(partial(_decided, platform, run))
            found = asyncio.run(platform.look_up(run, f"{run.name}-i001"))
        assert found.found in counts, found
        counts[found.found] += 1
        if found.found is LaunchState.ABSENT:
            asyncio.run(submit(platform, run, submission(run, 2)))
        until(partial(trainers, run))  # one that becomes its command shows no environment yet
        assert len(trainers(run)) == 1, found
        slay(run)
    assert all(counts.values()), counts


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


async def test_a_lock_that_cannot_be_opened_is_found_before_anything_else(
    tmp_path: Path, run: RunSpec
) -> None:
    """A relaunch stopped a live job, and then could not start one: its lock was a link."""
    platform = local(tmp_path)
    await platform.try_start(run, submission(run))
    root = Path(str(run.output_root and run.output_root.path))
    assert not (root / ".cockpit").exists(), "trying leaves nothing behind"
    (root / ".cockpit").mkdir(parents=True)
    lock = root / ".cockpit" / "job.lock"
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotError, match=r"job\.lock: it is a link"):
        await platform.try_start(run, submission(run))
    lock.unlink()
    lock.mkdir()
    with pytest.raises(CannotError, match=r"cannot lock .*job\.lock"):
        await platform.try_start(run, submission(run))
    lock.rmdir()
    named = run.model_copy(update={"job": run.job and run.job.model_copy(update={"log": None})})
    with pytest.raises(CannotError, match=r"job\.log must name a file of this machine"):
        await platform.try_start(named, submission(run))
    await platform.try_start(run, submission(run))


async def test_our_own_folder_is_never_a_link(tmp_path: Path, run: RunSpec) -> None:
    """Locks, claims and notes were made in whatever folder it led to."""
    platform, foreign = local(tmp_path), tmp_path / "foreign"
    foreign.mkdir()
    root = Path(str(run.output_root and run.output_root.path))
    (root / ".cockpit").symlink_to(foreign)
    for work in (platform.try_start, platform.accept):
        with pytest.raises(CannotError, match=r"\.cockpit.*it is a link"):
            await work(run, submission(run))
    claim = RootClaim(SystemClock())
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
