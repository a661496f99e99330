"""Mechanisms that a list of messages does not cover: doubt, prefixes, order, proof, never.

A second failure escalates, whoever counts it (C-14); echoes of a launcher's kill are none.

What a program meets while it leaves, and what one that was started again brings about.
"""

from __future__ import annotations

import pytest

from cockpit.rules.triage.exceptions import exceptions
from cockpit.rules.triage.phrases import certain
from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN, raised

PREFIXES = [
    "[rank3]: ",
    "[default3]:",
    " 7: ".lstrip(),
    "(Trainer pid=81, ip=10.0.0.1) ",
    "2026-03-01T10:11:12.123456789Z stderr F ",
    "Mar 01 10:11:12 gpu-7 python[4411]: ",
    "Mar 01 10:11:12 ",
    "1772359872 ",
    "[  812.125] ",
    "2026-03-01 10:11:12,123 - ",
    "E0301 10:11:12.123456 140213 train.py:88] ",
    "[pod/worker-3/pytorch] ",
    "worker-1  | ",
    "gpu-a12: ",
    "2026-03-01 10:11:12.123 | ERROR    | __main__:main:91 - ",
]
UNKNOWN = "<> {7a} 30a8 || "
"""No style that is known: what stands before the traceback stands before all of its lines."""


@pytest.mark.parametrize("prefix", [*PREFIXES, UNKNOWN])
def test_a_traceback_is_found_behind_whatever_stands_before_it(prefix: str) -> None:
    lines = [prefix + line for line in raised("KeyError: 'warm_up'")]
    found = triage([*TRAIN, *lines], "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")
    assert found.code_location is not None and found.code_location.line == 12


def test_a_box_around_a_traceback_is_read() -> None:
    lines = [
        "╭──── Traceback (most recent call last) ────╮",
        "│ /home/ada/toy/run.py:31 in main           │",
        "╰───────────────────────────────────────────╯",
        "KeyError: 'rate'",
    ]
    (found,) = exceptions(lines)
    assert (found.name, found.frames[-1].line) == ("KeyError", 31)


@pytest.mark.parametrize(
    ("line", "left_out"),
    [
        ("the node left (OOM, preempted node, etc.)", "preempted"),
        ("task 3 has failed, got preempted, or crashed", "preempted"),
        ("Either the leader was preempted or the network is bad", "preempted"),
        ("This can happen when a raylet is preempted. It ended", "preempted"),
        ("Press CTRL+C to quit", "CTRL"),
        ("was not preempted", "preempted"),
    ],
)
def test_what_may_have_been_is_left_out(line: str, left_out: str) -> None:
    assert left_out not in certain(line)
    assert certain("the node was preempted at 10:00") == "the node was preempted at 10:00"


@pytest.mark.parametrize(
    "line",
    [
        "Installed signal handlers for SIGINT and SIGTERM",
        "INFO signal: SIGINT handler registered",
        "To cancel this job: scancel 4711",
        "submitted; stop it with scancel 88",
        "trap 'kill 0' SIGINT",
        "#SBATCH --signal=B:SIGINT@120",
    ],
)
def test_how_to_stop_a_job_is_no_word_of_its_stop(line: str) -> None:
    assert triage([line, *TRAIN, "exiting"], "failed", 1).name == "unknown"


@pytest.mark.parametrize(
    "line",
    [
        "Signal handler called with signal SIGINT",
        "terminated by SIGINT",
        "Handling SIGINT: leaving",
        "stopped with scancel",
        "scancel 4711",
    ],
)
def test_a_stop_that_was_met_is_one(line: str) -> None:
    assert triage([*TRAIN, line, "exiting"], "failed", 1).name == "user_stopped"


