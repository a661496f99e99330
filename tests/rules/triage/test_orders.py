"""Lines that do not stand where they were written: LSF's report, records, several starts.

Who ended a job: a person is nobody's timeout, server or handler of a signal.

What lies above a log, before it in time or beside a word, and ended something else.
"""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN

START = "wandb: Tracking run with wandb version 0.31.0"
RECORD = (
    r"""{"msg": "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in f\n"""
    r"""ValueError: x"}"""
)


def report(*lines: str) -> list[str]:
    return [*lines, "", "Resource usage summary:", "", "The output (if any) follows:", ""]


@pytest.mark.parametrize(
    ("said", "code", "answer"),
    [
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", 140, "walltime"),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", 1, "oom_host"),
        ("TERM_OWNER: job killed by owner.", 1, "user_stopped"),
        ("Exited with exit code 137.", 1, "killed"),
        ("Exited with exit code 1.", 1, "unknown"),
    ],
)
def test_a_report_above_the_output_tells_of_its_end(said: str, code: int, answer: str) -> None:
    found = triage([*report(said), *TRAIN], "failed", code)
    assert found.name == answer
    assert answer == "unknown" or said in [line.text for line in found.evidence]


def test_of_several_reports_the_last_is_of_the_last_output() -> None:
    first = report("Sender: LSF System <lsf@a>", "TERM_MEMLIMIT: job killed after reaching it")
    last = report("Sender: LSF System <lsf@a>", "TERM_RUNLIMIT: job killed after reaching it")
    lines = [*first, *TRAIN, *last, *TRAIN]
    assert triage(lines, "failed", 140).name == "walltime"


def test_words_of_a_program_are_no_report() -> None:
    lost = "Watchdog caught collective operation timeout"
    lines = [*TRAIN[:3], lost, "The output (if any) follows:", *TRAIN[3:5]]
    assert triage(lines, "failed", 1).evidence[0].line == 4
    assert triage([*TRAIN, lost, *report()[-2:]], "failed", 1).name == "distributed_hang"


def test_a_record_that_holds_a_traceback_does_not_shift_where_a_job_begins() -> None:
    lines = [RECORD, *TRAIN[:4], START, "step 5 | loss nan", "Killed"]
    found = triage(lines, "failed", 137)
    assert (found.name, found.step) == ("numeric_instability", 5)
    assert found.read is not None
    assert found.read.lines == 3


def test_the_step_is_of_this_start_alone() -> None:
    assert triage([*TRAIN, RECORD, START, "Killed"], "failed", 137).step is None
    assert triage([*TRAIN, RECORD, START, TRAIN[0], "Killed"], "failed", 137).step == 1


XID = "NVRM: Xid (PCI:0000:4b:00): 92, pid=0, High single-bit ECC error rate"
ORDER = "slurmstepd: error: *** JOB 62001 ON g11 CANCELLED AT 2026-06-11T14:05:02 ***"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([XID, *TRAIN[20:24], ORDER], ("user_stopped", "none")),
        ([XID, ORDER], ("hardware_fault", "relaunch")),
        ([ORDER, XID], ("user_stopped", "none")),
        (["grad norm nan", *TRAIN[20:22], ORDER], ("numeric_instability", "escalate")),
    ],
)
def test_what_training_had_outlived_did_not_end_what_somebody_cancelled(
    lines: list[str], said: tuple[str, str]
) -> None:
    found = triage([*TRAIN[:20], *lines], "cancelled", None)
    assert (found.name, found.action) == said


LOST = [f"{{'loss': 0.0, 'grad_norm': nan, 'epoch': 2.{i}}}" for i in range(1, 4)]
SKIPPED = [f"step {i} | loss nan | update skipped" for i in (31, 32, 33)]


def test_gradients_that_are_no_numbers_are_lost_numbers() -> None:
    assert triage([*TRAIN, *LOST], "succeeded", 0).name == "numeric_instability"
    assert triage([*TRAIN, *LOST[:2]], "succeeded", 0).name == "success"
    back = "{'loss': 2.1, 'grad_norm': 0.2, 'epoch': 2.5}"
    assert triage([*TRAIN, *LOST, back], "succeeded", 0).name == "success"


