"""The tracker facet from files: what it knows, and what it says when it knows nothing.

Every test runs with files of this machine, and with the same as those of a host.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.place import on_host
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.model.trend import Trend
from cockpit.rules.metrics.numerics import TrendFold
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.wandb.online import OfflineWandb
from tests.hosts.here import CallsHere
from tests.queries import queries_of
from tests.sources.wandb import writer

GOLDEN = Path(__file__).parents[2] / "data" / "wandb"
VERSIONS = ("0.17.9", "0.22.3", "0.30.0", "0.31.0")
T0 = 1_700_000_000.0


class Then:
    """A clock that stands still."""

    def __init__(self, now: float = T0) -> None:
        self.at = now

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


HOST: str | None = None


@pytest.fixture(params=[None, "box"], ids=["here", "host"], autouse=True)
def _where_files_lie(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "HOST", request.param)


def shown(place: Path) -> str:
    return str(on_host(HOST, str(place)))


def spec(place: Path, name: str = "hero", **more: str) -> RunSpec:
    return RunSpec(name=name, wandb=WandbSpec(dir=shown(place), **more))


def offline(clock: Then | None = None) -> OfflineWandb:
    """Return a reader for which a host is this machine, with the test's clock."""
    now, calls = clock or Then(), CallsHere()
    calls.edit = lambda _, value: [now.now(), *value[1:]]
    return OfflineWandb(now, calls)


async def facet(run: RunSpec, clock: Then | None = None) -> Facet[TrackerValue]:
    return (await offline(clock).observe(queries_of([run])))["hero"]


async def every_row(source: OfflineWandb, run: RunSpec) -> list[Row]:
    found: list[Row] = []
    for _ in range(50):
        more = await source.more_rows(run)
        found += more.rows
        if more.caught_up:
            return found
        if more.later:
            await source.observe(queries_of([run]))
    raise AssertionError(f"{len(found)} rows, and no end")


async def value(run: RunSpec, clock: Then | None = None) -> TrackerValue:
    found = await facet(run, clock)
    assert found.value is not None, found.error
    return found.value


def on_disk(folder: Path, data: bytes, *, written_at: float = T0) -> Path:
    directory = folder / "offline-run-20260101_000000-abc"
    directory.mkdir(exist_ok=True)
    path = directory / "run-abc.wandb"
    path.write_bytes(data)
    os.utime(path, (written_at, written_at))
    return path


def small(*records: bytes) -> bytes:
    start = writer.run("abc", T0, entity="acme", project="p", name="hero-1")
    rows = [writer.row(step, "2.5", T0 + step) for step in range(5)]
    return writer.log([start, *rows, *records])


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_resumed_run_of_each_client_version(version: str) -> None:
    found = await value(spec(GOLDEN / version, id="gold0001"))
    assert (found.id, found.name) == ("gold0001", "hero-small")
    assert (found.entity, found.project) == ("acme", "golden")
    assert (found.state, found.exit_code) == ("finished", 0)
    assert found.step == 1069, "the row of step 1070 is an evaluation's"
    assert found.loss == pytest.approx(4.0 / 7.9)
    assert (found.throughput, found.throughput_unit) == (1_000_069.0, "tok/s")
    assert found.grad_norm == pytest.approx(0.569)
    assert found.producer is not None
    assert found.producer.startswith(version)
    assert len(found.fragments) == 2
    assert found.config["lr"] == 3e-4
    assert found.config["late"] == 8
    assert found.last_step_at is not None
    assert found.last_record_at is not None
    assert found.last_record_at >= found.last_step_at > 1.79e9


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_rows_of_each_client_version(version: str) -> None:
    source, run = offline(), spec(GOLDEN / version)
    await source.observe(queries_of([run]))
    found = await every_row(source, run)
    assert [row.step for row in found] == [*range(1000, 1061), *range(1050, 1071)]
    losses = [row.loss for row in found if row.loss is not None]
    assert len(losses) == 80
    assert [math.isfinite(loss) for loss in losses].count(False) == 3
    assert all(row.grad_norm is not None for row in found if row.loss is not None)
    recent = await source.recent(run, 30)
    assert [row.step for row in recent.rows] == [*range(1052, 1061), *range(1050, 1071)]
    assert 0.1 < recent.share < 0.6


async def test_the_slurm_job_of_the_newest_launch() -> None:
    assert (await value(spec(GOLDEN / "0.31.0"))).slurm_job_id == "4243"


