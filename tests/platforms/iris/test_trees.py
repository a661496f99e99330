"""A job and its children: which of them trains, and what of the others is said (C-21)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cockpit.model.observed import Phase
from tests.platforms.iris.controller import Controller, job, running
from tests.platforms.iris.making import platform_of, run_of, value

PATTERNS: dict[str, Any] = {"job": {"production": "train*", "diagnostic": ["*eval*"]}}


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        yield controller


def family(
    child: str = "RUNNING", parent: str = "RUNNING", **more: object
) -> list[dict[str, object]]:
    at = 1_795_246_900
    return [
        job("/ada/hero", parent, at, hasChildren=True),
        job("/ada/hero/train_lm", child, at + 1, taskCount=4, **more),
        job("/ada/hero/train-eval", "FAILED", at + 2, error="Exit code: 3"),
        job("/ada/hero2", "RUNNING", at + 3),
        job("/ada/hero2/train_lm", "FAILED", at + 4),
    ]


async def test_recorded_children_of_june() -> None:
    async with running(Controller("june")) as iris:
        found = await value(platform_of(), run_of(iris.url, "/ada/hero-parent", **PATTERNS))
    assert found.phase is Phase.SUCCEEDED and found.exit_code == 0
    assert found.children == ("/ada/hero-parent/train_lm",)
    assert found.diagnostic == ("/ada/hero-parent/eval-step",)
    assert found.reason == "1 of 2 children failed: eval-step FAILED (Exit code: 3)"


async def test_who_has_the_same_beginning_is_another_job(iris: Controller) -> None:
    iris.put(*family())
    found = await value(platform_of(), run_of(iris.url, "/ada/hero", **PATTERNS))
    assert found.children == ("/ada/hero/train_lm",)
    assert found.diagnostic == ("/ada/hero/train-eval",)


async def test_without_patterns_every_child_is_diagnostic(iris: Controller) -> None:
    iris.put(*family(counts={"pending": 4}))
    found = await value(platform_of(), run_of(iris.url, "/ada/hero"))
    assert found.children == () and len(found.diagnostic) == 2
    assert found.phase is Phase.RUNNING and found.tasks is not None and found.tasks.total == 1


async def test_the_child_that_trains_decides_what_runs(iris: Controller) -> None:
    platform, run = platform_of(), run_of(iris.url, "/ada/hero", **PATTERNS)
    iris.put(*family(counts={"pending": 4}))
    waits = await value(platform, run)
    assert waits.phase is Phase.WAITING and waits.state == "JOB_STATE_RUNNING"
    assert waits.tasks is not None and (waits.tasks.running, waits.tasks.total) == (0, 4)
    iris.put(*family(counts={"running": 4}))
    assert (await value(platform, run)).phase is Phase.RUNNING


async def test_a_parent_that_succeeded_hides_no_child_that_failed(iris: Controller) -> None:
    iris.put(*family("FAILED", "SUCCEEDED", error="Exit code: 137"))
    iris.tasks["/ada/hero/train_lm"] = {
        "tasks": [
            {"taskId": "/ada/hero/train_lm/0", "state": "TASK_STATE_COSCHED_FAILED"},
            {"taskId": "/ada/hero/train_lm/1", "state": "TASK_STATE_FAILED", "exitCode": 137},
        ]
    }
    found = await value(platform_of(), run_of(iris.url, "/ada/hero", **PATTERNS))
    assert (found.state, found.phase) == ("JOB_STATE_SUCCEEDED", Phase.FAILED)
    assert found.exit_code == 137 and found.reason is not None
    assert found.reason.startswith("child train_lm FAILED: Exit code: 137")


async def test_a_coordinator_outlives_the_child_that_failed(iris: Controller) -> None:
    iris.put(*family("FAILED", error="Exit code: 1"))
    found = await value(platform_of(), run_of(iris.url, "/ada/hero", **PATTERNS))
    assert found.phase is Phase.WAITING and found.ended_at is None and found.exit_code is None
    assert found.reason is not None
    assert found.reason.startswith("child train_lm FAILED: Exit code: 1; /ada/hero goes on")


async def test_a_child_that_comes_and_goes_between_two_looks_is_seen(iris: Controller) -> None:
    platform, run = platform_of(), run_of(iris.url, "/ada/hero", **PATTERNS)
    iris.put(job("/ada/hero"))
    assert (await value(platform, run)).children == ()
    iris.put(*family("FAILED", error="Exit code: 1"))
    assert (await value(platform, run)).children == ("/ada/hero/train_lm",)
    asked = len(iris.asked)
    iris.jobs["/ada/hero/train_2"] = job("/ada/hero/train_2", at=1_795_246_990)
    found = await value(platform, run)
    assert found.phase is Phase.RUNNING
    assert found.children == ("/ada/hero/train_lm", "/ada/hero/train_2")
    assert len(iris.asked) - asked <= 6


async def test_the_newest_child_that_trains_is_the_current_one(iris: Controller) -> None:
    iris.put(*family("FAILED"), job("/ada/hero/train_2", at=1_795_246_990, counts={"running": 1}))
    found = await value(platform_of(), run_of(iris.url, "/ada/hero", **PATTERNS))
    assert found.phase is Phase.RUNNING and found.children[-1] == "/ada/hero/train_2"
