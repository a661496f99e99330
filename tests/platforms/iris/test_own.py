"""What ``cockpit init`` is told of a user's jobs."""

from __future__ import annotations

import pytest

from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError
from cockpit.runtime.account import login_name
from tests.platforms.iris.controller import Controller, job, running
from tests.platforms.iris.making import platform_of


@pytest.mark.parametrize("generation", ["june", "october"])
async def test_a_users_jobs_without_their_children(generation: str) -> None:
    me = login_name()
    async with running(Controller(generation)) as iris:
        ids = (f"/{me}/hero", f"/{me}/hero/child", f"/{me}x/other")
        iris.put(job(f"/{me}/old", "SUCCEEDED"), *map(job, ids))
        found = await platform_of().own_jobs(JobSpec(kind="iris", controller_url=iris.url))
        theirs = await platform_of().own_jobs(
            JobSpec(kind="iris", controller_url=iris.url, id=f"/{me}x/other")
        )
    assert [(each.id, each.name, each.text) for each in found] == [
        (f"/{me}/hero", "hero", "RUNNING"),
        (f"/{me}/old", "old", "SUCCEEDED"),
    ]
    assert [each.id for each in theirs] == [f"/{me}x/other"]


async def test_a_controller_that_wants_a_token() -> None:
    async with running(Controller()) as iris:
        iris.token = "t"
        with pytest.raises(CannotError, match=r"job\.auth"):
            await platform_of().own_jobs(JobSpec(kind="iris", controller_url=iris.url))
