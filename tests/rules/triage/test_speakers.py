"""Who writes a line is decided before what it says (SPEC T)."""

from __future__ import annotations

import pytest

from cockpit.rules.triage.speakers import SPEAKERS, speaker_of
from tests.rules.asking import triage
from tests.rules.triage.test_classify import raised

SHAPE = raised("RuntimeError: mat1 and mat2 shapes cannot be multiplied")
OOM = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
AGENT = [
    f"(TaskRunner pid=6) step:{n} - actor/loss:0.{n} - agent_loop/num_preempted/min:-1 -"
    f" agent_loop/num_preempted/max:-1 - timing_s/step:{n}.5"
    for n in range(1, 40)
]
UCX = [
    f"[1594407135.54{n}337] [node7:117  :0]   ib_md.c:1933 UCX  ERROR ibv_open_device(mlx5_{n})"
    " failed: No such file or directory"
    for n in range(5)
]
NVML = ["gpu:29:30 [0] misc/nvmlwrap.cc:100 NCCL WARN nvmlInit() failed: Driver/library mismatch"]
FLAGS = [
    "  - Build settings: CXX_FLAGS= -Wno-deprecated -fopenmp -DNDEBUG -Wno-unused-parameter"
    " -Wno-unused-variable -Werror=format -Wno-error=deprecated -Wno-invalid-partial, USE_CUDA=ON"
]
SETUP = [f"Loading part {n} of the index" for n in range(20)]

SPOKEN = (
    ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-06-26T22:39:06 DUE TO TIME LIMIT ***",
     "scheduler"),
    ("srun: error: gpu1: task 3: Exited with exit code 1", "scheduler"),
    ("[ 8123.402211] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus", "kernel"),
    ("torch.distributed.elastic.multiprocessing.api: failed (exitcode: 1)", "launcher"),
    ("RuntimeError: CUDA error: out of memory", "exception"),
    ("[rank3]:[E602 11:17:52.18 ProcessGroupNCCL.cpp:632] Watchdog caught a timeout", "error"),
    ("2026-03-11 08:41:07 ERROR could not write the index", "error"),
    (UCX[0], "warning"),
    ("/x/trainer.py:175: UserWarning: this will throw an error in a future release", "warning"),
    ("[W602 11:17:52.18 socket.cpp:697] the client socket has failed to connect", "warning"),
    (AGENT[0], "metrics"),
    ("{'loss': 2.1, 'grad_norm': nan, 'learning_rate': 1.6e-04, 'epoch': 0.82}", "metrics"),
    (FLAGS[0], "configuration"),
    ("  log_on_each_node ............................ False", "configuration"),
    ("    log_level_replica='warning',", "configuration"),
    ("NCCL_ASYNC_ERROR_HANDLING=1", "configuration"),
    ("+ torchrun --nnodes 2 --max-restarts 3 --rdzv-timeout 900 train.py", "configuration"),
    ("usage: train.py [-h] [--fail-fast]", "help"),
    ("  --max-restarts N  how often a failed worker is restarted", "help"),
    ("Saving the model", "prose"),
)  # fmt: skip


@pytest.mark.parametrize(("line", "speaker"), SPOKEN)
def test_each_line_has_a_speaker(line: str, speaker: str) -> None:
    assert speaker_of(line) == speaker


def test_every_speaker_is_told_apart() -> None:
    assert {speaker for _, speaker in SPOKEN} == set(SPEAKERS)


@pytest.mark.parametrize(
    ("log", "name", "action"),
    [
        ([*AGENT, *OOM], "oom_device", "escalate"),
        ([AGENT[0], *SHAPE], "complex_code_bug", "escalate"),
        ([*UCX, *SETUP, *SHAPE], "complex_code_bug", "escalate"),
        ([*NVML, *SETUP, *SHAPE], "complex_code_bug", "escalate"),
        ([*FLAGS, *SETUP, *SHAPE], "complex_code_bug", "escalate"),
        (["INFO:datasets.builder:Overwrite dataset info", *SHAPE], "complex_code_bug", "escalate"),
    ],
)
def test_metrics_dumps_and_early_remarks_end_no_job(log: list[str], name: str, action: str) -> None:
    found = triage(log, "failed", 1)
    assert (found.name, found.action) == (name, action)


def test_a_remark_long_before_a_kill_is_not_its_cause() -> None:
    found = triage([*UCX, *SETUP, "Killed"], "failed", 137)
    assert found.name == "killed" and found.confidence != "sure"


def test_flags_of_a_compiler_are_no_misuse() -> None:
    assert triage([*FLAGS, *SETUP], "failed", None).action != "fix_then_relaunch"


def test_a_run_whose_metrics_count_preemptions_is_healthy() -> None:
    assert triage(AGENT, "running", None).action == "none"


def test_metrics_still_tell_of_numbers_that_are_lost() -> None:
    lost = "completed step: 21, seconds: 4.1, TFLOP/s/device: 181.3, total_weights: 5242, loss: nan"
    assert triage([lost.replace("nan", "2.5"), lost], "failed", 1).name == "numeric_instability"


@pytest.mark.parametrize(
    ("line", "confidence"),
    [
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-06-26T22:39:06 DUE TO PREEMPTION",
         "sure"),
        ("the job was preempted", "likely"),
    ],
)  # fmt: skip
def test_a_relaunch_is_sure_only_on_the_word_of_who_decides(line: str, confidence: str) -> None:
    found = triage([*(f"step {n} loss 2.{n}" for n in range(9)), line], "failed", None)
    assert (found.name, found.action, found.confidence) == ("preempted", "relaunch", confidence)


def test_a_program_that_logs_its_own_source_says_nothing_of_what_stands_in_it() -> None:
    source = [
        "    if not torch.isfinite(loss):",
        '        raise RuntimeError(f"non-finite train loss at step {step}")',
    ]
    told = triage([*source, *(f"step {n}/90 loss 2.{n}" for n in range(9))], "running", None)
    assert (told.name, told.action) == ("harmless_noise", "none")


def test_evaluations_at_later_and_later_steps_prove_that_it_runs() -> None:
    lines = [
        f"step:{n * 125}/3040 val_loss:3.{9 - n} train_time:{n * 48}.1s step_avg:388.3ms"
        for n in range(1, 7)
    ]
    assert triage(lines, "running", None).name == "harmless_noise"
    assert triage([lines[0]] * 6, "running", None).name == "unknown"


@pytest.mark.parametrize(
    "moving",
    [
        "03:02:{n}.396 [I] Progress on: 4.4{n}kit/200kit rate:1.4it/s remaining:38:25:2{n}",
        "{n}99it [01:0{n},  7.00s/it]",
    ],
)
def test_a_rounded_step_and_a_bar_without_a_total_prove_that_it_runs(moving: str) -> None:
    begun = ["Step 4400: loss=0.03", "ERROR: a sensor of the room fails"]
    lines = [moving.format(n=n) for n in range(1, 9)]
    assert triage([*begun, *lines], "running", None).name == "harmless_noise"
    assert triage([*begun, *lines[:1] * 6], "running", None).name == "unknown"


def test_what_ray_says_of_a_worker_that_died_names_no_cause() -> None:
    died = raised("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing.")
    more = [
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR"
        " Worker exit detail: There are some potential root causes. (1) The process is killed by"
        " SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called."
    ]
    told = triage([*died, *more], "failed", 1)
    assert (told.name, told.action) == ("unknown", "escalate")
