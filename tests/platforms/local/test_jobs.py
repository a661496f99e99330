from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest

from cockpit.hosts import agent
from cockpit.hosts.acting import stops
from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.link import link_to
from cockpit.hosts.notes import machine_id
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, Phase
from cockpit.model.place import HERE, on_host, place_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.census import census
from cockpit.platforms.local.files import explain_exit
from cockpit.platforms.local.jobs import ProcessJobs
from cockpit.runtime.process import process_facts
from tests.platforms.conftest import HERE as HERE_TOO
from tests.platforms.conftest import THERE
from tests.platforms.local.making import local
from tests.queries import queries_of
from tests.waiting import until

DAY = 86400.0


class Box:
    """A run's folder, its processes, and the look at them."""

    def __init__(self, folder: Path, host: str | None) -> None:
        self.folder = folder
        self.host = host
        self.children: list[subprocess.Popen[bytes]] = []
        self.jobs = self.watched(0.0)

    def watched(self, reap_wait: float) -> ProcessJobs:
        link = HERE_LINK if self.host is None else link_to(self.host)
        return ProcessJobs(SystemClock(), lambda _: link, reap_wait)

    def job(self, **words: str) -> JobSpec:
        return JobSpec(kind="local" if self.host is None else "box", host=self.host, **words)

    def path(self, name: str) -> str:
        place = str(self.folder / name)
        return place if self.host is None else str(on_host(self.host, place))

    def spec(self, *without: str) -> RunSpec:
        names = {"pid_file": "run.pid", "exit_file": "exit", "done_marker": "DONE", "log": "log"}
        paths = {key: self.path(name) for key, name in names.items() if key not in without}
        return RunSpec(name="r", job=self.job(**paths))

    def start(
        self, *argv: str, cwd: str | None = None, stdout: IO[str] | None = None
    ) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(argv or ("sleep", "60"), cwd=cwd or self.folder, stdout=stdout)
        self.children.append(child)
        return child

    def note(self, pid: int, *lines: str) -> None:
        (self.folder / "run.pid").write_text("\n".join([str(pid), *lines]) + "\n")

    def write(self, name: str, text: str, age: float = 0.0) -> None:
        (self.folder / name).write_text(text)
        then = time.time() - age
        os.utime(self.folder / name, (then, then))

    async def look(self, *without: str, record: int | None = None) -> Facet[JobValue]:
        return await self.ask(Query(run=self.spec(*without), exit_record=record))

    def beside(self, name: str, files: Mapping[str, str]) -> RunSpec:
        """Return another run with files of its own."""
        other = Box(self.folder / f"run {name}", self.host)
        other.folder.mkdir()
        for each, text in files.items():
            other.write(each, text)
        return other.spec().model_copy(update={"name": name})

    async def looks(self, runs: Iterable[RunSpec]) -> dict[str, Facet[JobValue]]:
        return await self.jobs.observe(self.host or HERE, queries_of(list(runs)))

    async def ask(self, query: Query) -> Facet[JobValue]:
        found = await self.jobs.observe(self.host or HERE, [query])
        return found["r"]

    async def value(self, *without: str, record: int | None = None) -> JobValue:
        facet = await self.look(*without, record=record)
        assert facet.value is not None and facet.error is None, facet.error
        return facet.value


@pytest.fixture(params=[HERE_TOO, THERE])
def host(request: pytest.FixtureRequest) -> str | None:
    """Give the machine that is asked: this one, or the same behind a real sshd."""
    return None if request.param == HERE_TOO else str(request.getfixturevalue("sshd").host)


@pytest.fixture
def box(tmp_path: Path, host: str | None) -> Iterator[Box]:
    made = Box(tmp_path, host)
    yield made
    for child in made.children:
        child.kill()
        child.wait()


def phase_of(facet: Facet[JobValue]) -> Phase:
    assert facet.value is not None
    return facet.value.phase


def dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


async def test_launched_but_silent_is_waiting(box: Box) -> None:
    child = box.start()
    box.note(child.pid)
    value = await box.value()
    assert (value.phase, value.id) == (Phase.WAITING, f"pid:{child.pid}")
    assert value.pending_since == value.started_at is not None


async def test_the_former_job_s_log_lines_are_not_ours(box: Box) -> None:
    child = box.start()
    box.write("log", "step 1\n", age=60)
    box.note(child.pid)
    assert (await box.value()).phase is Phase.WAITING


