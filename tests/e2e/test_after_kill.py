"""What is told of a run whose relaunch was killed: the living job, and that a launch is unknown.

``check`` only looks; a ``watch`` looks the launch up and finishes its records by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import RELAUNCH, Lab, Machine, ended
from tests.e2e.slurm_lab import SlurmLab, check_slurm
from tests.platforms.slurm.rig import lacking

PROGRAM = "tests.e2e.points"
needs_slurm = pytest.mark.skipif(lacking() is not None, reason=f"needs a Slurm: {lacking()}")


def killed(machine: Machine, point: str, patch: pytest.MonkeyPatch) -> None:
    """Relaunch, and die at a point."""
    patch.setenv("POINT", point)
    patch.setenv("FATE", "kill")
    own, machine.program = machine.program, PROGRAM
    answer = ended(machine.begin(*RELAUNCH), 120)
    machine.program = own
    patch.delenv("POINT")
    assert answer.code == -9, str(answer)


def seen(machine: Machine) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what ``check`` tells of the job, and of the launch that is not settled."""
    (run,) = machine.do("check", "--json").document["runs"]
    lost = [alert for alert in run["alerts"] if ":launch:" in alert["key"]]
    return run["facets"]["job"]["value"], (lost or [None])[0]


@needs_slurm
def test_a_killed_relaunch_on_slurm(slurm_lab: SlurmLab, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = slurm_lab.machine("a")
    slurm_lab.prepare(machine)
    killed(machine, "submit:did", monkeypatch)
    (alive,) = slurm_lab.settled()
    assert alive
    job, lost = seen(machine)
    assert (job["phase"], job["launch_id"]) == ("running", "tiny-i001")
    assert lost is not None and lost["severity"] == "info", "its job is seen"
    watched = machine.do("watch", "--once")
    assert "tiny-i001" in slurm_lab.logbook(), str(watched)
    job, lost = seen(machine)
    assert job["phase"] == "running" and lost is None
    (entry,) = [one for one in machine.actions if one["action"] == "relaunch"]
    assert (entry["outcome"], entry["job_id"]) == ("done", job["id"])

    slurm_lab.die()
    killed(machine, "submit:accepted", monkeypatch)
    (held,) = slurm_lab.held()
    job, lost = seen(machine)
    assert (job["phase"], job["launch_id"]) == ("failed", "tiny-i001")
    assert lost is not None and lost["severity"] == "alert"
    assert any(held in each["text"] for each in lost["evidence"]), lost
    assert slurm_lab.held() == [held], "check only looks"
    machine.do("watch", "--once")
    assert not slurm_lab.held() and not slurm_lab.settled()
    assert seen(machine)[1] is None
    assert machine.actions[-1]["outcome"] == "failed"
    check_slurm(slurm_lab, machine)


def test_a_killed_relaunch_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    try:
        machine = lab.machine("a")
        lab.prepare(machine)
        killed(machine, "submit:did", monkeypatch)
        lab.settled()
        job, lost = seen(machine)
        assert (job["phase"], job["launch_id"]) == ("running", "tiny-i001")
        assert lost is not None and lost["severity"] == "info"
        machine.do("watch", "--once")
        assert seen(machine)[1] is None and "tiny-i001" in lab.logbook()
        assert machine.actions[-1]["outcome"] == "done"
    finally:
        lab.end()
