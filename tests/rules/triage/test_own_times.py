"""What lies above a log, before it in time or beside a word, and ended something else."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage

DEAD = "node n17 is dead, using n18"
XID = "Xid 79: GPU has fallen off the bus"


def steps(first: int, last: int) -> list[str]:
    return [f"step {i}/10000 loss 2.31 lr 1e-4" for i in range(first, last)]


def clocked(clock: str) -> list[str]:
    return [f"{clock}:{i:02} step {i}/9000 loss 2.31" for i in range(1, 20)]


@pytest.mark.parametrize(
    "line",
    [
        "step {} docs 9 loss nan",
        "step {} [wiki] loss nan",
        "Train batch {}: {{'loss': nan, 'x': 1}}",
        "step {} (loss nan, kl nan, reward nan)",
        "train step {} sample 20: loss nan",
        "on_policy: step {} loss nan",
    ],
)
def test_a_line_of_progress_quotes_nothing(line: str) -> None:
    lines = ["step 1 loss 2.1", *(line.format(i) for i in range(2, 9))]
    assert triage(lines, "failed", 137).name == "numeric_instability"


@pytest.mark.parametrize(
    "lines",
    [
        [f"08:00:00 {DEAD}", *clocked("21:00")],
        [f"2026-11-23 09:03:00 {DEAD}", *clocked("2026-11-23 08:20")],
        [
            *clocked("2026-11-23 08:00"),
            "Spot notice received: instance may be terminated at 2026-11-23 08:50:00",
            *clocked("2026-11-23 08:30"),
        ],
    ],
)
def test_another_clock_puts_no_trouble_behind_what_has_outlived_it(lines: list[str]) -> None:
    assert triage([*lines, "exit"], "failed", 1).action == "escalate"


@pytest.mark.parametrize(
    "above",
    [
        ["entrypoint: previous pod train-0-abc was preempted on n17", "===== stdout ====="],
        ["scheduler: node n17 is dead, placed on n18", "===== training log ====="],
        ["Previous job 811 state: TIMEOUT (due to time limit)", "--output /runs/a"],
        ["Job 811 state: TIMEOUT (due to time limit)", "--log-interval 10"],
        ["previous run: state=cancelled by alice", "=== stdout ==="],
        ["Events:", "  Preempted  40m  pod was preempted by another", "$ kubectl logs train-0"],
    ],
)
def test_what_ended_an_earlier_start_does_not_end_this_one(above: list[str]) -> None:
    found = triage([*above, *steps(1, 40), "rank 3: something odd"], "failed", 1)
    assert (found.name, found.action) == ("unknown", "escalate")


def test_a_report_behind_a_log_does_not_put_its_last_words_far_from_the_end() -> None:
    report = ["Job 5: state FAILED exit code 137", *(f"row {i}" for i in range(14)), "logs:"]
    lines = [*report, *steps(1, 6), f"{XID}, drain the node", *steps(6, 9)]
    assert triage(lines, "failed", 137).name == "hardware_fault"


@pytest.mark.parametrize(
    "lines",
    [
        [*(f"step {i} loss nan" for i in range(2, 60)), "W&B upload: attempt 2 ok"],
        ["step 9 loss nan", "dataloader worker restarted", *steps(10, 20)],
    ],
)
def test_a_part_that_starts_again_brings_no_numbers_back(lines: list[str]) -> None:
    found = triage(["step 1 loss 2.1", *lines, "step 60 reward 1"], "running", None)
    assert found.name == "numeric_instability"


@pytest.mark.parametrize(
    ("lines", "state", "code", "name", "action"),
    [
        (["step 1 loss 2", "JOB 5 CANCELLED DUE TO PREEMPTION", "requeued; no action needed"],
         "PREEMPTED", None, "preempted", "wait"),
        ([*steps(1, 30), "Run paused by alice@lab.org; no action required", "Killed"], "failed",
         137, "killed", "escalate"),
        (["step 1 loss 2.1", "Training complete, no action needed", "node n17 is dead"], "failed",
         1, "node_death", "escalate"),
        ([*steps(1, 30), "rank 3: COLLECTIVE TIMEOUT 00:30:00 in all_reduce"], "failed", 1,
         "distributed_hang", "escalate"),
        (["| NCCL TIMEOUT | 00:30:00 |", "launching", "exit"], "failed", 1, "distributed_hang",
         "escalate"),
        ([*steps(1, 30), "rank 3 never recovered from timeout 1800 in barrier"], "failed", 1,
         "distributed_hang", "escalate"),
        (["timeout: sending signal TERM to command 'nvidia-smi'", "preflight failed"], "failed",
         124, "bad_node", "escalate"),
        ([*steps(1, 6), XID, "job failed 3 times (upstream recv)"], "failed", 1,
         "hardware_fault", "escalate"),
        ([*steps(1, 5), "checkpoint write would fail: No space left on device", "Killed"],
         "failed", 137, "disk_full", "fix_then_relaunch"),
        ([*steps(1, 30), "ERROR: 3 docs could not be read: out of memory: killed process 12"],
         "failed", 137, "oom_host", "escalate"),
        ([*steps(1, 6), "nvme0n1: I/O timeout"], "failed", 1, "unknown", "escalate"),
        ([*steps(1, 6), "12 killed  workers so far"], "failed", 3, "unknown", "escalate"),
        (["+ pkill -9 -f train.py || true", "starting", "node n17 is dead"], "cancelled", None,
         "node_death", "relaunch"),
        ([*steps(1, 30), "ray.exceptions.UserCodeException: UDF failed",
          "The node with node id: abc has been marked dead because the raylet died"], "failed", 1,
         "complex_code_bug", "escalate"),
        ([*steps(1, 30), "srun: error: failed node n17"], "failed", 1, "node_death", "relaunch"),
    ],
)  # fmt: skip
def test_a_word_beside_it_is_not_the_end(
    lines: list[str], state: str, code: int | None, name: str, action: str
) -> None:
    found = triage(lines, state, code)
    assert (found.name, found.action) == (name, action)


@pytest.mark.parametrize(
    ("frame", "said", "name", "action"),
    [
        ('"/w/a.py", line 3, in main', "KeyError: 'checkpoint_optimizer'", "complex_code_bug",
         "escalate"),
        ('"/app/optim/callbacks/clip.py", line 3, in on_before_optimizer_step',
         "NameError: name 'x' is not defined", "small_code_bug", "escalate"),
        ('"/w/a.py", line 3, in main', "AttributeError: 'DynamicCache' object has no attribute"
         " 'get_usable'. Did you mean: 'get_seq'?", "complex_code_bug", "escalate"),
    ],
)  # fmt: skip
def test_what_training_rests_on_is_for_a_person(
    frame: str, said: str, name: str, action: str
) -> None:
    found = triage(["Traceback (most recent call last):", f"  File {frame}", said], "failed", 1)
    assert (found.name, found.action) == (name, action)


def test_a_reason_that_was_outlived_is_no_kill_s() -> None:
    early = [*steps(1, 6), "helper was stopped because of its memory", *steps(6, 40), "Killed"]
    assert triage(early, "failed", 137).name == "killed"


def test_usual_work_is_told_by_whole_words() -> None:
    said = ["the workload has gone", "an invalid answer came"]
    assert triage([*steps(1, 30), *said], "running", None).action == "escalate"
    assert triage([*steps(1, 30), said[0]], "failed", None).action == "escalate"
