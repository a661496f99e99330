"""What else could have printed the words by which a run is launched again, or left alone.

Lines that stand where they are no cause: dumps, events above a log, quoted words, lists.
"""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN, raised

PREEMPTED = "slurmstepd: error: *** JOB 7 ON n4 CANCELLED AT 2026-02-01T08:10 DUE TO PREEMPTION ***"
LIMIT = "slurmstepd: error: *** JOB 7 ON n4 CANCELLED AT 2026-02-01T08:10 DUE TO TIME LIMIT ***"
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8) ran for 600000 ms"
CANCELLED = "slurmstepd: error: *** JOB 8 ON n5 CANCELLED AT 2026-02-02T09:10:00 ***"
USAGE = ["usage: train.py [-h] [--fp16 FP16]", "train.py: error: argument --fp16: bad value: s"]
CRASHED = "[n5:123] Signal: Segmentation fault (11)"
KILLED_IT = "slurmstepd: error: Detected 1 oom_kill event in StepId=8.0. Some were OOM Killed."
FULL = raised("OSError: [Errno 28] No space left on device")
LOST = raised("ValueError: no such mesh: 4x8")
SHAPES = raised("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x4)")
REFUSED = "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host s3.lab:443"
MORE = [f"step {step} loss 2.1" for step in (90, 91, 92)]
READ = 'botocore.exceptions.ReadTimeoutError: Read timeout on "s3://b/shard-0013.tar"'
SLOW = "503 Slow Down"
LOADER = raised("ConnectionError: Caught ConnectionError in DataLoader worker process 8.")
CHILD = raised("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")
PIPE = [
    "Traceback (most recent call last):",
    '  File "/opt/lib/python3.11/multiprocessing/connection.py", line 399, in _recv',
    "ConnectionResetError: [Errno 104] Connection reset by peer",
]


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        # The job had been taken away, began again, and failed by itself.
        ([PREEMPTED, "Requeued, attempt 2", *SHAPES], 1, ("complex_code_bug", "escalate")),
        ([LIMIT, "---- job 8 begins ----", *SHAPES], 1, ("complex_code_bug", "escalate")),
        ([PREEMPTED, "Requeued, attempt 2"], 1, ("preempted", "wait")),
        # A second start that wrote into the same file, and ended otherwise.
        ([LIMIT, CANCELLED], 1, ("walltime", "escalate")),
        ([LIMIT, *FULL], 1, ("walltime", "escalate")),
        ([PREEMPTED, *LOST], 1, ("preempted", "escalate")),
        (
            [*raised("RuntimeError: CUDA error: uncorrectable ECC error encountered"), *USAGE],
            2,
            ("hardware_fault", "escalate"),
        ),
        ([LIMIT, "Segmentation fault (core dumped)"], 139, ("walltime", "escalate")),
        ([LIMIT, CRASHED], 139, ("walltime", "escalate")),
        ([LIMIT, CANCELLED.replace("JOB", "STEP")], 1, ("walltime", "escalate")),
        ([LIMIT, "OSError: [Errno 28] No space left on device"], 1, ("walltime", "escalate")),
        ([PREEMPTED, KILLED_IT], 137, ("preempted", "escalate")),
        ([LIMIT, *raised("RuntimeError: received SIGTERM in save")], 1, ("walltime", "relaunch")),
        # Code that is wrong is no scheduler's doing; closed files and lost objects are.
        ([PREEMPTED, *raised("KeyError: 'state'")], 1, "preempted"),
        (["INFO: may be preempted", "job 99 was preempted", *SHAPES], 1, "complex_code_bug"),
        ([LIMIT, *raised("ValueError: I/O operation on closed file")], 1, "walltime"),
        ([PREEMPTED, *raised("AssertionError: can only join a child process")], 1, "preempted"),
        (["preempted; attempt 3 of 100 starting", "ValueError: bad mesh"], 1, "complex_code_bug"),
        (["job 8123 was cancelled by user mk", *SHAPES], 1, ("complex_code_bug", "escalate")),
        # Ranks that waited for each other until the time was up.
        ([WATCHDOG, LIMIT], 1, ("distributed_hang", "escalate")),
        ([LIMIT, WATCHDOG], 1, ("walltime", "relaunch")),
        ([WATCHDOG, *MORE, LIMIT], 1, ("walltime", "relaunch")),
        (["sacct: 99|TIMEOUT|0:15"], None, ("walltime", "relaunch")),
        (["HeartbeatMonitor: no heartbeat for 480 s"], 1, ("distributed_hang", "escalate")),
        # Kills: by a person, by a probe that had waited, by nobody who is named.
        (["operator mk: kill -9 4411", "Killed"], 137, ("killed", "escalate")),
        (["Container train failed liveness probe"], 137, ("killed", "escalate")),
        (["Killed"], 137, ("killed", "relaunch")),
        (["psutil: rss 503.1 GiB of 503.5 GiB", "Killed"], 137, ("oom_host", "escalate")),
        (["MemAvailable 312 MB (0.1%)", "Killed"], 137, ("oom_host", "escalate")),
        (["host memory used 41%", "Killed"], 137, ("killed", "relaunch")),
        (["task 0 killed: memory 512.3Gi > limit 512Gi"], None, ("oom_host", "escalate")),
        (["[mem] used=1003.1G total=1007.5G", "Killed"], 137, ("oom_host", "escalate")),
        (["Mem: 1007 1001 2 0 4 3", "Killed"], 137, ("oom_host", "escalate")),
        (["Mem: 1007 211 796 0 12 790", "Killed"], 137, ("killed", "relaunch")),
        # Training was through, or somebody stopped something else long before.
        (["Training completed", "Killed"], 137, ("killed", "escalate")),
        (["[after training is done]", "Killed"], 137, ("killed", "relaunch")),
        (["job 91 was cancelled by mk", *MORE, "exit 1"], 1, ("unknown", "escalate")),
        # What goes on from a loss that had left its trend is spoilt.
        (
            ["step 9 loss 9.1", "step 10 loss 9.3", "step 11 loss 9.2", PREEMPTED],
            1,
            ("numeric_instability", "escalate"),
        ),
        # A network that answers, or lies on the machine itself, is no trouble of the way.
        ([REFUSED], 1, ("network_transient", "relaunch")),
        ([REFUSED, "starting again", REFUSED], 1, ("network_transient", "escalate")),
        (raised("requests.exceptions.SSLError: certificate has expired"), 1, "complex_code_bug"),
        (raised("ConnectionError: host='localhost', port=8000: refused"), 1, "complex_code_bug"),
        (PIPE, 1, ("complex_code_bug", "escalate")),
        # Told to leave, by nobody knows whom.
        (["Terminated"], 143, ("user_stopped", "escalate")),
        (["received SIGTERM from pid 7 (uid 1001 mk)"], 143, ("user_stopped", "none")),
        (["upstream: run tok-7 was stopped by user jo", "ERROR giving up"], 1, "unknown"),
        # What was met was met and dealt with; counters of none; lists of words.
        (["eval: torch.OutOfMemoryError caught", *MORE, LIMIT], None, ("walltime", "relaunch")),
        (["MemAvailable 811 GB, oom_kill 0"], 137, ("killed", "relaunch")),
        (["memory.current=63.8G memory.max=64.0G oom_kill 0 -> 1"], 137, ("oom_host", "escalate")),
        (["mon: cgroup memory.current=63.8G memory.max=64.0G"], 137, ("oom_host", "escalate")),
        (["I0912 rules: OOM, Xid, NaN, preempted -> page"], None, ("unknown", "escalate")),
        (["ssh: connect to host g14 port 22: No route to host"], 255, ("node_death", "relaunch")),
        (["ssh: connect to host git.lab.org port 22: No route to host"], 128, "network_transient"),
        # A loader's worker that lost its connection, a server that is at fault itself.
        (LOADER, 1, ("network_transient", "relaunch")),
        ([READ], 1, ("network_transient", "relaunch")),
        ([f"RuntimeError: upload failed: {SLOW}"], 1, ("network_transient", "relaunch")),
        (
            raised("ValueError: Error reading c4.zarr: internal error. Please try again."),
            1,
            ("network_transient", "relaunch"),
        ),
        # A launcher's exception tells nothing that its program has not said.
        (["train.py: error: unrecognized arguments: --lr", *CHILD], 2, "small_code_bug"),
        (raised("LossSpikeError: Training stopped due to a loss spike."), 1, "numeric_instability"),
        # Devices and trackers.
        (["NVRM: Xid 48, DBE", "healthd: cordon node gpu-14"], 1, ("hardware_fault", "escalate")),
        (["Accelerator device halted prematurely"], 1, ("hardware_fault", "relaunch")),
        (["mlflow: tracking server heartbeat lost"], 1, ("unknown", "escalate")),
        (["RendezvousClosedError"], 1, ("distributed_hang", "escalate")),
        (["Session time limit of 12:00:00 reached"], None, ("walltime", "relaunch")),
    ],
)
def test_thin_evidence_is_for_a_person_and_good_evidence_stays(
    lines: list[str], code: int | None, said: str | tuple[str, str]
) -> None:
    found = triage([*TRAIN, *lines], "failed", code)
    assert said in ((found.name, found.action), found.name)


