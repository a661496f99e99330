"""A log that is fetched by cursor: kept here once, whatever is killed, and read like a file.

Counting matches and sifting warnings and errors out: by ranges, honest about how far.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.logtext import LogPage, level_of
from cockpit.model.observed import LogValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.model.wording import skipped as skipped_words
from cockpit.sources.logs import file
from cockpit.sources.logs import spool as spooling
from cockpit.sources.logs.file import LogFile, sift
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.logs.present import DROPPED, read_present
from cockpit.sources.logs.remote import log_at
from cockpit.sources.logs.search import Matcher, count_expression, count_from, find_expression
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.spool import Spool, passing, tidy


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool("run", "/ada/a job", tmp_path / "logs" / "m")


def text_of(spool: Spool) -> bytes:
    with log_at(spool.place).open() as log:
        return log.read(log.stat.begin, log.stat.size)


def numbered(*numbers: int) -> list[bytes]:
    return [b"step %d loss 2.5" % number for number in numbers]


def fill(spool: Spool, batches: int, size: int, width: int = 100) -> None:
    for number in range(batches):
        lines = [b"%d-%d " % (number, at) + b"x" * width for at in range(size)]
        before = str(number - 1) if number else None
        assert spool.append(lines, str(number), 1.0, since=before)


def test_lines_are_kept_with_the_cursor_that_follows_them(spool: Spool) -> None:
    assert spool.cursor() is None
    assert spool.append(numbered(1, 2), "c2", 100.0, since=None)
    assert spool.append(numbered(3), "c3", 101.0, since="c2")
    assert spool.cursor() == "c3"
    assert text_of(spool) == b"step 1 loss 2.5\nstep 2 loss 2.5\nstep 3 loss 2.5\n"
    assert spool.last(2) == numbered(2, 3)
    with log_at(spool.place).open() as log:
        assert log.stat.mtime == 101.0 and log.stat.begin == 0


def test_nothing_fetched_yet_is_no_log(spool: Spool) -> None:
    assert spool.last(5) == []
    with pytest.raises(FileNotFoundError):
        text_of(spool)


def test_jobs_are_kept_apart_whatever_their_ids(tmp_path: Path) -> None:
    ids = ["/ada/x", "-ada-x", "../x", "x" * 300, "é\n", ""]
    for one in ids:
        spool = Spool("../run", one, tmp_path)
        assert spool.append([one.encode()], "c", 1.0, since=None)
        assert tmp_path in spool.folder.resolve().parents
    assert len(list(tmp_path.glob("*/*.spool"))) == len(ids)


def test_only_this_user_can_read_it_and_no_secret_is_stored(spool: Spool, tmp_path: Path) -> None:
    secret = "hf_" + "Qw3rTyUiOp" * 4
    spool.append([f"HF_TOKEN={secret} \x1b[1mbold\r".encode(), b"\xff\xfe"], "c", 1.0, since=None)
    folders = [path for path in (spool.folder, *spool.folder.parents) if tmp_path in path.parents]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folders}
    assert len(folders) == 4 and modes == {0o700}
    files = [path for path in spool.folder.iterdir() if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert not any(secret.encode() in path.read_bytes() for path in files)
    assert b"\x1b[1mbold\r\n\xff\xfe\n" in text_of(spool)


KILLED = """
import os, signal, sys
from pathlib import Path
from cockpit.sources.logs import spool as spooling
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
setattr(spooling, sys.argv[2], die)
spool = spooling.Spool("run", "/ada/a job", Path(sys.argv[1]))
spool.append([b"step 2 loss 2.5", b"step 3 loss 2.5"], "c3", 2.0, since="c1")
"""


@pytest.mark.parametrize(("at", "counted"), [("_write", 1), ("_replace", 1), ("_drop", 3)])
def test_a_kill_neither_loses_nor_doubles_a_line(
    spool: Spool, tmp_path: Path, at: str, counted: int
) -> None:
    spool.append(numbered(1), "c1", 1.0, since=None)
    argv = [sys.executable, "-c", KILLED, str(tmp_path / "logs" / "m"), at]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert text_of(spool).count(b"\n") == counted
    if counted == 1:
        assert spool.cursor() == "c1"
        assert spool.append(numbered(2, 3, 4), "c4", 3.0, since="c1")
    else:
        assert spool.append(numbered(4), "c4", 3.0, since="c3")
    assert text_of(spool).splitlines() == numbered(1, 2, 3, 4)


def test_a_writer_that_stands_still_holds_up_nobody_for_long(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.append(numbered(1), "c1", 1.0, since=None)
    monkeypatch.setattr(spooling, "PATIENCE", 0.05)
    with spooling._locked(spool.folder) as mine:
        assert mine and not spool.append(numbered(2), "c2", 1.0, since="c1")
    assert spool.append(numbered(2), "c2", 1.0, since="c1")


@pytest.mark.parametrize("harm", ["index", "segment"])
def test_what_the_disk_lost_is_fetched_anew(spool: Spool, harm: str) -> None:
    spool.append(numbered(1, 2), "c2", 1.0, since=None)
    if harm == "index":
        (spool.folder / "index.json").write_bytes(b'{"number": 1, "cur')
    else:
        os.truncate(next(spool.folder.glob("*.log")), 5)
    assert spool.cursor() is None
    assert not spool.append(numbered(3), "c3", 1.0, since="c2")
    assert spool.append(numbered(1, 2, 3), "c3", 1.0, since=None)
    assert text_of(spool).splitlines() == numbered(1, 2, 3)


def test_spools_that_nobody_writes_to_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    ages = {"old": 15.0, "young": 13.0, "younger": 1.0}
    for name, days in ages.items():
        spool = Spool(name, "j", tmp_path)
        spool.append([b"x" * 1000], "c", 1.0, since=None)
        os.utime(spool.folder / "index.json", (now - days * 86400, now - days * 86400))
    tidy(tmp_path, now)
    left = {path.parent.name.rpartition("-")[0] for path in tmp_path.glob("*/*.spool")}
    assert left == {"young", "younger"}
    monkeypatch.setattr(spooling, "ALTOGETHER", 1800)
    tidy(tmp_path, now)
    left = {path.parent.name.rpartition("-")[0] for path in tmp_path.glob("*/*.spool")}
    assert left == {"younger"}


def test_a_look_that_writes_nothing_leaves_no_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with passing():
        spool = Spool("run", "j")
        assert spool.append(numbered(1), "c1", 1.0, since=None) and spool.cursor() == "c1"
        assert stat.S_IMODE(spool.folder.parents[1].stat().st_mode) == 0o700
    assert not spool.folder.exists() and not (tmp_path / "state").exists()
    kept = Spool("run", "j")
    assert kept.cursor() is None and (tmp_path / "state") in kept.folder.parents


def query() -> Query:
    return Query(run=RunSpec(name="r", job=JobSpec(kind="iris", id="/ada/a")))


async def look(logs: Logs, spool: Spool) -> LogValue:
    facet = (await logs.observe([query()], {"r": spool.place}))["r"]
    assert facet.value is not None and facet.error is None, facet.error
    return facet.value


async def test_it_is_followed_like_any_log(spool: Spool) -> None:
    logs = Logs(SystemClock())
    spool.append(numbered(1, 2), "c2", 1000.0, since=None)
    value = await look(logs, spool)
    assert [row.step for row in value.rows] == [1, 2] and value.skipped is None
    assert (value.path, value.mtime) == (str(spool.place), 1000.0)
    assert await look(logs, spool) is await look(logs, spool)
    spool.append(numbered(3), "c3", 1010.0, since="c2")
    value = await look(logs, spool)
    assert [row.step for row in value.rows] == [3] and len(value.lines) == 3


async def test_lines_dropped_under_a_reader_are_told_and_none_comes_twice(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooling, "MOST", 40_000)
    monkeypatch.setattr(spooling, "SEGMENT", 10_000)
    logs, seen = Logs(SystemClock()), []
    steps = count(1)
    for number in range(20):
        lines = numbered(*(next(steps) for _ in range(500)))
        spool.append(lines, str(number), 1000.0, since=str(number - 1) if number else None)
        if number % 5 == 0:
            seen += [row.step for row in (await look(logs, spool)).rows]
    value = await look(logs, spool)
    seen += [row.step for row in value.rows]
    assert len(seen) == len(set(seen)) and seen == sorted(seen, key=lambda step: step or 0)
    assert seen[-1] == 10_000 and value.skipped is not None
    assert value.skipped.dropped and "no longer kept" in skipped_words(value.skipped)
    begin, end = value.skipped.ranges[-1]
    assert 0 < begin < end <= value.skipped.dropped, "unread and gone"
    assert value.skipped.unscanned == value.skipped.bytes


def test_pages_search_and_triage_read_it(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooling, "MOST", 40_000)
    monkeypatch.setattr(spooling, "SEGMENT", 10_000)
    fill(spool, batches=20, size=50)
    log = LogFile(log_at(spool.place))
    lines = text_of(spool).splitlines()
    home = log.page(0, 10)
    assert [line.plain.encode() for line in home.lines] == lines[:10] and home.start > 0
    assert log.page(home.start, 5, back=True).lines == ()
    assert log.tail(3).end == home.size
    hit = log.search("19-0 ", 0)
    assert hit is not None and hit.line is not None and hit.line.plain.startswith("19-0 ")
    assert log.search("0-0 x", 0) is None, "dropped"
    assert log.search(lines[0].decode().split()[0], home.size, back=True) is not None
    present = read_present(log_at(spool.place))
    assert [line.text.encode() for line in present.lines] == lines
    assert not present.read.whole and present.read.why == DROPPED
    assert present.lines[0].offset == home.start and present.lines[0].number is None


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
