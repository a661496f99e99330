"""Hold, release, requeue and a time limit on a real Slurm, each by its verb, once."""

from __future__ import annotations

import pytest

from tests.e2e.lab import RELAUNCH, Answer
from tests.e2e.slurm_lab import SlurmLab, SlurmMachine
from tests.platforms.slurm.rig import lacking

pytestmark = pytest.mark.skipif(
    lacking() is not None, reason=f"{lacking()} (CI installs it)" if lacking() else ""
)


@pytest.fixture
def lab(slurm_lab: SlurmLab) -> SlurmLab:
    return slurm_lab


def ordered(machine: SlurmMachine, *words: str) -> Answer:
    """Plan, then confirm with the words of the plan."""
    plan = machine.do(*words, "--json")
    assert plan.code == 0, str(plan)
    return machine.do(*words, "--confirm", plan.document["words"])


def listed(lab: SlurmLab, job: str, shown: str) -> str:
    return lab.rig.told("squeue", "-h", "-t", "all", "-j", job, "-o", shown)


def test_a_job_is_requeued_held_released_and_given_more_time(lab: SlurmLab) -> None:
    here = lab.machine("a")
    lab.prepare(here)
    launched = here.do(*RELAUNCH, "--json")
    job = launched.document["job_id"]
    lab.rig.wait_for(job, "RUNNING")
    for verb, why in (("hold", "only a job that waits"), ("release", "not held")):
        refused = here.do(verb)
        assert refused.code == 4 and why in refused.out, str(refused)
    done = ordered(here, "requeue", "--reason", "a node that is slow")
    assert done.code == 0 and f"job {job} is requeued" in done.out, str(done)
    assert listed(lab, job, "%T") in ("PENDING", "RUNNING", "CONFIGURING")
    lab.rig.told("scontrol", "update", f"JobId={job}", "StartTime=now+1hour")
    lab.rig.wait_for(job, "PENDING")
    assert here.do("requeue").code == 4, "it waits"
    held = ordered(here, "hold")
    assert held.code == 0 and listed(lab, job, "%T %r") == "PENDING JobHeldUser", str(held)
    again = here.do("hold")
    assert again.code == 4 and "held already" in again.out
    (run,) = here.do("check", "--json").document["runs"]
    assert run["facets"]["job"]["value"]["id"] == job, "what a person holds stays the run's job"
    (waits,) = [each for each in run["alerts"] if each["id"] == "C-04"]
    assert waits["title"] == "Job is held in the queue"
    assert "cockpit release tiny lets it start" in waits["next_action"]
    refused = here.do("extend", "--limit", "2h")
    assert refused.code == 4 and "no time limit of it is known" in refused.out, "it has none"
    lab.rig.told("scontrol", "update", f"JobId={job}", "TimeLimit=60")
    for limit in ("30m", "1h"):
        refused = here.do("extend", "--limit", limit)
        assert refused.code == 4 and "would not lengthen it" in refused.out, str(refused)
    longer = ordered(here, "extend", "--limit", "2h")
    assert longer.code == 0 and listed(lab, job, "%l") == "2:00:00", str(longer)
    released = ordered(here, "release")
    assert released.code == 0 and "JobHeldUser" not in listed(lab, job, "%r"), str(released)
    assert [each["outcome"] for each in here.actions[-4:]] == ["done"] * 4
    book = lab.logbook()
    for words in ("requeue", "a node that is slow", "is held", "time limit of 2h", "is released"):
        assert words in book, words
    lab.rig.told("scontrol", "update", f"JobId={job}", "StartTime=now")
    assert len(lab.settled()) == 1, lab.jobs()


def test_what_would_start_beside_another_job_is_not_let_go(lab: SlurmLab) -> None:
    here = lab.machine("a")
    lab.prepare(here)
    job = here.do(*RELAUNCH, "--json").document["job_id"]
    lab.rig.wait_for(job, "RUNNING")
    second = lab.rig.sbatch("--comment=tiny-i009")
    lab.rig.wait_for(second, "RUNNING")
    refused = here.do("requeue", "--json").document
    assert [check["level"] for check in refused["checks"] if check["id"] == "C-25"] == ["block"]
    lab.rig.told("scontrol", "requeue", job)
    lab.rig.told("scontrol", "update", f"JobId={job}", "StartTime=now+1hour")
    lab.rig.told("scontrol", "uhold", job)
    lab.rig.wait_for(job, "JobHeldUser")
    refused = here.do("release", "--json").document
    assert refused["blocked"], refused["checks"]
    assert listed(lab, job, "%r") == "JobHeldUser"


def test_what_a_launch_left_held_is_not_released_by_hand(lab: SlurmLab) -> None:
    here = lab.machine("a")
    lab.prepare(here)
    left = lab.rig.sbatch("-H", "--comment=tiny-i009")
    answer = here.do("release")
    assert answer.code == 4 and "no job of this run is alive" in answer.out, str(answer)
    assert listed(lab, left, "%r") == "JobHeldUser"