async def test_alive_with_a_log_line_is_running(box: Box) -> None:
    child = box.start()
    started = process_facts(child.pid).started_at
    box.note(child.pid, f"start={started}", "launch_id=r-i003", "later=field")
    box.write("log", "step 1\n")
    value = await box.value()
    assert (value.phase, value.state, value.launch_id) == (Phase.RUNNING, "running", "r-i003")
    assert value.started_at == started and value.ended_at is None


async def test_alive_without_a_log_in_the_run_file_is_running(box: Box) -> None:
    box.note(box.start().pid)
    assert (await box.value("log")).phase is Phase.RUNNING


async def test_a_program_with_a_long_word_holds_up_no_look(box: Box) -> None:
    """Launchers give their workers whole settings in one word, as base64 (Ray, torchelastic)."""
    box.note(box.start("sleep", "60").pid)
    box.start(sys.executable, "-c", "import time; time.sleep(60)", "Zx9" * 40_000)
    async with asyncio.timeout(20.0):
        assert (await box.value("log")).phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("variable", "count", "by"),
    [
        ("CUDA_VISIBLE_DEVICES=0,3", 2, "by CUDA_VISIBLE_DEVICES of process {pid}"),
        ("CUDA_VISIBLE_DEVICES=GPU-5a,1,-1,2", 2, "by CUDA_VISIBLE_DEVICES of process {pid}"),
        ("CUDA_VISIBLE_DEVICES=", None, "CUDA_VISIBLE_DEVICES of process {pid} names none"),
        ("CUDA_VISIBLE_DEVICES=MIG-7e", None,
         "CUDA_VISIBLE_DEVICES of process {pid} names parts of accelerators"),
        ("NO_CUDA_VISIBLE_DEVICES=0", None, None),
    ],
)  # fmt: skip
async def test_a_process_holds_the_accelerators_that_its_environment_names(
    box: Box, variable: str, count: int | None, by: str | None
) -> None:
    child = box.start("env", "-u", "CUDA_VISIBLE_DEVICES", variable, "sleep", "60")
    wait_for(lambda: census()[child.pid].argv[0] == "sleep")
    box.note(child.pid)
    value = await box.value("log")
    said = None if by is None else by.format(pid=child.pid)
    assert (value.accelerators, value.accelerators_by) == (count, said)


async def test_children_that_see_fewer_devices_leave_the_accelerators_unknown(box: Box) -> None:
    rank = "import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()'], env="
    rank += "{**os.environ, 'CUDA_VISIBLE_DEVICES': '1'}, stdin=subprocess.PIPE).wait()"
    child = box.start("env", "-u", "CUDA_VISIBLE_DEVICES", sys.executable, "-c", rank)
    wait_for(lambda: any(
        each.ppid == child.pid and each.variable("CUDA_VISIBLE_DEVICES") == "1"
        for each in census().values()
    ))  # fmt: skip
    box.note(child.pid)
    value = await box.value("log")
    assert value.accelerators is None
    assert value.accelerators_by == "only some of its processes have CUDA_VISIBLE_DEVICES"


async def test_a_stopped_process_says_so(box: Box) -> None:
    child = box.start()
    box.note(child.pid)
    box.write("log", "step 1\n")
    child.send_signal(signal.SIGSTOP)
    wait_for(lambda: process_facts(child.pid).stopped)
    value = await box.value()
    assert (value.phase, value.state) == (Phase.RUNNING, "stopped")
    assert value.stopped is not None and value.stopped.pid == child.pid
    assert value.reason is not None
    assert value.reason.startswith("stopped by SIGSTOP or Ctrl-Z (state T) since ")
    assert time.time() - 30 < value.stopped.since <= time.time()
    again = await box.value()
    assert again.stopped == value.stopped, "since when it is stopped does not move"
    child.send_signal(signal.SIGCONT)
    wait_for(lambda: not process_facts(child.pid).stopped)
    assert (await box.value()).state == "running"