BARS = [f"5%|# | {at}/9000 [11:02:{at}<10:20:{at}, 3.2s/it]" for at in range(10, 40)]
STAMPED = [f"2026-02-01 05:00:{second} step {second} loss 2.1" for second in (10, 20, 30)]


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        ([*STAMPED, "2026-02-01 05:01:00 up", "2026-02-01 07:01:00 up"], "escalate"),
        ([*STAMPED, "2026-02-01 05:01:00 up", "2026-02-01 05:21:00 up"], "none"),
        # Two clocks, of two zones: nothing is known of the time between them.
        ([*STAMPED, "07:01:00 a warning"], "none"),
        (["[23:50:01] step 1 loss 2", "[23:59:01] step 2 loss 2", "[00:10:01] up"], "none"),
        (["[23:50:01] step 1 loss 2", "[23:59:01] step 2 loss 2", "[00:50:01] up"], "escalate"),
        # What is left of a run is no time of day, and no calendar has a day 0.
        ([*BARS, "[05:00:00] up", "[07:00:00] up"], "escalate"),
        ([*BARS, "[12:00:00] WARNING: slow"], "none"),
        (["step 1 loss 2 eta: 10:00:00", "[12:00:00] WARNING: slow"], "none"),
        (["2026-01-00 05:00:00 step 1 loss 2", "2026-01-10 05:00:00 WARNING: slow"], "none"),
        # As slow as ever.
        ([f"2026-02-0{day} 05:00:00 step {day} loss 2" for day in (1, 2, 3)], "none"),
        ([*STAMPED, "wandb: Network error (ReadTimeout), entering retry loop."], "none"),
        ([*STAMPED, *["503 Server Error, retrying"] * 40], "escalate"),
        ([*STAMPED, *["W: retry after a hiccup"] * 40], "escalate"),
        (["Resuming training from step 4001", "WARNING: compiling takes a while"], "escalate"),
        ([*STAMPED, "stats: decoded=4118 failed=2 killed=0"], "none"),
        ([*STAMPED, "preemption notice received, 30 s left"], "wait"),
        ([*STAMPED, PREEMPTED, "resumed at step 30", "step 31 loss 2", "step 32 loss 2"], "none"),
        ([*STAMPED, "still waiting for the barrier", "up"], "escalate"),
        ([*STAMPED, "worker 3 exited with exit code -9, waiting for the others"], "escalate"),
        (
            [*STAMPED, "no new log line for 69 min", "py-spy rank 0: all_gather (x.py:1)"],
            "escalate",
        ),
    ],
)
def test_what_runs_is_left_alone_while_it_is_seen_to_move(lines: list[str], action: str) -> None:
    assert triage(lines, "running", None).action == action


