"""What long logs written blind have found: who watches whom, what ends nothing, what moves."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_attacked import ON, STEPS
from tests.rules.triage.test_classify import raised

BAR = [f"Progress on:train 12.{n}kit/50.0kit rate:0.1it/s postfix:loss=1.9{n}" for n in range(9)]
RL = [f"(Actor pid=7) update {n}/900 policy_loss=0.04{n} reward=0.4" for n in range(1, 9)]
PEER = [
    "[rank2]: torch.distributed.DistBackendError: NCCL error, remote process exited",
    "[rank2]: ncclRemoteError: A call failed, a remote process exiting prematurely.",
    "[rank2]: Last error:",
    "srun: error: n7: task 2: Exited with exit code 1",
]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("workers haven't sent a heartbeat for 900 s (hb_timeout 900), terminating ranks [0..7]",
         "distributed_hang"),
        ("Did not get subsequent heartbeat. Waited 900.00 seconds", "distributed_hang"),
        ("Heartbeat timed out for rank 3, terminating ranks", "distributed_hang"),
        ("worker w-12: heartbeat expired", "node_death"),
        ("heartbeat lost: host w-12 (ranks 8 to 15)", "node_death"),
        ("store->get('0') got error: wait timeout after 600000ms, keys: /0", "distributed_hang"),
        ("spot instance-action notice received", "preempted"),
        ("ClientError: (XMinioStorageFull) when calling PutObject: Storage is full", "disk_full"),
        ("exiting program after 1410.2 minutes", "walltime"),
    ],
)  # fmt: skip
def test_who_says_it_tells_what_it_means(line: str, name: str) -> None:
    assert triage([*STEPS, line], "failed", 1).name == name


@pytest.mark.parametrize(
    "line",
    [
        "spot termination notice period: 120 s",
        "spot notice listener ready",
        "No spot interruption notice received",
        "Spot instances get a two-minute notice",
        "hb_timeout 900",
        "heartbeat monitor: will kill ranks after 900 s",
        "APIError: step 12 took 504 ms",
    ],
)
def test_a_setting_ends_nothing(line: str) -> None:
    assert triage([*STEPS, line], "failed", 1).name == "unknown"


def test_a_status_code_behind_the_message_is_the_networks() -> None:
    ended = raised("gcsfs.retry.HttpError: We met an internal error. Please try again., 503")
    assert triage([*STEPS, *ended], "failed", 1).name == "network_transient"
    ended = raised("gcsfs.retry.HttpError: no such object, 404")
    assert triage([*STEPS, *ended], "failed", 1).name != "network_transient"


def test_what_was_raised_where_nobody_could_catch_it_ended_nothing() -> None:
    ignored = ["Exception ignored in: <function Pool.__del__>", *raised("ValueError: closed")]
    assert triage([*STEPS, *ignored], "failed", 1).name == "unknown"
    assert triage([*STEPS, *raised("ValueError: closed")], "failed", 1).name == "complex_code_bug"
    assert triage([*ignored, *raised("KeyError: 'a'")], "failed", 1).name == "small_code_bug"


def test_what_another_rank_raised_is_not_what_one_has_ignored() -> None:
    died = [f"[rank0]: {line}" for line in raised("KeyError: 'a'")]
    ignored = "[rank1]: Exception ignored in: <function Pool.__del__>"
    assert triage([*STEPS, ignored, *died], "failed", 1).name == "small_code_bug"
    cut = raised("KeyError: 'a'")[1:]
    assert triage([*STEPS, ignored, STEPS[-1], *cut], "failed", 1).name == "small_code_bug"


@pytest.mark.parametrize("line", ["z_loss: 0.0001", "  router_aux_loss: 0.01"])
def test_the_weight_of_a_loss_is_no_training(line: str) -> None:
    assert triage(["starting", line], "failed", None).name == "unknown"


def test_a_loss_of_any_part_shows_that_training_moves() -> None:
    trouble = raised("ValueError: closed")
    assert triage([*trouble, *RL], "running", None).action == "none"
    assert triage([*RL, *trouble], "running", None).action == "escalate"


def test_a_log_that_stops_at_a_bar_of_rounded_steps_was_killed() -> None:
    found = triage(BAR, "failed", None)
    assert (found.name, found.action) == ("killed", "relaunch")


def test_a_peer_that_has_gone_is_no_cause_whatever_its_launcher_says() -> None:
    assert triage([*STEPS, *PEER], "failed", 1).name == "distributed_hang"
    assert triage([*STEPS, *PEER, "ABORT: bad rotor"], "failed", 1).name == "unknown"


def test_a_probe_that_fails_is_no_trouble_of_the_network() -> None:
    probe = "Warning Unhealthy Readiness probe failed: dial tcp: connection refused"
    assert triage([*STEPS, probe, *ON], "running", None).name == "harmless_noise"


def test_what_can_never_start_is_told() -> None:
    asked = "1 (AssocGrpGRES) job can never start under this association"
    assert triage([asked], "pending", None).action == "escalate"
    assert triage(["1 (AssocGrpGRES)"], "pending", None).action == "wait"
    slow = "PENDING: worker never started, pulling its image"
    assert triage([slow], "pending", None).action == "wait"