def test_since_when_it_is_stopped_does_not_depend_on_the_processor(box: Box) -> None:
    """Each has a clock of its own: on a busy virtual machine they are minutes apart."""
    processors = sorted(os.sched_getaffinity(0))[:4]
    try:
        for theirs in processors:
            child = box.start()
            os.sched_setaffinity(child.pid, {theirs})
            child.send_signal(signal.SIGSTOP)
            for mine in processors:
                os.sched_setaffinity(0, {mine})
                ((pid, _, _, idle),) = stops([child.pid])
                assert pid == child.pid and idle is not None and idle < 20.0, (mine, theirs)
                assert os.sched_getaffinity(0) == {mine}
            child.kill()
    finally:
        os.sched_setaffinity(0, processors)


async def test_exit_status_zero_succeeds(box: Box) -> None:
    box.note(dead_pid())
    box.write("exit", "0\n")
    value = await box.value()
    assert (value.phase, value.exit_code, value.reason) == (Phase.SUCCEEDED, 0, None)
    assert value.ended_at == (box.folder / "exit").stat().st_mtime


HANDED = {
    "docker run -d img python train.py": True,
    "podman run -itd img python train.py": True,
    "docker compose up --detach": True,
    "systemd-run --user python train.py": True,
    "sbatch job.sh": True,
    "env A=1 tmux new-session -d 'python train.py'": True,
    "docker run --rm img python train.py -d data": False,
    "systemd-run --user --scope python train.py": False,
    "sbatch --wait job.sh": False,
    "python train.py -d data": False,
    "docker run -dp 80:80 --gpus all img python train.py": True,
    "docker run --detach=false img python train.py": False,
    "docker run --gpus all --rm img ./train -d 4": False,
    "docker run --rm img my-train --detach": False,
    "docker start toy": True,
    "docker start -a toy": False,
    "screen -d -m python train.py": True,
    "screen -S toy -dm python train.py": True,
    "screen -D -m -S toy python train.py": False,
    "tmux send-keys -t toy 'python train.py' Enter": True,
    "systemd-run --user -u toy python train.py -t 3 --wait": True,
    "systemd-run --user -u toy -t python train.py": False,
    "sbatch job.sh -W": True,
    "setsid -f python train.py": True,
    "setsid python train.py": False,
    "nohup nice -n 5 setsid --fork python train.py": True,
    "ssh -f gpu7 python train.py": True,
    "ssh gpu7 python train.py -f": False,
    "bash -c 'cd x && docker run -d img python train.py'": True,
    "bash -lc 'nohup python train.py > log 2>&1 &'": True,
    "bash -c 'python train.py && echo done;'": False,
    "bash train.sh": False,
    "pueue add python train.py": True,
    "tmux new-session -d 'python train.py; echo $? > exit'": False,
}
"""Commands, and whether they end once another program has their job."""


async def test_a_client_that_hands_its_job_over_tells_nothing_of_its_end(box: Box) -> None:
    box.note(dead_pid())
    box.write("exit", "0\n")
    runs = [box.spec().model_copy(update={"name": each, "resubmit": each}) for each in HANDED]
    found = {name: phase_of(facet) for name, facet in (await box.looks(runs)).items()}
    expected = {True: Phase.UNKNOWN, False: Phase.SUCCEEDED}
    assert found == {command: expected[handed] for command, handed in HANDED.items()}
    box.write("exit", "125\n")
    assert {*map(phase_of, (await box.looks(runs)).values())} == {Phase.FAILED}
    box.write("exit", "0\n")
    box.write("DONE", "")
    assert {*map(phase_of, (await box.looks(runs)).values())} == {Phase.SUCCEEDED}


def test_a_command_that_hands_its_job_over_is_no_way_to_start_it(tmp_path: Path) -> None:
    """Its status comes at once, and podman's container would end with it."""
    platform, job = local(tmp_path), JobSpec(kind="local", pid_file=f"{tmp_path}/run.pid")
    run = RunSpec(name="toy", job=job)
    for command, handed in HANDED.items():
        words = shlex.split(command)
        blocks = handed or command.startswith("tmux")
        assert bool(platform.command_checks(run, words)) is blocks, command
        noted = [*words[:-1], f"{words[-1]} & echo $! > run.pid"]
        assert not platform.command_checks(run, noted)
        found = run.model_copy(update={"job": job.model_copy(update={"match": "train.py"})})
        assert not platform.command_checks(found, words)