async def test_the_first_launch_alone_has_failed() -> None:
    first = min((GOLDEN / "0.31.0").iterdir())
    found = await value(spec(first))
    assert (found.state, found.exit_code, found.step) == ("failed", 3, 1059)


async def test_three_clocks(tmp_path: Path) -> None:
    on_disk(tmp_path, small(writer.stats(T0 + 90)), written_at=T0 + 95)
    found = await value(spec(tmp_path, id="abc"), Then(T0 + 100))
    assert (found.last_step_at, found.last_record_at, found.file_mtime) == (
        T0 + 4,
        T0 + 90,
        T0 + 95,
    )
    assert found.state == "running"
    assert (found.throughput, found.throughput_unit, found.usual_step_s) == (1.0, "it/s", 1.0)


async def test_a_missing_exit_record_is_silence_and_no_crash(tmp_path: Path) -> None:
    on_disk(tmp_path, small(), written_at=T0 + 10)
    run, clock = spec(tmp_path, id="abc"), Then(T0 + 609)
    source = offline(clock)
    states = []
    for clock.at in (T0 + 609, T0 + 611, T0 + 20):
        found = (await source.observe(queries_of([run])))["hero"].value
        assert found is not None
        states.append((found.state, found.exit_code))
    assert states == [("running", None), ("silent", None), ("running", None)]


@pytest.mark.parametrize("size", [0, 3, 7])
async def test_a_file_that_has_just_been_created_is_a_start(tmp_path: Path, size: int) -> None:
    on_disk(tmp_path, writer.MAGIC[:size])
    run = spec(tmp_path, id="abc")
    source = offline()
    found = (await source.observe(queries_of([run])))["hero"].value
    assert found is not None
    assert (found.id, found.state, found.step, found.history) == ("abc", "starting", None, ())
    more = await source.more_rows(run)
    assert (more.rows, more.caught_up) == ((), True)


async def test_a_relaunch_that_has_written_nothing_yet_keeps_what_was_known(
    tmp_path: Path,
) -> None:
    on_disk(tmp_path, small(writer.exited(1)))
    again = tmp_path / "offline-run-20260102_000000-abc"
    again.mkdir()
    (again / "run-abc.wandb").write_bytes(writer.MAGIC)
    os.utime(again / "run-abc.wandb", (T0 + 50, T0 + 50))
    found = await value(spec(tmp_path, id="abc"), Then(T0 + 60))
    assert (found.state, found.exit_code) == ("starting", None)
    assert (found.name, found.step, found.loss) == ("hero-1", 4, 2.5)
    assert len(found.fragments) == 2


async def test_nothing_configured() -> None:
    found = await facet(RunSpec(name="hero"))
    assert found.error is not None
    assert found.error.kind is ErrorKind.NOT_CONFIGURED
    assert not found.configured


async def test_files_of_a_host_that_is_gone_are_not_looked_for_here(tmp_path: Path) -> None:
    on_disk(tmp_path, small())
    calls = CallsHere()
    calls.down = RemoteError(ErrorKind.REFUSED, "gpu-7: no route to host")
    run = RunSpec(name="hero", wandb=WandbSpec(dir=f"ssh://gpu-7{tmp_path}"))
    found = (await OfflineWandb(Then(), calls).observe(queries_of([run])))["hero"]
    assert found.error is not None and calls.trips == 1
    assert found.error.message == "gpu-7: no route to host"


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    found = await facet(spec(tmp_path / "nowhere"))
    assert found.error is not None
    assert found.error.kind is ErrorKind.NOT_FOUND
    assert found.error.message == f"there is no {shown(tmp_path / 'nowhere')}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize(
    "closed",
    [".", "offline-run-20260101_000000-abc", "offline-run-20260101_000000-abc/run-abc.wandb"],
)
async def test_without_permission(tmp_path: Path, closed: str) -> None:
    on_disk(tmp_path, small())
    (tmp_path / closed).chmod(0)
    found = await facet(spec(tmp_path, id="abc"))
    (tmp_path / closed).chmod(0o700)
    assert found.error is not None
    assert found.error.kind is ErrorKind.PERMISSION
    assert found.error.message == f"{shown(tmp_path)} may not be read by this user"


