"""W&B's files on an ssh host: mostly by an agent in this process, in counted trips."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts import ranges
from cockpit.hosts.link import Ask
from cockpit.model.clock import FixedClock, SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.place import FILE, Place, on_host
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.runtime.ssh import RemoteError
from cockpit.sources import file_tracker
from cockpit.sources.file_tracker import AWAY
from cockpit.sources.wandb.file import BLOCK
from cockpit.sources.wandb.online import OfflineWandb
from cockpit.watch.poller import DEADLINES
from tests.hosts.here import CallsHere
from tests.queries import queries_of
from tests.sources.wandb import writer
from tests.sshd import needs_sshd, reachable, serving

GOLDEN = Path(__file__).parents[2] / "data" / "wandb"
T0 = 1_795_000_000.0
GOLD = "gold0001"
VERSIONS = ("0.17.9", "0.22.3", "0.30.0", "0.31.0")


@pytest.fixture(autouse=True)
def a_busy_machine_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tracker, "AWAY", 30.0)


@pytest.fixture(autouse=True)
def no_process_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "open_to_write", lambda *_: None)


@pytest.fixture
def processes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "open_to_write", OPEN_TO_WRITE)


OPEN_TO_WRITE = ranges.open_to_write


def ahead_by(seconds: float) -> CallsHere:
    """Return a host that is this machine with another clock."""
    calls = CallsHere()
    calls.edit = lambda _, value: [value[0] + seconds, *value[1:]]
    return calls


def spec(place: Path | str, name: str = "hero", **more: str) -> RunSpec:
    return RunSpec(name=name, wandb=WandbSpec(dir=f"ssh://box{place}", **more))


def local(run: RunSpec) -> RunSpec:
    assert run.wandb is not None and run.wandb.dir is not None
    wandb = run.wandb.model_copy(update={"dir": Place(FILE, "", run.wandb.dir.path)})
    return run.model_copy(update={"wandb": wandb})


async def facet(source: OfflineWandb, run: RunSpec) -> Facet[TrackerValue]:
    return (await source.observe(queries_of([run])))[run.name]


async def value(source: OfflineWandb, run: RunSpec) -> TrackerValue:
    found = await facet(source, run)
    assert found.value is not None, found.error
    return found.value


async def every_row(source: OfflineWandb, run: RunSpec, looks: int = 40) -> list[Row]:
    """Return all rows as the watch comes by them: some after each look."""
    found: list[Row] = []
    for _ in range(looks):
        chunk = await source.more_rows(run)
        found = [*chunk.rows] if chunk.restarted else [*found, *chunk.rows]
        if chunk.caught_up:
            return found
        if chunk.later:
            await source.observe(queries_of([run]))
    raise AssertionError(f"{len(found)} rows, and no end")


def lately() -> float:
    return time.time() - 20.0


def launch(folder: Path, run_id: str, *records: bytes, day: int = 1) -> Path:
    """Write what a launch has logged, as it lies in the client's folder."""
    path = folder / f"offline-run-2026010{day}_000000-{run_id}" / f"run-{run_id}.wandb"
    path.parent.mkdir(parents=True)
    path.write_bytes(writer.log([writer.run(run_id, lately() + day), *records]))
    return path


def grown(path: Path, *records: bytes) -> None:
    with path.open("ab") as file:
        file.write(writer.frame(records, file.tell()))


