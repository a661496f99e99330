"""Lines that stand where they are no cause: dumps, events above a log, quoted words, lists."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN, raised

XID = "kernel: NVRM: Xid (PCI:0000:5d:00): 95, pid=77, name=python3, Uncontained"
FAULT = "kernel: NVRM: Xid (PCI:0000:5d:00): 31, pid=77, name=python3"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."
DISK = "OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([XID, f"{OOM} (while collecting the flight recorder dump)"], "hardware_fault"),
        ([XID, OOM], "hardware_fault"),
        ([FAULT, OOM], "oom_device"),
        ([OOM, XID], "oom_device"),
        ([f"emergency checkpoint: {OOM}"], "oom_device"),
        ([OOM, f"{DISK}: stack trace"], "oom_device"),
        ([XID, f"{DISK}: core dump"], "hardware_fault"),
        ([XID, f"{DISK}: ckpt-12.pt"], "disk_full"),
    ],
)
def test_what_is_met_while_leaving_is_no_cause(lines: list[str], name: str) -> None:
    assert triage([*TRAIN, *lines], "failed", 1).name == name


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ("30s  Warning  OOMKilling  node/a  Memory cgroup out of memory: Killed", "oom_host"),
        ("5h   Warning  OOMKilling  node/a  Memory cgroup out of memory: Killed", "killed"),
        ("[812.1] Out of memory: Killed process 4411 (python)", "oom_host"),
        ("[812.1] Out of memory: Killed process 99 (java)", "killed"),
    ],
)
def test_events_above_a_log_tell_of_its_end(event: str, name: str) -> None:
    lines = [event, *TRAIN, *TRAIN, "worker pid 4411 exited with code -9"]
    assert triage(lines, "failed", 137).name == name


@pytest.mark.parametrize(
    "said",
    [
        'sample 3 generated text: "RuntimeError: CUDA out of memory" (prompt 81)',
        "generated text: the node died and the job was preempted",
        "completion: 'Detected 1 oom_kill event'",
        'answer: "the GPU has fallen off the bus"',
        'first example: {"text": "RuntimeError: CUDA out of memory"}',
        "H-3: the disk is full and the job was cancelled by user",
        "| oom | 0.4 | preempted | 0.2 |",
        'prediction: "job cancelled due to time limit"',
    ],
)
def test_what_a_model_has_written_is_no_event(said: str) -> None:
    found = triage([*TRAIN, said, "Killed"], "failed", 137)
    assert (found.name, found.action) == ("killed", "relaunch")


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["RuntimeError in sample 3: CUDA out of memory"], "oom_device"),
        (["Output: torch.OutOfMemoryError: CUDA out of memory"], "oom_device"),
        (["Health check:", "   Xid 79 on gpu 3: fallen off the bus"], "hardware_fault"),
        (["Reason:", "   no space left on device"], "disk_full"),
    ],
)
def test_what_a_program_says_is_one(lines: list[str], name: str) -> None:
    assert triage([*TRAIN, *lines], "failed", 1).name == name


@pytest.mark.parametrize(
    "head", ["stopped abnormally. Common reasons:", "Things to check:", "Troubleshooting:"]
)
@pytest.mark.parametrize("item", ["  - ", "    "])
def test_a_list_of_causes_names_none(head: str, item: str) -> None:
    lines = [head, f"{item}the GPU ran out of memory", f"{item}the node was preempted"]
    assert triage([*TRAIN, *lines, "exit status: 1"], "failed", 1).name == "unknown"


@pytest.mark.parametrize(
    ("function", "code", "action"),
    [
        ("train_loop", "    clip(args.clip)", "escalate"),
        ("train_one_epoch", "    clip(args.clip)", "escalate"),
        ("step", "    clip(args.clip)", "escalate"),
        ("build_optimizer", "    clip(args.clip)", "escalate"),
        ("main", "    loss = model(args.clip)", "escalate"),
        ("main", "    clip_grad_norm_(net, args.clip)", "escalate"),
        ("train_loop", "    print(args.clip)", "fix_then_relaunch"),
        ("main", "    clip(args.clip)", "fix_then_relaunch"),
    ],
)
def test_a_mistake_in_the_loop_is_for_a_person(function: str, code: str, action: str) -> None:
    head, _, *_, last = raised("AttributeError: 'Namespace' object has no attribute 'clip'")
    frame = f'  File "/home/ada/toy/run.py", line 12, in {function}'
    found = triage([*TRAIN, head, frame, code, last], "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", action)


@pytest.mark.parametrize(
    ("below", "name"),
    [
        ("saving emergency checkpoint at step 30", "small_code_bug"),
        ("  while loading the checkpoint", "complex_code_bug"),
    ],
)
def test_what_is_done_after_a_mistake_is_no_part_of_it(below: str, name: str) -> None:
    assert triage([*TRAIN, *raised("KeyError: 'lr'"), below], "failed", 1).name == name


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("$ grep oom_kill /proc/vmstat", "killed"),
        ("ada@gpu-7:~# dmesg | grep -i 'out of memory: kill'", "killed"),
        ("grep: Memory cgroup out of memory: Killed process 7", "oom_host"),
        ("# tail: Memory cgroup out of memory: Killed process 7", "oom_host"),
    ],
)
def test_a_question_to_a_shell_tells_nothing(asked: str, name: str) -> None:
    assert triage([*TRAIN, asked, "Killed"], "failed", 137).name == name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("JOB_STATE_WORKER_FAILED max_retries_failure=0", "node_death"),
        ("uncorrectable ECC errors=0", "unknown"),
        ("trigger=worker ping threshold exceeded", "node_death"),
        ("host gpu-09 has not been heard from for 180 s", "node_death"),
    ],
)
def test_a_node_is_lost_in_another_s_words(said: str, name: str) -> None:
    assert triage([*TRAIN, said], "failed", 1).name == name


def test_a_signal_after_the_last_step_stops_nothing() -> None:
    through = ["`max_steps=12` reached.", "sending process 44 closing signal SIGTERM"]
    assert triage([*TRAIN, *through], "succeeded", 0).name == "success"
    assert triage([*TRAIN, through[1]], "succeeded", 0).name == "user_stopped"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["OwnerDiedError: lost", "exceeds the memory usage threshold of 0.95"], "oom_host"),
        (["OwnerDiedError: lost", "the worker left"], "node_death"),
        (["step 20 | loss nan", "Watchdog caught collective timeout"], "numeric_instability"),
    ],
)
def test_who_died_of_something_is_lost_to_the_others(lines: list[str], name: str) -> None:
    assert triage([*TRAIN, *lines], "failed", 1).name == name


def test_an_epoch_with_both_losses_is_progress() -> None:
    epochs = [f"Epoch [{i:03d}/090]  train_loss=2.5  val_loss=2.6" for i in range(8)]
    cause = [*raised("OSError: [Errno 5] Input/output error")]
    cause[-2:-2] = ['  File "/x/site-packages/tensorboard/summary/writer.py", line 2, in _run']
    found = triage([*epochs[:4], *cause, *epochs[4:]], "running", None)
    assert found.action == "none"
    assert triage([*epochs, *cause], "running", None).action == "escalate"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["STOP file found (/runs/q7/STOP, owner=lena)"], ("user_stopped", "none")),
        (["no STOP file found"], ("user_stopped", "escalate")),
        (["RuntimeError: Failed to meet rendezvous 'ckpt': Deadline Exceeded"], "distributed_hang"),
        (["rank 112 did not send heartbeat for 1800.4 s"], "distributed_hang"),
        ([*raised("json.decoder.JSONDecodeError: line 4"), "  (conf/z3.json)"], "small_code_bug"),
        ([*raised("json.decoder.JSONDecodeError: line 4"), "  (data/z3.json)"], "data_error"),
    ],
)
def test_orders_and_waits_in_their_own_words(lines: list[str], said: str | tuple[str, str]) -> None:
    found = triage([*TRAIN, *lines], "failed", 143 if "STOP" in lines[0] else 1)
    assert (found.name if isinstance(said, str) else (found.name, found.action)) == said


def test_a_request_larger_than_any_node_is_never_met() -> None:
    asked = "pod spec: resources.limits.nvidia.com/gpu: {}   (largest node type: 8)"
    assert triage([asked.format(16), "Pending"], "pending", None).action == "escalate"
    assert triage([asked.format(8), "Pending"], "pending", None).action == "wait"
