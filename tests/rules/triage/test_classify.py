from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.logtext import PresentLog
from cockpit.rules.triage import patterns as named_patterns
from cockpit.rules.triage.classify import diagnose
from cockpit.rules.triage.literals import alternatives
from cockpit.rules.triage.signs import SIGNS
from cockpit.text.progress_lines import log_of_lines
from tests.growing import grows_with_its_size
from tests.rules.asking import triage

TRAIN = [f"step {i} | loss {3 - i / 100:.3f} | 81.2k tok/s" for i in range(1, 31)]


def raised(exception: str, file: str = "/home/ada/toy/run.py", line: int = 12) -> list[str]:
    return [
        "Traceback (most recent call last):",
        f'  File "{file}", line {line}, in <module>',
        "    main()",
        exception,
    ]


ENDS = [
    (
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01 DUE TO PREEMPTION ***",
        "preempted",
        "relaunch",
    ),
    (
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***",
        "walltime",
        "relaunch",
    ),
    (
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 10:00:00 DUE TO NODE FAILURE ***",
        "node_death",
        "relaunch",
    ),
    ("ray.exceptions.OwnerDiedError: the object's owner has exited", "node_death", "relaunch"),
    ("XlaRuntimeError: INTERNAL: Program hbm requirement 18.2G:", "hbm_exhausted", "escalate"),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
        "oom_device",
        "escalate",
    ),
    (
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.",
        "oom_device",
        "escalate",
    ),
    ("slurmstepd: error: Detected 2 oom_kill events in StepId=7.0.", "oom_host", "escalate"),
    ("[  812.1] Out of memory: Killed process 77 (python3) total-vm:9kB", "oom_host", "escalate"),
    (
        "OSError: [Errno 28] No space left on device: '/scratch/step-9'",
        "disk_full",
        "fix_then_relaunch",
    ),
    ("OSError: [Errno 122] Disk quota exceeded", "disk_full", "fix_then_relaunch"),
    ("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", "hardware_fault", "relaunch"),
    ("RuntimeError: No accelerator found. Check that the chips are free.", "bad_node", "escalate"),
    (
        "[rank3] Watchdog caught collective operation timeout: ALLREDUCE ran for 600001 ms",
        "distributed_hang",
        "escalate",
    ),
    ("RuntimeError: Loss is NaN", "numeric_instability", "escalate"),
    (
        "Exception: loss scale is already at its minimum, cannot decrease",
        "numeric_instability",
        "escalate",
    ),
]


@pytest.mark.parametrize(("line", "name", "action"), ENDS)
def test_the_machines_and_the_schedulers_words(line: str, name: str, action: str) -> None:
    found = triage([*TRAIN, line], "failed", 1)
    assert (found.name, found.action, found.confidence) == (name, action, "sure")
    assert found.evidence[-1].text == line
    assert found.evidence[-1].line == len(TRAIN) + 1
    assert found.step == 30


@pytest.mark.parametrize(("line", "name", "action"), ENDS)
def test_whatever_a_job_shouted_a_success_is_a_success(line: str, name: str, action: str) -> None:
    found = triage([*TRAIN, line], "succeeded", 0)
    assert (found.name, found.action) == ("success", "none")


@pytest.mark.parametrize(("line", "name", "action"), ENDS)
def test_only_the_present_job_counts(line: str, name: str, action: str) -> None:
    lines = [*TRAIN, line, "wandb: Tracking run with wandb version 0.31.0", *TRAIN]
    found = triage(lines, "failed", 137)
    assert (found.name, found.action) == ("killed", "relaunch")


SMALL = [
    "KeyError: 'warm_up'",
    "NameError: name 'np' is not defined",
    "ModuleNotFoundError: No module named 'einops'",
    "ImportError: cannot import name 'foo' from 'bar'",
    "SyntaxError: invalid syntax",
    "FileNotFoundError: [Errno 2] No such file or directory: 'configs/a.yaml'",
]


@pytest.mark.parametrize("exception", SMALL)
def test_a_small_bug_names_its_line(exception: str) -> None:
    found = triage([*TRAIN, *raised(exception)], "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")
    place = found.code_location
    assert place is not None and (place.file, place.line) == ("/home/ada/toy/run.py", 12)


