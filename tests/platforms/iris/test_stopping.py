"""Stops are exact and end with the workers' own word; a trainer that offers it is asked to save."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cockpit.model.jobs import LiveJob
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.iris import acting
from tests.platforms.iris.acting import Lab
from tests.platforms.iris.controller import Controller, job, running, task_of

BEE = "/ada/bee"
CONTROL = "/proxy/ada.bee.train.training-control/checkpoint"


@pytest.fixture
async def iris() -> AsyncIterator[Controller]:
    async with running(Controller()) as controller:
        ids = (BEE, f"{BEE}/train", "/ada/bee2", "/ada/bee-eval")
        controller.put(*(job(each, at=1_795_246_900 + n) for n, each in enumerate(ids)))
        controller.tasks = {each: {"tasks": [task_of(each)]} for each in ids}
        yield controller


@pytest.fixture
def lab(iris: Controller, tmp_path: Path) -> Lab:
    return Lab(iris, tmp_path)


def states(iris: Controller) -> dict[str, str]:
    return {name: each["state"].removeprefix("JOB_STATE_") for name, each in iris.jobs.items()}


async def own(lab: Lab) -> LiveJob:
    (found,) = await lab.live()
    return found


async def test_a_stop_ends_the_job_and_what_is_below_it_and_nothing_else(
    iris: Controller, lab: Lab
) -> None:
    iris.lingers = 3
    await lab.platform.stop(lab.run, [await own(lab)])
    assert states(iris) == {
        BEE: "KILLED", f"{BEE}/train": "KILLED", "/ada/bee2": "RUNNING", "/ada/bee-eval": "RUNNING",
    }  # fmt: skip
    assert iris.lingers < 0, "it has waited until the workers said so"
    assert await lab.live() == ()


async def test_another_execution_of_that_name_is_left_alone(iris: Controller, lab: Lab) -> None:
    before = await own(lab)
    iris.put(job(BEE, at=1_795_250_000))
    await lab.platform.stop(lab.run, [before])
    assert states(iris) == {BEE: "RUNNING"}


async def test_what_the_workers_never_say_is_unknown(
    iris: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting.EndingIrisJobs, "slack", 5.0)
    iris.lingers, lab = 10_000, Lab(iris, tmp_path, job={"id": BEE, "grace": "0s"})
    with pytest.raises(LostError, match="worker of /ada/bee/0 has not said"):
        await lab.platform.stop(lab.run, [await own(lab)])


async def test_a_job_that_is_slow_to_end_is_told_once_and_once_more_after_its_grace(
    iris: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting.EndingIrisJobs, "slack", 5.0)
    iris.heedless, lab = True, Lab(iris, tmp_path, job={"id": BEE, "grace": "10s"})
    with pytest.raises(LostError, match="not gone in 15 s: /ada/bee is RUNNING"):
        await lab.platform.stop(lab.run, [await own(lab)])
    assert iris.asked.count("TerminateJob") == 2


async def test_a_lost_answer_of_a_stop_is_unknown_and_a_refusal_is_none(
    iris: Controller, lab: Lab
) -> None:
    living = await own(lab)
    iris.reply["TerminateJob"] = (403, b'{"code": "permission_denied", "message": "not yours"}', ())
    with pytest.raises(CannotError, match="not yours"):
        await lab.platform.stop(lab.run, [living])
    del iris.reply["TerminateJob"]
    iris.lose = {"GetJobStatus"}
    with pytest.raises(CannotError, match="nothing was told to stop"):
        await lab.platform.stop(lab.run, [living])
    assert set(states(iris).values()) == {"RUNNING"}
    iris.lose = set()
    iris.reply["TerminateJob"] = (500, b"", ())
    with pytest.raises(LostError, match="whether /ada/bee was told to stop"):
        await lab.platform.stop(lab.run, [living])
    del iris.reply["TerminateJob"]
    iris.lose = {"TerminateJob"}
    await lab.platform.stop(lab.run, [living])
    assert states(iris)[BEE] == "KILLED", "it was told, and is seen to have ended"
    with pytest.raises(CannotError, match="not an Iris job"):
        await lab.platform.stop(lab.run, [LiveJob(id="pid:1", name="x", why="y")])


async def test_a_trainer_that_offers_its_control_is_asked_to_save(
    iris: Controller, lab: Lab
) -> None:
    iris.endpoints = {"endpoints": [{"name": f"{BEE}/train/training-control"}]}
    living = await own(lab)
    assert lab.platform.can_save(lab.run, living) is None
    iris.posts[CONTROL] = (202, b"Temporary checkpoint requested.", ())
    await lab.platform.save(lab.run, living)
    assert "x-levanter-training-control: request-checkpoint" in iris.heads[-1].lower()
    iris.posts[CONTROL] = (404, b'{"error": "No endpoint"}', ())
    with pytest.raises(CannotError, match="answered 404"):
        await lab.platform.save(lab.run, living)
    iris.lose = {"checkpoint"}
    with pytest.raises(LostError, match="whether /ada/bee/train was asked"):
        await lab.platform.save(lab.run, living)


async def test_one_that_offers_none_cannot_be_asked(lab: Lab) -> None:
    living = await own(lab)
    assert "offers no training control" in (lab.platform.can_save(lab.run, living) or "")
    with pytest.raises(CannotError, match="no training control"):
        await lab.platform.save(lab.run, living)