def test_a_failure_behind_a_pipe_has_the_exit_status_of_what_came_after_it() -> None:
    found = triage([*TRAIN, *SHAPES], "succeeded", 0)
    assert (found.name, found.action) == ("complex_code_bug", "escalate")
    closed = raised("ValueError: I/O operation on closed file")
    assert triage([*TRAIN, *closed], "succeeded", 0).action == "none"
    for summed in ("Best loss: 1.97", "Final train loss 1.97"):
        assert triage([*TRAIN, *SHAPES, summed], "succeeded", 0).action == "escalate"
    staged = ["Training completed", *TRAIN, *SHAPES]
    assert triage(staged, "succeeded", 0).name == "complex_code_bug"
    for through in ("Training completed", "100%|####| 90/90 [00:03<00:00, 30.1it/s]"):
        assert triage([*TRAIN, through, *SHAPES], "succeeded", 0).action == "none"
    assert triage([*TRAIN, *SHAPES, *MORE], "succeeded", 0).action == "none"


@pytest.mark.parametrize(
    ("file", "function", "what", "action"),
    [
        ("/w/trainer.py", "<module>", "ModuleNotFoundError: No module named 'x'", "fix"),
        ("/w/trainer.py", "run", "NameError: name 'x' is not defined", "escalate"),
        ("/w/moe/models/moe/moe.py", "f", "NameError: name 'x' is not defined", "escalate"),
        ("/w/moe/net.py", "forward", "NameError: name 'x' is not defined", "escalate"),
        ("/data/ada/launch.py", "main", "NameError: name 'x' is not defined", "fix"),
    ],
)
def test_a_line_of_model_loop_or_data_is_for_a_person(
    file: str, function: str, what: str, action: str
) -> None:
    frame = f'  File "{file}", line 3, in {function}'
    found = triage(["Traceback (most recent call last):", frame, what], "failed", 1)
    assert found.action.startswith(action)


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (["(autoscaler +41m10s) Failed to launch 2 node(s): Quota 'H100' exceeded"], "escalate"),
        (["(autoscaler +9m10s) Failed to launch 2 node(s): Quota 'H100' exceeded"], "wait"),
        (["No workers match constraints", "(scaling up) Waiting for worker scale-up"], "wait"),
        (["No workers match constraints: ['device']"], "escalate"),
        (
            ["FailedScheduling 2m (x41 over 3h) 0/12 nodes are available: 12 Insufficient gpu."],
            "escalate",
        ),
        (
            ["FailedScheduling 2m (x4 over 9m) 0/12 nodes are available: 12 Insufficient gpu."],
            "wait",
        ),
    ],
)
def test_a_wait_is_for_a_person_once_it_was_long_or_can_never_end(
    lines: list[str], action: str
) -> None:
    assert triage(lines, "pending", None).action == action


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        (["2.1", "nan", "nan"], ("numeric_instability", "escalate")),
        (["2.1", "nan", "2.0"], ("success", "none")),
        (["2.1", "2.0"], ("success", "none")),
    ],
)
def test_what_ended_well_with_a_loss_that_is_no_number_is_for_a_person(
    losses: list[str], said: tuple[str, str]
) -> None:
    lines = [f"step {90 + at} loss {loss}" for at, loss in enumerate(losses)]
    found = triage([*lines, "Training completed", "saved checkpoint out/final"], "succeeded", 0)
    assert (found.name, found.action) == said