@pytest.mark.parametrize("file", ["/toy/model.py", "/toy/data/mix.py", "/toy/optim.py"])
def test_a_small_bug_where_the_trajectory_is_made_needs_a_person(file: str) -> None:
    found = triage(raised("KeyError: 'x'", file), "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "escalate")


@pytest.mark.parametrize(
    "exception",
    [
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        "ImportError: /x/y.so: undefined symbol: _ZN3foo",
        "KeyError: 'Unexpected key(s) in state_dict: head.weight'",
        "AssertionError",
        "Exception: odd",
    ],
)
def test_other_tracebacks_are_for_a_person(exception: str) -> None:
    found = triage(raised(exception), "failed", 1)
    assert (found.name, found.action) == ("complex_code_bug", "escalate")


def test_the_place_is_in_ones_own_code_and_survives_a_launchers_prefix() -> None:
    lines = [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/home/ada/toy/run.py", line 9, in main',
        "[rank0]:     out = f(x)",
        '[rank0]:   File "/env/lib/python3.12/site-packages/lib/x.py", line 3, in f',
        "[rank0]:     return table[x]",
        "[rank0]: KeyError: 'x'",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    ]
    found = triage(lines, "failed", 1)
    assert found.code_location is not None and found.code_location.line == 9


def test_what_was_saved_before_a_traceback_is_not_part_of_it() -> None:
    lines = [
        "I20261121 08:10:00 1 checkpoint Saved checkpoint to out/step-40 for step 40",
        "I20261121 08:10:01 1 train step 41/400 loss=2.3",
        *raised("KeyError: 'part'"),
    ]
    found = triage(lines, "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")


def test_a_data_loaders_error_is_the_datas() -> None:
    lines = [
        "FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 3.",
        *raised("FileNotFoundError: [Errno 2] No such file or directory: 'a.pt'"),
    ]
    assert triage(lines, "failed", 1).name == "data_error"


@pytest.mark.parametrize("code", [137, -9])
def test_killed_without_evidence_of_memory(code: int) -> None:
    found = triage(TRAIN, "failed", code)
    assert (found.name, found.action) == ("killed", "relaunch")


def test_killed_with_evidence_of_memory_is_no_relaunch() -> None:
    lines = [*TRAIN, "memory: oom-kill event in the job's cgroup"]
    found = triage(lines, "failed", 137)
    assert (found.name, found.action) == ("oom_host", "escalate")


def test_a_log_that_just_stops_is_a_kill_one_that_complains_is_unknown() -> None:
    assert triage(TRAIN, "failed", None).name == "killed"
    odd = triage([*TRAIN, "fatal: error 77"], "failed", None)
    assert (odd.name, odd.action) == ("unknown", "escalate")
    assert triage([], "failed", None).action == "escalate"
    assert triage(TRAIN, "failed", 3).action == "escalate"


def test_a_person_stopped_it() -> None:
    assert triage([*TRAIN, *raised("KeyboardInterrupt")], "failed", 1).action == "none"
    assert triage(TRAIN, "cancelled", None).name == "user_stopped"
    assert triage(TRAIN, "failed", 130).name == "user_stopped"
    gone = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T10:00:00 ***"
    assert triage([*TRAIN, gone], "cancelled", None).name == "user_stopped"


def test_what_was_overcome_did_not_end_it() -> None:
    lines = [
        *TRAIN[:5],
        "torch.cuda.OutOfMemoryError: CUDA out of memory; trying a smaller batch",
        *TRAIN[5:],
        *raised("KeyError: 'x'"),
    ]
    assert triage(lines, "failed", 1).name == "small_code_bug"


def test_the_tracker_ended_it() -> None:
    lines = raised("wandb.errors.CommError: run not found")
    found = triage(lines, "failed", 1)
    assert (found.name, found.action) == ("tracker_error", "fix_then_relaunch")


def test_the_network_ended_it() -> None:
    lines = raised("requests.exceptions.ConnectionError: Max retries exceeded with url: /x")
    found = triage(lines, "failed", 1)
    assert (found.name, found.action) == ("network_transient", "relaunch")


RUNNING = [
    ("wandb: Network error (ReadTimeout), entering retry loop.", "tracker_error", "none"),
    ("Connection reset by peer, retrying in 5 s", "network_transient", "none"),
    ("UserWarning: this may fail one day", "harmless_noise", "none"),
    ("OSError: [Errno 28] No space left on device", "disk_full", "fix_then_relaunch"),
    ("step 31 loss nan", "numeric_instability", "escalate"),
]


@pytest.mark.parametrize(("line", "name", "action"), RUNNING)
def test_while_it_runs_the_same_words_need_another_action(
    line: str, name: str, action: str
) -> None:
    found = triage([*TRAIN, line, "step 32 | loss 2.690"], "running", None)
    assert (found.name, found.action) == (name, action)


def test_a_dead_node_under_a_running_job_is_escalated() -> None:
    found = triage([*TRAIN, "raylet on 10.0.0.7 has died"], "running", None)
    assert (found.name, found.action) == ("node_death", "escalate")


def test_a_loss_that_has_left_its_trend_is_seen_in_the_lines() -> None:
    jump = [f"step {31 + i} | loss 7.{i} " for i in range(4)]
    assert triage([*TRAIN, *jump], "running", None).name == "numeric_instability"
    assert triage([*TRAIN, *jump[:2]], "running", None).name == "harmless_noise"


def test_waiting_is_waiting_unless_it_can_never_start() -> None:
    waits = triage(["JobState=PENDING Reason=Priority"], "pending", None)
    never = triage(["JobState=PENDING Reason=PartitionNodeLimit"], "PENDING", None)
    back = triage(["the job was preempted", "requeued"], "pending", None)
    assert (waits.name, waits.action) == ("capacity_wait", "wait")
    assert (never.name, never.action) == ("capacity_wait", "escalate")
    assert (back.name, back.action) == ("preempted", "wait")


@given(
    st.lists(st.one_of(st.text(), st.sampled_from([line for line, _, _ in ENDS] + TRAIN))),
    st.sampled_from(["failed", "running", "succeeded", "pending", "cancelled", "?"]),
    st.one_of(st.none(), st.integers()),
)
def test_it_never_raises_and_its_evidence_stands_in_the_log(
    lines: list[str], state: str, code: int | None
) -> None:
    found = triage(lines, state, code)
    for line in found.evidence:
        assert line.line is not None
        raw = lines[line.line - 1]
        assert line.text == raw or "\x1b" in raw


def test_the_trackers_farewell_after_a_crash_is_not_its_cause() -> None:
    lines = [*raised("KeyError: 'x'"), "wandb: View run toy at: https://w.example.org/a/b"]
    assert triage(lines, "failed", 1).name == "small_code_bug"


def test_ranks_that_wait_for_one_that_raised_are_not_the_cause() -> None:
    hang = "[rank1] Watchdog caught collective operation timeout: ALLREDUCE ran for 600001 ms"
    first = triage([*raised("ValueError: bad shape"), hang], "failed", 1)
    assert first.name == "complex_code_bug"
    assert triage([hang, *raised("ValueError: bad shape")], "failed", 1).name == "distributed_hang"


def test_a_key_that_a_library_misses_is_not_one_line_of_ones_own() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/ada/toy/run.py", line 9, in main',
        '  File "/env/lib/python3.12/site-packages/lib/x.py", line 3, in f',
        "KeyError: 'arch9'",
    ]
    assert triage(lines, "failed", 1).action == "escalate"


