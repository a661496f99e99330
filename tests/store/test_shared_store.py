"""Two machines on one home: what one has written the other reads, whoever is killed or stopped."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cockpit.runtime.mounts import file_system
from cockpit.store import shared_file, shared_lock
from cockpit.store import store as tested
from cockpit.store.described import described, last_holder
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.shared_file import is_shared, locks_of
from cockpit.store.store import Store, StoreError
from tests.store import other_machine
from tests.store.other_machine import BIG

ROWS = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store will lie that the file server's own machine was told is shared."""
    home = tmp_path / "home"
    home.mkdir()
    locks_of(home / "store.sqlite").mkdir()
    return home / "store.sqlite"


@contextmanager
def elsewhere(name: str, path: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process on another machine."""
    pipe = subprocess.PIPE
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-m", other_machine.__name__, name, str(path), *more],
        stdin=pipe,
        stdout=pipe,
        text=True,
        cwd=root,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def filled(path: Path) -> Store:
    store = Store(path)
    with store.writing():
        for number in range(ROWS):
            RunMemory(store).add_launch("r", LaunchedJob(at=float(number), job_id=BIG))
    return store


def jobs(path: Path) -> set[str]:
    """Return what the launches say, read as another program would; the file must be sound."""
    with closing(sqlite3.connect(path.resolve())) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return {row[0] for row in connection.execute("SELECT job_id FROM launches")}


def test_it_has_no_memory_of_one_machine(path: Path) -> None:
    store = filled(path)
    with store.reading() as connection:
        modes = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "mmap_size")
        ]
    assert modes == ["truncate", 2, 0]
    assert not [each.name for each in path.parent.iterdir() if each.name.endswith(("-wal", "-shm"))]
    assert path.stat().st_mode & 0o077 == 0


def test_what_one_machine_writes_another_reads_and_is_told_of(path: Path) -> None:
    store = filled(path)
    before = store.version()
    RunMemory(store).add_launch("r", LaunchedJob(at=1e6, job_id="mine"))
    assert store.version() == before
    with elsewhere("login2", path, "write") as other:
        assert said(other) == "0"
    assert store.version() != before
    found = RunMemory(store).last_launch("login2")
    assert found is not None
    assert found.job_id == BIG


@pytest.mark.parametrize("plain", [(), ("plain",)], ids=["locks", "no locks"])
def test_one_that_sleeps_in_the_middle_and_wakes_up_changes_nothing(
    plain: tuple[str, ...], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its power may be gone, or it is only stopped: both look the same from here."""
    monkeypatch.setattr(shared_lock, "LOST", 0.3)
    monkeypatch.setattr(shared_lock, "BEAT", 60.0)
    if plain:
        monkeypatch.setattr(shared_file, "_has_locks", lambda folder: False)
    filled(path).close()
    with elsewhere("login1", path, "stick", *plain) as other:
        assert said(other) == "half"
        os.kill(other.pid, 19)
        store = Store(path)
        RunMemory(store).add_launch("r", LaunchedJob(at=1e6, job_id="taken over"))
        assert jobs(path) == {BIG, "taken over"}
        os.kill(other.pid, 18)
        tell(other)
        assert "another took over" in said(other)
    RunMemory(store).add_launch("r", LaunchedJob(at=2e6, job_id="after"))
    assert jobs(path) == {BIG, "taken over", "after"}
    assert RunMemory(Store(path)).last_launch("r") == LaunchedJob(at=2e6, job_id="after")
    store.close()
    path.rename(path.with_name("away"))
    RunMemory(Store(path)).add_launch("r", LaunchedJob(at=1.0, job_id="anew"))
    assert jobs(path) == {"anew"}
    assert len([each for each in path.parent.iterdir() if each.is_file()]) <= 3


def test_one_that_was_killed_in_the_middle_costs_its_own_change_only(path: Path) -> None:
    filled(path).close()
    with elsewhere("", path, "stick") as other:
        assert said(other) == "half"
        other.kill()
        other.wait()
        store = Store(path)
    RunMemory(store).add_launch("r", LaunchedJob(at=1e6, job_id="after"))
    assert jobs(path) == {BIG, "after"}


def test_one_that_lives_is_waited_for_and_named_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tested, "SHARED_PATIENCE", 0.2)
    store = filled(path)
    with elsewhere("login1", path, "stick") as other:
        assert said(other) == "half"
        for _ in range(50):  # many questions, one wait
            with pytest.raises(StoreError, match=r"login1, pid \d+ holds it"):
                store.version()
        tell(other)
        assert said(other) == "kept"
    assert store.version() > 0


def test_a_look_writes_nothing_and_sees_no_half_change(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tested, "BUSY_SECONDS", 0.1)
    filled(path).close()
    with elsewhere("login1", path, "stick") as other:
        assert said(other) == "half"
        names = sorted(each.name for each in path.parent.rglob("*"))
        reader = Store(path, read_only=True)
        assert RunMemory(reader).last_launch("r") == LaunchedJob(at=ROWS - 1.0, job_id=BIG)
        with pytest.raises(StoreError, match="cannot be opened for writing"):
            RunMemory(reader).add_launch("r", LaunchedJob(at=2e6, job_id="k"))
        reader.close()
        assert sorted(each.name for each in path.parent.rglob("*")) == names


def test_a_store_of_one_machine_becomes_a_shared_one_for_whoever_has_it_open(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.sqlite"
    store = filled(path)
    assert path.with_name("store.sqlite-wal").exists()
    locks_of(path).mkdir()
    with pytest.raises(StoreError, match="has it open; end that one"):
        Store(path)
    RunMemory(store).add_launch("r", LaunchedJob(at=1e6, job_id="k"))  # it gives way by itself
    assert RunMemory(Store(path)).last_launch("r") == LaunchedJob(at=1e6, job_id="k")
    assert jobs(path) == {BIG, "k"}
    assert not path.with_name("store.sqlite-wal").exists()


def test_where_locks_do_not_cross_only_a_person_can_say_that_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.sqlite"
    code = "import os, sys; from tests.store.test_shared_store import *;"
    code += " filled(Path(sys.argv[1])); os._exit(9)"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code, str(path)], check=False, cwd=root)
    index = path.with_name("store.sqlite-shm")
    assert index.exists()
    monkeypatch.setattr(shared_file, "_has_locks", lambda folder: False)
    locks_of(path).mkdir()
    with pytest.raises(StoreError, match=r"then remove store\.sqlite-shm alone"):
        Store(path)
    index.unlink()
    assert RunMemory(Store(path)).last_launch("r") is not None
    assert jobs(path) == {BIG}


def test_a_link_that_a_person_made_is_followed(tmp_path: Path) -> None:
    real = tmp_path / "scratch" / "store.sqlite"
    real.parent.mkdir()
    locks_of(real).mkdir()
    link = tmp_path / "store.sqlite"
    link.symlink_to(real)
    filled(link)
    assert is_shared(real)
    assert jobs(real) == {BIG}
    assert not locks_of(link).exists()


def test_it_is_told_how_it_is_kept_and_who_had_it(path: Path) -> None:
    with elsewhere("login2", path, "write") as other:
        assert said(other) == "0"
    assert re.search(r"held by login2, pid \d+$", last_holder(path) or "")
    told = described(path)
    assert file_system(path.parent).kind in told
    assert told.endswith("locked for several machines in store.sqlite.locks; journal truncate")
    alone = path.parent.parent / "store.sqlite"
    assert last_holder(alone) is None
    assert described(alone).endswith("of this machine; journal wal")
