"""Why a job ended, through ``check`` and the plan of a relaunch: real logs, a real launcher."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.launches import start
from cockpit.hosts.supervisor import Launch
from tests.verbs.acting_run import World
from tests.verbs.checking import check

RUN_FILE = """
[cockpit]
cadence = "60s"
operator = "bob"
[[run]]
name = "toy"
dri = "ada"
job = {{ kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }}
checkpoints = {{ path = "checkpoints", layout = "levanter" }}
{more}
"""
TRAIN = [f"step {i}/100000 | loss {3 - i / 1000:.3f} | 1.2 it/s" for i in range(1, 201)]
NAN = ["Traceback (most recent call last):", '  File "/home/ada/train.py", line 9, in main',
       "    raise RuntimeError(text)", "RuntimeError: Loss is NaN"]  # fmt: skip
FRAMES = [
    f"frame #{i}: c10d::watchdog() + 0x{i * 77:x} (0x7f{i * 991:x} in a.so)" for i in range(60)
]
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"


def ended(folder: Path, status: int, lines: Sequence[str], more: str = "") -> dict[str, Any]:
    """Leave a job that is over, and look at it."""
    saved = folder / "checkpoints" / "step-100"
    saved.mkdir(parents=True, exist_ok=True)
    (saved / "metadata.json").write_text('{"step": 100}')
    (saved / "arrays").write_bytes(b"x" * 100)
    (folder / "cockpit.toml").write_text(RUN_FILE.format(more=more))
    (folder / "run.log").write_text("\n".join(lines) + "\n")
    (folder / "run.pid").write_text("4194300\n")
    (folder / "run.exit").write_text(f"{status}\n")
    return check(folder)


def triage(run: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = run["facets"]["log"]["value"]["triage"]
    return found


@pytest.mark.parametrize("between", [60, 15_000])
def test_the_cause_far_above_the_tail_decides(tmp_path: Path, between: int) -> None:
    frames = (FRAMES * (between // 60))[:between]
    lines = [*TRAIN, *NAN, *frames, *[RESET] * 8]
    run = ended(tmp_path, 1, lines)
    found = triage(run)
    assert (found["class"], found["action"]) == ("numeric_instability", "escalate")
    assert [line["line"] for line in found["evidence"]] == [lines.index(NAN[-1]) + 1]
    assert found["read"]["whole"] and len(run["facets"]["log"]["value"]["lines"]) <= 50
    (alert,) = [alert for alert in run["alerts"] if alert["id"] == "C-01"]
    place = f"{tmp_path / 'run.log'}:{lines.index(NAN[-1]) + 1}"
    assert place in [each["source"] for each in alert["evidence"]]
    assert run["next_action"].startswith("tell ada yourself")
    assert run["progress"]["step"] == found["step"] is not None


def test_what_was_not_read_is_said_and_echoes_alone_decide_nothing(tmp_path: Path) -> None:
    run = ended(tmp_path, 1, [*TRAIN, *NAN, *FRAMES * 400, *[RESET] * 8])
    found = triage(run)
    assert (found["class"], found["action"]) == ("unknown", "escalate")
    assert not found["read"]["whole"]
    (alert,) = [alert for alert in run["alerts"] if alert["id"] == "C-01"]
    said = [each["text"] for each in alert["evidence"]]
    assert "not the whole log: only its last 20,000 lines were read" in said


def test_the_plan_and_the_pages_rest_on_the_same_diagnosis(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("toy")
    world.save("toy", 20, 40)
    lines = [*TRAIN, "RuntimeError: Loss is NaN", *FRAMES, *[RESET] * 8]
    world.ended("toy", 1, *lines)
    code, plan, _ = world.told("relaunch", "toy")
    (verdict,) = [each for each in plan["checks"] if each["id"] == "T"]
    assert code == 4 and verdict["level"] == "block" and "Loss is NaN" in verdict["text"]
    assert "numerical instability" in json.dumps(world.told("escalate", "toy")[1])


TRAINER = """
import sys, time
for step in range(1, 60):
    print(f"step {step}/100000 | loss {3 - step / 1000:.3f} | 1.2 it/s", flush=True)
