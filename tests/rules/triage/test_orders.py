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
