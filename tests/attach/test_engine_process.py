"""Windows and real engine processes: attached, killed, stopped, taken over by a watch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from cockpit.attach import meeting
from cockpit.attach.client import OTHER_BUILD, AttachedEngine
from cockpit.attach.meeting import MeetingError, connect, meeting_of, peer_of, place_of
from cockpit.attach.server import EngineServer
from cockpit.config.file import load, store_path
from cockpit.model.clock import SystemClock
from cockpit.model.report import RunReport, Verdict
from cockpit.runtime import account
from cockpit.runtime.process import process_facts
from cockpit.store.memory import RunMemory
from cockpit.store.store import Store, run_key
from cockpit.watch.engine import Engine
from tests.widgets import reports as made

PATIENCE = 180.0
RUN_FILE = """
[cockpit]
operator = "ada"
cadence = "1s"
{runs}
"""
RUN = """
[[run]]
name = "{name}"
output_root = "{root}"
[run.job]
kind = "local"
log = "{root}/run.log"
pid_file = "{root}/run.pid"
"""


class Place:
    """A run file with two runs, whose trainer is this very process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "cockpit.toml"
        self.windows: list[AttachedEngine] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.write("one", "two")

    def write(self, *names: str) -> None:
        for name in names:
            root = self.folder / name
            root.mkdir(exist_ok=True)
            (root / "run.pid").write_text(
                f"{os.getpid()}\nticks={process_facts(os.getpid()).ticks}\n"
            )
            (root / "run.log").write_text("step 1 loss 2.5\n\x1b[31mstep 2 loss 2.25\x1b[0m\n")
        runs = "".join(RUN.format(name=name, root=self.folder / name) for name in names)
        self.path.write_text(RUN_FILE.format(runs=runs))

    def window(self, *, attends: bool = True) -> AttachedEngine:
        engine = AttachedEngine(
            load(self.path), Store(store_path()), SystemClock(), attends=attends
        )
        self.windows.append(engine)
        self._tasks.append(asyncio.ensure_future(engine.run()))
        return engine

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def serving(self) -> int | None:
        """Return the process that serves, whether or not it hangs."""
        to_engine = connect(meeting_of(str(self.path)))
        if to_engine is None:
            return None
        with to_engine:
            peer = peer_of(to_engine)
            return None if peer is None else peer.pid

    async def seen(self, window: AttachedEngine, name: str = "one") -> None:
        await until(lambda: self.report(window, name).facets.job.known)
        await until(lambda: self.report(window, name).facets.log.known)

    def report(self, window: AttachedEngine, name: str = "one") -> RunReport:
        return next(each for each in window.report().runs if each.name == name)


async def until(true: Callable[[], object], patience: float = PATIENCE) -> None:
    async with asyncio.timeout(patience):
        while not true():  # noqa: ASYNC110 - other processes tell no event
            await asyncio.sleep(0.02)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    yield place
    await place.leave()
    await until(lambda: place.serving() is None)


OLD_BUILD = """
import sys
import cockpit.attach.wire as wire
wire.build = lambda: "0123456789ab"
from cockpit.attach import host
host.leave(host.main([sys.argv[1]]))
"""


def engine_of_another_build(place: Place) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", OLD_BUILD, str(place.path)])


async def test_a_window_beside_an_engine_of_another_build_has_its_own_and_names_it(
    place: Place,
) -> None:
    old = engine_of_another_build(place)
    try:
        meeting = meeting_of(str(place.path))
        own = meeting.name.rpartition("-")[0]
        path = meeting.folder / f"{own}-0123456789ab.sock"
        await until(path.exists)
        window = place.window()
        await place.seen(window)
        assert place.serving() not in (None, old.pid)
        said = OTHER_BUILD.format(pids=old.pid)
        await until(lambda: said in window.notices)
        old.send_signal(signal.SIGKILL)
        old.wait(PATIENCE)
        await until(lambda: said not in window.notices)
        assert window.attached
    finally:
        old.kill()
        old.wait(PATIENCE)
        path.unlink(missing_ok=True)


def gone(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return not Path(f"/proc/{pid}").exists()


async def test_windows_share_one_engine_that_ends_with_the_last(place: Place) -> None:
    one, two = place.window(), place.window(attends=False)
    await until(lambda: one.attached and two.attached)
    pid = place.serving()
    assert pid is not None and pid != os.getpid()
    for window in (one, two):
        await place.seen(window)
        log = place.report(window).facets.log.value
        assert log is not None and log.lines[-1].spans, "colours cross too"
    assert place.serving() == pid
    assert one.logs.place("one") == str(place.folder / "one" / "run.log")
    page = await two.logs.tail("one", 1)
    assert [line.plain for line in page.lines] == ["step 2 loss 2.25"]
    hit = await two.logs.search("one", "loss", 0, False)
    assert hit is not None and hit.offset == 0
    with pytest.raises(ValueError, match="unterminated"):
        await two.logs.find("one", "a(", 0, False)
    checked = await one.check("two")
    assert checked.name == "two" and checked.facets.job.known
    mode = meeting_of(str(place.path)).socket.stat().st_mode
    assert mode & 0o777 == 0o600
    await place.leave()
    await until(lambda: gone(pid))


async def test_that_windows_which_only_read_have_nobody_told_is_said(place: Place) -> None:
    reads = place.window(attends=False)
    await until(lambda: any("notifies nobody" in each for each in reads.notices))
    place.window()
    await until(lambda: not any("notifies nobody" in each for each in reads.notices))


async def test_an_edited_run_file_reaches_every_window(place: Place) -> None:
    window = place.window()
    await until(lambda: window.attached)
    place.write("two", "three")
    await until(lambda: [each.name for each in window.report().runs] == ["two", "three"])
    await place.seen(window, "three")
    assert [run.name for run in window.file.runs] == ["two", "three"]


async def test_a_killed_engine_is_followed_by_another(place: Place) -> None:
    windows = [place.window() for _ in range(3)]
    await until(lambda: all(window.attached for window in windows))
    pid = place.serving()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: place.serving() not in (pid, None))
    await until(lambda: all(window.attached for window in windows))
    await place.seen(windows[2])


