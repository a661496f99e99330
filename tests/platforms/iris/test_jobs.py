"""Jobs of a controller that answers as the recorded ones do, in both generations (SPEC J)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.model.observed import Phase, Tasks
from tests.platforms.iris.controller import Controller, job, running
from tests.platforms.iris.making import Later, facet, facets, platform_of, run_of, value

BOTH = pytest.mark.parametrize("generation", ["june", "october"])


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        yield controller


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@BOTH
@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("PENDING", Phase.WAITING),
        ("BUILDING", Phase.RUNNING),
        ("RUNNING", Phase.RUNNING),
        ("SUCCEEDED", Phase.SUCCEEDED),
        ("FAILED", Phase.FAILED),
        ("KILLED", Phase.CANCELLED),
        ("WORKER_FAILED", Phase.FAILED),
        ("UNSCHEDULABLE", Phase.FAILED),
        ("DREAMING", Phase.UNKNOWN),
    ],
)
async def test_states_are_those_of_the_table(generation: str, state: str, phase: Phase) -> None:
    async with running(Controller(generation)) as iris:
        iris.put(job("/ada/x", state))
        found = await value(platform_of(), run_of(iris.url, "/ada/x"))
    assert (found.state, found.phase) == (f"JOB_STATE_{state}", phase)


@BOTH
async def test_a_preempted_slice_waits_though_its_job_is_called_running(generation: str) -> None:
    """The recorded timeline: pending, started, all four tasks taken, then running again."""
    seen = []
    async with running(Controller(generation)) as iris:
        platform, run = platform_of(), run_of(iris.url, "/ada/tpu-hero")
        for moment in iris.timeline:
            iris.put(moment)
            found = await value(platform, run)
            seen.append((found.phase.value, found.tasks, found.restarts))
    four, none = Tasks(running=4, total=4), Tasks(running=0, total=4)
    assert seen[0] == ("waiting", none, 0) and seen[-1] == ("running", four, 1)
    assert ("waiting", none, 1) in seen and ("running", four, 0) in seen
    assert all(phase == ("running" if tasks == four else "waiting") for phase, tasks, _ in seen)


async def test_why_a_preempted_job_waits_is_said(iris: Controller) -> None:
    counts = {"pending": 3, "assigned": 1}
    iris.put(job("/ada/x", taskCount=4, counts=counts, preemptionCount=1))
    found = await value(platform_of(), run_of(iris.url, "/ada/x"))
    assert found.reason == "0 of 4 tasks run (1 assigned, 3 pending), preempted 1 time"
    assert found.pending_since is None, "it ran before: since when it waits is not told"


async def test_tasks_that_have_ended_are_over_and_wait_for_nothing(iris: Controller) -> None:
    iris.put(job("/ada/x", taskCount=4, counts={"running": 2, "succeeded": 1, "pending": 1}))
    found = await value(platform_of(), run_of(iris.url, "/ada/x"))
    assert found.tasks is not None and found.tasks.over == 1


async def test_a_job_whose_tasks_are_done_does_not_wait(iris: Controller) -> None:
    iris.put(job("/ada/x", taskCount=4, counts={"succeeded": 4}))
    assert (await value(platform_of(), run_of(iris.url, "/ada/x"))).phase is Phase.RUNNING


@BOTH
async def test_a_pending_reason_is_split_in_two(generation: str) -> None:
    async with running(Controller(generation)) as iris:
        iris.put(next(each for each in iris.timeline if "Autoscaler" in each["pendingReason"]))
        found = await value(platform_of(), run_of(iris.url, "/ada/tpu-hero"))
    assert found.reason is not None
    assert found.reason.startswith("scheduler: No workers match constraints")
    assert "; autoscaler: (scaling up) Waiting for worker scale-up" in found.reason
    assert not found.never and found.pending_since is not None


@pytest.mark.parametrize(
    ("generation", "name"),
    [
        ("june", "/ada/toy-toobig"),
        ("june", "/ada/toy-tpu-noquota"),
        ("october", "/ada/tpu-noquota"),
    ],
)
async def test_what_can_never_start_is_said_at_once(generation: str, name: str) -> None:
    async with running(Controller(generation)) as iris:
        found = await value(platform_of(), run_of(iris.url, name))
    assert found.phase is Phase.WAITING and found.never


async def test_a_full_group_has_room_one_day(iris: Controller) -> None:
    for group in iris.autoscaler["status"]["groups"]:
        group["sliceStateCounts"]["ready"] = 2
    found = await value(platform_of(), run_of(iris.url, "/ada/tpu-noquota"))
    assert found.phase is Phase.WAITING and not found.never


@pytest.mark.parametrize(("error", "phase"), [
    ("Terminated by user", Phase.CANCELLED), ("Parent job terminated", Phase.CANCELLED),
    ("Execution timeout exceeded", Phase.FAILED),
])  # fmt: skip
async def test_who_was_killed_for_its_time_was_not_stopped(
    iris: Controller, error: str, phase: Phase
) -> None:
    iris.put(job("/ada/x", "KILLED", error=error))
    found = await value(platform_of(), run_of(iris.url, "/ada/x"))
    assert found.phase is phase and found.reason == error


async def test_the_tasks_tell_exit_code_and_cause(iris: Controller) -> None:
    platform = platform_of()
    failed = await value(platform, run_of(iris.url, "/ada/toy-fail"))
    assert failed.exit_code == 1 and failed.phase is Phase.FAILED
    assert failed.reason is not None and "RuntimeError: Program hbm requirement" in failed.reason
    retried = await value(platform, run_of(iris.url, "/ada/toy-retry"))
    assert retried.exit_code == 3 and retried.restarts == 2
    assert (await value(platform, run_of(iris.url, "/ada/toy-ok"))).exit_code == 0
    assert failed.started_at == at("2026-11-21T08:19:47.545")
    assert failed.ended_at == at("2026-11-21T08:19:49.597")


async def test_the_cause_is_added_where_the_error_names_none(iris: Controller) -> None:
    iris.jobs["/ada/toy-fail"]["error"] = "Exit code: 1"
    found = await value(platform_of(), run_of(iris.url, "/ada/toy-fail"))
    assert found.reason == (
        "Exit code: 1: RuntimeError: Program hbm requirement 31.2G exceeds 16.0G (toy)"
    )


async def test_a_job_that_is_not_listed_is_unknown_and_not_over(iris: Controller) -> None:
    platform, run = platform_of(), run_of(iris.url, "/ada/toy-ok")
    assert (await value(platform, run)).phase is Phase.SUCCEEDED
    iris.put()
    found = await facet(platform, run)
    assert found.value is None and found.error is not None
    assert found.error.kind is ErrorKind.NOT_FOUND and "it may not have ended" in str(found)


@pytest.mark.parametrize("name", [None, "", "nope", "/ada", "12345", "/ada/x y"])
async def test_what_is_no_job_id_is_not_asked_for(iris: Controller, name: str | None) -> None:
    found = await facets(
        platform_of(), run_of(iris.url, name), run_of(iris.url, "/ada/toy-ok", "good")
    )
    error = found["toy"].error
    assert error is not None and error.kind is ErrorKind.NOT_FOUND
    assert found["good"].value is not None


async def test_a_name_that_is_used_again_is_another_execution(iris: Controller) -> None:
    platform, clock = platform_of(clock := Later()), clock
    run = run_of(iris.url, "/ada/x")
    iris.put(job("/ada/x", "FAILED", at=1_795_246_900, error="Exit code: 3"))
    first = await value(platform, run)
    iris.put(job("/ada/x", "RUNNING", at=1_795_249_900))
    second = await value(platform, run)
    assert first.phase is Phase.FAILED and second.phase is Phase.RUNNING
    assert first.started_at != second.started_at and second.reason is None
    iris.put(job("/ada/x", "FAILED", at=1_795_250_900))
    third = await value(platform, run)
    iris.put(job("/ada/x", "FAILED", at=1_795_251_900))
    clock.ahead += 400.0
    fourth = await value(platform, run)
    assert len({each.started_at for each in (first, second, third, fourth)}) == 4


async def test_a_clock_that_is_an_hour_off_is_put_right(iris: Controller) -> None:
    iris.skew = 3600.0
    found = await value(platform_of(), run_of(iris.url, "/ada/toy-ok"))
    assert found.started_at == pytest.approx(at("2026-11-21T07:19:42.483"), abs=2.0)
