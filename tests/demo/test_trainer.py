"""The trainer as a process of its own, with the real tracker client and real signals."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.config.file import load
from cockpit.demo.settings import (
    CheckpointerConfig,
    Faults,
    TrainerConfig,
    TrainingConfig,
    read_config,
    write_config,
)
from cockpit.demo.trainer import Training
from cockpit.demo.writing import complete_checkpoints, tracker_of
from cockpit.model.clock import SystemClock
from cockpit.model.observed import CheckpointState, Row, TrackerValue
from cockpit.sources.checkpoints.source import list_checkpoints
from cockpit.sources.wandb.online import OfflineWandb
from tests.queries import queries_of
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def configure(folder: Path, steps: int, pace: float = 100.0, save: float = 60.0) -> None:
    keep = CheckpointerConfig(save_interval=save, permanent_every=20)
    trainer = TrainerConfig(
        id="tiny", num_train_steps=steps, steps_per_second=pace, checkpointer=keep
    )
    write_config(TrainingConfig(trainer=trainer), folder / "config.json")


@contextmanager
def trainer(folder: Path, *faults: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "cockpit.demo.trainer", "--config", str(folder / "config.json")]
    with (folder / "run.log").open("ab") as log:
        process = subprocess.Popen([*argv, *faults], cwd=ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def train(folder: Path, *faults: str) -> int:
    with trainer(folder, *faults) as process:
        return process.wait(timeout=60)


def log(folder: Path) -> str:
    return (folder / "run.log").read_text()


def steps(root: Path) -> list[int]:
    return [step for (step, _, _), _ in complete_checkpoints(root)]


async def tracked(folder: Path) -> tuple[TrackerValue, tuple[Row, ...]]:
    """Return what the cockpit reads of the run's W&B folder."""
    (folder / "cockpit.toml").write_text(
        '[[run]]\nname = "tiny"\n[run.wandb]\nid = "tiny"\ndir = "wandb"\n'
    )
    (run,) = load(folder / "cockpit.toml").runs
    source = OfflineWandb(SystemClock())
    value = (await source.observe(queries_of([run])))["tiny"].value
    assert value is not None
    rows: list[Row] = []
    caught_up = False
    while not caught_up:
        chunk = await source.more_rows(run)
        rows += chunk.rows
        caught_up = chunk.caught_up
    return value, tuple(rows)


async def test_it_learns_saves_and_resumes_where_it_stopped(tmp_path: Path) -> None:
    configure(tmp_path, steps=50)
    assert train(tmp_path) == 0
    assert steps(tmp_path / "checkpoints") == [20, 40, 49]
    assert "Starting from scratch" in log(tmp_path)

    configure(tmp_path, steps=80)
    assert train(tmp_path) == 0
    assert "Resuming training from step 50" in log(tmp_path)
    assert log(tmp_path).count("Starting from scratch") == 1

    value, rows = await tracked(tmp_path)
    assert [row.step for row in rows] == list(range(80))
    assert (value.state, value.step, value.exit_code) == ("finished", 79, 0)
    assert len(value.fragments) == 2
    losses = [row.loss for row in rows if row.loss is not None]
    assert sum(losses[-10:]) < sum(losses[:10]) - 5
    assert all(row.throughput and row.grad_norm for row in rows)


def test_a_resumed_run_continues_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    def weights(folder: Path) -> list[bytes]:
        newest = max(complete_checkpoints(folder / "checkpoints"))[1]
        return [path.read_bytes() for path in sorted((newest / "d").iterdir())]

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder, lengths in ((whole, (24,)), (broken, (12, 24))):
        folder.mkdir()
        for length in lengths:
            configure(folder, steps=length)
            assert train(folder) == 0
    assert weights(whole) == weights(broken)


def test_sigusr1_saves_now_and_sigterm_saves_and_leaves(tmp_path: Path) -> None:
    configure(tmp_path, steps=10_000, pace=15.0)
    permanent, temporary = tmp_path / "checkpoints", tmp_path / "checkpoints-temp"
    with trainer(tmp_path) as process:
        until(lambda: "train step" in log(tmp_path))
        process.send_signal(signal.SIGUSR1)
        until(lambda: steps(temporary) or "Saving temporary" in log(tmp_path))
        lines = log(tmp_path).count("train step")
        until(lambda: log(tmp_path).count("train step") > lines)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
    first, last = log(tmp_path).partition("Received SIGTERM")[::2]
    assert "Saving temporary checkpoint" in first
    newest = max([*steps(permanent), *steps(temporary)])
    assert f"step-{newest} for step {newest}" in last


