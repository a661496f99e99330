"""What holds on this machine holds on a host behind ssh: the same tests, asked of both."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.checks.setup import ready
from cockpit.hosts.notes import BELOW
from cockpit.model.clock import FixedClock, SystemClock
from cockpit.model.jobs import LaunchState, LiveJob, Query
from cockpit.model.observed import JobValue
from cockpit.model.plan import Check
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.platforms.base import CannotError, CommandError, LostError
from cockpit.platforms.command import fill, flags_of, masked, places_in, shown, values_of, words_of
from cockpit.platforms.local.marks import locks_of
from cockpit.platforms.table import Platforms
from cockpit.sources.logs.source import Logs
from tests.actions.contexts import by_id, hard
from tests.platforms.conftest import Host
from tests.platforms.local.making import (
    TRAINER,
    carrying,
    submission,
    submit,
    supervisors,
    text,
    trainers,
)
from tests.waiting import until

UP = "print('up', flush=True); import time; time.sleep(120)"


async def test_who_only_holds_the_lock_of_the_lineage_is_its_job(
    host: Host, tmp_path: Path
) -> None:
    run = host.spec()
    lock = tmp_path / "elsewhere" / sorted(locks_of(run))[0]
    lock.parent.mkdir()
    hold = f"import fcntl; f = open({str(lock)!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX); {UP}"
    holder = host.start(sys.executable, "-S", "-c", hold, cwd="/")
    live = await host.live(run)
    assert [job.id for job in live.jobs] == [f"pid:{holder.pid}"]
    assert "the lock" in live.jobs[0].why


async def test_a_command_line_is_read_to_its_end(host: Host, tmp_path: Path) -> None:
    run = host.spec(log=None)
    filler = [f"--filler={number:090}" for number in range(100)]
    root = tmp_path / "runs" / "toy"
    mine = host.start(sys.executable, "-S", "-c", UP, *filler, "--output_dir", str(root), cwd="/")
    live = await host.live(run)
    assert f"pid:{mine.pid}" in [job.id for job in (*live.jobs, *live.possible)]


ASKED = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print('saved', flush=True))
print('step 1', flush=True)
time.sleep(120) or time.sleep(120)
"""


async def started(host: Host, run: RunSpec, code: str) -> LiveJob:
    await submit(host.platform, run, submission(run, code=code))
    until(lambda: log(run))
    (job,) = (await host.live(run)).jobs
    return job


def log(run: RunSpec) -> str:
    return text(run.job and run.job.log and run.job.log.path)


async def test_a_trainer_that_listens_is_asked_to_save(host: Host) -> None:
    run = host.spec(save_signal="USR1")
    job = await started(host, run, ASKED)
    await host.platform.save(run, job)
    until(lambda: log(run) == "step 1\nsaved\n")
    assert trainers(run) == [int(job.id[4:])]


async def test_a_trainer_that_does_not_listen_is_not_killed_by_asking(host: Host) -> None:
    run = host.spec(save_signal="SIGUSR1")
    job = await started(host, run, TRAINER)
    with pytest.raises(CannotError, match="does not handle SIGUSR1"):
        await host.platform.save(run, job)
    assert trainers(run) == [int(job.id[4:])]
    later = job.model_copy(update={"handle": {**job.handle, "ticks": "1"}})
    with pytest.raises(CannotError, match="is gone"):
        await host.platform.save(run, later)


