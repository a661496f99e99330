"""What a line only sets is nothing that has happened."""

from __future__ import annotations

import pytest

from cockpit.rules.triage.signs import SIGNS
from tests.rules.asking import triage

HANG = next(sign for sign in SIGNS if sign.name == "distributed_hang").pattern
NO_LIBRARY = "libtpu.so: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    "line",
    [
        "Using barrier_sync_fn: <function sync at 0x7f> timeout: 1200 secs and primary_host=0",
        "init_process_group(backend='nccl', timeout=datetime.timedelta(seconds=1800))",
        "ProcessGroupNCCL initialization options: size: 8, global rank: 0, TIMEOUT(ms): 600000",
        "{'ddp_backend': 'nccl', 'ddp_timeout': 1800}",
        "gloo with a timeout of 1800 s",
    ],
)
def test_a_time_out_that_is_set_did_not_happen(line: str) -> None:
    assert HANG.search(line) is None
    assert triage([line], "failed", 137).name == "killed"


@pytest.mark.parametrize(
    "line",
    [
        "Barrier timed out. Barrier_id: PjRT_Client_Connect",
        "[rank1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, Timeout(ms)=600)",
        "barrier timeout (1200 s) exceeded",
        "TimeoutError: rank 3 never came to the barrier",
        "NCCL communicator: Timeout: rank 3",
    ],
)
def test_one_that_happened_did(line: str) -> None:
    assert HANG.search(line) is not None


@pytest.mark.parametrize(
    ("harmless", "line", "found"),
    [
        (
            "spot: no interruption notice received yet",
            "spot: interruption notice received",
            "preempted",
        ),
        ("worker 3 missed 0 heartbeats", "worker 3 missed 6 heartbeats", "node_death"),
        (
            "will mark worker as dead after a missed heartbeat",
            "marked worker 3 as dead",
            "node_death",
        ),
        (
            "earlyoom[811]: sending SIGTERM when mem avail <= 10.00% and swap free <= 10.00%",
            'earlyoom[811]: sending SIGTERM to process 4711 uid 1000 "python": badness 1000',
            "oom_host",
        ),
        (
            "GPU memory allocation failures=0 retries=0",
            "GPU memory allocation failed",
            "oom_device",
        ),
        ("TPU session error count: 0", "TPU session error count: 3", "hardware_fault"),
        (
            "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0",
            "blk_update_request: I/O error, dev sda, sector 0 op 0x0:(READ) flags 0x0",
            "hardware_fault",
        ),
        ("healthy devices: 7, unhealthy devices: 0", "unhealthy devices: 1", "bad_node"),
        ("could not open devices.json, using the default", "could not open device 3", "bad_node"),
        ("abort on hang after 1800 s", "Aborting on hang", "distributed_hang"),
        ("no hang was detected in 600 s", "hang detected in 600 s", "distributed_hang"),
        ("grad_scale minimum=1", "grad scale is at its minimum", "numeric_instability"),
    ],
)
def test_a_count_of_none_and_a_warning_beforehand_are_nothing_that_happened(
    harmless: str, line: str, found: str
) -> None:
    assert triage([harmless, "Killed"], "failed", 137).name == "killed"
    assert triage([line, "Killed"], "failed", 137).name == found


def test_a_waiting_job_whose_node_counts_no_unhealthy_device_only_waits() -> None:
    healthy = ["healthy devices: 8, unhealthy devices: 0", "waiting for quota"]
    assert triage(healthy, "pending", None).name == "capacity_wait"
    assert triage(["pod rejected: unhealthy devices"], "pending", None).name == "bad_node"


def test_a_machine_without_a_tpu_is_no_bad_node() -> None:
    line = f"Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: {NO_LIBRARY}"
    assert triage([line], "failed", 137).name == "killed"
    assert triage(["RuntimeError: Failed to open /dev/accel0"], "failed", 1).name == "bad_node"


def test_the_source_that_a_traceback_quotes_is_no_step() -> None:
    lines = [
        "step: 65, loss: 2.5, 0.1 s/it",
        "Traceback (most recent call last):",
        '  File "/runs/a/train.py", line 32, in shard',
        '    raise OSError(f"could not read shard {step:05d}")',
        "OSError: could not read shard 00070",
    ]
    assert triage(lines, "failed", 1).step == 65


def test_a_batch_of_an_epoch_is_no_step_of_the_run() -> None:
    bar = "Epoch 6:  93%|█████████ | 28/30 [00:02<00:00,  8.9it/s, train_loss=5.5]"
    assert triage([bar], "failed", 137).step is None
    assert triage([bar], "failed", 137).name == "killed"