def test_a_scheduler_that_ends_the_trackers_process_too_still_gets_its_checkpoint(
    tmp_path: Path,
) -> None:
    configure(tmp_path, steps=10_000, pace=15.0)
    with trainer(tmp_path) as process:
        until(lambda: log(tmp_path).count("train step") > 1)  # the client is loaded at the first
        task = Path(f"/proc/{process.pid}/task/{process.pid}")
        until(lambda: (task / "children").read_text().split())
        for child in (task / "children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        until(lambda: "this log alone tells the loss" in log(tmp_path))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
    newest = max(steps(tmp_path / "checkpoints-temp"))
    assert f"step-{newest} for step {newest}" in log(tmp_path).partition("Received SIGTERM")[2]


def test_it_kills_itself_in_a_save_and_leaves_when_its_time_is_over(tmp_path: Path) -> None:
    configure(tmp_path, steps=10_000, save=0.2)
    faults = ("--shard-seconds", "0.01", "--killed-in-save", "2")
    assert train(tmp_path, *faults) == -signal.SIGKILL
    folders = list(tmp_path.glob("checkpoints*/step-*"))
    complete = [each for each in folders if (each / "metadata.json").exists()]
    assert (len(folders), len(complete)) == (2, 1)
    assert train(tmp_path, "--time-limit", "1") == 128 + signal.SIGALRM
    assert "Received SIGALRM: saving a checkpoint and leaving" in log(tmp_path)


def test_what_was_killed_in_a_save_recovers_when_it_is_relaunched_by_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, steps=3)
    killed: list[int] = []
    monkeypatch.setattr("os.kill", lambda _pid, number: killed.append(number))
    for expected in ({signal.SIGKILL}, set[int]()):
        killed.clear()
        training = Training(
            read_config(tmp_path / "config.json"),
            Faults(killed_in_save=1, shard_seconds=0.001),
            tmp_path,
        )
        training.state.step += 1
        training._save(permanent=True)
        assert set(killed) == expected


def test_without_the_trackers_client_the_log_alone_tells_the_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    configure(tmp_path, steps=3)
    tracker = tracker_of(read_config(tmp_path / "config.json"), tmp_path)
    tracker.log({"train/loss": 1.0}, 1)
    tracker.finish(0)
    assert "wandb is not installed here: this log alone tells the loss" in capsys.readouterr().out
    assert not (tmp_path / "wandb").exists()


def test_killed_in_the_middle_of_a_save_it_leaves_a_torn_checkpoint(tmp_path: Path) -> None:
    configure(tmp_path, steps=10_000, save=0.5)
    permanent, temporary = tmp_path / "checkpoints", tmp_path / "checkpoints-temp"
    permanent.mkdir()
    temporary.mkdir()
    with trainer(tmp_path, "--shard-seconds", "0.1") as process:
        until(lambda: complete_checkpoints(temporary) or complete_checkpoints(permanent))
        folders = (permanent, temporary)
        until(lambda: any(list(root.glob("step-*/d/*.__lock")) for root in folders))
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    listed = list_checkpoints([str(permanent), str(temporary)], now=time.time())
    states = [item.state for item in listed.items]
    assert states.count(CheckpointState.COMPLETE) == 1
    assert CheckpointState.COMPLETE is not states[-1]


async def test_a_growing_learning_rate_spikes_and_then_overflows(tmp_path: Path) -> None:
    configure(tmp_path, steps=160, pace=1000.0)
    assert train(tmp_path, "--learning-rate-jump", "60", "1.12") == 0
    _, rows = await tracked(tmp_path)
    losses = [row.loss for row in rows if row.loss is not None]
    finite = [loss for loss in losses if math.isfinite(loss)]
    trend = sorted(finite[40:60])[10]
    assert losses[: len(finite)] == finite
    assert sum(loss > 1.5 * trend for loss in finite[60:]) >= 10
    assert 100 < len(finite) < 155
    assert not any(math.isfinite(loss) for loss in losses[len(finite) :])


def test_a_wrong_key_ends_it_with_a_traceback(tmp_path: Path) -> None:
    configure(tmp_path, steps=100)
    assert train(tmp_path, "--break-at", "30") == 1
    assert log(tmp_path).rstrip().endswith("KeyError: 'storm'")
    assert 'evaluation.py", line' in log(tmp_path)


async def test_slow_input_makes_it_slow(tmp_path: Path) -> None:
    configure(tmp_path, steps=24, pace=50.0)
    assert train(tmp_path, "--input-slows-after", "20", "--input-bytes-per-second", "600") == 0
    _, rows = await tracked(tmp_path)
    speeds = [row.throughput or 0.0 for row in rows]
    assert max(speeds[21:]) < 0.3 * sorted(speeds[5:20])[7]
