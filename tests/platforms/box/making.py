"""Runs of kind ``box`` on a test's own host, whose processes and files are of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Live
from cockpit.model.place import on_host
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.box.platform import BoxPlatform
from cockpit.sources.logs.source import Logs


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
        wandb=WandbSpec(project="p", id=f"{name}-wb", dir=on_host(host, str(root / "wandb"))),
    )


FILES = (("log", "log"), ("pid_file", "pid"), ("exit_file", "exit"))


def box(**more: Any) -> BoxPlatform:
    clock = SystemClock()
    return BoxPlatform(clock, Logs(clock), **more)


async def living(platform: Platform, run: RunSpec) -> Live:
    return (await platform.live([run]))[run.name]


def files(run: RunSpec, key: str) -> Path:
    """Return a file of the run as this machine sees it."""
    return Path(getattr(run.job, key).path)


def told(run: RunSpec, key: str) -> str:
    path = files(run, key)
    return path.read_text() if path.exists() else ""
