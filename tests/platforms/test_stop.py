"""A stop is exact and real: the job and what descends from it, and nothing else (SPEC A).

What an offer that failed says of the job: refused, or nobody knows (SPEC A).

``job.save_command``: its words are filled in alike for every kind of job.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts import agent
from cockpit.hosts.agent import processes
from cockpit.hosts.here import HERE_LINK, HereLink
from cockpit.hosts.link import Ask, HostLink, Link
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Accepted, LiveJob, Submission
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.command import save_by_command, save_words
from cockpit.platforms.local.census import Process, census
from cockpit.platforms.local.ending import Ending, ProcessTarget
from cockpit.platforms.protocol import LaunchingPlatform
from cockpit.runtime.http import HttpError, LostAnswerError
from cockpit.runtime.process import process_facts
from cockpit.runtime.ssh import RemoteError
from tests.platforms.conftest import Host
from tests.platforms.local.making import (
    PYTHON,
    carrying,
    living,
    stranger,
    submission,
    submit,
    supervisors,
    text,
    trainers,
)
from tests.platforms.stand_in import StandIn
from tests.waiting import until

HEAD = "import os, signal, sys, time\n"
UP = "print('up', flush=True)\n"
WAIT = "while True: time.sleep(0.05)\n"


@pytest.fixture
def run(host: Host) -> RunSpec:
    return host.spec()


def log(run: RunSpec) -> str:
    return text(run.job and run.job.log and run.job.log.path)


def place_of(run: RunSpec) -> str:
    return "" if run.output_root is None else run.output_root.path


def status(run: RunSpec) -> str:
    return text(run.job and run.job.exit_file and run.job.exit_file.path)


def record(run: RunSpec, pid: int) -> Path:
    """Write a pid file as a launch script does."""
    assert run.job is not None and run.job.pid_file is not None
    note = Path(run.job.pid_file.path)
    note.write_text(f"{pid}\n")
    return note


def at_work(folder: Path) -> list[Process]:
    return [one for one in census().values() if one.cwd == str(folder)]


async def started(host: Host, run: RunSpec, code: str) -> LiveJob:
    platform = host.platform
    await submit(platform, run, submission(run, code=HEAD + code))
    until(lambda: "up\n" in log(run))
    (job,) = (await living(platform, run)).jobs
    return job


async def test_it_saves_before_it_leaves(host: Host, run: RunSpec) -> None:
    code = (
        "def leave(*_):\n    time.sleep(0.5); print('final save', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n" + UP + WAIT
    )
    job = await started(host, run, code)
    await host.platform.stop(run, [job])
    assert log(run) == "up\nfinal save\n" and status(run).strip() == "0"
    assert not carrying(run) and not supervisors(run)


async def test_what_does_not_listen_is_killed_after_the_grace(host: Host) -> None:
    run = host.spec(grace=0.6)
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + UP + WAIT
    job = await started(host, run, code)
    begun = time.monotonic()
    await host.platform.stop(run, [job])
    assert time.monotonic() - begun >= 0.6
    assert status(run).strip() == "137" and not carrying(run)


async def test_a_stopped_process_is_woken_to_leave(host: Host, run: RunSpec) -> None:
    code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n" + UP + WAIT
    job = await started(host, run, code)
    os.kill(int(job.id[4:]), signal.SIGSTOP)
    until(lambda: process_facts(int(job.id[4:])).stopped)
    await host.platform.stop(run, [job])
    assert status(run).strip() == "3"


async def test_workers_are_not_asked_before_the_job_has_left(host: Host, run: RunSpec) -> None:
    """A loader that dies of SIGTERM would make the trainer fail instead of saving."""
    code = (
        "child = os.fork()\n"
        "if child == 0:\n    time.sleep(60); os._exit(0)\n"
        "def leave(*_):\n"
        "    time.sleep(0.3); print(os.waitpid(child, os.WNOHANG)[0], flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n" + UP + WAIT
    )
    job = await started(host, run, code)
    await host.platform.stop(run, [job])
    assert log(run) == "up\n0\n" and not carrying(run)


STRAY = (
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "    time.sleep(60); os._exit(0)\n"
    "os.wait()\n"
)


async def test_children_that_left_the_session_and_their_parent_go_too(host: Host) -> None:
    run = host.spec(grace=1.0)
    job = await started(host, run, STRAY + UP + WAIT)
    until(lambda: len(carrying(run)) == 2)
    await host.platform.stop(run, [job])
    assert not carrying(run)


async def test_a_job_of_another_lineage_lives_on_however_many_processes_carry_a_launch(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look tells the environment of so many; who is ended must not depend on that."""

    def of_many(*, most: int, environments: list[str], files: list[str]) -> list[list[Any]]:
        return processes(environments, files, 0 if most == agent.ENVIRONMENTS else most)

    run = host.spec()
    if run.job is not None and run.job.kind != "local":
        pytest.skip("the agent of a host runs in a process of its own")
    other = {"COCKPIT_LINEAGE": "root:0,wandb:0", "COCKPIT_LAUNCH_ID": "b-i001"}
    code = (
        "import subprocess\n"
        f"env = {{**os.environ, **{other!r}}}\n"
        "words = [sys.executable, '-S', '-c', 'import time; time.sleep(60)']\n"
        "print(subprocess.Popen(words, env=env, start_new_session=True).pid, flush=True)\n"
    )
    job = await started(host, run, code + UP + WAIT)
    other_job = int(log(run).split()[0])
    monkeypatch.setitem(agent.CALLS, "processes", of_many)
    await host.platform.stop(run, [job])
    try:
        assert process_facts(other_job).alive and not carrying(run)
    finally:
        os.kill(other_job, signal.SIGKILL)