async def test_a_stopped_engine_is_replaced_and_that_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "MISSED", 1)
    windows = [place.window() for _ in range(2)]
    await until(lambda: all(window.attached for window in windows))
    pid = place.serving()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    def said() -> bool:  # by the window that finds it first, and ends it
        found = f"engine (pid {pid}) has been silent for"
        return any(found in each for window in windows for each in window.notices)

    await until(said)
    await until(lambda: place.serving() not in (pid, None))
    await until(lambda: all(window.attached for window in windows))
    assert said()
    await until(lambda: gone(pid))


async def test_a_watch_takes_the_windows_over_and_leaves_them_to_an_engine(place: Place) -> None:
    window = place.window()
    await until(lambda: window.attached)
    first = place.serving()
    words = (sys.executable, "-m", "cockpit", "watch", "--json", "--config", str(place.path))
    with subprocess.Popen(  # noqa: ASYNC220
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as watch:
        try:
            await until(lambda: place.serving() == watch.pid)
            await until(lambda: first is not None and gone(first))
            await until(lambda: window.attached)
        finally:
            watch.terminate()
    await until(lambda: place.serving() not in (None, watch.pid))
    await until(lambda: window.attached)


async def test_before_an_engine_speaks_the_store_does(place: Place) -> None:
    file = load(place.path)
    spec = next(run for run in file.runs if run.name == "one")
    with contextlib.closing(Store(store_path())) as store:
        window = AttachedEngine(file, store, SystemClock(), attends=True)
        seen = place.report(window).model_copy(
            update={"verdict": Verdict.CRITICAL, "next_action": "remembered", "spec": spec,
                    "alerts": (made.alert("C-01"),)}
        )  # fmt: skip
        RunMemory(store).save_reports([(run_key(file.path, "one"), seen)])
        await window._recall()
    assert place.report(window).next_action == "remembered"
    assert place.report(window).not_read_yet, "what is remembered is said to be just that"
    assert place.report(window, "two").next_action == "wait for the first look"
    assert any("attaching" in each for each in window.notices)


async def test_an_engine_that_cannot_start_says_why(place: Place) -> None:
    window = place.window()
    place.path.write_text("[cockpit\n")
    await until(lambda: any("did not start" in each for each in window.notices))
    assert any("cockpit.toml" in each for each in window.notices)
    place.write("one", "two")
    await until(lambda: window.attached)


async def test_a_folder_to_meet_in_that_goes_is_made_again(place: Place) -> None:
    window = place.window()
    await until(lambda: window.attached)
    meeting, first = meeting_of(str(place.path)), place.serving()
    for each in meeting.folder.glob(f"{meeting.name}*"):
        each.unlink()
    with contextlib.suppress(OSError):  # other tests meet there too
        meeting.folder.rmdir()
    await until(lambda: place.serving() not in (first, None))
    await until(lambda: window.attached)
    assert first is not None
    await until(lambda: not Path(f"/proc/{first}").exists())  # nor does a zombie stay


STRANGER = """
import contextlib, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
while True:
    with contextlib.suppress(OSError):
        listening.accept()[0].sendall(bytes([0, 0, 16, 0]) + b"[" * 4096)
"""


async def test_what_answers_in_an_engines_place_and_is_none_is_replaced(place: Place) -> None:
    words = (sys.executable, "-c", STRANGER, str(meeting_of(str(place.path)).socket))
    with subprocess.Popen(words) as stranger:  # noqa: ASYNC220
        await until(lambda: place.serving() == stranger.pid)
        window = place.window()
        await until(lambda: any("not attached: " in each for each in window.notices))
        await until(lambda: place.serving() not in (stranger.pid, None))
        await until(lambda: window.attached)
        stranger.kill()


async def test_an_engine_that_goes_on_after_its_place_was_taken_prints_no_fault(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    file = load(place.path)
    engine = Engine(file, store=None, clock=SystemClock())
    server = EngineServer(engine, meeting_of(file.path), "watch", SystemClock())
    await server.open()
    window = place.window()
    await until(lambda: server.windows)
    await server.close()
    await until(lambda: any("(pid " in each and " went at " in each for each in window.notices))
    await asyncio.sleep(0)
    assert caplog.messages == []


async def test_a_fifo_where_the_engine_s_log_belongs_holds_nothing_up(place: Place) -> None:
    log = meeting_of(str(place.path)).log
    os.mkfifo(log)
    window = place.window()
    try:
        await until(lambda: any("did not start: [Errno" in each for each in window.notices), 5.0)
    finally:
        log.unlink()


def test_a_stale_socket_is_nobody(place: Place) -> None:
    meeting = meeting_of(str(place.path))
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(meeting.socket))
    assert place_of(meeting) is not None and connect(meeting) is None
    meeting.socket.unlink()


def test_a_folder_with_a_long_name_is_met_elsewhere(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tmp_path / ("s" * 80)
    session.mkdir(mode=0o700)
    monkeypatch.setattr(account, "_SCRATCH", tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    assert meeting_of(str(place.path)).folder.parent == tmp_path


def test_a_place_that_others_can_enter_is_refused(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = meeting_of(str(place.path)).folder
    folder.chmod(0o755)
    try:
        with pytest.raises(MeetingError, match="others"):
            meeting_of(str(place.path))
    finally:
        folder.chmod(0o700)
