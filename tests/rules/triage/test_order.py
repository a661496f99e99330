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
