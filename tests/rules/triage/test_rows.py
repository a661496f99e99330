"""Every line of every row is tried against all rows: none takes another's (``signatures``).

What a line only sets is nothing that has happened.

One pass over bytes finds every line that triage knows, and costs little where there is none.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.rules.triage import classify
from cockpit.rules.triage import rows as triage_rows
from cockpit.rules.triage.classify import alarms_in
from cockpit.rules.triage.phrases import certain
from cockpit.rules.triage.rows import Signature, Words, all_words, expanded, signatures
from cockpit.rules.triage.signs import SIGNS
from tests.rules.asking import triage
from tests.text.test_progress_speed import NOISE, TRAINERS, lines_of

ROWS = [(sign.name, row) for sign in SIGNS for row in signatures(sign.name)]


def shown_first(line: str) -> str | None:
    said = certain(line)
    return next((sign.name for sign in SIGNS if sign.pattern.search(said)), None)


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{name}-{row.id}" for name, row in ROWS])
def test_a_row_finds_its_lines_and_no_other_class_takes_them(name: str, row: Signature) -> None:
    for pattern in row.patterns:
        one = re.compile(expanded(pattern), re.I)
        assert any(one.search(certain(line)) for line in row.examples), f"no example: {pattern}"
    assert {line: shown_first(line) for line in row.examples} == dict.fromkeys(row.examples, name)
    whole = re.compile("|".join(map(expanded, row.patterns)), re.I)
    assert not [line for line in row.others if whole.search(certain(line))]


@pytest.mark.parametrize("row", all_words().values(), ids=all_words())
def test_words_have_a_line_for_each_pattern(row: Words) -> None:
    for pattern in row.patterns:
        one = re.compile(expanded(pattern), 0 if row.case else re.I)
        assert any(one.search(line) for line in row.examples), f"no example: {pattern}"
    assert row.about


FOLDER = Path(triage_rows.__file__).parent
TABLES = {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*.toml")}


def test_no_row_hides_another_and_each_is_used() -> None:
    """Of two rows of one id, the reader would take the last; a part that none names is dead."""
    text = {name: path.read_text(encoding="utf-8") for name, path in TABLES.items()}
    assert not [name for name in text if name.startswith("signatures/") and not named(name)]
    code = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    words = re.findall(r'^id = "(\w+)"$', joined(text, "words/"), re.M)
    others = re.findall(r'^id = "(\w+)"$', joined(text, "signatures/"), re.M)
    assert [each for each, count in Counter(words + others).items() if count > 1] == []
    assert [each for each in words if f'words("{each}")' not in code] == []
    parts = tomllib.loads(text["parts.toml"])["parts"]
    assert [each for each in parts if f"<<{each}>>" not in joined(text, "")] == []


def named(table: str) -> bool:
    return table.removeprefix("signatures/").removesuffix(".toml") in {sign.name for sign in SIGNS}


def joined(text: dict[str, str], begin: str) -> str:
    return "\n".join(each for name, each in text.items() if name.startswith(begin))


HANG = next(sign for sign in SIGNS if sign.name == "distributed_hang").pattern
NO_LIBRARY = "libtpu.so: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    "line",
    [
        "Using barrier_sync_fn: <function sync at 0x7f> timeout: 1200 secs and primary_host=0",
        "init_process_group(backend='nccl', timeout=datetime.timedelta(seconds=1800))",
        "ProcessGroupNCCL initialization options: size: 8, global rank: 0, TIMEOUT(ms): 600000",
        "{'ddp_backend': 'nccl', 'ddp_timeout': 1800}",
        "gloo with a timeout of 1800 s",
    ],
)
def test_a_time_out_that_is_set_did_not_happen(line: str) -> None:
    assert HANG.search(line) is None
    assert triage([line], "failed", 137).name == "killed"


@pytest.mark.parametrize(
    "line",
    [
        "Barrier timed out. Barrier_id: PjRT_Client_Connect",
        "[rank1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, Timeout(ms)=600)",
        "barrier timeout (1200 s) exceeded",
        "TimeoutError: rank 3 never came to the barrier",
        "NCCL communicator: Timeout: rank 3",
    ],
)
def test_one_that_happened_did(line: str) -> None:
    assert HANG.search(line) is not None


@pytest.mark.parametrize(
    ("harmless", "line", "found"),
    [
        (
            "spot: no interruption notice received yet",
            "spot: interruption notice received",
            "preempted",
        ),
        ("worker 3 missed 0 heartbeats", "worker 3 missed 6 heartbeats", "node_death"),
        (
            "will mark worker as dead after a missed heartbeat",
            "marked worker 3 as dead",
            "node_death",
        ),
        (
            "earlyoom[811]: sending SIGTERM when mem avail <= 10.00% and swap free <= 10.00%",
            'earlyoom[811]: sending SIGTERM to process 4711 uid 1000 "python": badness 1000',
            "oom_host",
        ),
        (
            "GPU memory allocation failures=0 retries=0",
            "GPU memory allocation failed",
            "oom_device",
        ),
        ("TPU session error count: 0", "TPU session error count: 3", "hardware_fault"),
        (
            "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0",
            "blk_update_request: I/O error, dev sda, sector 0 op 0x0:(READ) flags 0x0",
            "hardware_fault",
        ),
        ("healthy devices: 7, unhealthy devices: 0", "unhealthy devices: 1", "bad_node"),
        ("could not open devices.json, using the default", "could not open device 3", "bad_node"),
        ("abort on hang after 1800 s", "Aborting on hang", "distributed_hang"),
        ("no hang was detected in 600 s", "hang detected in 600 s", "distributed_hang"),
        ("grad_scale minimum=1", "grad scale is at its minimum", "numeric_instability"),
    ],
)
def test_a_count_of_none_and_a_warning_beforehand_are_nothing_that_happened(
    harmless: str, line: str, found: str
) -> None:
    assert triage([harmless, "Killed"], "failed", 137).name == "killed"
    assert triage([line, "Killed"], "failed", 137).name == found


def test_a_waiting_job_whose_node_counts_no_unhealthy_device_only_waits() -> None:
    healthy = ["healthy devices: 8, unhealthy devices: 0", "waiting for quota"]
    assert triage(healthy, "pending", None).name == "capacity_wait"
    assert triage(["pod rejected: unhealthy devices"], "pending", None).name == "bad_node"


def test_a_machine_without_a_tpu_is_no_bad_node() -> None:
    line = f"Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: {NO_LIBRARY}"
    assert triage([line], "failed", 137).name == "killed"
    assert triage(["RuntimeError: Failed to open /dev/accel0"], "failed", 1).name == "bad_node"


def test_the_source_that_a_traceback_quotes_is_no_step() -> None:
    lines = [
        "step: 65, loss: 2.5, 0.1 s/it",
        "Traceback (most recent call last):",
        '  File "/runs/a/train.py", line 32, in shard',
        '    raise OSError(f"could not read shard {step:05d}")',
        "OSError: could not read shard 00070",
    ]
    assert triage(lines, "failed", 1).step == 65


def test_a_batch_of_an_epoch_is_no_step_of_the_run() -> None:
    bar = "Epoch 6:  93%|█████████ | 28/30 [00:02<00:00,  8.9it/s, train_loss=5.5]"
    assert triage([bar], "failed", 137).step is None
    assert triage([bar], "failed", 137).name == "killed"


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