@pytest.mark.parametrize(
    ("line", "name", "action"),
    [
        ("run.py: error: unrecognized arguments: --lrr 1", "small_code_bug", "fix_then_relaunch"),
        ("Segmentation fault (core dumped)", "complex_code_bug", "escalate"),
        ("[rank2] Heartbeat monitor timed out! Process will end", "distributed_hang", "escalate"),
        ("OSError: [Errno 16] Device or resource busy: '/tmp/.nfs001'", "unknown", "escalate"),
        ("GPU 3: Xid 48, please drain n17", "hardware_fault", "escalate"),
        ("Detected KeyboardInterrupt, attempting graceful shutdown", "user_stopped", "none"),
    ],
)
def test_more_last_words(line: str, name: str, action: str) -> None:
    found = triage([*TRAIN, line], "failed", 1)
    assert (found.name, found.action) == (name, action)


FRAMES = [
    f"frame #{i}: c10d::watchdog() + 0x{i * 77:x} (0x7f{i * 991:x} in a.so)" for i in range(60)
]
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"


def test_the_first_cause_outranks_its_echoes() -> None:
    lines = [*TRAIN, "RuntimeError: Loss is NaN", *FRAMES, *[RESET] * 8]
    found = triage(lines, "failed", 1)
    assert (found.name, found.action) == ("numeric_instability", "escalate")
    assert [line.line for line in found.evidence] == [len(TRAIN) + 1]
    hang = "[rank1] Watchdog caught collective operation timeout: ALLREDUCE ran for 600001 ms"
    assert triage([*TRAIN, "RuntimeError: Loss is NaN", hang], "failed", 1).name == found.name


def test_a_peer_s_complaint_is_no_cause_beside_an_exception() -> None:
    echo = raised(RESET, "/usr/lib/python3.11/socket.py")
    lines = [*TRAIN, *raised("ValueError: bad shape"), *FRAMES, *echo * 8]
    assert triage(lines, "failed", 1).action == "escalate"
    ranks = [f"[rank3]: {line}" for line in raised("ValueError: bad shape")]
    ranks += [f"[rank0]: {line}" for line in raised("KeyError: 'gone'")]
    assert triage([*TRAIN, *ranks], "failed", 1).name == "complex_code_bug"


