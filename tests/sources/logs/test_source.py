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

from cockpit.hosts.link import Ask
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import LogValue, Row
from cockpit.model.run import JobSpec, RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.metrics.numerics import advance
from cockpit.runtime.ssh import RemoteError
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
