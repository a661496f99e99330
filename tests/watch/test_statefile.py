from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import FixedClock
from cockpit.model.run import MonitorSpec, RunSpec
from cockpit.sources.monitor import Monitors
from cockpit.watch.headless import MonitorState, StateFile

CREATED = datetime(2026, 3, 11, 8, 55, 42, tzinfo=UTC).timestamp()


def payload(at: float = CREATED, **more: Any) -> MonitorState:
    fields = {"run": "a", "job_id": "/ada/a", "owner": "cockpit", "restart_count": 0, **more}
    return MonitorState(ts=at, **fields)


def read(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_the_name_is_the_minute_of_creation_and_stays(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "scratch", CREATED)
    first = file.write(payload(cadence_s=570, last_signal="step 12"))
    second = file.write(payload(CREATED + 999, restart_count=1))
    assert first == second
    assert first == tmp_path / "scratch" / "20260311-0855_monitoring_state.json"
    assert read(first) == {
        "ts": round((CREATED + 999) * 1000),
        "run": "a",
        "job_id": "/ada/a",
        "owner": "cockpit",
        "restart_count": 1,
        "cadence_s": 570.0,
        "last_signal": "step 12",
    }
    assert [each.name for each in first.parent.iterdir()] == [first.name]


def test_what_others_wrote_into_it_is_kept(tmp_path: Path) -> None:
    file = StateFile(tmp_path, CREATED)
    path = file.write(payload())
    path.write_text(json.dumps({**read(path), "mcp_url": "http://x", "note": [1]}))
    file.write(payload(CREATED + 1))
    assert (read(path)["mcp_url"], read(path)["note"]) == ("http://x", [1])


def test_a_file_of_the_same_minute_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    ours = StateFile(tmp_path, CREATED).write(payload())
    other = StateFile(tmp_path, CREATED).write(payload(run="b"))
    foreign = StateFile(tmp_path, CREATED).write(payload(owner="bob"))
    assert len({ours, other, foreign}) == 3
    assert read(ours)["run"] == "a" and read(other)["run"] == "b"
    assert all(path.name.endswith("_monitoring_state.json") for path in (other, foreign))


def test_a_watch_that_starts_again_at_once_takes_up_its_file(tmp_path: Path) -> None:
    ours = StateFile(tmp_path, CREATED).write(payload())
    again = StateFile(tmp_path, CREATED).write(payload(CREATED + 5))
    assert again == ours and read(again)["ts"] == round((CREATED + 5) * 1000)


def test_a_broken_file_is_replaced_by_a_whole_one(tmp_path: Path) -> None:
    file = StateFile(tmp_path, CREATED)
    path = file.write(payload())
    path.write_text("{")
    file.write(payload())
    assert read(path)["run"] == "a"


def test_secrets_do_not_reach_the_file(tmp_path: Path) -> None:
    key = "0a1b2c3d4e" * 4
    path = StateFile(tmp_path, CREATED).write(
        payload(resubmit_command=f"WANDB_API_KEY={key} python train.py")
    )
    assert key not in path.read_text() and "train.py" in path.read_text()


def test_a_reader_never_sees_a_half(tmp_path: Path) -> None:
    file = StateFile(tmp_path, CREATED)
    path = file.write(payload())
    stop = threading.Event()
    seen: list[int] = []

    def watch() -> None:
        while not stop.is_set():
            seen.append(read(path)["ts"])

    reader = threading.Thread(target=watch)
    reader.start()
    for count in range(50):
        file.write(payload(CREATED + count, last_signal="x" * 5000))
    stop.set()
    reader.join()
    assert seen and seen == sorted(seen)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "scratch").write_text("a file")
    with pytest.raises(OSError, match="scratch"):
        StateFile(tmp_path / "scratch", CREATED).write(payload())


async def test_our_own_reader_understands_it(tmp_path: Path) -> None:
    StateFile(tmp_path, CREATED).write(payload(cadence_s=5, last_signal="step 12"))
    monitor = MonitorSpec(state=str(tmp_path / "*_monitoring_state.json"))
    run = RunSpec(name="a", monitor=monitor)
    value = (await Monitors(FixedClock(CREATED + 9)).observe([run]))["a"].value
    assert value is not None
    assert (value.fresh, value.owner, value.cadence_s) == (True, "cockpit", 5.0)
    assert (value.job_id, value.last_signal) == ("/ada/a", "step 12")


def test_a_file_that_became_another_run_s_is_named_and_left_alone(tmp_path: Path) -> None:
    file = StateFile(tmp_path, CREATED)
    path = file.write(payload())
    path.write_text(json.dumps({"run": "b", "owner": "bob", "ts": 5}))
    with pytest.raises(OSError, match=r"now belongs to run b \(bob\); expected run a"):
        file.write(payload(CREATED + 1))
    assert read(path) == {"run": "b", "owner": "bob", "ts": 5}
    other = file.write(payload(CREATED + 2))
    assert other != path
    assert read(other)["run"] == "a"


def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    file = StateFile(tmp_path, CREATED)
    path = file.write(payload())
    path.unlink()
    os.mkfifo(path)
    assert read(file.write(payload(CREATED + 1)))["run"] == "a"
