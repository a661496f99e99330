"""Who ended a job: a person is nobody's timeout, server or handler of a signal."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN


@pytest.mark.parametrize(
    "said",
    [
        "grpc: RPC canceled by server",
        "future cancelled by executor shutdown",
        "context canceled by parent",
        "run cancelled by autoscaler",
        "request 7 was cancelled by mistake of a client",
        "dataloader: workers ignore SIGINT",
        "worker 3: ignoring SIGINT",
        "SIGINT trapped, saving then",
        "signal.signal(signal.SIGINT, handler)",
        "job 77 was cancelled because its dependency failed",
        "sweep agent: trial 4 stopped by user-defined early stopping",
        "terminated by user code: sys.exit(1)",
        "no stop file found",
        "stop flag not found",
        "stop_flag=False seen",
        "stop file exists: no",
        "checking whether stop file exists",
        "exiting process on request overflow",
        "exited with code 1 on request failure",
        "saving user-initiated snapshot",
        "job 77 was stopped by the maintenance controller",
        "pod cancelled by eviction manager",
        "job cancelled by memory limit",
        "ERROR: cancelled by SIGTERM",
        "task: cancelled by all-reduce abort",
        "KeyboardInterrupt is handled by saving",
        "received SIGINT in dataloader worker, ignored",
        "sigint=default",
        "eval job 12 was cancelled",
        "docker stop timeout 30",
    ],
)
def test_what_no_person_has_stopped_is_not_left_alone(said: str) -> None:
    found = triage([*TRAIN, said], "failed", 1)
    assert (found.name, found.action) == ("unknown", "escalate")


@pytest.mark.parametrize(
    "said",
    [
        "job 812 cancelled by mk",
        "812|CANCELLED by 20114|0:15",
        "State: CANCELLED by 20114",
        "CANCELLED by mk",
        "run was cancelled by user",
        "received SIGINT, stopping",
        "job 77 was cancelled",
        "stop file found: /runs/q7/STOP",
        "exited with code 0 on request",
        "stopped on request at step 9003",
    ],
)
def test_what_a_person_has_stopped_is_left_alone(said: str) -> None:
    found = triage([*TRAIN, said], "failed", 1)
    assert (found.name, found.action) == ("user_stopped", "none")


@pytest.mark.parametrize(
    "said",
    [
        "requests.exceptions.ProxyError: Max retries exceeded: Tunnel connection failed: 403",
        "botocore.exceptions.ClientError: (ExpiredToken) connection error: the token has expired",
        "google.auth.exceptions.TransportError: invalid_grant: connection error",
    ],
)
def test_an_identity_that_is_refused_is_refused_again(said: str) -> None:
    assert triage([*TRAIN, said], "failed", 1).action == "escalate"
    assert (
        triage([*TRAIN, "requests.exceptions.ProxyError: Max retries exceeded"], "failed", 1).action
        == "relaunch"
    )


def test_who_was_told_to_leave_before_it_told_its_workers_is_not_started_again() -> None:
    received = "Received Signals.SIGTERM death signal, shutting down workers"
    sent = "Sending process 31 closing signal SIGTERM"
    ordered = triage([*TRAIN, received, sent, "Killed"], "failed", 137)
    assert (ordered.name, ordered.action) == ("killed", "escalate")
    launcher = triage([*TRAIN, "Killed", sent, received], "failed", 137)
    assert (launcher.name, launcher.action) == ("killed", "relaunch")


@pytest.mark.parametrize(
    "said",
    [
        "supervisor: run paused by owner, killing workers",
        "supervisor: stop button pressed, killing process group",
        "received stop command from dashboard",
        "controller: desired replicas 0, scaling down",
        "hyperband: stopping bad trial",
        "run killed: superseded by job 812",
        "lock taken by other host, killing self",
        "Job 812 was killed by root",
        "quota exceeded: killing lowest priority job",
        "kill -s KILL 8123",
        "systemd[1]: train.service: State 'stop-sigterm' timed out. Killing.",
        "tmux kill-session -t train",
        "rolling update: terminating old replica",
        "SIGHUP received",
    ],
)
def test_a_kill_that_somebody_may_have_decided_is_not_undone(said: str) -> None:
    found = triage([*TRAIN, said, "Killed"], "failed", 137)
    assert (found.name, found.action) == ("killed", "escalate")


@pytest.mark.parametrize("said", ["controller: job suspended", "trial 7 pruned", "scaled to 0"])
def test_a_log_that_stops_after_an_order_did_not_just_stop(said: str) -> None:
    assert triage(TRAIN, "failed", None).action == "relaunch"
    assert triage([*TRAIN, said], "failed", None).action == "escalate"


@pytest.mark.parametrize(
    "said",
    [
        "Killing subprocess 4411",
        "Sending process 31 closing signal SIGTERM",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "Removed old checkpoint /runs/run/ckpt-100",
        "pruned 3 old checkpoints",
        "process terminated by signal: Killed",
        "rank 3 killed by kernel",
        "Job id 812 (killed)",
        "rollout done, policy loss 0.31, policy/kl 0.02",
    ],
)
def test_what_a_launcher_tells_of_a_kill_is_no_order(said: str) -> None:
    found = triage([*TRAIN, said, "Killed"], "failed", 137)
    assert (found.name, found.action) == ("killed", "relaunch")


ENDS = {
    "network_transient": "requests.exceptions.ConnectionError: Connection reset by peer",
    "node_death": "ray: node n1 is dead",
    "hardware_fault": "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
    "preempted": "spot instance interrupted: preempted",
    "walltime": "job reached its time limit",
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize(
    "said",
    [
        "vm deleted by mk",
        "run paused by owner",
        "received stop command from dashboard",
        "superseded by job 813",
        "lock taken by other host",
    ],
)
def test_an_order_beside_another_end_leaves_its_relaunch_to_a_person(name: str, said: str) -> None:
    for lines in ([said, ENDS[name]], [ENDS[name], said]):
        found = triage([*TRAIN, *lines], "failed", 1)
        assert (found.name, found.action) == (name, "escalate")


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize(
    "said",
    [
        "pod deleted by taint manager",
        "instance terminated by the platform",
        "Job suspended",
        "process terminated by signal 15",
    ],
)
def test_what_a_cloud_takes_away_is_no_person_s_order(name: str, said: str) -> None:
    assert triage([*TRAIN, ENDS[name], said], "failed", 1).action == "relaunch"
