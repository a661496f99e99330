"""Output that nobody takes: it never waits, what is dropped is counted, a line is whole."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator

import pytest

from cockpit.runtime.outlet import LINES, Outlet

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