@pytest.mark.parametrize(
    "line",
    [
        "export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600",
        "heartbeat timeout: 600 s for remote tasks",
        "Walltime limit: 24:00:00",
        "Wall time elapsed: 12.3 s",
        "        Double Bit ECC                    : 0",
        "        Uncorrectable Error               : No",
        "Tolerations: node.kubernetes.io/unreachable:NoExecute op=Exists for 300s",
        "using spot instances, interruption handling on",
        "eviction notice handler installed",
        "will restart on node failure: True",
        "save when time limit reached: True",
    ],
)
def test_what_is_set_and_what_is_counted_as_none_ends_no_job(line: str) -> None:
    found = triage([line, *raised("KeyError: 'warm_up'")], "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("PBS: job killed: walltime 3650 exceeded limit 3600", "walltime"),
        ("Job has reached its wall-clock limit: 04:00:00 of 04:00:00", "walltime"),
        ("The wall time limit was hit", "walltime"),
        ("Coordinator: /job:a/task:3 heartbeat timeout", "node_death"),
        ("worker 7: heartbeat timed out", "node_death"),
        ("XLA: RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes", "oom_device"),
        ("Double Bit ECC : 2", "hardware_fault"),
        ("Spot instance interruption", "preempted"),
    ],
)
def test_what_was_met_ends_it(line: str, name: str) -> None:
    assert triage([*TRAIN, line], "failed", 1).name == name


def test_the_items_of_a_list_of_causes_are_none() -> None:
    lines = ["the worker died. Possible causes:", "  (1) the node was preempted", "  (2) a bug"]
    assert triage([*TRAIN, *lines], "failed", 1).name != "preempted"
    assert triage([*TRAIN, "  (1) the node was preempted"], "failed", 1).name == "preempted"


STEP = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T10:00:00 ***"
LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 10:00:00 DUE TO TIME LIMIT ***"


def test_an_exception_without_frames_comes_before_what_follows_it() -> None:
    alone = [*TRAIN, "KeyError: 'gone'", "srun: error: n1: task 0: Exited with exit code 1", STEP]
    assert triage(alone, "failed", 1).name == "small_code_bug"
    late = [*TRAIN, *raised("ValueError: odd shape"), LIMIT]
    assert triage(late, "TIMEOUT", 1).name == "complex_code_bug"
    assert triage([*TRAIN, LIMIT, *raised("KeyboardInterrupt")], "TIMEOUT", 1).name == "walltime"


def test_what_a_cancelled_job_shouts_is_its_echo() -> None:
    hang = "[rank1] Watchdog caught collective operation timeout: ran for 600001 ms"
    gone = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T10:00:00 ***"
    assert triage([*TRAIN, gone, hang], "cancelled", None).name == "user_stopped"
    assert triage([*TRAIN, hang, gone], "cancelled", None).name == "distributed_hang"


def test_a_fault_that_comes_again_in_one_log_is_no_relaunch() -> None:
    fault = "NVRM: Xid (PCI:0000:1b:00): 63, pid=7, row remapping"
    assert triage([*TRAIN, fault], "failed", 1).action == "relaunch"
    assert triage([*TRAIN, fault, fault, fault], "failed", 1).action == "escalate"
    between = [*TRAIN[:9], fault, *TRAIN[9:], fault]
    assert triage(between, "failed", 1).action == "escalate"


@pytest.mark.parametrize(
    "line",
    [
        "    optimizer-unscale-and-check-inf ................: (16.96, 17.01)",
        "check_for_nan_in_loss_and_grad .................. True",
        "Sequence group 8 is preempted by PreemptionMode.RECOMPUTE mode",
        "0 uncorrectable ECC errors",
        "pcieport 0000:00:03.0: AER: Corrected error received",
    ],
)
def test_words_that_only_sound_bad(line: str) -> None:
    assert triage([*TRAIN[:9], line, *TRAIN[9:]], "running", None).name == "harmless_noise"
    assert triage([*TRAIN, line, STEP], "cancelled", None).name == "user_stopped"


def test_a_job_that_waits_for_its_fellows_is_not_waited_for() -> None:
    refused = "lighthouse: replica 3: connection refused, retrying"
    assert triage([*TRAIN, refused], "running", None).action == "none"
    waits = "manager: still waiting for quorum (900 s)"
    assert triage([*TRAIN, refused, waits], "running", None).action == "escalate"


