"""Ends in words of their own, which were once taken for what may be begun again or left alone.

What launchers, kernels, clouds and clients print around an end, and what it then means.

Who writes a line is decided before what it says (SPEC T).
"""

from __future__ import annotations

import pytest

from cockpit.rules.triage.exceptions import exceptions, ignored
from cockpit.rules.triage.speakers import SPEAKERS, speaker_of
from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN, raised
from tests.rules.triage.test_dangers import MORE


@pytest.mark.parametrize(
    ("said", "state", "code", "name", "action"),
    [
        (" 41122 Killed                  python train.py", "running", None, "killed", "escalate"),
        ("rank0 rss=491GB node used=2014.9GB/2015.6GB (100 %)", "failed", 137, "oom_host",
         "escalate"),
        ("code: 8 message: Replicas low on memory: pool0", "failed", None, "oom_host", "escalate"),
        ("loss scale collapsed to 1.0, aborting", "failed", 1, "numeric_instability", "escalate"),
        ("pod/p-9 phase=Failed node=ip-10-3-2-91", "failed", 1, "unknown", "escalate"),
    ],
)  # fmt: skip
def test_what_ends_a_job_is_not_taken_for_what_may_be_begun_again(
    said: str, state: str, code: int | None, name: str, action: str
) -> None:
    found = triage([*TRAIN, said], state, code)
    assert (found.name, found.action) == (name, action)


def test_what_no_group_matches_is_not_waited_for() -> None:
    said = "no scale group of this cluster matches the request"
    assert triage([said], "pending", None).action == "escalate"


@pytest.mark.parametrize(
    "said", ["pmixp_p2p_send: send failed, exceeded the retry limit", "retries exhausted 0/0"]
)
def test_a_request_that_was_tried_again_is_no_job_that_failed_again(said: str) -> None:
    lines = [*TRAIN, said, "srun: error: Node failure on n7"]
    assert triage(lines, "failed", None).action == "relaunch"


def test_a_hook_of_a_logger_does_not_alter_training() -> None:
    frame = '  File "/w/{}.py", line 18, in on_train_batch_end'
    for file, action in (
        ("callbacks/sample_logger", "fix_then_relaunch"),
        ("model/lit", "escalate"),
    ):
        trace = ["Traceback (most recent call last):", frame.format(file), "    self.add(out['x'])"]
        found = triage([*TRAIN, *trace, "KeyError: 'x'"], "failed", 1)
        assert (found.name, found.action) == ("small_code_bug", action)


def test_a_key_of_a_config_is_a_config_s_whatever_it_sets() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/w/conf_check.py", line 51, in validate',
        "    n = cfg.checkpoint.save_evry",
        "omegaconf.errors.ConfigAttributeError: Key 'save_evry' is not in struct",
        "    full_key: checkpoint.save_evry",
    ]
    assert triage(lines, "failed", 1).action == "fix_then_relaunch"
    said = "ValueError: Key ici_x was passed at the command line but isn't in config."
    place = '  File "/deps/MaxText/pyconfig.py", line 411, in __init__'
    found = triage([lines[0], place, said], "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")


def test_what_a_rank_of_a_running_job_could_not_read_is_named() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/v/site-packages/datasets/iterable_dataset.py", line 2101, in __iter__',
        "pyarrow.lib.ArrowInvalid: Column 'text' has a mixed type in part-00311.parquet",
    ]
    found = triage([*TRAIN, *lines], "running", None)
    assert (found.name, found.action) == ("data_error", "escalate")


@pytest.mark.parametrize(
    ("said", "code", "name", "action"),
    [
        (["[NVRx] no heartbeat from rank 11 (pid 7) for 900 s, terminating"], 1,
         "distributed_hang", "escalate"),
        (["DeepEP timeout check failed: rank = 6, thread = 0"], 1, "distributed_hang", "escalate"),
        (["Process 811 received SIGINT from timeout(1) after 11h50m", "rc=124 (timeout)"], 124,
         "walltime", "relaunch"),
        (["timeout: sending signal TERM to command 'torchrun'"], 124, "walltime", "relaunch"),
        (["60021           TIMEOUT 1-00:00:21 1-00:00:00      0:0"], None, "walltime", "relaunch"),
        (["Pod ephemeral local storage usage exceeds the total limit of 200Gi"], 137, "disk_full",
         "fix_then_relaunch"),
        (["gradient norm 4.1e+18 over hard limit 1e6, refusing to continue"], 1,
         "numeric_instability", "escalate"),
        (["ValueError: EOF: reading array data, expected 262144 bytes got 81920"], 1, "data_error",
         "escalate"),
    ],
)  # fmt: skip
def test_words_of_a_tool_name_its_own_end(
    said: list[str], code: int | None, name: str, action: str
) -> None:
    found = triage([*TRAIN, *said], "failed", code)
    assert (found.name, found.action) == (name, action)


def test_a_worker_that_could_not_begin_is_not_lost() -> None:
    lines = [
        "ERROR No accelerator found. Please run on a TPU or GPU.",
        "-> JOB_STATE_WORKER_FAILED",
    ]
    assert triage(lines, "failed", None).name == "bad_node"


def test_what_a_person_ends_by_hand_is_left_alone_whatever_is_missed_then() -> None:
    by_hand = 'gcloud tpu-vm ssh v4-64 --command="tmux kill-session -t maxtext"'
    lines = [*TRAIN, by_hand, "coordination_service.cc task:1 heartbeat timeout"]
    assert triage(lines, "cancelled", None).name == "user_stopped"


