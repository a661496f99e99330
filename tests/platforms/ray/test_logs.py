"""The log of a job on Ray: only its end can be had; what is new in it is kept here."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, LogValue, Row
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.ray import logs
from cockpit.platforms.ray.logs import grown, lines_for
from cockpit.platforms.ray.platform import RayPlatform
from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.remote import log_at
from cockpit.sources.logs.spool import HOLE
from tests.platforms.ray.recorded import Recorded, head, job_of, platform, reply, run_of

NAME = "job-driver-hero-i001.log"


def steps(first: int, last: int) -> bytes:
    return b"".join(b"step %d loss=%.3f\n" % (n, 3 - n / 1000) for n in range(first, last))


class Reader:
    """Looks at the log of one run as the watch does: the job first, then its log."""

    def __init__(self, ray: Recorded, name: str = "hero-i001") -> None:
        self.run: RunSpec = run_of(ray.url, name)
        self.source: RayPlatform = platform()
        self.job: JobValue | None = None

    async def look(self) -> Facet[LogValue]:
        self.job = self.job or await job_of(self.source, self.run)
        query = Query(run=self.run, job=self.job)
        return (await self.source.logs([query]))[self.run.name]

    async def value(self) -> LogValue:
        facet = await self.look()
        assert facet.value is not None and facet.error is None, facet.error
        return facet.value

    async def rows(self) -> list[int | None]:
        rows: tuple[Row, ...] = (await self.value()).rows
        return [row.step for row in rows]

    def kept(self, value: LogValue) -> bytes:
        with log_at(place_of(value.path)).open() as log:
            return log.read(0, log.stat.size)


async def test_the_end_is_read_and_then_what_is_new() -> None:
    async with head() as ray:
        reader = Reader(ray)
        ray.logs[NAME] = steps(0, 50)
        first = await reader.value()
        assert [row.step for row in first.rows] == [*range(50)]
        assert await reader.rows() == []
        ray.logs[NAME] += steps(50, 80) + b"step 80 lo"
        assert await reader.rows() == [*range(50, 80)]
        ray.logs[NAME] += b"ss=2.5\n"
        last = await reader.value()
    assert [row.step for row in last.rows] == [80] and last.lines[-1].plain == "step 80 loss=2.5"
    assert reader.kept(last) == steps(0, 80) + b"step 80 loss=2.5\n"
    place = reader.source.log_place(reader.run, last)
    assert place is not None and place.here
    page = LogFile(log_at(place)).page(0, 3)
    assert [line.plain for line in page.lines] == ["step 0 loss=3.000", "step 1 loss=2.999",
                                                    "step 2 loss=2.998"]  # fmt: skip


async def test_no_look_moves_a_hundred_kilobytes() -> None:
    async with head() as ray:
        reader = Reader(ray)
        reader.job = await job_of(reader.source, reader.run)
        ray.logs[NAME] = (b"y" * 999 + b"\n") * 10_000
        for number in range(5):
            ray.sent = 0
            ray.logs[NAME] += steps(number, number + 1)
            value = await reader.value()
            assert ray.sent < 100_000 and value.lines[-1].plain.startswith(f"step {number}")
    assert ray.sent < 30_000, "of a log that hardly grows little is asked for"


async def test_a_first_look_moves_less_than_a_hundred_kilobytes() -> None:
    async with head() as ray:
        reader = Reader(ray)
        reader.job = await job_of(reader.source, reader.run)
        ray.logs[NAME] = steps(0, 400_000)
        ray.sent = 0
        value = await reader.value()
        assert ray.sent < 100_000
    assert value.rows[-1].step == 399_999 and len(value.rows) > 500
    assert reader.kept(value).startswith(HOLE), "that there is more before is said"


async def test_lines_that_came_too_fast_are_missing_and_said() -> None:
    async with head() as ray:
        reader = Reader(ray)
        ray.logs[NAME] = steps(0, 100)
        await reader.value()
        ray.logs[NAME] += steps(100, 9_000)
        value = await reader.value()
    kept = reader.kept(value)
    assert kept.count(HOLE) == 1 and kept.startswith(steps(0, 100) + HOLE)
    assert value.rows[-1].step == 8999


async def test_a_bar_is_read_while_it_is_drawn() -> None:
    async with head() as ray:
        reader = Reader(ray)
        ray.logs[NAME] = b"begin\n 10%|#   | 10/100 [00:10<01:30, 1.00it/s, loss=2.5]\r"
        assert await reader.rows() == [10]
        ray.logs[NAME] += b" 20%|##  | 20/100 [00:20<01:20, 1.00it/s, loss=2.4]\r 30%|#"
        assert await reader.rows() == [20]


async def test_a_restart_and_a_second_reader_go_on_from_what_is_kept() -> None:
    async with head() as ray:
        one, two = Reader(ray), Reader(ray)
        ray.logs[NAME] = steps(0, 30)
        await one.value()
        ray.logs[NAME] += steps(30, 40) + b"50%|##| 50/100 [00:10<01:30, 1.00it/s]\r"
        await two.value()
        ray.logs[NAME] += b"60%|##| 60/100 [00:10<01:30, 1.00it/s]\r\n" + steps(70, 75)
        for reader in (one, one, two, one):
            value = await reader.value()
    kept = one.kept(value)
    assert kept.count(b"step 35 ") == 1 and kept.count(b"50%") == kept.count(b"60%") == 1
    assert HOLE not in kept and kept.endswith(steps(70, 75))


async def test_secrets_are_not_kept() -> None:
    async with head() as ray:
        reader = Reader(ray)
        ray.logs[NAME] = b"WANDB_API_KEY=hunter2hunter2hunter2\n" + steps(0, 3)
        value = await reader.value()
        ray.logs[NAME] += steps(3, 5)
        again = await Reader(ray).value()
    assert b"hunter2" not in reader.kept(value) and "hunter2" not in str(value.lines)
    assert reader.kept(again).count(b"WANDB_API_KEY") == 1


async def test_an_ended_job_is_read_once_more_and_then_never() -> None:
    async with head() as ray:
        reader = Reader(ray, "fail-i001")
        ray.logs["job-driver-fail-i001.log"] = b"step 1 loss=2\nboom"
        value = await reader.value()
        for _ in range(3):
            await reader.value()
        assert ray.count("/api/v0/logs/file") == 1
    assert [line.plain for line in value.lines] == ["step 1 loss=2", "boom"]
    assert reader.job is not None and reader.job.ended_at is not None
    assert value.mtime == pytest.approx(reader.job.ended_at)


async def test_of_a_node_that_is_gone_what_ray_has_kept_is_shown() -> None:
    async with head() as ray:
        reader = Reader(ray, "fail-i001")
        facet = await reader.look()
        hero = await Reader(ray).look()
    assert facet.value is not None and "boom" in [line.plain for line in facet.value.lines]
    assert "as it was" in facet.source and "A file is not found" in facet.source
    assert hero.value is None and hero.error is not None
    assert hero.error.kind is ErrorKind.NOT_FOUND and "A file is not found at" in hero.error.message


async def test_what_was_kept_outlives_the_node() -> None:
    async with head() as ray:
        reader = Reader(ray, "ok-i001")
        ray.logs["job-driver-ok-i001.log"] = steps(0, 3)
        await reader.value()
        ray.logs.clear()
        value = await Reader(ray, "ok-i001").value()
    assert value.lines[-1].plain.startswith("step 2")


async def test_a_living_job_whose_log_fails_is_unknown_and_recovers() -> None:
    async with head() as ray:
        reader = Reader(ray)
        ray.logs[NAME] = steps(0, 3)
        await reader.value()
        ray.answers("/api/v0/logs/file", reply(403, b"Forbidden"))
        facet = await reader.look()
        assert facet.value is None and facet.error is not None
        assert facet.error.kind is ErrorKind.FORBIDDEN
        ray.handlers.clear()
        ray.logs[NAME] += steps(3, 4)
        assert await reader.rows() == [3]


async def test_jobs_without_a_log_say_why() -> None:
    async with head() as ray:
        waits = await Reader(ray, "cpus-i001").look()
        never = await Reader(ray, "badenv-i001").look()
        driver = Reader(ray)
        driver.run = run_of(ray.url, "02000000", "hero")
        outside = await driver.look()
    said = [facet.error.message for facet in (waits, never, outside) if facet.error is not None]
    assert said[0] == "the job has not begun: no log yet"
    assert said[1] == said[2] and said[1].startswith("Ray keeps no log of this job")


async def test_a_first_look_needs_nobody_to_have_asked_for_the_job() -> None:
    async with head() as ray:
        ray.logs[NAME] = steps(0, 3)
        source = platform()
        runs = [run_of(ray.url, "hero-i001"), run_of(ray.url, "gone-i001")]
        read = await source.logs([Query(run=run) for run in runs])
        assert ray.count("/api/jobs/") == 1
        ray.answers("/api/jobs/", reply(401, b"no"))
        refused = (await platform().logs([Query(run=runs[0])]))["hero"]
    assert read["hero"].known and "does not list the job" in str(read["gone"].error)
    assert refused.error is not None and refused.error.kind is ErrorKind.UNAUTHORIZED


async def test_requests_do_not_grow_with_the_runs() -> None:
    counts = {}
    for many in (1, 60):
        async with head() as ray:
            source = platform()
            ray.documents["/nodes"]["data"]["summary"][0]["now"] = SystemClock().now()
            runs = [run_of(ray.url, f"run{n}-i001", f"run{n}") for n in range(many)]
            for run in runs:
                ray.add(f"{run.name}-i001")
                ray.logs[f"job-driver-{run.name}-i001.log"] = steps(0, 3)
            jobs = await source.jobs([Query(run=run) for run in runs])
            queries = [Query(run=run, job=jobs[run.name].value) for run in runs]
            await source.hosts(queries)
            await source.live(runs)
            counts[many] = len(ray.asked)
            assert all(facet.value is not None for facet in jobs.values())
            ray.asked.clear()
            read = await source.logs(queries)
            assert len(ray.asked) <= logs.AT_ONCE
            known = [facet for facet in read.values() if facet.known]
            assert len(known) == min(many, logs.AT_ONCE) and len(read) == many
            some = queries[-2 * logs.AT_ONCE :]
            for _ in range(2):
                read = await source.logs(some)
            assert all(facet.known for facet in read.values()), "each has its turn"
    assert counts[1] == counts[60]


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"same\n", b"\n", b"long line\n"]), max_size=30)


@settings(max_examples=40, deadline=None)
@given(before=LINES, after=LINES, window=st.integers(1, 30))
def test_nothing_is_told_twice_where_two_looks_overlap(
    before: list[bytes], after: list[bytes], window: int
) -> None:
    first = b"".join(before[-window:])
    whole = [*before, *after]
    second = b"".join(whole[-window:])
    news = grown(first, second)
    overlap = len(after) < window
    assert not (overlap and news.gap and first)
    assert b"".join(whole).endswith(news.new)
    if not news.gap:
        assert len(news.new) <= len(b"".join(after)) or not first


def test_how_many_lines_are_asked_for() -> None:
    assert lines_for(b"x" * 59 + b"\n") == 1000
    assert lines_for((b"x" * 9999 + b"\n") * 3) == 20
    assert lines_for(b"") == lines_for(b"no break") == 60


async def test_an_empty_answer_or_a_web_page_is_not_the_log() -> None:
    async with head() as ray:
        reader = Reader(ray)
        ray.logs[NAME] = written = steps(0, 40)
        await reader.value()
        ray.logs[NAME] = b""
        assert await reader.rows() == []
        ray.logs[NAME] = written = written + steps(40, 42)
        assert await reader.rows() == [40, 41]
        ray.logs[NAME] = b""
        fresh = Reader(ray)
        await fresh.look()
        ray.logs[NAME] = written
        await fresh.look()
        await reader.value()
        page = reply(200, b"<!doctype html><title>Sign in</title>", "content-type: text/html")
        ray.answers("/api/v0/logs/file", page)
        facet = await reader.look()
        assert facet.error is not None and "a web page" in facet.error.message
        ray.handlers.clear()
        assert reader.kept(await reader.value()) == written
