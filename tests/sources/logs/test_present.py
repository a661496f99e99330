"""What a diagnosis reads: the present job's lines, however the file was treated."""

from __future__ import annotations

import gzip
import lzma
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.hosts.notes import end_mark
from cockpit.model.logtext import LogMark, PresentLog
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.logs.present import MOST_LINES, read_present


def texts(log: PresentLog) -> list[str]:
    return [line.text for line in log.lines]


def mark(path: Path) -> LogMark:
    found = end_mark(path)
    assert found is not None
    return LogMark(*found)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.log"


def test_the_lines_are_numbered_as_the_file_s(log: Path) -> None:
    log.write_text("".join(f"line {number}\n" for number in range(1, MOST_LINES + 501)))
    found = read_present(LocalLog(log))
    assert len(found.lines) == MOST_LINES
    first = found.lines[0]
    assert (first.text, first.number) == ("line 501", 501)
    assert first.offset is not None and log.read_bytes()[first.offset :].startswith(b"line 501\n")
    assert not found.read.whole and found.read.why == "only its last 20,000 lines were read"


def test_what_stands_before_the_launcher_s_mark_is_another_job_s(log: Path) -> None:
    log.write_text("old one\nold two\n")
    begun = mark(log)
    with log.open("a") as file:
        file.write("new\n")
    found = read_present(LocalLog(log), begun)
    assert texts(found) == ["new"] and found.lines[0].number == 3
    assert found.read.since == "recorded" and found.read.whole


def test_a_log_that_was_rotated_while_the_job_ran_is_read_on(log: Path) -> None:
    log.write_text("old " * 30 + "\n")
    begun = mark(log)
    with log.open("a") as file:
        file.write("new, rotated\n")
    log.rename(log.with_name("run.log.1"))
    log.write_text("new, here\n")
    found = read_present(LocalLog(log), begun, 0.0)
    assert texts(found) == ["new, rotated", "new, here"]
    assert [line.number for line in found.lines] == [None, 1]
    assert found.lines[0].file == str(log.with_name("run.log.1"))
    assert found.read.since == "recorded"


def test_a_packed_part_of_the_present_job_s_log_is_read(log: Path) -> None:
    for name, when in (("run.log.1.gz", 200.0), ("run.log.2.gz", 50.0)):
        path = log.with_name(name)
        path.write_bytes(gzip.compress(f"of {name}\n".encode()))
        os.utime(path, (when, when))
    log.write_text("here\n")
    assert texts(read_present(LocalLog(log), None, 100.0)) == ["of run.log.1.gz", "here"]
    packed = log.with_name("run.log.1.xz")
    packed.write_bytes(lzma.compress(b"of xz\n"))
    os.utime(packed, (150.0, 150.0))
    assert texts(read_present(LocalLog(log), None, 100.0))[:2] == ["of xz", "of run.log.1.gz"]
    packed.unlink()
    log.with_name("run.log.1.gz").write_bytes(b"\x1f\x8b torn")
    os.utime(log.with_name("run.log.1.gz"), (200.0, 200.0))
    assert texts(read_present(LocalLog(log), None, 100.0)) == ["here"]


def stamp(at: float) -> str:
    return f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%dT%H:%M:%SZ}"


def test_lines_that_say_they_are_older_than_the_job_are_another_s(log: Path) -> None:
    at = 1_800_000_000.0
    lines = [f"{stamp(at - 50)} old", f"{stamp(at - 9)} old", "bare", f"{stamp(at + 5)} new"]
    log.write_text("\n".join(lines) + "\n")
    os.utime(log, (at + 60, at + 60))
    found = read_present(LocalLog(log), None, at)
    assert texts(found) == lines[2:] and found.read.since == "stamped"
    behind = read_present(LocalLog(log), None, at + 1000)
    assert texts(behind) == lines, "a clock that is behind makes no line another job's"


def test_states_of_a_bar_are_lines_and_few_of_them_are_kept(log: Path) -> None:
    bars = [f" {n}%|#| {n}/100 [00:01<00:09, 9.9it/s]" for n in range(100)]
    log.write_text("\r".join(bars) + "\rRuntimeError: odd\r" + bars[-1] + "\r\n")
    assert texts(read_present(LocalLog(log))) == [bars[0], bars[-1], "RuntimeError: odd", bars[-1]]


def test_what_stands_in_a_giant_line_is_found(log: Path) -> None:
    log.write_text("first\n" + "x" * 500_000 + " RuntimeError: odd " + "y" * 500_000 + "\nlast")
    found = read_present(LocalLog(log))
    (line,) = [line for line in found.lines if "RuntimeError: odd" in line.text][:1]
    assert line.number == 2 and found.lines[-1].text == "last" and found.lines[-1].number == 3


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-8"])
def test_a_log_in_utf_16_or_after_the_hole_of_a_truncated_one_is_read(
    log: Path, coding: str
) -> None:
    log.write_bytes(bytes(40_000) * (coding == "utf-8") + "step 1\nLoss is NaN\n".encode(coding))
    lines = [line.text.lstrip("\ufffd\ufeff") for line in read_present(LocalLog(log)).lines]
    assert lines[:2] == ["step 1", "Loss is NaN"]


def test_bytes_that_are_no_text_say_nothing(log: Path) -> None:
    log.write_bytes(b"one\n" + bytes(range(128, 256)) * 20 + b"\n\x1b[31mred\x1b[0m\n")
    assert texts(read_present(LocalLog(log))) == ["one", "", "red"]


@given(st.binary(max_size=400), st.integers(0, 400))
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, data: bytes, at: int) -> None:
    path = tmp_path_factory.mktemp("any") / "run.log"
    path.write_bytes(data)
    found = read_present(LocalLog(path), LogMark(path.stat().st_ino, at, 0), 5.0)
    assert all(line.number is None or line.number >= 1 for line in found.lines)
