"""What lies in the store's place, or who locks it, costs the history and no time."""

from __future__ import annotations

import os
import sqlite3
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


@pytest.mark.parametrize("name", ["store.sqlite", "store.sqlite-journal", "store.sqlite-wal"])
def test_a_pipe_in_its_place_is_named_and_not_read(
    name: str, config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if name != "store.sqlite":
        Store(store_path()).close()
    os.mkfifo(store_path().with_name(name))
    assert main(["check", "--config", str(config)]) == 3
    out, err = capfd.readouterr()
    assert f"{store_path()}: is a pipe, a socket or a device; expected a file" in err
    assert err.count("\n") == 1
    assert "run-19" in out


def test_a_locked_one_is_waited_for_once_for_all_runs(
    config: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    begin = Store._begin

    def noted(self: Store, connection: sqlite3.Connection) -> None:
        try:
            begin(self, connection)
        finally:
            waits.append(connection.execute("PRAGMA busy_timeout").fetchone()[0] / 1000)

    Store(store_path()).close()
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.5)
    monkeypatch.setattr(Store, "_begin", noted)
    with closing(sqlite3.connect(store_path(), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert main(["watch", "--once", "--config", str(config)]) == 3
    assert len(waits) > 20
    assert waits[0] == 0.5
    assert sum(waits) < 2.0
    assert "kept it locked" in capfd.readouterr().err
