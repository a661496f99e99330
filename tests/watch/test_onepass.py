"""Rows that come by and by: the newest ones are judged while the older ones are on their way.

Which execution a config describes, and that a cockpit that starts later knows the former one.

Which runs of one run file write to the same place.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.config.advice import shared_places
from cockpit.model.facet import ErrorKind, Facet, known
from cockpit.model.history import Settings, Sharer
from cockpit.model.lineage import shared_place
from cockpit.model.observed import JobValue, Phase, Row
from cockpit.model.report import Facets, Verdict
from cockpit.model.run import CheckpointSpec, CockpitFile, JobSpec, RunSpec, WandbSpec
from cockpit.runtime.git import Unchanged
from cockpit.sources.curve_fold import RowChunk, unreadable
from cockpit.store.memory import Configs, SettingsKept
from cockpit.store.store import Store
from cockpit.watch.engine import Engine
from cockpit.watch.fleet import UnknownRunError, pairs_of, sharers_of
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.runstate import Rows, RunState, SettingsSeen
from tests.rules.making import T0, job, seen, settings_of, tracker
from tests.watch.fakes import (
    Chunk,
    FakeTracker,
    FastClock,
    SteppedClock,
    World,
    checkpoints,
    failed,
    tracker_value,
)
from tests.watch.remote import CLUSTER, Cluster, on_cluster, world_of


def engine_of(world: World, store: Store | None = None) -> Engine:
    return Engine(world.file, store=store, clock=world.clock, sources=world.sources)


@pytest.mark.parametrize("facet", ["tracker", "job", "log", "checkpoints", "code"])
async def test_a_hanging_facet_is_unknown_within_the_deadline(facet: str) -> None:
    world = World("a", "b", clock=SteppedClock())
    world.fakes["checkpoints"].value = checkpoints(3)
    world.fakes[facet].hanging = {"a"}
    began = world.clock.monotonic()
    report = await engine_of(world).check(deadline=20.0)
    assert world.clock.monotonic() - began < 20.0
    facets = {run.name: dict(run.facets.items()) for run in report.runs}
    error = facets["a"][facet].error
    assert error is not None and error.kind is ErrorKind.TIMEOUT
    assert re.search(r"no answer within \d+(\.\d)? s$", error.message)
    assert all(facets["a"][name].known for name in {"tracker", "job", "log"} - {facet})
    assert all(facets["b"][name].known for name in ("tracker", "job", "log", "checkpoints"))


async def test_a_fault_over_one_run_costs_no_other_its_facet() -> None:
    world = World("a", "b")
    plain = world.fakes["log"].observe

    async def faulty(runs: Sequence[RunSpec]) -> dict[str, Facet[Any]]:
        if any(run.name == "a" for run in runs):
            raise RuntimeError("boom")
        found: dict[str, Facet[Any]] = await plain(runs)
        return found

    world.fakes["log"].observe = faulty
    report = await engine_of(world).check()
    assert [run.facets.log.known for run in report.runs] == [False, True]


async def test_an_empty_store_is_judged_from_all_rows() -> None:
    world = World()
    now = world.clock.now()
    rows = [Row(n, now - 400 + n, 2.0, 10.0) for n in range(200)]
    rows[150] = Row(150, now - 250, float("nan"), 10.0)
    world.tracker.rows, world.tracker.chunk = rows, 20
    report = await engine_of(world).check()
    assert [alert.id for alert in report.runs[0].alerts] == ["C-09"]
    assert world.tracker.read == 200


async def test_more_rows_than_there_is_time_for_are_judged_by_the_recent_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(clock=SteppedClock(speed=8.0))
    now = world.clock.now()
    world.tracker.value = tracker_value(now, step=59_999)
    world.tracker.rows = [Row(n, now - 60_000 + n, 2.0, 10.0) for n in range(60_000)]
    plain = world.tracker.more_rows

    async def slow(run: RunSpec) -> Chunk:
        await world.clock.sleep(3.0)
        return await plain(run)

    monkeypatch.setattr(world.tracker, "more_rows", slow)
    began = world.clock.monotonic()
    report = await engine_of(world).check(deadline=20.0)
    assert world.clock.monotonic() - began < 20.0
    assert report.runs[0].verdict is Verdict.HEALTHY
    assert 0 < world.tracker.read < 60_000


async def test_checking_again_reads_only_what_is_new() -> None:
    world = World()
    now = world.clock.now()
    world.tracker.rows = [Row(n, now - 400 + n, 2.0) for n in range(100)]
    engine = engine_of(world)
    await engine.check()
    world.fakes["job"].value = failed(now)
    report = await engine.check()
    assert [alert.id for alert in report.runs[0].alerts] == ["C-01"]
    assert world.tracker.read == 100


async def test_check_keeps_to_the_runs_asked_for() -> None:
    world = World("a", "b")
    report = await engine_of(world).check(["b"])
    assert [run.name for run in report.runs] == ["b"]
    assert world.fakes["job"].asked == [("b",)]
    with pytest.raises(UnknownRunError, match="it has: a, b"):
        await engine_of(world).check(["c"])


async def test_a_check_takes_no_answer_that_git_gave_some_time_ago() -> None:
    world = World()
    plain, kept = world.fakes["code"].observe, Unchanged[int](world.clock)
    given: list[int] = []

    async def one_more() -> int:
        return len(given)

    async def observed(
        runs: Sequence[RunSpec], launched: Mapping[str, str]
    ) -> dict[str, Facet[Any]]:
        given.append(await kept.answer("code", lambda: (), one_more))
        found: dict[str, Facet[Any]] = await plain(runs)
        return found

    world.fakes["code"].observe = observed
    engine = engine_of(world)
    await engine.check()
    await engine.check()
    assert given == [0, 1]


async def test_check_writes_nothing_into_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    world = World()
    world.fakes["job"].value = failed(world.clock.now())
    report = await engine_of(world, store).check()
    assert report.runs[0].alerts
    await asyncio.sleep(0)
    with store.reading() as connection:
        for table in ("alerts", "phases", "reports", "observations"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0


async def test_a_place_away_is_asked_once_and_its_hang_is_the_fate_of_all_its_runs() -> None:
    names = tuple(f"run-{number:03}" for number in range(200))
    cluster = Cluster(SteppedClock())
    world = world_of(cluster, [on_cluster(name) for name in names])
    cluster.hangs = True
    began = world.clock.monotonic()
    report = await engine_of(world).check(deadline=20.0)
    assert world.clock.monotonic() - began < 20.0
    assert [cluster.requests(facet) for facet in ("job", "log", "host")] == [[names]] * 3
    errors = [run.facets.job.error for run in report.runs]
    assert all(error is not None and error.kind is ErrorKind.TIMEOUT for error in errors)
    assert all(error is not None and CLUSTER in error.message for error in errors)


async def test_a_tracker_away_is_asked_once_though_it_had_rows() -> None:
    world = World("a", "b")
    online = [
        run.model_copy(update={"wandb": WandbSpec(project="p", id=run.name)})
        for run in world.file.runs
    ]
    world.tracker.rows = [Row(1, world.clock.now(), 2.0)]
    await engine_of(world).check()
    assert world.tracker.asked == [("a", "b"), ("a",)]
    world.tracker.asked, world.tracker.read = [], 0
    world.file = world.file.model_copy(update={"runs": tuple(online)})
    await engine_of(world).check()
    assert world.tracker.asked == [("a", "b")]


async def test_a_log_that_is_found_by_its_job_is_asked_for_after_it() -> None:
    cluster = Cluster(SteppedClock())
    world = world_of(cluster, [on_cluster("a"), on_cluster("b")])
    report = await engine_of(world).check()
    assert all(run.facets.log.known for run in report.runs)
    assert [query.job is not None and query.job.id for query in cluster.given[0]] == ["pid:1"] * 2


class Remote(FakeTracker):
    """A server's run of ``total`` rows, of which a look brings some older and the newest ones."""

    def __init__(self, total: int) -> None:
        super().__init__(FastClock())
        self.all = [Row(step, float(step), 2.5) for step in range(total)]
        self.come: list[Row] = []

    async def more_rows(self, run: RunSpec) -> RowChunk:  # type: ignore[override]
        rows, self.come = tuple(self.come), []
        self.read += len(rows)
        caught_up = self.read == len(self.all)
        later = not caught_up and not rows
        return RowChunk(rows, caught_up, False, self.read / len(self.all), later)

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:  # type: ignore[override]
        return RowChunk(tuple(self.all[-10:]), True, False, 10 / len(self.all))

    def look(self, older: int, new: Sequence[Row] = ()) -> None:
        self.come += self.all[self.read : self.read + older]
        self.all += new


