"""The store of older cockpits, shared by all machines of a home: taken over once, and whole."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from cockpit.store import old_store
from cockpit.store.journal import Busy, Journal
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.ownership import Holder, this_holder
from cockpit.store.store import EmptyStoreError, Store, StoreError, described
from tests.store.other_machine import BIG, elsewhere
from tests.store.test_launch_memory import plan

DEAD = Holder(host="login9", pid=1, machine="9", boot="9")
SOAK = bool(os.environ.get("SOAK"))
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where this machine's store will lie."""
    return tmp_path / "store-here.sqlite"


def fill(path: Path, holder: Holder = DEAD) -> Path:
    """Make an old store, with an action that nobody has ended; return its path."""
    with closing(Store(path.with_name("store.sqlite"))) as store:
        begun = Journal(store).begin(
            "r", plan(), "ada", holder, 10.0, exclusive=True, launch_id="r-1"
        )
        assert begun.outcome is None
        with store.writing():
            for number in range(60):
                RunMemory(store).add_launch("r", LaunchedJob(at=float(number), job_id=BIG))
        return store.path


def share(old: Path, state: str = "free", file: str = "store.sqlite") -> Path:
    """Make it one that several machines use; ``state``: what the last holder has left."""
    locks = old.with_name("store.sqlite.locks")
    locks.mkdir()
    said = {"holder": DEAD.model_dump(), "nonce": "n", "file": file}
    (locks / f"{7:012d}").write_text(f"{state} {3:012d}\n{json.dumps(said)}".ljust(2047) + "\n")
    return locks


def unfinished(path: Path) -> list[str | None]:
    with closing(Store(path)) as store, store.reading() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        count = connection.execute("SELECT count(*), min(length(job_id)) FROM launches").fetchone()
        assert tuple(count) in ((60, len(BIG)), (0, None))
        return [entry.launch_id for entry in Journal(store).unfinished("r")]


@pytest.mark.parametrize("shared", [False, True])
def test_all_of_it_is_taken_by_whoever_opens_first(path: Path, *, shared: bool) -> None:
    old = fill(path)
    if shared:
        share(old)
    other = path.with_name("store-other.sqlite")
    assert unfinished(path) == ["r-1"]
    assert unfinished(other) == [], "what was begun is in one store alone"
    assert unfinished(path) == ["r-1"]
    with pytest.raises(StoreError, match="newer cockpit"):
        Store(old)  # as an older cockpit does
    assert "store.sqlite was taken into store-here.sqlite" in described(other)
    assert "was taken into" not in described(path)
    with closing(Store(path)) as store, pytest.raises(Busy):
        Journal(store).begin("r", plan(), "bob", this_holder(), 20.0, exclusive=True)


def test_a_link_to_what_was_copied_at_a_takeover_is_followed(path: Path) -> None:
    old = fill(path)
    old.rename(old.with_name("store.sqlite.g5"))
    old.symlink_to("store.sqlite.g5")
    share(old, file="store.sqlite.g5")
    assert unfinished(path) == ["r-1"]
    for name in ("store.sqlite", "store.sqlite.g5"):
        with pytest.raises(StoreError, match="newer cockpit"):
            Store(path.with_name(name))


def test_an_older_cockpit_that_has_it_open_begins_nothing_more(path: Path) -> None:
    old = Store(fill(path))
    late = sqlite3.connect(old.path, isolation_level=None)  # it waited for its turn meanwhile
    assert late.execute("SELECT count(*) FROM actions").fetchone() == (1,)
    assert unfinished(path) == ["r-1"]
    with pytest.raises(StoreError, match="no such table"):
        Journal(old).begin("r", plan(), "ada", DEAD, 20.0, exclusive=False)
    with pytest.raises(StoreError, match="newer cockpit"):
        Store(old.path)
    with pytest.raises(sqlite3.Error, match="no such table"):
        late.execute("UPDATE actions SET message = 'late'")
    late.close()
    old.close()


