"""Counting matches and sifting warnings and errors out: by ranges, honest about how far."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cockpit.model.logtext import LogPage, level_of
from cockpit.sources.logs import file
from cockpit.sources.logs.file import sift
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.logs.search import Matcher, count_expression, count_from, find_expression

BEYOND = 1 << 62
STACK = (
    "Traceback (most recent call last):\n  File \"train.py\", line 3, in step\nKeyError: 'storm'\n"
)


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("I20260311 08:41:07 5300 train.py:88] ERROR_RATE=0.1", "I"),
        ("W20260311 08:41:07 5300 slow input", "W"),
        ("F0311 08:41:07.123 5300 check failed", "E"),
        ("2026-03-11 08:41:07,123 - mod.sub - ERROR - lost a worker", "E"),
        ("2026-03-11 08:41:07 INFO no error: all well", "I"),
        ('{"level": "warning", "msg": "x"}', "W"),
        ("slurmstepd: error: Detected 1 oom-kill event(s)", "E"),
        ("/x/y.py:12: UserWarning: old thing", "W"),
        ("rank 3: torch.cuda.OutOfMemoryError: out of memory", "E"),
        ("step 12 | loss 2.3 | error 0.1", ""),
        ("", ""),
    ],
)
def test_a_line_tells_its_own_level(line: str, level: str) -> None:
    assert level_of(line) == level


def _log(path: Path, count: int) -> tuple[LocalLog, list[int]]:
    """Return a log with a traceback every 1,000 lines, and where its three lines start."""
    data, wanted = "", []
    for n in range(count):
        if n % 1000 == 500:
            at = len(data)
            wanted += [at, at + len(STACK.splitlines(True)[0])]
            wanted += [at + len("".join(STACK.splitlines(True)[:2]))]
            data += STACK
        data += f"step {n} loss 2.1 some more words of a trainer\n"
    path.write_text(data)
    return LocalLog(path), wanted


@pytest.mark.parametrize("chunk", [1024, file.SIFT_CHUNK])
def test_what_is_sifted_is_the_same_from_both_ends_and_counts_all_that_is_left_out(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "SIFT_CHUNK", chunk)
    log, wanted = _log(tmp_path / "run.log", 9000)
    for back, edge in ((True, BEYOND), (False, 0)):
        page = sift(log, edge, 2000, back, 0, 60.0)
        assert list(page.offsets) == wanted
        assert (page.start, page.end) == (0, page.size)
        assert sum(page.gaps) + page.rest == 9000
        assert (page.gaps[0], page.rest) == (500, 500)


def test_out_of_time_it_tells_how_far_it_has_looked_and_goes_on_from_there(tmp_path: Path) -> None:
    log, wanted = _log(tmp_path / "run.log", 60_000)
    pages: list[LogPage] = []
    at = BEYOND
    while at > 0:
        page = sift(log, at, 2000, True, 0, 0.0)
        assert page.start < min(at, page.size) and page.end - page.start < 2 * file.SIFT_CHUNK
        pages.insert(0, page)
        at = page.start
    assert len(pages) > 3 and [at for page in pages for at in page.offsets] == wanted
    begun = sift(log, BEYOND, 2000, True, wanted[3], 60.0)
    assert begun.start == wanted[3] and list(begun.offsets) == wanted[3:]


def test_matching_lines_are_counted_once_each_whatever_their_colours(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    coloured = "lo\x1b[31mss\x1b[0m loss\n"
    path.write_text(f"loss loss\nnone\n{coloured}LOSS 3\nlast loss")
    ends = [0, 15, 15 + len(coloured), 15 + len(coloured) + 7]
    found = count_from(LocalLog(path), "loss", False, 0, 60.0)
    assert list(found.offsets) == ends and found.reached == ends[-1]
    assert found.size == path.stat().st_size
    assert list(count_from(LocalLog(path), "loss", False, 15, 60.0).offsets) == ends[1:]
    counted = asyncio.run(count_expression(LocalLog(path), r"^l.*s \w+$", 0))
    assert list(counted.offsets) == ends[:3]


def test_a_count_in_pieces_is_the_whole_count_and_where_the_search_goes(tmp_path: Path) -> None:
    log, _ = _log(tmp_path / "run.log", 60_000)
    offsets, at, pieces = list[int](), 0, 0
    while True:
        found = count_from(log, "step 1", False, at, 0.0)
        offsets += found.offsets
        pieces += 1
        if found.reached == found.size:
            break
        at = found.reached
    assert pieces > 1 and len(offsets) == sum(str(n).startswith("1") for n in range(60_000))
    hit = asyncio.run(find_expression(log, "step 1", offsets[7], True))
    assert hit is not None and hit.offset == offsets[6]


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [(r"a\s+b", [3]), (r"a\s*", [0, 2, 3]), (r"(?s)a.*z", []), (r"x$\n^b", []), (r"b\s", [3])],
)
def test_no_match_goes_on_in_the_next_line(tmp_path: Path, pattern: str, lines: list[int]) -> None:
    path = tmp_path / "run.log"
    rows = ["x a", "b", "a ", "a b  ", "z"]
    path.write_text("".join(f"{row}\n" for row in rows))
    starts = [sum(len(row) + 1 for row in rows[:at]) for at in range(len(rows))]
    log = LocalLog(str(path))
    assert list(count_from(log, pattern, True, 0, 5.0).offsets) == [starts[at] for at in lines]
    data, matcher = path.read_bytes(), Matcher.of(pattern, True, True)
    ends = (matcher.find(data), matcher.find_last(data))
    found = [at if at < 0 else data.count(b"\n", 0, at) for at in ends]
    assert found == ([lines[0], lines[-1]] if lines else [-1, -1])