async def test_the_newest_rows_stand_in_until_the_older_ones_have_come() -> None:
    tracker, rows, run = Remote(100), Rows(), RunSpec(name="r")
    chunk = await feed_chunk(tracker, run, rows)
    assert (chunk.changed, chunk.caught_up, rows.complete) == (True, True, False)
    assert rows.trend.pace.step == 99 and rows.skipped == 0.9
    tracker.look(50, [Row(100, 100.0, float("nan"))])
    while not (await feed_chunk(tracker, run, rows)).caught_up:
        pass
    assert rows.trend.pace.step == 100, "judged by what is new, though steps 50 to 90 are not here"
    assert rows.full.pace.step == 49 and rows.skipped > 0.8
    assert not (await feed_chunk(tracker, run, rows)).changed
    tracker.look(51)
    while not (await feed_chunk(tracker, run, rows)).caught_up:
        pass
    assert rows.complete and rows.skipped == 0.0 and rows.trend.pace.step == 100


class Gone(Remote):
    """A folder that does not answer any more."""

    async def more_rows(self, run: RunSpec) -> RowChunk:  # type: ignore[override]
        return unreadable("no answer")


async def test_files_that_cannot_be_read_are_not_asked_at_once_again_nor_taken_as_whole() -> None:
    tracker, rows, run = Gone(1), Rows(), RunSpec(name="r")
    chunk = await feed_chunk(tracker, run, rows)
    assert (chunk.caught_up, rows.complete, rows.tried) == (True, False, True)
    whole = Remote(3)
    whole.look(3)
    while not (await feed_chunk(whole, run, rows)).caught_up:
        pass
    chunk = await feed_chunk(tracker, run, rows)
    assert (chunk.changed, chunk.caught_up, rows.trend.pace.step) == (False, True, 2)


