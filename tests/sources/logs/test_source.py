"""What a diagnosis reads: the present job's lines, however the file was treated."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.hosts.link import Ask
from cockpit.hosts.notes import end_mark
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.logtext import LogMark, PresentLog
from cockpit.model.observed import LogValue, Row
from cockpit.model.run import JobSpec, RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.metrics.numerics import advance
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.logs.present import MOST_LINES, read_present
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.stamp import per_second, read_rows
from cockpit.text.progress_lines import Nesting
from tests.queries import queries_of


def run_of(log: Path | str | None, name: str = "r", host: str | None = None) -> RunSpec:
    job = JobSpec(kind="local", log=None if log is None else str(log), host=host)
    return RunSpec(name=name, job=job)


async def look(logs: Logs, log: Path | str) -> LogValue:
    facet = (await logs.observe(queries_of([run_of(log)])))["r"]
    assert facet.value is not None and facet.error is None, facet.error
    return facet.value


def set_mtime(path: Path, at: float) -> None:
    os.utime(path, (at, at))


@pytest.fixture
def logs() -> Logs:
    return Logs(SystemClock())


async def test_the_last_line_s_own_time_counts(tmp_path: Path, logs: Logs) -> None:
    log = tmp_path / "log"
    log.write_text("2026-11-21T08:06:59Z step 1\n")
    said = datetime(2026, 11, 21, 8, 6, 59, tzinfo=UTC).timestamp()
    set_mtime(log, said + 120)
    assert (await look(logs, log)).last_line_at == said


async def test_progress_rows_of_new_lines(tmp_path: Path, logs: Logs) -> None:
    log = tmp_path / "log"
    log.write_text("2026-11-21T08:00:00Z step 1 loss 3.5\n2026-11-21T08:00:10Z step 2 loss 3.0\n")
    start = datetime(2026, 11, 21, 8, tzinfo=UTC).timestamp()
    set_mtime(log, start + 10)
    first = await look(logs, log)
    assert [(row.step, row.at, row.loss) for row in first.rows] == [
        (1, start, 3.5),
        (2, start + 10, 3.0),
    ]
    again = await look(logs, log)
    assert again.rows == () and again.newest_loss == Row(2, start + 10, 3.0)
    with log.open("a") as file:
        file.write("step 3 loss 2.5\n")
    set_mtime(log, start + 20)
    assert (await look(logs, log)).rows == (Row(3, start + 20, 2.5),)


async def test_rows_of_unknown_time_have_none(tmp_path: Path, logs: Logs) -> None:
    log = tmp_path / "log"
    log.write_text("step 1 loss 3\nstep 2 loss 3\n")
    value = await look(logs, log)
    assert [(row.step, row.at) for row in value.rows] == [(1, None), (2, value.mtime)]


async def test_secrets_and_escapes_do_not_pass(tmp_path: Path, logs: Logs) -> None:
    secret = "hf_" + "Qw3rTyUiOp" * 4
    log = tmp_path / "log"
    log.write_bytes(f"\x1b]52;c;AAAA\x07HF_TOKEN={secret}\n[/] [bold\n".encode())
    value = await look(logs, log)
    shown = "\n".join(line.plain for line in value.lines)
    assert secret not in shown and "\x1b" not in shown and "[/] [bold" in shown


async def test_each_run_has_its_own_answer(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n")
    runs = [
        run_of(tmp_path / "a", "a"),
        run_of(tmp_path / "b", "b"),
        run_of(None, "c"),
        RunSpec(name="d"),
        run_of("/var/log/x", "e", host="box"),
        run_of("hdfs://names/x", "f"),
    ]

    def gone(host: str, each: Ask, deadline: float) -> None:
        raise RemoteError(ErrorKind.REFUSED, f"{host}: gone")

    facets = await Logs(SystemClock(), call=gone).observe(queries_of(runs))

    def kind(name: str) -> ErrorKind | None:
        facet: Facet[LogValue] = facets[name]
        return None if facet.error is None else facet.error.kind

    assert facets["a"].known
    assert kind("b") is ErrorKind.NOT_FOUND
    assert not facets["c"].configured and not facets["d"].configured
    assert kind("e") is ErrorKind.REFUSED and facets["e"].error is not None
    assert facets["e"].error.message == "box: gone"
    assert kind("f") is ErrorKind.UNSUPPORTED


async def test_a_glob_follows_the_newest(tmp_path: Path, logs: Logs) -> None:
    (tmp_path / "run-1.log").write_text("step 1 loss 3\n")
    set_mtime(tmp_path / "run-1.log", time.time() - 60)
    pattern = str(tmp_path / "run-*.log")
    assert (await look(logs, pattern)).path.endswith("run-1.log")
    (tmp_path / "run-2.log").write_text("step 2 loss 3\n")
    value = await look(logs, pattern)
    assert value.path.endswith("run-2.log") and [row.step for row in value.rows] == [2]


WRITER = """
import logging.handlers, sys
handler = logging.handlers.RotatingFileHandler(sys.argv[1], maxBytes=4000, backupCount=100)
logger = logging.getLogger("t")
logger.addHandler(handler)
for step in range(3000):
    logger.warning("step %d loss 2.5", step)
