from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.watch.headless import MonitorState, StateFile, restarted

NAME = "20260311-0855_monitoring_state.json"


def state(folder: Path, **fields: object) -> Path:
    path = folder / NAME
    path.write_text(json.dumps(fields))
    return path


def read(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text())
    return found


def test_a_restart_changes_its_fields_and_no_other(tmp_path: Path) -> None:
    path = state(tmp_path, job_id="old", restart_count=1, mcp_url="http://x", mine=[1])
    restarted(path, "new", 2, 1000.0)
    assert read(path) == {
        "job_id": "new", "restart_count": 2, "mcp_url": "http://x", "mine": [1],
        "retired_job_id": "old", "retired_at": 1_000_000,
    }  # fmt: skip


def test_done_twice_it_is_the_same(tmp_path: Path) -> None:
    path = state(tmp_path, job_id="old")
    restarted(path, "new", 1, 1000.0)
    once = read(path)
    restarted(path, "new", 1, 2000.0)
    assert read(path) == once


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_what_is_no_state_file_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / NAME
    path.write_text(text)
    with pytest.raises(OSError, match="state file"):
        restarted(path, "new", 1, 0.0)
    assert path.read_text() == text


def test_a_monitor_that_has_not_heard_yet_does_not_count_back(tmp_path: Path) -> None:
    file = StateFile(tmp_path, 0.0)
    path = file.write(MonitorState(ts=1.0, run="toy", job_id="old", restart_count=0))
    restarted(path, "new", 1, 2.0)
    file.write(MonitorState(ts=3.0, run="toy", job_id="new", restart_count=0))
    assert read(path)["restart_count"] == 1