OLD = job(id="1", started_at=T0)
NEW = job(id="2", started_at=T0 + 1000)


def told(rate: int, since: float, **more: Any) -> Any:
    return tracker(config={"lr": rate}, config_since=since, **more)


def rates(watched: SettingsSeen) -> tuple[str | None, str | None]:
    known = (watched.former, watched.present)
    former, present = (None if each is None else each.values["lr"] for each in known)
    return former, present


def watching() -> SettingsSeen:
    """Return what was seen of the old job and its config."""
    watched = SettingsSeen()
    watched.update(seen(T0 + 100, job=OLD, tracker=told(1, T0 + 30)))
    assert rates(watched) == (None, "1")
    return watched


def test_a_config_that_comes_before_its_job_is_seen_is_not_the_former_jobs() -> None:
    watched = watching()
    late = seen(T0 + 100, job=OLD)
    late = late.model_copy(update={"tracker": seen(T0 + 1100, tracker=told(2, T0 + 1030)).tracker})
    assert not watched.update(late) and rates(watched) == (None, "1")
    assert watched.update(seen(T0 + 1200, job=NEW, tracker=told(2, T0 + 1030)))
    assert rates(watched) == ("1", "2")


def test_the_former_jobs_config_is_not_the_new_jobs() -> None:
    watched = watching()
    assert watched.update(seen(T0 + 1020, job=NEW, tracker=told(1, T0 + 30)))
    assert rates(watched) == ("1", None), "the new job has told none yet"


