"""The background pass: every row once, in order, then only what is new.

A metric folded: nothing is lost of extremes, counts and restarts, and all of it is bounded.

Any metric of a run's own files: found by name, read in turns, grown when asked again.

Which key is the step, the loss, the throughput and the gradient norm.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.attach.wire import as_text
from cockpit.model.clock import FixedClock
from cockpit.model.curve import Curve, Curves, Part, Span, curves_in, step_at
from cockpit.model.observed import Row
from cockpit.model.place import place_of
from cockpit.model.run import MetricNames, RunSpec, WandbSpec
from cockpit.sources.curve_fold import CurveFold, LossColumns
from cockpit.sources.curves import CurveReading
from cockpit.sources.metric_keys import MetricKeys, choose, interesting
from cockpit.sources.run_rows import RunRows
from cockpit.sources.trackers import Trackers
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


values = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf])
curves_rows = st.lists(st.tuples(st.integers(0, 3000), values), max_size=120)


def folded(logged: list[tuple[int, float]], span: Span | None = None, most: int = 16) -> Curve:
    fold = CurveFold(most)
    for at, (step, value) in enumerate(logged):
        fold.add(step, 1000.0 + at, value)
    return fold.curve("loss", None, span or Span(), 1.0)


@given(curves_rows, st.integers(1, 40))
def test_property_extremes_and_counts_survive_any_merge(
    logged: list[tuple[int, float]], most: int
) -> None:
    curve = folded(logged, Span(most=most))
    parts: list[Part] = [*curve.parts, *curve.former]
    assert len(curve.parts) <= most and len(curve.former) <= most
    finite = [value for _, value in logged if math.isfinite(value)]
    assert sum(part.finite for part in parts) == len(finite)
    assert sum(part.nonfinite for part in parts) == len(logged) - len(finite)
    lows = [part.low for part in parts if part.low is not None]
    highs = [part.high for part in parts if part.high is not None]
    assert (min(lows, default=0), max(highs, default=0)) == (
        min(finite, default=0),
        max(finite, default=0),
    )
    assert all(part.low <= part.mean <= part.high for part in parts if part.finite)  # type: ignore[operator]


def test_an_extent_is_of_steps_or_of_times() -> None:
    logged = [(step, float(step)) for step in range(100)]
    by_step = folded(logged, Span(low=10, high=19), most=500)
    assert [part.first for part in by_step.parts] == list(range(10, 20))
    by_time = folded(logged, Span(by_time=True, low=1090.0, high=1094.0), most=500)
    assert [part.first for part in by_time.parts] == list(range(90, 95))
    assert by_time.extent == (0, 99) and by_time.times == (1000.0, 1099.0)
    assert step_at(by_time.parts, 1092.5) == 92
    assert step_at(by_time.parts, 1.0) is None


def test_a_curve_crosses_to_a_window_as_it_is() -> None:
    curve = folded([(0, 1.0), (5, math.inf), (2, 3.0)])
    curves = Curves(("a", "b"), (curve, Curve("x", why="no file")))
    assert curves_in(json.loads(as_text(curves))) == curves


START = 1_700_000_000.0


def curves_row(step: int, **more: str) -> bytes:
    return writer.row(step, f"{5 - step / 100}", START + step, **more)


def run_at(folder: Path, records: list[bytes], begun: float = START) -> RunSpec:
    """Write what a launch has logged, as if its last row had just been written."""
    home = folder / f"offline-run-{begun:.0f}-abc"
    home.mkdir(parents=True, exist_ok=True)
    file = home / "run-abc.wandb"
    file.write_bytes(writer.log([writer.run("abc", begun), *records]))
    os.utime(file, (begun + 300, begun + 300))
    return RunSpec(name="toy", wandb=WandbSpec(id="abc", dir=place_of(str(folder))))


async def curve_of(reading: CurveReading, run: RunSpec, metric: str) -> Curve:
    for _ in range(50):
        (found,) = (await reading.curves(run, (metric,), Span())).curves
        if found.share == 1.0:
            break
    return found


def reading() -> CurveReading:
    clock = FixedClock(START + 1000)
    return CurveReading(Trackers(clock), clock)


async def test_every_metric_is_found_by_what_it_is_and_by_its_name(tmp_path: Path) -> None:
    rates = {"optim/lr": "0.01", "eval/acc": "0.5", "train/grad_norm": "2.0"}
    reads = reading()
    run = run_at(tmp_path, [curves_row(step, **rates) for step in range(100)])
    loss = await curve_of(reads, run, "loss")
    assert (loss.metric, loss.rows, loss.extent) == ("train/loss", 100, (0, 99))
    assert (loss.parts[0].low, loss.parts[-1].last) == (5.0, 99)
    rate = await curve_of(reads, run, "throughput")
    assert rate.unit == "it/s" and rate.newest is not None and round(rate.newest.value, 3) == 1.0
    assert (await curve_of(reads, run, "learning rate")).metric == "optim/lr"
    assert (await curve_of(reads, run, "grad norm")).metric == "train/grad_norm"
    accuracy = await curve_of(reads, run, "eval/acc")
    assert accuracy.newest is not None and accuracy.newest[1:] == (START + 99, 0.5)
    names = (await reads.curves(run, ("loss",), Span())).names
    assert names == ("eval/acc", "global_step", "optim/lr", "train/grad_norm", "train/loss")


async def test_a_run_that_logs_its_batch_and_no_throughput_has_its_steps_over_time(
    tmp_path: Path,
) -> None:
    """C-05 takes samples from such rows itself: they carry no rate."""
    rows = [curves_row(step, **{"train/global_batch_size": "64"}) for step in range(100)]
    rate = await curve_of(reading(), run_at(tmp_path, rows), "throughput")
    assert (rate.why, rate.unit, rate.rows) == ("", "it/s", 99)
    assert rate.newest is not None and round(rate.newest.value, 3) == 1.0


async def test_a_zero_of_another_metric_is_no_hidden_nan(tmp_path: Path) -> None:
    """Beside a broken gradient a loss of 0 stands for NaN (C-09); a rate of 0 is 0."""
    more = {"optim/lr": "0", "train/grad_norm": "NaN"}
    run = run_at(tmp_path, [curves_row(step, **more) for step in range(9)])
    rate = await curve_of(reading(), run, "learning rate")
    assert rate.newest is not None and rate.newest.value == 0.0 and rate.broken is None


async def test_a_metric_that_is_logged_seldom_stands_at_the_trainers_steps(tmp_path: Path) -> None:
    records = []
    for step in range(0, 200, 2):
        records.append(curves_row(step))
        if step % 50 == 0:
            records.append(writer.history(step, {"eval/loss": "3.5", "_timestamp": f"{START}"}))
    found = await curve_of(reading(), run_at(tmp_path, records), "eval/loss")
    assert [part.first for part in found.parts] == [0, 50, 100, 150]


async def test_new_rows_come_with_the_next_question_and_a_new_launch_is_a_restart(
    tmp_path: Path,
) -> None:
    reads = reading()
    run = run_at(tmp_path, [curves_row(step) for step in range(50)])
    assert (await curve_of(reads, run, "loss")).rows == 50
    run_at(tmp_path, [curves_row(step) for step in range(60)])
    assert (await curve_of(reads, run, "loss")).rows == 60
    again = [writer.row(step, "1.0", START + 500 + step) for step in range(30, 40)]
    run_at(tmp_path, again, START + 500)
    resumed = await curve_of(reads, run, "loss")
    assert [each.step for each in resumed.restarts] == [30]
    assert resumed.former[0].first == 30 and resumed.former[-1].last == 59
    assert resumed.newest is not None and resumed.newest.step == 39


async def test_what_is_not_known_says_why(tmp_path: Path) -> None:
    reads = reading()
    run = run_at(tmp_path, [curves_row(step, **{"eval/acc": "0.5"}) for step in range(9)])
    assert "no metric acc was logged; near: eval/acc" in (await curve_of(reads, run, "acc")).why
    assert "no grad norm" in (await curve_of(reads, run, "grad norm")).why
    bare = RunSpec(name="bare")
    assert "no tracker in cockpit.toml" in (await curve_of(reads, bare, "loss")).why
    gone = RunSpec(name="gone", wandb=WandbSpec(id="x", dir=place_of(str(tmp_path / "no"))))
    assert "No such file" in (await curve_of(reads, gone, "loss")).why
    away = RunSpec(name="away", wandb=WandbSpec(id="x", dir=place_of("s3://box/runs")))
    assert "W&B files at s3://box are not read" in (await curve_of(reads, away, "loss")).why


USUAL = MetricNames()


def keys(*rows: str, configured: MetricNames = USUAL) -> MetricKeys:
    return choose([frozenset(row.split()) for row in rows], configured)


def test_a_validation_loss_is_never_taken_for_the_training_loss() -> None:
    assert keys("eval/loss val_loss train/aux_loss z_loss router/balance_loss").loss is None


def test_the_run_file_wins_even_before_the_key_is_logged() -> None:
    own = MetricNames(step="my_step", loss="objective", throughput="speed", grad_norm="g")
    assert keys("train/loss global_step", configured=own) == MetricKeys(
        "my_step", "objective", "speed", None, "g"
    )
    assert interesting("objective", own)
    assert not interesting("layer_7/weight_max", own)


def test_what_tells_of_stability_is_found_beside_the_loss() -> None:
    found = keys(
        "train/loss eval/z_loss skipped_steps moe/z_loss moe/aux_loss router/entropy",
        "router/layer_1/entropy",
    )
    four = ("moe/z_loss", "moe/aux_loss", "router/entropy", "skipped_steps")
    assert found.other_names == (*four, None, None)
    assert found.loss == "train/loss"


@pytest.mark.parametrize(
    ("names", "lr"),
    [
        ("train/loss optim/learning_rate", "optim/learning_rate"),
        ("loss lr lr/group_1 lr_max", "lr"),
        ("loss lr-AdamW/pg1 lr-AdamW/pg2", "lr-AdamW/pg1"),
        ("loss train.learning_rate", "train.learning_rate"),
        (
            "train/loss train/lr_loss psnr/lr ssim_lr lr_find/loss lr_grad_norm lr_cooldown_steps",
            None,
        ),
        ("train/loss lr_loss optim/learning_rate", "optim/learning_rate"),
        ("loss lr_scale warmup/lr min_lr learning_rate_schedule colour", None),
    ],
)
def test_the_learning_rate_is_found_by_its_words(names: str, lr: str | None) -> None:
    assert keys(names).lr == lr
    assert lr is None or interesting(lr, USUAL)
