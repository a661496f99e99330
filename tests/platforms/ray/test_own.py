"""What ``cockpit init`` is told of a head's jobs."""

from __future__ import annotations

import pytest

from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError
from tests.platforms.ray.recorded import head, platform, reply


async def test_all_jobs_are_told_living_ones_first_and_without_secrets() -> None:
    async with head() as ray:
        ray.add("grug-i002", submitted=0, entrypoint="train --key sk-abcdefghijklmnopqrstuv012345")
        jobs = await platform().own_jobs(JobSpec(kind="ray", address=ray.url))
        assert ray.asked == ["/api/jobs/"]
    lives = [job.text.startswith(("RUNNING", "PENDING")) for job in jobs]
    assert lives == sorted(lives, reverse=True) and {True, False} <= set(lives)
    (grug,) = [job for job in jobs if job.id == "grug-i002"]
    assert grug.name == "grug" and grug.text.startswith("RUNNING since 2026-")
    assert "sk-abc" not in grug.text


@pytest.mark.parametrize(
    ("status", "text"),
    [(401, "job.token_env"), (404, "must be the dashboard")],
)
async def test_why_a_head_does_not_tell_its_jobs(status: int, text: str) -> None:
    async with head() as ray:
        ray.answers("/api/jobs/", reply(status, b"no"))
        with pytest.raises(CannotError, match=text):
            await platform().own_jobs(JobSpec(kind="ray", address=ray.url))


@pytest.mark.parametrize("address", [None, "http://", "ftp://h"])
async def test_a_head_that_is_not_named(address: str | None) -> None:
    with pytest.raises(CannotError, match="dashboard"):
        await platform().own_jobs(JobSpec(kind="ray", address=address))
