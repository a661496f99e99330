"""The background pass: every row once, in order, then only what is new."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.observed import Row
from cockpit.model.run import WandbSpec
from cockpit.sources.curve_fold import LossColumns
from cockpit.sources.run_rows import RunRows
from cockpit.sources.wandb import fragment
from cockpit.sources.wandb.file import LogChunk, Passed, WandbLog
from cockpit.sources.wandb.run_files import read_run
from tests.sources.wandb import writer

T0 = 1_700_000_000.0


def rows(first: int, last: int, **more: str) -> list[bytes]:
    return [writer.row(step, repr(step / 7), T0 + step / 2, **more) for step in range(first, last)]


def launch(folder: Path, number: int, records: list[bytes]) -> Path:
    """One launch's file; the number tells the order of the starts."""
    directory = folder / f"offline-run-2026010{number}_000000-abc"
    directory.mkdir(exist_ok=True)
    path = directory / "run-abc.wandb"
    path.write_bytes(writer.log([writer.run("abc", T0 + number * 1e6), *records]))
    return path


def drain(files: RunRows) -> tuple[list[Row], list[bool]]:
    """All rows until the pass has caught up, and the ``restarted`` flag of each chunk."""
    found: list[Row] = []
    restarts = []
    while True:
        more = files.more()
        assert len(more.rows) <= fragment.CHUNK_ROWS
        found += more.rows
        restarts.append(more.restarted)
        if more.caught_up:
            assert more.share == 1.0
            return found, restarts


def files_of(folder: Path) -> RunRows:
    return read_run(WandbSpec(dir=str(folder), id="abc"))


def steps(found: list[Row]) -> list[int | None]:
    return [row.step for row in found]


def test_every_row_once_and_in_order(tmp_path: Path) -> None:
    launch(tmp_path, 1, rows(0, 20_000))
    found, restarts = drain(files_of(tmp_path))
    assert steps(found) == [*range(20_000)]
    assert found[700].loss == 100.0
    assert found[700].at == T0 + 350
    assert len(restarts) > 3
    assert not any(restarts)


def test_then_only_what_is_new(tmp_path: Path) -> None:
    path = launch(tmp_path, 1, rows(0, 100))
    files = files_of(tmp_path)
    drain(files)
    assert drain(files) == ([], [False])
    size = path.stat().st_size
    with path.open("ab") as out:
        out.write(writer.frame(rows(100, 130), size))
    assert steps(drain(files)[0]) == [*range(100, 130)]


@given(data=st.data())
def test_however_the_file_grows_each_row_comes_once(tmp_path: Path, data: st.DataObject) -> None:
    whole = GROWN
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=8).map(sorted))
    directory = tmp_path / "run-20260101_000000-abc"
    directory.mkdir(exist_ok=True)
    path = directory / "run-abc.wandb"
    path.unlink(missing_ok=True)
    path.write_bytes(b"")
    files = files_of(tmp_path)
    found: list[Row] = []
    for cut in [*cuts, len(whole)]:
        with path.open("ab") as out:
            out.write(whole[path.stat().st_size : cut])
        more, restarts = drain(files)
        found = more if any(restarts) else found + more
    assert steps(found) == [*range(300)]


GROWN = writer.log([writer.run("abc", T0), *rows(0, 300, pad='"' + "p" * 200 + '"')])


def test_a_read_that_fails_loses_no_row_that_came_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(tmp_path, 1, rows(0, 3000))
    read, reads = WandbLog.read, [0]
    monkeypatch.setattr(fragment, "CHUNK_BYTES", 16_384)

    def failing(log: WandbLog, start: int, budget: int, passed: Passed | None = None) -> LogChunk:
        reads[0] += 1
        if reads[0] == 3:
            raise OSError(5, "Input/output error")
        return read(log, start, budget, passed)

    files = files_of(tmp_path)
    files.value(Then(T0))
    monkeypatch.setattr(WandbLog, "read", failing)
    found, _ = drain(files)
    assert reads[0] > 3 and steps(found) == [*range(3000)]


def test_launches_come_in_the_order_of_their_starts(tmp_path: Path) -> None:
    launch(tmp_path, 2, rows(80, 150))
    launch(tmp_path, 1, rows(0, 100))
    found, _ = drain(files_of(tmp_path))
    assert steps(found) == [*range(100), *range(80, 150)]


def test_a_new_launch_is_joined_without_starting_over(tmp_path: Path) -> None:
    launch(tmp_path, 1, rows(0, 100))
    files = files_of(tmp_path)
    drain(files)
    launch(tmp_path, 2, rows(90, 120))
    files.recent(1)
    found, restarts = drain(files)
    assert steps(found) == [*range(90, 120)]
    assert not any(restarts)


