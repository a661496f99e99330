""""""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

import pytest

from cockpit.model.facet import known
from cockpit.model.observed import JobValue, MonitorValue, Phase, TrackerValue
from cockpit.model.report import Facets
from cockpit.model.run import CheckpointSpec, JobSpec, MonitorSpec, RunSpec, WandbSpec
from cockpit.watch import sweep
from cockpit.watch.sweep import (
    KEPT_OPEN,
    ProcessStates,
    Signature,
    changed,
    signatures,
    watched_paths,
)
from tests.waiting import until


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
    until(lambda: states.of(folder) == (1, *running[1:]))
    os.kill(process.pid, signal.SIGCONT)
    until(lambda: states.of(folder) == running)
    process.kill()
    until(lambda: states.of(folder) == (2, *running[1:]))
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