def test_while_an_older_cockpit_acts_nothing_is_taken(path: Path) -> None:
    old = fill(path, this_holder())
    with pytest.raises(StoreError, match=rf"\(.*pid {os.getpid()}\) is acting"):
        Store(path)
    assert not path.exists()
    with closing(Store(old)) as store:
        assert [entry.launch_id for entry in Journal(store).unfinished("r")] == ["r-1"]


def test_a_machine_that_is_writing_is_named_and_one_that_was_killed_is_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = share(fill(path), "held") / f"{7:012d}"
    now = 0.0

    def beat(seconds: float) -> None:
        nonlocal now
        now += seconds
        held.write_bytes(
            held.read_bytes()[:5] + f"{int(now):012d}".encode() + held.read_bytes()[17:]
        )

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    with monkeypatch.context() as patch, pytest.raises(StoreError, match="another machine is writ"):
        patch.setattr(time, "sleep", beat)
        Store(path)
    assert not path.exists()
    monkeypatch.setattr(time, "sleep", wait)
    assert unfinished(path) == ["r-1"], "one that gives no sign of life is gone"


@pytest.mark.parametrize("shared", [False, True])
def test_a_write_that_was_cut_off_is_undone(path: Path, *, shared: bool) -> None:
    old = fill(path)
    with closing(sqlite3.connect(old)) as connection:
        mode = "TRUNCATE" if shared else "WAL"
        connection.execute(f"PRAGMA journal_mode = {mode}")
    if shared:
        share(old)
    with elsewhere(old) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.kill()
        process.wait()
    assert unfinished(path) == ["r-1"]


def killed_at(line: int, path: Path) -> bool:
    """Open the store in a process that dies at so many lines of the takeover; tell if it did."""
    pid = os.fork()
    if pid == 0:
        left = line

        def trace(frame: FrameType, event: str, _: object) -> object:
            nonlocal left
            if frame.f_code.co_filename != old_store.__file__:
                return None
            left -= event == "line"
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)  # type: ignore[arg-type]
        Store(path).close()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("shared", [False, True])
def test_a_kill_at_any_moment_loses_nothing_and_doubles_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    monkeypatch.setattr(old_store, "SILENT", 0.0)  # of the one that was killed
    whole = path.with_name("whole")
    whole.mkdir()
    if shared:
        share(fill(whole / path.name))
    else:
        with closing(Store(fill(whole / path.name))):  # open, so that its log is beside it
            killed = shutil.copytree(whole, path.with_name("killed"))
        whole = killed
        assert (whole / "store.sqlite-wal").exists()
    for line in itertools.count(0, 1 if SOAK else 17):
        folder = shutil.copytree(whole, path.with_name(f"at-{line}"))
        place = folder / path.name
        died = killed_at(line, place)
        if not place.exists():
            with pytest.raises(StoreError, match="open the cockpit once"):
                Store(place, read_only=True)
        assert unfinished(place) == ["r-1"], f"killed at line {line}"
        assert unfinished(folder / "store-other.sqlite") == [], f"killed at line {line}"
        shutil.rmtree(folder)
        if not died:
            assert line > 60
            return


def cut_off(path: Path, patch: pytest.MonkeyPatch) -> None:
    """End a takeover before the finished copy has its name."""

    def cut(_: Path, __: Path) -> None:
        raise KeyboardInterrupt

    with patch.context() as inner, pytest.raises(KeyboardInterrupt):
        inner.setattr(Path, "rename", cut)
        Store(path)


def test_who_only_looks_says_that_a_takeover_was_cut_off(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path)
    cut_off(path, monkeypatch)
    with pytest.raises(StoreError, match="open the cockpit once") as told:
        Store(path, read_only=True)
    assert not isinstance(told.value, EmptyStoreError), "there is an unfinished action"
    with pytest.raises(EmptyStoreError):
        Store(path.with_name("store-other.sqlite"), read_only=True)
    assert unfinished(path) == ["r-1"]


