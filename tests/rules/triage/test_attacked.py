"""What logs written blind have found: device words, transports, stalls, causes in a list."""

from __future__ import annotations

import pytest

from tests.growing import grows_with_its_size
from tests.rules.asking import triage
from tests.rules.triage.test_classify import raised

STEPS = [f"step {n} loss 2.{n}" for n in range(1, 5)]
ON = [f"step {n} loss 2.{n}" for n in range(5, 9)]
VERBS_CALL = "n1:7:9 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate"
LINK = "mlx5_2: port 1 link is down"
XID = "kernel: NVRM: Xid (PCI:0000:1b:00): 95, pid=4, Uncontained"
RAY = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR. There"
    " are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to"
    " high memory usage. (2) ray stop --force is called. (3) It crashed due to SIGSEGV."
)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Out of memory error on GPU 2. Cannot allocate 40MB", "oom_device"),
        (
            "RESOURCE_EXHAUSTED: Allocation (size=7) would exceed memory [space=hbm, tag=x]",
            "hbm_exhausted",
        ),
        ("42.batch    OUT_OF_ME+   0:125", "oom_host"),
        ("42.batch    TIMEOUT      0:0", "walltime"),
        ("tensor([[nan, nan, nan],", "numeric_instability"),
        ("zlib.error: Error -3 while decompressing data: incorrect header check", "data_error"),
        ("Run was stopped by user from the dashboard", "user_stopped"),
        ("Tensors wait: waiting for remainder of ranks for more than 60 s", "distributed_hang"),
    ],
)
def test_the_words_of_a_mechanism(line: str, name: str) -> None:
    assert triage([*STEPS, line], "failed", None).name == name


def test_a_devices_own_words_outrank_the_exception_that_it_made_whichever_comes_first() -> None:
    fault = raised("torch.AcceleratorError: CUDA error: unspecified launch failure")
    for lines in ([*fault, XID], [XID, *fault]):
        found = triage([*STEPS, *lines], "failed", 1)
        assert (found.name, found.action) == ("hardware_fault", "relaunch")
    bug = triage([*STEPS, *raised("KeyError: 'warm_up'"), LINK], "failed", 1)
    assert bug.name == "small_code_bug"


def test_a_call_of_the_transport_that_training_outlives_is_noise_a_link_that_is_down_is_not() -> (
    None
):
    assert triage([VERBS_CALL, *STEPS], "running", None).action == "none"
    assert triage([*STEPS, VERBS_CALL], "running", None).action == "escalate"
    assert triage([LINK, *STEPS], "running", None).name == "hardware_fault"


def test_a_collective_that_waits_is_a_hang_until_steps_come_again() -> None:
    waits = "[rank0] Watchdog: collective ALLGATHER has been running for 540000 ms"
    still = triage([*STEPS, waits], "running", None)
    assert (still.name, still.action) == ("distributed_hang", "escalate")
    assert triage([*STEPS, waits, *ON], "running", None).action == "none"


def test_causes_that_are_listed_in_sentences_name_none() -> None:
    found = triage([*STEPS, RAY], "failed", 137)
    assert (found.name, found.action) == ("killed", "relaunch")


@pytest.mark.parametrize(("code", "name"), [(None, "success"), (0, "success"), (1, "unknown")])
def test_a_success_that_its_exit_code_contradicts_is_doubted(code: int | None, name: str) -> None:
    assert triage([], "succeeded", code).name == name


@pytest.mark.parametrize("unit", ["1,", "1/2 [00:00<", "1.", "could not read the ", "a, b or "])
def test_a_line_of_a_quarter_of_a_megabyte_is_judged_at_once(unit: str) -> None:
    size = 120_000 // len(unit)
    assert grows_with_its_size(lambda times: triage([unit * times], "failed", 1), size)


@pytest.mark.parametrize(
    "end",
    [
        ["[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"],
        raised("ValueError: top_p must be positive"),
    ],
)
def test_one_step_of_another_rank_does_not_prove_that_an_end_was_overcome(end: list[str]) -> None:
    assert triage([*STEPS, *end, "step 5 loss 2.5"], "running", None).action == "escalate"
    assert triage([*STEPS, *end, *ON], "running", None).action == "none"


@pytest.mark.parametrize("line", ["Job 'sub_4' was stopped", "JOB 9 killed: qdel by eve@login"])
def test_a_job_that_somebody_stopped_is_not_relaunched(line: str) -> None:
    assert triage([*STEPS, line], "failed", None).action == "none"


def test_the_name_of_a_policy_preempts_nothing() -> None:
    policy = "0/9 nodes are available: 9 Insufficient memory. not eligible due to preemptionPolicy"
    assert triage([policy], "pending", None).name == "capacity_wait"
