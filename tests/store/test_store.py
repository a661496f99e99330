from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pydantic import ValidationError

from cockpit.cli import main
from cockpit.config.file import store_path
from cockpit.model.answers import TAKEN, HeardAnswer
from cockpit.model.clock import SystemClock
from cockpit.model.report import Verdict
from cockpit.store import store
from cockpit.store.answers import Answers
from cockpit.store.memory import LaunchedJob, Observation, RunMemory
from cockpit.store.schema import MIGRATIONS
from cockpit.store.store import EmptyStoreError, Opening, Store, StoreError, pack, run_key, unpack
from cockpit.watch.store_writer import StoreWriter


def test_a_new_store_is_private_versioned_and_in_wal_mode(tmp_path: Path) -> None:
    path = tmp_path / "state" / "store.sqlite"
    store = Store(path)
    assert path.stat().st_mode & 0o077 == 0
    with store.reading() as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    store.close()


def test_what_one_process_writes_another_reads(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    first, second = Store(path), Store(path)
    before = second.version()
    RunMemory(first).add_launch("a#b", LaunchedJob(at=5.0, job_id="j1"))
    assert second.version() != before
    assert RunMemory(second).launches("a#b")[-1] == LaunchedJob(at=5.0, job_id="j1")


def test_a_failed_transaction_leaves_nothing_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    with pytest.raises(RuntimeError), store.writing() as connection:
        connection.execute("INSERT INTO launches VALUES ('r', 1, 'j', NULL)")
        raise RuntimeError("killed in the middle")
    assert not RunMemory(store).launches("r")


def test_nested_writing_is_one_transaction(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    with pytest.raises(RuntimeError), store.writing():
        RunMemory(store).add_launch("r", LaunchedJob(at=1.0, job_id="j"))
        raise RuntimeError
    assert not RunMemory(store).launches("r")


def test_a_row_of_another_shape_keeps_nobody_from_reading_and_writing(tmp_path: Path) -> None:
    path, seen = tmp_path / "store.sqlite", Observation(at=1.0, verdict=Verdict.HEALTHY)
    store = Store(path)
    first, second = RunMemory(store), RunMemory(Store(path))
    for at in (1.0, 2.0):
        assert first.observe("r", seen.model_copy(update={"at": at}), 1.0)
    with store.writing() as connection:
        connection.execute("UPDATE observations SET verdict = 'odd' WHERE at = 1")
    with pytest.raises(ValidationError) as kept:  # as long as somebody keeps the error
        first.observations("r")
    assert second.observe("r", seen.model_copy(update={"at": 3.0}), 1.0)
    assert [each.at for each in first.observations("r", 2.0)] == [2.0, 3.0], kept
    assert first.observe("r", seen.model_copy(update={"at": 4.0}), 1.0)


def test_a_corrupt_file_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"this is no database, " * 400)
    with pytest.raises(StoreError, match=r"corrupt.*move it away") as caught:
        Store(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_torn_file_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(path)
    for number in range(300):
        RunMemory(store).add_launch("r" * 200, LaunchedJob(at=float(number), job_id="j" * 300))
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with pytest.raises(StoreError, match="corrupt"):
        RunMemory(Store(path)).launches("r" * 200)


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 7}")
    connection.close()
    with pytest.raises(StoreError, match=r"newer cockpit.*update"):
        Store(path)


def test_another_program_s_database_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    with pytest.raises(StoreError, match="not the cockpit's store"):
        Store(path)


def test_a_folder_without_permission_is_one_clear_line(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(StoreError, match="goes on without history"):
        Store(blocked / "store.sqlite")


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    RunMemory(store).add_launch("r", LaunchedJob(at=-1.0, job_id="j"))
    with store.reading() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="disk is full"):
        for number in range(500):
            RunMemory(store).add_launch("r", LaunchedJob(at=float(number), job_id="j" * 2000))
    assert RunMemory(store).launches("r")


def test_reading_only_changes_nothing_in_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(path)
    RunMemory(store).add_launch("r", LaunchedJob(at=1.0, job_id="j"))
    store.close()
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    reader = Store(path, read_only=True)
    assert RunMemory(reader).launches("r")
    with pytest.raises(StoreError, match="cannot be opened for writing"):
        RunMemory(reader).add_launch("r", LaunchedJob(at=2.0, job_id="k"))
    reader.close()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_reading_only_sees_what_a_live_writer_has_written(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    writer = Store(path)
    RunMemory(writer).add_launch("r", LaunchedJob(at=1.0, job_id="j"))
    reader = Store(path, read_only=True)
    assert RunMemory(reader).launches("r")[-1] == LaunchedJob(at=1.0, job_id="j")


def test_runs_of_one_run_file_are_forgotten_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    mine, other = tmp_path / "cockpit.toml", tmp_path / "cockpit.toml.old"
    for file in (mine, other):
        RunMemory(store).add_launch(run_key(str(file), "r"), LaunchedJob(at=1.0, job_id="j"))
    store.forget(str(mine))
    assert not RunMemory(store).launches(run_key(str(mine), "r"))
    assert RunMemory(store).launches(run_key(str(other), "r"))


WRITER = """
import sys
from pathlib import Path
from cockpit.model.report import Verdict
from cockpit.store.memory import LaunchedJob, Observation, RunMemory
from cockpit.cli import main
from cockpit.config.file import store_path
from cockpit.model.answers import TAKEN, HeardAnswer
from cockpit.model.clock import SystemClock
from cockpit.watch.store_writer import StoreWriter
from cockpit.store.store import EmptyStoreError, Store
store = Store(Path(sys.argv[1]))
for number in range(40):
    RunMemory(store).add_launch(sys.argv[2], LaunchedJob(at=float(number), job_id=f"job-{number}"))
"""


def test_several_processes_open_and_write_a_new_store_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    names = [f"run{number}" for number in range(4)]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stderr=subprocess.PIPE)
        for name in names
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors.decode()
    store = Store(path)
    with store.reading() as connection:
        assert connection.execute("SELECT count(*) FROM launches").fetchone()[0] == 160


def test_a_store_that_is_removed_under_us_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(path)
    RunMemory(store).add_launch("r", LaunchedJob(at=1.0, job_id="old"))
    for each in tmp_path.iterdir():
        each.unlink()
    RunMemory(store).add_launch("r", LaunchedJob(at=2.0, job_id="new"))
    assert RunMemory(Store(path)).launches("r")[-1] == LaunchedJob(at=2.0, job_id="new")


def test_that_it_was_begun_anew_is_said_in_the_footer_and_by_doctor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = store_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    store = Store(path)
    writer = StoreWriter(store, None, SystemClock())
    assert not any(writer.notices)
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    RunMemory(store).add_launch("r", LaunchedJob(at=2.0, job_id="new"))
    (_, said) = writer.notices
    assert said is not None and "was deleted and begun anew" in said
    store.close()
    main(["doctor"])
    line = next(line for line in capsys.readouterr().out.splitlines() if "begun anew" in line)
    assert str(path) in line


def test_a_store_that_is_replaced_by_rubbish_works_again_when_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(path)
    for each in tmp_path.iterdir():
        each.unlink()
    path.write_bytes(b"rubbish" * 999)
    with pytest.raises(StoreError, match="corrupt"):
        RunMemory(store).add_launch("r", LaunchedJob(at=1.0, job_id="j"))
    path.unlink()
    RunMemory(store).add_launch("r", LaunchedJob(at=1.0, job_id="j"))
    assert RunMemory(store).launches("r")[-1] == LaunchedJob(at=1.0, job_id="j")


def test_a_file_that_is_just_being_made_holds_nothing_yet(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.touch()
    with pytest.raises(EmptyStoreError):
        Store(path, read_only=True)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(EmptyStoreError):
        Store(path, read_only=True)


def test_an_answer_that_an_older_version_has_dealt_with_is_not_replied_to_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.sqlite"
    heard = HeardAnswer(source="GitHub", answer="1", at=1.0, who="ada", said="/ack", state=TAKEN)
    store = Store(path)
    for answer in ("1", "2"):
        assert Answers(store).take("r", heard.model_copy(update={"answer": answer}))
    store.close()
    with sqlite3.connect(path, isolation_level=None) as older:
        older.execute("ALTER TABLE answers DROP COLUMN owed")
        former = next(n for n, step in enumerate(MIGRATIONS) if "UPDATE answers" in step[0])
        older.execute(f"PRAGMA user_version = {former}")
        ended = "UPDATE answers SET holder = 'gone', state = 'done' WHERE answer = ?"
        older.execute(ended, ("1",))
        answers = Answers(Store(path))
        assert answers.take("r", heard.model_copy(update={"answer": "3"}))
        older.execute(ended, ("3",))  # it has the store open yet
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE answers SET holder = 'gone'")
    (left,) = answers.interrupted("r", before=2.0)
    assert left.heard.answer == "2"


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, -0.0, 0.1 + 0.2, 1e22, 5e-324])
def test_a_figure_reads_back_as_it_was(loss: float) -> None:
    seen = Observation(at=1767225600.123456, verdict=Verdict.HEALTHY, step=10**15, loss=loss)
    assert repr(unpack(Observation, pack(seen))) == repr(seen)


@pytest.mark.parametrize("name", ["caf\u00e9 \U0001f916", "a\udc80b", 'a\0"\\\x1b\u2028'])
def test_a_text_that_no_utf_8_can_hold_is_kept_as_well(name: str) -> None:
    started = LaunchedJob.model_construct(at=5.0, job_id=name)
    assert json.loads(pack(started))["job_id"] == name


def test_a_store_is_opened_while_other_things_are_done(tmp_path: Path) -> None:
    begun = Opening(tmp_path / "new" / "store.db")
    store = begun.store()
    assert store.version() >= 0 and begun.store() is store
    store.close()


def test_what_keeps_it_from_opening_is_told_to_who_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("a file of somebody else's\n" * 40)
    begun = Opening(tmp_path / "store.db")
    with pytest.raises(StoreError, match=r"store\.db"):
        begun.store()


def test_one_that_does_not_come_back_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def hangs(path: Path, *, read_only: bool) -> Store:
        gate.wait()
        return Store(path, read_only=read_only)

    monkeypatch.setattr(store, "Store", hangs)
    begun = Opening(tmp_path / "store.db")
    with pytest.raises(StoreError, match=r"no answer within 0\.01 s"):
        begun.store(0.01)
    gate.set()
    begun.store().close()