if sys.argv[1] == "nan":
    raise RuntimeError("Loss is NaN")
time.sleep(600)
"""


def launched(folder: Path, word: str) -> int:
    launch = Launch(
        command=[sys.executable, "-c", TRAINER, word], log=folder / "run.log",
        pid_file=folder / "run.pid", exit_file=folder / "run.exit", cwd=folder,
    )  # fmt: skip
    return start(launch).pid


def until(true: Any) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def test_a_former_job_s_end_in_the_same_log_is_not_this_one_s(tmp_path: Path) -> None:
    (tmp_path / "cockpit.toml").write_text(RUN_FILE.format(more=""))
    launched(tmp_path, "nan")
    until((tmp_path / "run.exit").exists)
    assert triage(check(tmp_path))["class"] == "numeric_instability"
    pid = launched(tmp_path, "sleep")
    log = tmp_path / "run.log"
    until(lambda: log.read_text().count("step 59/") == 2)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until((tmp_path / "run.exit").exists)
    found = triage(check(tmp_path))
    assert (found["class"], found["read"]["since"]) == ("killed", "recorded")
    last = log.read_text().splitlines()
    assert found["evidence"][-1] == {"line": len(last), "text": last[-1]}


def test_sigterm_that_ends_with_0_short_of_the_end_is_no_success(tmp_path: Path) -> None:
    lines = [*TRAIN[:29], "[rank: 0] Received SIGTERM: 15"]
    run = ended(tmp_path, 0, lines, "final_step = 300")
    assert run["verdict"] == "attention" and triage(run)["class"] == "user_stopped"
    (alert,) = [alert for alert in run["alerts"] if alert["id"] == "C-19"]
    assert alert["title"] == "Not a success: it ended at step 29 of 300"
    assert "seal" not in run["next_action"].replace("do not seal", "")
    blind = ended(tmp_path, 0, lines)
    assert triage(blind)["confidence"] == "guess"
    (alert,) = [alert for alert in blind["alerts"] if alert["id"] == "C-19"]
    assert "told to stop" in alert["title"] and alert["confidence"] == "likely"


def test_a_run_that_reached_its_end_is_a_success_whatever_it_shouts(tmp_path: Path) -> None:
    run = ended(tmp_path, 0, [*TRAIN, "Received SIGTERM: 15"], "final_step = 200")
    assert (triage(run)["class"], triage(run)["confidence"]) == ("success", "sure")


def test_the_relaunch_of_one_that_a_signal_ended_cleanly_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("toy")
    world.save("toy", 20, 40)
    world.ended("toy", 0, *TRAIN[:44], "[rank: 0] Received SIGTERM: 15")
    checks = {each["id"]: each for each in world.told("relaunch", "toy")[1]["checks"]}
    assert checks["job-state"]["level"] == "warn"
    assert checks["T"]["level"] == "warn"
    assert "nobody is recorded as having done it" in checks["T"]["text"]
    assert "SIGTERM" in checks["T"]["text"]


def test_a_job_that_is_gone_without_a_status_is_diagnosed_too(tmp_path: Path) -> None:
    ended(tmp_path, 1, [*TRAIN, "torch.OutOfMemoryError: CUDA out of memory.", *FRAMES])
    (tmp_path / "run.exit").unlink()
    run = check(tmp_path)
    assert triage(run)["class"] == "oom_device"
    assert run["next_action"].startswith("tell ada yourself")


def test_steps_above_long_farewells_are_not_missing(tmp_path: Path) -> None:
    run = ended(tmp_path, 0, [*TRAIN, *FRAMES * 10], "final_step = 200")
    assert triage(run)["class"] == "success"
    titles = [alert["title"] for alert in run["alerts"] if alert["id"] == "C-19"]
    assert titles == ["Exited with success, but no complete checkpoint of the final step 200"]
