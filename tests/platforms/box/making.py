"""Runs of kind ``box`` on a test's own host, whose processes and files are of this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from cockpit.hosts import agent
from cockpit.hosts.link import DEADLINE, PATIENCE, Answers, Ask, HostLink
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Live
from cockpit.model.place import on_host
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.box.platform import BoxPlatform
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.source import Logs
from tests.platforms.local.making import wandb_id


def spec(host: str, folder: Path, name: str = "buoy", **job: Any) -> RunSpec:
    """Return a run whose files lie in ``folder``, as the host sees it."""
    root = folder / "runs" / name
    plain: dict[str, Any] = {
        "kind": "box",
        "host": host,
        **{key: on_host(host, str(root / f"run.{end}")) for key, end in FILES},
        "workdir": on_host(host, str(folder)),
        "grace": 5.0,
    }
    return RunSpec(
        name=name,
        output_root=on_host(host, str(root)),
        job=JobSpec(**{**plain, **job}),
        wandb=WandbSpec(
            project="p", id=wandb_id(folder, name), dir=on_host(host, str(root / "wandb"))
        ),
    )


FILES = (("log", "log"), ("pid_file", "pid"), ("exit_file", "exit"))


def box(**more: Any) -> BoxPlatform:
    clock = SystemClock()
    return BoxPlatform(clock, Logs(clock), **more)


class Here(HostLink):
    """This machine under a host's name, asked in process; a test may say what it meets.

    ``down`` is raised, ``edit`` changes an answer, and what ``hangs`` names answers when it is
    ``released``.
    """

    def __init__(self, host: str = "box") -> None:
        super().__init__(host)
        self.looks = 0
        self.asked: list[Ask] = []
        self.down: RemoteError | None = None
        self.hangs: Callable[[Ask], bool] = lambda each: False
        self.released = threading.Event()
        self.edit: Callable[[Ask, Any], Any] = lambda each, value: value

    async def ask(
        self, asks: Iterable[Ask], deadline: float = DEADLINE, patience: float = PATIENCE
    ) -> Answers:
        self.looks += 1
        return await super().ask(asks, deadline, patience)

    @property
    def _connected(self) -> bool:
        return True

    def _send(self, each: Ask) -> Future[Any]:
        self.asked.append(each)
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        if self.down is not None:
            future.set_exception(self.down.again())
        else:
            threading.Thread(target=self._work, args=(each, future), daemon=True).start()
        return future

    def _work(self, each: Ask, future: Future[Any]) -> None:
        if self.hangs(each):
            self.released.wait()
        said = agent.answer(each.call, json.loads(each.arguments))
        if "value" in said:
            value = said["value"]
            if each.call == "about":
                value["pid"] = -1  # else all that a test has started would be the agent's own
            future.set_result(self.edit(each, value))
        else:
            future.set_exception(OSError(said["errno"], said["text"], said["path"] or None))


async def living(platform: Platform, run: RunSpec) -> Live:
    return (await platform.live([run]))[run.name]


def files(run: RunSpec, key: str) -> Path:
    """Return a file of the run as this machine sees it."""
    return Path(getattr(run.job, key).path)


def told(run: RunSpec, key: str) -> str:
    path = files(run, key)
    return path.read_text() if path.exists() else ""
