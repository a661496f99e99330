"""What launchers, kernels, clouds and clients print around an end, and what it then means."""

from __future__ import annotations

import pytest

from cockpit.rules.triage.exceptions import exceptions, ignored
from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN, raised

ELASTIC = [
    *raised("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
    "Root Cause (first observed failure):",
    "  exitcode  : {code} (pid: 402)",
    "  traceback : {why}",
]


def elastic(code: int, why: str) -> list[str]:
    """Return what torchelastic tells of a task that has gone."""
    return [line.format(code=code, why=why) for line in ELASTIC]


def test_a_launcher_that_saw_a_kill_tells_of_a_kill() -> None:
    killed = elastic(-9, "Signal 9 (SIGKILL) received by PID 402")
    found = triage([*TRAIN, *killed], "failed", 1)
    assert (found.name, found.action) == ("killed", "relaunch")


def test_a_kill_after_another_task_had_ended_by_itself_is_no_cause() -> None:
    lines = [*elastic(1, "see the docs"), "  exitcode  : -9 (pid: 403)", "SIGKILL to the others"]
    found = triage([*TRAIN, *lines], "failed", 1)
    assert (found.name, found.action) == ("unknown", "escalate")


def test_a_kill_that_came_again_with_training_between_escalates() -> None:
    gone = "worker exited with code -9, starting it again"
    twice = [*TRAIN, gone, *TRAIN, gone]
    assert triage([*TRAIN, gone], "failed", 137).action == "relaunch"
    assert triage(twice, "failed", 137).action == "escalate"


def test_a_quoted_traceback_is_read_to_its_last_line_though_that_is_inset() -> None:
    quoted = [
        "  traceback : Traceback (most recent call last):",
        '    File "/home/ada/wrap.py", line 8, in main',
        "      model = wrap(model)",
        "  ValueError: the dtype is not uniform",
    ]
    (found,) = exceptions(quoted)
    assert (found.name, found.frames[-1].line) == ("ValueError", 8)


def test_an_interrupt_that_python_ignored_stops_nobody() -> None:
    shutdown = [
        "Exception ignored in: <function release at 0x7f>",
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3.11/logging/__init__.py", line 228, in release',
        "KeyboardInterrupt:",
    ]
    assert ignored(shutdown) == {3}
    assert triage([*TRAIN, *shutdown], "succeeded", None).name == "success"
    assert triage([*TRAIN, *shutdown[1:]], "succeeded", None).name == "user_stopped"


def test_what_one_rank_could_not_read_is_the_cause_of_the_others_wait() -> None:
    unread = "[rank7]: pyarrow.lib.ArrowInvalid: no magic bytes in the footer"
    waited = "[rank0]: Watchdog caught collective operation timeout: OpType=BROADCAST"
    assert triage([*TRAIN, unread, waited], "failed", 1).name == "data_error"
    assert triage([*TRAIN, unread, *TRAIN, waited], "failed", 1).name == "distributed_hang"


@pytest.mark.parametrize(
    ("lines", "name", "action"),
    [
        (["JOB_STATE_WORKER_FAILED"], "node_death", "relaunch"),
        (["w-7 missed 9 heartbeats, declaring worker dead"], "node_death", "relaunch"),
        (["the VM was stopped by a host error"], "node_death", "relaunch"),
        (["(raylet) a worker died", "Out of memory: Killed process 9"], "oom_host", "escalate"),
        (["the raylet on 10.0.0.1 died unexpectedly"], "node_death", "relaunch"),
        (
            ["RuntimeError: CUDA error: illegal memory access", "SXid 20034 on link 41"],
            "hardware_fault",
            "relaunch",
        ),
        (["worker failures: WORKER_FAILED=0"], "unknown", "escalate"),
        (["Detected SLICE_FAILURE_CHIP_DRIVER_ERROR in session 7"], "hardware_fault", "relaunch"),
        (
            ["OSError: [Errno 5] Input/output error: 'x'", "blk_update_request: I/O error"],
            "hardware_fault",
            "relaunch",
        ),
        (["oomd[7]: Killed /user.slice due to memory pressure for /"], "oom_host", "escalate"),
        (["earlyoom[9]: sending SIGTERM to process 3 uid 0"], "oom_host", "escalate"),
        (["RuntimeError: MODULE:PT_DEVMEM Allocation failed"], "oom_device", "escalate"),
        (["RuntimeError: the driver could not be initialized"], "bad_node", "escalate"),
        (["RuntimeError: Failed to initialize device mesh"], "complex_code_bug", "escalate"),
        (["Megascale hang detected: host 3 lags"], "distributed_hang", "escalate"),
        (["RuntimeError: grad_scale is too small, exiting"], "numeric_instability", "escalate"),
        (["MaxRuntimeExceeded: stopped"], "walltime", "relaunch"),
        (["*** JOB 3 ON n1 CANCELLED AT 10:00:00 DUE TO JOB REQUEUE *"], "preempted", "wait"),
        (["tarfile.ReadError: invalid header"], "data_error", "escalate"),
        (["EOFError: ended before the end-of-stream marker was reached"], "data_error", "escalate"),
        (["botocore.errorfactory.NoSuchKey: no key tok/shard-007.bin"], "data_error", "escalate"),
        (["triton.runtime.errors.OutOfResources: shared memory"], "complex_code_bug", "escalate"),
        (["failed after 32 attempts: HTTP response code: 503"], "network_transient", "relaunch"),
    ],
)  # fmt: skip
def test_a_mechanism_s_own_words(lines: list[str], name: str, action: str) -> None:
    found = triage([*TRAIN, *lines], "failed", None)
    assert (found.name, found.action) == (name, action)


@pytest.mark.parametrize(
    "line",
    [
        "Error: Invalid value for '--config': Path 'x.toml' does not exist.",
        "error: unexpected argument '--lrr' found",
        "flag provided but not defined: -lrr",
        "In 'config': Could not find 'model/llama'",
        "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.path",
    ],
)
def test_a_command_line_that_was_not_understood(line: str) -> None:
    found = triage([line], "failed", 2)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")


def test_a_cloud_that_gives_no_machines_has_run_nothing() -> None:
    refused = "ClientError: (ResourceLimitExceeded) the account-level service limit is 0 Instances"
    assert triage([refused], "failed", 1).name == "capacity_wait"
    assert triage([*TRAIN, refused], "failed", 1).name != "capacity_wait"


def test_a_node_whose_devices_are_unhealthy_is_no_queue() -> None:
    line = "UnexpectedAdmissionError: Allocate failed due to no healthy devices present"
    assert triage([line], "pending", None).name == "bad_node"
