"""The sweep over local files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import FileIO
from pathlib import Path
from unittest.mock import Mock

import pytest

from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.model.facet import known
from cockpit.model.observed import JobValue, MonitorValue, Phase, TrackerValue
from cockpit.model.report import Facets, RunReport
from cockpit.model.run import CheckpointSpec, CockpitFile, JobSpec, MonitorSpec, RunSpec, WandbSpec
from cockpit.watch import poller, sweep
from cockpit.watch.engine import Engine
from cockpit.watch.runstate import RunState
from cockpit.watch.sweep import (
    DEADLINE,
    KEPT_OPEN,
    ProcessStates,
    Signature,
    Sweeper,
    changed,
    signatures,
    watched_paths,
)
from tests.waiting import until as sweep_until
from tests.watch.fakes import SteppedClock, until


class Stood(SteppedClock):
    """Time that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0.2

    def pass_by(self, seconds: float) -> None:
        self._at += seconds


class Place:
    """One run with a log, its sweeper, and what that has woken."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        run = RunSpec(name="a", job=JobSpec(kind="local", log=str(self.log)))
        state = RunState(spec=run, key="a")
        state.paths = watched_paths(state.spec, state.facets)
        self.states = {"a": state}
        self.clock = Stood()
        self.woken: list[tuple[str, str]] = []
        self.sweeper = Sweeper(self.look, lambda _: 0, self.wake, self.clock)

    def look(self) -> dict[str, RunState]:
        return self.states

    def wake(self, facet: str, name: str) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.woken.append((facet, name))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@contextmanager
def sweeping(place: Place) -> Iterator[None]:
    place.sweeper.start()
    try:
        yield
    finally:
        place.sweeper.stop()


def test_a_sweep_tells_what_has_changed_since_the_last_and_else_nothing(place: Place) -> None:
    assert [place.sweeper.once() for _ in range(3)] == [[], [], []]
    place.log.write_text("a line\n")
    assert [place.sweeper.once() for _ in range(2)] == [[("a", "log")], []]


def test_of_processes_that_are_gone_no_file_is_kept_open_for_long(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = Mock()
    monkeypatch.setattr(sweep, "LET_GO", 2)
    monkeypatch.setattr(place.sweeper._processes, "let_go", let_go)
    for _ in range(5):
        place.sweeper.once()
    assert let_go.call_count == 2


async def test_a_sweep_that_hangs_is_late_and_holds_nobody_up(place: Place) -> None:
    hung, goes_on = threading.Event(), threading.Event()

    def states() -> dict[str, RunState]:
        hung.set()
        goes_on.wait()
        return place.states

    place.sweeper = Sweeper(states, lambda _: 0, place.wake, place.clock)
    with sweeping(place):
        await until(hung.is_set)
        assert not place.sweeper.late()
        place.clock.pass_by(DEADLINE + 1)
        assert place.sweeper.late()
        goes_on.set()
        await until(lambda: not place.sweeper.late())


async def test_a_fault_of_the_sweep_is_raised_where_it_is_asked_for(place: Place) -> None:
    def states() -> dict[str, RunState]:
        raise RuntimeError("a fault")

    place.sweeper = Sweeper(states, lambda _: 0, place.wake, place.clock)
    with sweeping(place):
        await until(lambda: place.sweeper._fault)
    with pytest.raises(RuntimeError, match="a fault"):
        place.sweeper.late()


def test_a_sweep_while_an_edited_run_file_is_taken_over_misses_no_change(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = place.states["a"].spec, RunSpec(name="b")
    file = CockpitFile(path=str(place.log.parent / "cockpit.toml"), runs=runs)
    engine = Engine(file, store=None, clock=place.clock)
    sweep = engine._maintenance._sweeper
    told = sweep.once()

    def swept_meanwhile(run: RunSpec, facets: Facets) -> dict[str, tuple[str, ...]]:
        place.log.write_text("a line\n")
        told.extend(sweep.once())
        return watched_paths(run, facets)

    monkeypatch.setattr("cockpit.watch.fleet.watched_paths", swept_meanwhile)
    engine._fleet.adopt(file)
    assert told[:1] == [("a", "log")]


RUN = """
[[run]]
name = "{name}"
final_step = 1000
cadence = "10m"
job = {{ kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }}
checkpoints = {{ path = "checkpoints", layout = "levanter" }}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run whose log and job are asked for by the sweep alone: else once an hour."""
    hourly = poller.Seconds(here=3600.0, away=3600.0)
    monkeypatch.setattr(poller, "SWEPT_LOG", hourly.here)
    monkeypatch.setattr(poller, "UNSEEN_LOG", hourly.here)
    monkeypatch.setattr(poller, "USUAL", dict.fromkeys(poller.USUAL, hourly))
    (tmp_path / "cockpit.toml").write_text(RUN.format(name="real"))
    (tmp_path / "checkpoints").mkdir()
    with (tmp_path / "run.log").open("a") as log:
        child = subprocess.Popen(("sleep", "60"), stdout=log, cwd=tmp_path)
        log.write("step 1/1000 loss=2.5\n")
    (tmp_path / "run.pid").write_text(f"{child.pid}\n")
    yield tmp_path / "cockpit.toml"
    child.kill()
    child.wait()


@asynccontextmanager
async def watching(config: Path) -> AsyncIterator[Engine]:
    engine = Engine(load(config), store=None, clock=SystemClock())
    loop = asyncio.create_task(engine.run())
    try:
        await until(lambda: engine.report().runs[0].facets.job.known)
        yield engine
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop


def edit(config: Path, text: str) -> None:
    config.write_text(text)


def the_run(engine: Engine) -> RunReport:
    return engine.report().runs[0]


def last_line(engine: Engine) -> str:
    log = the_run(engine).facets.log.value
    return log.lines[-1].plain if log is not None and log.lines else ""


async def test_changes_of_local_files_show_at_once_though_the_cadence_is_long(config: Path) -> None:
    folder = config.parent
    async with watching(config) as engine:
        await until(lambda: last_line(engine))
        with (folder / "run.log").open("a") as log:
            log.write("step 2/1000 loss=2.4\n")
        await until(lambda: last_line(engine).startswith("step 2"))
        os.kill(int((folder / "run.pid").read_text()), signal.SIGKILL)
        (folder / "run.exit").write_text("1\n")
        await until(lambda: the_run(engine).alerts)
        job = the_run(engine).facets.job.value
    assert job is not None and job.phase is Phase.FAILED


async def test_a_stopped_process_is_said_within_seconds_though_the_cadence_is_long(
    config: Path,
) -> None:
    pid = int((config.parent / "run.pid").read_text())

    def state() -> str:
        job = the_run(engine).facets.job.value
        return "" if job is None else job.state

    async with watching(config) as engine:
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: [alert.id for alert in the_run(engine).alerts] == ["C-06"])
        assert state() == "stopped"
        os.kill(pid, signal.SIGCONT)
        await until(lambda: not the_run(engine).alerts)
        assert state() == "running"


async def test_a_good_edit_of_the_run_file_is_taken_over_and_a_bad_one_told(config: Path) -> None:
    async with watching(config) as engine:
        edit(config, RUN.format(name="real") + "\ncadense = 3\n")
        await until(lambda: engine.notices)
        assert "cockpit.toml" in engine.notices[0] and "stays in use" in engine.notices[0]
        assert [run.name for run in engine.report().runs] == ["real"]
        reloaded: list[int] = []
        engine.on_reload(lambda file: reloaded.append(len(file.runs)))
        edit(config, RUN.format(name="real") + RUN.format(name="second"))
        await until(lambda: len(engine.report().runs) == 2)
        await until(lambda: engine.report().runs[1].facets.job.known)
        assert reloaded == [2]
        assert engine.notices == ()
        edit(config, RUN.format(name="second"))
        await until(lambda: [run.name for run in engine.report().runs] == ["second"])


def look(run: RunSpec, facets: Facets | None = None) -> dict[tuple[str, str], Signature]:
    return dict(signatures({run.name: watched_paths(run, facets or Facets())}, ProcessStates()))


def woken(run: RunSpec, old: dict[tuple[str, str], Signature]) -> set[str]:
    return {facet for _, facet in changed(old, look(run))}


def test_a_changed_file_wakes_the_facets_it_concerns(tmp_path: Path) -> None:
    run = RunSpec(
        name="r",
        job=JobSpec(kind="local", log=str(tmp_path / "log"), exit_file=str(tmp_path / "exit")),
        wandb=WandbSpec(dir=str(tmp_path / "wandb")),
        checkpoints=CheckpointSpec(path=(str(tmp_path / "ckpt"),)),
        monitor=MonitorSpec(state=str(tmp_path / "scratch" / "*_state.json")),
    )
    before = look(run)
    assert woken(run, before) == set()
    (tmp_path / "log").write_text("a line\n")
    assert woken(run, before) == {"log"}
    before = look(run)
    (tmp_path / "exit").write_text("0")
    assert woken(run, before) == {"job"}
    before = look(run)
    (tmp_path / "ckpt" / "step-1").mkdir(parents=True)
    assert woken(run, before) == {"checkpoints"}
    before = look(run)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "x_state.json").write_text("{}")
    assert woken(run, before) == {"monitor"}
    before = look(run)
    (tmp_path / "wandb").mkdir()
    assert woken(run, before) == {"tracker"}


def test_a_log_that_is_replaced_by_one_of_the_same_size_is_seen(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    run = RunSpec(name="r", job=JobSpec(kind="local", log=str(log)))
    before = look(run)
    (tmp_path / "new").write_text("two\n")
    stamp = log.stat()
    os.utime(tmp_path / "new", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    (tmp_path / "new").replace(log)
    assert "log" in woken(run, before)


def test_paths_that_the_last_look_found_are_watched_too(tmp_path: Path) -> None:
    run = RunSpec(
        name="r", job=JobSpec(kind="local"), monitor=MonitorSpec(state=str(tmp_path / "*.json"))
    )
    state = str(tmp_path / "a.json")
    facets = Facets(
        job=known(JobValue(id="pid:77", state="running", phase=Phase.RUNNING), "t", 1.0),
        monitor=known(MonitorValue(fresh=True, last_update=1.0, cadence_s=5, path=state), "t", 1.0),
    )
    paths = watched_paths(run, facets)
    assert "/proc/77" in paths["process"]
    assert state in paths["monitor"]


def test_nothing_on_another_host_or_in_a_bucket_is_looked_at() -> None:
    run = RunSpec(
        name="r",
        job=JobSpec(kind="box", host="gpu-box", log="/remote/log", pid_file="/remote/pid"),
        wandb=WandbSpec(dir="/remote/wandb"),
        checkpoints=CheckpointSpec(path=("gs://bucket/x",)),
    )
    assert not any(watched_paths(run, Facets()).values())


def test_a_growing_tracker_file_wakes_the_tracker(tmp_path: Path) -> None:
    fragment = tmp_path / "offline-run-1-abc" / "run-abc.wandb"
    fragment.parent.mkdir()
    fragment.write_bytes(b"x")
    run = RunSpec(name="r", wandb=WandbSpec(dir=str(tmp_path)))
    tracked = TrackerValue(id="abc", state="running", files=(str(fragment),))
    facets = Facets(tracker=known(tracked, "W&B", 1.0))
    before = look(run, facets)
    fragment.write_bytes(b"xy")
    assert set(changed(before, look(run, facets))) == {("r", "tracker")}


@pytest.fixture
def sleepers() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "1000"]))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()


@pytest.mark.parametrize("most", [KEPT_OPEN, 0])
def test_a_process_that_is_stopped_goes_on_or_ends_is_another_each_time(
    sleepers: Callable[[], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(sweep, "KEPT_OPEN", most)
    process, states = sleepers(), ProcessStates()
    folder = f"/proc/{process.pid}"
    running = states.of(folder)
    assert running is not None and running[0] == 0
    os.kill(process.pid, signal.SIGSTOP)
    sweep_until(lambda: states.of(folder) == (1, *running[1:]))
    os.kill(process.pid, signal.SIGCONT)
    sweep_until(lambda: states.of(folder) == running)
    process.kill()
    sweep_until(lambda: states.of(folder) == (2, *running[1:]))
    process.wait()
    assert states.of(folder) is None
    states.close()


def test_a_file_kept_open_tells_of_no_other_process_with_the_same_id(
    sleepers: Callable[[], subprocess.Popen[bytes]],
) -> None:
    former, process, states = sleepers(), sleepers(), ProcessStates()
    folder = f"/proc/{process.pid}"
    told = states.of(folder)
    states.close()
    states._files[folder] = FileIO(f"/proc/{former.pid}/stat")  # as if the id were the same
    former.kill()
    former.wait()
    assert told is not None and states.of(folder) == told
    states.close()


def test_nothing_is_kept_open_of_a_process_that_nobody_asks_for_any_more(
    sleepers: Callable[[], subprocess.Popen[bytes]],
) -> None:
    former, process, states = sleepers(), sleepers(), ProcessStates()
    for each in (former, process):
        assert states.of(f"/proc/{each.pid}")
    former.kill()
    former.wait()
    states.let_go()
    assert list(states._files) == [f"/proc/{process.pid}"]
    states.close()