async def test_what_a_dead_job_left_behind_can_be_stopped(host: Host) -> None:
    run = host.spec(grace=0.5)
    job = await started(host, run, STRAY + UP + WAIT)
    os.kill(int(job.id[4:]), signal.SIGKILL)
    until(lambda: not supervisors(run))
    platform = host.platform
    (left,) = (await living(platform, run)).jobs
    assert left.launch_id == "toy-i001" and left.id != job.id
    with pytest.raises(CannotError, match="still alive"):
        await submit(platform, run, submission(run, 2))
    await platform.stop(run, [left])
    await submit(platform, run, submission(run, 2))


async def test_a_reused_process_id_is_left_alone(host: Host, run: RunSpec) -> None:
    other = stranger()
    try:
        ticks = process_facts(other.pid).ticks or 0
        handle = {"pid": str(other.pid), "ticks": str(ticks - 1)}
        gone = LiveJob(id=f"pid:{other.pid}", name="x", why="y", handle=handle)
        await host.platform.stop(run, [gone])
        assert other.poll() is None
        members = [
            Ending(ProcessTarget(other.pid, at)).members(census(), ()) for at in (ticks - 1, ticks)
        ]
        assert [[one.pid for one in each] for each in members] == [[], [other.pid]]
    finally:
        other.kill()
        other.wait()


async def test_a_copied_folder_does_not_make_a_job_its_own(host: Host, run: RunSpec) -> None:
    """Its pid file names the job of the run that it was copied from, start and all."""
    platform = host.platform
    await submit(platform, run, submission(run))
    fork = host.spec("fork")
    shutil.copytree(place_of(run), place_of(fork), dirs_exist_ok=True)
    live = await living(platform, fork)
    assert (live.jobs, live.unknown) == ((), None)
    assert len((await living(platform, run)).jobs) == 1


async def test_a_process_that_writes_elsewhere_is_not_stopped_for_its_number(
    host: Host, run: RunSpec, tmp_path: Path
) -> None:
    """The pid file was copied with its folder, or the number is another training's by now."""
    (tmp_path / "t.py").write_text(UP + "import time\ntime.sleep(60)\n")
    words = [PYTHON[0], "-S", "t.py", "--out"]
    fork = host.spec("fork").model_copy(update={"resubmit": (*words, "runs/fork")})
    trainer = host.start(*words, "runs/toy", cwd=tmp_path)
    record(run, trainer.pid)
    record(fork, trainer.pid)
    live = await living(host.platform, fork)
    assert live.jobs == () and "it writes elsewhere (out is runs/toy)" in str(live.unknown)
    assert [job.id for job in (await living(host.platform, run)).jobs] == [f"pid:{trainer.pid}"]


async def test_a_launcher_of_two_runs_is_not_stopped_for_one(
    host: Host, run: RunSpec, tmp_path: Path
) -> None:
    """A pid file that names the shell (``echo $$``) means what other runs it has started too."""
    (tmp_path / "t.py").write_text("import time\ntime.sleep(60)\n")
    words = [PYTHON[0], "-S", "t.py", "--out"]
    mine = run.model_copy(update={"resubmit": (*words, "runs/toy")})
    lines = [f"{' '.join(words)} runs/{name} &" for name in ("toy", "other")]
    shell = host.start("sh", "-c", f"{' '.join(lines)} echo up; wait", cwd=tmp_path)
    record(mine, shell.pid)
    try:
        until(lambda: len([each for each in at_work(tmp_path) if "t.py" in each.argv]) == 2)
        (job,) = (await living(host.platform, mine)).jobs
        assert job.id == f"pid:{shell.pid}"
        assert "may be another run's job (it writes elsewhere (out is runs/other)" in str(
            job.beyond
        )
    finally:
        for one in at_work(tmp_path):
            if one.pid != shell.pid:
                os.kill(one.pid, signal.SIGKILL)