def test_a_guess_is_no_cause_beside_lost_numbers() -> None:
    guess = "tracker: upload of 2 files timed out"
    assert triage([*TRAIN, guess], "failed", 1).name == "network_transient"
    assert triage([*TRAIN, *SKIPPED, guess], "failed", 1).name == "numeric_instability"


def test_a_task_that_ended_by_itself_is_no_kill_whatever_the_last_status() -> None:
    ended = "trainer-2 exited with code 1"
    found = triage([*TRAIN, ended], "failed", 137)
    assert (found.name, found.action) == ("unknown", "escalate")
    assert triage([*TRAIN, "  exitcode  : 1 (pid: 4)"], "failed", 137).name == "unknown"


FAILS = "ERROR could not write checkpoint out/step-30: Permission denied"
MORE = [f"step {i} | loss 2.5 | 81k tok/s" for i in range(31, 60)]


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        ([FAILS, *MORE], "escalate"),
        ([FAILS, *MORE, "saved checkpoint out/step-59", *MORE[-3:]], "none"),
        ([f"{FAILS}, retrying in 3 s", *MORE], "none"),
        (["could not load tokenizer cache", *MORE], "none"),
    ],
)
def test_a_run_that_cannot_save_is_not_fine_for_training_on(lines: list[str], action: str) -> None:
    assert triage([*TRAIN, *lines], "running", None).action == action


@pytest.mark.parametrize(
    "said",
    ["Killed", "srun: error: n1: task 3: Exited with exit code 1", "  exitcode  : 1 (pid: 4)"],
)
def test_a_task_s_own_end_contradicts_a_success_unless_training_was_through(said: str) -> None:
    found = triage([*TRAIN, said], "succeeded", 0)
    assert (found.name, found.action) == ("unknown", "escalate")
    for through in ("Training completed", "step 30/30 | loss 2.1"):
        assert triage([*TRAIN, through, said], "succeeded", 0).name == "success"
    assert triage([*TRAIN, said, *MORE], "succeeded", 0).name == "success"


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("OSError: [Errno 28] No space left on device", "failed"),
        ("wandb.errors.CommError: Run initialization has timed out after 90.0 sec.", "failed"),
        ("job preempted, requeued", "pending"),
    ],
)
def test_what_is_mended_or_waited_for_would_go_on_with_lost_numbers(said: str, state: str) -> None:
    assert triage([*TRAIN, said], state, None).action in ("fix_then_relaunch", "wait")
    found = triage([*TRAIN, *(f"step {i} | loss nan" for i in (31, 32, 33)), said], state, None)
    assert (found.name, found.action) == ("numeric_instability", "escalate")


KUBECTL = ["    State:          Terminated", "      Reason:       OOMKilled"]


@pytest.mark.parametrize(
    ("above", "heading", "answer"),
    [
        (KUBECTL, "--- logs", "oom_host"),
        (KUBECTL, "=== logs (previous) ===", "oom_host"),
        (KUBECTL, "last log lines:", "oom_host"),
        (KUBECTL, "$ kubectl logs train-0 --previous", "oom_host"),
        (KUBECTL, "==> /runs/a/train.log <==", "oom_host"),
        (["Status: Failed", "The node was low on resource: ephemeral-storage."], "-- log --",
         "disk_full"),
        (["sacct: State NODE_FAIL", "Nodes n7 not responding, setting DOWN"], "--- tail ---",
         "node_death"),
    ],
)  # fmt: skip
def test_what_is_gathered_above_a_log_tells_of_its_end(
    above: list[str], heading: str, answer: str
) -> None:
    found = triage([*above, heading, *TRAIN], "failed", 137)
    assert found.name == answer
    assert {line.line for line in found.evidence} <= {1, 2}
    assert triage(["cuda ready", *above, heading, *TRAIN], "failed", 137).name == answer


def test_an_earlier_end_above_the_log_of_a_job_that_runs_is_over() -> None:
    lines = ["    Last State:     Terminated", *KUBECTL[1:], "--- logs", *TRAIN]
    assert triage(lines, "running", None).action == "none"


