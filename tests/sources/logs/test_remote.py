"""Logs on an ssh host, read by scripts: mostly by this machine's own sh, in counted trips.

A log on a host without Python: its newest bytes, over a real sshd.
"""

from __future__ import annotations

import gzip
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.hosts import link, ranges
from cockpit.hosts.link import know_pythons
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.logtext import Hit
from cockpit.model.observed import LogValue
from cockpit.model.place import SSH, Place
from cockpit.model.run import JobSpec, RunSpec
from cockpit.runtime.offload import Call, offload_each
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs import file as log_file
from cockpit.sources.logs import remote, search, source
from cockpit.sources.logs.file import LogFile, line_at, nearest_step
from cockpit.sources.logs.follow import before
from cockpit.sources.logs.pieces import Answer, Ask, LocalLog, PageCache
from cockpit.sources.logs.present import read_present
from cockpit.sources.logs.ranged import BLOCK, Span, Wish
from cockpit.sources.logs.remote import Host, RemoteLog
from cockpit.sources.logs.source import Logs
from tests.hosts.here import CallsHere
from tests.sshd import Sshd, needs_sshd, serving


@pytest.fixture
def box() -> CallsHere:
    return CallsHere()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "the run's $(log).txt"
    path.write_text("".join(f"step {number} loss 2.5\n" for number in range(1, 21)))
    return path


def at(path: Path | str, box: CallsHere) -> RemoteLog:
    return RemoteLog(Place(SSH, "box", str(path)), Host("box", box, PageCache()))


def query(name: str, path: Path | str) -> Query:
    return Query(
        run=RunSpec(name=name, job=JobSpec(kind="box", host="box", log=f"ssh://box{path}"))
    )


async def look(logs: Logs, path: Path | str) -> LogValue:
    facet = (await logs.observe([query("r", path)]))["r"]
    assert facet.value is not None and facet.error is None, facet.error
    return facet.value


async def refused(logs: Logs, path: Path | str) -> tuple[ErrorKind, str]:
    facet: Facet[LogValue] = (await logs.observe([query("r", path)]))["r"]
    assert facet.error is not None
    return facet.error.kind, facet.error.message


async def test_it_is_followed_as_a_local_one_is(log: Path, box: CallsHere) -> None:
    logs, own = Logs(SystemClock(), call=box), Logs(SystemClock())
    spec = JobSpec(kind="local", log=str(log))
    for text in ("", "step 21 loss 2.0\nhalf", " a line\n", "", "step 22 loss 1.5\n"):
        with log.open("a") as file:
            file.write(text)
        there = await look(logs, log)
        here = (await own.observe([Query(run=RunSpec(name="r", job=spec))]))["r"].value
        assert here is not None and there.path == f"ssh://box{log}"
        same = {"path": here.path, "mtime": here.mtime}
        assert there.model_copy(update=same) == here
        assert there.mtime == pytest.approx(here.mtime, abs=0.001)
    assert box.trips == 5


async def test_two_hundred_logs_cost_one_trip_and_only_new_bytes(
    tmp_path: Path, box: CallsHere
) -> None:
    queries = []
    for number in range(200):
        path = tmp_path / f"{number}.log"
        path.write_text("step 1 loss 2.5\n" * 40)
        queries.append(query(str(number), path))
    logs = Logs(SystemClock(), call=box)
    first = await logs.observe(queries)
    assert all(facet.value is not None for facet in first.values()) and box.trips == 1
    second = await logs.observe(queries)
    box.bytes = 0
    third = await logs.observe(queries)
    assert all(third[name].value is facet.value for name, facet in second.items())
    assert box.trips == 3 and box.bytes < 200 * 300
    with (tmp_path / "7.log").open("a") as file:
        file.write("step 2 loss 2.5\n")
    box.bytes = 0
    values = await logs.observe(queries)
    assert box.trips == 4 and box.bytes < 200 * 300 + 5000
    seven = values["7"].value
    assert seven is not None and [row.step for row in seven.rows] == [2]