def test_a_file_that_was_replaced_starts_over(tmp_path: Path) -> None:
    path = launch(tmp_path, 1, rows(0, 100))
    files = files_of(tmp_path)
    drain(files)
    path.unlink()
    launch(tmp_path, 1, rows(0, 7))
    found, restarts = drain(files)
    assert steps(found) == [*range(7)]
    assert restarts[0]


def test_a_file_that_was_cut_starts_over(tmp_path: Path) -> None:
    path = launch(tmp_path, 1, rows(0, 1000))
    files = files_of(tmp_path)
    drain(files)
    path.write_bytes(path.read_bytes()[:2000])
    found, restarts = drain(files)
    assert restarts[0]
    assert steps(found) == [*range(len(found))]
    assert 0 < len(found) < 30


def test_a_loss_that_only_comes_later_starts_over_with_it(tmp_path: Path) -> None:
    path = launch(tmp_path, 1, [writer.row(step, None, T0 + step) for step in range(10)])
    files = files_of(tmp_path)
    assert [row.loss for row in drain(files)[0]] == [None] * 10
    with path.open("ab") as out:
        out.write(writer.frame(rows(10, 12), path.stat().st_size))
    found, restarts = drain(files)
    assert restarts[0]
    assert [row.loss for row in found[9:]] == [None, 10 / 7, 11 / 7]


def read_out(files: RunRows) -> bool:
    files.value(Then(T0))
    return files.read_out


def grown(folder: Path, path: Path) -> None:
    with path.open("ab") as out:
        out.write(writer.frame(rows(10, 12), path.stat().st_size))


def replaced(folder: Path, path: Path) -> None:
    """The same bytes in another file."""
    data = path.read_bytes()
    path.rename(folder / "former")
    path.write_bytes(data)


def launched_again(folder: Path, path: Path) -> None:
    launch(folder, 2, rows(10, 20))


@pytest.mark.parametrize("change", [grown, replaced, launched_again])
def test_a_look_tells_whether_all_rows_were_given_out(
    tmp_path: Path, change: Callable[[Path, Path], None]
) -> None:
    path = launch(tmp_path, 1, rows(0, 10))
    files = files_of(tmp_path)
    assert not read_out(files)
    drain(files)
    assert read_out(files)
    change(tmp_path, path)
    assert not read_out(files)
    assert drain(files)[0]
    assert read_out(files)
    files.rewind()
    assert not read_out(files)


def test_a_run_without_a_throughput_gets_steps_per_second(tmp_path: Path) -> None:
    launch(tmp_path, 1, rows(0, 5))
    launch(tmp_path, 2, rows(5, 7))
    found, _ = drain(files_of(tmp_path))
    assert [row.throughput for row in found] == [None, 2.0, 2.0, 2.0, 2.0, None, 2.0]


def test_a_logged_throughput_is_taken_as_it_is(tmp_path: Path) -> None:
    more = {"throughput/tokens_per_second": "5e5"}
    launch(tmp_path, 1, rows(0, 3, **more) + rows(3, 4))
    found, _ = drain(files_of(tmp_path))
    assert [row.throughput for row in found] == [5e5, 5e5, 5e5, None]


def test_the_chart_shows_a_single_bad_row_of_a_long_run(tmp_path: Path) -> None:
    losses = {12_345: "NaN", 23_456: "50000.0"}
    records = [writer.row(step, losses.get(step, "2.0"), T0 + step) for step in range(30_000)]
    launch(tmp_path, 1, records)
    files = files_of(tmp_path)
    drain(files)
    value = files.value(Then(T0))
    assert value.scanned == 1.0
    assert len(value.columns) <= 1024
    assert max(column.high or 0.0 for column in value.columns) == 50_000.0
    (bad,) = [column for column in value.columns if column.nonfinite]
    assert bad.first <= 12_345 <= bad.last
    assert (23_456, 50_000.0) in value.history
    assert any(math.isnan(loss) for _, loss in value.history)
    assert len(value.history) <= 121


def test_before_the_pass_the_chart_is_a_sample(tmp_path: Path) -> None:
    launch(tmp_path, 1, rows(0, 9000))
    files = files_of(tmp_path)
    first = files.value(Then(T0))
    assert first.scanned == 0.0
    assert 100 <= len(first.columns) <= 130
    assert 100 <= len(first.history) <= 130
    assert first.history[-1] == (8999, 8999 / 7)
    files.more()
    half = files.value(Then(T0))
    assert 0.0 < half.scanned < 1.0
    ends = [column.last for column in half.columns]
    assert ends == sorted(ends)
    assert ends[-1] > 8900
    assert len(half.columns) > len(first.columns)


