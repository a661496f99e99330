"""The lab on a real Slurm: the same trainer and machines, and jobs counted at the controller."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cockpit.platforms.local.census import Process
from tests.e2e.lab import OVER, Lab, Machine, kill, until
from tests.platforms.slurm.rig import Rig

JOB = """#!/bin/sh
COCKPIT_LAUNCH_ID=job$SLURM_JOB_ID exec {python} -S {trainer} {root} {lives} 1000000
"""
RUN_FILE = """
[cockpit]
cadence = "10s"
operator = "ada"

[[run]]
name = "tiny"
tier = "ordinary"
dri = "ada"
final_step = 1000000
output_root = "{root}"
hardware = "cpu"
resubmit = {command}
job = {{ kind = "slurm", id = "{first}", log = "{root}/run.log", workdir = "{code}", grace = "5s" }}
checkpoints = {{ path = ["{root}/checkpoints"], layout = "levanter", save_every = "1s", keep = 3 }}
records = {{ logbook = "{logbook}" }}
code = {{ repo = "{code}" }}
thresholds = {{ flap_restarts = 1000000, warmup_steps = 1 }}
"""


class SlurmMachine(Machine):
    """A machine whose run is a job of Slurm; ``bin`` stands first on its PATH."""

    lab: SlurmLab

    def write(self, final: int = 10**6, *, tracked: bool = True) -> None:
        """Write the run file; the first job's number is known once there was one."""
        command = self.lab.command(self.root)
        self.config.write_text(
            RUN_FILE.format(
                root=self.root, first=self.lab.first, code=self.lab.code,
                logbook=self.clone / "tiny.md", command=json.dumps(command),
            )
        )  # fmt: skip

    @property
    def env(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {**super().env, "SLURM_CONF": str(self.lab.rig.conf), "PATH": path}


class SlurmLab(Lab):
    """A lab whose trainers are Slurm's; the files of two machines may lie apart."""

    def __init__(self, folder: Path, rig: Rig) -> None:
        super().__init__(folder)
        self.rig = rig
        self.first = "1"

    def command(self, root: Path) -> list[str]:
        """Return the call of sbatch that resumes the run."""
        script = self.folder / f"{root.name}.sh"
        script.write_text(
            JOB.format(python=sys.executable, trainer=self.trainer, root=root, lives=self.lives)
        )
        return ["sbatch", "--mem=50", "--open-mode=append", f"--output={root}/run.log", str(script)]

    def machine(self, name: str, root: Path | None = None) -> SlurmMachine:
        return SlurmMachine(self, name, root or self.folder / "root")

    def prepare(self, machine: Machine) -> None:
        """Have one job behind us that was killed; every machine's run file names it."""
        words = self.command(machine.root)
        self.first = self.rig.told(words[0], "--parsable", *words[1:])
        until(lambda: machine.saved(), "no checkpoint was saved")
        self.die()
        machine.write()

    def die(self) -> None:
        """Kill the trainers as the kernel does, and wait until Slurm has seen it."""
        for one in self.trainers:
            kill(one.pid)
        until(lambda: not self.trainers, "a trainer is left")
        until(lambda: not self.rig.told("squeue", "-h", "-t", "R,CG"), "Slurm did not see it")

    def settled(self) -> list[Process]:
        """Return the live trainers, once Slurm has begun or ended what it was given."""
        until(lambda: not self._coming(), "a job neither began nor ended")
        running = self.rig.told("squeue", "-h", "-t", "R", "-o", "%i").split()
        until(lambda: len(self.trainers) == len(running), "Slurm and the process table differ")
        return self.trainers

    def _coming(self) -> list[str]:
        """Return what waits to start, and what is ending."""
        rows = self.rig.told("squeue", "-h", "-t", "PD,CG,CF", "-o", "%i %r").splitlines()
        return [row for row in rows if "JobHeld" not in row]

    def jobs(self) -> dict[str, list[tuple[str, str]]]:
        """Return (number, state) of each launch id, of what ever was on a machine or still may."""
        rows = self.rig.told("squeue", "-h", "-t", "all", "-o", "%k|%A|%T|%N").splitlines()
        found: dict[str, list[tuple[str, str]]] = {}
        for row in rows:
            launch, job, state, node = row.split("|")
            if launch.startswith("tiny-i") and (node or state not in ("CANCELLED", "FAILED")):
                found.setdefault(launch, []).append((job, state))
        return found

    def held(self) -> list[str]:
        """Return the jobs that are held."""
        rows = self.rig.told("squeue", "-h", "-t", "PD", "-o", "%i %r").splitlines()
        return [row.split()[0] for row in rows if "JobHeld" in row]

    def end(self) -> None:
        self.rig.resume()
        self.rig.clear()
        super().end()


def check_slurm(lab: SlurmLab, *machines: Machine, held: int = 0) -> None:
    """See that "at most once" held, by the jobs at Slurm, the trainers' own words, the journals."""
    alive = lab.settled()
    assert len(alive) <= 1, f"{len(alive)} trainers live: {lab.jobs()}"
    assert not lab.overlaps(), lab.overlaps()
    for launch, jobs in lab.jobs().items():
        assert len([job for job in jobs if job[0] not in lab.held()]) <= 1, f"{launch}: {jobs}"
    assert len(lab.held()) <= held, f"held: {lab.held()}"
    told = [machine.history() for machine in machines]
    acts = [one for each in told for one in each["actions"]]
    assert not [one for one in acts if one["outcome"] not in OVER], json.dumps(acts, indent=1)
    done = [one for one in acts if one["action"] == "relaunch" and one["outcome"] == "done"]
    book = lab.logbook()
    for name in lab.started():
        job = name.removeprefix("job")
        if job == lab.first:
            continue
        mine = [one for one in done if one["job_id"] == job]
        assert len(mine) == 1, f"job {job} in the journals: {json.dumps(acts, indent=1)}"
        assert mine[0]["launch_id"] in book, f"{mine[0]['launch_id']} is not in the logbook"


@contextmanager
def slurm_of_ones_own(more: str = "") -> Iterator[Rig]:
    """Give a Slurm that nobody else uses: its controller is stopped and its jobs are counted."""
    folder = Path(tempfile.mkdtemp(prefix="cke-", dir="/tmp"))
    rig = Rig(folder, more)
    try:
        rig.up()
        yield rig
    finally:
        rig.down()
        shutil.rmtree(folder, ignore_errors=True)
