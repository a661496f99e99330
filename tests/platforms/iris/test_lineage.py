"""Which other jobs belong to a run (C-25), and what lives of its lineage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cockpit.model.observed import Phase
from cockpit.platforms.iris.memory import REQUESTS
from tests.platforms.iris.controller import Controller, job, running
from tests.platforms.iris.making import facet, platform_of, run_of, value

ROOT = "gs://bucket/hero"
HERO: dict[str, Any] = {
    "output_root": ROOT,
    "wandb": {"entity": "marin", "project": "moe", "id": "hero-1"},
}


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
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


async def test_an_earlier_launch_that_lives_is_a_rival_by_its_name(iris: Controller) -> None:
    iris.jobs |= {name: job(name) for name in ("/ada/hero-i001", "/ada/hero-eval-i001")}
    iris.jobs |= {"/bob/hero-i003": job("/bob/hero-i003"), "/ada/hero": job("/ada/hero")}
    iris.jobs["/ada/hero-i000"] = job("/ada/hero-i000", "FAILED")
    assert await lineage(iris) == ({"/ada/hero-i001"}, set())


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
    iris: Controller, argv: tuple[str, ...], variables: dict[str, str], sure: bool
) -> None:
    submitted(iris, "/ada/other", *argv, **variables)
    assert await lineage(iris) == (({"/ada/other"}, set()) if sure else (set(), {"/ada/other"}))


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
    iris: Controller, argv: tuple[str, ...], variables: dict[str, str]
) -> None:
    submitted(iris, "/ada/other", *argv, **variables)
    assert await lineage(iris) == (set(), set())


async def test_a_job_above_the_recorded_one_is_not_its_rival(iris: Controller) -> None:
    iris.put()
    submitted(iris, "/ada/coord", "--output_dir", ROOT)
    iris.jobs["/ada/coord/train"] = job("/ada/coord/train")
    run = run_of(iris.url, "/ada/coord/train", "hero", **HERO)
    assert (await value(platform_of(), run)).rivals == ()


async def test_requests_are_looked_into_a_few_at_a_time_and_once(iris: Controller) -> None:
    for n in range(10):
        submitted(iris, f"/ada/other{n}", "--output_dir", ROOT)
    platform, run = platform_of(), run_of(iris.url, "/ada/hero-i002", "hero", **HERO)
    seen = [len((await value(platform, run)).rivals) for _ in range(4)]
    assert seen[0] < REQUESTS and seen[-1] == 10
    asked = iris.counted["GetJobStatus"]
    await value(platform, run)
    assert iris.counted["GetJobStatus"] == asked == 11


async def test_live_looks_into_every_job_before_it_answers(iris: Controller) -> None:
    for n in range(10):
        submitted(iris, f"/ada/other{n}", "--output_dir", ROOT)
    run = run_of(iris.url, "/ada/hero-i002", "hero", **HERO)
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown is None and len(live.jobs) == 11
    assert live.jobs[0].id == "/ada/hero-i002" and live.jobs[0].launch_id == "hero-i002"
    iris.reply["GetJobStatus"] = (400, b'{"code":"invalid_argument","message":"no"}', ())
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown is not None and "10 live jobs could not be read" in live.unknown


async def test_an_empty_answer_is_never_nothing_lives(iris: Controller) -> None:
    iris.put()
    run = run_of(iris.url, "/ada/hero-i002", "hero", **HERO)
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown is not None and "it may not have ended" in live.unknown
    iris.put(job("/ada/hero-i002", "FAILED"))
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown is None and live.jobs == ()
    iris.put(job("/ada/hero-i002", "DREAMING"))
    live = (await platform_of().live([run]))["hero"]
    assert live.unknown == "/ada/hero-i002 is JOB_STATE_DREAMING"


async def test_the_code_in_the_bundle_is_told_and_no_secret_with_it(iris: Controller) -> None:
    iris.jobs = Controller().jobs
    run = run_of(iris.url, "/ada/hero-toy-coord")
    found = await value(platform_of(), run)
    assert found.bundle is not None and found.bundle.commit is None
    assert found.bundle.id == "5a0a43bfeacbfa50b438041b8014eb714aaa2af346a8ae19f66331fa49463a77"
    variables = iris.status["/ada/hero-toy-coord"]["request"]["environment"]["envVars"]
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
    iris: Controller, launch: str, current: bool
) -> None:
    """A cockpit was killed between the start of a job and its records."""
    iris.put(job("/ada/hero-i002", "KILLED"), job(f"/ada/{launch}"))
    seen = await facet(platform_of(), run_of(iris.url, "/ada/hero-i002", "hero", **HERO))
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


async def test_a_job_that_runs_the_same_command_may_be_a_second_one(iris: Controller) -> None:
    submitted(iris, "/ada/hero-i002", "--config", "hero.yaml")
    submitted(iris, "/ada/again", "--config", "hero.yaml", "--resume", "yes")
    submitted(iris, "/ada/sweep-3", "--config", "other.yaml")
    submitted(iris, "/ada/other-i004", "--config", "hero.yaml")
    submitted(iris, "/ada/forked", "--config", "hero.yaml", WANDB_RUN_ID="hero-2")
    submitted(iris, "/bob/again", "--config", "hero.yaml")
    assert await alike_of(iris) == ["/ada/again"]


async def test_the_newest_job_that_fits_match_is_current_and_the_former_one_its_rival(
    iris: Controller,
) -> None:
    iris.put(job("/ada/llama-a"), job("/ada/llama-b", at=1_795_247_900), job("/ada/other"))
    run = run_of(iris.url, "/ada/llama-a", "hero", job={"match": "llama-*"})
    seen = await facet(platform_of(), run)
    assert seen.value is not None and seen.value.id == "/ada/llama-b"
    assert "the newest that fits job.match, /ada/llama-b, newer than /ada/llama-a" in seen.source
    assert [each.id for each in seen.value.rivals] == ["/ada/llama-a"]
    lives = {each.id for each in (await platform_of().live([run]))["hero"].jobs}
    assert lives == {"/ada/llama-a", "/ada/llama-b"}


async def test_a_run_without_an_id_is_found_by_match_or_said_to_have_no_job(
    iris: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRIS_USER", "ada")
    iris.put(job("/ada/llama-a"))
    run = run_of(iris.url, None, "hero", job={"match": "llama-*"})
    seen = await facet(platform_of(), run)
    assert seen.value is not None and seen.value.id == "/ada/llama-a"
    seen = await facet(platform_of(), run_of(iris.url, None, "hero", job={"match": "grug-*"}))
    assert seen.error is not None and "fits job.match grug-*" in seen.error.message