FAILURES = {
    1: "exit code 1", -9: "killed by signal 9 (SIGKILL)", 137: "killed by signal 9 (SIGKILL)",
    143: "killed by signal 15 (SIGTERM)", 255: "exit code 255", 128: "exit code 128",
}  # fmt: skip


async def test_any_other_status_fails(box: Box) -> None:
    pid = f"{dead_pid()}\n"
    found = await box.looks(
        [box.beside(str(n), {"run.pid": pid, "exit": f"{n}"}) for n in FAILURES]
    )
    for status, reason in FAILURES.items():
        value = found[str(status)].value
        assert value is not None
        assert (value.phase, value.exit_code, value.reason) == (Phase.FAILED, status, reason)


def test_no_words_for_status_zero() -> None:
    assert explain_exit(0) is None


async def test_kill_9_without_a_wrapper_is_gone(box: Box) -> None:
    child = box.start()
    box.note(child.pid, f"start={process_facts(child.pid).started_at}")
    box.write("log", "step 1\n")
    assert (await box.value()).phase is Phase.RUNNING
    child.kill()
    wait_for(lambda: process_facts(child.pid).zombie)
    as_zombie = await box.value()
    child.wait()
    after = await box.value()
    for value in (as_zombie, after):
        assert (value.phase, value.reason) == (Phase.FAILED, "gone without an exit status")
        assert value.exit_code is None


async def test_a_wrapper_gets_time_to_write_the_status(box: Box) -> None:
    wrapper = f"sleep 60 & echo $! > {box.folder}/run.pid; wait $!; sleep 0.1; "
    wrapper += f"echo 137 > {box.folder}/exit"
    process = box.start("sh", "-c", wrapper)
    pid = await_number(box.folder / "run.pid")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not process_facts(pid).alive)
    box.jobs = box.watched(20.0 if box.host is None else 1.0)
    value = await box.value()
    process.wait()
    assert (value.state, value.exit_code) == ("killed", 137)


async def test_the_marker_succeeds_without_an_exit_file(box: Box) -> None:
    box.note(dead_pid())
    box.write("DONE", "")
    value = await box.value()
    assert value.phase is Phase.SUCCEEDED
    assert value.ended_at == (box.folder / "DONE").stat().st_mtime


async def test_order_of_belief(box: Box) -> None:
    box.note(dead_pid())
    box.write("DONE", "")
    assert (await box.value()).phase is Phase.SUCCEEDED
    by_record = await box.look(record=1)
    assert by_record.source.endswith("W&B exit record")
    assert by_record.value is not None and by_record.value.phase is Phase.FAILED
    box.write("exit", "0")
    by_file = await box.look(record=1)
    assert "exit file" in by_file.source
    assert by_file.value is not None and by_file.value.phase is Phase.SUCCEEDED


async def test_an_undated_record_does_not_end_a_living_process(box: Box) -> None:
    box.note(box.start().pid)
    box.write("log", "step 1\n")
    assert (await box.value(record=1)).phase is Phase.RUNNING


@pytest.mark.parametrize("age", [-1.0, 0.0, 1.0, 60.0])
async def test_the_recorded_process_that_lives_outweighs_any_file(box: Box, age: float) -> None:
    """A restart loop writes the exit file each time; believed, it ends the living job for good."""
    box.note(box.start().pid)
    box.write("log", "step 1\n")
    box.write("exit", "1", age=age)
    box.write("DONE", "", age=age)
    assert (await box.value()).phase is Phase.RUNNING


@pytest.mark.parametrize("name", ["exit", "DONE"])
async def test_what_the_former_job_left_does_not_count(box: Box, name: str) -> None:
    box.write(name, "0", age=60)
    box.write("log", "step 1\n")
    child = box.start()
    box.note(child.pid)
    assert (await box.value()).phase is Phase.RUNNING
    child.kill()
    child.wait()
    value = await box.value()
    assert value.phase is Phase.FAILED
    assert value.reason is not None and value.reason.startswith("gone without an exit status")


async def test_a_reused_pid_is_gone_by_the_recorded_start(box: Box) -> None:
    child = box.start(cwd="/")
    box.note(child.pid, f"start={time.time() - DAY}")
    box.write("log", "step 1\n", age=DAY)
    value = await box.value()
    assert value.phase is Phase.FAILED
    assert value.reason == (
        f"gone without an exit status (pid {child.pid} now belongs to another process)"
    )


