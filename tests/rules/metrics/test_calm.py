"""Rows that are folded together give what each alone gives, to the last figure and event."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.rules.metrics.usual import BLOCK
from cockpit.rules.replay import Replay
from tests.rules.making import T0, run_spec
from tests.rules.metrics.test_cuts import CURVES, rows_of

RUN = run_spec(cadence=120.0)
Change = Callable[[random.Random, Row], Row]

CHANGES: dict[str, Change] = {
    "as it is": lambda by, row: row,
    "one nan": lambda by, row: row._replace(loss=math.nan) if by.random() < 0.004 else row,
    "nan grads": lambda by, row: row._replace(grad_norm=math.inf) if by.random() < 0.01 else row,
    "without a loss": lambda by, row: row._replace(loss=None) if by.random() < 0.05 else row,
    "without a time": lambda by, row: row._replace(at=None) if by.random() < 0.02 else row,
    "zeros": lambda by, row: row._replace(loss=0.0) if by.random() < 0.01 else row,
    "without rates": lambda by, row: row._replace(throughput=None),
    "some rates": lambda by, row: row._replace(throughput=None) if by.random() < 0.02 else row,
    "batches": lambda by, row: row._replace(throughput=None, batch=8.0 + 8 * (time_of(row) > 900)),
    "spiky": lambda by, row: row._replace(loss=2.0 * (row.loss or 0)) if spiky(row) else row,
    "climbing": lambda by, row: row._replace(loss=(row.loss or 0) * 1.001 ** (row.step or 0)),
    "unstable": lambda by, row: row._replace(grad_norm=7.0) if spiky(row) else row,
    "below zero": lambda by, row: row._replace(loss=-(row.loss or 0)),
    "other metrics": lambda by, row: row._replace(router_entropy=3.0 - by.random(), z_loss=0.1),
    "rates of learning": lambda by, row: row._replace(lr=1e-4 if by.random() < 0.5 else None),
    "skips": lambda by, row: row._replace(skipped=float(by.random() < 0.1)),
    "use of the machine": lambda by, row: row._replace(
        limited=(("MFU", (0.4 if time_of(row) % 1500 < 1200 else 0.15) + 0.01 * by.random()),)
    ),
    "dropped tokens": lambda by, row: row._replace(
        limited=(("dropped tokens", 0.2 if time_of(row) % 2000 > 900 else 0.01 * by.random()),)
    ),
    "evaluations": lambda by, row: (
        row._replace(limited=(("evaluation loss", by.choice([2.0, 2.0, 1.9, 2.1, 3.0, math.nan])),))
        if (row.step or 0) % 50 == 0
        else row
    ),
    "worse evaluations": lambda by, row: row._replace(
        limited=(("evaluation loss", 2 + time_of(row) / 1000 - 0.1 * by.random()),)
    ),
    "slow": lambda by, row: row._replace(throughput=10.0) if 600 < time_of(row) < 1500 else row,
}


def time_of(row: Row) -> float:
    return (row.at or T0) - T0


def spiky(row: Row) -> bool:
    return (row.step or 0) % 400 > 385


def training(by: random.Random, noise: float) -> Iterator[Row]:
    """A few instances that resume, skip and pause; rows of the same step are among them."""
    step, at, stride = 0, T0, by.choice([1, 1, 1, 10])
    odd = by.choice([0.0, 0.0003, 0.003])
    for _ in range(by.randint(1, 3)):
        for _ in range(by.choice([50, 800, 1600])):
            at += by.choice([1.0, 1.0, 1.0, 1.5, 0.5])
            if by.random() < odd:
                at += by.choice([3.0, 10.0, 400.0, 100_000.0])
            loss = (2 + 6 / (1 + step / 100)) * math.exp(by.gauss(0, noise))
            norm = math.exp(by.gauss(0, 0.3))
            yield Row(step, at, loss, 1000.0 + by.gauss(0, 5), norm)
            if by.random() < odd:
                yield Row(step, at, None, None, None)
            step += stride if by.random() >= odd else 7 * stride
        step = max(0, step - by.randint(0, 700) * stride)


def both(rows: list[Row], run: RunSpec, cut: int) -> int:
    """Compare the two ways; return how many rows were folded together."""
    alone, together = Replay(run), Replay(run)
    for row in rows:
        alone.add(row)
    taken: list[int] = []
    stretch = together._judge.stretch

    def counted(some: list[Row], longest: float) -> int:
        taken.append(stretch(some, longest))
        return taken[-1]

    together._judge.stretch = counted  # type: ignore[assignment,method-assign]
    for begin in range(0, len(rows), cut):
        together.extend(rows[begin : begin + cut])
    assert repr(together.ended()) == repr(alone.ended())
    assert repr(together._judge.fold.freeze()) == repr(alone._judge.fold.freeze())
    assert together._judge.freeze() == alone._judge.freeze()
    return sum(taken)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.01, 0.1, 0.5]),
    st.sets(st.sampled_from(sorted(CHANGES)), max_size=2),
    st.integers(1, 3000),
    st.sampled_from([120.0, 900.0, 20_000.0]),
)
@example(1, 0.01, {"climbing"}, 2000, 900.0)
@example(2, 0.01, {"unstable"}, 2000, 900.0)
@example(3, 0.01, {"spiky"}, 2000, 900.0)
@example(4, 0.01, {"slow"}, 2000, 120.0)
@example(5, 0.01, {"use of the machine"}, 2000, 900.0)
@example(6, 0.01, {"dropped tokens"}, 2000, 900.0)
@example(7, 0.01, {"worse evaluations"}, 2000, 900.0)
def test_any_history(seed: int, noise: float, changes: set[str], cut: int, cadence: float) -> None:
    by = random.Random(seed)
    rows = list(training(by, noise))
    for name in sorted(changes):
        rows = [CHANGES[name](by, row) if row.at is not None else row for row in rows]
    both(rows, run_spec(cadence=cadence), cut)


@pytest.mark.parametrize("name", sorted(CURVES)[::3])
def test_curves_with_faults(name: str) -> None:
    both(rows_of(CURVES[name]), run_spec(cadence=900.0), 2000)


@pytest.mark.parametrize(
    "figures",
    [
        {"loss_spike": 1.5}, {"instability_z": 30.0}, {"instability_window": 20},
        {"instability_rows": 2}, {"loss_climb": 0.01, "climb_rows": 5, "spike_rows": 2},
    ],
)  # fmt: skip
def test_with_other_thresholds(figures: dict[str, float]) -> None:
    limits = RUN.thresholds.model_copy(update=figures)
    for seed in range(4):
        both(list(training(random.Random(seed), 0.1)), run_spec(thresholds=limits), 2000)


def quiet(by: random.Random, first: int, last: int, later: float = 0.0) -> list[Row]:
    return [
        Row(step, T0 + 2.0 * step + later, 2 + by.gauss(0, 0.05), 1e3, math.exp(by.gauss(0, 0.3)))
        for step in range(first, last)
    ]


@pytest.mark.parametrize("pause", [5.0, 30.0, 400.0, 100_000.0])
@pytest.mark.parametrize("at", range(700, 700 + BLOCK, 7))
def test_a_pause_among_quiet_rows(pause: float, at: int) -> None:
    by = random.Random(at)
    rows = [*quiet(by, 0, at), *quiet(by, at, at + 300, later=pause)]
    assert both(rows, run_spec(cadence=300.0), 2000) > 150
    assert both([row._replace(throughput=None) for row in rows], RUN, 2000) > 0


@pytest.mark.parametrize("back", [1, 30, 300])
def test_a_resume_among_quiet_rows(back: int) -> None:
    by = random.Random(back)
    rows = [*quiet(by, 0, 900), *quiet(by, 900 - back, 2400, later=3000.0)]
    assert both(rows, run_spec(cadence=900.0), 2000) > 300


def test_most_rows_of_a_quiet_history_are_folded_together() -> None:
    rows = quiet(random.Random(1), 0, 2400)
    assert both(rows, run_spec(cadence=900.0), 2000) > 0.7 * len(rows)
