"""trackio's database, as trackio 0.43 has written it: read whole, and without a trace."""

from __future__ import annotations

import gzip
import json
import math
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.place import HERE, place_of
from cockpit.model.run import RunSpec, TensorboardSpec, TrackioSpec, WandbSpec
from cockpit.sources import sqlite_copies
from cockpit.sources.trackers import Trackers, folders, places

DATA = Path(__file__).resolve().parents[1] / "data" / "trackio"
ADD = "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)"


@pytest.fixture(autouse=True)
def nothing_is_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_copies, "SHARE", 0.0)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stats_in(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (one.st_size, one.st_mtime_ns, one.st_ino) for name, one in found.items()}


def rename(path: Path, to: Path) -> None:
    path.rename(to)


def copied(path: Path, to: Path) -> None:
    to.write_bytes(path.read_bytes())


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "trackio" / "proj.db"
    path.parent.mkdir()
    path.write_bytes(long_ago(gzip.decompress((DATA / "proj.db.gz").read_bytes())))
    return path


RUN_IDS = {"run-a": "00339d0ccfc343168d18f5b0c3619b73"}


def long_ago(data: bytes) -> bytes:
    """Return a database as old as no clock here is: rows of tomorrow are told as such."""
    return data.replace(b"2026-11-22T", b"2026-01-22T")


def run_of(path: Path, run: str | None = "run-a", **spec: object) -> RunSpec:
    made = TrackioSpec.model_validate({"db": str(path), "run": run, **spec})
    return RunSpec(name="toy", trackio=made)


async def facet_of(run: RunSpec, source: Trackers | None = None) -> Facet[TrackerValue]:
    return (await (source or Trackers(SystemClock())).observe([Query(run=run)]))["toy"]


async def value_of(run: RunSpec, source: Trackers | None = None) -> TrackerValue:
    facet = await facet_of(run, source)
    assert facet.value is not None, facet.error
    return facet.value


async def rows_of(source: Trackers, run: RunSpec) -> list[Row]:
    rows: list[Row] = []
    while True:
        chunk = await source.more_rows(run)
        rows = [*([] if chunk.restarted else rows), *chunk.rows]
        if chunk.caught_up or chunk.unread:
            return rows


def write(writer: sqlite3.Connection, step: int, metrics: object, name: str = "run-a") -> None:
    text = metrics if isinstance(metrics, str) else json.dumps(metrics)
    at = "2026-01-22T12:20:00+00:00"
    writer.execute(ADD, (RUN_IDS.get(name, "x"), at, name, step, text))
    writer.commit()


async def test_what_is_told_of_a_run(db: Path) -> None:
    with sqlite3.connect(db) as writer:
        writer.execute("UPDATE alerts SET text = 'WANDB_API_KEY=hunter2hunter2 is bad'")
    writer.close()
    value = await value_of(run_of(db))
    assert (value.name, value.project, value.producer) == ("run-a", "proj", "trackio")
    assert value.step == 3000 and value.loss is not None and math.isnan(value.loss)
    assert value.throughput == 1299.0 and value.throughput_unit == "tok/s"
    assert value.grad_norm == math.inf and not value.counts_calls
    assert value.last_step_at is not None and value.file_mtime is not None
    assert value.config == {"lr": 0.001, "api_key": "****"}
    (alert,) = value.alerts
    assert (alert.level, alert.title, alert.step) == ("error", "Loss is NaN", 3000)
    assert "hunter2" not in str(value) and alert.at is not None