"""


def start_writer(log: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(log)])


async def test_a_real_writer_that_rotates_under_us(tmp_path: Path, logs: Logs) -> None:
    log = tmp_path / "log"
    log.write_text("")
    await look(logs, log)
    writer = start_writer(log)
    steps: list[int | None] = []
    while writer.poll() is None:
        facet = (await logs.observe(queries_of([run_of(log)])))["r"]
        steps += [] if facet.value is None else [row.step for row in facet.value.rows]
    steps += [row.step for row in (await look(logs, log)).rows]
    assert writer.returncode == 0
    assert steps == sorted(set(steps), key=lambda step: step or 0)
    assert steps[-1] == 2999


@pytest.mark.parametrize(
    ("rate", "unit", "expected"),
    [
        (5.0, "it/s", 5.0),
        (2.0, "s/it", 0.5),
        (250.0, "ms/it", 4.0),
        (1200.0, "tok/s", 1200.0),
        (800.0, "tok/s/device", 800.0),
        (0.0, "s/it", None),
        (None, "it/s", None),
        (3.0, None, 3.0),
    ],
)
def test_more_is_better(rate: float | None, unit: str | None, expected: float | None) -> None:
    assert per_second(rate, unit) == expected


def states(*steps: int) -> list[bytes]:
    return [f"step {step} loss 2.5".encode() for step in steps]


RESUMED = [
    b" 50%|#####     | 5001/10000 [00:02<00:01, 2500.50it/s]",
    b"{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.5}",
    b" 50%|#####     | 5010/10000 [00:11<00:02, 2490.10it/s]",
]


def test_a_bar_tells_a_trained_step_and_its_own_average_is_no_measurement() -> None:
    """After a resume it counts the skipped steps as made at once."""
    lines = [b"train: " + line if b"|" in line else line for line in RESUMED]
    rows = read_rows(lines, mtime=1000.0, since=999.0, utc=False)
    assert [(row.step, row.loss, row.throughput) for row in rows] == [
        (5001, None, None), (5001, 2.5, None), (5010, None, None),
    ]  # fmt: skip
    run = RunSpec(name="r")
    trend = advance(Trend(), [row._replace(at=1000.0 + at) for at, row in enumerate(rows)], run)
    back = advance(trend, [rows[0]._replace(step=4000, at=1009.0)], run)
    assert back.pace.resumes == 1, "it went back, before any loss is logged"


def test_the_bar_of_an_evaluation_makes_no_row_wherever_a_read_ends() -> None:
    """Hugging Face's has no name: what it counts is no step, also when it comes in pieces."""
    lines = [
        b"  2%|1         | 500/28013 [02:59<2:41:40,  2.84it/s]",
        b"  0%|          | 3/6226 [00:00<10:43,  9.14it/s]",
        b"  0%|          | 11/6226 [00:01<12:43,  8.14it/s]",
        b"  0%|          | 19/6226 [00:02<12:43,  8.14it/s]",
        b"  2%|1         | 501/28013 [14:59<2:41:40,  2.84it/s]",
    ]
    for cut in range(len(lines) + 1):
        nesting = Nesting()
        rows = [
            row.step
            for piece in (lines[:cut], lines[cut:])
            for row in read_rows(piece, 1000.0, None, utc=False, nesting=nesting)
        ]
        assert rows == [500, 501]


def test_other_lines_are_no_rows() -> None:
    lines = [b"loading data", b"", b"\x00\xff\x1b[31m", b"epoch done"]
    assert read_rows(lines, mtime=1000.0, since=None, utc=False) == []


async def test_what_a_former_start_announced_is_as_old_as_it_says(
    tmp_path: Path, logs: Logs
) -> None:
    """A first look reads what former jobs wrote, too: the file's time is its last line's."""
    now, log = time.time(), tmp_path / "log"
    at = [datetime.fromtimestamp(now - age, UTC).isoformat()[:19] + "Z" for age in (9000, 8000, 5)]
    log.write_text(
        f"{at[0]} Resuming training from /out/step-50\nwandb: View run at https://w/e/p/runs/old\n"
        f"{at[1]} spot interruption notice received\n{at[2]} step 90 loss 2.0\n"
    )
    told = (await look(logs, log)).announced
    assert told.loaded is not None and told.loaded.at == int(now - 9000)
    assert told.notice is not None and told.notice.at == int(now - 8000)
    assert told.wandb_at == int(now - 8000), "not later than that"
    with log.open("a") as file:
        file.write("Resuming training from /out/step-90\n")
    told = (await look(logs, log)).announced
    assert told.loaded is not None and told.loaded.at == log.stat().st_mtime


@pytest.mark.parametrize(("name", "pack"), [("run.log.gz", gzip), ("run.log.xz", lzma)])
async def test_a_packed_log_says_why_nothing_of_it_is_known(
    tmp_path: Path, logs: Logs, name: str, pack: ModuleType
) -> None:
    log = tmp_path / name
    log.write_bytes(pack.compress(b"step 1 loss 2\n"))
    facet = (await logs.observe(queries_of([run_of(log)])))["r"]
    assert facet.value is None and facet.error is not None
    assert facet.error.kind is ErrorKind.UNSUPPORTED
    assert f"{log} is packed with {name[-2:].replace('gz', 'gzip')}" in facet.error.message
    log.write_text("step 1 loss 2\n")
    assert (await look(logs, log)).rows, "a name alone packs nothing"


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
