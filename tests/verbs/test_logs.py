"""``triage`` and ``progress``: what a log says, on demand, from a file or standard input."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.sources.logs import present
from cockpit.verbs import progress, reading

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