def test_a_store_that_was_deleted_after_the_takeover_is_missed(path: Path) -> None:
    fill(path)
    assert unfinished(path) == ["r-1"]
    path.unlink()
    with pytest.raises(StoreError, match="was deleted; actions") as told:
        Store(path, read_only=True)
    assert not isinstance(told.value, EmptyStoreError)
    assert unfinished(path) == []
    assert "was deleted and begun anew" in described(path)
    assert "begun anew" not in described(path.with_name("store-other.sqlite"))


def test_nobody_else_writes_while_it_is_copied(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fill(path)
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("PRAGMA journal_mode = TRUNCATE")
    code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    copy, said = old_store._copy, []

    def slow(*args: Any) -> None:
        copy(*args)
        argv = [sys.executable, "-c", code, str(old)]
        said.append(subprocess.run(argv, check=False, capture_output=True, text=True).stderr)

    monkeypatch.setattr(old_store, "_copy", slow)
    assert unfinished(path) == ["r-1"]
    assert len(said) == 1 and "database is locked" in said[0]


def test_one_that_was_taken_for_dead_takes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = share(fill(path))
    copy = old_store._copy

    def slow(*args: Any) -> None:
        copy(*args)
        (locks / f"{9:012d}").write_bytes((locks / f"{7:012d}").read_bytes())

    with monkeypatch.context() as patch, pytest.raises(StoreError, match="another machine took"):
        patch.setattr(old_store, "_copy", slow)
        patch.setattr(old_store, "_mark", pytest.fail)  # what another writes now is left alone
        Store(path)
    with closing(Store(path.with_name("store.sqlite"))) as store:
        assert [each.launch_id for each in Journal(store).unfinished("r")] == ["r-1"]
    assert unfinished(path) == ["r-1"]


def test_an_empty_file_is_taken_as_one_in_which_nothing_is(path: Path) -> None:
    path.with_name("store.sqlite").touch()
    assert unfinished(path) == []
    with pytest.raises(StoreError, match="newer cockpit"):
        Store(path.with_name("store.sqlite"))


@pytest.mark.parametrize("state", ["", "free", "held"])
def test_many_that_open_at_once_have_one_store_with_all_of_it(path: Path, state: str) -> None:
    """Two cockpits of each of two machines; ``state``: what the last holder of a turn has left."""
    old = fill(path)
    if state:
        share(old, state)
    code = (
        "import sys; from pathlib import Path; from cockpit.store import old_store;"
        "from cockpit.store.store import Store; from cockpit.store.journal import Journal;"
        "old_store.SILENT = 0.5; print('up', flush=True); sys.stdin.readline();"
        "print(len(Journal(Store(Path(sys.argv[1]))).unfinished('r')))"
    )
    pipe, stores = subprocess.PIPE, [str(path), str(path.with_name("store-there.sqlite"))]
    all_of_them = [
        subprocess.Popen(
            [sys.executable, "-c", code, store], stdin=pipe, stdout=pipe, text=True, cwd=ROOT
        )
        for store in [*stores, *stores]
    ]
    for each in all_of_them:
        assert each.stdout is not None
        assert each.stdout.readline() == "up\n"
    for each in all_of_them:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    found = [each.communicate()[0] for each in all_of_them]
    assert found in (["1\n", "0\n"] * 2, ["0\n", "1\n"] * 2)


def test_who_only_looks_leaves_it_and_says_what_to_do(path: Path) -> None:
    fill(path)
    before = sorted(each.name for each in path.parent.iterdir())
    with pytest.raises(StoreError, match="open the cockpit once"):
        Store(path, read_only=True)
    assert sorted(each.name for each in path.parent.iterdir()) == before


def test_what_is_no_store_of_ours_stays(path: Path) -> None:
    path.with_name("store.sqlite").write_text("something else of 100 bytes" * 4)
    with pytest.raises(StoreError, match=r"/store\.sqlite: the file is corrupt .* move it away"):
        Store(path)
    assert path.with_name("store.sqlite").read_text().startswith("something")