async def test_a_clock_that_was_set_after_the_launch_makes_no_living_job_gone(box: Box) -> None:
    child = box.start()
    ticks = process_facts(child.pid).ticks
    box.note(child.pid, f"start={time.time() - DAY}", f"ticks={ticks}")
    box.write("log", "step 1\n")
    assert (await box.value()).phase is Phase.RUNNING


async def test_a_log_that_grows_by_an_unseen_hand_makes_no_later_process_the_job(box: Box) -> None:
    """Its own writer has it open for moments only, or writes from another machine."""
    child = box.start(sys.executable, "-c", "import time; time.sleep(60)", cwd="/")
    box.note(child.pid)
    box.write("log", "step 1\n")
    assert (await box.value()).phase is Phase.RUNNING
    os.utime(box.folder / "run.pid", (time.time() - DAY, time.time() - DAY))
    facet = await box.look()
    assert facet.value is not None and facet.value.phase is Phase.UNKNOWN
    assert "cannot tell whether it is the job" in str(facet.error or facet.value.reason)


async def test_a_reused_pid_is_gone_by_its_ticks_though_the_start_is_close(box: Box) -> None:
    child = box.start()
    facts = process_facts(child.pid)
    assert facts.ticks is not None
    box.note(child.pid, f"start={facts.started_at}", f"ticks={facts.ticks - 1}")
    box.write("log", "step 1\n")
    assert (await box.value()).phase is Phase.FAILED


async def test_ticks_that_are_no_number_leave_the_start_to_decide(box: Box) -> None:
    child = box.start()
    box.note(child.pid, f"start={process_facts(child.pid).started_at}", "ticks=soon")
    box.write("log", "step 1\n")
    assert (await box.value()).phase is Phase.RUNNING


async def test_a_reused_pid_is_gone_by_the_age_of_the_pid_file(box: Box) -> None:
    box.write("run.pid", f"{box.start(cwd='/').pid}\n", age=DAY)
    box.write("log", "step 1\n", age=DAY)
    assert (await box.value()).phase is Phase.FAILED


async def test_an_old_process_with_a_new_pid_file_lives(box: Box) -> None:
    box.note(1)
    box.write("log", "step 1\n")
    assert (await box.value()).phase is Phase.RUNNING


async def test_nothing_launched_is_not_found(box: Box) -> None:
    facet = await box.look()
    assert facet.value is None and facet.error is not None
    assert facet.error.kind is ErrorKind.NOT_FOUND
    assert "run.pid" in facet.error.message


async def test_an_exit_file_alone_is_enough(box: Box) -> None:
    box.write("exit", "2")
    assert (await box.value()).exit_code == 2
    assert (await box.value("pid_file")).phase is Phase.FAILED


async def test_without_any_file_to_go_by(box: Box) -> None:
    facet = await box.look("pid_file")
    assert facet.error is not None and facet.error.kind is ErrorKind.NOT_FOUND


BAD = {
    "run.pid": ("", "\n", "12a\n", "0\n", "-1\n", "99999999999999\n", "\x00\x00"),
    "exit": ("", "ok", "1 2", "4096", "\x1b]0;title\x07"),
}


async def test_a_bad_file_is_unknown_not_failed(box: Box) -> None:
    rows = [(name, text) for name, texts in BAD.items() for text in texts]
    pid = f"{dead_pid()}\n"
    found = await box.looks(
        box.beside(str(number), {"run.pid": pid, name: text})
        for number, (name, text) in enumerate(rows)
    )
    for number, (name, _) in enumerate(rows):
        facet = found[str(number)]
        assert facet.value is None and facet.error is not None
        assert facet.error.kind is ErrorKind.BAD_ANSWER and facet.error.message.isprintable()
        assert name == "exit" or "run.pid: expected a process id" in facet.error.message


async def test_a_half_written_exit_file_of_a_living_process_is_not_believed(box: Box) -> None:
    box.note(box.start().pid)
    box.write("log", "step 1\n")
    box.write("exit", "")
    assert (await box.value()).phase is Phase.RUNNING


async def test_a_folder_in_the_place_of_a_file(box: Box) -> None:
    (box.folder / "run.pid").mkdir()
    facet = await box.look()
    assert facet.error is not None and facet.error.kind is ErrorKind.BAD_ANSWER