def test_the_tracker_s_word_at_each_end_is_no_complaint() -> None:
    stop = ["Detected KeyboardInterrupt, attempting graceful shutdown ..."]
    synced = "wandb: Waiting for W&B process to finish... (failed 255)."
    assert triage([*TRAIN, *stop, synced], "failed", 1).name == "user_stopped"
    assert triage([*TRAIN, *stop, "fatal: mesh failed"], "failed", 1).action == "escalate"


def test_what_a_call_is_given_trains_nothing() -> None:
    for code, action in (
        ("row = fmt.fromat(loss=loss)", "fix_then_relaunch"),
        ("loss = fmt.fromat(row)", "escalate"),
    ):
        lines = [
            "Traceback (most recent call last):",
            '  File "/w/reports/table.py", line 9, in row',
            f"    {code}",
            "AttributeError: 'str' object has no attribute 'fromat'",
        ]
        found = triage([*TRAIN, *lines], "failed", 1)
        assert (found.name, found.action) == ("small_code_bug", action)


def test_running_is_harmless_only_with_a_proof_of_progress() -> None:
    for lines in (["falling back to CPU"], ["heartbeat ok, 8 workers"] * 40, []):
        found = triage(lines, "running", None)
        assert (found.name, found.action) == ("unknown", "escalate")
    epochs = [f"{{'loss': 2.{i}, 'epoch': 0.{i}}}" for i in range(10, 30)]
    assert triage(["WARNING: odd", *epochs], "running", None).name == "harmless_noise"


NEVER = [
    "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector.",
    "Error: No available node types can fulfill resource request {'TPU': 64.0}",
    "request > maximum capacity (256 > 128)",
    "requested 512 chips but the largest slice of the pool is 256",
    "sbatch: error: Requested node configuration is not available",
    "no worker group matches the constraint",
    "JobState=PENDING Reason=QOSMaxNodePerJobLimit",
]
LATER = [
    "0/9 nodes are available: 4 node(s) didn't match selector, 5 Insufficient nvidia.com/gpu.",
    "The following resource request cannot be scheduled right now: {'GPU': 8.0}",
    "insufficient unused quota for nvidia.com/gpu in flavor a, 64 more needed",
    "exceeded quota: q, requested: gpu=8, used: gpu=60, limited: gpu=64",
    "There is no more capacity in the zone",
    "JobState=PENDING Reason=QOSMaxGRESPerUser",
]


@pytest.mark.parametrize("line", NEVER)
def test_what_can_never_be_met_is_said_at_once(line: str) -> None:
    found = triage([line], "pending", None)
    assert (found.name, found.action) == ("capacity_wait", "escalate")


@pytest.mark.parametrize("line", LATER)
def test_what_may_be_met_later_is_waited_for(line: str) -> None:
    found = triage([line], "pending", None)
    assert (found.name, found.action) == ("capacity_wait", "wait")


def test_data_that_its_own_reader_rejects_is_the_data_s() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/ada/toy/run.py", line 9, in main',
        '  File "/env/lib/python3.12/site-packages/datasets/load.py", line 3, in load_dataset',
        "ValueError: it is neither one nor the other",
    ]
    assert triage(lines, "failed", 1).name == "data_error"
    one = [*lines[:2], lines[3]]
    assert triage(one, "failed", 1).name == "complex_code_bug"


