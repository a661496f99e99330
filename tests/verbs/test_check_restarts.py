"""C-12 through ``check``: who restarted it does not matter, and an empty bar is no step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cockpit.sources.logs.follow import FIRST
from cockpit.sources.logs.source import WHOLE
from tests.verbs.acting_run import World
from tests.verbs.checking import check

RUN_FILE = """
[cockpit]
cadence = "60s"
operator = "ada"
[[run]]
name = "toy"
final_step = 600
job = { kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }
checkpoints = { path = "checkpoints", layout = "levanter" }
"""
BAR = "{percent:3}%|█  | {step}/600 [00:02<04:53,  1.00it/s]"


def c12(folder: Path) -> list[str]:
    return [alert["title"] for alert in check(folder)["alerts"] if alert["id"] == "C-12"]


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Path]:
    """A run with a complete checkpoint at 460 that somebody has started again by hand."""
    saved = tmp_path / "checkpoints" / "step-460"
    saved.mkdir(parents=True)
    (saved / "metadata.json").write_text('{"step": 460}')
    (saved / "arrays").write_bytes(b"x" * 100)
    for path in (saved / "metadata.json", saved / "arrays"):
        os.utime(path, (time.time() - 600, time.time() - 600))
    (tmp_path / "cockpit.toml").write_text(RUN_FILE)
    trainer = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (tmp_path / "run.pid").write_text(f"{trainer.pid}\n")
    yield tmp_path
    trainer.kill()
    trainer.wait(60)


def test_a_reset_to_step_0_is_seen_whoever_restarted_it(restarted: Path) -> None:
    (restarted / "run.log").write_text("step 29/600 loss=5.1\n")
    assert c12(restarted) == ["Restarted at step 29 although step 460 was there"]


def test_an_empty_bar_is_no_step(restarted: Path) -> None:
    log = restarted / "run.log"
    log.write_text("  0%|          | 0/600 [00:00<?, ?it/s]")
    assert c12(restarted) == [] and check(restarted)["progress"]["step"] is None
    log.write_text("  0%|   | 0/600 [00:00<?, ?it/s]\r" + BAR.format(percent=77, step=461) + "\r")
    assert c12(restarted) == []
    log.write_text("  0%|   | 0/600 [00:00<?, ?it/s]\r" + BAR.format(percent=1, step=4) + "\r")
    assert c12(restarted) == ["Restarted at step 4 although step 460 was there"]


TRAINER = """
import os, sys, time
sys.stderr.write("  0%|          | 0/300 [00:00<?, ?it/s]\\r")
sys.stderr.flush()
while not os.path.exists("go"):
    time.sleep(0.05)
for step in range(41, 300):
    sys.stderr.write(f" 14%|█         | {step}/300 [00:02<00:51,  5.00it/s]\\r")
    sys.stderr.flush()
    time.sleep(0.1)
"""


def test_our_own_relaunch_that_draws_an_empty_bar_first_is_right(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("toy")
    (tmp_path / "code" / "trainer.py").write_text(TRAINER)
    subprocess.run(["git", "commit", "-qam", "bar"], cwd=tmp_path / "code", check=True)
    subprocess.run(["git", "push", "-q"], cwd=tmp_path / "code", check=True)
    world.save("toy", 20, 40)
    world.ended("toy", 137, "step 44/300 loss=2.1", "Killed")
    try:
        approved = ("--approve", "C-15", "--by", "ada", "--reason", "a trainer with a bar")
        world.said("relaunch", "toy")
        done = world.said("relaunch", "toy", "--confirm", "relaunch toy", *approved)
        assert done.returncode == 0, done.stdout + done.stderr
        log = tmp_path / "out" / "toy.log"
        world.until(log.exists)
        seen = {alert["id"] for alert in check(tmp_path)["alerts"]}
        (tmp_path / "code" / "go").touch()
        while "50/300" not in log.read_text():
            seen |= {alert["id"] for alert in check(tmp_path)["alerts"]}
            time.sleep(0.1)
        assert "C-12" not in seen | {alert["id"] for alert in check(tmp_path)["alerts"]}
        history = world.told("history", "toy")[1]
        assert "step 0" not in json.dumps(history)
    finally:
        world.close()


def stamped(steps: range, padding: str) -> str:
    """Lines of a trainer that is quick and says when: all of them since the job's start."""
    begun = datetime.now()
    times = (begun + timedelta(milliseconds=2 * at) for at in range(len(steps)))
    return "".join(
        f"{at:%Y-%m-%d %H:%M:%S.%f} INFO {padding} step {step}/600 loss=2.5\n"
        for at, step in zip(times, steps, strict=True)
    )


def test_a_fresh_look_tells_the_first_step_only_where_it_has_seen_it(restarted: Path) -> None:
    log = restarted / "run.log"
    log.write_text(stamped(range(401, 459), "x" * 700))
    assert FIRST < log.stat().st_size < WHOLE
    assert c12(restarted) == ["Restarted at step 401 although step 460 was there"]


def test_of_a_log_read_from_near_its_end_the_first_step_is_only_the_latest(restarted: Path) -> None:
    log = restarted / "run.log"
    log.write_text(("x" * 700 + "\n") * 800 + stamped(range(401, 459), "x" * 700))
    assert log.stat().st_size > WHOLE
    (title,) = c12(restarted)
    assert title.startswith("Restarted at or before step 4") and title.endswith(
        " although step 460 was there"
    )