async def test_a_save_command_runs_there_and_its_failure_is_told(
    host: Host, tmp_path: Path
) -> None:
    run = host.spec()
    job = await started(host, run, TRAINER)

    async def save(command: str | None) -> None:
        assert run.job is not None
        changed = run.job.model_copy(update={"save_command": command})
        await host.platform.save(run.model_copy(update={"job": changed}), job)

    await save("sh -c 'echo {run} {launch_id} {pid} {job_id} \"$1\" > saved' x $HOME")
    words = text(tmp_path / "saved").split()
    assert words[:4] == ["toy", "toy-i001", job.handle["pid"], job.id] and words[4][0] == "/"
    for command, said in (
        ("sh -c 'echo no >&2; exit 3'", "ended with 3: no"),
        ("save {step}", r"\{step\}, which is none of"),
        ("save $NOT_SET_HERE", r"uses \$NOT_SET_HERE, which is not set"),
        ("there-is-no-such-program", "No such file or directory"),
        (None, "neither job.save_signal nor job.save_command"),
    ):
        with pytest.raises(CannotError, match=said):
            await save(command)


async def test_evidence_says_what_is_there_and_what_is_not(host: Host) -> None:
    run = host.spec()
    job = await started(host, run, TRAINER)
    found = await host.platform.evidence(run, [job])
    assert {"job.txt", "machine.txt", "gpu.txt", "kernel.txt", "cgroup.txt"} <= set(found)
    assert b"state=running" in found["job.txt"] and b"toy-i001" in found["job.txt"]
    assert job.id[4:].encode() in found["processes.txt"]
    assert b"State:" in found[f"stack-{job.id[4:]}.txt"]
    if shutil.which("nvidia-smi") is None:
        assert found["gpu.txt"].startswith(b"missing: there is no nvidia-smi")
    assert trainers(run) == [int(job.id[4:])]


async def seen(host: Host, run: RunSpec) -> JobValue:
    """Return the job as it is seen; a look that hangs is an error."""
    facets = await asyncio.wait_for(host.platform.jobs([Query(run=run)]), 10.0)
    value = facets[run.name].value
    assert value is not None, facets[run.name]
    return value


async def ended(host: Host, run: RunSpec) -> Path:
    """Start a job that ends with 3; return the note of its launch."""
    await submit(host.platform, run, submission(run, code="raise SystemExit(3)"))
    note = note_of(run)
    until(lambda: "state=ended" in text(note))
    return note


def note_of(run: RunSpec) -> Path:
    assert run.output_root is not None
    return Path(run.output_root.path) / BELOW / f"{run.name}-i001"


async def test_a_named_pipe_in_the_place_of_a_file_is_not_waited_for(host: Host) -> None:
    run = host.spec()
    note = await ended(host, run)
    os.mkfifo(note.with_name("toy-i002"))
    assert (await seen(host, run)).exit_code == 3
    looked = await asyncio.wait_for(host.platform.look_up(run, "toy-i002"), 10.0)
    assert looked.found is LaunchState.UNKNOWN and "is no file of ours" in looked.text


async def test_a_damaged_note_leaves_what_the_exit_file_says(host: Host) -> None:
    run = host.spec()
    note = await ended(host, run)
    assert (await seen(host, run)).exit_code == 3
    note.write_text(f"{note.read_text()}exit=²\npid=²\n")
    assert (await seen(host, run)).exit_code == 3
    looked = await host.platform.look_up(run, "toy-i001")
    assert looked.found is LaunchState.ENDED


@pytest.mark.parametrize("line", ["ticks=9²", "ticks=-1"])
async def test_a_damaged_line_of_a_pid_file_hides_no_process(host: Host, line: str) -> None:
    run = host.spec()
    mine = host.start(sys.executable, "-S", "-c", UP, "--pid", "²", "--pid", "9" * 5000)
    write_pid_file(run, f"{mine.pid}\n{line}\n")
    assert (await seen(host, run)).id == f"pid:{mine.pid}"
    assert [job.id for job in (await host.live(run)).jobs] == [f"pid:{mine.pid}"]