ENDINGS = [
    ("Compilation failure: unlikely to have enough device memory. Requires 18G", "hbm_exhausted"),
    ("Ran out of memory in memory space vmem while allocating", "hbm_exhausted"),
    ("Job has gone over cgroup memory limit of 65536 megabytes.", "oom_host"),
    ("slurmstepd: error: gres/gpu: Unable to open /dev/nvidia5: Input/output error", "bad_node"),
    ("Job disconnected too long: JobLeaseDuration (2400 seconds) expired", "node_death"),
    ("Worker box-7 lost: no heartbeat for 120s", "node_death"),
    ("Monitored barrier: rank 17 did not call into monitoredBarrier", "distributed_hang"),
    ("Stalled ops: grad_12 [missing ranks: 3, 7]", "distributed_hang"),
    ("multihost barrier 'ckpt' DEADLINE_EXCEEDED after 300s", "distributed_hang"),
    ("active deadline of 24h exceeded", "walltime"),
    ("Caught signal SIGUSR2 on gpu-9: this job is timed-out.", "walltime"),
    ("PreemptionByScheduler: preempting to accommodate a higher priority pod", "preempted"),
    ("node gke-spot-a2: cloud.google.com/impending-node-termination: taint added", "preempted"),
    ("host n4: connection refused, instance status checks 0/2 passed", "node_death"),
    ("[ft] manager: quorum cannot be formed: 3 of 4 participants", "distributed_hang"),
    ("Job canceled by user ada", "user_stopped"),
    ("thread 'main' panicked at src/step.rs:212:17:", "complex_code_bug"),
    ("yaml.scanner.ScannerError: mapping values are not allowed here", "small_code_bug"),
    ("aiohttp.client_exceptions.ServerDisconnectedError: Server gone", "network_transient"),
]
"""How a scheduler, a runtime, a parser or a transport says it, whoever it is."""


@pytest.mark.parametrize(("line", "name"), ENDINGS)
def test_the_mechanism_is_read_and_not_one_program_s_phrase(line: str, name: str) -> None:
    assert triage([*TRAIN, line], "failed", 1).name == name


@pytest.mark.parametrize(
    ("error", "file"),
    [("KeyError: 'OUT_DIR'", "os.py"), ("ValueError: 'trian' is not a valid Mode", "enum.py")],
)
def test_what_python_s_own_library_raises_its_caller_has_asked_for(error: str, file: str) -> None:
    *frames, last = raised(error)
    inner = f'  File "/usr/lib/python3.11/{file}", line 680, in __getitem__'
    found = triage([*TRAIN, *frames, inner, "    raise", last], "failed", 1)
    assert found.name == "small_code_bug"
    assert found.code_location is not None and "/usr/lib" not in found.code_location.file


@pytest.mark.parametrize("setting", ["on_oom=abort", "nan_policy: abort", "preempt_mode=requeue"])
def test_a_policy_says_what_would_happen_and_not_what_has(setting: str) -> None:
    assert certain(f"{setting} set").strip() == "set"


def test_what_a_line_of_training_imports_alters_no_training() -> None:
    end = raised("ModuleNotFoundError: No module named 'optim'")
    imports = [*end[:2], "    from optim.lion import Lion", end[3]]
    trains = [*end[:2], "    loss = model(batch)", end[3]]
    assert triage(imports, "failed", 1).action == "fix_then_relaunch"
    assert triage(trains, "failed", 1).action == "escalate"