async def test_by_the_clock_another_process_is_not_the_job_for_working_in_its_folder(
    host: Host, run: RunSpec
) -> None:
    stranger = host.start(*PYTHON, UP + "import time\ntime.sleep(60)", cwd=place_of(run))
    os.utime(record(run, stranger.pid), (1e9, 1e9))
    live = await living(host.platform, run)
    assert live.jobs == () and "by the clock it started later" in str(live.unknown)


async def test_a_shell_and_what_it_runs_are_both_asked(
    host: Host, run: RunSpec, tmp_path: Path
) -> None:
    """The shell would hand no signal on, and go on to its next line."""
    trainer = tmp_path / "t.py"
    trainer.write_text(
        HEAD
        + "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(0)))\n"
        + UP
        + WAIT
    )
    script = tmp_path / "train.sh"
    script.write_text(f"while true; do {PYTHON[0]} -S {trainer}; done\n")
    told = submission(run).model_copy(update={"command": ("sh", str(script))})
    platform = host.platform
    await submit(platform, run, told)
    until(lambda: "up\n" in log(run))
    await platform.stop(run, (await living(platform, run)).jobs)
    assert log(run) == "up\nsaved\n" and not carrying(run)


async def test_stopping_twice_at_once_is_one_stop(host: Host, run: RunSpec) -> None:
    job = await started(host, run, UP + WAIT)
    platform = host.platform
    await asyncio.gather(platform.stop(run, [job]), platform.stop(run, [job]))
    await platform.stop(run, [job])
    assert status(run).strip() == "143" and not carrying(run)


LEFT_BEHIND = (
    "if os.fork() == 0:\n"
    "    signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), os._exit(0)))\n"
    "    print('up', flush=True)\n"
    "    while True: time.sleep(0.05)\n"
)


