"""Families of errors: a runtime's codes, a client's exceptions, a daemon's words, not messages.

What stands after the cause in time: lost nodes, cancelled steps, limits that are reached.

How long a job has waited by its own log, and what of it waits once more (SPEC T).

What no line says in words: memory at its limit, a fault by a kernel of one's own, a demand.
"""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN, raised

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


ENDS = [
    ("fatal: unable to access 'https://x/': Could not resolve host: x", "network_transient"),
    ("rclone: Failed to copy: context deadline exceeded", "network_transient"),
    ("error: pathspec 'relase-7' did not match any file(s) known to git", "small_code_bug"),
    ("ERROR: No matching distribution found for torch==2.9.9", "small_code_bug"),
    ("pkg_resources.VersionConflict: (numpy 2.1.0, numpy<2)", "complex_code_bug"),
    ("!!!!!!! Segfault encountered !!!!!!!", "complex_code_bug"),
    ("n3 kernel: watchdog: BUG: soft lockup - CPU#12 stuck for 26s!", "node_death"),
    ("task failed: exit code 137 (OOM: memory limit 400GiB exceeded)", "oom_host"),
    ("Fatal error in internal_Allreduce: Other MPI error", "distributed_hang"),
    ("PreemptionError: Nodes of this job got pre-empted.", "preempted"),
    ("GCP Metadata Service says termination is imminent", "preempted"),
    ("Spot Instance terminated due to user-initiated termination.", "user_stopped"),
    ("docker stop train-7: container killed after grace period", "user_stopped"),
    ("DataLoader process (pid 8) exited is killed by signal: Killed.", "oom_host"),
    ("pcieport 0000:15:01.0: AER: Uncorrected (Fatal) error received", "hardware_fault"),
    ("NCCL WARN NET/IB : Got async fatal event on mlx5_6: catastrophic error", "hardware_fault"),
    ("NCCL WARN NET/IB : mlx5_6:1 event type (IBV_EVENT_DEVICE_FATAL)", "hardware_fault"),
    ("kernel: mlx5_core 0000:cd:00.0: device's health compromised - miss", "hardware_fault"),
    ("rocm_smi: ERROR: ROCk module is NOT loaded", "bad_node"),
    ("OSError: /dev/neuron0: No such device or address", "bad_node"),
    ("node health: dcgmi diag level 1 failed on GPU 3", "bad_node"),
    ('Evicted: Usage of EmptyDir volume "scratch" exceeds the limit', "disk_full"),
    ("Job removed: running for more than the allowed wall time of 72 hours", "walltime"),
    ("run terminated: max_duration_exceeded", "walltime"),
    ("Pod was active on the node longer than the specified deadline", "walltime"),
    ("httpx.ReadTimeout: The read operation timed out", "network_transient"),
    ("OSError: [Errno 16] Please reduce your request rate.", "network_transient"),
    ("polars.exceptions.ComputeError: parquet: must end with PAR1", "data_error"),
    ("ValueError: document 812 has length 0", "data_error"),
    ("OSError: image file is truncated (12 bytes not processed)", "data_error"),
]
REFUSED = [
    "sky.exceptions.ResourcesUnavailableError: Failed to acquire resources in all zones",
    "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.",
    "sbatch: error: Batch job submission failed: Invalid partition name specified",
]


@pytest.mark.parametrize(("line", "name"), ENDS)
def test_an_end_is_told_by_its_mechanism(line: str, name: str) -> None:
    assert triage([*TRAIN, line], "failed", 1).name == name


@pytest.mark.parametrize("line", REFUSED)
def test_machines_that_were_refused_are_asked_for_by_a_person(line: str) -> None:
    found = triage([line], "failed", 1)
    assert (found.name, found.action) == ("capacity_wait", "escalate")


def test_a_file_of_settings_that_cannot_be_parsed_is_no_trouble_of_the_data() -> None:
    line = "json.decoder.JSONDecodeError: Expecting value: line 3 column 5 (char 41)"
    assert triage([line, "while loading ds_config.json"], "failed", 1).name == "small_code_bug"
    assert triage([line, "while loading part-00012.jsonl"], "failed", 1).name == "data_error"


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_what_waits_after_the_whole_job_was_cancelled_is_an_echo(state: str) -> None:
    job = "slurmstepd: error: *** JOB 812 ON n1 CANCELLED AT 2026-02-11T04:03:04 ***"
    hang = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9)"
    found = triage([*TRAIN, job, hang], state, None)
    assert (found.name, found.action) == ("user_stopped", "none")
    assert triage([*TRAIN, hang, job], "failed", None).name == "distributed_hang"


