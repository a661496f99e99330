"""Runs and objects for tests of what is read of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue
from cockpit.model.place import place_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.kubernetes.platform import KubernetesPlatform
from cockpit.sources.logs.source import Logs
from tests.platforms.kubernetes.scenario import ADMIN
from tests.platforms.kubernetes.server import Json, Server, serving

GROUPS = {"jobset.x-k8s.io", "trainer.kubeflow.org", "kubeflow.org", "ray.io", "kueue.x-k8s.io"}


def run_of(name: str = "toy", job: str | None = "job/toy", **settings: Any) -> RunSpec:
    named = {"namespace": "default", "name": job, "id": job, **settings}
    spec = JobSpec.model_validate({"kind": "kubernetes", **named})
    return RunSpec(name=name, output_root=place_of("/runs/toy"), job=spec)


def pod_spec(*words: str, **more: Any) -> Json:
    return {"restartPolicy": "Never", "containers": [{"name": "main", "args": list(words), **more}]}


def job(name: str = "toy", *words: str, **spec: Any) -> Json:
    template = {"template": {"spec": pod_spec(*(words or ("train.py",)))}}
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, **template, **spec}}


def jobset(name: str = "toy", pods: int = 1, **spec: Any) -> Json:
    inner = {"spec": {"parallelism": pods, "backoffLimit": 0, "template": {"spec": pod_spec()}}}
    sets = [{"name": "workers", "replicas": 1, "template": inner}]
    return {"metadata": {"name": name}, "spec": {"replicatedJobs": sets, **spec}}


def status(server: Server, plural: str, name: str, **parts: Any) -> Json:
    """Put a status on an object, as its controller does."""
    found = server.one(plural, name)
    found["status"] = {**found.get("status", {}), **parts}
    server.settle(found)
    return found


def condition(kind: str, reason: str = "", message: str = "", value: str = "True") -> Json:
    at = "2026-11-01T10:00:00Z"
    told = {"reason": reason, "message": message, "lastTransitionTime": at}
    return {"type": kind, "status": value, **told}


class Desk:
    """A platform before a server of the tests' own."""

    def __init__(self, server: Server) -> None:
        self.server = server
        clock = SystemClock()
        self.platform = KubernetesPlatform(clock, Logs(clock))

    async def facet(self, run: RunSpec, **more: Any) -> Any:
        return (await self.platform.jobs([Query(run=run, **more)]))[run.name]

    async def job(self, run: RunSpec | None = None) -> JobValue:
        facet = await self.facet(run or run_of())
        assert facet.value is not None, facet.error
        value: JobValue = facet.value
        return value

    async def error(self, run: RunSpec | None = None) -> tuple[str, str]:
        facet = await self.facet(run or run_of())
        assert facet.error is not None, facet.value
        return facet.error.kind.value, facet.error.message

    async def log(self, run: RunSpec | None = None) -> Any:
        run = run or run_of()
        return (await self.platform.logs([Query(run=run)]))[run.name]

    async def live(self, run: RunSpec | None = None) -> Any:
        run = run or run_of()
        return (await self.platform.live([run]))[run.name]

    def pods(self) -> list[Json]:
        return self.server.all("pods")


@contextmanager
def at_desk(folder: Path, monkeypatch: pytest.MonkeyPatch, token: str = ADMIN) -> Iterator[Desk]:
    with serving() as server:
        server.groups |= GROUPS
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(folder / "config", token)))
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield Desk(server)
