"""A process that is stopped in the middle of a write: it holds the store, and nobody back.

A machine's clock that is set, and a sender that hangs: who is told, when, how often.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.alert import Acknowledgement
from cockpit.model.clock import SystemClock
from cockpit.model.notify import NotifySpec
from cockpit.records.git.documents import BusyError, locked
from cockpit.runtime.moment import moment
from cockpit.services.notifying import Heartbeat
from cockpit.store import store as stores
from cockpit.store.alerts import Alerts
from cockpit.store.messages import SENDS_WITHIN as CLAIMED_FOR
from cockpit.store.messages import Asked, Notified, SendClaim
from cockpit.store.store import StoppedHolderError, Store, run_key
from tests.notify.receivers import webhook
from tests.notify.test_notifier import Hand, World, look, nan
from tests.watch.fakes import FastClock

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


HOUR = 3600.0


class Settable(Hand):
    """A clock whose wall time somebody sets; what is steady goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.set_by = 0.0

    def now(self) -> float:
        return self.at + self.set_by


class Set(World):
    def __init__(self, folder: Path, hook: object) -> None:
        super().__init__(folder, hook)  # type: ignore[arg-type]
        self.clock: Settable = Settable()


@pytest.fixture
def clock_set_service(tmp_path: Path) -> Iterator[Set]:
    with webhook() as hook:
        yield Set(tmp_path, hook)


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_clock_that_is_set_pages_nobody_early_or_late(
    clock_set_service: Set, jump: float, restarted: bool
) -> None:
    cockpit, clock = clock_set_service.cockpit(), clock_set_service.clock
    await look(cockpit, clock_set_service.report(nan()))
    clock.at += 60
    clock.set_by = jump
    cockpit = clock_set_service.cockpit() if restarted else cockpit
    clock.at += 1
    await look(cockpit, clock_set_service.report(nan()))
    assert len(clock_set_service.hook.titles) == 1, clock_set_service.hook.titles
    clock.at += 900
    await look(cockpit, clock_set_service.report(nan()))
    assert clock_set_service.hook.titles[1:] == [
        "[critical, unacknowledged for 16m 01s] r: C-09 loss is NaN",
    ]  # fmt: skip


async def test_a_snooze_that_a_jump_ends_is_not_a_wait_of_hours(clock_set_service: Set) -> None:
    cockpit, clock = clock_set_service.cockpit(), clock_set_service.clock
    await look(cockpit, clock_set_service.report(nan()))
    taken = Acknowledgement(by="ada", at=clock.at, until=clock.at + HOUR)
    assert clock_set_service.store is not None
    Alerts(clock_set_service.store).acknowledge(run_key("/x/cockpit.toml", "r"), "C-09", taken)
    clock.at += 1800
    await look(cockpit, clock_set_service.report(nan(acknowledged=taken)))
    clock.set_by = 2 * HOUR
    for _ in range(14):
        await look(cockpit, clock_set_service.report(nan()))
        clock.at += 60
    assert len(clock_set_service.hook.titles) == 1
    clock.at += 120
    await look(cockpit, clock_set_service.report(nan()))
    assert len(clock_set_service.hook.titles) == 2


async def test_the_end_of_an_alert_waits_for_its_cadence_of_real_time(
    clock_set_service: Set,
) -> None:
    cockpit, clock = clock_set_service.cockpit(), clock_set_service.clock
    await look(cockpit, clock_set_service.report(nan()))
    clock.at += 5
    await look(cockpit, clock_set_service.report(closed=(object(),)))
    clock.at += 5
    clock.set_by = 600.0
    await look(cockpit, clock_set_service.report(closed=(object(),)))
    assert len(clock_set_service.hook.titles) == 1, "it may still come back as the same one"
    clock.at += 60
    await look(cockpit, clock_set_service.report(closed=(object(),)))
    assert clock_set_service.hook.titles[1:] == ["[closed] r: C-09 loss is NaN"]


async def test_what_a_hung_cockpit_held_is_told_once(clock_set_service: Set) -> None:
    report = clock_set_service.report(nan())
    key = run_key("/x/cockpit.toml", "r")
    held = Notified(Store(clock_set_service.path))
    asked = Asked(key, "alert 1 critical", clock_set_service.cockpit().channels.routes[0].name)
    assert held.claim(asked, moment(clock_set_service.clock), "the hung one") is SendClaim.MINE
    cockpit = clock_set_service.cockpit()
    for _ in range(4):
        await look(cockpit, report)
        clock_set_service.clock.at += CLAIMED_FOR / 2
    assert clock_set_service.hook.titles == ["[critical] r: C-09 loss is NaN"]


class Steps(FastClock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


SPEC = NotifySpec(heartbeat_url_env="DEADMAN")


async def test_it_is_pinged_once_per_cadence() -> None:
    clock = Steps()
    with webhook() as server:
        beat = Heartbeat(SPEC, clock, {"DEADMAN": server.url})
        for at in (0.0, 1.0, 2.0, 10.0, 11.0, 20.0):
            clock.at = at
            assert await beat.beat(10.0) is None
    assert len(server.paths) == 3


async def test_what_goes_wrong_is_said_without_the_address() -> None:
    assert Heartbeat(NotifySpec(), Steps(), {}).trouble() is None
    missing = Heartbeat(SPEC, Steps(), {})
    assert missing.trouble() == "the dead man's switch is not pinged: DEADMAN is not set here"
    assert await missing.beat(1.0) == missing.trouble()
    with webhook() as server:
        server.status = 404
        said = await Heartbeat(SPEC, Steps(), {"DEADMAN": server.url}).beat(1.0)
        assert said is not None and "answered 404" in said and "s3cr3t" not in said
        url = server.url
    said = await Heartbeat(SPEC, Steps(), {"DEADMAN": url}).beat(1.0)
    assert said is not None and "refused" in said
    said = await Heartbeat(SPEC, Steps(), {"DEADMAN": "s3cr3t"}).beat(1.0)
    assert said is not None and "s3cr3t" not in said
