"""What makes reading progress cheap changes nothing of what is read."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cockpit.text import progress_lines
from cockpit.text.fields import Shape, shape_of
from cockpit.text.progress import LineProgress, read_progress
from cockpit.text.progress_lines import Run, read_chunks, read_lines, read_raw, read_runs
from tests.text.test_progress import NOT_BEGUN, NOT_PROGRESS, OTHER_SCOPE, RUN

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


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    progress_lines.forget()


ALL = [*(str(row[0]) for row in (*RUN, *OTHER_SCOPE)), *NOT_PROGRESS, *NOT_BEGUN]
WORDS = st.sampled_from(
    [part for line in ALL for part in line.split(" ")]
    + [*"|:=[](){},/%-.", "it", "It", "IT", "bandit", "fit", "ep", "UP", "Ep.", "UNIT", "step-up"]
    + ["lr", "loss", "train", "grad", "norm", "tok/s", "1", "20", "3.5", "nan", "0.00", "-7", "7k"]
    + [
        "\x1b[0m",
        "\x1b[31mst",
        "\x1b[2K",
        "\N{ZERO WIDTH SPACE}",
        "é",
        " • ",
        "\t",
        "it [",
        "1,234",
    ]
    + ["5 [1:00, x]", " " * 78, "_" * 77, "\r", "1,23", "[==>..]", "━━╸", "%|##  |", "[step=7/9]:"]
)
LINES = st.lists(WORDS, max_size=14).flatmap(
    lambda words: st.sampled_from(["", " ", "  "]).map(lambda gap: gap.join(words))
)
MUTATED = st.tuples(st.sampled_from(ALL), st.randoms(use_true_random=False)).map(
    lambda pair: mutated(*pair)
)


def mutated(line: str, by: random.Random) -> str:
    """Return a line with one piece of it lost, doubled or put elsewhere."""
    start, end, place = sorted(by.randrange(len(line) + 1) for _ in range(3))
    piece = line[start : min(end, start + 8)]
    return by.choice(
        [line[:start] + line[end:], line[:place] + piece + line[place:], line + " " + piece]
    )


def alike(line: str, by: random.Random) -> str:
    """Return a line of the same words with other digits, padding and filling."""
    longest = by.choice([1, 4])
    text = re.sub(
        "[0-9]", lambda _: "".join(by.choices("0123456789", k=by.randint(1, longest))), line
    )
    for old, new in ((" ", "   "), ("0", "12,345"), ("5", "41"), ("█", "▏"), ("   ", "       ")):
        if by.random() < 0.3:
            text = text.replace(old, new, by.randrange(3))
    return text


def one_by_one(lines: list[str]) -> Iterator[tuple[int, LineProgress]]:
    for number, line in enumerate(lines, start=1):
        if (found := read_progress(line)) is not None:
            yield number, found


def without_blocks(line: str) -> str:
    return line.split("\n")[0].replace("[step=", "[stop=").replace("[batch=", "[botch=")


@given(LINES | MUTATED | st.sampled_from(ALL), st.randoms(use_true_random=False))
@example("fit bandit [x] 5 [1:00, a]", random.Random(1))
@example("st\x1b[0mep 5 loss 2", random.Random(1))
@example("lo1ss 5 st2ep 7", random.Random(1))
@example("step 1 loss 1,23 lr 1,2,3", random.Random(1))
def test_lines_of_one_shape_are_read_as_each_alone(line: str, by: random.Random) -> None:
    lines = [without_blocks(alike(line, by)) for _ in range(8)]
    assert repr(list(read_lines(lines))) == repr(list(one_by_one(lines)))


@pytest.mark.parametrize(
    "pair",
    [
        ("step 5 loss 1,23 lr 1", "step 5 loss 1,234 lr 1"),
        ("step 5 loss 2 lr 1", "step 5 loss    2    lr 1"),
        ("step 5 loss .5", "step 5 loss 5"),
        ("step 5 loss 2=3", "step 5 loss= 23"),
        ("step 5 loss 0:2", "step 5 loss : 02"),
        ("step 5 10% | loss 2", "step 5 10%|  5 | loss 2"),
        ("\x1b[31mstep 5 loss 2\x1b[0m", "\x1b[31mstep 5 loss 2\x1b[0m7"),
    ],
)
def test_lines_that_differ_in_little_are_not_one_shape(pair: tuple[str, str]) -> None:
    one, other = pair
    lines = [*[one] * 4, *[other] * 4, one, other]
    assert list(read_lines(lines)) == list(one_by_one(lines))


@pytest.mark.parametrize("word", ["step", "iter", "it", "batch", "Update", "UP", "ba\x1b[0mtch"])
def test_a_word_for_a_step_is_enough_to_look_at_a_line(word: str) -> None:
    (found,) = read_lines([f"{word} 7 lr 0.1 acc 0.5"])
    assert found[1].step == 7


@given(st.lists(LINES | MUTATED, max_size=12), st.randoms(use_true_random=False))
def test_a_log_is_read_alike_whole_and_in_chunks(lines: list[str], by: random.Random) -> None:
    log = "\n".join([*lines, *(alike(line, by) for line in lines * 3)]).encode()
    raw = log.split(b"\n")
    cut = by.randrange(len(raw) + 1)
    chunks = [b"\n".join(part) for part in (raw[:cut], raw[cut:]) if part]
    assert repr(list(read_chunks(chunks))) == repr(list(read_raw(raw)))


SEPARATED = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\r", "\r\r\n"])


@settings(max_examples=40)
@given(
    st.lists(LINES | MUTATED | st.sampled_from(ALL), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 30)), max_size=5),
    SEPARATED,
    st.randoms(use_true_random=False),
)
@example(["step 5 loss 2.5 lr 1"], [(0, 30)], "\n", random.Random(1))
@example([" 1%| | 3/90 [0:01<0:01, 1.0it/s]"], [(0, 30)], "\n", random.Random(1))
@example([TRAINERS["block"], "step 5 loss 2.5"], [(0, 30), (1, 9), (0, 9)], "\n", random.Random(1))
@example(["{'loss': 2.5,\n 'lr': 0.1}", "  x"], [(0, 30), (1, 1), (0, 9)], "\n", random.Random(1))
def test_runs_of_lines_are_read_as_each_alone(
    lines: list[str], runs: list[tuple[int, int]], end: str, by: random.Random
) -> None:
    texts = [alike(lines[at % len(lines)], by) for at, times in runs for _ in range(times)]
    steady = [lines[at % len(lines)] for at, times in runs for _ in range(times)]
    log = end.join([*steady, *texts, *steady]).encode()
    spoilt = by.randrange(len(log) + 1)
    log = log[:spoilt] + by.choice([b"", b"", b"\xff", b"\xe2\x96"]) + log[spoilt:]
    raw = log.split(b"\n")
    cut = by.randrange(len(raw) + 1)
    progress_lines.forget()
    alone = [
        *progress_lines._read([([each], [key(each)]) for each in map(progress_lines._state, raw)])
    ]
    chunks = [b"\n".join(part) for part in (raw[:cut], raw[cut:]) if part]
    for chosen in (chunks, [b"\n".join(raw)]):
        progress_lines.forget()
        assert repr(list(read_chunks(chosen))) == repr(alone)


def key(line: bytes) -> bytes:
    return line.translate(None, progress_lines._LEFT_OUT)


def test_lines_of_one_shape_are_read_together() -> None:
    log = "\n".join(lines_of(TRAINERS["nanogpt"], 600) + lines_of(TRAINERS["block"], 600))
    found = list(read_runs([log.encode()]))
    assert len(found) < 60
    assert sum(each.lines if isinstance(each, Run) else 1 for each in found) == 1200


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_lines, "_MOST_KEYS", 50)
    words = ("".join(chr(97 + n // 26**i % 26) for i in range(4)) for n in range(300))
    lines = [f"step {n} loss 2.5 {word}" for n, word in enumerate(words)]
    assert [progress.step for _, progress in read_lines(lines)] == [*range(300)]
    assert 0 < progress_lines.remembered() <= 50


@pytest.mark.parametrize("name", TRAINERS)
def test_each_trainer_s_lines_are_all_read(name: str) -> None:
    states = [part for line in lines_of(TRAINERS[name], 50) for part in line.splitlines() if part]
    found = list(read_raw(state.encode() for state in states))
    assert [progress.step for _, progress in found] == [*range(50)]


@pytest.mark.parametrize("name", [*NOISE, *sorted(TRAINERS.keys() - {"block"})])
def test_few_of_the_lines_of_one_shape_are_looked_at_in_full(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []

    def counted(line: str) -> Shape:
        looked_at.append(line)
        return shape_of(line)

    monkeypatch.setattr(progress_lines, "shape_of", counted)
    lines = lines_of({**NOISE, **TRAINERS}[name], 1500)
    found = list(read_raw([line.encode() for line in lines]))
    assert len(found) == (0 if name in NOISE else 1500)
    assert len(looked_at) < 30
