"""What a diagnosis costs: no more than in proportion to the lines, whatever they say."""

from __future__ import annotations

import re
from random import Random
from time import process_time

import pytest

from cockpit.rules.triage import log
from cockpit.rules.triage.by_exit import FIRST_END
from cockpit.rules.triage.exceptions import TRAINING_CODE
from cockpit.rules.triage.literals import Needs, alternatives
from cockpit.rules.triage.patterns import COUNTS
from cockpit.rules.triage.phrases import BY_HAND, DATA, DATA_FILE, LONGEST_LINE, STOPPED
from cockpit.text.progress_lines import log_of_lines
from tests.rules.asking import triage

LINES = 6_000
PLAIN = [f"step {at} loss 2.1" for at in range(LINES)]
HALF = LINES // 2
OOM = "CUDA out of memory. Tried to allocate 2 GiB"


def cost(lines: list[str]) -> float:
    """Return the seconds of CPU that a diagnosis takes."""
    begun = process_time()
    triage(lines, "failed", 1)
    return process_time() - begun


@pytest.mark.parametrize(
    "lines",
    [
        [f"step {at} loss 2.1 grad norm nan" for at in range(LINES)],
        ["node gpu-7 died", "restarted the job"] * HALF,
        [OOM] * HALF + ["restarted the job"] * HALF,
        ["oom_kill process 4711"] * HALF + PLAIN[:5] + ["a line of pid 12"] * HALF,
        ["due to preemption"] * HALF + ["step 5 loss 2.0"] * HALF,
    ],
    ids=["lost numbers", "restarts", "late restarts", "victims", "one mark"],
)
def test_many_lines_of_trouble_cost_what_as_many_plain_ones_do(lines: list[str]) -> None:
    """The best of several in turns: others on the machine slow some of them down, not all."""
    triage(lines[::100], "failed", 1)  # its expressions are compiled once
    both = [(cost(lines), cost(PLAIN)) for _ in range(3)]
    assert min(one for one, _ in both) < 3 * min(plain for _, plain in both)


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [
        (TRAINING_CODE, " "),
        (DATA, "0"),
        (DATA_FILE, "0"),
        (FIRST_END, "run."),
        (COUNTS, "."),
        (BY_HAND, "run removed "),
        (BY_HAND, "a.b"),
        (STOPPED, "stop file "),
    ],
)
def test_a_long_line_costs_in_proportion_to_its_length(
    pattern: re.Pattern[str], piece: str
) -> None:
    def seconds(size: int) -> float:
        line = (piece * size)[:size]
        pattern.search(line)
        begun = process_time()
        for _ in range(5):
            pattern.search(line)
        return process_time() - begun

    short = min(seconds(2_000) for _ in range(3))
    assert min(seconds(16_000) for _ in range(3)) < 24 * short  # the square would be 64 times


WORDS = re.findall(
    r"\w+",
    "error failed nccl timeout killed out of memory preempted cancelled sigterm nan loss xid ecc "
    "node connection reset refused user job stop requested by rank hang barrier disk quota may be "
    "because data shard corrupt kernel cuda device worker dead lost heartbeat exceeded limit time",
)


def different(lines: int, words: int) -> list[str]:
    """Return lines of alarming words in no order, of which no two are alike."""
    chosen = Random(7)
    return [" ".join(chosen.choices(WORDS, k=words)) for _ in range(lines)]


def test_an_expression_is_tried_on_so_much_whatever_a_log_is_full_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []
    whole = alternatives

    class Counted:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self._pattern = pattern

        def search(self, line: str) -> re.Match[str] | None:
            tried[-1] += len(line)
            return self._pattern.search(line)

    def counted(pattern: re.Pattern[str]) -> list[tuple[Needs, Counted]]:
        tried.append(0)
        return [(needs, Counted(each)) for needs, each in whole(pattern)][:1]

    monkeypatch.setattr(log, "alternatives", counted)
    triage(different(4_000, 60), "failed", 1)
    assert 0 < max(tried) <= log.TRIED + 2 * LONGEST_LINE


def test_of_too_many_lines_that_may_be_one_the_first_and_the_last_are_looked_at() -> None:
    others = [f"no node failures, {words}" for words in different(3_000, 6)]
    sign = re.compile(r"\bnode failure\b", re.I)
    for at in (0, len(others)):
        lines = [*others[:at], "node failure on gpu-7", *others[at:]]
        present = log_of_lines(lines)
        assert log.Log(present.lines, present.read).matching(sign) == [at]


@pytest.mark.parametrize("said", ["training complete", "received stop command from dashboard"])
def test_a_job_is_not_started_again_before_all_lines_that_may_forbid_it_were_tried(
    said: str,
) -> None:
    chosen, parts = Random(7), said.split()
    others = [
        " ".join(f"{word} {' '.join(chosen.choices(['alpha', 'beta', 'delta', 'green'], k=3))}"
                 for word in chosen.sample(parts, len(parts)))
        for _ in range(4_000)
    ]  # fmt: skip
    lost = ["slurmstepd: error: *** JOB 4711 ON node3 CANCELLED AT 2026-06-16T12:00:11 DUE TO NODE "
            "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"]  # fmt: skip
    steps = [f"step {step} loss: 2.1{step}" for step in range(20)]
    assert triage([*steps, *others, *lost], "failed", 1).action == "relaunch"
    assert triage([*steps, *others[:2000], said, *others[2000:], *lost], "failed", 1).action == (
        "escalate"
    )
