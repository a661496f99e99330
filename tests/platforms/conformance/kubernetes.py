"""Jobs of a Kubernetes: at the API server of the tests, and at a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from cockpit.model.clock import SystemClock
from cockpit.model.place import place_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.kubernetes.objects import HELD, LAUNCH_LABEL, RUN_LABEL
from tests.platforms.conformance.clusters import LOST_ANSWER, still
from tests.platforms.conformance.seat import Seat, Way
from tests.platforms.kubernetes.rig import Rig
from tests.platforms.kubernetes.scenario import MERGE
from tests.platforms.kubernetes.server import Server
from tests.platforms.ray.recorded import Skips
from tests.waiting import until

Json = dict[str, Any]
OVER = ("Complete", "Failed")


def job_of(*words: str) -> Json:
    """A Job as people write it."""
    container = {"name": "train", "image": "trainer", "command": list(words)}
    spec = {"restartPolicy": "Never", "containers": [container]}
    job = {"backoffLimit": 0, "template": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": job}


class KubernetesSeat(Seat):
    kind = "kubernetes"
    ways = (Way("cockpit.runtime.http:Http", "send", LOST_ANSWER),)
    clock: ClassVar[type[SystemClock]] = Skips
    one_a_lineage = False

    def __init__(self, folder: Path, server: Any) -> None:
        super().__init__(folder)
        self.server = server
        self.strangers: dict[str, list[str]] = {}
        (folder / "job.yaml").write_text(json.dumps(job_of("true")))

    def made(self, name: str) -> RunSpec:
        manifest = place_of(str(self.folder / "job.yaml"))
        job = JobSpec(kind="kubernetes", namespace="default", manifest=manifest, grace=5.0)
        return RunSpec(name=name, job=job, output_root=place_of(str(self.folder / "runs" / name)))

    def words(self, launch_id: str) -> Sequence[str]:
        return ("python", "train.py", launch_id)

    def jobs(self) -> list[Json]:
        server: Server = self.server
        return server.all("jobs")

    def living(self, run: RunSpec) -> list[str]:
        return [
            f"job/{each['metadata']['name']}"
            for each in self.jobs()
            if self._is_of(each["metadata"], run) and not _is_over(each)
        ]

    def _is_of(self, meta: Json, run: RunSpec) -> bool:
        if HELD in meta.get("annotations", {}):
            return False
        own = meta.get("labels", {}).get(RUN_LABEL) == run.name
        return own or meta["name"] in self.strangers.get(run.name, ())

    def began(self, launch_id: str) -> int:
        server: Server = self.server
        pods = [each[4] for each in server.events if (each[1], each[2]) == ("ADDED", "pods")]
        own = [pod["metadata"] for pod in pods if _launch_of(pod) == launch_id]
        return len({meta["ownerReferences"][0]["uid"] for meta in own})

    def finish(self, job_id: str) -> None:
        name = job_id.partition("/")[2]
        for pod in self.server.all("pods"):
            if pod["metadata"]["labels"].get("job-name") == name:
                self.server.finish(pod)

    def by_hand(self, run: RunSpec) -> str:
        assert run.output_root is not None
        words = ("python", "train.py", "--output_dir", run.output_root.path)
        return self._made(run, f"by-hand-{run.name}", *words)

    def take_name(self, run: RunSpec, launch_id: str) -> None:
        self._made(run, launch_id, "sleep", "600")

    def _made(self, run: RunSpec, name: str, *words: str) -> str:
        self.create({**job_of(*words), "metadata": {"name": name}})
        self.strangers.setdefault(run.name, []).append(name)
        return f"job/{name}"

    def create(self, job: Json) -> None:
        self.server.add("jobs", job)

    def halted(self) -> AbstractContextManager[None]:
        return still(self.server)


class KubernetesRigSeat(KubernetesSeat):
    """A real server, whose pods wait for a kubelet that is not there."""

    clock = SystemClock
    server: Rig

    def jobs(self) -> list[Json]:
        return list(self.server.ask("GET", "/apis/batch/v1/{ns}/jobs")["items"])

    def began(self, launch_id: str) -> int:
        events = self.server.ask("GET", "/api/v1/{ns}/events")["items"]
        about = [each["involvedObject"] for each in events if each["reason"] == "SuccessfulCreate"]
        return len({each["uid"] for each in about if each["name"] == launch_id})

    def finish(self, job_id: str) -> None:
        name = job_id.partition("/")[2]

        def ended() -> bool:
            """Let each pod end that there is; tell whether the job is over."""
            path = f"/api/v1/{{ns}}/pods?labelSelector=job-name%3D{name}"
            for pod in self.server.ask("GET", path)["items"]:
                one = f"/api/v1/{{ns}}/pods/{pod['metadata']['name']}/status"
                self.server.ask("PATCH", one, {"status": {"phase": "Succeeded"}}, MERGE)
            job = self.server.ask("GET", f"/apis/batch/v1/{{ns}}/jobs/{name}")
            return _is_over(job) or job.get("code") == 404

        until(ended)

    def create(self, job: Json) -> None:
        self.server.ask("POST", "/apis/batch/v1/{ns}/jobs", job)

    @contextmanager
    def halted(self) -> Iterator[None]:
        self.server.stop()
        try:
            yield
        finally:
            self.server.resume()


def _launch_of(pod: Json) -> str | None:
    label: str | None = pod["metadata"]["labels"].get(LAUNCH_LABEL)
    return label


def _is_over(job: Json) -> bool:
    conditions = job.get("status", {}).get("conditions", ())
    return any(each["type"] in OVER and each["status"] == "True" for each in conditions)