MORE = [f"step {i} | loss 2.5" for i in range(31, 40)]
KILL = "[sup] trainer ended: rc=137 at step 12"
XID = "kernel: NVRM: Xid (PCI:0000:5d:00): 79, GPU has fallen off the bus."
LOST = "node 10.0.0.4 is dead"


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        ([*TRAIN, KILL], "relaunch"),
        (["[sup] attempt 2 (attempt 1: rc=137 at step 12)", *TRAIN, KILL], "escalate"),
        ([*TRAIN, KILL, "[sup] giving up: 2 deaths in the same window"], "escalate"),
        ([*TRAIN, KILL, "Back-off restarting failed container trainer"], "escalate"),
        ([*TRAIN, KILL, "BackoffLimitExceeded"], "escalate"),
        ([*TRAIN, KILL, "max_restarts=3 reached"], "escalate"),
        ([*TRAIN, KILL, "restart budget exhausted (3 of 3)"], "escalate"),
        ([*TRAIN, KILL, "it died again at the same step as last time"], "escalate"),
        ([*TRAIN, KILL, "t-0    0/1     Error    4 (2m ago)   3h"], "escalate"),
        ([*TRAIN, KILL, "t-0    0/1     Error    0   3h"], "relaunch"),
        ([*TRAIN, KILL, "uploading: 3 failures, heartbeat sent"], "relaunch"),
        ([*TRAIN, KILL, "Trial train_1 failed 3 times (max_failures=3)"], "escalate"),
        ([*TRAIN, KILL, "the replica exceeded the restart limit"], "escalate"),
        ([*TRAIN, KILL, "attempt 3 of 3 failed"], "escalate"),
        ([*TRAIN, KILL, "attempt 1 of 3 failed"], "relaunch"),
        ([*TRAIN, KILL, "the previous run ended likewise, with exit 137 too"], "escalate"),
        ([*TRAIN, KILL, "[policy] utilization below 10 % for 2 h"], "escalate"),
        (
            ["attempt 3 (attempt 1 link lost on n4; attempt 2 link lost on n4)", *TRAIN, KILL],
            "escalate",
        ),
        (
            ["attempt 3 (attempt 1 disk lost on n4; attempt 2 link lost on n7)", *TRAIN, KILL],
            "relaunch",
        ),
        # A history of several starts, before this one or after it; ranks are no starts.
        ([*TRAIN, KILL, "history: i001 137, i002 137"], "escalate"),
        (["history: i001 137, i002 137", *TRAIN, KILL], "escalate"),
        ([*TRAIN, KILL, "i001  137  step 12", "i002  137  step 40"], "escalate"),
        ([*TRAIN, KILL, "history: i001 1, i002 0", "history: i001 139, i002 139"], "escalate"),
        ([*TRAIN, KILL, "history: i001 137, i002 1"], "relaunch"),
        ([*TRAIN, KILL, "history: i001 0, i002 0, i003 137"], "relaunch"),
        ([*TRAIN, KILL, "rank 0: 137, rank 1: 137"], "relaunch"),
        (["run 1 of 3: failed, run 2 of 3: failed", *TRAIN, KILL], "escalate"),
        (["up to 3 restarts allowed, max 5 failures, 2 restarts left", *TRAIN, KILL], "relaunch"),
        # What is told of starts before this one, its training cannot have overcome.
        (["[sup] 2 deaths so far", *TRAIN, KILL], "escalate"),
        ([*TRAIN, "the loader died twice", *MORE, KILL], "relaunch"),
        ([*TRAIN, XID], "relaunch"),
        ([*TRAIN, XID, "third failure on this node, giving up"], "escalate"),
        ([*TRAIN, LOST], "relaunch"),
        ([*TRAIN, LOST, "restarting from 10", *TRAIN, LOST], "escalate"),
        ([*TRAIN, LOST, LOST], "relaunch"),
    ],
)
def test_what_came_before_comes_again(lines: list[str], action: str) -> None:
    assert triage(lines, "failed", 1).action == action


SRUN = "srun: error: c1: tasks 0-6: Killed"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["srun: error: c1: task 7: Exited with exit code 1", SRUN], "unknown"),
        ([SRUN, "srun: error: c1: task 7: Exited with exit code 1"], "killed"),
        (["trainer-2 exited with code 1", "trainer-0 exited with code 137"], "unknown"),
        (["trainer-2 exited with code 137", "trainer-0 exited with code 1"], "killed"),
        (["rank 5 (pid 4) exited with status 2", "rank 0 was killed by signal 9"], "unknown"),
    ],
)
def test_a_launcher_s_kill_is_no_cause(lines: list[str], name: str) -> None:
    assert triage([*TRAIN, *lines], "failed", 137).name == name


