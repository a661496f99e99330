"""Lines of a controller's tasks, fetched by cursor and kept for each run (SPEC S-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.iris import logs
from cockpit.platforms.iris.platform import IrisPlatform
from cockpit.runtime.http import Http
from cockpit.sources.logs.remote import log_at
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.spool import HOLE
from tests.platforms.iris.controller import Controller, Reply, job, running
from tests.platforms.iris.making import Later, platform_of, run_of, value

BOTH = pytest.mark.parametrize("generation", ["june", "october"])
TRAINS = {"production": "train*"}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        yield controller


async def look(platform: IrisPlatform, *runs: RunSpec) -> dict[str, Facet[LogValue]]:
    """What an engine does: the job first, then its log."""
    jobs = await platform.jobs([Query(run=run) for run in runs])
    queries = [Query(run=run, job=jobs[run.name].value) for run in runs]
    return dict(await platform.logs(queries))


def text_of(facet: Facet[LogValue]) -> list[str]:
    """Every line that is kept of a log."""
    assert facet.value is not None, facet.error
    with log_at(place_of(facet.value.path)).open() as log:
        return log.read(0, log.stat.size).decode().splitlines()


async def lines(platform: IrisPlatform, run: RunSpec) -> list[str]:
    return text_of((await look(platform, run))[run.name])


@BOTH
async def test_recorded_lines_are_read_like_a_file(generation: str) -> None:
    name = {"june": "/ada/hero-parent", "october": "/ada/hero-toy-coord"}[generation]
    async with running(Controller(generation)) as iris:
        if generation == "october":
            iris.jobs[name]["submittedAt"] = {"epochMs": "1795249700000"}
        facet = (await look(platform_of(), run_of(iris.url, name, job=TRAINS)))["toy"]
        written = [line["data"] for line in iris.lines]
        last = int(iris.lines[-1]["timestamp"]["epochMs"]) / 1000
    if generation == "june":
        written.remove("step 59 loss 0.0500")  # two of its tasks tell it
    assert text_of(facet) == written and facet.value is not None
    assert facet.value.mtime == last and any(row.step for row in facet.value.rows)


@BOTH
async def test_nothing_is_lost_or_doubled(generation: str) -> None:
    """Lines that come while a log is first fetched, in bulk, and after a restart."""
    async with running(Controller(generation)) as iris:
        iris.put(job("/ada/x"), job("/ada/y"))
        platform, run, key = platform_of(), run_of(iris.url, "/ada/x"), "/ada/x/0:0"
        written = [f"step {n}" for n in range(30)]
        iris.log(key, *written)
        answer = iris._FetchLogs

        def racing(request: dict[str, object]) -> Reply:
            """More is written between the cursor of all and the job's own former lines."""
            if request["source"] == "/ada/x/" and not request.get("cursor"):
                iris.log("/ada/y/0:0", "another job's")
                iris.log(key, "raced", "raced too")
                written.extend(["raced", "raced too"])
            return answer(request)

        iris._FetchLogs = racing  # type: ignore[method-assign]
        assert await lines(platform, run) == written
        iris._FetchLogs = answer  # type: ignore[method-assign]
        for n in range(5):
            iris.log("/ada/y/0:0", f"noise {n}")
            iris.log(key, f"more {n}", f"more {n}")
            written += [f"more {n}"] * 2
            assert await lines(platform, run) == written
        for n in range(6000):
            iris.log(key, f"bulk {n}")
            written.append(f"bulk {n}")
        assert await lines(platform, run) == written
        iris.log(key, "while nobody looked")
        assert await lines(platform_of(), run) == [*written, "while nobody looked"]


async def test_a_log_that_was_long_already_begins_near_its_end(iris: Controller) -> None:
    iris.put(job("/ada/x"))
    iris.log("/ada/x/0:0", *(f"step {n}" for n in range(12_000)))
    found = await lines(platform_of(), run_of(iris.url, "/ada/x"))
    assert found[0] == HOLE.decode().strip() and found[1:] == [
        f"step {n}" for n in range(2000, 12_000)
    ]