@pytest.mark.parametrize(
    "line",
    ["Training finished. Saved final model", "mpirun: Forwarding signal 15 to job"],
)
def test_a_failed_job_that_says_it_was_done_or_told_to_leave_is_not_launched_again(
    line: str,
) -> None:
    found = triage([*TRAIN, line], "failed", None)
    assert (found.name, found.action) == ("unknown", "escalate")


def test_a_file_that_cannot_be_read_over_a_network_is_no_fault_of_the_code() -> None:
    failed = "OSError: [Errno 5] Input/output error: '/lustre/ckpt/x'"
    away = "Lustre: Connection to lfs-OST0012 (at 10.1.1.2@o2ib) was lost"
    assert triage([*TRAIN, failed], "failed", 1).name == "complex_code_bug"
    found = triage([*TRAIN, away, failed], "failed", 1)
    assert (found.name, found.action) == ("network_transient", "escalate")


@pytest.mark.parametrize(
    "record",
    [
        '{"severity":"ERROR","message":"%s","time":"2026-02-02T01:01:01Z"}',
        '{"level":"error","rank":3,"exc_info":"%s"}',
        "ray::Trainer.fit() raised RayTaskError('%s')",
    ],
)
def test_a_traceback_in_one_record_is_read_line_by_line(record: str) -> None:
    frame = '  File \\"/w/run.py\\", line 12, in <module>\\n    print(stpes)\\n'
    told = rf"Traceback (most recent call last):\n{frame}NameError: name 'stpes' is not defined\n"
    found = triage([*TRAIN, record.replace("%s", told)], "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")
    assert found.code_location is not None and found.code_location.line == 12
    assert found.evidence[0].line == len(TRAIN) + 1


@pytest.mark.parametrize(
    "line",
    [
        '{"asctime": "01:01:01", "level": "ERROR", "message": "AssertionError: 4096 % 24"}',
        'level=error ts=2026-02-02T01:01:01Z msg="AssertionError: 4096 % 24"',
    ],
)
def test_an_exception_in_a_record_is_one(line: str) -> None:
    assert triage([*TRAIN, line], "failed", 1).name == "complex_code_bug"


@pytest.mark.parametrize("line", ["no new output for 60 min", "worker 3 seems stuck"])
def test_a_run_that_is_said_to_stand_still_is_not_harmless(line: str) -> None:
    assert triage([*TRAIN, line], "running", None).action == "escalate"
    assert triage([line, *TRAIN], "running", None).name != "unknown"


CALM = [
    "max_run_duration_reached: False",
    "preemption_policy: PreemptLowerPriority",
    "found 8 of 8 devices",
    "expected 8 gpus, found 8",
    "NHC: all checks passed; 0 failed",
    "dcgmi diag level 1: passed (0 failures)",
    "prolog: no errors",
    "empty dataset cache directory, building",
    "collective timeout set to 1800 s",
    "heartbeat interval 60 s, timeout 600 s",
    "watchdog thread started; timeout 600 s",
    "run can be stopped from the UI",
    "use docker stop to end the container",
    "tokenizer.json not found in cache, downloading",
    "JSONDecodeError count: 0",
    "host gpu-7 rebooted 12 days ago",
    "over-temperature threshold: 90 C",
    "resume: if preempted, from the latest checkpoint",
    "reading sample 812 of 9000",
    "parse_example_fn = ParseSingleExample",
    "evicted 12 blocks from KV cache",
    "expert capacity exceeded, dropping 0.2% tokens",
    "Attempted loss scale: 65536, reducing to 32768",
    "kernel: Linux 6.1 SMP PREEMPT_DYNAMIC",
    "retry policy: 5 attempts on 429/503",
    "user-initiated termination handler installed",
    "removed temporary directory",
]