@pytest.mark.parametrize(
    "said",
    [
        "The replica workerpool0-0 exited with a non-zero status of 137. To find out more",
        "  exitcode  : -9 (pid: 4711)",
        '{"exitCode": 137, "reason": "Error"}',
        "container terminated: exit status was 137",
        "process 7 exited with 137",
    ],
)
def test_an_exit_status_is_read_however_it_is_put(said: str) -> None:
    found = triage([*TRAIN, said], "failed", 1)
    assert (found.name, found.action) == ("killed", "relaunch")
    other = triage([*TRAIN, said.replace("137", "1").replace("-9", "1")], "failed", 1)
    assert (other.name, other.action) == ("unknown", "escalate")


def test_a_replica_that_ended_by_itself_comes_before_the_others_kills() -> None:
    ended = "The replica workerpool0-0 exited with a non-zero status of 1."
    killed = "The replica workerpool1-0 exited with a non-zero status of 137."
    assert triage([*TRAIN, ended, killed], "failed", 137).name == "unknown"
    assert triage([*TRAIN, killed, ended], "failed", 137).name == "killed"


@pytest.mark.parametrize(
    ("said", "action"),
    [
        (["received SIGTERM, shutting down"], "escalate"),
        (["caught signal 15, saving", "saved checkpoint step 30"], "escalate"),
        (["received SIGTERM, ignored", *MORE], "relaunch"),
        (["Sending process 7 closing signal SIGTERM", "rank 1: received SIGTERM"], "relaunch"),
        (["SIGTERM handler installed"], "relaunch"),
    ],
)
def test_what_was_told_to_leave_and_then_killed_is_for_a_person(
    said: list[str], action: str
) -> None:
    found = triage([*TRAIN, *said], "failed", 137)
    assert (found.name, found.action) == ("killed", action)


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        ([KILL, "job has been requeued"], "wait"),
        (["job has been requeued", *MORE, KILL], "relaunch"),
        (["job has been requeued", "job 7 begins", KILL], "relaunch"),
        ([LOST, "slurmctld: Requeuing JobId=7"], "wait"),
        ([KILL, "Requeue=1 is set, the job was not requeued"], "relaunch"),
    ],
)
def test_what_comes_back_by_itself_is_not_launched_beside_it(lines: list[str], action: str) -> None:
    assert triage([*TRAIN, *lines], "failed", 1).action == action


@pytest.mark.parametrize("end", ["137:0", "0:9"])
@pytest.mark.parametrize("row", ["{}     train  FAILED   {}", "{}|train|FAILED|{}|"])
def test_a_row_of_a_scheduler_tells_exit_and_signal(row: str, end: str) -> None:
    once = triage([*TRAIN, row.format(812, end), row.format("812.batch", end)], "failed", None)
    assert (once.name, once.action) == ("killed", "relaunch")
    twice = triage([*TRAIN, row.format(811, end), row.format(812, end)], "failed", None)
    assert (twice.name, twice.action) == ("killed", "escalate")
    assert triage([*TRAIN, row.format(812, "1:0")], "failed", None).name == "unknown"


@pytest.mark.parametrize(
    "row", ["812  train  CANCELLED by 1000   0:9", "812  train  CANCELLED+  0:9"]
)
def test_a_row_of_a_job_that_was_cancelled_forbids_its_relaunch(row: str) -> None:
    assert triage([*TRAIN, row, "Killed"], "failed", 137).action == "escalate"


RAISED = [
    "Traceback (most recent call last):",
    '  File "/home/ada/train.py", line 80, in main',
    "    batch = next(loader).shape",
    "AttributeError: 'NoneType' object has no attribute 'shape'",
]
TAKEN = "slurmstepd: error: *** JOB 71 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO PREEMPTION ***"
TRAINED = [f"step {at} loss 2.{at}" for at in range(1, 8)]


@pytest.mark.parametrize(("between", "action"), [(0, "relaunch"), (60, "escalate")])
def test_what_was_raised_far_below_a_preemption_is_of_another_start(
    between: int, action: str
) -> None:
    start = [f"reading shard {at} of the corpus" for at in range(between)]
    found = triage([*TRAINED, TAKEN, *start, *RAISED], "failed", 1)
    assert (found.name, found.action) == ("preempted", action)