async def test_only_a_log_that_has_changed_is_looked_at_in_a_thread(
    tmp_path: Path, box: CallsHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    async def counted(calls: Sequence[Call[LogValue]], *, deadline: float) -> Any:
        looked.append(len(calls))
        return await offload_each(calls, deadline=deadline)

    monkeypatch.setattr(source, "offload_each", counted)
    logs, paths = Logs(SystemClock(), call=box), [tmp_path / "a.log", tmp_path / "b-1.log"]
    for path in paths:
        path.write_text("step 1 loss 2.5\n")
    queries = [query("plain", paths[0]), query("newest", tmp_path / "b-*.log")]

    async def look() -> tuple[dict[str, Facet[LogValue]], int]:
        looked.clear()
        return await logs.observe(queries), sum(looked)

    _, hops = await look()
    assert hops == 2
    for _ in range(2):
        same, hops = await look()
        assert hops == 0 and {last(each) for each in same.values()} == {"step 1 loss 2.5"}
    paths[0].write_text("step 1 loss 2.5\nstep 2 loss 2.0\n")
    third, hops = await look()
    assert hops == 1 and last(third["plain"]) == "step 2 loss 2.0"
    newer = tmp_path / "b-2.log"
    newer.write_text("step 3 loss 1.5\n")
    os.utime(newer, (time.time() + 9, time.time() + 9))
    fourth, hops = await look()
    assert hops == 1 and last(fourth["newest"]) == "step 3 loss 1.5"


def last(facet: Facet[LogValue]) -> str:
    assert facet.value is not None
    return facet.value.lines[-1].plain


async def test_the_first_look_at_a_huge_log_reads_its_end(tmp_path: Path, box: CallsHere) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"step 5 loss 2.5\n" * 3000)
    logs = Logs(SystemClock(), call=box)
    value = await look(logs, path)
    assert len(value.lines) == 50 and value.rows[-1].step == 5
    assert value.skipped is not None and value.skipped.unscanned == value.skipped.bytes > 1 << 29
    assert box.trips == 1 and box.bytes < 3 * BLOCK
    again = await look(logs, path)
    with path.open("ab") as file:
        file.write(b"step 6 loss 2.5\n")
    new = await look(logs, path)
    assert again.size == value.size and [row.step for row in new.rows] == [6]
    assert box.trips == 3 and box.bytes < 4 * BLOCK


def write(path: Path, text: str) -> None:
    path.write_text(text)


def rotate(path: Path, last: str) -> None:
    path.write_text(path.read_text() + last)
    path.rename(path.with_name(path.name + ".1"))