def test_a_heading_below_training_moves_nothing() -> None:
    lines = [*TRAIN, "worker exited with code -9, starting it again", "--- logs", *TRAIN]
    assert [line.line for line in triage(lines, "failed", None).evidence][-1] == len(lines)


def stamped(minute: int, said: str) -> str:
    return f"2026-06-16 12:{minute:02}:00 {said}"


CUT = "slurmstepd: error: *** STEP 7.0 ON gh-1 CANCELLED AT 2026-06-16T12:39:00 DUE TO PREEMPTION"


@pytest.mark.parametrize(
    ("said", "answer"),
    [(CUT, "preempted"), (stamped(39, "worker w-9 missed 6 heartbeats"), "node_death")],
)
def test_what_was_written_later_is_not_outlived_by_lines_that_came_out_behind_it(
    said: str, answer: str
) -> None:
    training = [stamped(minute, f"step {minute} loss 2.5") for minute in range(30)]
    later = [stamped(40 + minute, f"step {30 + minute} loss 2.5") for minute in range(20)]
    assert triage([said, *training], "failed", None).name == answer
    assert triage([said, *training, *later], "failed", None).name == "killed"


def test_a_stamp_of_another_zone_puts_nothing_out_of_its_place() -> None:
    said = "Jun 16 14:35:00 kernel: worker w-9 missed 6 heartbeats"
    training = [stamped(minute, f"step {minute} loss 2.5") for minute in range(30)]
    assert triage([said, *training], "failed", None).name == "killed"


@pytest.mark.parametrize(
    "said",
    [
        "grpc: RPC canceled by server",
        "future cancelled by executor shutdown",
        "context canceled by parent",
        "run cancelled by autoscaler",
        "request 7 was cancelled by mistake of a client",
        "dataloader: workers ignore SIGINT",
        "worker 3: ignoring SIGINT",
        "SIGINT trapped, saving then",
        "signal.signal(signal.SIGINT, handler)",
        "job 77 was cancelled because its dependency failed",
        "sweep agent: trial 4 stopped by user-defined early stopping",
        "terminated by user code: sys.exit(1)",
        "no stop file found",
        "stop flag not found",
        "stop_flag=False seen",
        "stop file exists: no",
        "checking whether stop file exists",
        "exiting process on request overflow",
        "exited with code 1 on request failure",
        "saving user-initiated snapshot",
        "job 77 was stopped by the maintenance controller",
        "pod cancelled by eviction manager",
        "job cancelled by memory limit",
        "ERROR: cancelled by SIGTERM",
        "task: cancelled by all-reduce abort",
        "KeyboardInterrupt is handled by saving",
        "received SIGINT in dataloader worker, ignored",
        "sigint=default",
        "eval job 12 was cancelled",
        "docker stop timeout 30",
    ],
)
def test_what_no_person_has_stopped_is_not_left_alone(said: str) -> None:
    found = triage([*TRAIN, said], "failed", 1)
    assert (found.name, found.action) == ("unknown", "escalate")


@pytest.mark.parametrize(
    "said",
    [
        "job 812 cancelled by mk",
        "812|CANCELLED by 20114|0:15",
        "State: CANCELLED by 20114",
        "CANCELLED by mk",
        "run was cancelled by user",
        "received SIGINT, stopping",
        "job 77 was cancelled",
        "stop file found: /runs/q7/STOP",
        "exited with code 0 on request",
        "stopped on request at step 9003",
    ],
)
def test_what_a_person_has_stopped_is_left_alone(said: str) -> None:
    found = triage([*TRAIN, said], "failed", 1)
    assert (found.name, found.action) == ("user_stopped", "none")


@pytest.mark.parametrize(
    "said",
    [
        "requests.exceptions.ProxyError: Max retries exceeded: Tunnel connection failed: 403",
        "botocore.exceptions.ClientError: (ExpiredToken) connection error: the token has expired",
        "google.auth.exceptions.TransportError: invalid_grant: connection error",
    ],
)
def test_an_identity_that_is_refused_is_refused_again(said: str) -> None:
    assert triage([*TRAIN, said], "failed", 1).action == "escalate"
    assert (
        triage([*TRAIN, "requests.exceptions.ProxyError: Max retries exceeded"], "failed", 1).action
        == "relaunch"
    )


