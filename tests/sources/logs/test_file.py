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
from cockpit.sources.logs.local import LocalLog
from cockpit.sources.logs.ranged import BLOCK, iter_lines, line_start, lines_before

MIB = 1024 * 1024


def texts(page: LogPage) -> list[str]:
    return [line.plain for line in page.lines]


def numbered(path: Path, count: int) -> LogFile:
    path.write_text("".join(f"line {number}\n" for number in range(count)))
    return LogFile(LocalLog(path))


def test_tail_of_a_short_file(tmp_path: Path) -> None:
    page = numbered(tmp_path / "log", 3).tail(10)
    assert texts(page) == ["line 0", "line 1", "line 2"]
    assert page.offsets == (0, 7, 14) and (page.start, page.end, page.size) == (0, 21, 21)


def test_tail_takes_the_last(tmp_path: Path) -> None:
    page = numbered(tmp_path / "log", 50_000).tail(3)
    assert texts(page) == ["line 49997", "line 49998", "line 49999"]
    assert page.end == page.size


def test_an_empty_file(tmp_path: Path) -> None:
    log = numbered(tmp_path / "log", 0)
    assert log.tail(5) == LogPage((), (), 0, 0, 0)
    assert log.page(0, 5) == log.page(7, 5, back=True) == LogPage((), (), 0, 0, 0)


def test_a_last_line_without_line_break_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo")
    assert texts(LogFile(LocalLog(tmp_path / "log")).tail(5)) == ["one", "two"]


def test_pages_forwards_and_backwards_meet(tmp_path: Path) -> None:
    log = numbered(tmp_path / "log", 30_000)
    first = log.page(0, 100)
    second = log.page(first.end, 100)
    assert texts(second)[0] == "line 100"
    assert log.page(second.start, 100, back=True) == first
    assert log.page(log.tail(1).end, 5) == LogPage((), (), second.size, second.size, second.size)
    assert texts(log.page(first.start, 10, back=True)) == []


def test_an_offset_inside_a_line_means_the_line(tmp_path: Path) -> None:
    log = numbered(tmp_path / "log", 100)
    assert texts(log.page(9, 1)) == ["line 1"]
    assert texts(log.page(9, 1, back=True)) == ["line 0"]


def test_an_offset_beyond_the_end_means_the_end(tmp_path: Path) -> None:
    log = numbered(tmp_path / "log", 5)
    assert texts(log.page(10_000, 2, back=True)) == ["line 3", "line 4"]


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


@pytest.mark.parametrize("name", ["folder", "pipe"])
def test_only_regular_files(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="not a regular file"):
        LogFile(LocalLog(tmp_path / name)).tail(1)


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


def test_search_forwards_and_on(tmp_path: Path) -> None:
    log = numbered(tmp_path / "log", 50_000)
    hit = log.search("LINE 4999", 0)
    assert hit is not None and hit.found and hit.line is not None
    assert hit.line.plain == "line 4999"
    after = log.search("LINE 4999", hit.end)
    assert after is not None and after.line is not None and after.line.plain == "line 49990"
    assert log.search("line 7", log.tail(1).end) is None


def test_search_backwards_and_on(tmp_path: Path) -> None:
    log = numbered(tmp_path / "log", 50_000)
    hit = log.search("line 1234", log.tail(1).end, back=True)
    assert hit is not None and hit.line is not None and hit.line.plain == "line 12349"
    before = log.search("line 1234", hit.offset, back=True)
    assert before is not None and before.line is not None and before.line.plain == "line 12348"
    assert log.search("line 3", 5, back=True) is None


def test_case_counts_when_asked(tmp_path: Path) -> None:
    log = numbered(tmp_path / "log", 10)
    assert log.search("LINE", 0, ignore_case=False) is None


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


def test_a_literal_is_no_expression(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("aXc\na.c [/]\n")
    hit = LogFile(LocalLog(tmp_path / "log")).search("a.c [", 0)
    assert hit is not None and hit.offset == 4


def test_colours_do_not_hide_a_match(tmp_path: Path) -> None:
    lines = [f"\x1b[1m{n}\x1b[0m \x1b[3{n % 8}mloss\x1b[0m: {n}" for n in range(20)]
    (tmp_path / "log").write_text("\n".join(lines))
    hit = LogFile(LocalLog(tmp_path / "log")).search("loss: 13", 0)
    assert hit is not None and hit.line is not None and hit.line.plain == "13 loss: 13"


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