@pytest.mark.parametrize(
    "line",
    [
        "Best loss: inf",
        "Validation: loss=nan ppl=nan",
        "Test set: Average loss: nan, Accuracy: 3%",
        "eval step 100 | loss nan",
    ],
)
def test_a_loss_of_no_training_is_none_of_trainings(line: str) -> None:
    assert triage([*TRAIN, "Training completed", line], "succeeded", 0).name == "success"


@pytest.mark.parametrize("before", ["[test] ", "test-7b ", "eval=0 ", "value 3, "])
def test_a_training_run_may_be_called_a_test(before: str) -> None:
    lines = [f"{before}step {step} loss nan" for step in (1, 2, 3)]
    assert triage([*lines, "Training completed"], "succeeded", 0).name == "numeric_instability"


@pytest.mark.parametrize(
    "line",
    [
        "100/100 - 5s - loss: nan - val_loss: 2.1",
        "step 90 loss nan best loss 1.97",
        "step 90: train loss nan, val loss nan",
        "step 90 loss nan | last good loss 2.1",
    ],
)
def test_a_loss_of_training_is_read_beside_another_one(line: str) -> None:
    found = triage([line, line, line, "Killed"], "failed", 137)
    assert (found.name, found.action) == ("numeric_instability", "escalate")


HUB = "OSError: We couldn't connect to 'https://huggingface.co' to load the files"
RETRIED = (
    "'(ReadTimeoutError: Read timed out.)' thrown while requesting HEAD https://huggingface.co/x"
)
PROXY = "ProxyError: 407 Proxy Authentication Required; Max retries exceeded"
NO_MODEL = "OSError: lab/x is not a local folder and is not a valid model identifier listed on"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([RETRIED, "Retrying in 8s [Retry 5/5].", HUB], ("network_transient", "relaunch")),
        ([HUB], ("network_transient", "escalate")),
        ([RETRIED, "HF_HUB_OFFLINE=1", HUB], ("network_transient", "escalate")),
        ([PROXY, "Retrying in 8s [Retry 5/5].", HUB], ("network_transient", "escalate")),
        ([RETRIED, *TRAIN, HUB], ("network_transient", "escalate")),
        ([RETRIED, NO_MODEL], ("small_code_bug", "fix_then_relaunch")),
    ],
)
def test_what_was_not_reached_is_the_network_s_where_it_was_seen_to_fail(
    lines: list[str], said: tuple[str, str]
) -> None:
    found = triage(lines, "failed", 1)
    assert (found.name, found.action) == said


