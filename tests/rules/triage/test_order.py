"""Lines that do not stand where they were written: LSF's report, records, several starts."""

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
