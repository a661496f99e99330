"""What makes reading progress cheap changes nothing of what is read."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cockpit.text import fields as labelled
from cockpit.text.progress import read_lines, read_progress, telling, understood
from tests.text.test_progress import RUN

TRAINERS = {
    "bar": "\r 12%|██▌    | {0}/90000 [16:40<10:00:11,  9.87it/s, loss=2.{1}]",
    "megatron": " [2026-01-02 03:04:05] iteration {0:8d}/  500000 | consumed samples: {2:12d} |"
    " elapsed time per iteration (ms): 2312.{1} | throughput per GPU (TFLOP/s/GPU): 412.3 |"
    " learning rate: 1.5E-04 | global batch size:   512 | lm loss: 2.{1}E+00 | loss scale: 1.0 |"
    " grad norm: 0.{1} | number of skipped iterations:   0 | number of nan iterations:   0 |",
    "nanogpt": "iter {0}: loss 2.{1}, time 13{1}.12ms, mfu 38.{1}%",
    "levanter": "2026-01-02T03:04:05 - 0 - levanter.trainer - trainer.py:{1} - INFO :: Progress"
    " on:train {0}it/90000it rate:9.8it/s remaining:10:00 elapsed:22:11 postfix:loss=2.{1}",
    "json": '{{"step": {0}, "loss": 2.{1}, "lr": 0.0003, "grad_norm": 0.{1}, "tok/s": 123456.7}}',
    "block": "[step={0}/90000]:\n    train/loss=2.{1}\n    throughput/total_tokens={2}",
}
NOISE = {
    "nccl": "node{1}:10{1}:20{1} [3] NCCL INFO Channel 0{1}/0 : {0}[3] -> {1}[4] via P2P/CUMEM",
    "server": "INFO 01-02 03:04:05 worker.py:{1}] processed request {0} in 0.{1} seconds",
    "loader": "DEBUG data_loader: prefetching s3://bucket/shard-{0}.tar.zst, backlog={1}",
}


def lines_of(shape: str, count: int = 3000) -> list[str]:
    return [shape.format(n, n % 1000, n * 512) for n in range(count)]


WORDS = st.sampled_from(
    [part for line, *_ in RUN for part in line.split(" ")]
    + [*"|:=[](){},/%-", "it", "It", "IT", "bandit", "fit", "ep", "UP", "Ep.", "UNIT", "step-up"]
    + ["lr", "loss", "train", "grad", "norm", "tok/s", "1", "20", "3.5", "nan", "0.00", "-7", "7k"]
    + ["\x1b[0m", "\x1b[31mst", "\N{ZERO WIDTH SPACE}", "é", " • ", "\t", "it [", "5 [1:00, x]"]
    + [" " * 78, "_" * 77, "\r", "\n", "\n  ", "[step=7/9]:", "[batch=1/2]"]
)
LINES = st.lists(WORDS, max_size=14).flatmap(
    lambda words: st.sampled_from(["", " "]).map(lambda gap: gap.join(words))
)


@given(LINES | st.text())
@example("fit bandit [x] 5 [1:00, a]")
@example("bandit" + " " * 78 + "5 lr 1 lr 2")
@example("st\x1b[0mep 5 loss 2")
@example("XIT 5 lr 1 lr 2")
def test_no_line_is_left_out_that_would_be_understood(line: str) -> None:
    full = understood(line) if any(digit in line for digit in "0123456789") else None
    assert repr(read_progress(line)) == repr(full)


@given(st.lists(LINES, max_size=6))
def test_a_log_is_read_alike_with_and_without_what_can_tell_nothing(lines: list[str]) -> None:
    states = [part for line in lines for part in line.replace("\r", "\n").split("\n") if part]
    raw = [state.encode("utf-8", "replace") for state in states]
    all_of_it = list(read_lines(each.decode() for each in raw))
    assert repr(list(read_lines(map(telling, raw)))) == repr(all_of_it)


@given(LINES)
def test_numbers_are_cut_alike_whatever_their_digits(line: str) -> None:
    cuts = labelled._cuts.__wrapped__(line)
    assert repr(list(labelled.fields(line))) == repr([cut.field(line) for cut in cuts])


def test_the_middle_of_a_word_is_no_label() -> None:
    assert [field.words for field in labelled.fields("bandit" + " " * 78 + "5")] == [()]


@pytest.mark.parametrize("name", TRAINERS)
def test_each_trainer_s_lines_are_all_read(name: str) -> None:
    states = [part for line in lines_of(TRAINERS[name], 50) for part in line.splitlines() if part]
    found = list(read_lines(telling(state.encode()) for state in states))
    assert [progress.step for _, progress in found] == [*range(50)]


def cost(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.parametrize("name", NOISE)
def test_a_line_that_tells_nothing_costs_a_fifth_of_reading_it(name: str) -> None:
    lines = lines_of(NOISE[name])
    raw = [line.encode() for line in lines]
    full = cost(lambda: [understood(line) for line in lines])
    assert cost(lambda: list(read_lines(map(telling, raw)))) < full / 5
