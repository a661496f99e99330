"""A job that was submitted by hand becomes the current one: adopted, recorded, read back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import Lab, Machine, until
from tests.e2e.slurm_lab import SlurmLab
from tests.platforms.slurm.rig import lacking

needs_slurm = pytest.mark.skipif(lacking() is not None, reason=f"needs a Slurm: {lacking()}")


def job_of(machine: Machine) -> tuple[dict[str, Any], str]:
    (run,) = machine.do("check", "--json").document["runs"]
    facet = run["facets"]["job"]
    return facet["value"], facet["source"]


def checks(machine: Machine, job: str) -> dict[str, tuple[str, str]]:
    plan = machine.do("adopt", job, "--json").document
    return {check["id"]: (check["level"], check["text"]) for check in plan["checks"]}


@needs_slurm
def test_a_job_submitted_by_hand_is_adopted(slurm_lab: SlurmLab) -> None:
    here, there = slurm_lab.machine("a"), slurm_lab.machine("b")
    slurm_lab.prepare(here)
    there.write()
    other = slurm_lab.rig.sbatch("--comment=other-i003")
    gone = slurm_lab.rig.sbatch(wrap="true")
    slurm_lab.rig.wait_for(gone, "COMPLETED")
    words = slurm_lab.command(here.root)
    mine = slurm_lab.rig.told(words[0], "--parsable", "-J", "by-hand", *words[1:])
    slurm_lab.rig.wait_for(mine, "RUNNING")
    assert job_of(here)[0]["id"] == slurm_lab.first
    refused = {"other-i003": other, "only a job that lives": gone, "lists job 999999": "999999"}
    for why, job in refused.items():
        answer = here.do("adopt", job, "--confirm", "adopt tiny")
        assert answer.code == 4 and why in answer.out, str(answer)
    answer = here.do("adopt", mine, "--confirm", "adopt tiny")
    assert answer.code == 0, str(answer)
    for machine in (here, there):
        subprocess.run(["git", "-C", str(machine.clone), "pull", "-q"], check=True)
        value, source = job_of(machine)
        assert (value["id"], value["phase"]) == (mine, "running"), source
        assert "adoption" in source and f"({slurm_lab.first} in the run file)" in source
    book = slurm_lab.logbook()
    assert f"adopted job {mine}" in book and "none: it was submitted by hand" in book
    entry = here.actions[-1]
    assert (entry["action"], entry["outcome"], entry["job_id"]) == ("adopt", "done", mine)
    second = slurm_lab.rig.sbatch(f"--output={here.root}/by-hand.log")
    slurm_lab.rig.wait_for(second, "RUNNING")
    assert checks(here, second)["C-25"][0] == "warn", "two writers"


def test_a_process_is_adopted_with_its_own_start(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    machine = lab.machine("a")
    lab.prepare(machine)
    words = [sys.executable, "-S", str(lab.trainer), str(machine.root), str(lab.lives), "1000000"]
    with (machine.root / "run.log").open("ab") as log:
        hand = subprocess.Popen(words, cwd=lab.code, stdout=log, stdin=subprocess.DEVNULL)
    try:
        until(lambda: lab.trainers, "it never began")
        assert job_of(machine)[0]["phase"] != "running"
        assert checks(machine, "4194303")["job"][0] == "block"
        answer = machine.do("adopt", str(hand.pid), "--confirm", "adopt tiny")
        assert answer.code == 0, str(answer)
        value, _ = job_of(machine)
        assert (value["id"], value["phase"]) == (f"pid:{hand.pid}", "running")
        assert "ticks=" in (machine.root / "run.pid").read_text()
    finally:
        hand.kill()
        hand.wait()
        lab.end()
