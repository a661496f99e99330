import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cockpit.model.clock import Moment
from cockpit.runtime.process import process_facts
from cockpit.store.launches import Endings
from cockpit.store.ownership import Owner, Ownership
from cockpit.store.schema import APPLICATION_ID, MIGRATIONS
from cockpit.store.store import Store

ADA = Owner(name="ada", host="here", pid=10, started_at=1.0)
BOB = Owner(name="bob", host="here", pid=20, started_at=2.0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def at(wall: float) -> Moment:
    return Moment(wall)


def seen_from(store: Store, *living: int) -> Ownership:
    return Ownership(store, lambda owner: owner.pid in living)


def test_a_second_one_is_told_who_owns_the_run(store: Store) -> None:
    own = seen_from(store, 10, 11)
    assert own.claim("r", ADA, at(100.0), 60.0) is None
    second = ADA.model_copy(update={"pid": 11})
    in_the_way = own.claim("r", second, at(101.0), 60.0)
    assert in_the_way is not None
    assert in_the_way.owner == ADA
    assert "ada" in in_the_way.owner.label and "pid 10" in in_the_way.owner.label


def test_a_dead_process_on_this_host_owns_nothing(store: Store) -> None:
    seen_from(store, 10).claim("r", ADA, at(100.0), 60.0)
    later = seen_from(store, 11)
    assert later.owner("r", at(101.0)) is None
    assert later.claim("r", ADA.model_copy(update={"pid": 11}), at(101.0), 60.0) is None


def test_a_takeover_is_told_to_the_former_owner(store: Store) -> None:
    own = seen_from(store, 10, 20)
    own.claim("r", ADA, at(100.0), 60.0)
    assert own.claim("r", BOB, at(101.0), 60.0, takeover=True) is None
    taken = own.refresh("r", ADA, at(102.0), 60.0)
    assert taken is not None and taken.owner == BOB
    own.release("r", ADA)
    assert own.owner("r", at(103.0)) is not None


def test_a_run_that_was_taken_and_given_up_again_is_taken_back(store: Store) -> None:
    own = seen_from(store, 10)
    own.claim("r", ADA, at(100.0), 60.0)
    own.claim("r", BOB, at(101.0), 60.0, takeover=True)
    own.release("r", BOB)
    assert own.refresh("r", ADA, at(102.0), 60.0) is None
    owned = own.owner("r", at(103.0))
    assert owned is not None and owned.owner == ADA


def test_a_released_run_is_free(store: Store) -> None:
    own = seen_from(store, 10, 11)
    own.claim("r", ADA, at(100.0), 60.0)
    own.release("r", ADA)
    assert own.claim("r", ADA.model_copy(update={"pid": 11}), at(101.0), 60.0) is None


CLAIMER = """
import os, sys, time
from pathlib import Path
from cockpit.store.ownership import Owner, Ownership
from cockpit.store.schema import APPLICATION_ID, MIGRATIONS
from cockpit.store.store import Store
from cockpit.model.clock import Moment as at
own = Ownership(Store(Path(sys.argv[1])), lambda owner: True)
sys.stdin.readline()
me = Owner(name="racer", host="here", pid=os.getpid())
print("mine" if own.claim("r", me, at(100.0), 60.0) is None else "busy", flush=True)
"""


def test_of_many_processes_that_race_exactly_one_owns_the_run(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    Store(path).close()
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIMER, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=60)[0].strip() for racer in racers]
    assert sorted(said) == ["busy"] * 2 + ["mine"]


def test_this_very_process_is_recognised(store: Store) -> None:
    pid = os.getpid()
    me = Owner(name="me", host="here", pid=pid, started_at=process_facts(pid).started_at)
    own = Ownership(store, lambda owner: process_facts(owner.pid).started_at == owner.started_at)
    own.claim("r", me, at(1.0), 60.0)
    assert own.owner("r", at(1e9)) is not None


def test_an_end_is_acknowledged_once_per_job(store: Store) -> None:
    endings = Endings(store)
    endings.acknowledge("r", "job-1", None, "ada", 5.0)
    endings.acknowledge("r", "job-1", None, "bob", 6.0)
    endings.acknowledge("r", None, None, "ada", 7.0)
    assert [(each.job_id, each.at) for each in endings.acknowledged("r")] == [
        ("job-1", 5.0), ("", 7.0),
    ]  # fmt: skip


def test_an_id_that_lives_twice_has_two_ends(store: Store) -> None:
    """A Slurm requeue and a fixed Iris name keep their id."""
    endings = Endings(store)
    endings.acknowledge("r", "job-1", 100.0, "ada", 500.0)
    (first,) = endings.acknowledged("r")
    assert first.covers("job-1", 100.0) and first.covers("job-1", 100.7)
    assert first.covers("job-1", None), "the start is not told any more"
    assert not first.covers("job-1", 300.0) and not first.covers("job-2", 100.0)
    endings.acknowledge("r", "job-1", 300.0, "bob", 900.0)
    endings.withdraw("r", "job-1", 100.0)
    assert [each.started_at for each in endings.acknowledged("r")] == [300.0]


def test_an_end_that_an_older_version_acknowledged_stays_so(tmp_path: Path) -> None:
    """It knew the id alone: what began before it was acknowledged is meant."""
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        for statement in (each for step in MIGRATIONS[:2] for each in step):
            connection.execute(statement)
        connection.execute("INSERT INTO endings VALUES ('r', 'job-1', 'ada', 500.0)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")
        connection.commit()
    (old,) = Endings(Store(path)).acknowledged("r")
    assert old.covers("job-1", 100.0) and old.covers("job-1", None)
    assert not old.covers("job-1", 501.0)