async def test_a_pipe_in_the_place_of_a_file(box: Box) -> None:
    os.mkfifo(box.folder / "run.pid")
    facet = await box.look()
    assert facet.error is not None and facet.error.kind is ErrorKind.BAD_ANSWER


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_no_permission(box: Box) -> None:
    box.write("run.pid", "1")
    (box.folder / "run.pid").chmod(0)
    facet = await box.look()
    assert facet.error is not None and facet.error.kind is ErrorKind.PERMISSION


async def test_a_run_without_a_job_is_not_its_business(box: Box) -> None:
    found = await box.jobs.observe(box.host or HERE, queries_of([RunSpec(name="t"), box.spec()]))
    assert list(found) == ["r"]


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def await_number(path: Path) -> int:
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


async def test_a_log_that_is_rotated_away_makes_no_job_wait_again(box: Box) -> None:
    child = box.start()
    box.note(child.pid)
    assert (await box.value()).phase is Phase.WAITING
    box.write("log", "step 1\n")
    assert (await box.value()).phase is Phase.RUNNING
    (box.folder / "log").rename(box.folder / "log.1")
    rotated = await box.value()
    assert (rotated.phase, rotated.state, rotated.pending_since) == (Phase.RUNNING, "running", None)
    other = box.start()
    box.note(other.pid)
    assert (await box.value()).phase is Phase.WAITING


async def test_a_log_named_by_a_pattern_is_found(box: Box) -> None:
    child = box.start()
    box.note(child.pid)
    box.write("run-1.log", "step 1\n")
    spec = box.spec("log")
    assert spec.job is not None
    job = spec.job.model_copy(update={"log": place_of(box.path("run-*.log"))})
    found = await box.ask(Query(run=spec.model_copy(update={"job": job})))
    assert found.value is not None and found.value.phase is Phase.RUNNING


async def test_a_clock_set_back_makes_no_exit_file_of_ours_the_former_job_s(box: Box) -> None:
    pid = dead_pid()
    box.note(pid, f"start={time.time():.2f}", "ticks=7", "launch_id=r-i001")
    box.write("exit", "0", age=7200)
    assert (await box.value()).state == "gone"
    notes = box.folder / ".cockpit" / "launches"
    notes.mkdir(parents=True)
    (notes / "r-i001").write_text(f"state=ended\npid={pid}\nticks=7\nexit=0\n")
    assert (await box.value()).phase is Phase.SUCCEEDED
    (notes / "r-i001").write_text(f"state=ended\npid={pid}\nticks=8\nexit=0\n")
    assert (await box.value()).state == "gone"


async def test_a_process_of_another_boot_machine_or_container(box: Box) -> None:
    child = box.start()
    ticks = process_facts(child.pid).ticks
    box.write("log", "step 1\n")
    for line, phase, word in (
        ("space=pid:[1]", Phase.UNKNOWN, "another container"),
        ("machine=0\nhost=gpu-9", Phase.UNKNOWN, "written on gpu-9"),
        (f"machine={machine_id()}\nboot=0", Phase.FAILED, "restarted"),
    ):
        box.note(child.pid, f"ticks={ticks}", line)
        facet = await box.look()
        assert facet.value is not None
        if machine_id() is not None or "machine" not in line:
            assert facet.value.phase is phase and word in (facet.value.reason or "")


async def test_a_log_that_has_not_grown_since_the_launch_is_silent_whatever_the_clock(
    box: Box,
) -> None:
    child = box.start()
    facts = process_facts(child.pid)
    box.write("log", "step 1\n", age=-7200)
    box.note(child.pid, f"ticks={facts.ticks}", f"start={facts.started_at}", "log=1:7:0")
    assert (await box.value()).phase is Phase.WAITING
    box.write("log", "step 1\nstep 2\n", age=7200)
    assert (await box.value()).phase is Phase.RUNNING


async def test_a_process_that_is_gone_while_another_writes_its_files_is_unknown(box: Box) -> None:
    """A launcher that left its trainer to itself, or a restart that noted no pid."""
    box.note(dead_pid())
    with (box.folder / "log").open("a") as log:
        log.write("step 1\n")
        child = box.start(sys.executable, "-S", "-c", "import time; time.sleep(60)", stdout=log)
    wait_for(lambda: process_facts(child.pid).alive)
    facet = await box.look()
    assert facet.error is not None and f"pid:{child.pid} is running" in facet.error.message
    assert facet.value is not None and facet.value.phase is Phase.UNKNOWN
    os.utime(box.folder / "log", (1e9, 1e9))
    left = await box.value()
    assert (left.state, [rival.id for rival in left.rivals]) == ("gone", [f"pid:{child.pid}"])


