from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.logtext import LogPage
from cockpit.sources.logs import ranged as log_lines
from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.logs.ranged import BLOCK, iter_lines, line_start, lines_before

MIB = 1024 * 1024


def texts(page: LogPage) -> list[str]:
    return [line.plain for line in page.lines]


def numbered(path: Path, count: int) -> LogFile:
    path.write_text("".join(f"line {number}\n" for number in range(count)))
    return LogFile(LocalLog(path))


def test_an_empty_file(tmp_path: Path) -> None:
    log = numbered(tmp_path / "log", 0)
    assert log.tail(5) == LogPage((), (), 0, 0, 0)
    assert log.page(0, 5) == log.page(7, 5, back=True) == LogPage((), (), 0, 0, 0)


def test_a_last_line_without_line_break_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo")
    assert texts(LogFile(LocalLog(tmp_path / "log")).tail(5)) == ["one", "two"]


def test_lines_are_safe_and_scrubbed(tmp_path: Path) -> None:
    key = "sk-" + "proj-" + "Ab3" * 16
    (tmp_path / "log").write_text(f"\x1b[31mred\x1b[0m\x1b]0;t\x07 [/] \nOPENAI_API_KEY={key}\n")
    page = LogFile(LocalLog(tmp_path / "log")).tail(2)
    assert page.lines[0].plain.rstrip() == "red [/]" and page.lines[0].spans
    assert key not in page.lines[1].plain


def test_binary_junk(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(range(256)) * 40)
    page = LogFile(LocalLog(tmp_path / "log")).tail(10)
    assert page.lines and all(line.plain.isprintable() for line in page.lines)


def test_a_gigabyte_without_line_break_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate(1024 * MIB)
        file.seek(0, os.SEEK_END)
        file.write(b"end")
    log = LogFile(LocalLog(tmp_path / "log"))
    before = time.thread_time()
    page = log.tail(50)
    assert time.thread_time() - before < 3.0
    assert texts(page)[-1] == "end"
    assert page.size - page.start <= log_lines.MOST_BLOCKS * BLOCK
    earlier = log.page(page.start, 5, back=True)
    assert earlier.end == page.start and log.page(earlier.start, 5) == earlier


def pieces(path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "BLOCK", block)
    with LocalLog(path).open() as opened:
        size = opened.stat.size
        ahead = list(iter_lines(opened, 0, size))
        back = lines_before(opened, size, size + 1) if size else []
        assert b"".join(line.data for line in ahead) == path.read_bytes()
        assert back == ahead[len(ahead) - len(back) :]
        assert all(0 < len(line.data) <= 2 * block for line in ahead)
        for line in ahead:
            for at in (line.start, line.end - 1):
                assert line_start(opened, at, size) == line.start
            assert lines_before(opened, line.end, 1) == [line]


@given(data=st.lists(st.sampled_from([b"\n", b"a", b"bb", b"ccccccccccc"])).map(b"".join))
def test_forwards_and_backwards_see_the_same_lines(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_bytes(data)
    pieces(tmp_path / "log", 8, monkeypatch)


def test_a_regular_expression(tmp_path: Path) -> None:
    log = numbered(tmp_path / "log", 1000)
    hit = log.search(r"line (\d)\1\1$", 0, regex=True)
    assert hit is not None and hit.line is not None and hit.line.plain == "line 111"
    last = log.search(r"^LINE \d$", log.tail(1).end, back=True, regex=True)
    assert last is not None and last.line is not None and last.line.plain == "line 9"


@pytest.mark.parametrize(("pattern", "regex"), [("(", True), ("", False), ("*", True)])
def test_a_pattern_that_means_nothing(tmp_path: Path, pattern: str, regex: bool) -> None:
    with pytest.raises(ValueError):
        numbered(tmp_path / "log", 1).search(pattern, 0, regex=regex)


@pytest.mark.parametrize("back", [False, True])
def test_a_search_out_of_time_goes_on_from_where_it_stopped(tmp_path: Path, back: bool) -> None:
    path = tmp_path / "log"
    needle = "needle\n"
    filler = "x" * 99 + "\n"
    parts = [needle if back else "", filler * 40_000, "" if back else needle]
    path.write_text("".join(parts))
    log = LogFile(LocalLog(path))
    at, rounds = (path.stat().st_size if back else 0), 0
    while True:
        hit = log.search("needle", at, back=back, budget_s=0.0)
        assert hit is not None
        rounds += 1
        if hit.found:
            break
        assert hit.line is None and (hit.offset < at if back else hit.offset > at)
        at = hit.offset
    assert rounds > 2 and hit.line is not None and hit.line.plain == "needle"


def test_a_match_in_a_giant_line_is_shown_where_it_is(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.write(b"first\n")
        file.truncate(5 * MIB)
        file.seek(0, os.SEEK_END)
        file.write(b"needle" + b"." * 100)
    log = LogFile(LocalLog(tmp_path / "log"))
    hit = log.search("needle", 0, budget_s=30.0)
    assert hit is not None and hit.line is not None and "needle" in hit.line.plain
    assert hit.end - hit.offset <= 2 * BLOCK