async def test_who_is_too_far_behind_goes_on_at_the_end(
    iris: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, figure in (("FULL", 100), ("AT_ONCE", 100), ("FIRST", 200)):
        monkeypatch.setattr(logs, name, figure)
    iris.put(job("/ada/x"))
    platform, run = platform_of(), run_of(iris.url, "/ada/x")
    iris.log("/ada/x/0:0", "first")
    assert await lines(platform, run) == ["first"]
    iris.log("/ada/x/0:0", *(f"step {n}" for n in range(4500)))
    asked = len(iris.asked)
    await look(platform, run)
    assert len(iris.asked) - asked < 30
    found = await lines(platform, run)
    assert found[-1] == "step 4499" and found.count("step 4499") == 1 and found[0] == "first"


@BOTH
@pytest.mark.parametrize("again", [False, True], ids=["watched", "looked at once"])
@pytest.mark.parametrize("kept", [0, 3], ids=["all lost", "an old state is back"])
async def test_a_log_server_that_counts_anew_is_noticed(
    generation: str, again: bool, kept: int
) -> None:
    """It answers a number that it has not reached as if nothing was written."""
    async with running(Controller(generation)) as iris:
        iris.put(job("/ada/x"), job("/ada/y"))
        platform, run, key = platform_of(), run_of(iris.url, "/ada/x"), "/ada/x/0:0"
        first = [f"step {n} loss 2.5" for n in range(20)]
        iris.log(key, *first)
        for _ in range(2 + 2 * logs.SILENT):
            assert await lines(platform, run) == first, "a silence alone is none"
        del iris.lines[kept:]
        iris.log(key, "step 25 loss 2.4", at=1_795_247_950.0)
        platform = platform_of() if again else platform
        for _ in range(1 if again else logs.SILENT):
            found = await lines(platform, run)
        hole = HOLE.decode().strip()
        assert found == [*first, hole, "step 25 loss 2.4"]
        for n in range(26, 29):
            iris.log(key, f"step {n} loss 2.4", at=1_795_247_950.0 + n)
            found = await lines(platform, run)
        assert found == [*first, hole, *(f"step {n} loss 2.4" for n in range(25, 29))]


async def test_a_log_that_waits_for_its_turn_is_not_told_as_the_newest(
    iris: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, figure in (("FULL", 10), ("AT_ONCE", 10), ("JOINS", 1)):
        monkeypatch.setattr(logs, name, figure)
    iris.put(job("/ada/x"), job("/ada/y"))
    platform, runs = platform_of(), [run_of(iris.url, f"/ada/{n}", n) for n in "xy"]
    for n in "xy":
        iris.log(f"/ada/{n}/0:0", "first")
    for _ in range(3):
        found = await look(platform, *runs)
    assert all(facet.known for facet in found.values())
    for n in "xy":
        iris.log(f"/ada/{n}/0:0", *(f"line {number}" for number in range(100)), "last")
    found = await look(platform, *runs)
    told = {text_of(facet)[-1] for facet in found.values() if facet.known}
    waits = [facet.error.message for facet in found.values() if facet.error is not None]
    assert told == {"last"} and len(waits) == 1 and "not fetched yet" in waits[0]
    for _ in range(3):
        found = await look(platform, *runs)
    assert {text_of(facet)[-1] for facet in found.values()} == {"last"}


async def test_a_child_that_trains_writes_the_runs_log_and_a_diagnostic_one_does_not(
    iris: Controller,
) -> None:
    iris.put(job("/ada/x", hasChildren=True), job("/ada/x/train_lm"), job("/ada/x/eval"))
    iris.log("/ada/x/0:0", "coordinates")
    iris.log("/ada/x/train_lm/1:0", "trains")
    iris.log("/ada/x/eval/0:0", "evaluates")
    iris.log("/ada/x2/0:0", "another job")
    platform, run = platform_of(), run_of(iris.url, "/ada/x", job=TRAINS)
    assert await lines(platform, run) == ["coordinates", "trains"]
    iris.log("/ada/x/eval/0:0", "evaluates")
    iris.log("/ada/x/train_lm/0:1", "trains again")
    assert await lines(platform, run) == ["coordinates", "trains", "trains again"]


async def test_a_step_that_every_task_tells_counts_once(iris: Controller) -> None:
    """A gang draws one bar in each task; numbers that are none are kept from whichever."""
    iris.put(job("/ada/x", taskCount=2, counts={"running": 2}))
    platform, run = platform_of(), run_of(iris.url, "/ada/x")
    at = 1_795_246_950.0
    for step in range(3):
        for task in (1, 0):
            iris.log(f"/ada/x/{task}:0", f"step {step} loss 0.5", at=at + step)
    iris.log("/ada/x/0:0", "step 3 loss nan", "RuntimeError: boom", at=at + 4)
    assert await lines(platform, run) == [
        "step 0 loss 0.5", "step 1 loss 0.5", "step 2 loss 0.5", "step 3 loss nan",
        "RuntimeError: boom",
    ]  # fmt: skip
    iris.log("/ada/x/0:1", "step 3 loss 0.5", at=at + 10)
    iris.log("/ada/x/0:1", "step 900 loss 0.5", at=at + 400)
    assert (await lines(platform, run))[-1] == "step 900 loss 0.5"
    assert len(await lines(platform, run)) == 6


async def test_the_log_is_that_of_the_current_job(iris: Controller) -> None:
    """A launch or a monitor has named another job than the run file does."""
    iris.put(job("/ada/old", "FAILED"), job("/ada/new"))
    iris.log("/ada/old/0:0", "old")
    iris.log("/ada/new/0:0", "new")
    platform, run = platform_of(), run_of(iris.url, "/ada/old")
    current = await value(platform, run_of(iris.url, "/ada/new"))
    facet = (await platform.logs([Query(run=run, job=current)]))["toy"]
    assert text_of(facet) == ["new"]


async def test_a_run_that_is_asked_alone_costs_the_others_nothing(iris: Controller) -> None:
    iris.put(job("/ada/x"), job("/ada/y"))
    iris.log("/ada/x/0:0", "step 1")
    platform, run = platform_of(), run_of(iris.url, "/ada/x")
    assert await lines(platform, run) == ["step 1"]
    job_value = await value(platform, run)
    await value(platform, run_of(iris.url, "/ada/y", "other"))
    facet = (await platform.logs([Query(run=run, job=job_value)]))["toy"]
    assert text_of(facet) == ["step 1"]


async def test_a_name_that_is_used_again_has_a_log_of_its_own(iris: Controller) -> None:
    platform, run = platform_of(), run_of(iris.url, "/ada/x")
    iris.put(job("/ada/x", "FAILED", at=1_795_246_900))
    iris.log("/ada/x/0:0", "RuntimeError: old", at=1_795_246_950)
    assert await lines(platform, run) == ["RuntimeError: old"]
    iris.put(job("/ada/x", at=1_795_249_900))
    iris.log("/ada/x/0:0", "new", at=1_795_249_950)
    assert await lines(platform, run) == ["new"]


async def test_the_last_lines_of_a_job_come_after_its_end(iris: Controller) -> None:
    platform, run = platform_of(), run_of(iris.url, "/ada/x")
    iris.put(job("/ada/x"))
    iris.log("/ada/x/0:0", "step 1")
    assert await lines(platform, run) == ["step 1"]
    iris.put(job("/ada/x", "FAILED"))
    await look(platform, run)
    iris.log("/ada/x/0:0", "RuntimeError: boom")
    assert await lines(platform, run) == ["step 1", "RuntimeError: boom"]
    for _ in range(6):
        await look(platform, run)
    asked = iris.counted["FetchLogs"]
    await look(platform, run)
    assert iris.counted["FetchLogs"] == asked, "a log that is over costs nothing"


async def test_secrets_are_masked_before_anything_is_kept(iris: Controller, tmp_path: Path) -> None:
    secret = "hf_" + "q1W2e3R4t5Y6" * 3
    iris.put(job("/ada/x"))
    iris.log("/ada/x/0:0", f"HF_TOKEN={secret} loaded")
    await look(platform_of(), run_of(iris.url, "/ada/x"))
    kept = [each for each in (tmp_path / "state").rglob("*") if each.is_file()]
    assert kept and all(secret.encode() not in each.read_bytes() for each in kept)


async def test_many_logs_cost_one_question_a_look(iris: Controller) -> None:
    names = [f"/ada/run{n}" for n in range(50)]
    iris.put(*(job(name) for name in names))
    for name in names:
        iris.log(f"{name}/0:0", "step 1")
    platform = platform_of()
    runs = [run_of(iris.url, name, name[5:]) for name in names]
    costs: list[int] = []
    found: dict[str, Facet[LogValue]] = {}
    for _ in range(9):
        before = iris.counted["FetchLogs"]
        found = await look(platform, *runs)
        costs.append(iris.counted["FetchLogs"] - before)
    assert max(costs) <= 9 and costs[-1] == 1
    assert all(facet.value is not None for facet in found.values())
    for name in names:
        iris.log(f"{name}/0:0", "step 2")
    before = iris.counted["FetchLogs"]
    found = await look(platform, *runs)
    assert iris.counted["FetchLogs"] - before == 1
    assert all(text_of(facet) == ["step 1", "step 2"] for facet in found.values())


async def test_a_run_whose_turn_has_not_come_says_so(iris: Controller) -> None:
    names = [f"/ada/run{n}" for n in range(20)]
    iris.put(*(job(name) for name in names))
    found = await look(platform_of(), *(run_of(iris.url, name, name[5:]) for name in names))
    kinds = {facet.error.kind for facet in found.values() if facet.error is not None}
    assert kinds == {ErrorKind.NOT_FOUND, ErrorKind.TIMEOUT}
    assert (
        sum("fetched for a few jobs at a time" in str(facet.error) for facet in found.values())
        == 12
    )


async def test_a_log_is_asked_for_after_its_job(iris: Controller) -> None:
    iris.put(job("/ada/x"))
    run = run_of(iris.url, "/ada/x")
    error = (await platform_of().logs([Query(run=run)]))["toy"].error
    assert error is not None and error.kind is ErrorKind.NOT_FOUND and not iris.asked


async def test_a_file_of_this_machine_is_read_as_one(iris: Controller, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("step 3 loss=2.5\n")
    run = run_of(iris.url, "/ada/x", job={"log": str(tmp_path / "log")})
    facet = (await look(platform_of(), run))["toy"]
    assert text_of(facet) == ["step 3 loss=2.5"] and "FetchLogs" not in iris.asked


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ((500, b"no", ()), ErrorKind.BAD_ANSWER),
        ((404, b"Not Found", ()), ErrorKind.NOT_FOUND),
        ((200, b'{"entries": [{"data": 7}], "cursor": "1"}', ()), ErrorKind.BAD_ANSWER),
        ((200, b'{"entries": {}, "cursor": "1"}', ()), ErrorKind.BAD_ANSWER),
        ((200, b'{"cursor": "x"}', ()), ErrorKind.BAD_ANSWER),
        ((429, b"", ("retry-after: 30",)), ErrorKind.RATE_LIMITED),
    ],
)
async def test_bad_answers_are_unknown_and_pass(
    iris: Controller, reply: Reply, kind: ErrorKind
) -> None:
    iris.put(job("/ada/x"))
    iris.log("/ada/x/0:0", "step 1")
    platform, run = platform_of(clock := Later()), run_of(iris.url, "/ada/x")
    await platform.jobs([Query(run=run)])
    iris.reply["FetchLogs"] = reply
    facet = (await platform.logs([Query(run=run)]))["toy"]
    assert facet.value is None and facet.error is not None and facet.error.kind is kind
    assert facet.retry_after == (30.0 if kind is ErrorKind.RATE_LIMITED else None)
    del iris.reply["FetchLogs"]
    clock.ahead += 31.0
    assert await lines(platform, run) == ["step 1"]


async def test_one_jobs_long_lines_silence_no_other(iris: Controller) -> None:
    """More than one answer may hold: before the first look, between two, and one line alone."""
    iris.put(job("/ada/x"), job("/ada/y"), job("/ada/z"))
    clock = SystemClock()
    platform = IrisPlatform(clock, Logs(clock), Http(clock, deadline=60.0, cap=100_000))
    runs = [run_of(iris.url, f"/ada/{name}", name) for name in "xyz"]
    long = "z" * 500
    iris.log("/ada/x/0:0", *(f"{long} {n}" for n in range(400)))
    for key in "yz":
        iris.log(f"/ada/{key}/0:0", "step 1")
    found = await look(platform, *runs)
    assert text_of(found["x"])[-1] == f"{long} 399" and text_of(found["y"]) == ["step 1"]
    written = text_of(found["x"])
    assert len(written) < 400, "more than an answer holds"
    iris.log("/ada/x/0:0", *(f"{long} new {n}" for n in range(300)))
    iris.log("/ada/y/0:0", "step 2")
    for _ in range(4):
        found = await look(platform, *runs)
    assert text_of(found["y"]) == ["step 1", "step 2"]
    assert text_of(found["x"]) == [*written, *(f"{long} new {n}" for n in range(300))]
    iris.log("/ada/z/0:0", "w" * 110_000)
    iris.log("/ada/y/0:0", "step 3")
    for _ in range(2):
        found = await look(platform, *runs)
    error = found["z"].error
    assert error is not None and "its lines cannot be fetched" in error.message
    assert text_of(found["y"])[-1] == "step 3" and found["x"].known
