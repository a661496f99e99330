"""The store of older cockpits, shared by all machines of a home: taken over once, and whole."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from cockpit.store import old_store
from cockpit.store.journal import Busy, Journal
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.opening import described
from cockpit.store.ownership import Holder, this_holder
from cockpit.store.store import Store, StoreError
from tests.store.other_machine import BIG, elsewhere
from tests.store.test_launches import plan

DEAD = Holder(host="login9", pid=1, machine="9", boot="9")
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
    with pytest.raises(StoreError, match="newer cockpit"):
        Journal(old).begin("r", plan(), "ada", DEAD, 20.0, exclusive=False)
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


def test_a_machine_that_is_writing_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = share(fill(path), "held")
    looks = 0

    def beat(_: float) -> None:
        nonlocal looks
        looks += 1
        held = locks / f"{7:012d}"
        held.write_bytes(held.read_bytes().replace(b"held", b"held" if looks < 9 else b"free", 1))
        text = held.read_bytes()
        held.write_bytes(text[:5] + f"{looks:012d}".encode() + text[17:])

    monkeypatch.setattr(time, "sleep", beat)
    monkeypatch.setattr(time, "monotonic", lambda: looks * 0.5)
    assert unfinished(path) == ["r-1"]
    assert looks == 9


def test_one_that_never_ends_is_named_and_nothing_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(fill(path), "held")
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "sleep", wait)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(old_store, "SILENT", 100.0)
    with pytest.raises(StoreError, match="another machine is writing"):
        Store(path)
    assert not path.exists()
    monkeypatch.setattr(old_store, "SILENT", 6.0)
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


class KilledError(BaseException):
    """Stands for the end of the process at one moment."""


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("moment", range(12))
def test_a_kill_at_any_moment_loses_nothing_and_doubles_nothing(
    moment: int, path: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    old = fill(path)
    if shared:
        share(old)
    left = moment

    def dying(call: Callable[..., object]) -> Callable[..., object]:
        def called(*args: object, **named: object) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError
            return call(*args, **named)

        return called

    with monkeypatch.context() as patch:
        for where, what in (
            (old_store, "_sync"), (os, "link"), (Path, "replace"), (Path, "rename"),
            (Path, "unlink"), (Path, "write_bytes"),
        ):  # fmt: skip
            patch.setattr(where, what, dying(getattr(where, what)))
        with suppress(KilledError):
            Store(path).close()
    monkeypatch.setattr(old_store, "SILENT", 0.0)  # of the one that was killed
    assert unfinished(path) == ["r-1"]
    assert unfinished(path.with_name("store-other.sqlite")) == []


def test_many_that_open_at_once_have_one_store_with_all_of_it(path: Path) -> None:
    fill(path)
    code = (
        "import sys; from pathlib import Path; from cockpit.store.store import Store;"
        "from cockpit.store.journal import Journal; sys.stdin.readline();"
        "print(len(Journal(Store(Path(sys.argv[1]))).unfinished('r')))"
    )
    argv = [sys.executable, "-c", code, str(path)]
    pipe = subprocess.PIPE
    all_of_them = [
        subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) for _ in range(5)
    ]
    for each in all_of_them:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    assert [each.communicate()[0] for each in all_of_them] == ["1\n"] * 5


def test_who_only_looks_leaves_it_and_says_what_to_do(path: Path) -> None:
    fill(path)
    before = sorted(each.name for each in path.parent.iterdir())
    with pytest.raises(StoreError, match="open the cockpit once"):
        Store(path, read_only=True)
    assert sorted(each.name for each in path.parent.iterdir()) == before


def test_what_is_no_store_of_ours_stays(path: Path) -> None:
    path.with_name("store.sqlite").write_text("something else of 100 bytes" * 4)
    with pytest.raises(StoreError):
        Store(path)
    assert path.with_name("store.sqlite").read_text().startswith("something")
