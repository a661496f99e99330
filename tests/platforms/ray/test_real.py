"""The same against a real head: what it answers, and what it does when its GCS is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import LaunchState, Query, Submission
from cockpit.model.observed import JobValue, Phase
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.ray import launching
from cockpit.platforms.ray.platform import RayPlatform
from tests.platforms.ray.real_head import TOKEN, RealHead
from tests.platforms.ray.recorded import job_of, platform, run_of

RAY = os.environ.get("COCKPIT_RAY")
pytestmark = pytest.mark.skipif(not RAY, reason="needs a real Ray: make test-ray")
WITHIN = 90.0
STEPS = """python3 -u -c "import time
for i in range(9999): print(f'step {i} loss=2.5'); time.sleep(0.2)"
"""


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_RAY_TOKEN", TOKEN)


def named(head: RealHead, job_id: str, **parts: Any) -> RunSpec:
    return run_of(head.url, job_id, job={"token_env": "MY_RAY_TOKEN"}, **parts)


async def until(source: RayPlatform, run: RunSpec, holds: Callable[[JobValue], bool]) -> JobValue:
    end = time.monotonic() + WITHIN
    while True:
        job = await job_of(source, run)
        if holds(job):
            return job
        assert time.monotonic() < end, job
        await asyncio.sleep(0.3)


async def test_jobs_of_every_fate(head: RealHead) -> None:
    head.submit("ok-i001", "echo done")
    head.submit("bad-i001", "echo boom; exit 3")
    head.submit("big-i001", "true", entrypoint_num_gpus=8)
    head.submit("env-i001", "true", runtime_env={"working_dir": "/nonexistent"})
    head.submit("killed-i001", "kill -9 $$")
    source = platform()
    ended = {
        name: await until(source, named(head, f"{name}-i001"), lambda job: job.phase.terminal)
        for name in ("ok", "bad", "env", "killed")
    }
    assert [ended[name].exit_code for name in ("ok", "bad", "killed")] == [0, 3, -9]
    assert ended["ok"].phase is Phase.SUCCEEDED and ended["ok"].started_at is not None
    assert "/nonexistent is not a valid path" in (ended["env"].reason or "")
    big = await until(source, named(head, "big-i001"), lambda job: job.never)
    assert big.phase is Phase.WAITING and "waiting for 8 GPU" in (big.reason or "")
    run = named(head, "bad-i001")
    read = (await source.logs([Query(run=run, job=ended["bad"])]))["bad"]
    assert read.value is not None and "boom" in [line.plain for line in read.value.lines]


async def test_a_training_is_followed_and_its_rival_seen(head: RealHead) -> None:
    root = place_of("/tmp/x/hero")
    head.submit("hero-i001", STEPS)
    head.submit("other", "sleep 600 # --output_dir=/tmp/x/hero")
    source, run = platform(), named(head, "hero-i001", output_root=root)
    job = await until(source, run, lambda job: job.phase is Phase.RUNNING and bool(job.rivals))
    assert [rival.id for rival in job.rivals] == ["other"]
    steps: list[int] = []
    end = time.monotonic() + WITHIN
    while len(steps) < 20:
        facet = (await source.logs([Query(run=run, job=job)]))["hero"]
        steps += [row.step or 0 for row in facet.value.rows] if facet.value is not None else []
        assert time.monotonic() < end, facet.error
        await asyncio.sleep(0.3)
    assert steps == [*range(steps[0], steps[0] + len(steps))], "each once"
    host = (await source.hosts([Query(run=run, job=job)]))["hero"]
    assert host.value is not None and host.value.disks and host.value.mem_frac is not None
    (finding,) = await source.findings([run])
    assert finding.remedy is None and finding.text.startswith("Ray 2.")


async def test_without_the_token_and_with_a_wrong_one(
    head: RealHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/nonexistent")
    for env, kind in ((None, ErrorKind.UNAUTHORIZED), ("WRONG", ErrorKind.FORBIDDEN)):
        monkeypatch.setenv("WRONG", "w" * 40)
        run = run_of(head.url, "ok-i001", job={"token_env": env})
        error = (await platform().jobs([Query(run=run)]))["ok"].error
        assert error is not None and error.kind is kind, error


async def test_a_stopped_gcs_is_said_and_outlived(head: RealHead) -> None:
    source, run = platform(), named(head, "ok-i001")
    (gcs,) = head.processes(b"gcs_server")
    os.kill(gcs, signal.SIGSTOP)
    try:
        began = time.monotonic()
        error = (await source.jobs([Query(run=run)]))["ok"].error
        assert time.monotonic() - began < 8.0
    finally:
        os.kill(gcs, signal.SIGCONT)
    assert error is not None and error.kind is ErrorKind.TIMEOUT
    assert "its GCS hangs or is gone" in error.message
    assert (await until(source, run, lambda job: True)).phase is Phase.SUCCEEDED


def submission(run: RunSpec, number: int, *words: str) -> Submission:
    return Submission(run=run.name, launch_id=f"{run.name}-i{number:03}", command=words)


async def test_rays_own_client_submits(head: RealHead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    settings = {"token_env": "MY_RAY_TOKEN", "resubmit_runs": "command"}
    run = run_of(head.url, None, name="cli", job=settings)
    made = platform()
    words = (RAY or "", "job", "submit", "--no-wait", "--submission-id", "{launch_id}", "--")
    assert not [
        each for each in made.command_checks(run, [*words, "sleep"]) if each.level == "block"
    ]
    filled = [word.replace("{launch_id}", "cli-i001") for word in words]
    accepted = await made.accept(run, submission(run, 1, *filled, "sleep", "600"))
    assert await made.go(run, accepted) == "cli-i001"
    found = await made.look_up(run, "cli-i001", accepted.handle, settle=True)
    assert found.found is LaunchState.LIVE
    await made.stop(run, list((await made.live([run]))["cli"].jobs))
    refused = submission(run, 2, *filled[:3], "--no-such-option")
    accepted = await made.accept(run, refused)
    with pytest.raises(LostError, match="ended with 2"):
        await made.go(run, accepted)
    found = await made.look_up(run, "cli-i002", accepted.handle, settle=True)
    assert found.found is LaunchState.ABSENT


async def test_a_job_that_waits_is_told_and_does_not_heed_its_stop(
    head: RealHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "WAITS_FOR", 3.0)
    head.submit("wants-i001", "sleep 600", entrypoint_num_gpus=8)
    made = platform()
    run = named(head, "wants-i001")
    found = await made.look_up(run, "wants-i001")
    assert found.found is LaunchState.LIVE and found.waits and "8 GPU" in (found.reason or "")
    with pytest.raises(CannotError, match="does not heed its stop"):
        await made.stop(run, list((await made.live([run]))["wants"].jobs))
