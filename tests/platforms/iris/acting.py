"""A run that can be launched on a controller of a loopback port, by a stand-in for its client."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from cockpit.model.jobs import Accepted, LiveJob, Submission
from cockpit.model.run import RunSpec
from cockpit.platforms.command import as_sent, values_of, words_of
from cockpit.platforms.iris.platform import IrisPlatform
from tests.platforms.iris.controller import Controller
from tests.platforms.iris.making import Later, platform_of

CLIENT = Path(__file__).with_name("client.py")
LAUNCH = "bee-i001"
JOB = f"/ada/{LAUNCH}"


class Fast(Later):
    """A clock on which short waits take no time; what waits for long is not what is tested."""

    async def sleep(self, seconds: float) -> None:
        if seconds > 5.0:
            await asyncio.sleep(seconds)
        self.ahead += seconds
        await asyncio.sleep(0)


class Lab:
    """One cockpit: its platform, the run, what it sends."""

    def __init__(self, iris: Controller, folder: Path, **more: Any) -> None:
        self.clock = Fast()
        self.platform: IrisPlatform = platform_of(self.clock)
        client = f"{sys.executable} {CLIENT} --controller-url {iris.url}"
        command = f"{client} job run --no-wait {more.pop('options', '')} -- python train.py"
        job = {"kind": "iris", "controller_url": iris.url, "workdir": str(folder)}
        job |= more.pop("job", {"id": "/ada/bee"})
        run = {"name": "bee", "output_root": "gs://b/bee", "resubmit": command, "job": job}
        self.run = RunSpec.model_validate({**run, **more})

    def submission(self, launch_id: str = LAUNCH, **env: str) -> Submission:
        """What an action would submit: the recorded words, filled and formed."""
        assert self.run.resubmit is not None
        values = values_of(self.run, launch_id, None, None)
        words = as_sent(self.platform, self.run, words_of(self.run.resubmit), values)
        return Submission(run="bee", launch_id=launch_id, command=words, env=env)

    async def accept(self, launch_id: str = LAUNCH, **env: str) -> Accepted:
        return await self.platform.accept(self.run, self.submission(launch_id, **env))

    async def launch(self, launch_id: str = LAUNCH, **env: str) -> str:
        return await self.platform.go(self.run, await self.accept(launch_id, **env))

    async def live(self) -> tuple[LiveJob, ...]:
        found = (await self.platform.live([self.run]))["bee"]
        assert found.unknown is None, found.unknown
        return found.jobs
