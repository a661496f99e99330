"""A headless watch: who owns a run, and its state files."""

from __future__ import annotations

import json
import os
import pwd
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import FixedClock, Moment
from cockpit.model.run import MonitorSpec, RunSpec
from cockpit.runtime.account import login_name
from cockpit.sources.monitor import Monitors
from cockpit.store.store import Store
from cockpit.watch.fleet import ownership_of, same_process, this_process
from cockpit.watch.headless import MonitorState, StateFile, restarted

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


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    login_name.cache_clear()
    yield
    login_name.cache_clear()


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert login_name() == f"uid {os.getuid()}"


def test_an_owner_is_known_by_kernel_start_and_boot_and_not_by_the_clock() -> None:
    me = this_process("ada")
    assert me.ticks is not None and same_process(me)
    for step in (-86400.0, -7200.0, 10.0, 7200.0):
        assert me.started_at is not None
        assert same_process(me.model_copy(update={"started_at": me.started_at + step}))
    assert not same_process(me.model_copy(update={"ticks": me.ticks - 1}))
    assert not same_process(me.model_copy(update={"boot": "another"}))


def test_the_owner_that_a_store_gives_back_is_the_same(tmp_path: Path) -> None:
    own = ownership_of(Store(tmp_path / "store.sqlite"))
    me = this_process("ada")
    assert own is not None and own.claim("r", me, Moment(1.0), 60.0) is None
    found = own.owner("r", Moment(1e9))
    assert found is not None and found.owner == me


NAME = "20260311-0855_monitoring_state.json"


def state(folder: Path, **fields: object) -> Path:
    path = folder / NAME
    path.write_text(json.dumps(fields))
    return path


def read_monitor(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text())
    return found


def test_a_restart_changes_its_fields_and_no_other(tmp_path: Path) -> None:
    path = state(tmp_path, job_id="old", restart_count=1, mcp_url="http://x", mine=[1])
    restarted(path, "new", 2, 1000.0)
    assert read_monitor(path) == {
        "job_id": "new", "restart_count": 2, "mcp_url": "http://x", "mine": [1],
        "retired_job_id": "old", "retired_at": 1_000_000,
    }  # fmt: skip


def test_done_twice_it_is_the_same(tmp_path: Path) -> None:
    path = state(tmp_path, job_id="old")
    restarted(path, "new", 1, 1000.0)
    once = read_monitor(path)
    restarted(path, "new", 1, 2000.0)
    assert read_monitor(path) == once


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
    assert read_monitor(path)["restart_count"] == 1
