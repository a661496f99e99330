"""Families of errors: a runtime's codes, a client's exceptions, a daemon's words, not messages."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN

DEVICE_CODES = [
    ("level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)", "hardware_fault"),
    ("Native API returns: 39 (ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", "oom_device"),
    ("Native API returns: 38 (ZE_RESULT_ERROR_UNINITIALIZED)", "bad_node"),
    ("CUDA driver call failed: CUDA_ERROR_ECC_UNCORRECTABLE", "hardware_fault"),
    ("cuda call failed: cudaErrorDevicesUnavailable", "bad_node"),
    ("hipErrorNoDevice", "bad_node"),
    ("Failed to allocate aligned (0 bytes) buffer on device; NRT_RESOURCE", "oom_device"),
    ('nrt_load_collectives status=4 message="Allocation Failure"', "oom_device"),
    ("NRT_EXEC_HW_ERR_HBM_UE on nd2", "hardware_fault"),
    ("NPU out of memory. Tried to allocate 2.44 GiB", "oom_device"),
    ("[Error]: HBM multi-bit ECC error. The device must be isolated.", "hardware_fault"),
    ("RuntimeError: npu_sys_ctrl.cpp:213 aclrtSetDevice, error code is 507033", "bad_node"),
    ("RuntimeError: No XPU devices are available.", "bad_node"),
    ("synStatus=20 [Device already acquired] Device acquire failed.", "bad_node"),
    ("Getting socket times out. Reason: Remote Rank did not send the data", "distributed_hang"),
    ("Detected silent data corruption on core 3", "hardware_fault"),
]
CLOUD = [
    ("ClientError: An error occurred (SlowDown) when calling PutObject", "relaunch"),
    ("aiohttp.client_exceptions.ServerTimeoutError: reading from socket", "relaunch"),
    ("azure.core.exceptions.ServiceResponseError: ('aborted',)", "relaunch"),
    ("grpc._channel._InactiveRpcError: <RPC terminated with: StatusCode.UNAVAILABLE", "relaunch"),
    ("OSError: [Errno 113] to the store", "relaunch"),
    ("OSError: [Errno 107] Transport endpoint is not connected: '/mnt/fuse'", "escalate"),
    ("OSError: [Errno 108] Cannot send after transport endpoint shutdown", "escalate"),
]
REFUSALS = [
    "google.api_core.exceptions.Forbidden: 403 PATCH: no access",
    "azure.core.exceptions.ResourceNotFoundError: The specified blob does not exist.",
    "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
]
PLATFORMS = [
    ("Runner interrupted due to worker preemption.", "preempted", "relaunch"),
    ('{"EventType":"Preempt","EventStatus":"Started"}', "preempted", "relaunch"),
    ("task attempt 3 state=TASK_STATE_PREEMPTED", "preempted", "relaunch"),
    ("pod 8fk2 was outbid", "preempted", "relaunch"),
    ("Job exceeded the maximum duration 'PT24H'", "walltime", "relaunch"),
    ("execution host gpu-12 became unavailable", "node_death", "relaunch"),
    ("pod deleted: node gke-a3-3 no longer exists", "node_death", "relaunch"),
    ("The replica workerpool0-0 ran out-of-memory and exited", "oom_host", "escalate"),
    ("batch job 81 launch failed: prolog failure", "bad_node", "escalate"),
    ("workers are considered hung, sending SIGKILL", "distributed_hang", "escalate"),
    ("pod train-0 deleted by user ada@corp (kubectl delete)", "user_stopped", "none"),
]
FALLEN_SILENT = ["the controller has deleted the pod", "shutting down as ada@corp asked"]


@pytest.mark.parametrize(("line", "name"), DEVICE_CODES)
def test_a_code_of_a_device_runtime_means_the_same_in_every_message(line: str, name: str) -> None:
    assert triage([*TRAIN, line], "failed", 1).name == name


@pytest.mark.parametrize(("line", "action"), CLOUD)
def test_a_client_that_got_no_answer_met_the_network(line: str, action: str) -> None:
    found = triage([*TRAIN, line], "failed", 1)
    assert (found.name, found.action) == ("network_transient", action)


@pytest.mark.parametrize("line", REFUSALS)
def test_a_client_that_was_answered_did_not(line: str) -> None:
    found = triage([*TRAIN, line], "failed", 1)
    assert found.name != "network_transient" and found.action == "escalate"


@pytest.mark.parametrize(("line", "name", "action"), PLATFORMS)
def test_a_platform_says_it_in_its_own_words(line: str, name: str, action: str) -> None:
    found = triage([*TRAIN, line], "failed", None)
    assert (found.name, found.action) == (name, action)


@pytest.mark.parametrize("line", FALLEN_SILENT)
def test_a_log_that_ends_with_words_of_an_order_did_not_just_stop(line: str) -> None:
    assert triage(TRAIN, "failed", None).action == "relaunch"
    found = triage([*TRAIN, line], "failed", None)
    assert (found.name, found.action) == ("unknown", "escalate")


def test_a_commandline_error_of_a_script_is_one_whatever_it_says() -> None:
    line = "train.py: error: ambiguous option: --lr could match --lr-decay, --lr-warmup"
    assert triage(["usage: train.py [-h]", line], "failed", 2).name == "small_code_bug"