def test_what_ranks_log_once_more_does_not_heal_it() -> None:
    oom = "torch.cuda.OutOfMemoryError: CUDA out of memory"
    lines = [*TRAIN, oom, "step 31 | loss 2.7", *FRAMES, RESET]
    assert triage(lines, "failed", 1).name == "oom_device"


def test_numbers_that_came_back_did_not_end_it() -> None:
    more = [f"step {31 + i} | loss 2.{i}" for i in range(40)]
    assert triage([*TRAIN, "step 31 | loss: nan", *more], "failed", 137).name == "killed"
    lost = [*TRAIN, *(f"step {31 + i} loss nan" for i in range(40))]
    assert triage(lost, "failed", 137).action == "escalate"


DATA_ENDS = [
    "could not read shard 17",
    "ERROR: failed to load sample 8812 of train-00017.parquet",
    "RuntimeError: cannot open dataset /data/c4: bad magic",
    "tarfile.ReadError: unexpected end of data",
    "worker 3: record 991 corrupt, giving up",
]


@pytest.mark.parametrize("line", DATA_ENDS)
def test_data_that_cannot_be_read_is_the_data_s(line: str) -> None:
    for lines in ([*TRAIN, line], [*TRAIN, *raised(f"RuntimeError: {line}")]):
        found = triage(lines, "failed", 1)
        assert (found.name, found.action) == ("data_error", "escalate")


@pytest.mark.parametrize(
    "line",
    ["could not load model shard 3", "failed to read checkpoint file step-40/model.bin"],
)
def test_a_checkpoint_that_cannot_be_read_is_not_data(line: str) -> None:
    assert triage([*TRAIN, line], "failed", 1).name != "data_error"


def test_a_text_that_lists_causes_names_none() -> None:
    lines = [*TRAIN, "Either the leader was preempted/died or there are network issues.", "exit"]
    assert triage(lines, "failed", 1).name != "preempted"


def cut(lines: list[str]) -> PresentLog:
    whole = log_of_lines(tuple(lines))
    why = {"whole": False, "why": "only its last lines were read"}
    return whole._replace(read=whole.read.model_copy(update=why))


def test_a_reading_that_was_cut_is_never_the_whole() -> None:
    found = diagnose(cut([*TRAIN, "CUDA out of memory"]), "failed", 1)
    assert found.confidence == "likely" and found.read is not None and not found.read.whole
    echoes = diagnose(cut([*FRAMES, *raised(RESET)]), "failed", 1)
    assert (echoes.name, echoes.action) == ("unknown", "escalate")


TOLD = "Received SIGTERM: 15"


@pytest.mark.parametrize(
    ("lines", "short", "name", "confidence"),
    [
        ([TOLD], True, "user_stopped", "guess"),
        ([TOLD], None, "user_stopped", "guess"),
        ([TOLD], False, "success", "sure"),
        (["slurmstepd: *** CANCELLED DUE TO PREEMPTION ***"], True, "preempted", "sure"),
        ([], True, "unknown", "guess"),
        ([], None, "success", "likely"),
        (["Training complete."], None, "success", "sure"),
        ([TOLD, *(f"step {31 + i} loss 2.0" for i in range(40))], None, "success", "likely"),
    ],
)
def test_an_exit_with_0_is_only_its_word(
    lines: list[str], short: bool | None, name: str, confidence: str
) -> None:
    found = diagnose(log_of_lines((*TRAIN, *lines)), "succeeded", 0, short=short)
    assert (found.name, found.confidence) == (name, confidence)


def test_a_pattern_s_words_are_in_whatever_it_matches() -> None:
    lines = [line for line, _, _ in ENDS] + [line for line, *_ in RUNNING] + DATA_ENDS + [RESET]
    patterns = [sign.pattern for sign in SIGNS]
    patterns += [each for each in vars(named_patterns).values() if isinstance(each, re.Pattern)]
    matched = [(p, line) for p in patterns for line in lines if p.search(line)]
    assert len(matched) > len(ENDS)
    for pattern, line in matched:
        parts = [each for each in alternatives(pattern) if each.pattern.search(line)]
        assert parts, pattern.pattern
        for needs, part in parts:
            for words in needs:
                assert any(each in line.lower() for each in words), part.pattern


def test_its_cost_grows_with_the_lines() -> None:
    lines = [
        f"2026-01-01 00:00:{i % 60:02d} step {i} | loss 2.{i % 97} | 9 it/s" for i in range(8_000)
    ]
    assert triage([*lines, "Killed"], "failed", 137).name == "killed"
    assert grows_with_its_size(lambda size: triage(lines[:size], "failed", 137), len(lines))