@pytest.mark.parametrize("odd", ["loop", "n" * 300])
async def test_a_path_that_cannot_be_a_folder_is_named_once(tmp_path: Path, odd: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    found = await facet(spec(tmp_path / odd))
    assert found.error is not None
    assert found.error.message.count(odd) == 1
    assert "[Errno" not in found.error.message


async def test_a_path_below_a_file(tmp_path: Path) -> None:
    path = on_disk(tmp_path, small())
    found = await facet(spec(path / "wandb"))
    assert found.error is not None
    assert found.error.kind is ErrorKind.NOT_FOUND


async def test_an_id_that_matches_nothing_is_answered_with_those_that_are_there(
    tmp_path: Path,
) -> None:
    for day in range(1, 9):
        directory = tmp_path / "wandb" / f"offline-run-2026010{day}_000000-made-up-{day}"
        directory.mkdir(parents=True)
        (directory / f"run-made-up-{day}.wandb").write_bytes(small())
    found = await facet(spec(tmp_path, id="my-run"))
    assert found.error is not None
    there = "made-up-8, made-up-7, made-up-6, made-up-5, made-up-4 and 3 more"
    assert f"no W&B run my-run in {shown(tmp_path)}; there: {there}" in found.error.message
    assert (await value(spec(tmp_path))).files[0].endswith("run-made-up-8.wandb")


@pytest.mark.parametrize(("wanted", "said"), [(None, "no W&B run"), ("abc", "nor any other")])
async def test_a_folder_without_any_run_says_not_yet(
    tmp_path: Path, wanted: str | None, said: str
) -> None:
    found = await facet(spec(tmp_path, **({} if wanted is None else {"id": wanted})))
    assert found.error is not None and found.error.kind is ErrorKind.NOT_FOUND
    assert said in found.error.message and found.error.message.endswith("yet")


async def test_another_kind_of_file_stays_an_error(tmp_path: Path) -> None:
    on_disk(tmp_path, b"PK\x03\x04 something else")
    source, run = offline(), spec(tmp_path, id="abc")
    for _ in range(2):
        found = (await source.observe(queries_of([run])))["hero"]
        assert found.error is not None
        assert found.error.kind is ErrorKind.BAD_ANSWER
        assert 'it does not begin with ":W&B"' in found.error.message
    assert (await source.more_rows(run)).rows == ()


async def test_a_file_that_vanishes_and_comes_back(tmp_path: Path) -> None:
    path = on_disk(tmp_path, small())
    source, run = offline(), spec(tmp_path, id="abc")
    assert (await source.observe(queries_of([run])))["hero"].known
    shutil.move(path.parent, tmp_path.parent / "away")
    gone = (await source.observe(queries_of([run])))["hero"]
    assert gone.error is not None
    assert gone.error.kind is ErrorKind.NOT_FOUND
    shutil.move(tmp_path.parent / "away", path.parent)
    assert (await source.observe(queries_of([run])))["hero"].known


async def test_the_id_may_come_from_the_url(tmp_path: Path) -> None:
    on_disk(tmp_path, small())
    url = "https://wandb.example.org/acme/p/runs/abc?nw=1"
    found = await value(spec(tmp_path, url=url))
    assert (found.id, found.url) == ("abc", url)


async def test_nothing_from_the_file_reaches_the_screen_unmasked(tmp_path: Path) -> None:
    config = {
        "api_key": '"0123456789abcdef0123456789abcdef01234567"',
        "note": '"a\\u001b[2Jb"',
        "deep": '{"list": [1, "x\\u202ey", null]}',
    }
    start = writer.record(
        2,
        17,
        writer.field(1, b"abc")
        + writer.field(8, b"hero\x1b]0;x\x07\xe2\x80\xae1")
        + writer.field(4, writer.items(config)),
    )
    on_disk(tmp_path, writer.log([start, writer.row(1, "1.0", T0)]))
    found = await value(spec(tmp_path, id="abc"))
    shown = repr((found.name, found.config))
    assert not any(char in shown for char in "\x1b\x07\u202e")
    assert "0123456789abcdef" not in shown
    assert "hero" in (found.name or "")


async def test_many_runs_at_once(tmp_path: Path) -> None:
    runs = [spec(GOLDEN / version, version) for version in VERSIONS]
    found = await offline().observe(queries_of([*runs, RunSpec(name="none")]))
    assert [facet.known for facet in found.values()] == [True] * 4 + [False]


def test_the_value_prints_itself_as_json() -> None:
    value = TrackerValue(id="a", state="running", loss=math.nan, history=((1, math.inf),))
    plain = value.to_json()
    assert (plain["loss"], plain["history"]) == ("NaN", [[1, "Infinity"]])
    assert "columns" not in plain


def launch(folder: Path, name: str, started_at: float, rows: int, *more: bytes) -> None:
    """Write one launch of run abc: a row every ten seconds from its start on."""
    directory = folder / name
    directory.mkdir()
    start = writer.run("abc", started_at)
    lines = [writer.row(step, "2.5", started_at + 10 * step) for step in range(rows)]
    (directory / "run-abc.wandb").write_bytes(writer.log([start, *lines, *more]))


@pytest.mark.parametrize(
    ("rows", "more", "writers"),
    [(60, (), ["offline-run-1-abc"]), (60, (writer.exited(0),), []), (30, (), [])],
    ids=["both go on", "one has ended", "one was killed before"],
)
async def test_two_launches_that_write_at_once_are_told(
    tmp_path: Path, rows: int, more: tuple[bytes, ...], writers: list[str]
) -> None:
    launch(tmp_path, "offline-run-1-abc", T0, rows, *more)
    launch(tmp_path, "offline-run-2-abc", T0 + 300, 30)
    found = await value(spec(tmp_path, id="abc"), Then(T0 + 600))
    assert [each.name for each in found.writers] == writers


@pytest.mark.parametrize("rows", [0, 60])
async def test_ranks_of_one_training_that_log_no_loss_are_no_second_writer(
    tmp_path: Path, rows: int
) -> None:
    """Each rank has called wandb.init with the id of the run."""
    launch(tmp_path, "offline-run-1-abc", T0, 60)
    launch(tmp_path, "offline-run-2-abc", T0 + 5, rows)
    launch(tmp_path, "offline-run-3-abc", T0 + 10, 0)
    ranks = [tmp_path / f"offline-run-{n}-abc" / "run-abc.wandb" for n in (1, 2, 3)]
    with ExitStack() as opened:
        for rank in ranks:
            opened.enter_context(rank.open("ab"))
        found = await value(spec(tmp_path, id="abc"), Then(T0 + 600))
    assert bool(found.writers) == (rows > 0)


async def test_a_later_launch_that_logs_no_loss_yet_is_a_second_writer(tmp_path: Path) -> None:
    """Ranks begin together; one that comes after an hour compiles, and then writes the run too."""
    names = ("offline-run-1-abc", "offline-run-2-abc")
    launch(tmp_path, names[0], T0, 60)
    launch(tmp_path, names[1], T0 + 3600, 0)
    with ExitStack() as opened:
        for name in names:
            opened.enter_context((tmp_path / name / "run-abc.wandb").open("ab"))
        found = await value(spec(tmp_path, id="abc"), Then(T0 + 3700))
    assert [each.name for each in found.writers] == [names[0]]


def lightning(trained: int, validated: Iterable[int], loss: str = "val_loss") -> list[bytes]:
    """Return the rows of an epoch: each fiftieth step, then validations by their own count."""

    def logged(number: int, step: int, **more: str) -> bytes:
        values = {"epoch": "0", "trainer/global_step": str(step), **more}
        at = {"_timestamp": repr(T0 + number), "_step": str(number)}
        return writer.history(number, {**values, **at})

    train = [logged(step, step, train_loss="2.5", lr="0.1") for step in range(49, trained, 50)]
    return [*train, *(logged(trained + n, at, **{loss: "2.7"}) for n, at in enumerate(validated))]


@pytest.mark.parametrize(
    ("validated", "name"),
    [
        (range(5000, 5200), "val_loss"),  # all batches of validations so far
        (range(200), "val_loss_step"),  # the batch of this one: it passes training's own steps
        ([0], "validation/loss"),  # Trainer.validate
        ([3], "test_acc"),  # by epoch
    ],
)
async def test_the_step_is_told_by_rows_of_training_not_of_validations(
    tmp_path: Path, validated: Iterable[int], name: str
) -> None:
    rows = [*lightning(1000, validated, name)]
    on_disk(tmp_path, writer.log([writer.run("abc", T0), *rows]), written_at=T0 + 2000)
    source, run = offline(Then(T0 + 2000)), spec(tmp_path)
    found = (await source.observe(queries_of([run])))["hero"].value
    assert found is not None
    assert (found.step, found.loss, found.last_step_at) == (999, 2.5, T0 + 999)
    told = (await source.more_rows(run)).rows
    assert all(row.throughput is None for row in told if row.loss is None), "no rate of training"
    later = lightning(2000, [])[20:]
    on_disk(tmp_path, writer.log([writer.run("abc", T0), *rows, *later]), written_at=T0 + 2000)
    trend = TrendFold(Trend(), run)
    anew = offline(Then(T0 + 2000))
    await anew.observe(queries_of([run]))
    for row in await every_row(anew, run):
        trend.add(row)
    assert (trend.pace.step, trend.pace.resumes) == (1999, 0)
