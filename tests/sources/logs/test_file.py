"""A log that is written faster than it can be parsed: the newest lines, and what was left out.

A job has as many logs as it writes: the one that steps is shown, the others by name.
"""

from __future__ import annotations

import math
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.logtext import LogPage
from cockpit.model.observed import JobValue, LogValue, Phase
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.rules.triage.classify import alarms_in
from cockpit.sources.logs import follow, remote
from cockpit.sources.logs import follow as log_follow
from cockpit.sources.logs import ranged as log_lines
from cockpit.sources.logs.file import LogFile, line_at, nearest_step, nearest_time, step_pattern
from cockpit.sources.logs.follow import LEAST, Follower, News
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.logs.ranged import BLOCK, iter_lines, line_start, lines_before
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.stamp import clock_offset, line_time, writes_utc
from tests.hosts.here import CallsHere
from tests.queries import queries_of
from tests.sources.logs.test_source import run_of

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


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def look(follower: Follower) -> News:
    news = follower.look(10)
    assert news is not None
    return news


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "run.log").write_bytes(b"one\ntwo\n")
    return tmp_path / "run.log"


def test_deleted_and_back(log: Path) -> None:
    follower = Follower(LocalLog(log))
    look(follower)
    log.unlink()
    with pytest.raises(FileNotFoundError):
        follower.look(10)
    log.write_bytes(b"back\n")
    assert look(follower).states == (b"back",)


def test_a_giant_line_does_not_stop_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follow, "MOST", 100)
    follower = Follower(LocalLog(log))
    look(follower)
    append(log, b"x" * 1000 + b"\nafter\n")
    got: list[bytes] = []
    while (news := follower.look(10)) is not None:
        got += news.states
    assert got[-1] == b"after"


def bar(step: int) -> bytes:
    return b"train: %d/90000 [00:10<01:00, 1.0it/s]\r" % step


@pytest.mark.parametrize("shift", range(0, 40, 3))
def test_a_state_of_a_bar_is_never_taken_up_in_its_midst(log: Path, shift: int) -> None:
    """A bar that draws for hours is one line: where its reading begins, a state is cut."""
    states = [bar(step) for step in range(10_000, 20_000)]
    log.write_bytes(b"x" * shift + b"\r" + b"".join(states[:4000]))
    follower = Follower(LocalLog(log))
    assert look(follower).states[0] + b"\r" in states
    append(log, b"".join(states[4000:]))
    news = follower.look(10, 20_000)
    assert news is not None and news.skipped is not None
    assert news.states[0] + b"\r" in states and news.states[-1] + b"\r" == states[-1]
    assert news.skipped[1] == log.stat().st_size - sum(len(each) + 1 for each in news.states)


@pytest.mark.parametrize(
    "line",
    ["step 130 | loss 2", "step: 130", "step=130,", "{'step': 130}", "iter 130:", "[step=130/9000",
     "global_step 130", " 13%|#| 130/1000 [", "at step 130.", "steps 130"],
)  # fmt: skip
def test_a_step_is_known_in_many_forms(line: str) -> None:
    assert re.search(step_pattern(130), line)


@pytest.mark.parametrize(
    "line", ["step 1305", "step 1130", "step 130.5", "step 130,000", "130 ms", "loss 130", "13/130"]
)
def test_a_step_is_no_part_of_another_number(line: str) -> None:
    assert not re.search(step_pattern(130), line)


def test_the_thousands_may_be_told_apart() -> None:
    assert re.search(step_pattern(12345), "step 12,345 | loss")
    assert not re.search(step_pattern(345), "step 12,345 | loss")


@given(st.lists(st.sampled_from(["a", "", "step 3 loss 2"]), max_size=50), st.integers(1, 60))
def test_a_line_is_found_by_its_number(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], number: int
) -> None:
    path = tmp_path_factory.mktemp("line") / "run.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    found = line_at(LocalLog(path), number)
    starts = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]
    assert found == (starts[number - 1] if number <= len(lines) else None)