@pytest.mark.parametrize(
    "told",
    [
        "[train][31/500] total_loss: {} ce: 1.0",
        "Epoch 1: 31%|### | 31/100 [00:10<00:20, 3.1it/s, v_num=0, train_loss_step={}]",
        '{{"step": 31, "train_loss": {}}}',
        "step 31: lm_loss: {}",
        "step 31 loss tensor({}, device='cuda:0')",
        "actor_loss=0.1 critic_loss={}",
        "reduced_train_loss={} in s: 6.2",
    ],
)
def test_numbers_are_lost_whatever_the_loss_is_called(told: str) -> None:
    lost, back = told.format("nan"), told.format("2.1")
    found = triage([*TRAIN, back, lost, "Killed"], "failed", 137)
    assert (found.name, found.action) == ("numeric_instability", "escalate")
    assert triage([*TRAIN, lost, back, "Killed"], "failed", 137).name == "killed"
    risen = [told.format(f"1.{i}") for i in range(8)] + [told.format("9.1")] * 4
    whole = "critic" not in told
    assert triage([*risen, "Killed"], "failed", 137).name == (
        "numeric_instability" if whole else "killed"
    )


def test_a_part_that_never_was_a_number_is_not_in_use() -> None:
    unused = [f"step {i} z_loss: nan" for i in range(9)]
    assert triage(unused, "running", None).action == "none"
    used = [line.replace("nan", "0.1") for line in unused]
    assert triage([*used, *unused], "running", None).name == "numeric_instability"
    whole = [f"step {i} train_loss=nan" for i in range(9)]
    assert triage(whole, "running", None).name == "numeric_instability"


@pytest.mark.parametrize("said", ["prev_loss=inf", "best_train_loss: inf", "dev_loss=nan"])
def test_a_loss_that_was_none_yet_is_no_lost_number(said: str) -> None:
    assert triage([*TRAIN, said, "Killed"], "failed", 137).name == "killed"


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


def test_a_sample_is_the_model_s_own_words() -> None:
    said = 'sample: "the node died and the job was preempted"'
    assert triage([*TRAIN, said, *TRAIN], "running", None).name == "harmless_noise"