async def test_a_signal_that_was_never_sent_is_sent_at_the_next_look(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection was refused between the first signal and the second: nothing arrived."""
    run, calls = host.spec(grace=5.0), itertools.count(1)

    def refusing(former: Callable[..., Any]) -> Callable[..., Any]:
        async def act(self: Link, each: Ask, deadline: float = 30.0) -> Any:
            if each.call == "kill" and next(calls) == 2:
                raise RemoteError(ErrorKind.REFUSED, "connection refused", sent=False)
            return await former(self, each, deadline)

        return act

    for link in (HereLink, HostLink):
        monkeypatch.setattr(link, "act", refusing(link.act))
    job = await started(host, run, LEFT_BEHIND + WAIT)
    until(lambda: len(carrying(run)) == 2)
    await host.platform.stop(run, [job])
    assert log(run) == "up\nsaved\n" and not carrying(run)
    assert next(calls) == 4


DEAF = """\
import signal, sys, time
def leave(*_):
    open('saved', 'w').close()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
open('up', 'w').close()
while True:
    time.sleep(0.05)
    try:
        print('step', flush=True)
    except OSError:
        open('broken', 'w').close()
"""


def typed(words: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a job as in a terminal: its processes are a group of their own, led by the first."""
    return subprocess.Popen(["bash", "-m", "-c", f"{words}; wait"], cwd=folder)


async def test_a_stop_of_a_pipeline_ends_its_trainer_whichever_end_is_recorded(
    host: Host, run: RunSpec, tmp_path: Path
) -> None:
    """``train.py | tee run.log & echo $! > run.pid`` notes ``tee``, and the trainer went on."""
    (tmp_path / "x.py").write_text(DEAF)
    assert run.job is not None and run.job.log is not None and run.job.pid_file is not None
    words = f"{PYTHON[0]} -S x.py | tee {run.job.log.path} & echo $! > {run.job.pid_file.path}"
    shell = typed(words, tmp_path)
    try:
        until(lambda: (tmp_path / "up").exists() and "step" in log(run))
        (job,) = (await living(host.platform, run)).jobs
        assert job.id == f"pid:{text(run.job.pid_file.path).strip()}"
        await host.platform.stop(run, [job])
        assert (tmp_path / "saved").exists() and not (tmp_path / "broken").exists()
        assert not [one.argv for one in at_work(tmp_path) if one.pid != shell.pid]
    finally:
        for one in at_work(tmp_path):
            if one.pid != shell.pid:
                os.kill(one.pid, signal.SIGKILL)
        shell.kill()
        shell.wait()


FAMILY = """
import os, signal, subprocess, sys, time
loader = [sys.executable, '-S', '-c', 'import time; time.sleep(120)']
subprocess.Popen(loader)
subprocess.Popen(loader, start_new_session=True)
if os.fork() == 0:
    os.setsid()
    os.fork() and os._exit(0)
    os.environ.clear()
    time.sleep(120)
signal.signal(signal.SIGTERM, lambda *_: (print('asked', flush=True), time.sleep(0.2), os._exit(0)))
print('step 1', flush=True)
while True:
    time.sleep(120)
"""


async def test_a_stop_takes_the_family_and_nobody_else(host: Host, run: RunSpec) -> None:
    beside = host.spec("toy-2")
    other = await submit(host.platform, beside, submission(beside))
    await submit(host.platform, run, submission(run, code=FAMILY))
    until(lambda: log(run) and len(carrying(run)) >= 4)
    await host.platform.stop(run, (await living(host.platform, run)).jobs)
    assert not carrying(run) and not supervisors(run)
    assert log(run) == "step 1\nasked\n" and status(run).strip() == "0"
    assert trainers(beside) == [int(other[4:])]


class Offering(StandIn, LaunchingPlatform):
    """Fails an offer as it is told."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure

    async def check_unused(self, run: RunSpec, submission: Submission) -> None:
        """Its id is free."""

    async def check_alone(self, run: RunSpec) -> None:
        """Nothing lives beside it."""

    async def offer(self, run: RunSpec, submission: Submission) -> Accepted:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "raised", "said"),
    [
        (HttpError(ErrorKind.FORBIDDEN, "head: no"), CannotError, "head: no; nothing was started"),
        (LostAnswerError(ErrorKind.TIMEOUT, "head: cut off"), LostError, "head: cut off"),
        (TimeoutError(), LostError, "no answer in time"),
    ],
)
async def test_an_offer_without_an_answer_is_not_told_as_one_that_was_refused(
    failure: Exception, raised: type[Exception], said: str
) -> None:
    submission = Submission(run="toy", launch_id="toy-i001", command=("train",))
    with pytest.raises(raised) as found:
        await LaunchingPlatform.accept(Offering(failure), RunSpec(name="toy"), submission)
    assert str(found.value) == said


JOB = LiveJob(id="job-7", name="train", why="its id", launch_id="toy-i001", handle={"pid": "41"})
RUN = RunSpec(name="toy")


def test_what_is_known_is_filled_in_and_variables_stay() -> None:
    words = save_words(RUN, "ask ${HOST} {run} {launch_id} {job_id} {pid}", JOB)
    assert words == ["ask", "${HOST}", "toy", "toy-i001", "job-7", "41"]
    assert save_words(RUN, ("ask", "{job_id}"), JOB, "7_3") == ["ask", "7_3"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("ask {wandb_id}", "names {wandb_id}, which is not known for this run"),
        ("ask {step}", "names {step}, which is none of {run} {launch_id}"),
        ("ask 'x", "job.save_command is not a list of shell words"),
        ("", "job.save_command is empty"),
        (("ask", "\0"), "job.save_command holds a NUL character"),
    ],
)
def test_what_cannot_be_run_is_said_by_the_name_of_the_setting(
    command: str | tuple[str, ...], why: str
) -> None:
    with pytest.raises(CannotError) as error:
        save_words(RUN, command, JOB)
    assert why in str(error.value) and "resubmit" not in str(error.value)


async def test_here_a_refusal_is_told_in_the_command_s_own_words() -> None:
    command = ("sh", "-c", "echo not yet >&2; exit 3")
    run = RunSpec(name="toy", job=JobSpec(kind="local", save_command=command))
    with pytest.raises(CannotError, match=r"job\.save_command ended with 3: not yet"):
        await save_by_command(HERE_LINK, run, JOB)
    unset = JobSpec(kind="local", save_command=("ask", "$NOBODY_HAS_SET_THIS"))
    with pytest.raises(CannotError, match=r"uses .NOBODY_HAS_SET_THIS, which is not set"):
        await save_by_command(HERE_LINK, RunSpec(name="toy", job=unset), JOB)
