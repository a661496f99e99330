"""A process that is stopped in the middle of a write: it holds the store, and nobody back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.records.git.documents import BusyError, locked
from cockpit.store import store as stores
from cockpit.store.store import StoppedHolderError
from tests.notify.receivers import webhook
from tests.notify.test_notifier import World, look, nan

WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
print("free", flush=True)
sys.stdin.readline()
"""
LOCKER = """
import fcntl, os, sys
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


class Stopped:
    """A process that holds something and is stopped."""

    def __init__(self, program: str, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.line() == "held\n"
        os.kill(self.process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(stores, "BUSY_SECONDS", 0.1)
    with webhook() as hook:
        yield World(tmp_path, hook)


async def test_people_are_told_at_once_and_not_again_when_it_goes_on(service: World) -> None:
    cockpit = service.cockpit()
    report = service.report()
    assert service.store is not None
    stopped = Stopped(WRITER, service.path)
    try:
        with pytest.raises(StoppedHolderError, match=f"kill -CONT {stopped.process.pid}"):
            service.store.forget("/x/other.toml")
        unsaved = report.model_copy(update={"alerts": (nan(),)})
        for _ in range(3):
            await look(cockpit, unsaved)
        assert service.hook.titles == ["[critical] r: C-09 loss is NaN"]
        stopped.go_on()
        assert stopped.line() == "free\n"
        saved = service.report(nan())
        await look(cockpit, saved)
        await look(service.cockpit(), saved)
        assert service.hook.titles == ["[critical] r: C-09 loss is NaN"]
    finally:
        stopped.end()


async def test_a_logbooks_lock_names_the_stopped_process_that_holds_it(tmp_path: Path) -> None:
    stopped = Stopped(LOCKER, tmp_path / "lock")
    try:
        with pytest.raises(BusyError, match=f"process {stopped.process.pid} holds it and is stop"):
            async with locked(tmp_path / "lock", SystemClock(), 0.1):
                pass
    finally:
        stopped.end()