async def test_no_page_and_no_look_sorts_or_reads_the_whole_run(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, tuple[object, ...]]] = []
    rows = sqlite_copies.Database.rows

    def noted(self: sqlite_copies.Database, query: str, values: Sequence[object] = ()) -> object:
        asked.append((query, tuple(values)))
        return rows(self, query, values)

    monkeypatch.setattr(sqlite_copies.Database, "rows", noted)
    source, run = Trackers(SystemClock()), run_of(db)
    await value_of(run, source)
    assert len(await rows_of(source, run)) == 301
    with sqlite3.connect(db) as reader:
        plans = {
            query: [str(step[3]) for step in reader.execute(f"EXPLAIN QUERY PLAN {query}", values)]
            for query, values in asked
            if "metrics" in query and "PRAGMA" not in query
        }
    reader.close()
    steps = [step for plan in plans.values() for step in plan]
    assert any("idx_metrics_run_step" in step for step in steps), "as trackio has made its indexes"
    assert not [step for step in steps if "TEMP B-TREE" in step]
    assert not [step for step in steps if step in ("SCAN metrics", "SCAN TABLE metrics")]


async def test_every_row_once_and_then_what_is_new(db: Path) -> None:
    source, run = Trackers(SystemClock()), run_of(db)
    before = names_in(db.parent)
    rows = await rows_of(source, run)
    assert [row.step for row in rows] == [*range(0, 3001, 10)]
    assert rows[0].loss == 3.0 and rows[299].throughput == 1299.0
    assert await rows_of(source, run) == []
    with sqlite3.connect(db) as writer:
        write(writer, 3010, {"train/loss": 1.5})
        write(writer, 5, {"loss": 9.0}, name="run-b")
    writer.close()
    (new,) = await rows_of(source, run)
    assert (new.step, new.loss) == (3010, 1.5)
    value = await value_of(run, source)
    assert value.step == 3010 and value.scanned == 1.0 and value.history[-1] == (3010, 1.5)
    assert (await source.recent(run, 3)).rows[-1].step == 3010
    assert names_in(db.parent) == before


async def test_a_writers_log_counts_and_is_left_alone(db: Path) -> None:
    writer = sqlite3.connect(db)
    write(writer, 3010, {"train/loss": 1.5})
    there = stats_in(db.parent)
    assert there["proj.db-wal"][0] > 0
    value = await value_of(run_of(db))
    assert value.step == 3010 and value.loss == 1.5
    assert stats_in(db.parent) == there
    write(writer, 3020, {"train/loss": 1.4})
    writer.close()


async def test_a_huge_file_is_read_where_it_lies(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_copies, "MOST", 1000)
    assert (await value_of(run_of(db))).step == 3000
    assert names_in(db.parent) == ["proj.db"]


async def test_which_run_and_which_project(db: Path) -> None:
    assert (await value_of(run_of(db, None))).name == "run-b", "the newest"
    assert (await value_of(run_of(db.parent))).project == "proj"
    missing = (await facet_of(run_of(db, "run-z"))).error
    assert missing is not None and missing.kind is ErrorKind.NOT_FOUND
    assert missing.message.endswith("there, the newest first: run-b, run-a")
    copied(db, db.parent / "my-other.db")
    unsaid = (await facet_of(run_of(db.parent))).error
    assert unsaid is not None and "trackio.project is not set" in unsaid.message
    assert "my-other, proj" in unsaid.message
    assert (await value_of(run_of(db.parent, project="my-other"))).project == "my-other"
    gone = (await facet_of(run_of(db.parent, project="none"))).error
    assert gone is not None and gone.kind is ErrorKind.NOT_FOUND


def spoil(path: Path, data: bytes | None) -> None:
    path.write_bytes(path.read_bytes()[:20_000] if data is None else data)