async def test_a_log_that_goes_on_without_a_process_here_makes_no_job_failed(box: Box) -> None:
    """A plain pid file of another machine, or of a container, beside a log that all can read."""
    box.note(dead_pid())
    box.write("log", "step 1\n", age=20)
    assert (await box.value()).state == "gone"
    box.write("log", "step 1\nstep 2\n", age=10)
    facet = await box.look()
    assert facet.value is not None and facet.value.phase is Phase.UNKNOWN
    assert facet.error is not None and "its log still grows" in facet.error.message
    box.note(dead_pid(), f"machine={machine_id()}")
    assert (await box.value()).state == "gone"
    box.write("log", "step 1\nstep 2\nits worker's last word\n")
    assert machine_id() is None or (await box.value()).state == "gone"


async def test_a_mount_that_hangs_is_asked_no_third_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, back, box = [], threading.Event(), Box(tmp_path, None)

    def hangs(wanted: Sequence[Sequence[object]]) -> None:
        began.append(wanted)
        back.wait(20.0)

    monkeypatch.setitem(agent.CALLS, "files", hangs)
    monkeypatch.setattr("cockpit.platforms.local.jobs.PATIENCE", 0.2)
    try:
        facets = [await box.look() for _ in range(3)]
    finally:
        back.set()
    assert [facet.error is not None and facet.error.kind for facet in facets] == [
        ErrorKind.TIMEOUT
    ] * 3
    assert len(began) == 2, "with the others, then apart, and never again"


class Matching(Box):
    """A run whose job is found by ``match`` alone, and its log."""

    def spec(self, *without: str) -> RunSpec:
        pattern = f"{re.escape(str(self.folder))}/train_m[.]py"
        job = self.job(match=pattern, log=self.path("log"))
        return RunSpec(name="r", job=job, output_root=self.path("out"))

    def train(self, *words: str) -> int:
        script = self.folder / "train_m.py"
        if not script.exists():  # one that starts may be reading it
            script.write_text("import time\ntime.sleep(60)\n")
        child = self.start(sys.executable, "-S", str(script), *words)
        until(lambda: str(script) in census()[child.pid].argv)
        return child.pid

    def end(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()


@pytest.fixture
def matching(tmp_path: Path, host: str | None) -> Iterator[Matching]:
    found = Matching(tmp_path, host)
    (tmp_path / "out").mkdir()
    yield found
    found.end()


async def test_a_job_is_found_by_its_command_line(matching: Matching) -> None:
    """``match`` of a local job was promised, and read by nothing."""
    found = await matching.look()
    assert (
        found.error is not None
        and "nothing" in found.error.message
        and "matches" in found.error.message
    )
    first = matching.train("--out", "elsewhere")
    script = str(matching.folder / "train_m.py")
    matching.start("tail", "-f", "/dev/null", script)
    matching.start("sh", "-c", f"sleep 60; : {script}")
    matching.write("log", "step 1\n")
    value = await matching.value()
    assert (value.id, value.phase) == (f"pid:{first}", Phase.RUNNING)
    newest = matching.train("--out", "elsewhere")
    assert (await matching.value()).id == f"pid:{newest}", "the newest of mine that fits"
    writer = matching.train("--out", str(matching.folder / "out"))
    matching.train("--out", "elsewhere")
    assert (await matching.value()).id == f"pid:{writer}", "who writes to the run is the job"
    matching.end()
    gone = await matching.value()
    assert gone.phase is Phase.FAILED
    where = "here" if matching.host is None else f"on {matching.host}"
    assert f"gone without an exit status (nothing {where} matches" in (gone.reason or "")


async def test_a_pattern_that_is_none_is_said(matching: Matching) -> None:
    run = matching.spec().model_copy(update={"job": matching.job(match="train[")})
    facet = await matching.ask(Query(run=run))
    assert facet.error is not None and "job.match is not a pattern" in facet.error.message