async def test_of_two_runs_that_adopt_one_process_at_once_one_is_refused(host: Host) -> None:
    """Each has seen that it is nobody's; the run files may be two, and so may the cockpits."""
    runs = [host.spec("one"), host.spec("two")]
    mine = host.start(sys.executable, "-S", "-c", UP)
    job = await host.platform.named_job(runs[0], str(mine.pid))
    tries = await asyncio.gather(
        *(host.platform.adopt(run, job) for run in runs), return_exceptions=True
    )
    (refusal,) = [each for each in tries if each is not None]
    assert isinstance(refusal, CannotError) and "nothing was noted" in str(refusal)
    winner, loser = runs if tries[0] is None else reversed(runs)
    assert str(mine.pid) in pid_file(winner).read_text() and not pid_file(loser).exists()
    await host.platform.adopt(winner, job)
    with pytest.raises(CannotError, match=f"was adopted for run {winner.name} meanwhile"):
        await host.platform.adopt(loser, job)
    pid_file(winner).unlink()
    await host.platform.adopt(loser, job)
    assert (await seen(host, loser)).id == job.id


def pid_file(run: RunSpec) -> Path:
    assert run.job is not None and run.job.pid_file is not None
    return Path(run.job.pid_file.path)


def write_pid_file(run: RunSpec, text: str) -> None:
    pid_file(run).write_text(text)


async def test_a_set_clock_does_not_move_the_start_of_a_job(host: Host) -> None:
    run = host.spec()
    await submit(host.platform, run, submission(run))
    started = (await seen(host, run)).started_at
    clock = FixedClock(time.time() - 86_400)
    host.platform = type(host.platform)(clock, Logs(clock))
    value = await seen(host, run)
    assert value.started_at == pytest.approx(started, abs=0.1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": ("no-such-program-here",)}, "cannot start no-such-program-here: No such"),
        ({"command": ("./missing",)}, "cannot start ./missing: No such file"),
        ({"command": ("/dev/null",)}, "cannot start /dev/null: Permission denied"),
        ({"command": ("echo", "$NOT_SET_ANYWHERE")}, r"uses \$NOT_SET_ANYWHERE, which is not set"),
        ({"workdir": "/no/such/folder"}, "the working folder /no/such/folder is not there"),
        ({"launch_id": "../../toy"}, "bad launch id"),
        ({"launch_id": ".x"}, "bad launch id"),
        ({"command": ()}, "no command to run"),
        ({"command": ("a\0b",)}, "zero byte"),
    ],
)
async def test_what_cannot_start_is_said_in_one_line(
    host: Host, changes: dict[str, object], said: str
) -> None:
    run = host.spec()
    with pytest.raises(CannotError, match=said) as caught:
        await submit(host.platform, run, submission(run).model_copy(update=changes))
    assert "\n" not in str(caught.value)
    assert not carrying(run) and not supervisors(run)


async def test_without_anything_to_guard_nothing_starts(host: Host) -> None:
    bare = host.spec().model_copy(update={"output_root": None, "wandb": None})
    with pytest.raises(CannotError, match="no output root and no W&B id"):
        await submit(host.platform, bare, submission(bare))


async def test_a_start_that_hangs_is_unknown_until_it_is_over(host: Host) -> None:
    run, clock = host.spec(), SystemClock()
    assert run.job is not None and run.job.log is not None
    os.mkfifo(run.job.log.path)
    hasty = type(host.platform)(clock, Logs(clock), answer_within=1.0)  # type: ignore[call-arg]
    with pytest.raises(LostError):
        await submit(hasty, run, submission(run))
    found = await host.platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.UNKNOWN and "still starting" in found.text
    until((note_of(run)).exists)
    for pid in supervisors(run):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not supervisors(run))
    found = await host.platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT and "nothing ran" in found.text


async def test_a_launch_of_a_cockpit_that_was_halted_before_it_is_refused(host: Host) -> None:
    """Another cockpit has looked it up meanwhile, and found that nothing had been started."""
    run = host.spec()
    found = await host.platform.look_up(run, "toy-i001", settle=False)
    assert found.found is LaunchState.UNKNOWN and "nothing of it is noted" in found.text
    assert not note_of(run).exists(), "a look that may not act has closed it"
    found = await host.platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT and "its launch id is closed now" in found.text
    with pytest.raises(CannotError, match="toy-i001 was used before: state=closed"):
        await submit(host.platform, run, submission(run))
    assert not carrying(run)
    await submit(host.platform, run, submission(run, 2))