async def test_more_than_one_trip_can_carry_takes_another(
    tmp_path: Path, box: CallsHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MOST_SENT", 10_000)
    queries = []
    for number in range(10):
        path = tmp_path / f"{number}.log"
        path.write_text(f"step {number} loss 2.5\n" * 200)
        queries.append(query(str(number), path))
    found = await Logs(SystemClock(), call=box).observe(queries)
    rows = [facet.value.rows[-1].step for facet in found.values() if facet.value is not None]
    assert rows == list(range(10)) and box.trips == 5


async def test_rotated_truncated_and_replaced(log: Path, box: CallsHere) -> None:
    logs, seen = Logs(SystemClock(), call=box), []
    await look(logs, log)
    rotate(log, "step 21 loss 2.5\n")
    write(log, "step 22 loss 2.5\n")
    seen += [row.step for row in (await look(logs, log)).rows]
    assert seen == [21, 22]
    write(log, "step 1 loss 3.5\n")
    assert [row.step for row in (await look(logs, log)).rows] == [1], "shorter: begun again"
    write(log, "step 7 loss 3.5\nstep 8 loss 3.5\n")
    assert [row.step for row in (await look(logs, log)).rows] == [7, 8], "longer: begun again"


async def test_a_pattern_follows_the_newest(tmp_path: Path, box: CallsHere) -> None:
    folder = tmp_path / "a [b] $x"
    folder.mkdir()
    (folder / "run-1.log").write_text("step 1 loss 3\n")
    os.utime(folder / "run-1.log", (1e9, 1e9))
    (folder / "other.log").write_text("no\n")
    pattern = f"{tmp_path}/a ?b] $x/run-[0-9].log"
    logs = Logs(SystemClock(), call=box)
    assert (await look(logs, pattern)).path.endswith("run-1.log")
    (folder / "run-2.log").write_text("step 2 loss 3\n")
    value = await look(logs, pattern)
    assert value.path.endswith("run-2.log") and [row.step for row in value.rows] == [2]
    trips = box.trips
    (folder / "run-2.log").write_text("step 2 loss 3\nstep 3 loss 3\n")
    assert [row.step for row in (await look(logs, pattern)).rows] == [3]
    assert box.trips == trips + 1
    assert await refused(logs, f"{tmp_path}/none-*.log") == (
        ErrorKind.NOT_FOUND, f"no log ssh://box{tmp_path}/none-*.log",
    )  # fmt: skip


def test_a_real_name_is_no_pattern(tmp_path: Path, box: CallsHere) -> None:
    (tmp_path / "run[1]*.log").write_text("it\n")
    (tmp_path / "run1x.log").write_text("not it\n")
    log = at(tmp_path / "run[1]*.log", box).newest()
    assert [line.plain for line in LogFile(log).tail(5).lines] == ["it"]


async def test_what_cannot_be_read_says_why_and_comes_back(log: Path, box: CallsHere) -> None:
    logs = Logs(SystemClock(), call=box)
    assert (await refused(logs, log / "x"))[0] is ErrorKind.NOT_FOUND
    kind, text = await refused(logs, log.parent)
    assert kind is ErrorKind.BAD_ANSWER and "not a regular file" in text
    os.mkfifo(log.parent / "pipe")
    assert (await refused(logs, log.parent / "pipe"))[0] is ErrorKind.BAD_ANSWER
    assert (await refused(logs, "/dev/zero"))[0] is ErrorKind.BAD_ANSWER
    box.down = RemoteError(ErrorKind.UNAUTHORIZED, "box: run 'ssh box' by hand")
    assert await refused(logs, log) == (ErrorKind.UNAUTHORIZED, "box: run 'ssh box' by hand")
    box.down = None
    assert (await look(logs, log)).rows


def test_pages_are_those_of_the_file(log: Path, box: CallsHere) -> None:
    log.write_bytes(b"".join(b"%d " % n + b"y" * (n % 300) + b"\n" for n in range(5000)))
    far, near = LogFile(at(log, box)), LogFile(LocalLog(log))
    size = log.stat().st_size
    for offset in (0, 1, 4095, 4096, 65535, 65536, 70_000, size - 1, size, size + 10):
        for back in (False, True):
            assert far.page(offset, 100, back) == near.page(offset, 100, back), (offset, back)
    assert far.tail(200) == near.tail(200)
    assert far.search("4321 ", 0) == near.search("4321 ", 0)
    assert far.search("4321 ", size, back=True) == near.search("4321 ", size, back=True)


@pytest.mark.parametrize(
    ("text", "cased"),
    [("4321 ", True), ("[x] $a^.*(b)", False), ("ROT", True), ("ROT", False), ("é", True)],
)
def test_what_is_searched_there_is_found_as_it_is_here(
    log: Path, box: CallsHere, text: str, cased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "CHUNK", 3 * BLOCK)
    monkeypatch.setattr(log_file, "FAR", 150_000)
    lines = [b"%d %s" % (n, b"z" * 90) for n in range(15_000)]
    lines[4000] = "[x] $a^.*(b) \\ é".encode()
    lines[6000] = b"a \x1b[31mr\x1b[1mo\x1b[0mt \0 x" + b"w" * 100_000
    log.write_bytes(b"\n".join(lines))
    far, near, size = LogFile(at(log, box)), LogFile(LocalLog(log)), log.stat().st_size

    def all_of(file: LogFile, back: bool) -> list[Hit]:
        found, offset = [], size if back else 0
        while hit := file.search(text, offset, back, budget_s=60.0, ignore_case=cased):
            found += [hit] if hit.found else []
            offset = hit.offset if back or not hit.found else hit.end
        return found

    for back in (False, True):
        assert all_of(far, back) == all_of(near, back)
    assert box.bytes < 3_000_000


def test_a_place_in_it_is_found_where_it_lies(log: Path, box: CallsHere) -> None:
    log.write_text("".join(f"step {n} loss 2.5\n" for n in range(30_000)))
    far, near = at(log, box), LocalLog(log)
    assert nearest_step(far, 23_456) == nearest_step(near, 23_456)
    box.bytes = 0
    for number in (1, 20_000, 30_000, 30_001):
        assert line_at(far, number) == line_at(near, number), number
    assert box.bytes < 500_000, "counted there, not sent"


def test_triage_reads_the_present_job_and_what_was_rotated_away(log: Path, box: CallsHere) -> None:
    log.with_name(log.name + ".2.gz").write_bytes(gzip.compress(b"oldest\n"))
    log.with_name(log.name + ".1").write_text("older\n")
    for path in log.parent.iterdir():
        os.utime(path, (2e9, 2e9))
    os.utime(log.with_name(log.name + ".2.gz"), (1.9e9, 1.9e9))
    far = read_present(at(log, box), started_at=1e9)
    near = read_present(LocalLog(log), started_at=1e9)
    assert [line.text for line in far.lines] == [line.text for line in near.lines]
    assert far.lines[0].text == "oldest" and far.read == near.read
    assert [line.number for line in far.lines] == [line.number for line in near.lines]


def test_the_lines_before_its_end_are_counted_there(log: Path, box: CallsHere) -> None:
    log.write_text("".join(f"{'z' * 90} {n}\n" for n in range(60_000)))
    far, near = read_present(at(log, box)), read_present(LocalLog(log))
    assert far.lines == tuple(line for line in near.lines)
    assert box.bytes < 6_000_000 and box.trips <= 5


def test_where_a_loss_broke_is_found(log: Path, box: CallsHere) -> None:
    text = "".join(f"step {n} loss 2.5\n" for n in range(3000))
    log.write_text(text + "".join(f"step {n} loss nan\n" for n in range(3000, 9000)))
    size = log.stat().st_size
    assert before(at(log, box), size) == before(LocalLog(log), size)


def test_a_slow_file_costs_only_itself_and_is_not_waited_for_again(
    log: Path, tmp_path: Path, box: CallsHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ``stat`` that hangs, as on a dead mount."""
    gate, stat = threading.Event(), os.stat

    def hanging(path: Any, **more: Any) -> os.stat_result:
        if "hung" in str(path):
            gate.wait(60.0)
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", hanging)
    monkeypatch.setattr(ranges, "LIMIT", 0.3)
    (tmp_path / "hung").write_text("x\n")
    host = Host("box", box, PageCache())
    asks = [Ask(f"{tmp_path}/hung"), Ask(str(log), Wish((Span(0),)))]
    for _ in range(2):
        first, second = host.ask(asks)
        assert isinstance(first, TimeoutError) and "did not answer" in str(first)
        assert isinstance(second, Answer) and second.pieces[0][1] == log.read_bytes()
    hung = [each for each in threading.enumerate() if isinstance(each, ranges._Reader)]
    assert len(hung) == 1, "it is waited for by one thread alone"
    gate.set()
    hung[0].join(10.0)
    first, second = host.ask(asks)
    assert isinstance(first, Answer) and isinstance(second, Answer)


def test_many_that_hang_cost_the_others_nothing(
    log: Path, tmp_path: Path, box: CallsHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, stat = threading.Event(), os.stat

    def hanging(path: Any, **more: Any) -> os.stat_result:
        if "hung" in str(path):
            gate.wait(60.0)
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", hanging)
    monkeypatch.setattr(ranges, "LIMIT", 0.3)
    asks = [*(Ask(f"/hung/{number}") for number in range(50)), Ask(str(log))]
    *hung, last = Host("box", box, PageCache()).ask(asks)
    gate.set()
    assert all(isinstance(each, TimeoutError) for each in hung) and isinstance(last, Answer)


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 60_000), st.integers(1, 30_000), st.booleans()), max_size=12
    )
)
def test_kept_pages_are_never_those_of_another_text(changes: list[tuple[int, int, bool]]) -> None:
    cache, text = PageCache(most=40_960, altogether=40_960), b""
    for number, (start, length, again) in enumerate(changes):
        if again:
            text = b"%d|" % number * 20_000
        begin = start // 4096 * 4096
        cache.seen("f", len(text))
        cache.put("f", begin, text[begin : begin + length])
        data, end = cache.get("f", begin, begin + length)
        assert data == text[begin:end] and cache.kept <= 40_960


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with serving(tmp_path) as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        yield server


@needs_sshd
async def test_over_a_real_ssh(real: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    real.rc("echo welcome to the box")
    log = real.home / "run 1.log"
    log.write_text("step 1 loss 2.5\n")
    spec = JobSpec(kind="box", host=real.host, log=f"ssh://{real.host}/~/run 1.log")
    asked = [Query(run=RunSpec(name="r", job=spec))]
    logs = Logs(SystemClock())
    facet = (await logs.observe(asked))["r"]
    value = facet.value
    assert value is not None and [row.step for row in value.rows] == [1], facet
    with log.open("a") as file:
        file.write("step 2 loss 2.5\n")
    value = (await logs.observe(asked))["r"].value
    assert value is not None and [row.step for row in value.rows] == [2] and real.logins == 1
    page = LogFile(remote.remote_log(Place(SSH, real.host, str(log)))).tail(5)
    assert [line.plain for line in page.lines] == ["step 1 loss 2.5", "step 2 loss 2.5"]


@needs_sshd
async def test_asking_for_two_hundred_logs_again_takes_few_bytes(
    real: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    write = link._write

    def counted(pipe: IO[bytes], data: bytes) -> None:
        sent.append(len(data))
        write(pipe, data)

    monkeypatch.setattr(link, "_write", counted)
    paths = [real.home / f"logs of the experiment/run-{number}.log" for number in range(200)]
    paths[0].parent.mkdir()
    queries = []
    for number, path in enumerate(paths):
        path.write_text("step 1 loss 2.5\n" * 40)
        spec = JobSpec(kind="box", host=real.host, log=f"ssh://{real.host}{path}")
        queries.append(Query(run=RunSpec(name=f"run-{number}", job=spec)))
    logs = Logs(SystemClock())
    for _ in range(2):
        await logs.observe(queries)
    sent.clear()
    await logs.observe(queries)
    assert 0 < sum(sent) < 4_000, "they are as they were"
    for path in paths:
        with path.open("a") as file:
            file.write("step 2 loss 2.5\n")
    await logs.observe(queries)
    sent.clear()
    values = await logs.observe(queries)
    assert 0 < sum(sent) < 6_000, "all have grown"
    assert all(facet.value is not None and not facet.value.rows for facet in values.values())


@pytest.fixture
def plain_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with serving(tmp_path) as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        know_pythons({server.host: "no-such-python"})
        yield server
        know_pythons({})


@needs_sshd
async def test_its_newest_lines_are_followed(plain_box: Sshd) -> None:
    def asked(name: str) -> list[Query]:
        spec = JobSpec(kind="box", host=plain_box.host, log=f"ssh://{plain_box.host}/~/{name}")
        return [Query(run=RunSpec(name="r", job=spec))]

    log, logs = plain_box.home / "run 1.log", Logs(SystemClock())
    log.write_text("".join(f"step {number} loss 2.5\n" for number in range(9000)))
    for query in (asked("run 1.log"), asked("run *.log")):
        facet = (await logs.observe(query))["r"]
        value = facet.value
        assert value is not None and value.rows[-1].step == 8999 and len(value.lines) == 50, facet
    with log.open("a") as file:
        file.write("step 9000 loss 2.5\n")
    value = (await logs.observe(asked("run *.log")))["r"].value
    assert value is not None and value.rows[-1].step == 9000
    error = (await Logs(SystemClock()).observe(asked("none.log")))["r"].error
    assert error is not None and error.kind is ErrorKind.NOT_FOUND