@pytest.mark.parametrize(
    "said",
    [
        ["[agent] worker rank 5 (pid 3311) disappeared: wait status 9", "[agent] still draining"],
        ["ssh: connect to host w-9 port 22: No route to host", "no new training step for 22 min"],
    ],
)
def test_a_job_that_runs_and_lost_a_worker_is_not_left_alone(said: list[str]) -> None:
    assert triage([*TRAIN, *said], "running", None).action == "escalate"


@pytest.mark.parametrize(
    "said",
    [
        'text sample @100: "NCCL WARN timeout loss: nan nan nan"',
        "[fault-injection] dry-run: would raise torch.OutOfMemoryError (disabled)",
        "INFO docs: on 'No space left on device' see wiki/disk",
        "retry-policy: relaunch_on = [preempted, node_death, killed]; max 3",
        "[dcgm] gpu 3: XID 0, ecc_dbe_volatile 0: OK",
        "[health] Xid 43, 63 history of the last boot: cleared",
        "mce: [Hardware Error]: Machine check events logged (corrected)",
    ],
)
def test_what_is_only_written_about_harms_no_run(said: str) -> None:
    found = triage([*TRAIN, said, *MORE, "step 95 loss 2.1"], "running", None)
    assert (found.name, found.action) == ("harmless_noise", "none")


def test_a_loss_that_an_earlier_start_lost_is_over() -> None:
    first = ["step 1 loss 2.5", "step 2 loss nan", "aborted"]
    again = ["== start job 91 (rollback) ==", "resuming from /ck/step_0", *TRAIN]
    assert triage([*first, *again], "running", None).action == "none"
    assert triage([*first, *TRAIN], "running", None).action == "escalate"


def test_levanter_s_rounded_steps_prove_that_it_moves() -> None:
    line = "Progress on:train {}it/50.0kit rate:1.5s/it remaining:18:41:50 postfix:loss=2.78"
    ends = [line.format(count) for count in ("3.06k", "3.08k", "3.10k", "3.12k")]
    assert triage([line.format("3.04k"), "ERROR sandbox: x", *ends], "running", None).action == (
        "none"
    )


@pytest.mark.parametrize(
    ("said", "state", "code", "name", "action"),
    [
        ("job 7 was killed because its memory use grew past its share", "failed", None,
         "oom_host", "escalate"),
        ("executor terminated (exit 137) reason: memory overuse", "failed", None, "oom_host",
         "escalate"),
        ("Pod was evicted: The node had condition: [MemoryPressure].", "failed", 1, "oom_host",
         "escalate"),
        ("[watch] rank 7 has sent nothing for 900 s", "running", None, "unknown", "escalate"),
        ("the site's power plan for tonight begins", "failed", None, "unknown", "escalate"),
        ("1748940309 ", "failed", None, "killed", "relaunch"),
    ],
)  # fmt: skip
def test_words_of_nobody_knows_at_the_end_let_nothing_be_launched_again(
    said: str, state: str, code: int | None, name: str, action: str
) -> None:
    found = triage([*TRAIN, said], state, code)
    assert (found.name, found.action) == (name, action)


def test_what_is_told_after_all_progress_takes_back_that_nothing_need_be_done() -> None:
    told = ["the operator's console has opened", "the console has closed"]
    assert triage([*TRAIN, told[0], told[0]], "running", None).action == "none"
    assert triage([*TRAIN, *told], "running", None).action == "escalate"
    assert triage([*TRAIN, "pulse 31", "pulse 32", "pulse 33"], "running", None).action == "none"
    saving = ["saving checkpoint step_30", "saved checkpoint step_30", "evaluating"]
    assert triage([*TRAIN, *saving], "running", None).action == "none"


def test_what_an_administrator_holds_is_not_waited_for() -> None:
    assert triage(["job 88 is held by administrator"], "pending", None).action == "escalate"


@pytest.mark.parametrize(
    "said",
    [
        "WARNING continuing degraded on 7 nodes, waiting for replacement",
        "elastic: lost 8 of 64 workers, world size 64 -> 56",
    ],
)
def test_a_run_on_fewer_nodes_is_for_a_person(said: str) -> None:
    lines = [*TRAIN, said, *MORE, "step 95 loss 2.1"]
    assert triage(lines, "running", None).action == "escalate"
    whole = [*TRAIN, said, "elastic: world size 56 -> 64", *MORE, "step 95 loss 2.1"]
    assert triage(whole, "running", None).action == "none"


@pytest.mark.parametrize(
    ("said", "name", "action"),
    [
        ("The job was stopped because it exceeded the maximum allowed running time", "walltime",
         "relaunch"),
        ("OSError: AWS Error NETWORK_CONNECTION during UploadPart: curlCode: 28",
         "network_transient", "relaunch"),
    ],
)  # fmt: skip
def test_a_cloud_s_own_words_for_a_limit_and_for_its_network(
    said: str, name: str, action: str
) -> None:
    found = triage([*TRAIN, said], "failed", None)
    assert (found.name, found.action) == (name, action)


def test_a_run_that_was_through_is_not_begun_again_for_its_tracker() -> None:
    trace = [
        "Traceback (most recent call last):",
        '  File "/v/site-packages/wandb/sdk/lib/service_connection.py", line 94, in teardown',
        "ConnectionResetError: [Errno 104] Connection reset by peer",
    ]
    assert triage([*TRAIN, "training complete", *trace], "failed", 1).action == "escalate"


@pytest.mark.parametrize(
    "said",
    [
        "GPU 2: Xid 63 correctable row remap recorded, no action needed",
        "NET/IB : mlx5_2:1 Got async event : port error",
    ],
)
def test_what_needs_nothing_or_was_gone_round_harms_no_run(said: str) -> None:
    lines = [*TRAIN, said, *MORE, "step 95 loss 2.1"]
    assert triage(lines, "running", None).action == "none"


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