async def test_where_nothing_can_be_noted_nothing_can_start_either(host: Host) -> None:
    """Such a launch is over all the same: else nobody could launch the run again."""
    run, intent = host.spec(), note_of(host.spec()).with_name("toy-i001.intent")
    own = intent.parent.parent
    own.write_text("a file where a folder must be")
    found = await host.platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT and "none can be noted there" in found.text
    with pytest.raises(CannotError):
        await submit(host.platform, run, submission(run))
    own.unlink()
    elsewhere = own.with_name("elsewhere")
    elsewhere.mkdir()
    own.mkdir()
    intent.parent.symlink_to(elsewhere)
    (elsewhere / intent.name).touch()
    found = await host.platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.UNKNOWN and "it was noted" in found.text


def is_there(pid: int) -> bool:
    """Whether a process has not ended; one that ended and that nobody has waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_job_that_died_without_a_status_has_ended(host: Host) -> None:
    run = host.spec()
    job_id = await submit(host.platform, run, submission(run))
    killed = [*supervisors(run), int(job_id[4:])]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    # a process gives up its memory before its locks: only one that is gone holds none
    until(lambda: not any(map(is_there, killed)))
    found = await host.platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.ENDED and "without an exit status" in found.text


async def test_what_a_start_opens_is_tried_first(host: Host, tmp_path: Path) -> None:
    """A relaunch stopped a live job, and then could not start one: its lock was a link."""
    run, foreign = host.spec(), tmp_path / "foreign"
    platform, own = host.platform, note_of(run).parent.parent
    await platform.try_start(run, submission(run))
    assert not own.exists(), "trying leaves nothing behind"
    foreign.mkdir()
    own.symlink_to(foreign)
    for work in (platform.try_start, platform.accept):
        with pytest.raises(CannotError, match=r"\.cockpit.*it is a link"):
            await work(run, submission(run))
    assert list(foreign.iterdir()) == []
    own.unlink()
    own.mkdir()
    lock = own / "job.lock"
    lock.symlink_to(foreign)
    with pytest.raises(CannotError, match=r"job\.lock: it is a link"):
        await platform.try_start(run, submission(run))
    lock.unlink()
    lock.mkdir()
    with pytest.raises(CannotError, match=r"cannot lock .*job\.lock"):
        await platform.try_start(run, submission(run))
    lock.rmdir()
    named = run.model_copy(update={"job": run.job and run.job.model_copy(update={"log": None})})
    with pytest.raises(CannotError, match=r"job\.log must name a file of"):
        await platform.try_start(named, submission(run))
    await platform.try_start(run, submission(run))


RUN = RunSpec(name="toy", output_root="/o", wandb=WandbSpec(id="w1"), hardware="v5p-512")
HOSTILE = "; rm -rf / #\n\x1b[31m"


def test_a_string_is_shell_words_and_a_list_stays_as_it_is() -> None:
    assert words_of("python train.py --name 'a b'") == ("python", "train.py", "--name", "a b")
    assert words_of(("python", "a b; c")) == ("python", "a b; c")


@pytest.mark.parametrize("command", ["", "  ", "python 'x", (), ("", "x"), ("a\0b",)])
def test_what_is_no_command_is_said(command: str | tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        words_of(command)


def test_placeholders_are_filled_and_variables_stay() -> None:
    words = words_of("train --id {wandb_id} --root={output_root} $HOME ${KEY} {launch_id}")
    values = values_of(RUN, "toy-i003", None, None)
    assert fill(words, values) == (
        "train", "--id", "w1", "--root=/o", "$HOME", "${KEY}", "toy-i003",
    )  # fmt: skip


def test_a_filled_value_stays_one_word_and_is_not_read_again() -> None:
    values = {**values_of(RUN, "i", None, None), "checkpoint": "/c/{run} $(x)" + HOSTILE}
    assert fill(("load={checkpoint}",), values) == ("load=/c/{run} $(x)" + HOSTILE,)


def test_an_unknown_or_unset_placeholder_is_refused() -> None:
    with pytest.raises(CommandError, match=r"\{step_id\}, which is none of"):
        fill(("x{step_id}",), {})
    with pytest.raises(CommandError, match=r"\{checkpoint\}, which is not known"):
        fill(("{checkpoint}",), values_of(RUN, "i", None, None))


def test_braces_that_are_no_placeholder_stay() -> None:
    words = ('{"a": 1}', "{}", "${run}", "{1}", "a{b")
    assert fill(words, {}) == words
    assert places_in(words) == frozenset()


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1)))
def test_what_is_shown_can_be_read_back(words: list[str]) -> None:
    line = shown(["train", *words])
    if "*" not in line and "…" not in line:
        assert shlex.split(line) == [" ".join(word.split(" ")) for word in ["train", *words]]


def test_secrets_are_masked_in_both_forms() -> None:
    words = ("train", "--api-key", "hf_abcdefghijklmnopqrstuvwxyz0123456789", "--lr", "3")
    assert "hf_abc" not in shown(words)
    assert "hf_abc" not in " ".join(masked(words))
    assert masked(words)[-2:] == ("--lr", "3")
    three = ("iris", "job", "run", "-e", "WANDB_API_KEY", "toy-not-a-key", "-e", "STEPS", "400")
    assert masked(three) == (*three[:5], "****", *three[6:])


def test_flags_go_by_name_and_words_by_place() -> None:
    flags = flags_of(["python", "-m", "t", "--lr=1", "--n", "-3", "a.b=2", "x", "--go"])
    assert flags == {
        "word 0": "python", "-m": "t", "--lr": "1", "--n": "-3", "a.b": "2", "word 1": "x",
        "--go": "",
    }  # fmt: skip


def test_no_command_is_a_hard_block() -> None:
    checks, words = ready(None, RUN, None, {})
    assert hard(by_id(checks, "resubmit")) and words == ()
    checks, words = ready(None, RUN, "train {nothing}", {})
    assert hard(by_id(checks, "resubmit")) and words == ()


def run_of(kind: str, name: str = "toy") -> RunSpec:
    return RunSpec(name=name, job=JobSpec.model_validate({"kind": kind}))


def ready_on(kind: str, command: str, launch_id: str) -> tuple[list[Check], tuple[str, ...]]:
    run = run_of(kind)
    platform = Platforms(SystemClock()).of(run)
    return ready(platform, run, command, values_of(run, launch_id, None, None))


def test_the_launch_id_is_filled_in_as_its_platform_spells_it() -> None:
    for kind in ("box", "iris", "ray"):
        assert "llama-3.1-i001" in ready_on(kind, "go {launch_id}", "llama-3.1-i001")[1]


def test_slurm_is_told_the_launch_id_itself() -> None:
    """It is submitted held: nothing runs before its comment was read back."""
    words = ready_on("slurm", "sbatch -J {launch_id} job.sh", "a.b-i001")[1]
    held = ("sbatch", "-H", "--parsable", "--comment=a.b-i001")
    assert words == (*held, "-J", "a.b-i001", "job.sh")


@pytest.mark.parametrize(
    ("kind", "launch_id"),
    [
        ("ray", "team/toy-i001"),
        ("local", "../toy-i001"),
        ("local", "a b"),
        ("box", "llama-3.1:x-i001"),
    ],
)
def test_a_launch_id_that_cannot_be_spelled_is_a_hard_block(kind: str, launch_id: str) -> None:
    checks, words = ready_on(kind, "train {run}", launch_id)
    assert hard(by_id(checks, "launch-id")) and words == ()
    assert launch_id in by_id(checks, "launch-id").text
