"""What lies in the store's place, or who locks it, costs the history and no time."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.config.file import store_path
from cockpit.store import store
from cockpit.store.store import Store


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "cockpit.toml"
    path.write_text("".join(f'[[run]]\nname = "run-{number}"\n' for number in range(20)))
    store_path().parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("end", ["", "-journal", "-wal"])
def test_a_pipe_in_its_place_is_named_and_not_read(
    end: str, config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if end:
        Store(store_path()).close()
    os.mkfifo(f"{store_path()}{end}")
    assert main(["check", "--config", str(config)]) == 3
    out, err = capfd.readouterr()
    assert f"{store_path()}: is a pipe, a socket or a device; expected a file" in err
    assert err.count("\n") == 1
    assert "run-19" in out


def test_a_locked_one_is_waited_for_once_for_all_runs(
    config: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(store_path()).close()
    monkeypatch.setattr(store, "BUSY_SECONDS", 1.0)
    with closing(sqlite3.connect(store_path(), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert main(["watch", "--once", "--config", str(config)]) == 3
    assert 1.0 < time.monotonic() - began < 20.0, "a second was waited for each of twenty runs"
    assert "kept it locked" in capfd.readouterr().err
