"""What a file tells at once: its newest rows and a sample, without reading it whole."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.run import MetricNames
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.metric_keys import MetricKeys, choose
from cockpit.sources.wandb import fragment as tail
from cockpit.sources.wandb.decode import KeyLayout, RowReader
from cockpit.sources.wandb.file import WandbLog
from tests.sources.wandb import writer

T0 = 1_700_000_000.0
START = [writer.run("abc", T0)]


def rows(first: int, last: int, loss: str | None = "2.0") -> list[bytes]:
    return [writer.row(step, loss, T0 + step) for step in range(first, last)]


SHORT = writer.log(START + rows(0, 600))


def on_disk(folder: Path, records: list[bytes]) -> Path:
    path = folder / "run-abc.wandb"
    path.write_bytes(writer.log(records))
    return path


def learned(path: Path) -> KeyLayout:
    layout = KeyLayout(MetricNames())
    with WandbLog(LocalLog(path)) as log:
        tail.learn(log, layout)
    return layout


def reader_of(path: Path) -> RowReader:
    layout = learned(path)
    return RowReader(choose(layout.rows, MetricNames()), layout)


def newest(path: Path, former: tail.Latest | None = None) -> tail.Latest:
    reader = reader_of(path)
    with WandbLog(LocalLog(path)) as log:
        return tail.latest(log, reader, former)


def test_a_hung_run_is_found_behind_days_of_heartbeats(tmp_path: Path) -> None:
    beats = [writer.stats(T0 + 100 + 15 * beat) for beat in range(60_000)]
    found = newest(on_disk(tmp_path, START + rows(0, 100) + beats))
    assert found.known[:3] == (99, T0 + 99, 2.0)
    assert found.record_at == T0 + 100 + 15 * 59_999


def test_following_reads_the_same_as_starting_over(tmp_path: Path) -> None:
    first = newest(on_disk(tmp_path, START + rows(0, 400)))
    path = on_disk(tmp_path, START + rows(0, 700) + rows(700, 702, None))
    followed, anew = newest(path, first), newest(path)
    assert followed.rows[-len(anew.rows) :] == anew.rows
    assert followed._replace(rows=()) == anew._replace(rows=())
    assert followed.size > first.size


@given(cut=st.integers(0, 60_000))
def test_whatever_is_cut_off_the_rest_is_read(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "run-abc.wandb"
    path.write_bytes(SHORT[: max(len(writer.MAGIC), len(SHORT) - cut)])
    found = newest(path)
    with WandbLog(LocalLog(path)) as log:
        spans = log.read(0, log.size).spans
    in_file = list(tail.read_rows(spans, reader_of(path)))
    assert found.rows == tuple(in_file)[len(in_file) - len(found.rows) :]
    assert len(found.rows) >= min(8, len(in_file))
    assert found.known.step == (in_file[-1].step if in_file else None)


def test_a_loss_that_is_logged_every_hundredth_row_is_learned(tmp_path: Path) -> None:
    records = START + [
        writer.row(step, "2.5" if step % 100 == 50 else None, T0 + step, pad='"' + "x" * 900 + '"')
        for step in range(5000)
    ]
    found = newest(on_disk(tmp_path, records))
    assert (found.known.step, found.known.loss) == (4999, 2.5)


def test_a_sample_is_spread_over_the_whole_file(tmp_path: Path) -> None:
    path = on_disk(tmp_path, START + rows(0, 40_000))
    with WandbLog(LocalLog(path)) as log:
        sample = tail.sample(log, reader_of(path), 120)
    steps = [row.step or 0 for row in sample]
    assert 110 <= len(steps) <= 130
    assert steps == sorted(steps)
    assert max(after - before for before, after in pairwise(steps)) < 1000
    assert steps[0] < 500
    assert steps[-1] > 39_000


def test_rows_that_are_larger_than_a_block(tmp_path: Path) -> None:
    big = '"' + "x" * 90_000 + '"'
    records = START + [writer.row(step, "1.5", T0 + step, note=big) for step in range(200)]
    path = on_disk(tmp_path, records)
    assert newest(path).known.step == 199
    with WandbLog(LocalLog(path)) as log:
        assert len(tail.sample(log, reader_of(path), 120)) > 60
        recent, start = tail.newest_rows(log, reader_of(path), 10)
    assert [row.step for row in recent] == [*range(190, 200)]
    assert start > 0.9 * path.stat().st_size


def test_the_head_of_a_run_with_a_large_configuration(tmp_path: Path) -> None:
    config = writer.field(
        1, writer.field(2, b"big") + writer.field(16, b'"' + b"c" * 99_999 + b'"')
    )
    run = writer.record(2, 17, writer.field(1, b"abc") + writer.field(4, config))
    slurm = writer.field(27, writer.field(1, b"job_id") + writer.field(2, b"77"))
    path = on_disk(tmp_path, [run, writer.record(3, 26, slurm), *rows(0, 5)])
    with WandbLog(LocalLog(path)) as log:
        head = tail.head(log)
    assert head.run is not None
    assert head.run.id == "abc"
    assert head.run.config["big"] == "c" * 99_999
    assert head.slurm_job_id == "77"


def test_garbage_that_verifies_is_passed_over(tmp_path: Path) -> None:
    broken = writer.record(5, 2, b"\x0a\x7fshort")
    path = on_disk(tmp_path, [*START, *rows(0, 5), broken, *rows(5, 6)])
    assert newest(path).known.step == 5
    with WandbLog(LocalLog(path)) as log:
        assert len(tail.sample(log, RowReader(MetricKeys(), KeyLayout(MetricNames())), 9)) == 0
