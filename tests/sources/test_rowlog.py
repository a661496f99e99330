"""A record of any tracker's files becomes a row with every metric that the rules read.

Files of trackio and TensorBoard on an ssh host: by an agent in this process, in counted trips.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts import ranges
from cockpit.hosts.agent import answer
from cockpit.hosts.link import Ask
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.place import Place, on_host, place_of
from cockpit.model.run import MetricNames, RunSpec, TensorboardSpec, TrackioSpec
from cockpit.runtime.ssh import RemoteError
from cockpit.sources import file_tracker, run_folders, sqlite_copies, tensorboard
from cockpit.sources.file_tracker import Record, rows_of
from cockpit.sources.metric_keys import choose
from cockpit.sources.trackers import Trackers
from tests.hosts.here import CallsHere
from tests.sshd import needs_sshd, serving


def test_what_is_logged_beside_the_loss_comes_with_its_row() -> None:
    values = {
        "global_step": 7.0, "train/loss": 2.5, "train/grad_norm": 1.2, "train/z_loss": 1e-4,
        "moe/load_balancing_loss": 1.03, "moe/router_entropy": 2.1, "train/skipped_steps": 1.0,
        "eval/loss": 2.7,
    }  # fmt: skip
    keys = choose([frozenset(values)], MetricNames())
    (row,) = rows_of([Record(3, 1.7e9 + 5, values)], keys, offset=5.0)
    limited = (("evaluation loss", 2.7),)
    assert row == Row(7, 1.7e9, 2.5, None, 1.2, False, 1e-4, 1.03, 2.1, 1.0, limited=limited)


DATA = Path(__file__).resolve().parents[1] / "data"
SCALARS = (DATA / "tensorboard" / "scalars.tfevents").read_bytes()
FIRST = "events.out.tfevents.1795340000.node-1"
SECOND = "events.out.tfevents.1795350000.node-1"
ADD = "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)"


class Shell(CallsHere):
    """A host that is this machine; can do something amid an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.amid: Callable[[], object] | None = None

    def __call__(self, host: str, each: Ask, deadline: float) -> Any:
        words = json.loads(each.arguments)
        if self.amid is not None and len(words["asks"]) == 6:
            halves = [{**words, "asks": words["asks"][at : at + 3]} for at in (0, 3)]
            now, first = answer("pieces", halves[0])["value"]
            self.amid()
            return [now, [*first, *answer("pieces", halves[1])["value"][1]]]
        return super().__call__(host, each, deadline)


@pytest.fixture(autouse=True)
def nothing_is_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_copies, "SHARE", 0.0)


@pytest.fixture(autouse=True)
def a_busy_machine_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (file_tracker, "DEADLINE"),
        (file_tracker, "AWAY"),
        (run_folders, "LOOKING"),
    ):
        monkeypatch.setattr(module, name, 60.0)
    monkeypatch.setattr(ranges, "LIMIT", 30.0)


@pytest.fixture
def shell() -> Shell:
    return Shell()


@pytest.fixture
def there(shell: Shell) -> Trackers:
    return Trackers(SystemClock(), call=shell)


def events(path: Path, host: str | None = "box", name: str = "toy") -> RunSpec:
    return RunSpec(name=name, tensorboard=TensorboardSpec(dir=on_host(host, str(path))))


def database(path: Path, host: str | None = "box", **more: str) -> RunSpec:
    return RunSpec(name="toy", trackio=TrackioSpec(db=on_host(host, str(path)), **more))


async def facet(source: Trackers, run: RunSpec) -> Facet[TrackerValue]:
    return (await source.observe([Query(run=run)]))[run.name]


async def value(source: Trackers, run: RunSpec) -> TrackerValue:
    found = await facet(source, run)
    assert found.value is not None, found.error
    return found.value


async def rows(source: Trackers, run: RunSpec) -> list[Row]:
    found: list[Row] = []
    for _ in range(50):
        chunk = await source.more_rows(run)
        found += chunk.rows
        if chunk.caught_up or chunk.unread:
            return found
    raise AssertionError("it never caught up")


def same(one: TrackerValue, other: TrackerValue) -> None:
    """See that two looks tell the same, but for what the files are called and their times."""
    blank = {"files": (), "fragments": (), "file_mtime": 0.0, "clock_offset_s": None}
    assert repr(one.model_copy(update=blank)) == repr(other.model_copy(update=blank))  # NaNs too
    assert one.fragments == other.fragments