def test_who_was_told_to_leave_before_it_told_its_workers_is_not_started_again() -> None:
    received = "Received Signals.SIGTERM death signal, shutting down workers"
    sent = "Sending process 31 closing signal SIGTERM"
    ordered = triage([*TRAIN, received, sent, "Killed"], "failed", 137)
    assert (ordered.name, ordered.action) == ("killed", "escalate")
    launcher = triage([*TRAIN, "Killed", sent, received], "failed", 137)
    assert (launcher.name, launcher.action) == ("killed", "relaunch")


@pytest.mark.parametrize(
    "said",
    [
        "supervisor: run paused by owner, killing workers",
        "supervisor: stop button pressed, killing process group",
        "received stop command from dashboard",
        "controller: desired replicas 0, scaling down",
        "hyperband: stopping bad trial",
        "run killed: superseded by job 812",
        "lock taken by other host, killing self",
        "Job 812 was killed by root",
        "quota exceeded: killing lowest priority job",
        "kill -s KILL 8123",
        "systemd[1]: train.service: State 'stop-sigterm' timed out. Killing.",
        "tmux kill-session -t train",
        "rolling update: terminating old replica",
        "SIGHUP received",
    ],
)
def test_a_kill_that_somebody_may_have_decided_is_not_undone(said: str) -> None:
    found = triage([*TRAIN, said, "Killed"], "failed", 137)
    assert (found.name, found.action) == ("killed", "escalate")


@pytest.mark.parametrize("said", ["controller: job suspended", "trial 7 pruned", "scaled to 0"])
def test_a_log_that_stops_after_an_order_did_not_just_stop(said: str) -> None:
    assert triage(TRAIN, "failed", None).action == "relaunch"
    assert triage([*TRAIN, said], "failed", None).action == "escalate"


@pytest.mark.parametrize(
    "said",
    [
        "Killing subprocess 4411",
        "Sending process 31 closing signal SIGTERM",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "Removed old checkpoint /runs/run/ckpt-100",
        "pruned 3 old checkpoints",
        "process terminated by signal: Killed",
        "rank 3 killed by kernel",
        "Job id 812 (killed)",
        "rollout done, policy loss 0.31, policy/kl 0.02",
    ],
)
def test_what_a_launcher_tells_of_a_kill_is_no_order(said: str) -> None:
    found = triage([*TRAIN, said, "Killed"], "failed", 137)
    assert (found.name, found.action) == ("killed", "relaunch")


ENDS = {
    "network_transient": "requests.exceptions.ConnectionError: Connection reset by peer",
    "node_death": "ray: node n1 is dead",
    "hardware_fault": "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
    "preempted": "spot instance interrupted: preempted",
    "walltime": "job reached its time limit",
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize(
    "said",
    [
        "vm deleted by mk",
        "run paused by owner",
        "received stop command from dashboard",
        "superseded by job 813",
        "lock taken by other host",
    ],
)
def test_an_order_beside_another_end_leaves_its_relaunch_to_a_person(name: str, said: str) -> None:
    for lines in ([said, ENDS[name]], [ENDS[name], said]):
        found = triage([*TRAIN, *lines], "failed", 1)
        assert (found.name, found.action) == (name, "escalate")


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize(
    "said",
    [
        "pod deleted by taint manager",
        "instance terminated by the platform",
        "Job suspended",
        "process terminated by signal 15",
    ],
)
def test_what_a_cloud_takes_away_is_no_person_s_order(name: str, said: str) -> None:
    assert triage([*TRAIN, ENDS[name], said], "failed", 1).action == "relaunch"


DEAD = "node n17 is dead, using n18"
OWN_TIMES_XID = "Xid 79: GPU has fallen off the bus"


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
    lines = [*report, *steps(1, 6), f"{OWN_TIMES_XID}, drain the node", *steps(6, 9)]
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
        ([*steps(1, 6), OWN_TIMES_XID, "job failed 3 times (upstream recv)"], "failed", 1,
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
