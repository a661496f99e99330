"""Jobs of a controller that answers as the recorded ones do, in both generations (SPEC J).

Which other jobs belong to a run (C-25), and what lives of its lineage.

What a job was submitted with: the accelerators that it holds over all its tasks.

What a look costs: a handful of requests, however many runs a controller has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.model.observed import Phase, Tasks
from cockpit.platforms.iris.answers import request_of
from cockpit.platforms.iris.memory import REQUESTS
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


ROOT = "gs://bucket/hero"
HERO: dict[str, Any] = {
    "output_root": ROOT,
    "wandb": {"entity": "marin", "project": "moe", "id": "hero-1"},
}


@pytest.fixture
async def lineage_iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        controller.put(job("/ada/hero-i002"))
        yield controller


def submitted(iris: Controller, name: str, *argv: str, **variables: str) -> None:
    """A living job with what it was submitted with."""
    iris.jobs[name] = job(name)
    request: dict[str, Any] = {
        "entrypoint": {"runCommand": {"argv": ["python", "train.py", *argv]}}
    }
    request |= {"environment": {"envVars": variables}}
    iris.status[name] = {"job": iris.jobs[name], "request": request}


async def lineage(iris: Controller, **more: Any) -> tuple[set[str], set[str]]:
    found = await value(platform_of(), run_of(iris.url, "/ada/hero-i002", "hero", **HERO | more))
    return {each.id for each in found.rivals}, {each.id for each in found.possible}


async def test_an_earlier_launch_that_lives_is_a_rival_by_its_name(
    lineage_iris: Controller,
) -> None:
    lineage_iris.jobs |= {name: job(name) for name in ("/ada/hero-i001", "/ada/hero-eval-i001")}
    lineage_iris.jobs |= {"/bob/hero-i003": job("/bob/hero-i003"), "/ada/hero": job("/ada/hero")}
    lineage_iris.jobs["/ada/hero-i000"] = job("/ada/hero-i000", "FAILED")
    assert await lineage(lineage_iris) == ({"/ada/hero-i001"}, set())


@pytest.mark.parametrize(
    ("argv", "variables", "sure"),
    [
        (("--output_dir", ROOT), {}, True),
        ((f"--trainer.output_dir={ROOT}/run",), {}, True),
        (("--wandb_run_id", "hero-1"), {}, True),
        ((), {"WANDB_RUN_ID": "hero-1"}, True),
        ((), {"OUTPUT_DIR": ROOT}, True),
        ((ROOT,), {}, False),
        (("--dir", f"{ROOT}/"), {}, False),
        (("--name", "hero-1"), {}, False),
    ],
)
async def test_who_writes_to_the_same_place_is_a_rival(
    lineage_iris: Controller, argv: tuple[str, ...], variables: dict[str, str], sure: bool
) -> None:
    submitted(lineage_iris, "/ada/other", *argv, **variables)
    assert await lineage(lineage_iris) == (
        ({"/ada/other"}, set()) if sure else (set(), {"/ada/other"})
    )


@pytest.mark.parametrize(
    ("argv", "variables"),
    [
        (("--output_dir", f"{ROOT}2"), {}),
        (("--initialize_from", f"{ROOT}/step-100"), {}),
        (("--checkpoint", f"{ROOT}/step-100"), {}),
        ((), {"WANDB_RUN_ID": "hero-1", "WANDB_PROJECT": "another"}),
        ((), {"WANDB_RUN_ID": "hero-12"}),
        (("--prompt", "hero-1"), {}),
    ],
)
async def test_who_reads_it_or_is_named_alike_is_none(
    lineage_iris: Controller, argv: tuple[str, ...], variables: dict[str, str]
) -> None:
    submitted(lineage_iris, "/ada/other", *argv, **variables)
    assert await lineage(lineage_iris) == (set(), set())


async def test_a_job_above_the_recorded_one_is_not_its_rival(lineage_iris: Controller) -> None:
    lineage_iris.put()
    submitted(lineage_iris, "/ada/coord", "--output_dir", ROOT)
    lineage_iris.jobs["/ada/coord/train"] = job("/ada/coord/train")
    run = run_of(lineage_iris.url, "/ada/coord/train", "hero", **HERO)
    assert (await value(platform_of(), run)).rivals == ()


async def test_requests_are_looked_into_a_few_at_a_time_and_once(lineage_iris: Controller) -> None:
    for n in range(10):
        submitted(lineage_iris, f"/ada/other{n}", "--output_dir", ROOT)
    platform, run = platform_of(), run_of(lineage_iris.url, "/ada/hero-i002", "hero", **HERO)
    seen = [len((await value(platform, run)).rivals) for _ in range(4)]
    assert seen[0] < REQUESTS and seen[-1] == 10
    asked = lineage_iris.counted["GetJobStatus"]
    await value(platform, run)
    assert lineage_iris.counted["GetJobStatus"] == asked == 11


async def test_live_looks_into_every_job_before_it_answers(lineage_iris: Controller) -> None:
    for n in range(10):
        submitted(lineage_iris, f"/ada/other{n}", "--output_dir", ROOT)
    run = run_of(lineage_iris.url, "/ada/hero-i002", "hero", **HERO)
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown is None and len(live.jobs) == 11
    assert live.jobs[0].id == "/ada/hero-i002" and live.jobs[0].launch_id == "hero-i002"
    lineage_iris.reply["GetJobStatus"] = (400, b'{"code":"invalid_argument","message":"no"}', ())
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown is not None and "10 live jobs could not be read" in live.unknown


async def test_an_empty_answer_is_never_nothing_lives(lineage_iris: Controller) -> None:
    lineage_iris.put()
    run = run_of(lineage_iris.url, "/ada/hero-i002", "hero", **HERO)
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown is not None and "it may not have ended" in live.unknown
    lineage_iris.put(job("/ada/hero-i002", "FAILED"))
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown is None and live.jobs == ()
    lineage_iris.put(job("/ada/hero-i002", "DREAMING"))
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown == "/ada/hero-i002 is JOB_STATE_DREAMING"


async def test_the_code_in_the_bundle_is_told_and_no_secret_with_it(
    lineage_iris: Controller,
) -> None:
    lineage_iris.jobs = Controller().jobs
    run = run_of(lineage_iris.url, "/ada/hero-toy-coord")
    found = await value(platform_of(), run)
    assert found.bundle is not None and found.bundle.commit is None
    assert found.bundle.id == "5a0a43bfeacbfa50b438041b8014eb714aaa2af346a8ae19f66331fa49463a77"
    variables = lineage_iris.status["/ada/hero-toy-coord"]["request"]["environment"]["envVars"]
    assert "toy-not-a-key" in variables["MARIN_PROVENANCE"]
    variables["MARIN_PROVENANCE"] = (
        '{"base_commit": "0123abcd", "dirty": true, "branch": "main\\u001b[31m", "tree_hash": "ff"}'
    )
    found = await value(platform_of(), run)
    assert found.bundle is not None
    assert (found.bundle.commit, found.bundle.dirty, found.bundle.tree) == ("0123abcd", True, "ff")
    assert found.bundle.branch is not None and "\x1b" not in found.bundle.branch


@pytest.mark.parametrize(("launch", "current"), [("hero-i003", True), ("hero-i001", False)])
async def test_a_newer_launch_that_lives_wins_over_a_job_that_is_over(
    lineage_iris: Controller, launch: str, current: bool
) -> None:
    """A cockpit was killed between the start of a job and its records."""
    lineage_iris.put(job("/ada/hero-i002", "KILLED"), job(f"/ada/{launch}"))
    seen = await facet(platform_of(), run_of(lineage_iris.url, "/ada/hero-i002", "hero", **HERO))
    assert seen.value is not None
    assert seen.value.id == (f"/ada/{launch}" if current else "/ada/hero-i002")
    assert seen.value.phase is (Phase.RUNNING if current else Phase.CANCELLED)
    assert [each.id for each in seen.value.rivals] == ([] if current else [f"/ada/{launch}"])
    assert ("newer than" in seen.source) is current


async def alike_of(iris: Controller) -> list[str]:
    run = run_of(iris.url, "/ada/hero-i002", "hero", **HERO)
    run = run.model_copy(
        update={"resubmit": "iris job run --no-wait -- python train.py --config hero.yaml"}
    )
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown is None, live.unknown
    return [each.id for each in live.alike]


async def test_a_job_that_runs_the_same_command_may_be_a_second_one(
    lineage_iris: Controller,
) -> None:
    submitted(lineage_iris, "/ada/hero-i002", "--config", "hero.yaml")
    submitted(lineage_iris, "/ada/again", "--config", "hero.yaml", "--resume", "yes")
    submitted(lineage_iris, "/ada/sweep-3", "--config", "other.yaml")
    submitted(lineage_iris, "/ada/other-i004", "--config", "hero.yaml")
    submitted(lineage_iris, "/ada/forked", "--config", "hero.yaml", WANDB_RUN_ID="hero-2")
    submitted(lineage_iris, "/bob/again", "--config", "hero.yaml")
    assert await alike_of(lineage_iris) == ["/ada/again"]


async def test_the_newest_job_that_fits_match_is_current_and_the_former_one_its_rival(
    lineage_iris: Controller,
) -> None:
    lineage_iris.put(job("/ada/llama-a"), job("/ada/llama-b", at=1_795_247_900), job("/ada/other"))
    run = run_of(lineage_iris.url, "/ada/llama-a", "hero", job={"match": "llama-*"})
    seen = await facet(platform_of(), run)
    assert seen.value is not None and seen.value.id == "/ada/llama-b"
    assert "the newest that fits job.match, /ada/llama-b, newer than /ada/llama-a" in seen.source
    assert [each.id for each in seen.value.rivals] == ["/ada/llama-a"]
    lives = {each.id for each in (await platform_of().live([run]))["hero"].jobs}
    assert lives == {"/ada/llama-a", "/ada/llama-b"}


async def test_a_run_without_an_id_is_found_by_match_or_said_to_have_no_job(
    lineage_iris: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRIS_USER", "ada")
    lineage_iris.put(job("/ada/llama-a"))
    run = run_of(lineage_iris.url, None, "hero", job={"match": "llama-*"})
    seen = await facet(platform_of(), run)
    assert seen.value is not None and seen.value.id == "/ada/llama-a"
    seen = await facet(
        platform_of(), run_of(lineage_iris.url, None, "hero", job={"match": "grug-*"})
    )
    assert seen.error is not None and "fits job.match grug-*" in seen.error.message


ANSWERS_REQUESTS: list[tuple[dict[str, Any], int | None]] = [
    ({"resources": {"device": {"tpu": {"variant": "v5p", "count": 4}}}, "replicas": 16}, 64),
    ({"resources": {"device": {"gpu": {"count": 8}}}, "replicas": 1}, 8),
    ({"resources": {"device": {}}, "replicas": 16}, None),
    ({"resources": {"device": {"tpu": {"count": "4"}}}, "replicas": 1}, None),
    ({"resources": {"device": {"tpu": {"count": 4}}}}, None),
    ({}, None),
]


@pytest.mark.parametrize(("request_", "count"), ANSWERS_REQUESTS)
def test_accelerators_are_those_of_each_task_times_the_tasks(
    request_: dict[str, Any], count: int | None
) -> None:
    assert request_of({"request": request_}).accelerators == count


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