@pytest.mark.parametrize("line", CALM)
def test_what_an_ordinary_start_says_ends_no_job(line: str) -> None:
    found = triage([line, *raised("KeyError: 'warm_up'")], "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")
    assert triage([*TRAIN[:8], line, *TRAIN[8:]], "running", None).action == "none"


def test_a_loss_scale_that_stays_at_its_least_has_collapsed() -> None:
    line = "[deepspeed] OVERFLOW! Skipping step. Attempted loss scale: {}, reducing to {}"
    spent = [line.format(2, 1), line.format(1, 1), line.format(1, 1)]
    assert triage([*TRAIN, *spent], "running", None).name == "numeric_instability"
    large = [line.format(65536, 32768), *TRAIN]
    assert triage([*TRAIN, *large], "running", None).name == "harmless_noise"


GISTS = [
    ("FATAL: accelerator board refused to come up", "bad_node"),
    ("tiles ran out: device memory exhausted at 61 GB", "oom_device"),
    ("scratch volume /local exhausted", "disk_full"),
    ("deadlock: rank 2 left the loop", "distributed_hang"),
    ("supervisor: agent on r7 vanished", "node_death"),
    ("error: chunk 12 came back mangled, corrupt", "data_error"),
    ("fatal: rpc to the store dropped", "network_transient"),
]


@pytest.mark.parametrize(("line", "name"), GISTS)
def test_a_thing_and_its_trouble_name_a_class_for_a_person(line: str, name: str) -> None:
    found = triage([*TRAIN, line], "failed", 1)
    assert (found.name, found.confidence) == (name, "guess")
    assert found.action in ("escalate", "fix_then_relaunch")
    assert triage([*TRAIN, line, *TRAIN, "exit 1"], "failed", 1).name == "unknown"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("RuntimeError: could not attach: no suitable device", "bad_node"),
        ("RuntimeError: device kernel image is invalid", "complex_code_bug"),
        ("KeyError: no suitable device", "small_code_bug"),
    ],
)
def test_only_an_exception_that_may_mean_anything_is_asked_for_its_gist(
    line: str, name: str
) -> None:
    assert triage([*TRAIN, line], "failed", 1).name == name


@pytest.mark.parametrize(
    "line",
    [
        "Error: toml: line 12: expected '.' or '=', but got 'r'",
        "ERROR: Could not consume arg: --lerning_rate",
        "ValueError: Some keys are not used by the parser: ['lerning_rate']",
        "TypeError: no parameter named 'max_setps'",
    ],
)
def test_a_setting_that_nothing_knows_is_small_whoever_says_so(line: str) -> None:
    found = triage([line], "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")


def test_a_signal_to_one_rank_that_trains_on_is_no_end_of_the_log() -> None:
    later = [f"step {i} | loss 2.1" for i in range(31, 34)]
    assert triage([*TRAIN, "[14] Terminated", *later], "failed", None).name == "killed"
    ended = triage([*TRAIN, "wrapper: child exited abnormally"], "failed", None)
    assert (ended.name, ended.action) == ("unknown", "escalate")


def test_a_complaint_after_the_last_step_is_heard_before_the_log_just_stops() -> None:
    found = triage([*TRAIN, "the kernel reports: memory exhausted on this machine"], "failed", None)
    assert (found.name, found.action) == ("oom_host", "escalate")


def test_words_of_alarm_on_the_steps_themselves_are_none() -> None:
    steps = [f"[deepspeed] step={i}, skipped=4, loss=2.{i}" for i in range(10, 30)]
    assert triage(steps, "failed", None).name == "killed"


OOM = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
LOST_NODE = "core_worker.cc:1234: The node with node id abc has been marked dead: heartbeats"


@pytest.mark.parametrize(
    ("cause", "after", "state", "name"),
    [
        (OOM, [LOST_NODE] * 40, "failed", "oom_device"),
        (raised("RuntimeError: could not read shard 17"), [LOST_NODE], "failed", "data_error"),
        (raised("ray.exceptions.RayActorError: it died"), [LOST_NODE], "failed", "node_death"),
        (
            OOM,
            ["slurmstepd: *** JOB 7 CANCELLED AT 10:00 DUE TO TIME LIMIT"],
            "failed",
            "oom_device",
        ),
        (OOM, ["waiting"], "TIMEOUT", "oom_device"),
        ([LOST_NODE], OOM, "failed", "node_death"),
    ],
)
def test_a_node_that_is_lost_after_the_cause_is_its_echo(
    cause: list[str], after: list[str], state: str, name: str
) -> None:
    assert triage([*TRAIN, *cause, *after], state, 1).name == name


