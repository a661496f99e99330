"""The processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.runtime.process import (
    Machine,
    Start,
    Where,
    here,
    lives,
    process_facts,
    same_start,
    where,
)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def until_state(pid: int, letter: str) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != letter:
        time.sleep(0.005)


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


MINE = Machine("box", "m1", "b1", "s1")


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        (Machine(), Where.HERE),
        (MINE, Where.HERE),
        (MINE._replace(machine=None), Where.HERE),
        (MINE._replace(host="other"), Where.ELSEWHERE),
        (MINE._replace(machine="m2", boot="b2"), Where.ELSEWHERE),
        (MINE._replace(boot="b2"), Where.RESTARTED),
        (Machine("box", None, "b2"), Where.UNCLEAR),
        (MINE._replace(space="s2"), Where.CONTAINER),
    ],
)
def test_where_a_noted_process_is(noted: Machine, found: Where) -> None:
    assert where(noted, MINE) is found


def test_the_kernels_count_decides_and_the_clock_stands_in() -> None:
    assert same_start(Start(7, 100.0), Start(7, 9000.0)) is True, "the clock was set"
    assert same_start(Start(7, 100.0), Start(8, 100.0)) is False
    assert same_start(Start(None, 100.0), Start(8, 104.0)) is True
    assert same_start(Start(None, 100.0), Start(8, 106.0)) is False
    assert same_start(Start(), Start(8, 106.0)) is None


def test_a_process_lives_until_it_ends_and_its_id_is_no_one_elses() -> None:
    child = subprocess.Popen(["sleep", "60"])
    facts = process_facts(child.pid)
    start = Start(facts.ticks, facts.started_at)
    assert lives(child.pid, here(), start) is True
    assert lives(child.pid, here(), Start()) is True
    assert lives(os.getpid(), here(), Start(1, None)) is False
    assert lives(child.pid, here()._replace(host="other"), start) is None
    child.kill()
    child.wait()
    assert lives(child.pid, here(), start) is False
