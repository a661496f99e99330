from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.runtime import process
from cockpit.runtime.process import boot_time, process_facts


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def until_state(pid: int, letter: str) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != letter:
        time.sleep(0.005)


def test_we_live_and_started_before_now() -> None:
    facts = process_facts(os.getpid())
    assert facts.alive and not facts.zombie and not facts.stopped
    assert facts.started_at is not None and time.time() - 86400 < facts.started_at <= time.time()


def test_the_start_is_that_of_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    started = process_facts(sleeper.pid).started_at
    assert started is not None and abs(started - time.time()) < 5.0


def test_a_stopped_process_lives(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    until_state(sleeper.pid, "T")
    facts = process_facts(sleeper.pid)
    assert facts.alive and facts.stopped


def test_a_zombie_has_ended(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    until_state(sleeper.pid, "Z")
    facts = process_facts(sleeper.pid)
    assert not facts.alive and facts.zombie


def test_an_ended_process_is_gone() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert not process_facts(child.pid).alive


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 5, 2**31 - 1, 2**70])
def test_numbers_that_are_no_process(pid: int) -> None:
    assert not process_facts(pid).alive


def test_a_name_may_hold_brackets_and_blanks(tmp_path: Path) -> None:
    fields = " ".join(["S", "1", *["0"] * 17, "1000", *["0"] * 30])
    (tmp_path / "self").mkdir()
    (tmp_path / "self/stat").write_text("")
    (tmp_path / "stat").write_text("cpu 1 2 3\nbtime 1700000000\n")
    (tmp_path / "4242").mkdir()
    (tmp_path / "4242/stat").write_text(f"4242 (tr) Z 1 (x) {fields}")
    facts = process_facts(4242, tmp_path)
    assert facts.alive
    assert facts.started_at == 1_700_000_000 + 1000 / os.sysconf("SC_CLK_TCK")


def test_another_user_s_process_lives() -> None:
    assert process_facts(1).alive


def test_ps_tells_the_same(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    told = process_facts(sleeper.pid, tmp_path)
    seen = process_facts(sleeper.pid)
    assert told.alive and told.started_at is not None and seen.started_at is not None
    assert abs(told.started_at - seen.started_at) < 2.0


def test_ps_knows_a_zombie_and_the_dead(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    sleeper.kill()
    until_state(sleeper.pid, "Z")
    assert process_facts(sleeper.pid, tmp_path).zombie
    sleeper.wait()
    assert not process_facts(sleeper.pid, tmp_path).alive


def test_boot_time_is_in_the_past() -> None:
    booted = boot_time()
    assert booted is not None and booted < time.time()
    assert process.PROC.is_dir()