def test_a_config_from_before_the_job_is_a_former_ones_though_none_was_seen() -> None:
    watched = SettingsSeen()
    watched.update(seen(T0 + 1020, job=NEW, tracker=told(1, T0 + 30)))
    watched.update(seen(T0 + 1200, job=NEW, tracker=told(2, T0 + 1030)))
    assert rates(watched) == ("1", "2")


@pytest.mark.parametrize(
    ("began", "sign", "looked", "known"),
    [
        (T0, T0 + 50, T0 + 60, True),
        (T0, T0 + 50, T0 + 40, False),  # the job was not looked at since
        (T0, None, T0 + 60, False),  # the tracker tells no time at all
        (None, T0 + 50, T0 + 60, False),  # the job tells no start, and was first seen after
    ],
)
def test_a_tracker_that_does_not_date_its_launches(
    began: float | None, sign: float | None, looked: float, known: bool
) -> None:
    watched = SettingsSeen()
    described = tracker(config={"lr": 1}, heartbeat_at=sign)
    watched.update(seen(looked, job=job(started_at=began), tracker=described))
    assert (watched.present is not None, watched.former) == (known, None)


def test_a_launch_that_begins_after_the_jobs_end_is_not_the_jobs() -> None:
    watched, over = SettingsSeen(), job(Phase.FAILED, started_at=T0, ended_at=T0 + 10)
    watched.update(seen(T0 + 200, job=over, tracker=told(1, T0 + 100)))
    assert rates(watched) == (None, None)


def test_without_a_named_job_each_launch_of_the_tracker_is_one() -> None:
    watched = SettingsSeen()
    for rate, since in ((1, T0), (1, T0), (2, T0 + 90)):
        watched.update(seen(T0 + 100, tracker=told(rate, since)), job_named=False)
    assert rates(watched) == ("1", "2")
    watched.update(seen(T0 + 100, tracker=tracker()), job_named=False)
    assert rates(watched) == ("1", "2"), "a look that tells nothing changes nothing"


def test_a_job_that_is_not_known_has_no_config() -> None:
    watched = SettingsSeen()
    assert not watched.update(seen(T0 + 100, tracker=told(1, T0)))


def test_what_the_job_shows_goes_before_the_trackers() -> None:
    watched = SettingsSeen()
    watched.update(seen(T0 + 60, job=job(config={"lr": 7}), tracker=told(1, T0 + 30)))
    assert rates(watched) == (None, "7")


def test_a_cockpit_that_starts_after_the_restart_knows_the_former_config(tmp_path: Path) -> None:
    watched, store = watching(), Store(tmp_path / "store.sqlite")
    kept = SettingsKept(store)
    assert kept.of("r") == Configs()
    kept.save("r", T0 + 100, Configs(watched.present, watched.former))
    kept.save("r", T0 + 50, Configs(None, None))
    again = SettingsSeen()
    again.update(seen(T0 + 1200, job=NEW, tracker=told(2, T0 + 1030)))
    again.recall(*kept.of("r"))
    assert rates(again) == ("1", "2"), "a look that came before the store's answer stays"
    first = SettingsSeen()
    first.recall(*kept.of("r"))
    first.update(seen(T0 + 1200, job=NEW, tracker=told(2, T0 + 1030)))
    assert rates(first) == ("1", "2")
    store.close()