async def test_event_files_tell_the_same_there_as_here(
    tmp_path: Path, there: Trackers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "BATCH", 4096)
    here = Trackers(SystemClock())
    (tmp_path / FIRST).write_bytes(SCALARS)
    (tmp_path / SECOND).write_bytes(SCALARS[: len(SCALARS) // 2 + 7])
    at_home, away_from_it = events(tmp_path, None), events(tmp_path)
    same(await value(there, away_from_it), await value(here, at_home))
    first = await rows(there, away_from_it)
    assert repr(first) == repr(await rows(here, at_home))
    assert (await value(there, away_from_it)).scanned == 1.0
    (tmp_path / SECOND).write_bytes(SCALARS)
    same(await value(there, away_from_it), await value(here, at_home))
    more = await rows(there, away_from_it)
    assert more and repr(more) == repr(await rows(here, at_home)) and first


async def test_the_runs_of_a_host_take_two_trips_however_many_there_are(
    tmp_path: Path, there: Trackers, shell: Shell
) -> None:
    runs = []
    for number in range(60):
        (tmp_path / f"r{number}").mkdir()
        (tmp_path / f"r{number}" / FIRST).write_bytes(SCALARS)
        runs.append(Query(run=events(tmp_path / f"r{number}", name=f"r{number}")))
    found = await there.observe(runs)
    assert all(each.known for each in found.values())
    assert shell.trips == 2
    with (tmp_path / "r7" / FIRST).open("ab") as file:
        file.write(SCALARS[:4000])
    found = await there.observe(runs)
    assert shell.trips == 3 and all(each.known for each in found.values())
    (tmp_path / "r8" / SECOND).write_bytes(SCALARS)
    await there.observe(runs)
    assert shell.trips == 5, "a new file is measured by a trip of its own"


async def test_of_the_folders_below_the_one_begun_last_is_the_run_s(
    tmp_path: Path, there: Trackers
) -> None:
    (tmp_path / "lightning" / "version_0").mkdir(parents=True)
    (tmp_path / "lightning" / "version_0" / FIRST).write_bytes(SCALARS)
    run = events(tmp_path / "lightning")
    assert (await value(there, run)).id == "version_0"
    (tmp_path / "lightning" / "version_1").mkdir()
    later = FIRST.replace("17953", "17963")
    (tmp_path / "lightning" / "version_1" / later).write_bytes(SCALARS)
    (tmp_path / "lightning" / "version_2").mkdir()
    begun_in_vain = FIRST.replace("17953", "17973")
    (tmp_path / "lightning" / "version_2" / begun_in_vain).write_bytes(SCALARS[:40])
    os.utime(tmp_path / "lightning" / "version_0" / FIRST, (1.7e9, 1.7e9))
    found = await value(there, run)
    assert found.id == "version_1"
    assert found.notes == ("version_2, version_0 lie there too; version_1 is read",)


async def test_of_the_folders_below_the_one_that_a_process_writes_is_the_run_s(
    tmp_path: Path, there: Trackers
) -> None:
    for name, file in (("version_0", FIRST), ("version_1", SECOND)):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_bytes(SCALARS)
    os.utime(tmp_path / "version_0" / FIRST, (1.7e9, 1.7e9))
    run = events(tmp_path)
    assert (await value(there, run)).id == "version_1"
    with (tmp_path / "version_0" / FIRST).open("ab"):
        found = await value(there, run)
    assert found.id == "version_0"
    assert found.notes == ("version_1 lies there too; version_0 is read",)


async def test_a_file_in_place_of_another_begins_anew(tmp_path: Path, there: Trackers) -> None:
    (tmp_path / FIRST).write_bytes(SCALARS)
    run = events(tmp_path)
    await value(there, run)
    every = await rows(there, run)
    (tmp_path / "other").write_bytes(SCALARS)
    (tmp_path / "other").rename(tmp_path / FIRST)
    chunk = await there.more_rows(run)
    assert not chunk.rows and not chunk.restarted  # it is another one than was looked at
    await value(there, run)
    chunk = await there.more_rows(run)
    assert chunk.restarted and repr(list(chunk.rows)) == repr(every[: len(chunk.rows)])


async def test_what_cannot_be_had_is_unknown_in_one_line(
    tmp_path: Path, there: Trackers, shell: Shell
) -> None:
    (tmp_path / "file").write_bytes(SCALARS)
    (tmp_path / "empty").mkdir()
    told = {}
    for name in ("gone", "file", "empty"):
        error = (await facet(there, events(tmp_path / name))).error
        assert error is not None and error.kind is ErrorKind.NOT_FOUND
        told[name] = error.message.replace(str(tmp_path), "")
    assert told == {
        "gone": "there is no ssh://box/gone",
        "file": "ssh://box/file is a file, not a folder of event files",
        "empty": "no event files in ssh://box/empty yet",
    }
    shell.down = RemoteError(ErrorKind.REFUSED, "box: Connection refused")
    for run in (events(tmp_path), database(tmp_path / "x.db")):
        error = (await facet(there, run)).error
        assert error is not None and error.kind is ErrorKind.REFUSED
        assert error.message == "box: Connection refused"
    assert not (await there.more_rows(events(tmp_path))).rows


async def test_a_dead_folder_costs_itself(
    tmp_path: Path, there: Trackers, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "LIMIT", 0.3)
    runs, comes_back, below = [], threading.Event(), ranges.below

    def hangs(place: str, *more: Any, **named: Any) -> Any:
        if place.endswith("dead"):
            comes_back.wait()
        return below(place, *more, **named)

    monkeypatch.setattr(ranges, "below", hangs)
    for name in ("dead", "live"):
        (tmp_path / name).mkdir()
        (tmp_path / name / FIRST).write_bytes(SCALARS)
        runs.append(Query(run=events(tmp_path / name, name=name)))
    found = await there.observe(runs)
    assert found["live"].known
    error = found["dead"].error
    assert error is not None and error.kind is ErrorKind.TIMEOUT, error
    assert f"ssh://box{tmp_path}/dead does not answer" in error.message
    trips = shell.trips
    assert (await there.observe(runs))["live"].known and shell.trips == trips + 1
    comes_back.set()
    ranges.HANGING.pop(str(tmp_path / "dead")).join()
    assert (await there.observe(runs))["dead"].known


async def test_an_event_file_that_may_not_be_read_is_not_left_out(
    tmp_path: Path, there: Trackers, shell: Shell
) -> None:
    (tmp_path / FIRST).write_bytes(SCALARS)
    run, refused = events(tmp_path), [SECOND]
    shell.edit = lambda each, value: refusing(each, value, *refused)
    assert (await facet(there, run)).known
    (tmp_path / SECOND).write_bytes(SCALARS)
    error = (await facet(there, run)).error
    assert error is not None and error.kind is ErrorKind.PERMISSION
    assert error.message == f"ssh://box{tmp_path} may not be read by this user"
    refused.clear()
    assert len((await value(there, run)).files) == 2


async def test_a_folder_of_another_user_beside_the_run_s_is_named(
    tmp_path: Path, there: Trackers, shell: Shell
) -> None:
    for name, file in (("version_0", FIRST), ("version_1", SECOND)):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_bytes(SCALARS)
    shell.edit = lambda each, value: refusing(each, value, SECOND)
    found = await value(there, events(tmp_path))
    assert found.id == "version_0"
    assert found.notes == ("event files that cannot be read lie there too, in version_1",)
    shell.edit = lambda each, value: refusing(each, value, FIRST, SECOND)
    error = (await facet(there, events(tmp_path, name="other"))).error
    assert error is not None and error.kind is ErrorKind.PERMISSION


def refusing(each: Ask, value: Any, *names: str) -> Any:
    """Return an agent's answer in which files of these names may not be read."""
    asks = json.loads(each.arguments)["asks"]
    for at, (path, *_) in enumerate(asks):
        if path.endswith(names):
            value[1][at] = {"errno": 13, "text": "Permission denied"}
    return value


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "trackio" / "proj.db"
    path.parent.mkdir()
    data = gzip.decompress((DATA / "trackio" / "proj.db.gz").read_bytes())
    path.write_bytes(data.replace(b"2026-11-22T", b"2026-01-22T"))
    return path


def logged(path: Path, step: int) -> sqlite3.Connection:
    """Log one row as trackio does, and leave the log of the database unfolded."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    (run,) = connection.execute(
        "SELECT run_id FROM metrics WHERE run_name = 'run-a' LIMIT 1"
    ).fetchone()
    at = "2026-01-22T23:00:00+00:00"
    connection.execute(ADD, (run, at, "run-a", step, f'{{"train/loss": {step}.5}}'))
    return connection


async def test_a_database_tells_the_same_there_as_here(
    db: Path, there: Trackers, shell: Shell
) -> None:
    here = Trackers(SystemClock())
    run = database(db, run="run-a")
    same(await value(there, run), await value(here, database(db, None, run="run-a")))
    assert await rows(there, run) == await rows(here, database(db, None, run="run-a"))
    shell.trips = 0
    await value(there, run)
    assert shell.trips == 2  # its folder is looked at, its state is asked for, nothing is fetched
    held = logged(db, 7777)
    assert (await value(there, run)).step == 7777, "it stands in the log beside the database"
    held.close()
    assert sorted(each.name for each in db.parent.iterdir()) == ["proj.db"]
    by_folder = await value(there, database(db.parent, run="run-a"))
    assert by_folder.step == 7777 and by_folder.project == "proj"


def whole_seconds(each: Ask, value: Any) -> Any:
    for one in value[1] if each.call == "pieces" else ():
        if isinstance(one, list) and one[1]:
            one[1] = re.sub(r"\.\d{9}", ".000000000", one[1])
    return value


async def test_a_torn_copy_is_never_read(db: Path, there: Trackers, shell: Shell) -> None:
    run = database(db, run="run-a")
    shell.amid = db.touch
    error = (await facet(there, run)).error
    assert error is not None and error.kind is ErrorKind.BAD_ANSWER
    assert error.message.endswith("it is written to constantly: no consistent copy could be made")
    shell.amid = None
    step = (await value(there, run)).step
    logged(db, 8888).close()
    shell.amid = db.touch
    assert (await value(there, run)).step == step, "the copy that is whole still tells"
    shell.amid = None
    assert (await value(there, run)).step == 8888
    logged(db, 9999).close()
    (db.parent / "proj.db-journal").write_bytes(b"in the middle of a change")
    assert (await value(there, run)).step == 8888


@pytest.mark.parametrize("end", ["proj.db-wal", "proj.db"])
async def test_a_damaged_or_growing_file_is_no_copy(
    end: str, db: Path, there: Trackers, shell: Shell
) -> None:
    held = logged(db, 7777)
    shell.amid = lambda: (db.parent / end).open("a").write("x")
    assert (await facet(there, database(db, run="run-a"))).value is None
    held.close()


async def test_a_database_that_is_too_big_is_said_to_be(
    db: Path, there: Trackers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_copies, "MOST_FETCHED", 1 << 12)
    error = (await facet(there, database(db))).error
    assert error is not None and "of a database are fetched" in error.message


async def test_whole_seconds_do_not_tell_two_writes_apart(
    db: Path, there: Trackers, shell: Shell
) -> None:
    """Where the host's ``stat`` has no finer ones, what was just written is left alone."""
    shell.edit = whole_seconds
    os.utime(db)
    assert (await facet(there, database(db, run="run-a"))).value is None
    os.utime(db, (1.7e9, 1.7e9))
    assert (await facet(there, database(db, run="run-a"))).value is not None


@needs_sshd
async def test_both_are_read_over_ssh(monkeypatch: pytest.MonkeyPatch, db: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ck-", dir="/tmp") as root, serving(Path(root)) as box:
        monkeypatch.setenv("PATH", f"{box.root}/bin:{os.environ['PATH']}")
        (box.home / "runs").mkdir()
        (box.home / "runs" / FIRST).write_bytes(SCALARS)
        source = Trackers(SystemClock())
        home = Place("ssh", box.host, "~/runs")
        run = RunSpec(name="toy", tensorboard=TensorboardSpec(dir=place_of(str(home))))
        there, here = await asyncio.gather(
            value(source, run), value(Trackers(SystemClock()), events(box.home / "runs", None))
        )
        same(there, here)
        assert (await value(source, database(db, box.host, run="run-a"))).name == "run-a"
