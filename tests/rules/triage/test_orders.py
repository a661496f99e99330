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
