"""The processes of this machine.

Output that nobody takes: it never waits, what is dropped is counted, a line is whole.

The moment, and how long something took.

What is mounted, and what other machines may see.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.runtime.moment import Jumps
from cockpit.runtime.mounts import LOCAL, NETWORK, file_system, shared_source
from cockpit.runtime.outlet import LINES, Outlet
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


PATIENCE = 180.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    yield out, into
    os.close(out)


def read(out: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += os.read(out, 65536)
    return found


def test_what_nobody_reads_is_dropped_oldest_first_and_counted(pipe: tuple[int, int]) -> None:
    out, into = pipe
    told: list[int] = []
    again = threading.Event()

    def tell(count: int) -> None:
        told.append(count)
        again.set()

    os.write(into, bytes(4096))
    outlet = Outlet(into, tell)
    for number in range(LINES + 30):
        outlet.put(b"%8d\n" % number)
    assert not told and outlet.stuck() >= 0
    assert os.read(out, 4096) == bytes(4096)
    assert again.wait(PATIENCE) and told == [30]
    assert [int(line) for line in read(out, LINES * 9).split()] == list(range(30, LINES + 30))
    assert outlet.end(PATIENCE) == 0


def test_a_line_that_is_longer_than_the_pipe_is_there_whole_or_not_at_all(
    pipe: tuple[int, int],
) -> None:
    out, into = pipe
    outlet = Outlet(into)
    outlet.put(b"a" * 9000 + b"\n")
    assert outlet.end(PATIENCE) == 0, "the pipe was not made larger"
    outlet.put(b"b" * 9000 + b"\n")
    assert outlet.end(0.2) == 1
    os.close(into)
    assert read(out, 9001) == b"a" * 9000 + b"\n"
    assert os.read(out, 10) == b"", "half a line came after it"


def test_a_reader_that_has_left_is_told_once() -> None:
    out, into = os.pipe()
    heard: list[OSError] = []
    gone = threading.Event()

    def failed(error: OSError) -> None:
        heard.append(error)
        gone.set()

    outlet = Outlet(into, failed=failed)
    os.close(out)
    outlet.put(b"one\n")
    assert gone.wait(PATIENCE)
    outlet.put(b"two\n")
    assert outlet.end(PATIENCE) == 0
    os.close(into)
    assert [type(error) for error in heard] == [BrokenPipeError]


class Settable:
    def __init__(self) -> None:
        self.steady = 100.0
        self.offset = 1_800_000_000.0

    def now(self) -> float:
        return self.steady + self.offset

    def monotonic(self) -> float:
        return self.steady

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("jump", [7200.0, -7200.0, 45.0])
def test_what_was_before_is_as_long_ago_as_it_really_is(jump: float) -> None:
    clock = Settable()
    jumps, before = Jumps(clock), clock.now()
    clock.steady += 50
    clock.offset += jump
    after, _ = jumps.look()
    clock.steady += 10
    assert jumps.since(before) == pytest.approx(60)
    assert jumps.since(after) == pytest.approx(10)
    assert jumps.since(before - 5000) == pytest.approx(5060)


def test_an_instant_that_no_clock_has_shown_passed_with_the_jump() -> None:
    clock = Settable()
    jumps, before = Jumps(clock), clock.now()
    clock.offset += 7200
    jumps.look()
    clock.steady += 10
    assert jumps.since(before + 3600) == pytest.approx(10)
    assert jumps.since(before + 9000) == pytest.approx(-1790), "it has not come yet"


def test_there_and_back_again_is_no_time() -> None:
    clock = Settable()
    jumps, before = Jumps(clock), clock.now()
    for jump in (7200.0, -3600.0, -3600.0):
        clock.steady += 10
        clock.offset += jump
        jumps.look()
    assert jumps.since(before) == pytest.approx(30)


def test_it_is_said_for_a_while() -> None:
    clock = Settable()
    jumps = Jumps(clock)
    said = [jumps.notice]
    for steady, offset in ((0, 3.0), (0, 7200.0), (300, 0.0), (301, 0.0)):  # first it is steered
        clock.steady += steady
        clock.offset += offset
        said.append(jumps.notice)
    assert said[:2] == [None, None] and said[4] is None
    assert said[2] is not None and said[2] == said[3]
    assert said[2].startswith("this machine's clock jumped 2h ahead (it says ")


SOURCES = {
    "nas:/export/big": True,
    "10.0.0.1@tcp:/fs": True,
    "10.1.1.1:6789,10.1.1.2:6789:/": True,
    "//nas/my share": True,
    "ada@box:/data": True,
    "/dev/sda1": False,
    "overlay": False,
    "localhost:/export": False,
    "127.0.0.1:/export": False,
    "//localhost/c": False,
    "/dev/disk/by-path/pci:/x": False,
    ":/": False,
    "//": False,
    "": False,
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_other_machines_can_mount_too(source: str) -> None:
    assert shared_source(source) == (source if SOURCES[source] else None)


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


@needs_linux
@pytest.mark.parametrize(
    ("kind", "shared"),
    [("nfs4", True), ("lustre", True), ("fuse.sshfs", True), ("xfs", False), ("fuse.mine", None)],
)
def test_the_mount_that_holds_it_decides_not_the_one_above(
    kind: str, shared: bool | None, tmp_path: Path
) -> None:
    proc = fake(tmp_path, f"7 1 8:1 / / rw - ext4 /dev/a rw\n31 7 0:5 / /h rw - {kind} a:/h rw\n")
    found = file_system(tmp_path, proc)
    assert (found.kind, found.shared) == (kind, shared)


@needs_linux
def test_what_cannot_be_told_is_said_and_is_no_local_one(tmp_path: Path) -> None:
    for text in ("", "31 7 0:5 / /h rw nothing\n", "32 7 0:5 / /h rw - ext4 a rw\n"):
        assert file_system(tmp_path, fake(tmp_path, text)).shared is None
    assert file_system(tmp_path, tmp_path / "no proc").shared is None
    assert "cannot be told" in file_system(tmp_path, tmp_path / "no proc").text


def fake(folder: Path, mountinfo: str) -> Path:
    proc = folder / "proc"
    (proc / "fdinfo").mkdir(parents=True, exist_ok=True)
    for number in range(200):
        (proc / "fdinfo" / str(number)).write_text("pos:\t0\nflags:\t012000000\nmnt_id:\t31\n")
    (proc / "mountinfo").write_text(mountinfo)
    return proc


def test_no_type_is_both() -> None:
    assert not LOCAL & NETWORK