def test_what_the_store_knows_of_the_present_job_stays_the_present_ones() -> None:
    watched = SettingsSeen()
    watched.update(seen(T0 + 1200, job=NEW, tracker=tracker()))
    own = Settings(source="s", job=watched._whose, values={"lr": "2"})
    watched.recall(own, settings_of({"lr": 1}))
    assert rates(watched) == ("1", "2")


def run(name: str, root: str | None = None, **wandb: Any) -> RunSpec:
    spec = WandbSpec(**wandb) if wandb else None
    return RunSpec(name=name, output_root=root, job=JobSpec(kind="local"), wandb=spec)


def find_sharers(states: list[RunState]) -> dict[str, tuple[Sharer, ...]]:
    by_name = {state.spec.name: state for state in states}
    return sharers_of(by_name, pairs_of(state.spec for state in states))


def state(spec: RunSpec, pid: int, phase: Phase = Phase.RUNNING, *below: int) -> RunState:
    job = JobValue(id=f"pid:{pid}", state=phase.value, phase=phase, processes=below)
    return RunState(spec, spec.name, facets=Facets(job=known(job, "process table", 1.0)))


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        (run("a", "/r"), run("b", "/r/"), ("output root /r", True)),
        (run("a", "/r"), run("b", "/rb"), None),
        (run("a", id="x", entity="e", project="p"), run("b", id="x", entity="e", project="p"),
         ("W&B id x", True)),
        (run("a", id="x", dir="/a/w", project="p"), run("b", id="x", dir="/b/w", project="p"),
         ("W&B id x", True)),
        (run("a", url="https://wandb.ai/e/p/runs/x"), run("b", id="x", entity="e", project="p"),
         ("W&B id x", True)),
        (run("a", id="x", dir="/a/wandb"), run("b", id="x", dir="/b/wandb"), ("W&B id x", False)),
        (run("a", id="x", project="p"), run("b", id="x", project="q"), None),
        (run("a"), run("b"), None),
    ],
)  # fmt: skip
def test_one_place_of_two_runs(
    one: RunSpec, other: RunSpec, answer: tuple[str, bool] | None
) -> None:
    assert shared_place(one, other) == answer


def test_both_are_told_whether_the_other_lives() -> None:
    states = [state(run("a", "/r"), 7), state(run("b", "/r"), 9, Phase.FAILED), state(run("c"), 8)]
    found = find_sharers(states)
    assert list(found) == ["a", "b"]
    (of_a,), (of_b,) = found["a"], found["b"]
    assert (of_a.run, of_a.lives, of_a.job_id) == ("b", False, "pid:9")
    assert (of_b.run, of_b.lives, of_b.same_job) == ("a", True, False)


def test_one_process_under_two_names_is_one_job() -> None:
    twice = find_sharers([state(run("a", "/r"), 7), state(run("b", "/r"), 7)])
    assert twice["a"][0].same_job
    below = find_sharers(
        [state(run("a", "/r"), 7, Phase.RUNNING, 8), state(run("b", "/r"), 8, Phase.RUNNING, 8)]
    )
    assert below["b"][0].same_job


def test_a_run_file_that_names_one_place_twice_is_told() -> None:
    pair = (run("a", "/r"), run("b", "/r"))
    (found,) = shared_places(CockpitFile(path="x", runs=pair))
    assert found.text == "runs a and b share the same output root /r"
    saves = CheckpointSpec(path=["/c"])
    both = tuple(RunSpec(name=name, checkpoints=saves) for name in "ab")
    (found,) = shared_places(CockpitFile(path="x", runs=both))
    assert "checkpoints.path (/c)" in found.text
    assert shared_places(CockpitFile(path="x", runs=(run("a", "/r"), run("b", "/q")))) == ()
    book = {"logbook": "/book.md"}
    both = tuple(RunSpec.model_validate({"name": name, "records": book}) for name in "ab")
    (found,) = shared_places(CockpitFile(path="x", runs=both))
    assert found.text == "runs a and b share the same records.logbook (/book.md)"