def rows(first: int, end: int, loss: str | None = "2.5", **more: str) -> list[bytes]:
    start = lately()
    return [writer.row(step, loss, start + step * 0.001, **more) for step in range(first, end)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_is_told_is_what_the_same_files_tell_here(version: str) -> None:
    await same_as_here(OfflineWandb(SystemClock(), CallsHere()), spec(GOLDEN / version, id=GOLD))


@needs_sshd
async def test_a_real_host_tells_what_the_same_files_tell_here() -> None:
    with reachable() as server:
        for version in VERSIONS:
            place = on_host(server.host, str(GOLDEN / version))
            run = RunSpec(name="hero", wandb=WandbSpec(dir=place, id=GOLD))
            await same_as_here(OfflineWandb(SystemClock()), run)


async def same_as_here(there: OfflineWandb, run: RunSpec) -> None:
    here = OfflineWandb(SystemClock())
    assert run.wandb is not None
    assert (await facet(there, run)).source == f"W&B files in {run.wandb.dir}"
    own = await every_row(there, run), await every_row(here, local(run))
    assert repr(own[0]) == repr(own[1]) and len(own[0]) > 80
    found, expected = await value(there, run), await value(here, local(run))
    assert found.file_mtime == pytest.approx(expected.file_mtime, abs=0.001)
    assert repr(found.model_copy(update={"file_mtime": expected.file_mtime})) == repr(expected)


async def test_newest_rows_come_first_and_all_others_in_bounded_pages(tmp_path: Path) -> None:
    path = launch(tmp_path, "abc", *rows(0, 20_000))
    calls, run = CallsHere(), spec(tmp_path, id="abc")
    source = OfflineWandb(SystemClock(), calls)
    assert (await value(source, run)).step == 19_999
    assert calls.trips == 2 and calls.bytes < 400_000 < path.stat().st_size / 5
    early = await source.more_rows(run)
    assert [row.step for row in early.rows][:3] == [0, 1, 2] and not early.caught_up
    newest = await source.recent(run, 500)
    assert [row.step for row in newest.rows] == [*range(19_500, 20_000)] and newest.share < 0.1
    source.rewind("hero")
    calls.bytes = 0
    assert [row.step for row in await every_row(source, run)] == [*range(20_000)]
    assert calls.bytes < 1.5 * path.stat().st_size
    assert (await value(source, run)).scanned == 1.0


async def test_two_hundred_runs_cost_one_trip_and_only_what_is_new(tmp_path: Path) -> None:
    logged = rows(0, 100)
    paths = [launch(tmp_path / str(n), "abc", *logged) for n in range(200)]
    runs = queries_of([spec(tmp_path / str(n), str(n), id="abc") for n in range(200)])
    calls = CallsHere()
    source = OfflineWandb(SystemClock(), calls)
    first = await source.observe(runs)
    assert {each.value and each.value.step for each in first.values()} == {99}, first["0"].error
    assert calls.trips == 2
    for path in paths[:50]:
        grown(path, *rows(100, 110))
    calls.bytes = 0
    second = await source.observe(runs)
    assert calls.trips == 3 and calls.bytes < 200 * 600 + 50 * 2 * BLOCK
    assert [second[str(n)].value.step for n in (0, 49, 50, 199)] == [109, 109, 99, 99]  # type: ignore[union-attr]
    calls.bytes = 0
    await source.observe(runs)
    assert calls.trips == 4 and calls.bytes < 200 * 600


async def test_the_first_look_at_many_large_files_is_two_trips(tmp_path: Path) -> None:
    data = launch(tmp_path / "0", "abc", *rows(0, 6000)).read_bytes()
    for n in range(1, 60):
        launch(tmp_path / str(n), "abc").write_bytes(data)
    runs = queries_of([spec(tmp_path / str(n), str(n), id="abc") for n in range(60)])
    calls = CallsHere()
    found = await OfflineWandb(SystemClock(), calls).observe(runs)
    assert {each.value and (each.value.step, each.value.loss) for each in found.values()} == {
        (5999, 2.5)
    }
    assert calls.trips == 2 and calls.bytes < 60 * len(data) / 2


async def test_it_follows_a_growing_run_and_its_next_launch(tmp_path: Path) -> None:
    path = launch(tmp_path, "abc", *rows(0, 5))
    calls, run = CallsHere(), spec(tmp_path)
    source = OfflineWandb(SystemClock(), calls)
    assert (await value(source, run)).step == 4
    seen = [row.step for row in (await source.more_rows(run)).rows]
    for end in (9, 2000, 2001):  # within a block, over several, by one row
        grown(path, *rows((seen[-1] or 0) + 1, end))
        trips = calls.trips
        found = await value(source, run)
        assert (found.step, found.state, calls.trips) == (end - 1, "running", trips + 1)
        chunk = await source.more_rows(run)
        assert chunk.caught_up and not chunk.later
        seen += [row.step for row in chunk.rows]
    launch(tmp_path, "abc", *rows(2001, 2010), writer.exited(0), day=2)
    found = await value(source, run)
    assert (found.step, found.exit_code, len(found.fragments)) == (2009, 0, 2)
    assert seen + [row.step for row in (await source.more_rows(run)).rows] == [*range(2010)]


async def test_a_loss_far_from_the_end_is_found_by_a_closer_look(tmp_path: Path) -> None:
    launch(tmp_path, "abc", *rows(0, 900), *rows(900, 9000, None))
    calls, run = CallsHere(), spec(tmp_path, id="abc")
    source = OfflineWandb(SystemClock(), calls)
    found = await value(source, run)
    assert (found.step, found.loss) == (8999, 2.5) and calls.trips <= 6


async def test_what_is_nowhere_is_not_looked_for_for_ever(tmp_path: Path) -> None:
    launch(tmp_path, "abc", *rows(0, 9000, None, other="1.25" * 20))
    calls, run = CallsHere(), spec(tmp_path, id="abc")
    source = OfflineWandb(SystemClock(), calls)
    found = await value(source, run)
    assert (found.step, found.loss) == (8999, None)
    calls.bytes = 0
    await value(source, run)
    assert calls.bytes < 2000


async def test_a_record_longer_than_what_was_brought_is_read_whole(tmp_path: Path) -> None:
    big = {f"layer/{n}/norm": "1.25" for n in range(60_000)}
    long = writer.row(300, "2.0", lately(), **big)
    launch(tmp_path, "abc", *rows(0, 300), long, *rows(301, 302))
    run, source = spec(tmp_path, id="abc"), OfflineWandb(SystemClock(), CallsHere())
    assert (await value(source, run)).step == 301
    assert [row.step for row in await every_row(source, run)] == [*range(302)]


@pytest.mark.parametrize("ahead", [3600, -3600])
async def test_an_hour_of_clock_skew_is_told_by_the_host_s_own_clock(
    tmp_path: Path, ahead: int
) -> None:
    now = time.time()
    there = now + ahead
    records = [writer.row(step, "2.5", there - 60 + step) for step in range(50)]
    path = launch(tmp_path, "abc", *records, writer.stats(there - 8))
    os.utime(path, (there - 8, there - 8))
    calls = ahead_by(ahead)
    found = await value(OfflineWandb(SystemClock(), calls), spec(tmp_path, id="abc"))
    assert found.file_mtime == pytest.approx(now - 8, abs=3.0)
    assert found.last_step_at == pytest.approx(now - 11, abs=5.0)
    assert found.last_record_at == pytest.approx(now - 8, abs=5.0)
    assert found.clock_offset_s == pytest.approx(ahead, abs=5.0) and found.state == "running"


async def test_a_clock_that_was_set_here_is_none_of_the_host_s(tmp_path: Path) -> None:
    then = time.time() - 86_400
    path = launch(tmp_path, "abc", *[writer.row(step, "2.5", then + step) for step in range(9)])
    os.utime(path, (then + 9, then + 9))
    source = OfflineWandb(FixedClock(then + 10), CallsHere())
    assert (await value(source, spec(tmp_path, id="abc"))).file_mtime == pytest.approx(then + 9)


async def test_a_host_that_is_gone_is_unknown_and_comes_back(tmp_path: Path) -> None:
    launch(tmp_path, "abc", *rows(0, 5))
    calls = CallsHere()
    source = OfflineWandb(SystemClock(), calls)
    runs = [spec(tmp_path, name, id="abc") for name in ("a", "b")]
    text = "box: no route to host: is it up, and is there a VPN?"
    calls.down = RemoteError(ErrorKind.REFUSED, text)
    for found in (await source.observe(queries_of(runs))).values():
        assert found.error is not None and found.value is None
        assert (found.error.kind, found.error.message) == (ErrorKind.REFUSED, text)
    calls.down = None
    found = (await source.observe(queries_of(runs)))["b"]
    assert found.value is not None and found.value.step == 4


async def test_what_a_slow_link_has_not_brought_in_time_comes_in_smaller_pieces(
    tmp_path: Path,
) -> None:
    for run_id in ("abc", "other"):
        launch(tmp_path, run_id, *rows(0, 10_000))
    calls, runs = CallsHere(), [spec(tmp_path, name, id=name) for name in ("abc", "other")]
    brought: list[int] = []

    def slow(each: Ask, value: Any) -> Any:
        brought.append(sum(len(data) for one in value[1] for _, data in one[2]))
        if brought[-1] > 400_000:
            raise RemoteError(ErrorKind.TIMEOUT, "box: no answer within 5 s", sent=True)
        return value

    calls.edit = slow
    source = OfflineWandb(SystemClock(), calls)
    for found in (await source.observe(queries_of(runs))).values():
        assert found.error is not None and found.error.kind is ErrorKind.TIMEOUT
        assert found.error.message == "box: no answer within 5 s"
    for found in (await source.observe(queries_of(runs))).values():
        assert found.value is not None and found.value.step == 9_999
    assert brought[1] > 400_000 > brought[-1] > 0


async def test_a_look_and_what_is_read_after_it_end_before_the_watch_gives_up(
    tmp_path: Path,
) -> None:
    launch(tmp_path, "abc", *rows(0, 5))
    calls, allowed = CallsHere(), []

    def slow(host: str, each: Ask, deadline: float) -> Any:
        allowed.append(deadline)
        return calls(host, each, deadline)

    source = OfflineWandb(SystemClock(), slow)
    assert (await value(source, spec(tmp_path, id="abc"))).step == 4
    first, second = allowed
    assert second < first, "both trips of a look share its seconds"
    assert first + 1.0 + AWAY < DEADLINES["tracker"].away


async def test_a_new_file_that_does_not_come_costs_no_other_run(tmp_path: Path) -> None:
    runs = [spec(tmp_path / name, name, id="abc") for name in ("old", "new")]
    launch(tmp_path / "old", "abc", *rows(0, 5))
    calls = CallsHere()
    source = OfflineWandb(SystemClock(), calls)
    await source.observe(queries_of(runs))
    launch(tmp_path / "new", "abc", *rows(0, 9))

    def loses_new_files(each: Ask, value: Any) -> Any:
        if "folders" not in each.arguments:
            raise RemoteError(ErrorKind.TIMEOUT, "box: no answer within 5 s", sent=True)
        return value

    calls.edit = loses_new_files
    found = await source.observe(queries_of(runs))
    assert found["old"].value is not None and found["old"].value.step == 4
    error = found["new"].error
    assert error is not None and error.kind is ErrorKind.TIMEOUT
    assert error.message == "box: no answer within 5 s"
    calls.edit = CallsHere().edit
    found = await source.observe(queries_of(runs))
    assert [each.value and each.value.step for each in found.values()] == [4, 8]


async def test_an_agent_that_cannot_answer_is_unknown(tmp_path: Path) -> None:
    launch(tmp_path, "abc", *rows(0, 5))
    calls, run = CallsHere(), spec(tmp_path, id="abc")

    def fails(each: Ask, value: Any) -> Any:
        raise OSError(11, "no thread is left there")

    calls.edit = fails
    source = OfflineWandb(SystemClock(), calls)
    found = await facet(source, run)
    assert found.error is not None and found.error.kind is ErrorKind.BAD_ANSWER
    assert found.error.message == "box: no thread is left there"
    calls.edit = CallsHere().edit
    assert (await value(source, run)).step == 4


async def test_a_bucket_is_not_read_and_said_so() -> None:
    run = RunSpec(name="hero", wandb=WandbSpec(dir="gs://bucket/wandb"))
    found = await facet(OfflineWandb(SystemClock(), CallsHere()), run)
    assert found.error is not None and found.error.kind is ErrorKind.UNSUPPORTED
    text = "W&B files at gs://bucket are not read yet by this version"
    assert found.error.message == text


@needs_sshd
@pytest.mark.usefixtures("processes_are_seen")
async def test_a_live_run_of_the_client_is_read_over_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="the W&B client is missing: make test installs it")
    with serving(tmp_path) as sshd:
        monkeypatch.setenv("PATH", f"{sshd.root}/bin:{os.environ['PATH']}")
        script = tmp_path / "train.py"
        script.write_text(_TRAINER)
        env = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
        own = await asyncio.create_subprocess_exec(
            sys.executable, str(script), cwd=sshd.home, env=env,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert own.stdin is not None and own.stdout is not None
        run = RunSpec(name="hero", wandb=WandbSpec(dir=f"ssh://{sshd.host}/~", id="live0001"))
        unnamed = RunSpec(name="any", wandb=WandbSpec(dir=f"ssh://{sshd.host}/~"))
        source = OfflineWandb(SystemClock())
        try:
            for step in (20, 40):
                assert await own.stdout.readline() == b"%d\n" % step
                found = await seen(source, run, step)
                assert found.state == "running" and found.step is not None
                assert found.loss == pytest.approx(1.0 / found.step)
                own.stdin.write(b"go on\n")
                await own.stdin.drain()
                if step == 20:
                    later = launch(sshd.home / "wandb", "eval", *rows(0, 3))
                    os.utime(later, (time.time() + 60.0, time.time() + 60.0))
                    later.parent.rename(later.parent.parent / "offline-run-20990101_000000-eval")
                    assert (await value(source, unnamed)).id == "live0001", "it is written to"
            await own.wait()
        finally:
            if own.returncode is None:
                own.kill()
                await own.wait()
        assert (await value(source, unnamed)).id == "eval", "begun last, and nothing else lives"
        found = await value(source, run)
        assert (found.state, found.exit_code, found.name) == ("finished", 0, "hero-live")
        assert [row.step for row in await every_row(source, run)] == [*range(1, 41)]


async def seen(source: OfflineWandb, run: RunSpec, step: int) -> TrackerValue:
    """Return the facet once it shows a step, or the one before: the client writes whole blocks."""
    until = time.monotonic() + 30.0
    while True:
        found = await value(source, run)
        if (found.step or 0) >= step - 1:
            return found
        assert time.monotonic() < until, found.step
        await asyncio.sleep(0.05)


_TRAINER = """
import sys, wandb
quiet = wandb.Settings(x_disable_stats=True)
run = wandb.init(project="p", id="live0001", name="hero-live", settings=quiet)
for step in range(1, 41):
    run.log({"train/loss": 1.0 / step, "global_step": step, "text": "x" * 40_000})
    if step % 20 == 0:
        print(step, flush=True)
        sys.stdin.readline()
run.finish()
"""