CANCELLED_STEP = "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-01T06:00:00 ***"


@pytest.mark.parametrize(
    ("before", "name"),
    [
        (raised("RuntimeError: could not read shard 17"), "data_error"),
        (["srun: error: n3: task 7: Segmentation fault (core dumped)"], "complex_code_bug"),
        ([], "user_stopped"),
    ],
)
def test_a_step_that_slurm_cancels_once_a_task_has_failed_was_stopped_by_nobody(
    before: list[str], name: str
) -> None:
    log = [*TRAIN, *before, CANCELLED_STEP, "srun: error: n1: tasks 0-6: Terminated"]
    assert triage(log, "failed", 1).name == name


def test_that_an_actor_has_died_tells_not_of_what() -> None:
    said = "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task."
    why = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR"
    for lines in ([said], [said, why]):
        found = triage([*TRAIN, *lines], "failed", 1)
        assert (found.name, found.action) == ("unknown", "escalate")
    lost = triage([*TRAIN, said, "The actor is dead because its node has died."], "failed", 1)
    assert lost.name == "node_death"


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (["[12:00:00] poll: WAITING_FOR_RESOURCES", "[13:20:00] poll: WAITING_FOR_RESOURCES"],
         "escalate"),
        (["[12:00:00] poll: WAITING_FOR_RESOURCES", "[12:10:00] poll: WAITING_FOR_RESOURCES"],
         "wait"),
        (["pending for 45 minutes (Priority)"], "escalate"),
        (["pending for 12 minutes (Priority)"], "wait"),
        (["pending since 12:45:00 (Priority)"], "wait"),
        (["PENDING (Resources), expected start in 3 hours"], "wait"),
        (["waiting for capacity: elapsed 5400s"], "escalate"),
        (["waiting for 8 GPUs (waited 02:10:00)"], "escalate"),
        (["submitted 2 hours ago, still queued"], "escalate"),
        (["t-0   0/1    Pending   0   3h12m"], "escalate"),
        (["t-0   0/1    Pending   0   5m12s"], "wait"),
        (["waiting for quota (timeout 2h)"], "wait"),
        ([f"waiting {'9' * 400}-00:00:00"], "wait"),
    ],
)  # fmt: skip
def test_a_wait_is_as_long_as_its_log_tells(lines: list[str], action: str) -> None:
    found = triage(lines, "pending", None)
    assert (found.name, found.action) == ("capacity_wait", action)


@pytest.mark.parametrize(
    ("line", "name", "action"),
    [
        ("*** JOB 4 ON c1 CANCELLED AT 10:10:10 DUE TO NODE FAILURE ***", "node_death", "wait"),
        ("*** JOB 4 ON c1 CANCELLED AT 10:10:10 DUE TO TIME LIMIT ***", "walltime", "wait"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=4.0.", "oom_host", "escalate"),
    ],
)
def test_what_ended_the_start_before_says_whether_to_wait(
    line: str, name: str, action: str
) -> None:
    found = triage([*TRAIN, line, "job requeued, PENDING (Priority)"], "pending", None)
    assert (found.name, found.action) == (name, action)


def test_a_container_that_dies_each_time_is_no_queue() -> None:
    again = [*TRAIN, "Killed", "Waiting: CrashLoopBackOff"]
    assert triage(again, "pending", 137).action == "escalate"


def test_steps_after_it_began_anew_show_that_it_runs_again() -> None:
    gone = [*TRAIN, "Job was evicted.", "001 (21.0) Job executing on host: <10.8.1.9:9618>"]
    steps = [f'{{"epoch": 3, "loss": "2.6", "num_updates": "{step}"}}' for step in (5, 6, 7)]
    assert triage(gone, "running", None).action == "wait"
    assert triage([*gone, *steps], "running", None).action == "none"


TABLE = ["task  state    exit  peak_mem  limit"]


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([*TABLE, "0  failed  137  127.4GiB  128GiB", "1  running  -  90GiB  128GiB"], "oom_host"),
        ([*TABLE, "0  failed  137  61.2GiB  128GiB"], "killed"),
        ([*TABLE, "0  failed  137  1GiB  128GiB", "1  running  -  127.9GiB  128GiB"], "killed"),
        (["max_rss: 31.9G of 32G, exit status: 137"], "oom_host"),
        (["max_rss: 3.2G of 32G, exit status: 137"], "killed"),
        (["GPU peak mem 79.1GB / 80GB", "Killed"], "killed"),
    ],
)
def test_what_was_killed_at_the_limit_of_its_memory_ran_out_of_it(
    lines: list[str], name: str
) -> None:
    found = triage([*TRAIN, *lines], "failed", 137)
    assert found.name == name
    assert found.action == ("escalate" if name == "oom_host" else "relaunch")


