from __future__ import annotations

import json
import math
import time

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.observed import Row
from cockpit.model.trend import Trend
from cockpit.rules.numerics import advance
from tests.rules.making import T0, folded, losses, run_spec

metric = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True, width=32),
    st.sampled_from([1.0, 2.0, 3.0]),
)
rows = st.lists(
    st.builds(
        Row,
        step=st.one_of(st.none(), st.integers(0, 60)),
        at=st.one_of(st.none(), st.floats(T0, T0 + 2000)),
        loss=metric,
        throughput=metric,
        grad_norm=metric,
    ),
    max_size=80,
)


@given(rows, st.lists(st.integers(1, 9), min_size=1))
def test_the_cut_into_batches_makes_no_difference(batch: list[Row], cuts: list[int]) -> None:
    run = run_spec()
    trend, rest, turn = Trend(), list(batch), 0
    while rest:
        size = cuts[turn % len(cuts)]
        trend, rest, turn = advance(trend, rest[:size], run), rest[size:], turn + 1
    assert repr(trend) == repr(advance(Trend(), batch, run))


@given(rows, rows)
def test_a_trend_survives_the_store(before: list[Row], after: list[Row]) -> None:
    run = run_spec()
    trend = advance(Trend(), before, run)
    kept = Trend.model_validate_json(trend.model_dump_json())
    again = Trend.model_validate(json.loads(json.dumps(trend.model_dump(mode="python"))))
    assert repr(kept) == repr(trend) == repr(again)
    assert repr(advance(kept, after, run)) == repr(advance(trend, after, run))


def test_its_size_is_bounded() -> None:
    noise = [Row(i, T0 + i * 0.01, 2 + math.sin(i), 1e5 + i % 7, 1.0) for i in range(30_000)]
    assert len(folded(noise).model_dump_json()) < 20_000


def test_it_is_fast_enough_for_a_million_rows() -> None:
    many = [Row(i, T0 + i, 2 + (i % 13) / 100, 1e5 + i % 7, 1.0) for i in range(50_000)]
    begin = time.process_time()
    folded(many)
    assert time.process_time() - begin < 1.0


def test_no_rows_change_nothing() -> None:
    trend = folded(losses([1.0, 2.0]))
    assert advance(trend, (), run_spec()) is trend
    assert trend.rows == 2
