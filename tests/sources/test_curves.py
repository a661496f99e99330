"""A metric folded: nothing is lost of extremes, counts and restarts, and all of it is bounded.

Any metric of a run's own files: found by name, read in turns, grown when asked again.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cockpit.attach.wire import as_text
from cockpit.model.clock import FixedClock
from cockpit.model.curve import Curve, Curves, Part, Span, curves_in, step_at
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.sources.curve_fold import CurveFold
from cockpit.sources.curves import CurveReading
from cockpit.sources.trackers import Trackers
from tests.sources.wandb import writer

values = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf])
rows = st.lists(st.tuples(st.integers(0, 3000), values), max_size=120)


def folded(logged: list[tuple[int, float]], span: Span | None = None, most: int = 16) -> Curve:
    fold = CurveFold(most)
    for at, (step, value) in enumerate(logged):
        fold.add(step, 1000.0 + at, value)
    return fold.curve("loss", None, span or Span(), 1.0)


@given(rows, st.integers(1, 40))
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


def row(step: int, **more: str) -> bytes:
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
    run = run_at(tmp_path, [row(step, **rates) for step in range(100)])
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
    rows = [row(step, **{"train/global_batch_size": "64"}) for step in range(100)]
    rate = await curve_of(reading(), run_at(tmp_path, rows), "throughput")
    assert (rate.why, rate.unit, rate.rows) == ("", "it/s", 99)
    assert rate.newest is not None and round(rate.newest.value, 3) == 1.0


async def test_a_zero_of_another_metric_is_no_hidden_nan(tmp_path: Path) -> None:
    """Beside a broken gradient a loss of 0 stands for NaN (C-09); a rate of 0 is 0."""
    more = {"optim/lr": "0", "train/grad_norm": "NaN"}
    run = run_at(tmp_path, [row(step, **more) for step in range(9)])
    rate = await curve_of(reading(), run, "learning rate")
    assert rate.newest is not None and rate.newest.value == 0.0 and rate.broken is None


async def test_a_metric_that_is_logged_seldom_stands_at_the_trainers_steps(tmp_path: Path) -> None:
    records = []
    for step in range(0, 200, 2):
        records.append(row(step))
        if step % 50 == 0:
            records.append(writer.history(step, {"eval/loss": "3.5", "_timestamp": f"{START}"}))
    found = await curve_of(reading(), run_at(tmp_path, records), "eval/loss")
    assert [part.first for part in found.parts] == [0, 50, 100, 150]


async def test_new_rows_come_with_the_next_question_and_a_new_launch_is_a_restart(
    tmp_path: Path,
) -> None:
    reads = reading()
    run = run_at(tmp_path, [row(step) for step in range(50)])
    assert (await curve_of(reads, run, "loss")).rows == 50
    run_at(tmp_path, [row(step) for step in range(60)])
    assert (await curve_of(reads, run, "loss")).rows == 60
    again = [writer.row(step, "1.0", START + 500 + step) for step in range(30, 40)]
    run_at(tmp_path, again, START + 500)
    resumed = await curve_of(reads, run, "loss")
    assert [each.step for each in resumed.restarts] == [30]
    assert resumed.former[0].first == 30 and resumed.former[-1].last == 59
    assert resumed.newest is not None and resumed.newest.step == 39


async def test_what_is_not_known_says_why(tmp_path: Path) -> None:
    reads = reading()
    run = run_at(tmp_path, [row(step, **{"eval/acc": "0.5"}) for step in range(9)])
    assert "no metric acc was logged; near: eval/acc" in (await curve_of(reads, run, "acc")).why
    assert "no grad norm" in (await curve_of(reads, run, "grad norm")).why
    bare = RunSpec(name="bare")
    assert "no tracker in cockpit.toml" in (await curve_of(reads, bare, "loss")).why
    gone = RunSpec(name="gone", wandb=WandbSpec(id="x", dir=place_of(str(tmp_path / "no"))))
    assert "No such file" in (await curve_of(reads, gone, "loss")).why
    away = RunSpec(name="away", wandb=WandbSpec(id="x", dir=place_of("s3://box/runs")))
    assert "W&B files at s3://box are not read" in (await curve_of(reads, away, "loss")).why
