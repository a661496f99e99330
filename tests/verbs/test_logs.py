"""``triage`` and ``progress``: what a log says, on demand, from a file or standard input.

``cockpit progress``: one entry a line, whatever a log's size; what is rounded is not exact.

``cockpit triage`` without a state: nothing is assumed, and nothing is relaunched (SPEC T).

``checkpoints``, ``triage`` and ``progress`` take a run of the run file, or a path.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.cli import main
from cockpit.sources.logs import present
from cockpit.text.progress import LineProgress
from cockpit.text.progress_lines import Run, read_chunks, read_raw, read_runs
from cockpit.verbs import progress, reading
from cockpit.verbs.progress import _entries, _entry, _summary, progress_text
from cockpit.verbs.reading import LONGEST, whole_chunks
from tests.sources.checkpoints.trees import levanter

TRACE = """step 10 loss 2.5
step 11 loss 2.4
Traceback (most recent call last):
  File "/w/launch.py", line 7, in <module>
    import flash_atn
ModuleNotFoundError: No module named 'flash_atn'
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_text(TRACE)
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_triage_names_the_class_its_lines_and_the_place(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(capsys, "triage", str(log), "--exit-code", "1")
    assert (found["class"], found["action"]) == ("small_code_bug", "fix_then_relaunch")
    assert found["code_location"] == {"file": "/w/launch.py", "line": 7}
    assert found["evidence"] == [
        {"line": 6, "text": "ModuleNotFoundError: No module named 'flash_atn'"}
    ]
    assert found["step"] == 11 and found["read"]["whole"]
    assert main(["triage", str(log), "--state", "failed"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "small_code_bug: fix_then_relaunch (likely)" and "/w/launch.py:7" in out[1]


def test_the_same_text_is_another_thing_while_the_job_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.log"
    log.write_text("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT x DUE TO TIME LIMIT ***\n")
    assert said(capsys, "triage", str(log), "--state", "failed")["action"] == "relaunch"
    assert said(capsys, "triage", str(log))["action"] == "escalate", "whether it ended is not known"
    assert said(capsys, "triage", str(log), "--state", "succeeded")["action"] == "none"


def test_the_orchestrators_own_word_is_a_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.log"
    log.write_text("step 1 loss 2.1\nstep 2 loss 2.0\nTerminated by SIGTERM\n")
    assert said(capsys, "triage", str(log), "--state", "OUT_OF_MEMORY")["class"] == "oom_host"
    assert said(capsys, "triage", str(log), "--state", "cancelled")["class"] == "user_stopped"


def test_a_long_log_is_read_from_its_end_and_says_so(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(present, "MOST_BYTES", 120)
    found = said(capsys, "triage", str(log))
    assert found["evidence"][0]["line"] == 6, "lines are numbered as in the file"
    assert not found["read"]["whole"] and "only its last" in found["read"]["why"]


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    "": lzma.compress,
}


@pytest.mark.parametrize("verb", ["triage", "progress"])
def test_packed_and_piped_logs_say_the_same(
    verb: str, log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = said(capsys, verb, str(log))
    for ending, compress in PACKINGS.items():
        packed = log.with_suffix(f".packed{ending}")
        packed.write_bytes(compress(log.read_bytes()))
        assert said(capsys, verb, str(packed)) == plain, "by its first bytes, else by its name"
    with log.open() as piped:
        monkeypatch.setattr("sys.stdin", piped)
        assert said(capsys, verb, "-") == plain


@pytest.mark.parametrize("verb", ["triage", "progress"])
@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("gone", None, "no such file"),
        (".", None, "is a folder"),
        ("torn.gz", gzip.compress(b"step 1 loss 2\n" * 99, mtime=0)[:40], "cannot be read"),
        ("not.gz", b"plain", "cannot be read"),
        ("torn.xz", lzma.compress(b"step 1 loss 2\n" * 99)[:40], "cannot be read"),
        ("packed.zst", b"\x28\xb5\x2f\xfd more", "packed with zstd"),
    ],
    ids=["not there", "a folder", "torn", "not packed", "torn xz", "zstd"],
)
def test_what_cannot_be_read_is_one_line(
    verb: str,
    name: str,
    data: bytes | None,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    assert main([verb, str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and why in err and str(path) in err


def test_progress_lists_each_line_that_is_progress(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "AT_ONCE", 1)
    entries = said(capsys, "progress", str(log))
    told = [(each["line"], each["step"], each["loss"]) for each in entries]
    assert told == [(1, 10, 2.5), (2, 11, 2.4)]
    assert main(["progress", str(log)]) == 0
    assert capsys.readouterr().out == "line 2: step 11, loss 2.400\n2 progress lines\n"


def test_what_a_line_rounds_is_not_told_as_exact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.log"
    log.write_text("Progress on:train 4.60kit/5.16kit rate:2.0it/s remaining:? elapsed:1:00:00\n")
    (entry,) = said(capsys, "progress", str(log))
    assert (entry["step"], entry["step_exact"], entry["max_step"]) == (None, False, None)
    assert main(["progress", str(log)]) == 0
    assert "step ~4.60k of 5.16k" in capsys.readouterr().out


def test_a_giant_line_costs_its_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST", 64)
    log = tmp_path / "run.log"
    log.write_text("step 1 loss 2.5" + "x" * 500 + "\nstep 2 loss 2.4\n")
    entries = said(capsys, "progress", str(log))
    assert entries[-1]["line"] == 2 and entries[-1]["step"] == 2


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


STEPS = [f"step {n}/100 loss 2.{n}" for n in range(1, 40)]
PREEMPTED = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-06-26T22:39:06 DUE TO PREEMPTION"


def triage_unstated_said(
    lines: list[str], folder: Path, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[str, str]:
    path = folder / "run.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["triage", str(path), "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    return found["class"], found["action"]


@pytest.mark.parametrize(
    ("end", "answer"),
    [
        ([], ("unknown", "escalate")),
        (["Training complete!"], ("success", "none")),
        (["step 100/100 loss 2.1"], ("success", "none")),
        ([PREEMPTED], ("preempted", "escalate")),
        (["Training complete!", "OSError: [Errno 28] No space left on device"],
         ("disk_full", "escalate")),
    ],
)  # fmt: skip
def test_nothing_is_assumed_of_a_job_without_a_state(
    end: list[str], answer: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert triage_unstated_said([*STEPS, *end], tmp_path, capsys) == answer


def test_an_exit_status_is_a_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert triage_unstated_said(STEPS, tmp_path, capsys, "--exit-code", "0") == ("success", "none")
    assert (
        triage_unstated_said([*STEPS, PREEMPTED], tmp_path, capsys, "--exit-code", "1")[1]
        == "relaunch"
    )


def test_a_person_is_asked_for_the_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join(STEPS))
    assert main(["triage", str(path)]) == 0
    assert "say --state, or --exit-code" in capsys.readouterr().out


ERROR = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
RUN_FILE = """
[[run]]
name = "toy"
job = { kind = "local", log = "out/run.log", pid_file = "out/run.pid", exit_file = "out/run.exit" }
checkpoints = { path = "out/saved", layout = "levanter" }
[[run]]
name = "bare"
job = { kind = "local", log = "out/none.log", pid_file = "out/none.pid" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cockpit.toml").write_text(RUN_FILE)
    (tmp_path / "out").mkdir()
    steps = "\n".join(f"step {n}/100 loss=2.{n}" for n in range(1, 40))
    (tmp_path / "out" / "run.log").write_text(f"{steps}\n{ERROR}\n")
    (tmp_path / "out" / "run.pid").write_text("999999999\n")
    (tmp_path / "out" / "run.exit").write_text("1\n")
    levanter(tmp_path / "out" / "saved", 30)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> object:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("verb", "path"), [
    ("checkpoints", "out/saved"), ("progress", "out/run.log"),
])  # fmt: skip
def test_a_run_is_its_own_files(
    verb: str, path: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_run = printed(capsys, verb, "toy")
    assert by_run == printed(capsys, verb, path) and by_run


def test_triage_of_a_run_takes_the_state_of_its_job(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_run = printed(capsys, "triage", "toy")
    by_file = printed(capsys, "triage", "out/run.log", "--state", "failed", "--exit-code", "1")
    assert isinstance(by_run, dict) and isinstance(by_file, dict)
    assert by_run["class"] == by_file["class"] != "unknown"
    assert by_run["action"] == by_file["action"]
    assert main(["triage", "toy", "--state", "failed"]) == 2
    assert "is a run: its job's state" in capsys.readouterr().err


def test_what_exists_is_a_path_before_it_is_a_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "toy").write_text("step 7/100 loss=9.5\n")
    found = printed(capsys, "progress", "toy")
    assert isinstance(found, list) and [each["step"] for each in found] == [7]


def test_a_run_without_what_is_asked_for_says_so_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoints", "bare"]) == 2
    assert "bare has no checkpoints" in capsys.readouterr().err
    for verb in ("triage", "progress"):
        assert main([verb, "bare"]) == 2
        assert "the log of bare cannot be read" in capsys.readouterr().err
    assert main(["checkpoints", "nobody"]) == 2
    assert "expected a run, or a folder" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["triage", "progress", "checkpoints"])
def test_a_name_that_no_file_may_have_is_one_clear_line(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert main([verb, "a" * 5_000]) == (3 if verb == "checkpoints" else 2)
    said = capsys.readouterr().err
    assert "internal error" not in said and said.count("\n") == 1


def test_the_overview_has_every_verb_in_one_of_three_groups(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    look, act, tools = (said.index(f"\n{group}: ") for group in ("look", "act", "tools"))
    places = {name: said.index(f"\n  {name} ") for name in ("check", "retain", "doctor", "triage")}
    assert look < places["check"] < act < places["retain"] < tools < places["doctor"]
    assert look < places["triage"] < act