@pytest.mark.parametrize("damage", [0, 1])
def test_damaged_blocks_are_counted(tmp_path: Path, damage: int) -> None:
    path = launch(tmp_path, 1, rows(0, 2000))
    data = bytearray(path.read_bytes())
    data[40_000] ^= damage
    path.write_bytes(bytes(data))
    files = files_of(tmp_path)
    found, _ = drain(files)
    assert (len(found) == 2000) == (damage == 0)
    assert files.value(Then(T0)).skipped_blocks == damage


class Then:
    """A clock that stands still."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds


def row(step: int, loss: float) -> Row:
    return Row(step, None, loss)


def test_a_spike_and_a_nan_survive_every_merge() -> None:
    columns = LossColumns(most=32)
    losses = {40_000: 99.0, 70_001: math.nan, 70_002: math.inf, 5: -7.0}
    columns.add(row(step, losses.get(step, 1.0)) for step in range(100_000))
    shown = columns.columns()
    assert 16 <= len(shown) <= 32
    assert max(column.high or 0.0 for column in shown) == 99.0
    assert min(column.low or 0.0 for column in shown) == -7.0
    assert sum(column.nonfinite for column in shown) == 2
    points = columns.points(20)
    assert (40_000, 99.0) in points
    assert (5, -7.0) in points
    assert [step for step, loss in points if math.isnan(loss)] == [70_001]


def test_a_column_of_nothing_finite_is_a_gap() -> None:
    columns = LossColumns()
    columns.add([row(1, math.nan), row(1, math.inf)])
    assert columns.columns() == ((1, 1, None, None, None, 2),)


def test_replayed_steps_fall_into_the_same_columns() -> None:
    columns = LossColumns()
    columns.add([row(1, 1.0), row(2, 2.0), row(1, 3.0)])
    assert columns.columns()[0] == (1, 1, 1.0, 3.0, 2.0, 0)


def test_huge_losses_have_a_finite_mean() -> None:
    columns = LossColumns()
    columns.add([row(1, 1.7e308), row(1, 1.7e308)])
    assert columns.columns()[0].mean == 1.7e308


any_step = st.integers(-(10**6), 10**15)
losses = st.floats(width=32)


@given(rows=st.lists(st.tuples(any_step, losses), max_size=200), most=st.integers(1, 40))
def test_whatever_comes_the_extremes_and_counts_are_exact(
    rows: list[tuple[int, float]], most: int
) -> None:
    columns = LossColumns(most=most)
    columns.add(row(step, loss) for step, loss in rows)
    shown = columns.columns()
    finite = [loss for _, loss in rows if math.isfinite(loss)]
    assert len(shown) <= most
    assert sum(column.nonfinite for column in shown) == len(rows) - len(finite)
    assert max((one.high for one in shown if one.high is not None), default=None) == max(
        finite, default=None
    )
    assert min((one.low for one in shown if one.low is not None), default=None) == min(
        finite, default=None
    )
    assert [one.first for one in shown] == sorted(one.first for one in shown)
    for one in shown:
        if one.low is not None and one.high is not None and one.mean is not None:
            slack = 1e-9 * max(abs(one.low), abs(one.high))
            assert one.low - slack <= one.mean <= one.high + slack


logged = st.lists(st.tuples(st.integers(0, 40), st.one_of(st.none(), losses)), max_size=60)


@given(rows=logged, cuts=st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_rows_give_the_same_columns_however_they_come(
    rows: list[tuple[int, float | None]], cuts: list[int]
) -> None:
    step, history = 1000, [Row(10 * at, None, 1.0) for at in range(300)]
    for more, loss in rows:  # a 40 stands for a step back
        step += 3 * more if more < 40 else -500
        history.append(Row(step if more != 13 else None, None, loss))
    alone, together = LossColumns(most=64), LossColumns(most=64)
    for each in history:
        alone.add([each])
    at = 0
    while at < len(history):
        cut = cuts[at % len(cuts)]
        together.add(history[at : at + cut])
        at += cut
    assert together.columns() == alone.columns()
    assert repr(together.points(30)) == repr(alone.points(30))


@given(rows=st.lists(st.tuples(st.integers(0, 5000), st.floats(-9, 9)), min_size=1, max_size=300))
def test_points_are_logged_points_in_order(rows: list[tuple[int, float]]) -> None:
    columns = LossColumns(most=64)
    columns.add(row(step, loss) for step, loss in rows)
    points = columns.points(30)
    assert set(points) <= set(rows)
    assert 1 <= len(points) <= 30
    assert [step for step, _ in points] == sorted(step for step, _ in points)
    assert max(loss for _, loss in points) == max(loss for _, loss in rows)
