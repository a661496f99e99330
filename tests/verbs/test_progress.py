"""``cockpit progress``: one entry a line, whatever a log's size; what is rounded is not exact."""

from __future__ import annotations

import gzip
import io
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.cli import main
from cockpit.text.progress import LineProgress
from cockpit.text.progress_lines import Run, read_chunks, read_raw, read_runs
from cockpit.verbs.progress import _entries, _entry, _summary, progress_text
from cockpit.verbs.reading import LONGEST, whole_chunks

KEYS = ["line", "step", "step_exact", "step_shown", "max_step", "max_shown"]
KEYS += ["scope", "loss", "throughput", "unit", "format"]
LOG = (
    "starting\r\n"
    "step 1/90 loss 2.5 tok/s 100\n"
    "Progress on:train 4.60kit/5.16kit rate:- remaining:? elapsed:1:00 postfix:loss=2.31\n"
    "val step 1 loss 2.5\n"
    "[step=2/90]:\n    train/loss=nan\n"
    " 1%| | 3/90 [00:01<?, 1.0it/s]\r 4%| | 4/90 [00:02<00:07, 2.0it/s]\r\n"
)


def entries(capsys: pytest.CaptureFixture[str], path: Path) -> list[dict[str, object]]:
    assert main(["progress", str(path), "--json"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_each_line_of_training_is_one_entry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], packed: bool
) -> None:
    path = tmp_path / ("run.log.gz" if packed else "run.log")
    path.write_bytes(gzip.compress(LOG.encode()) if packed else LOG.encode())
    found = entries(capsys, path)
    assert [list(each) for each in found] == [KEYS] * 4
    told = [[each[key] for key in ("line", "step", "max_step", "loss", "unit")] for each in found]
    assert told == [
        [2, 1, 90, 2.5, "tok/s"],
        [3, None, None, 2.31, None],
        [5, 2, 90, "NaN", None],
        [7, 4, 90, None, "it/s"],
    ]
    assert (found[1]["step_shown"], found[1]["step_exact"]) == ("4.60k", False)


TEXTS = st.none() | st.from_regex(r"\A[0-9.]{1,6}[kMe]?\Z")
FLOATS = st.none() | st.floats()
LINES = st.builds(
    LineProgress,
    format=st.sampled_from(["tqdm", "dict"]),
    step=st.none() | st.integers(0, 10**15),
    step_exact=st.booleans(),
    step_shown=TEXTS,
    max_step=st.none() | st.integers(0, 10**15),
    max_shown=TEXTS,
    scope=st.sampled_from(["run", "epoch", "epochs"]),
    loss=FLOATS,
    throughput=st.none() | st.floats(0, 1e300),
    unit=st.sampled_from([None, "it/s", "tok/s/device"]),
)


@given(st.integers(1, 10**9), LINES)
def test_an_entry_is_the_document_of_a_line(line: int, told: LineProgress) -> None:
    assert _entry(line, told) == json.dumps({"line": line, **told.to_json()})


SHAPES = [
    "step {} loss {} lr 1e-4",
    "step {0}/{0}: loss {1}, tok/s {1}",
    " 5%| | {}/90 [00:01<00:02, {}it/s]",
    "{{'loss': {1}, 'grad_norm': {0}.5, 'epoch': 0.5}}",
    "step {}k loss {}",
]
SAME = ["0.5", "12.25", "100.0"]
OTHERS = ["0.0", "1,024.5", "99999.5", "1.5e-07", "007.10"]


@given(
    st.sampled_from(SHAPES),
    st.lists(st.integers(0, 10**17), min_size=20, max_size=40),
    st.sampled_from([SAME, [*SAME, *OTHERS]]),
)
def test_the_entries_of_a_run_are_those_of_its_lines(
    shape: str, steps: list[int], figures: list[str]
) -> None:
    lines = [shape.format(n % 10**9 if n % 7 else n, figures[n % len(figures)]) for n in steps]
    log = "\n".join([*lines[:1] * 6, *lines]).encode()
    told = list(read_chunks([log]))
    found = list(read_runs([log]))
    runs = (_entries(each) if isinstance(each, Run) else [_entry(*each)] for each in found)
    assert [text for each in runs for text in each] == [_entry(*each) for each in told]
    last = [f"line {told[-1][0]}: {progress_text(told[-1][1])}"] if told else []
    count = [f"{len(told):,} progress lines"] if told else ["no training progress lines found"]
    assert _summary(found) == last + count


@given(
    st.sampled_from(
        [*SHAPES, "Loss at step {} : {}", "({}) step: {} loss: {}", "é step {} loss {}"]
    ),
    st.lists(st.integers(0, 10**17), min_size=4, max_size=30),
    st.sampled_from([SAME, [*SAME, *OTHERS]]),
    st.lists(st.integers(0, 90), max_size=6),
    st.sampled_from(
        ["", "saved", "step 7 loss 2 step 9", "step 8 loss 2\t", f"step 9 {4100 * ' '}loss 3"]
    ),
)
def test_chunk_after_chunk_of_one_shape_is_counted_as_its_lines_are_read(
    shape: str, steps: list[int], figures: list[str], cuts: list[int], odd: str
) -> None:
    lines = [
        shape.format(n % 10**9 if n % 5 else n, figures[n % len(figures)], "2.5") for n in steps
    ]
    lines = [*lines[:1] * 40, *lines, odd, *lines[:1] * 20, *lines]
    raw = [line.encode() for line in lines]
    edges = [0, 20, *sorted(20 + cut for cut in cuts), len(raw)]
    chunks = [b"\n".join(raw[a:b]) for a, b in pairwise(edges) if raw[a:b]]
    told = list(read_raw(raw))
    assert list(read_chunks(chunks)) == told
    found = list(read_runs(chunks))
    last = [f"line {told[-1][0]}: {progress_text(told[-1][1])}"] if told else []
    count = [f"{len(told):,} progress lines"] if told else ["no training progress lines found"]
    assert _summary(found) == last + count


def test_a_log_without_progress_is_an_empty_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text("nothing here\n")
    assert entries(capsys, tmp_path / "log") == []
    assert main(["progress", str(tmp_path / "log")]) == 0
    assert capsys.readouterr().out == "no training progress lines found\n"


def test_of_a_giant_line_the_last_state_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = (f"train: 1%|# | {n}/900000 [00:10<01:00, 1.0it/s]" for n in range(1, 60_000))
    (tmp_path / "log").write_text("\r".join(states) + "\nstep 7 loss 2.5\n")
    assert (tmp_path / "log").stat().st_size > 2 * LONGEST
    assert [each["step"] for each in entries(capsys, tmp_path / "log")] == [59_999, 7]


@pytest.mark.parametrize("size", [1, 7, 100, 4096])
def test_chunks_are_whole_lines_whatever_is_read_at_once(size: int) -> None:
    chunks = list(whole_chunks(io.BytesIO(LOG.encode()), size))
    assert b"\n".join(chunks) == LOG.encode().removesuffix(b"\n")
    assert not any(chunk.endswith(b"\n") for chunk in chunks)


def test_a_line_that_never_ends_takes_bounded_memory() -> None:
    chunks = list(whole_chunks(io.BytesIO(b"x" * (4 * LONGEST) + b"\nnext"), LONGEST))
    assert sum(map(len, chunks)) < 3 * LONGEST
    assert b"\n".join(chunks).split(b"\n")[-1] == b"next"
