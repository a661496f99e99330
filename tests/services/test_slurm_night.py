"""The night without a person on a real Slurm: its own preemption, lost node and silence (A-15)."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.plan import Outcome
from cockpit.services import follow_up
from tests.e2e.slurm_lab import slurm_of_ones_own
from tests.platforms.slurm.rig import Rig, lacking
from tests.services.test_standing import DISK, NAN, OOM, Cockpit, Night, until

HOUR = 3600.0
NODE = socket.gethostname().partition(".")[0]
JOB = """#!/bin/sh
COCKPIT_LAUNCH_ID=$SLURM_JOB_ID exec {}
"""
PREEMPTS = """\
MinJobAge=3600
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP DefMemPerCPU=10
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lacking() is not None, reason=f"{lacking()} (CI installs it)"),
]


class SlurmNight(Night):
    """A run whose jobs are Slurm's, which takes them away as it does."""

    job = """{{ kind = "slurm", log = "{root}/run.log", workdir = "{code}", grace = "5s" }}"""

    def __init__(self, folder: Path, rig: Rig) -> None:
        super().__init__(folder)
        self.rig = rig

    def command(self) -> list[str]:
        """The call of sbatch; Slurm itself starts none of its jobs again."""
        script = self.folder / "job.sh"
        script.write_text(JOB.format(shlex.join(super().command())))
        log = f"--output={self.root}/run.log"
        return ["sbatch", "--mem=50", "--no-requeue", "--open-mode=append", log, str(script)]

    @property
    def starts(self) -> list[str]:
        """The launch ids under which a trainer ever began, by what Slurm knows of its jobs."""
        rows = self.rig.told("squeue", "-h", "-t", "all", "-o", "%A %k").splitlines()
        names = dict(row.split(maxsplit=1) for row in rows)
        return [names[job] for job in super().starts]

    @property
    def living(self) -> list[str]:
        rows = self.rig.told("squeue", "-h", "-t", "PD,R,CG", "-p", "all", "-o", "%A")
        return rows.split()

    def ends(self, lines: list[str], code: int = 1) -> None:
        """Have the trainer end so, once it has got on."""
        self.goes_on()
        self.will_end(lines, code)
        self.has_ended()

    def has_ended(self) -> None:
        until(lambda: not self.living, "it has not ended")

    def is_preempted(self) -> None:
        self.goes_on()
        self.rig.told("sbatch", "-p", "urgent", "--exclusive", "--mem=0", "--wrap", "true")
        self.has_ended()

    def loses_its_node(self) -> None:
        self.goes_on()
        self.rig.told("scontrol", "update", f"NodeName={NODE}", "State=DOWN", "Reason=burnt")
        self.has_ended()
        self.rig.told("scontrol", "update", f"NodeName={NODE}", "State=RESUME")

    def end(self) -> None:
        self.rig.resume()
        self.rig.clear()
        super().end()


@pytest.fixture
def rig() -> Iterator[Rig]:
    with slurm_of_ones_own(PREEMPTS) as made:
        yield made


@pytest.fixture
def night(tmp_path: Path, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmNight]:
    monkeypatch.setenv("SLURM_CONF", str(rig.conf))
    made = SlurmNight(tmp_path, rig)
    try:
        yield made
    finally:
        made.end()


async def relaunches(cockpit: Cockpit, count: int) -> None:
    """Look, as often as a busy machine may need, until the order has used itself once more."""
    for _ in range(5):
        await cockpit.look()
        if f"{count} of 3, from step " in cockpit.night.told:
            return
        cockpit.clock.later(follow_up.AGAIN + 1)
    raise AssertionError(await cockpit.why())


async def test_a_night_of_failures_in_a_row(night: SlurmNight) -> None:
    """A preemption, a silent controller, a lost node, a preemption, and one that is too many."""
    cockpit = Cockpit(night, "here")
    await cockpit.person("launch")
    await cockpit.person("standing", until="10h")
    await cockpit.look()
    assert night.starts == ["dusk-i001"], "a job that trains is left alone"
    night.is_preempted()
    await relaunches(cockpit, 1)
    night.goes_on()

    night.rig.stop()
    for _ in range(2):
        report = await cockpit.look()
        assert report.facets.job.error is not None
        cockpit.clock.later(HOUR)
    night.rig.resume()
    night.rig.wait_answers()
    report = await cockpit.look()
    assert report.standing is not None, "the order goes on holding"
    assert night.starts == ["dusk-i001", "dusk-i002"], "who is silent is not gone"

    night.loses_its_node()
    await relaunches(cockpit, 2)
    night.is_preempted()
    await relaunches(cockpit, 3)
    night.is_preempted()
    await cockpit.wait(2)
    assert night.starts == [f"dusk-i00{number}" for number in (1, 2, 3, 4)], "the count is reached"
    assert [entry.outcome for entry in cockpit.did("relaunch")] == [Outcome.DONE] * 3
    assert len(cockpit.did("escalate")) == 1
    assert "all 3 relaunches within 12h are used up" in night.told
    assert night.living == []


async def test_what_a_relaunch_does_not_mend_is_a_persons(night: SlurmNight) -> None:
    """Memory, disk, numbers, and a job that somebody has cancelled: each is told once."""
    cockpit = Cockpit(night, "here")
    await cockpit.person("launch")
    for count, lines in enumerate((OOM, DISK, [], NAN), 1):
        if count > 1:
            await cockpit.person("relaunch", "C-14", "T")
        await cockpit.person("standing", until="10h")
        if lines:
            night.ends(lines)
        else:
            night.goes_on()
            night.rig.told("scancel", *night.living)
            night.has_ended()
        await cockpit.wait(2)
        assert cockpit.did("relaunch") == [] and len(cockpit.did("escalate")) == count, lines
        assert len(night.starts) == count and night.living == []
    assert night.told.count("The standing order of ada is over") == 4
