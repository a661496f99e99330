"""Acting on a real controller through its real client: one job, whatever stands still."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.jobs import LaunchState, Submission
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.command import as_sent, values_of, words_of
from cockpit.platforms.iris import acting
from cockpit.platforms.iris.platform import IrisPlatform
from cockpit.runtime.shell import run_command
from tests.platforms.iris.making import platform_of
from tests.platforms.iris.real import IRIS, Rig, controller_in


class Real:
    """A cockpit that launches ``sleep`` by the real client."""

    def __init__(self, rig: Rig, name: str, folder: Path) -> None:
        self.rig, self.name = rig, name
        self.platform: IrisPlatform = platform_of(SystemClock())
        command = f"{IRIS} --controller-url {rig.url} job run --no-wait -- sleep 600"
        job = {"kind": "iris", "controller_url": rig.url, "id": f"/ada/{name}"}
        self.run = RunSpec.model_validate(
            {"name": name, "output_root": f"gs://b/{name}", "resubmit": command,
             "job": {**job, "workdir": str(folder)}}
        )  # fmt: skip

    async def launch(self, launch_id: str) -> str:
        assert self.run.resubmit is not None
        values = values_of(self.run, launch_id, None, None)
        words = as_sent(self.platform, self.run, words_of(self.run.resubmit), values)
        submission = Submission(run=self.name, launch_id=launch_id, command=words)
        return await self.platform.go(self.run, await self.platform.accept(self.run, submission))

    def living(self) -> list[str]:
        """The run's jobs that live, at the controller itself; not those that close a name."""
        query = {"jobIdPrefix": f"/ada/{self.name}", "limit": 100}
        found = self.rig.call("ListJobs", {"query": query}).get("jobs", [])
        return [each["jobId"] for each in found if self._lives(each)]

    def _lives(self, job: dict[str, Any]) -> bool:
        status = self.rig.call("GetJobStatus", {"jobId": job["jobId"]})
        variables = status["request"].get("environment", {}).get("envVars", {})
        lives = ("JOB_STATE_PENDING", "JOB_STATE_BUILDING", "JOB_STATE_RUNNING")
        return job["state"] in lives and "COCKPIT_CLOSES" not in variables


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with controller_in(tmp_path_factory.mktemp("iris")) as found:
        yield found


@pytest.fixture
def real(rig: Rig, tmp_path: Path, request: pytest.FixtureRequest) -> Real:
    os.environ.pop("IRIS_USER", None)
    (tmp_path / "train.py").write_text("")
    name = request.node.name.replace("test_", "").replace("_", "-")[:30]
    rig.launch(f"/ada/{name}", "true")
    rig.call("TerminateJob", {"jobId": f"/ada/{name}"})
    return Real(rig, name, tmp_path)


async def test_launched_looked_up_and_stopped(real: Real) -> None:
    launch_id = f"{real.name}-i001"
    job_id = await real.launch(launch_id)
    assert real.living() == [job_id] == [f"/ada/{launch_id}"]
    found = await real.platform.look_up(real.run, launch_id)
    assert found.found is LaunchState.LIVE and found.bundle
    (live,) = (await real.platform.live([real.run]))[real.name].jobs
    assert (live.id, live.launch_id) == (job_id, launch_id)
    await real.platform.stop(real.run, [live])
    (task,) = real.rig.call("ListTasks", {"jobId": job_id})["tasks"]
    assert not task["attempts"] or "finishedAt" in task, "it is over by its worker's word"
    await real.platform.stop(real.run, [live])
    assert (await real.platform.look_up(real.run, launch_id)).found is LaunchState.ENDED
    with pytest.raises(CannotError, match="name is taken"):
        await real.launch(launch_id)


async def test_closed_names_scale_nothing_up(real: Real) -> None:
    launch_id = f"{real.name}-i001"
    before = _slices(real.rig)
    assert (await real.platform.look_up(real.run, launch_id)).found is LaunchState.ABSENT
    with pytest.raises(CannotError, match="closed"):
        await real.launch(launch_id)
    status = real.rig.call("GetJobStatus", {"jobId": f"/ada/{launch_id}"})
    assert status["job"]["state"] == "JOB_STATE_PENDING" and _slices(real.rig) == before
    with pytest.raises(OSError, match="409"):
        real.rig.launch(f"/ada/{launch_id}", "true")
    assert await real.launch(f"{real.name}-i002") in real.living()


async def test_a_controller_that_stands_still(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    launch_id, pid = f"{real.name}-i001", real.rig.process.pid
    monkeypatch.setattr(acting, "SUBMIT", 12.0)

    async def stands_still(*words: Any, **more: Any) -> Any:
        os.kill(pid, signal.SIGSTOP)
        return await run_command(*words, **more)

    monkeypatch.setattr(acting, "run_command", stands_still)
    try:
        with pytest.raises(LostError, match="was killed"):
            await real.launch(launch_id)
        assert (await real.platform.look_up(real.run, launch_id)).found is LaunchState.UNKNOWN
    finally:
        os.kill(pid, signal.SIGCONT)
    found = await real.platform.look_up(real.run, launch_id)
    assert found.found in (LaunchState.LIVE, LaunchState.ABSENT), found.text
    assert real.living() == ([found.job_id] if found.found is LaunchState.LIVE else [])


def _slices(rig: Rig) -> list[dict[str, Any]]:
    groups = rig.call("GetAutoscalerStatus", {})["status"]["groups"]
    return [each.get("sliceStateCounts", {}) for each in groups]
