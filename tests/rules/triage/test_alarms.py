"""One pass over bytes finds every line that triage knows, and costs little where there is none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.rules.triage import classify
from cockpit.rules.triage.classify import alarms_in
from tests.text.test_progress_speed import NOISE, TRAINERS, lines_of

BAD = {
    "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***": (
        "walltime"
    ),
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB": "oom_device",
    "Traceback (most recent call last):": "traceback",
    "iter 700: loss nan, time 13.12ms": "numeric_instability",
    '{"step": 7, "loss": NaN, "lr": 0.1}': "numeric_instability",
    "[rank3]: Watchdog caught collective operation timeout: ran for 600014 ms": "distributed_hang",
    "OSError: [Errno 28] out of luck": "disk_full",
    "NVRM: Xid (PCI:0000:c6:00): 79, pid=12, GPU has fallen off the bus": "hardware_fault",
    "Segmentation fault (core dumped)": "crash",
    "\x1b[31mKilled\x1b[0m": "killed",
    "got exit code 137": "killed",
    "HTTP 503 gateway": "network_transient",
}
HARMLESS = (
    "OSError: [Errno 2] no luck",
    "got exit code 0",
    "HTTP 204 gateway",
    "number of nan iterations:   0",
)


def found_in(text: str) -> list[tuple[str, str]]:
    data = text.encode()
    return [(data[one.begin : one.end].decode(), one.name) for one in alarms_in(data)]


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_an_alarming_line_is_found_among_others(line: str, end: str) -> None:
    other = lines_of(TRAINERS["nanogpt"], 40)
    assert found_in(end.join([*other, line, *other])) == [(line, BAD[line])]


def test_every_figure_of_a_sign_counts() -> None:
    assert [name for _, name in found_in("\n".join([*HARMLESS, *BAD]))] == list(BAD.values())


def test_what_counts_nothing_is_no_alarm_and_what_counts_three_is_one() -> None:
    lines = ["{} uncorrectable ECC errors", "oom_kill: {}", "failed node: {}", "preempted={}"]
    assert found_in("\n".join(line.format(0) for line in lines)) == []
    told = [name for _, name in found_in("\n".join(line.format(3) for line in lines[:3]))]
    assert told == ["hardware_fault", "oom_host", "node_death"]
    assert found_in(lines[3].format(1)) == [("preempted=1", "preempted")]


@pytest.mark.parametrize("name", sorted({**TRAINERS, **NOISE}))
def test_what_trainers_print_all_day_is_no_alarm(name: str) -> None:
    assert found_in("\n".join(lines_of({**TRAINERS, **NOISE}[name], 300))) == []


PATTERNS = [sign.pattern.pattern.decode() for sign in classify.known_signs()]


@given(st.sampled_from(PATTERNS).flatmap(lambda each: st.from_regex(re.compile(each, re.I))))
def test_no_line_that_an_expression_matches_is_without_its_literals(line: str) -> None:
    low = line.translate(str.maketrans("123456789", "000000000")).encode().lower()
    for sign in classify.known_signs():
        text = re.compile(sign.pattern.pattern.decode(), re.I | re.A).search(line)
        if text is not None:
            assert all(any(word.encode() in low for word in words) for words in sign.needs), line


def test_what_is_remembered_of_shapes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classify, "REMEMBERED", 50)
    monkeypatch.setattr(classify, "_seen", {})
    letters = "abcdefghij"
    for first in letters:
        alarms_in(b"y" * (classify.LONGEST + 1))
        alarms_in("\n".join(f"{first}{a}{b}" for a in letters for b in letters).encode())
    assert 0 < len(classify._seen) <= 100
    assert all(len(shape) <= classify.LONGEST for shape in classify._seen)