BAD = {
    "nothing": b"", "text": b"hello\n" * 1000, "cut": None, "header": b"SQLite format 3\0" * 100,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
async def test_a_file_that_is_no_database_is_said(name: str, db: Path) -> None:
    spoil(db, BAD[name])
    error = (await facet_of(run_of(db))).error
    assert error is not None and error.kind is ErrorKind.BAD_ANSWER, error
    assert str(db) in error.message and "\n" not in error.message
    assert (await Trackers(SystemClock()).more_rows(run_of(db))).rows == ()


HOSTILE = {
    "endless": "SELECT x AS id, x AS step, 't' AS timestamp, 'r' AS run_name, '{}' AS metrics"
    " FROM (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c)",
    "huge": "SELECT 1 AS id, 1 AS step, 't' AS timestamp, hex(zeroblob(900000000)) AS run_name,"
    " '{}' AS metrics",
}


@pytest.mark.parametrize(("name", "said"), [("endless", "longer than"), ("huge", "too big")])
async def test_a_hostile_view_keeps_neither_a_thread_nor_memory(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_copies, "ANSWERED_WITHIN", 0.2)
    path = tmp_path / "hostile.db"
    with sqlite3.connect(path) as writer:
        writer.execute(f"CREATE VIEW metrics AS {HOSTILE[name]}")
    writer.close()
    error = (await facet_of(run_of(path))).error
    assert error is not None and error.kind is ErrorKind.BAD_ANSWER and said in error.message


async def test_a_file_that_is_not_there_yet_and_then_is(db: Path) -> None:
    source, away = Trackers(SystemClock()), db.with_name("away")
    rename(db, away)
    missing = (await facet_of(run_of(db), source)).error
    assert missing is not None and missing.kind is ErrorKind.NOT_FOUND
    rename(away, db)
    assert (await value_of(run_of(db), source)).step == 3000


async def test_an_older_file_has_less_and_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as writer:
        writer.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp TEXT,"
            " run_name TEXT, step INTEGER, metrics TEXT)"
        )
        for step in range(5):
            writer.execute(
                "INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?)",
                (f"2026-01-22T12:00:0{step}", "run-a", step, json.dumps({"loss": 2.0 - step})),
            )
    writer.close()
    value = await value_of(run_of(path))
    assert (value.step, value.loss, value.throughput_unit) == (4, -2.0, "it/s")
    assert value.usual_step_s == 1.0 and value.counts_calls and not value.alerts


async def test_foreign_values_are_taken_for_what_they_are(db: Path) -> None:
    with sqlite3.connect(db) as writer:
        for metrics in ("{", "[1]", "7", '"x"', "\x00", {"loss": True}, {"loss": "no"}, {"a": 1}):
            write(writer, 1, metrics, "odd")
        write(writer, 2, {"train": {"loss": 1.25}}, "odd")
        write(writer, 3, '{"train/loss": 1e999, "grad_norm": "-Infinity"}', "odd")
        writer.execute(ADD, ("x", "no time", "odd", "no step", '{"train/loss": 4}'))
    writer.close()
    source, run = Trackers(SystemClock()), run_of(db, "odd")
    rows = await rows_of(source, run)
    assert [row.loss for row in rows if row.loss is not None] == [1.25, math.inf, 4.0]
    value = await value_of(run, source)
    assert value.step == 3 and value.skipped_blocks == 5 and value.grad_norm == -math.inf


