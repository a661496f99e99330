"""A second failure escalates, whoever counts it (C-14); echoes of a launcher's kill are none."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN

MORE = [f"step {i} | loss 2.5" for i in range(31, 40)]
KILL = "[sup] trainer ended: rc=137 at step 12"
XID = "kernel: NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus."
LOST = "node 10.0.0.4 is dead"


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        ([*TRAIN, KILL], "relaunch"),
        (["[sup] attempt 2 (attempt 1: rc=137 at step 12)", *TRAIN, KILL], "escalate"),
        ([*TRAIN, KILL, "[sup] giving up: 2 deaths in the same window"], "escalate"),
        ([*TRAIN, KILL, "Back-off restarting failed container trainer"], "escalate"),
        ([*TRAIN, KILL, "BackoffLimitExceeded"], "escalate"),
        ([*TRAIN, KILL, "max_restarts=3 reached"], "escalate"),
        ([*TRAIN, KILL, "restart budget exhausted (3 of 3)"], "escalate"),
        ([*TRAIN, KILL, "it died again at the same step as last time"], "escalate"),
        ([*TRAIN, KILL, "t-0    0/1     Error    4 (2m ago)   3h"], "escalate"),
        ([*TRAIN, KILL, "t-0    0/1     Error    0   3h"], "relaunch"),
        ([*TRAIN, KILL, "uploading: 3 failures, heartbeat sent"], "relaunch"),
        ([*TRAIN, KILL, "Trial train_1 failed 3 times (max_failures=3)"], "escalate"),
        ([*TRAIN, KILL, "the replica exceeded the restart limit"], "escalate"),
        ([*TRAIN, KILL, "attempt 3 of 3 failed"], "escalate"),
        ([*TRAIN, KILL, "attempt 1 of 3 failed"], "relaunch"),
        ([*TRAIN, KILL, "the previous run ended likewise, with exit 137 too"], "escalate"),
        ([*TRAIN, KILL, "[policy] utilization below 10 % for 2 h"], "escalate"),
        (
            ["attempt 3 (attempt 1 link lost on n4; attempt 2 link lost on n4)", *TRAIN, KILL],
            "escalate",
        ),
        (
            ["attempt 3 (attempt 1 disk lost on n4; attempt 2 link lost on n7)", *TRAIN, KILL],
            "relaunch",
        ),
        # A history of several starts, before this one or after it; ranks are no starts.
        ([*TRAIN, KILL, "history: i001 137, i002 137"], "escalate"),
        (["history: i001 137, i002 137", *TRAIN, KILL], "escalate"),
        ([*TRAIN, KILL, "i001  137  step 12", "i002  137  step 40"], "escalate"),
        ([*TRAIN, KILL, "history: i001 1, i002 0", "history: i001 139, i002 139"], "escalate"),
        ([*TRAIN, KILL, "history: i001 137, i002 1"], "relaunch"),
        ([*TRAIN, KILL, "history: i001 0, i002 0, i003 137"], "relaunch"),
        ([*TRAIN, KILL, "rank 0: 137, rank 1: 137"], "relaunch"),
        (["run 1 of 3: failed, run 2 of 3: failed", *TRAIN, KILL], "escalate"),
        (["up to 3 restarts allowed, max 5 failures, 2 restarts left", *TRAIN, KILL], "relaunch"),
        # What is told of starts before this one, its training cannot have overcome.
        (["[sup] 2 deaths so far", *TRAIN, KILL], "escalate"),
        ([*TRAIN, "the loader died twice", *MORE, KILL], "relaunch"),
        ([*TRAIN, XID], "relaunch"),
        ([*TRAIN, XID, "third failure on this node, giving up"], "escalate"),
        ([*TRAIN, LOST], "relaunch"),
        ([*TRAIN, LOST, "restarting from 10", *TRAIN, LOST], "escalate"),
        ([*TRAIN, LOST, LOST], "relaunch"),
    ],
)
def test_what_came_before_comes_again(lines: list[str], action: str) -> None:
    assert triage(lines, "failed", 1).action == action


SRUN = "srun: error: c1: tasks 0-6: Killed"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["srun: error: c1: task 7: Exited with exit code 1", SRUN], "unknown"),
        ([SRUN, "srun: error: c1: task 7: Exited with exit code 1"], "killed"),
        (["trainer-2 exited with code 1", "trainer-0 exited with code 137"], "unknown"),
        (["trainer-2 exited with code 137", "trainer-0 exited with code 1"], "killed"),
        (["rank 5 (pid 4) exited with status 2", "rank 0 was killed by signal 9"], "unknown"),
    ],
)
def test_a_launcher_s_kill_is_no_cause(lines: list[str], name: str) -> None:
    assert triage([*TRAIN, *lines], "failed", 137).name == name


@pytest.mark.parametrize(
    "said",
    [
        "The replica workerpool0-0 exited with a non-zero status of 137. To find out more",
        "  exitcode  : -9 (pid: 4711)",
        '{"exitCode": 137, "reason": "Error"}',
        "container terminated: exit status was 137",
        "process 7 exited with 137",
    ],
)
def test_an_exit_status_is_read_however_it_is_put(said: str) -> None:
    found = triage([*TRAIN, said], "failed", 1)
    assert (found.name, found.action) == ("killed", "relaunch")
    other = triage([*TRAIN, said.replace("137", "1").replace("-9", "1")], "failed", 1)
    assert (other.name, other.action) == ("unknown", "escalate")


def test_a_replica_that_ended_by_itself_comes_before_the_others_kills() -> None:
    ended = "The replica workerpool0-0 exited with a non-zero status of 1."
    killed = "The replica workerpool1-0 exited with a non-zero status of 137."
    assert triage([*TRAIN, ended, killed], "failed", 137).name == "unknown"
    assert triage([*TRAIN, killed, ended], "failed", 137).name == "killed"


@pytest.mark.parametrize(
    ("said", "action"),
    [
        (["received SIGTERM, shutting down"], "escalate"),
        (["caught signal 15, saving", "saved checkpoint step 30"], "escalate"),
        (["received SIGTERM, ignored", *MORE], "relaunch"),
        (["Sending process 7 closing signal SIGTERM", "rank 1: received SIGTERM"], "relaunch"),
        (["SIGTERM handler installed"], "relaunch"),
    ],
)
def test_what_was_told_to_leave_and_then_killed_is_for_a_person(
    said: list[str], action: str
) -> None:
    found = triage([*TRAIN, *said], "failed", 137)
    assert (found.name, found.action) == ("killed", action)


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        ([KILL, "job has been requeued"], "wait"),
        (["job has been requeued", *MORE, KILL], "relaunch"),
        (["job has been requeued", "job 7 begins", KILL], "relaunch"),
        ([LOST, "slurmctld: Requeuing JobId=7"], "wait"),
        ([KILL, "Requeue=1 is set, the job was not requeued"], "relaunch"),
    ],
)
def test_what_comes_back_by_itself_is_not_launched_beside_it(lines: list[str], action: str) -> None:
    assert triage([*TRAIN, *lines], "failed", 1).action == action


@pytest.mark.parametrize("end", ["137:0", "0:9"])
@pytest.mark.parametrize("row", ["{}     train  FAILED   {}", "{}|train|FAILED|{}|"])
def test_a_row_of_a_scheduler_tells_exit_and_signal(row: str, end: str) -> None:
    once = triage([*TRAIN, row.format(812, end), row.format("812.batch", end)], "failed", None)
    assert (once.name, once.action) == ("killed", "relaunch")
    twice = triage([*TRAIN, row.format(811, end), row.format(812, end)], "failed", None)
    assert (twice.name, twice.action) == ("killed", "escalate")
    assert triage([*TRAIN, row.format(812, "1:0")], "failed", None).name == "unknown"


@pytest.mark.parametrize(
    "row", ["812  train  CANCELLED by 1000   0:9", "812  train  CANCELLED+  0:9"]
)
def test_a_row_of_a_job_that_was_cancelled_forbids_its_relaunch(row: str) -> None:
    assert triage([*TRAIN, row, "Killed"], "failed", 137).action == "escalate"
