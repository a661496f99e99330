"""Manifests as people write them, one for each kind, and runs that launch them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cockpit.model.jobs import Submission
from cockpit.model.place import place_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.kubernetes.platform import KubernetesPlatform
from cockpit.sources.logs.source import Logs
from tests.platforms.kubernetes.server import Server
from tests.platforms.ray.recorded import Skips

Json = dict[str, Any]
CREATE = ("kubectl", "create", "-f", "job.json")
OPERATORS = ("jobset.x-k8s.io", "trainer.kubeflow.org", "kubeflow.org", "ray.io")


def pod(name: str = "train", **more: Any) -> Json:
    container = {"name": name, "image": "trainer", "command": ["train"], **more}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def job(**spec: Any) -> Json:
    return made("batch/v1", "Job", {"backoffLimit": 0, "template": pod(), **spec})


def made(version: str, kind: str, spec: Json) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "mine"}, "spec": spec}


KINDS: dict[str, Json] = {
    "job": job(parallelism=2, completions=2),
    "jobset": made("jobset.x-k8s.io/v1alpha2", "JobSet", {
        "replicatedJobs": [{"name": "workers", "replicas": 2, "template": {"spec": job()["spec"]}}],
    }),
    "trainjob": made("trainer.kubeflow.org/v1alpha1", "TrainJob", {
        "runtimeRef": {"name": "torch"}, "trainer": {"image": "trainer", "numNodes": 2},
    }),
    "pytorchjob": made("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {
        "Master": {"replicas": 1, "template": pod("pytorch")},
        "Worker": {"replicas": 2, "template": pod("pytorch")},
    }}),
    "rayjob": made("ray.io/v1", "RayJob", {
        "entrypoint": "python old.py", "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {"headGroupSpec": {"template": pod("ray-head")}, "workerGroupSpecs": []},
    }),
}  # fmt: skip


class Launcher:
    """A run at the server of the tests, and a cockpit for it."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        server.groups |= set(OPERATORS)
        self.platform = self.another()

    def another(self) -> KubernetesPlatform:
        """A cockpit that remembers nothing."""
        clock = Skips()
        return KubernetesPlatform(clock, Logs(clock))

    def run(self, *documents: Json, name: str = "toy", **settings: Any) -> RunSpec:
        """A run whose manifest holds these objects."""
        path = self.folder / "job.json"
        path.write_text("\n---\n".join(json.dumps(each) for each in documents or (job(),)))
        given = {"namespace": "default", "manifest": place_of(str(path)), "grace": 40.0, **settings}
        spec = JobSpec.model_validate({"kind": "kubernetes", **given})
        return RunSpec(
            name=name, job=spec, workdir=place_of(str(self.folder)),
            output_root=place_of(f"gs://b/{name}"),
        )  # fmt: skip

    def submission(self, run: RunSpec, *command: str, number: int = 1, **env: str) -> Submission:
        launch_id = f"{run.name}-i{number:03d}"
        return Submission(
            run=run.name, launch_id=launch_id, command=command or CREATE,
            workdir=str(self.folder), env=env,
        )  # fmt: skip

    async def launch(self, run: RunSpec, *command: str, number: int = 1, **env: str) -> str:
        submission = self.submission(run, *command, number=number, **env)
        return await self.platform.go(run, await self.platform.accept(run, submission))
