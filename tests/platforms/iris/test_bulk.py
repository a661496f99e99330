"""What a look costs: a handful of requests, however many runs a controller has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cockpit.model.observed import Phase
from tests.platforms.iris.controller import Controller, job, running
from tests.platforms.iris.making import Later, facets, platform_of, run_of


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        yield controller


async def costs(iris: Controller, count: int, looks: int = 3) -> list[int]:
    names = [f"/ada/run{n}" for n in range(count)]
    iris.put(*(job(name) for name in names))
    platform, found = platform_of(), []
    runs = [run_of(iris.url, name, name[5:]) for name in names]
    for _ in range(looks):
        before = len(iris.asked)
        answers = await facets(platform, *runs)
        assert all(each.value is not None for each in answers.values())
        found.append(len(iris.asked) - before)
    return found


async def test_many_runs_cost_what_one_costs(iris: Controller) -> None:
    one, many = await costs(iris, 1), await costs(iris, 80)
    assert one[-1] == 4, "the states, and what waits, is built and runs"
    assert all(each - other <= 4 for each, other in zip(many, one, strict=True)), (one, many)


async def test_ids_and_lists_are_paged(iris: Controller) -> None:
    found = await costs(iris, 1200, looks=1)
    assert iris.counted["GetJobState"] == 3 and found[0] <= 20


async def test_many_that_ended_are_read_out_of_one_list(iris: Controller) -> None:
    names = [f"/ada/run{n}" for n in range(70)]
    iris.put(*(job(name, "FAILED", error="Exit code: 3") for name in names))
    for name in names:
        task = {"taskId": f"{name}/0", "state": "TASK_STATE_FAILED", "exitCode": 3}
        iris.tasks[name] = {"tasks": [task]}
    platform = platform_of(clock := Later())
    runs = [run_of(iris.url, name, name[5:]) for name in names]
    found = await facets(platform, *runs)
    values = [each.value for each in found.values() if each.value is not None]
    assert {value.phase for value in values} == {Phase.FAILED} and len(values) == 70
    assert {value.reason for value in values} == {"Exit code: 3"}
    assert iris.counted["ListJobs"] == 4 and iris.counted["ListTasks"] <= 32
    for _ in range(3):
        found = await facets(platform, *runs)
    assert all(each.value is not None and each.value.exit_code == 3 for each in found.values())
    before = iris.counted["ListTasks"], iris.counted["ListJobs"]
    await facets(platform, *runs)
    assert (iris.counted["ListTasks"], iris.counted["ListJobs"]) == (before[0], before[1] + 3)
    clock.ahead += 301.0
    await facets(platform, *runs)
    assert iris.counted["ListJobs"] == before[1] + 7, "what is over is looked at again, in one list"


async def test_connections_live_between_looks(iris: Controller) -> None:
    platform, run = platform_of(), run_of(iris.url, "/ada/x")
    iris.put(job("/ada/x"))
    await facets(platform, run)
    opened = len(iris.connections)
    for _ in range(3):
        await facets(platform, run)
    assert len(iris.connections) == opened
