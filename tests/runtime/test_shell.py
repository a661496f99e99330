"""A command that only reads, and hangs, does not outlive the program that has asked."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cockpit.runtime import shell
from cockpit.runtime.process import process_facts
from cockpit.runtime.shell import run_command
from tests.e2e.tiny_fleet import until


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


async def test_a_missing_program_says_so() -> None:
    done = await run_command(["no-such-program-at-all"], deadline=10.0)
    assert done.rc == 127
    assert done.err == b"no-such-program-at-all: not found on PATH"


async def test_a_folder_on_path_that_may_not_be_searched_hides_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shut").mkdir(mode=0o000)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shut'}:{os.environ['PATH']}")
    done = await run_command(["no-such-program-at-all"], deadline=10.0)
    assert (done.rc, done.err) == (127, b"no-such-program-at-all: not found on PATH")
    assert (await run_command(["true"], deadline=10.0)).ok


async def test_a_program_on_path_without_permission_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some-tool").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = await run_command(["some-tool"], deadline=10.0)
    assert (done.rc, done.err) == (126, b"some-tool: Permission denied")


async def test_a_file_without_permission_to_run(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    done = await run_command([str(tmp_path / "tool")], deadline=10.0)
    assert done.rc == 126
    assert b"Permission denied" in done.err


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    done = await run_command(["true"], deadline=10.0, cwd=tmp_path / "gone")
    assert done.rc == 127
    assert str(tmp_path / "gone").encode() in done.err


async def test_an_argument_with_a_nul_is_refused() -> None:
    assert (await run_command(["echo", "a\0b"], deadline=10.0)).rc == 126


async def test_a_string_is_not_a_command() -> None:
    with pytest.raises(TypeError):
        await run_command("echo a", deadline=10.0)


async def test_stdin_is_closed_unless_given() -> None:
    assert (await run_command(["cat"], deadline=10.0)).out == b""
    big = b"x" * 3_000_000
    done = await run_command(["wc", "-c"], deadline=10.0, stdin=big)
    assert int(done.out) == len(big)


async def test_a_command_that_does_not_want_its_stdin() -> None:
    done = await run_command(["true"], deadline=10.0, stdin=b"x" * 3_000_000)
    assert (done.rc, done.timed_out) == (0, False)


async def test_output_is_capped_while_it_is_read() -> None:
    done = await run_command(sh("head -c 50000000 /dev/zero; echo e >&2"), deadline=30.0, cap=1000)
    assert (done.rc, len(done.out), done.cut, done.err) == (0, 1000, True, b"e\n")


async def test_the_deadline_kills_the_whole_group(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sleep 60 & echo $! > {child}; wait"
    for deadline in (0.5, 4.0, 20.0):  # a busy machine has not begun at the first
        before = time.monotonic()
        done = await run_command(sh(script), deadline=deadline)
        assert done.timed_out and not done.ok and done.rc == -9
        assert time.monotonic() - before < 40.0
        if quiet(child):
            break
    assert not await lives(int(child.read_text()))


async def test_endless_output_ends_at_the_deadline() -> None:
    for deadline in (0.4, 4.0, 20.0):  # a busy machine has not begun at the first
        done = await run_command(["yes"], deadline=deadline, cap=100)
        assert done.timed_out
        if done.cut:
            break
    assert done.cut and done.out == b"y\n" * 50


async def test_a_child_that_keeps_the_pipe_does_not_keep_us(tmp_path: Path) -> None:
    before = time.monotonic()
    done = await run_command(sh(f"sleep 60 & echo $! > {tmp_path}/child; echo out"), deadline=50.0)
    assert (done.rc, done.out, done.timed_out) == (0, b"out\n", False)
    assert time.monotonic() - before < 30.0
    os.kill(int((tmp_path / "child").read_text()), 9)


async def test_cancelling_kills_the_command(tmp_path: Path) -> None:
    task = asyncio.create_task(
        run_command(
            sh(f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 60"),
            deadline=60.0,
        )
    )
    pid = await written(tmp_path / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await lives(pid)


async def test_a_session_of_its_own() -> None:
    done = await run_command(sh("ps -o sid= -p $$; echo $$"), deadline=10.0)
    sid, pid = done.text.split()
    assert sid == pid != str(os.getsid(0))


async def test_no_zombie_stays() -> None:
    before = set(zombies_of(os.getpid()))  # what other tests have left is theirs
    await asyncio.gather(*(run_command(["true"], deadline=10.0) for _ in range(10)))
    assert set(zombies_of(os.getpid())) <= before


def zombies_of(parent: int) -> list[str]:
    stats = [quiet(path) for path in Path("/proc").glob("[0-9]*/stat")]
    return [s for s in stats if s.rpartition(")")[2].split()[:2] == ["Z", str(parent)]]


def quiet(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


async def lives(pid: int) -> bool:
    """Tell whether ``pid`` still lives after it was given a fair while to die."""
    for _ in range(3000):
        if not process_facts(pid).alive:
            return False
        await asyncio.sleep(0.01)
    return True


async def written(path: Path) -> int:
    """Return the number in ``path`` as soon as it is there."""
    for _ in range(3000):
        if text := quiet(path):
            return int(text)
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} was never written")


async def test_where_ends_cannot_be_peeked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "waitid")
    assert (await run_command(sh("echo a; exit 4"), deadline=10.0)).rc == 4
    assert (await run_command(sh("sleep 60"), deadline=0.2)).timed_out


ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys, threading, time
from cockpit.__main__ import leave
from cockpit.runtime.shell import run_blocking
words = ["sh", "-c", "echo $$ >$0; kill -STOP $$", sys.argv[1]]
reads = sys.argv[2] == "reads"
asking = lambda: run_blocking(words, deadline=60, reads=reads)
threading.Thread(target=asking, daemon=True).start()
sys.stdin.read()
leave(0) if sys.argv[3] == "leave" else sys.exit(0)
"""


def test_one_that_is_just_being_started_is_ended_before_we_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    leaving, real, kill = threading.Event(), subprocess.Popen, os.killpg

    def started(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = real(*args, **options)
        leaving.set()
        until(lambda: any(run._killed for run in shell._READING), lambda: "never asked to leave")
        return process

    def killed(group: int, number: int) -> None:
        said.append("killed")
        kill(group, number)

    monkeypatch.setattr(shell, "STARTS_WITHIN", 60.0)
    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(os, "killpg", killed)
    asking = threading.Thread(
        target=lambda: shell.run_blocking(["sleep", "60"], deadline=60, reads=True)
    )
    asking.start()
    leaving.wait(60)
    shell.end_reading()
    said.append("left")
    asking.join()
    assert said[:2] == ["killed", "left"]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


@pytest.mark.parametrize("how", ["leave", "exit"])
@pytest.mark.parametrize("what", ["reads", "acts"])
def test_what_only_reads_ends_with_us(what: str, how: str, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    words = [sys.executable, "-c", PROGRAM, str(told), what, how]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE) as asker:
        until(lambda: told.exists() and told.read_text().strip() != "", lambda: "never began")
        asker.communicate()
    pid = int(told.read_text())
    if what == "reads":
        until(lambda: gone(pid), lambda: "it is still there")
    else:
        assert not gone(pid)
        os.kill(pid, 9)