async def test_many_runs_of_a_project_share_one_copy(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    connected = sqlite_copies.connected

    def counted(copy: str) -> sqlite3.Connection:
        made.append(copy)
        return connected(copy)

    monkeypatch.setattr(sqlite_copies, "connected", counted)
    runs = [run_of(db).model_copy(update={"name": f"r{number}"}) for number in range(20)]
    facets = await Trackers(SystemClock()).observe([Query(run=run) for run in runs])
    assert len(facets) == 20 and all(facet.known for facet in facets.values())
    assert len(made) == 1


async def test_one_tracker_tells_and_the_source_says_which(db: Path, tmp_path: Path) -> None:
    events = TensorboardSpec(dir=place_of(str(tmp_path)))
    both = run_of(db).model_copy(update={"tensorboard": events})
    facet = await facet_of(both)
    assert facet.source == f"trackio in {db}; TensorBoard is not read beside it"
    wandb = both.model_copy(update={"wandb": WandbSpec(dir=place_of(str(tmp_path / "wandb")))})
    facet = await facet_of(wandb)
    assert facet.value is None and "W&B" in facet.source
    assert folders(both) == (str(db),) and folders(wandb) == (str(tmp_path / "wandb"),)
    away = both.model_copy(update={"trackio": TrackioSpec(db=place_of("gs://box/x.db"))})
    assert places(away) == ("gs://box",) and folders(away) == ()
    error = (await facet_of(away)).error
    assert error is not None and error.kind is ErrorKind.UNSUPPORTED


async def test_a_run_that_changes_its_tracker_is_told_by_the_new_one(
    db: Path, tmp_path: Path
) -> None:
    source = Trackers(SystemClock())
    spec = WandbSpec(dir=place_of(str(tmp_path / "wandb")), entity="e", project="p", id="w")
    wandb = RunSpec(name="toy", wandb=spec)
    here = await source.observe([Query(run=wandb)], HERE)
    assert source.join(HERE, here)["toy"].value is None
    refused = unknown(ErrorKind.REFUSED, "no server", "W&B", 0.0)
    source.join("https://w/e/p", {"toy": refused})
    answer = await source.observe([Query(run=run_of(db))], HERE)
    joined = source.join(HERE, answer)["toy"]
    assert joined.value is not None and joined.source == f"trackio in {db}"


async def test_of_two_runs_of_one_name_the_newest_alone_is_read(db: Path) -> None:
    writer = sqlite3.connect(db)
    for step in range(30):
        row = ("new", f"2026-01-23T12:00:{step:02}+00:00", "run-a", step, '{"train/loss": 4.7}')
        writer.execute(ADD, row)
    writer.commit()
    source, run = Trackers(SystemClock()), run_of(db)
    assert len(await rows_of(source, run)) == 30
    value = await value_of(run, source)
    assert (value.step, value.loss, value.history[-1]) == (29, 4.7, (29, 4.7))
    assert value.notes == (
        "1 earlier run named run-a in the same database: not read, the newest is",
    )
    assert (await value_of(run_of(db, RUN_IDS["run-a"]))).step != 29, "an id names the run itself"


LATE = 1_769_200_000.0


def logs(path: Path, name: str, *seconds: float, run_id: str | None = None) -> None:
    """Log a row at each of some seconds, as a run of this name."""
    writer = sqlite3.connect(path)
    for step, at in enumerate(seconds):
        time = datetime.fromtimestamp(LATE + at, UTC).isoformat()
        row = (run_id or f"id-{name}", time, name, step, '{"train/loss": 2.5}')
        writer.execute(ADD, row)
    writer.commit()
    writer.close()


async def test_two_runs_that_log_at_once_are_never_mixed(db: Path) -> None:
    logs(db, "train", *range(0, 60, 10))
    source, run = Trackers(SystemClock()), run_of(db, None)
    assert (await value_of(run, source)).name == "train"
    before = await rows_of(source, run)
    logs(db, "sweep", 61, 62)
    assert (await value_of(run, source)).name == "sweep", "the former one has not gone on"
    logs(db, "train", 70)
    unsure = await facet_of(run, source)
    assert unsure.value is None and unsure.error is not None
    assert unsure.error.message.endswith(
        "cannot tell which run is meant: sweep, train log at once;"
        " set trackio.run to the name of one"
    )
    assert (await source.more_rows(run)).rows == ()
    for name in ("train", "sweep"):
        assert (await value_of(run_of(db, name))).name == name, "the run file says which"
    logs(db, "train", *range(80, 400, 10))
    value = await value_of(run, source)
    assert value.name == "train", "the other one is silent"
    assert value.notes == ("sweep lies there too; train is read",)
    assert (len(before), len(await rows_of(source, run))) == (6, 1 + 32), "no row twice"


async def test_two_living_runs_of_the_name_that_is_given_are_not_told_apart(db: Path) -> None:
    logs(db, "train", 0, 10, 20, run_id="one")
    logs(db, "train", 15, 25, run_id="two")
    assert (await value_of(run_of(db, "train"))).id == "train"
    logs(db, "train", 30, run_id="one")
    error = (await facet_of(run_of(db, "train"))).error
    assert error is not None
    assert error.message.endswith("two, one log at once; set trackio.run to the id of one")
    assert (await value_of(run_of(db, "one"))).step == 0
