"""A real small run on a real Ray head under the real command line: several cockpits, one head.

Trainers are seen in the process table (the head is on this machine), jobs at the head itself.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.lab import RUN, Lab, Machine, kill, until

LIVES = ("PENDING", "RUNNING")
JOB = 'job = {{ kind = "ray", address = {address}, token_env = "LAB_RAY_TOKEN", grace = "5s" }}'


class RayLab(Lab):
    """``url`` is the head's; ``run`` is a name of this lab alone: a head knows each id once."""

    def __init__(self, folder: Path, url: str, token: str, run: str) -> None:
        super().__init__(folder)
        self.url, self.token, self.run = url, token, run

    def machine(self, name: str, root: Path | None = None) -> RayMachine:
        return RayMachine(self, name, root or self.folder / "root")

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def jobs(self) -> list[dict[str, Any]]:
        """Return this lab's jobs as the head lists them, but for those that only close an id."""
        answer = httpx.get(f"{self.url}/api/jobs/", headers=self.headers, timeout=60)
        named = [each for each in answer.json() if self._is_ours(each)]
        return [each for each in named if each["entrypoint"] != "true"]

    def _is_ours(self, job: Mapping[str, Any]) -> bool:
        return str(job["submission_id"] or "").startswith(f"{self.run}-")

    def living(self) -> list[str]:
        return [job["submission_id"] for job in self.jobs() if job["status"] in LIVES]

    def submit(self, name: str, words: list[str]) -> None:
        document = {"submission_id": name, "entrypoint": shlex.join(words)}
        url = f"{self.url}/api/jobs/"
        httpx.post(url, json=document, headers=self.headers, timeout=60).raise_for_status()

    def prepare(self, machine: Machine) -> None:
        """Have one job behind us that was killed: what a relaunch is for."""
        assert isinstance(machine, RayMachine)
        self.submit(f"{self.run}-i001", machine.words_of_trainer())
        until(lambda: machine.saved(), "no checkpoint was saved", 90.0)
        self.die()

    def die(self) -> None:
        """Kill the trainers as the kernel does; wait until the head has seen it."""
        until(lambda: len(self.trainers) == len(self.living()), "a job never began", 60.0)
        for one in self.trainers:
            kill(one.pid)
        until(lambda: not self.trainers and not self.living(), "a trainer is left", 60.0)

    def end(self) -> None:
        for name in self.living():
            url = f"{self.url}/api/jobs/{name}/stop"
            httpx.post(url, headers=self.headers, timeout=60)
        for one in self.trainers:
            kill(one.pid, signal.SIGKILL)


class RayMachine(Machine):
    """One store and one run file, whose run is a job of the head."""

    lab: RayLab
    address: str | None = None
    """Where this machine reaches the head: directly, or by way of something that loses answers."""

    def write(self, final: int = 10**6, *, tracked: bool = True) -> None:
        super().write(final, tracked=tracked)
        job = JOB.format(address=json.dumps(self.address or self.lab.url))
        text = re.sub(r"^job = \{.*?\}$", job, self.config.read_text(), flags=re.M | re.S)
        self.config.write_text(
            text.replace(f'name = "{RUN}"\ntier', f'name = "{self.lab.run}"\ntier')
        )

    def words_of_trainer(self, final: int = 10**6) -> list[str]:
        words = [sys.executable, "-S", str(self.lab.trainer), str(self.root)]
        return [*words, str(self.lab.lives), str(final)]

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "LAB_RAY_TOKEN": self.lab.token}

    def begin(self, verb: str, *words: str, run: str = RUN) -> subprocess.Popen[str]:
        named = [word.replace(f" {RUN}", f" {self.lab.run}") for word in words]
        return super().begin(verb, *named, run=self.lab.run if run == RUN else run)