def test_the_nearest_step_of_a_large_log(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    noise = "a line that tells nothing at all, 12 of them\n" * 3
    path.write_text("".join(f"step {n} | loss 2.5\n{noise}" for n in range(0, 200_000, 8)))
    data = path.read_bytes()
    for step, near in ((0, 0), (130, 128), (1304, 1304), (199_999, 199_992), (10**9, 199_992)):
        found = nearest_step(LocalLog(path), step)
        assert found is not None and found.value == near
        assert data[found.offset :].startswith(b"step %d |" % near)
    assert nearest_time(LocalLog(path), 5.0) is None
    path.write_text("nothing\n")
    assert nearest_step(LocalLog(path), 5) is None


TROUBLE = "Traceback (most recent call last):"


def train(first: int, count: int, **odd: str) -> bytes:
    """Return nanoGPT's lines from a step on; ``odd`` has others, by their step (``s500``)."""
    steps = range(first, first + count)
    lines = (odd.get(f"s{n}", f"iter {n}: loss 2.5, time 13.12ms, mfu 38.10%") for n in steps)
    return "".join(f"{line}\n" for line in lines).encode()


async def skipped_look(logs: Logs, log: Path) -> LogValue:
    facet = (await logs.observe(queries_of([run_of(log)])))["r"]
    assert facet.value is not None and facet.error is None, facet.error
    return facet.value


@pytest.fixture
def skipped_log(tmp_path: Path) -> Path:
    (tmp_path / "log").write_bytes(train(0, 10))
    return tmp_path / "log"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any log be read line by line for its last few hundred lines only."""
    monkeypatch.setattr(follow, "MOST_SEARCHED", LEAST)


def size_of(log: Path) -> int:
    return log.stat().st_size


def content(log: Path) -> bytes:
    return log.read_bytes()


def replace(log: Path, data: bytes) -> None:
    log.write_bytes(data)


def skipped_append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


@pytest.mark.usefixtures("slow")
async def test_the_newest_lines_are_read_and_the_range_before_them_is_told(
    skipped_log: Path,
) -> None:
    logs = Logs(SystemClock(), alarms_in)
    assert (await skipped_look(logs, skipped_log)).skipped is None
    begin = size_of(skipped_log)
    skipped_append(skipped_log, train(10, 5000))
    value = await skipped_look(logs, skipped_log)
    assert value.rows[-1].step == 5009 and len(value.rows) < 500
    assert value.skipped is not None
    ((left, right),) = value.skipped.ranges
    assert left == begin and value.skipped.bytes == right - left
    oldest = f"iter {value.rows[0].step}:".encode()
    assert content(skipped_log)[right:].startswith(oldest), "rows begin right where the range ends"
    skipped_append(skipped_log, train(5010, 3))
    value = await skipped_look(logs, skipped_log)
    assert [row.step for row in value.rows] == [5010, 5011, 5012]
    assert value.skipped is not None and value.skipped.ranges == ((left, right),)


@pytest.mark.usefixtures("slow")
async def test_alarming_lines_are_found_in_what_is_skipped(skipped_log: Path) -> None:
    logs = Logs(SystemClock(), alarms_in)
    await skipped_look(logs, skipped_log)
    skipped_append(
        skipped_log, train(10, 5000, s700="iter 700: loss nan, time 13.12ms", s800=TROUBLE)
    )
    value = await skipped_look(logs, skipped_log)
    assert value.skipped is not None and value.skipped.unscanned == 0
    assert [(one.name, one.text) for one in value.skipped.found] == [
        ("numeric_instability", "iter 700: loss nan, time 13.12ms"),
        ("traceback", TROUBLE),
    ]
    for one in value.skipped.found:
        assert content(skipped_log)[one.offset :].startswith(one.text.encode())
    lost = [row for row in value.rows if row.loss is not None and math.isnan(row.loss)]
    assert [row.step for row in lost] == [700], "no rule may miss a loss that is no number"
    assert value.model_dump(mode="json", by_alias=True)["skipped"]["found"][1] == {
        "offset": value.skipped.found[1].offset,
        "class": "traceback",
        "text": TROUBLE,
    }


@pytest.mark.usefixtures("slow")
async def test_a_log_that_begins_anew_has_left_out_nothing(skipped_log: Path) -> None:
    logs = Logs(SystemClock(), alarms_in)
    await skipped_look(logs, skipped_log)
    skipped_append(skipped_log, train(10, 5000))
    assert (await skipped_look(logs, skipped_log)).skipped is not None
    replace(skipped_log, train(0, 5))
    assert (await skipped_look(logs, skipped_log)).skipped is None


NEAR = datetime(2026, 11, 21, 8, 10, tzinfo=UTC).timestamp()


def at(hour: int, minute: int, second: float = 0.0, day: int = 21) -> float:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC).timestamp() + second


@pytest.mark.parametrize(
    ("line", "instant"),
    [
        ("2026-11-21T08:06:59.250Z step 3", at(8, 6, 59.25)),
        ("2026-11-21T10:06:59+02:00 step 3", at(8, 6, 59)),
        ("2026-11-21 03:06:59 -0500 step 3", at(8, 6, 59)),
        ("2026-11-21 08:06:59,123 INFO step 3", at(8, 6, 59.123)),
        ("[2026-11-21 08:06:59,123][trainer][INFO] - step 3", at(8, 6, 59.123)),
        ("INFO 2026/11/21 08:06:59 step 3", at(8, 6, 59)),
        ("I20261121 08:06:59.123456 139 trainer.py:55] step 3", at(8, 6, 59.123456)),
        ("W1121 08:06:59.123456 139 trainer.py:55] step 3", at(8, 6, 59.123456)),
        ("08:06:59 step 3", at(8, 6, 59)),
        ("[08:06:59] step 3", at(8, 6, 59)),
        ("[rank0]: 2026-11-21 08:06:59 step 3", at(8, 6, 59)),
        ("23:59:58 step 3", at(23, 59, 58, day=20)),
        (
            "E1231 23:59:58.1 7 x.py:5] bad",
            datetime(2025, 12, 31, 23, 59, 58, 100000, UTC).timestamp(),
        ),
    ],
)
def test_the_usual_forms(line: str, instant: float) -> None:
    assert line_time(line, NEAR, utc=True) == pytest.approx(instant, abs=1e-5)


@pytest.mark.parametrize(
    "line",
    [
        "step 3 loss 2.5",
        "",
        "00:03<01:20, 5.1it/s",
        " 45%|####  | 45/100 [00:00:03<00:00:20]",
        "2026-13-41 08:06:59 no such day",
        "2026-11-21 25:06:59 no such hour",
        "loss at 2026-11-21",
        "2027-11-21 08:06:59 a year ahead of the file",
        "x" * 200 + " 2026-11-21 08:06:59",
        "I0230 08:06:59.1 7 x.py:5] no such day",
    ],
)
def test_no_believable_time(line: str) -> None:
    assert line_time(line, NEAR, utc=True) is None


def test_a_local_time_is_not_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        assert line_time("2026-11-21 10:06:59 x", NEAR, utc=False) == at(8, 6, 59)
        assert not writes_utc(["trace", "2026-11-21 10:09:00 x"], NEAR)
        assert writes_utc(["trace", "2026-11-21 08:09:00 x"], NEAR)
        assert writes_utc(["08:09:00 x"], NEAR) and not writes_utc(["10:09:00 x"], NEAR)
        assert not writes_utc(["2026-11-21T08:09:00Z x", "nothing"], NEAR)
    finally:
        monkeypatch.undo()
        time.tzset()


def stamped(at: float) -> str:
    return f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%dT%H:%M:%S}Z step 1"


def test_the_last_line_was_written_by_the_last_write() -> None:
    near = 1_800_000_000.0
    assert clock_offset([stamped(near - 2)], near, False, 0.0, grown=True) == 0.0
    assert clock_offset([stamped(near + 7200)], near, False, 0.0, grown=False) == 7200.0
    assert clock_offset([stamped(near - 1234)], near, False, 0.0, grown=True) == -1234.0
    assert clock_offset([stamped(near - 1234)], near, False, 0.0, grown=False) == 0.0
    assert clock_offset([stamped(near - 8 * 3600)], near, False, 0.0, grown=False) == -28800.0
    assert clock_offset(["", "no time here"], near, False, 7200.0, grown=True) == 7200.0
    assert clock_offset([stamped(near + 7190)], near, False, 7200.0, grown=True) == 7200.0


BAR = "\r {0}%|###| {0}/1000 [00:10<10:00, 1.0it/s]"


def run_file(folder: Path, log: str) -> RunSpec:
    path = folder / "cockpit.toml"
    path.write_text(f'[[run]]\nname = "r"\n[run.job]\nkind = "slurm"\nlog = {log}\n')
    return load(path).runs[0]


def asked(run: RunSpec, job_id: str = "12_3", began: float = 0.0) -> Query:
    job = JobValue(id=job_id, state="RUNNING", phase=Phase.RUNNING, started_at=began or None)
    return Query(run=run, job=job)


async def several_look(logs: Logs, query: Query, *others: Path) -> LogValue:
    places = {query.name: [Place("file", "", str(each)) for each in others]}
    value = (await logs.observe([query], others=places))[query.name].value
    assert value is not None
    return value


async def test_a_bar_on_standard_error_steps_and_standard_output_tells_the_loss(
    tmp_path: Path,
) -> None:
    out, err = tmp_path / "1.out", tmp_path / "1.err"
    out.write_text("submitted\n")
    err.write_text("warning: slow\n")
    logs, query = Logs(SystemClock()), asked(run_file(tmp_path, f'"{out}"'))
    value = await several_look(logs, query, err)
    assert (value.path, [each.path for each in value.others]) == (str(out), [str(err)])
    with err.open("a") as bar, out.open("a") as said:
        bar.write("".join(BAR.format(step) for step in (10, 11)))
        said.write("{'loss': 2.5, 'grad_norm': 0.3, 'epoch': 0.1}\n")
    value = await several_look(logs, query, err)
    assert (value.path, [each.path for each in value.others]) == (str(err), [str(out)])
    assert [(row.step, row.loss) for row in value.rows] == [(10, None), (11, None), (11, 2.5)]
    with out.open("a") as said:
        said.write("step 5 loss 9.9\n")
    assert (await several_look(logs, query, err)).path == str(err), "it goes on being shown"


async def test_a_list_with_the_job_s_numbers_and_one_file_for_each_rank(tmp_path: Path) -> None:
    began = time.time()
    for rank in range(3):
        text = "step 7 loss 2.5\n" if rank == 1 else "rank is up\n"
        (tmp_path / f"rank-12_3-{rank}.log").write_text(text)
    old = tmp_path / "rank-12_3-9.log"
    old.write_text("step 900 loss 1\n")
    os.utime(old, (began - 900, began - 900))
    (tmp_path / "12_3.err").write_text("a warning\n")
    (tmp_path / "torch" / "attempt_0" / "0").mkdir(parents=True)
    attempt = tmp_path / "torch" / "attempt_0" / "0" / "stderr.log"
    attempt.write_text("W up\n")
    run = run_file(tmp_path, '["rank-%j-%t.log", "%A_%a.err", "torch/attempt_*/*/stderr.log"]')
    value = await several_look(Logs(SystemClock()), asked(run, began=began))
    assert value.path == str(tmp_path / "rank-12_3-1.log"), "the rank that steps"
    names = {Path(each.path).name for each in value.others}
    assert names == {"rank-12_3-0.log", "rank-12_3-2.log", "12_3.err", "stderr.log"}


async def test_patterns_on_a_host_are_all_read_as_they_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MATCHED_EVERY", 0.0)
    began = time.time()
    for rank in range(3):
        text = "step 7 loss 2.5\n" if rank == 1 else "rank is up\n"
        (tmp_path / f"rank-12_3-{rank}.log").write_text(text)
    os.utime(tmp_path / "rank-12_3-0.log", (began - 900, began - 900))
    (tmp_path / "torch" / "attempt_0" / "1").mkdir(parents=True)
    attempt = tmp_path / "torch" / "attempt_0" / "1" / "stderr.log"
    attempt.write_text("W up\n")
    where = f"ssh://box{tmp_path}"
    run = run_file(tmp_path, f'["{where}/rank-%j-%t.log", "{where}/torch/attempt_*/*/stderr.log"]')
    logs, query = Logs(SystemClock(), call=CallsHere()), asked(run, began=began)
    value = await several_look(logs, query)
    assert value.path == f"{where}/rank-12_3-1.log", "the rank that steps"
    assert [each.path for each in value.others] == [
        f"{where}/rank-12_3-2.log",
        f"ssh://box{attempt}",
    ], "not that of a former job"
    later = tmp_path / "torch" / "attempt_1" / "0" / "stderr.log"
    later.parent.mkdir(parents=True)
    later.write_text("RuntimeError: CUDA error: an illegal memory access was encountered\n")
    assert [each.path for each in (await several_look(logs, query)).others][2:] == [
        f"ssh://box{later}"
    ]
