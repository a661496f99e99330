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
