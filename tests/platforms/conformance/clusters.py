"""Slurm, Ray and Iris: a real Slurm, a real head or its recorded answers, a loopback controller."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx

from cockpit.hosts import script
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.runtime.http import LostAnswerError
from cockpit.runtime.shell import Completed
from cockpit.sources.logs.source import Logs
from tests.platforms.conformance.seat import Seat, Way, lost_by
from tests.platforms.iris.acting import CLIENT, Fast
from tests.platforms.iris.controller import LIVES as IRIS_LIVES
from tests.platforms.iris.controller import Controller, job, task_of
from tests.platforms.iris.making import run_of as iris_run
from tests.platforms.ray.real_head import TOKEN, RealHead, halted_part
from tests.platforms.ray.recorded import Recorded, Skips
from tests.platforms.ray.recorded import run_of as ray_run
from tests.platforms.slurm.asking import run_of as slurm_run
from tests.platforms.slurm.rig import Rig
from tests.waiting import until

LOST_ANSWER = lost_by(lambda: LostAnswerError(ErrorKind.TIMEOUT, "no answer in time"))


class QuickSlurm(SlurmPlatform):
    look_every = 0.1


class SlurmSeat(Seat):
    kind = "slurm"
    ways = (Way("cockpit.hosts.script", "run_script", lambda: Completed(0, b"", b"")),)
    chains = True
    one_a_lineage = False

    def __init__(self, folder: Path, rig: Rig) -> None:
        super().__init__(folder)
        self.rig = rig
        self.strangers: dict[str, list[str]] = {}
        text = '#!/bin/sh\necho ran >>"$1"\nexec sleep 600\n'
        (folder / "job.sh").write_text(text)

    @classmethod
    def platform(cls) -> Platform:
        clock = SystemClock()
        return QuickSlurm(
            clock, Logs(clock), lambda *words, **more: script.run_script(*words, **more)
        )

    def made(self, name: str) -> RunSpec:
        root = self.folder / "runs" / name
        root.mkdir(parents=True)
        return slurm_run(name, root=str(root), workdir=place_of(str(self.folder)), grace=5.0)

    def words(self, launch_id: str) -> Sequence[str]:
        return ("sbatch", "--mem=10", "--output=out-%j", "job.sh", str(self.marker(launch_id)))

    def living(self, run: RunSpec) -> list[str]:
        rows = self.rig.told("squeue", "-h", "-t", "PD,R,CG", "-o", "%A %T %r %k").splitlines()
        found = (row.split(maxsplit=3) for row in rows)
        return [
            job_id
            for job_id, state, reason, comment in found
            if comment.startswith(f"{run.name}-i") or job_id in self.strangers.get(run.name, ())
            if (state, reason) != ("PENDING", "JobHeldUser")
        ]

    def finish(self, job_id: str) -> None:
        self.rig.told("scancel", job_id)
        until(lambda: not self.rig.told("squeue", "-h", "-t", "PD,R,CG", "-j", job_id))

    def by_hand(self, run: RunSpec) -> str:
        assert run.output_root is not None
        return self._submitted(run, "-o", f"{run.output_root.path}/%j.out")

    def take_name(self, run: RunSpec, launch_id: str) -> None:
        self._submitted(run, f"--comment={launch_id}")

    def _submitted(self, run: RunSpec, *options: str) -> str:
        job_id = self.rig.sbatch(*options)
        self.strangers.setdefault(run.name, []).append(job_id)
        self.rig.wait_for(job_id, "RUNNING")
        return job_id

    def chain(self, run: RunSpec, job_id: str) -> str:
        waiting = self.rig.sbatch("-d", f"afterany:{job_id}", f"--comment={run.name}-i009")
        self.rig.wait_for(waiting, "Dependency")
        return waiting

    @contextmanager
    def halted(self) -> Iterator[None]:
        self.rig.stop()
        try:
            yield
        finally:
            self.rig.resume()
            self.rig.wait_answers()

    def end(self) -> None:
        self.rig.clear()


class RaySeat(Seat):
    """Recorded answers of a head, which takes each id once as Ray does."""

    kind = "ray"
    ways = (Way("cockpit.runtime.http:Http", "send", LOST_ANSWER),)
    clock: ClassVar[type[SystemClock]] = Skips
    one_a_lineage = False
    settings: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path, head: Recorded) -> None:
        super().__init__(folder)
        self.head: Any = head

    def made(self, name: str) -> RunSpec:
        root = place_of(str(self.folder / "runs" / name))
        job = {"grace": 5.0, **self.settings}
        return ray_run(self.head.url, None, name=name, output_root=root, job=job)

    def words(self, launch_id: str) -> Sequence[str]:
        return ("sh", "-c", 'echo ran >>"$0"; exec sleep 600', str(self.marker(launch_id)))

    def jobs(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.head.documents["/api/jobs/"]
        return listed

    def living(self, run: RunSpec) -> list[str]:
        assert run.output_root is not None
        lives = (each for each in self.jobs() if each["status"] in ("PENDING", "RUNNING"))
        return [
            each["submission_id"]
            for each in lives
            if each["entrypoint"] != "true"
            and (
                str(each["submission_id"]).startswith(f"{run.name}-i")
                or each["entrypoint"].endswith(f"--output_dir {run.output_root.path}")
            )
        ]

    def began(self, launch_id: str) -> int:
        posted = [each for each in self.head.posted if each["submission_id"] == launch_id]
        return sum(each["entrypoint"] != "true" for each in posted)

    def finish(self, job_id: str) -> None:
        self.head.job(job_id)["status"] = "SUCCEEDED"

    def by_hand(self, run: RunSpec) -> str:
        assert run.output_root is not None
        name = f"by-hand-{run.name}"
        self._started(name, f"sleep 600 # --output_dir {run.output_root.path}")
        return name

    def take_name(self, run: RunSpec, launch_id: str) -> None:
        self._started(launch_id, "sleep 600")

    def _started(self, name: str, entrypoint: str) -> None:
        self.head.add(name, entrypoint=entrypoint, metadata={}, status="RUNNING")

    def halted(self) -> AbstractContextManager[None]:
        return still(self.head)


class RayHeadSeat(RaySeat):
    """A real head on this machine."""

    clock = SystemClock
    settings: ClassVar[dict[str, str]] = {"token_env": "COCKPIT_TEST_RAY_TOKEN"}
    head: RealHead

    def jobs(self) -> list[dict[str, Any]]:
        return list(self._asked("GET", "").json())

    def _asked(self, method: str, path: str) -> httpx.Response:
        head = {"authorization": f"Bearer {TOKEN}"}
        return httpx.request(method, f"{self.head.url}/api/jobs/{path}", headers=head, timeout=60)

    def began(self, launch_id: str) -> int:
        return Seat.began(self, launch_id)

    def finish(self, job_id: str) -> None:
        self._asked("POST", f"{job_id}/stop")
        until(lambda: self._asked("GET", job_id).json()["status"] not in ("PENDING", "RUNNING"))

    def _started(self, name: str, entrypoint: str) -> None:
        self.head.submit(name, entrypoint)
        until(lambda: self._asked("GET", name).json()["status"] == "RUNNING")

    def halted(self) -> AbstractContextManager[None]:
        return halted_part(self.head, b"gcs_server")


class IrisSeat(Seat):
    """A controller on a loopback port, and a stand-in for its client."""

    kind = "iris"
    clock = Fast
    ways = (
        Way(
            "cockpit.platforms.iris.acting", "run_command",
            lambda: Completed(-9, b"", b"", timed_out=True),
        ),
        Way("cockpit.runtime.http:Http", "send", LOST_ANSWER),
    )  # fmt: skip

    def __init__(self, folder: Path, controller: Controller) -> None:
        super().__init__(folder)
        self.controller = controller
        self.strangers: dict[str, list[str]] = {}
        controller.put()

    def made(self, name: str) -> RunSpec:
        job = {"workdir": str(self.folder), "grace": 5.0}
        return iris_run(self.controller.url, None, name, output_root=f"gs://b/{name}", job=job)

    def words(self, launch_id: str) -> Sequence[str]:
        own = (sys.executable, str(CLIENT), "--controller-url", self.controller.url)
        return (*own, "job", "run", "--no-wait", "--", "python", "train.py")

    def living(self, run: RunSpec) -> list[str]:
        lives = [each for each in self.controller.jobs.values() if each["state"] in IRIS_LIVES]
        named = {*self.controller.names(), *self.strangers.get(run.name, ())}
        own = (each["jobId"] for each in lives if each["jobId"] in named)
        by_hand = self.strangers.get(run.name, ())
        return [each for each in own if each.startswith(f"/ada/{run.name}-i") or each in by_hand]

    def began(self, launch_id: str) -> int:
        return self.controller.names().count(f"/ada/{launch_id}")

    def finish(self, job_id: str) -> None:
        self.controller.jobs[job_id]["state"] = "JOB_STATE_SUCCEEDED"
        for each in self.controller.tasks[job_id]["tasks"]:
            each |= {"state": "TASK_STATE_SUCCEEDED", "finishedAt": {"epochMs": "1795246990000"}}

    def by_hand(self, run: RunSpec) -> str:
        return self._started(run, f"/ada/by-hand-{run.name}", "--output_dir", str(run.output_root))

    def take_name(self, run: RunSpec, launch_id: str) -> None:
        self._started(run, f"/ada/{launch_id}")

    def _started(self, run: RunSpec, name: str, *argv: str) -> str:
        request = {"entrypoint": {"runCommand": {"argv": ["python", "train.py", *argv]}}}
        self.controller.jobs[name] = job(name, at=int(time.time()))
        self.controller.status[name] = {"job": self.controller.jobs[name], "request": request}
        self.controller.tasks[name] = {"tasks": [task_of(name)]}
        self.strangers.setdefault(run.name, []).append(name)
        return name

    def halted(self) -> AbstractContextManager[None]:
        return still(self.controller)


@contextmanager
def still(server: Recorded | Controller) -> Iterator[None]:
    server.goes_on.clear()
    try:
        yield
    finally:
        server.goes_on.set()