ACCESS = [
    "Traceback (most recent call last):",
    '  File "/home/ada/kernels/scan.py", line 31, in backward',
    "    scan_kernel[grid](x)",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
]


@pytest.mark.parametrize(
    ("xid", "raised", "action"),
    [(31, ACCESS, "escalate"), (13, ACCESS, "escalate"), (79, ACCESS, "relaunch"),
     (31, [], "relaunch")],
)  # fmt: skip
def test_a_fault_that_a_kernel_of_ones_own_may_have_made_is_for_a_person(
    xid: int, raised: list[str], action: str
) -> None:
    line = f"kernel: NVRM: Xid (PCI:0000:1b:00): {xid}, pid=4711, name=python"
    assert triage([*TRAIN, line, *raised], "failed", 1).action == action


def test_a_demand_that_no_group_of_machines_can_meet_never_fits() -> None:
    demand = "Autoscaler: Unsatisfied autoscaler demand: {}: ram: need 900, available 512"
    never, later = demand.format("insufficient_resources"), demand.format("at_max_slices")
    assert triage([never], "pending", None).action == "escalate"
    assert triage([later], "pending", None).action == "wait"


@pytest.mark.parametrize(("before", "name"), [([], "bad_node"), (TRAIN, "hardware_fault")])
def test_a_fabric_that_does_not_come_up_is_the_nodes_before_the_first_step(
    before: list[str], name: str
) -> None:
    said = "This is usually caused by a configuration error in the Fabric Manager or NVSwitches."
    lines = [*before, "Failed to bind NVLink SHARP (NVLS) memory: CUDA error 401", said]
    assert triage(lines, "failed", 1).name == name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (["[mem] 99.4% of RAM used"], "oom_host"),
        (["roofline: 99.4% of memory bandwidth"], "killed"),
        (["mem: 99.4%"], "oom_host"),
        (["mem: 49.4%"], "killed"),
        (["GPU mem: 99.4%"], "killed"),
        (["step 31 | loss 2.1 | mem: 99.4%"], "killed"),
        (["index: 41% rss=254G/256G"], "oom_host"),
        (["index: 41% rss=254G/256G", "index: 0% rss=2G/256G"], "killed"),
        (["vram used=78G/80G"], "killed"),
        (["rss=2G/256G disk=99G/100G"], "killed"),
        (['{"OOMKilled":false,"ExitCode":137}'], "killed"),
        (["svmem(total=540, available=1, percent=99.7)"], "oom_host"),
        (["memory.max 68719476736", "memory.current 68719390720"], "oom_host"),
        (["memory.max 68719476736", "memory.current 28719390720"], "killed"),
        (["memory.current 68719390720"], "killed"),
    ],
)
def test_memory_that_had_run_out_is_told_in_many_ways(said: list[str], name: str) -> None:
    assert triage([*TRAIN, *said, "Killed"], "failed", 137).name == name


@pytest.mark.parametrize("nan", ["nan", "'nan'", '"NaN"', "inf", "'inf'"])
def test_a_norm_that_is_no_number_is_one_in_quotes_too(nan: str) -> None:
    lines = [f"{{'loss': 1.{at}, 'grad_norm': {nan}, 'step': {at}}}" for at in range(4)]
    assert triage(lines, "failed", 1).name == "numeric_instability"
