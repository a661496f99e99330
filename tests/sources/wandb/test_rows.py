"""Rows found by their keys' bytes are the rows that full decoding gives."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.wandb.decode import KeyLayout, RowReader, StepRate, kind_of, usual_step_seconds
from cockpit.sources.wandb.file import Span
from cockpit.sources.wandb.metrics import MetricKeys
from tests.sources.wandb import writer

KEYS = MetricKeys("global_step", "loss", "tps", "tok/s", "grad.norm")
NAMES = ("global_step", "_timestamp", "loss", "tps", "grad.norm")


def message(payload: bytes) -> Span:
    return kind_of((payload, 0, len(payload)))[1]


def nested(*items: tuple[tuple[str, ...], str]) -> bytes:
    body = b""
    for path, text in items:
        keys = b"".join(writer.field(2, part.encode()) for part in path)
        body += writer.field(1, keys + writer.field(16, text.encode()))
    return writer.record(1, 2, body)


def reader(*learned: bytes, keys: MetricKeys = KEYS) -> RowReader:
    layout = KeyLayout(MetricNames(grad_norm=keys.grad_norm))
    for payload in learned:
        layout.notice(message(payload))
    return RowReader(keys, layout)


def test_a_row() -> None:
    payload = nested(
        (("loss",), "2.5"),
        (("grad", "norm"), "0.5"),
        (("global_step",), "1e+06"),
        (("tps",), "1e5"),
        (("_timestamp",), "1700000000.5"),
    )
    assert reader(payload).read(message(payload)) == Row(
        1_000_000, 1700000000.5, 2.5, 100_000.0, 0.5
    )


def test_what_is_logged_beside_them_comes_with_the_row() -> None:
    keys = KEYS._replace(z_loss="z_loss", router_entropy="router/entropy", skipped="skipped")
    payload = nested(
        (("loss",), "2.5"),
        (("z_loss",), "1e-4"),
        (("router/entropy",), "1.7"),
        (("skipped",), "1"),
        (("router/entropy/layer",), "0.1"),
    )
    for each in (reader(payload, keys=keys), RowReader(keys, KeyLayout(MetricNames()))):
        row = each.read(message(payload))
        assert (row.loss, row.z_loss, row.router_loss) == (2.5, 1e-4, None)
        assert (row.router_entropy, row.skipped, row.bar) == (1.7, 1.0, False)


def test_a_time_that_is_none_is_absent() -> None:
    for text in ('"Infinity"', "Infinity", "-5", "1700000000500"):
        payload = nested((("loss",), "2.5"), (("_timestamp",), text))
        assert reader(payload).read(message(payload)).at is None
        assert RowReader(KEYS, KeyLayout(MetricNames())).read(message(payload)).at is None


def test_a_metric_of_the_same_end_or_beginning_is_not_taken_for_it() -> None:
    payload = nested((("eval", "loss"), "9.0"), (("train/loss",), "8.0"), (("loss", "v2"), "7.0"))
    assert reader(payload).read(message(payload)).loss is None


def test_a_key_inside_the_text_of_another_is_not_taken_for_it() -> None:
    payload = nested((("note",), '"\x12\x04loss"'), (("loss",), "1.0"))
    assert reader(payload).read(message(payload)).loss == 1.0


def test_a_metric_that_no_learned_row_had_is_still_found() -> None:
    learned = nested((("loss",), "1.0"))
    for path in (("grad.norm",), ("grad", "norm")):
        later = nested((path, "0.25"))
        assert reader(learned).read(message(later)).grad_norm == 0.25


def test_an_object_of_an_old_client_is_looked_into() -> None:
    payload = writer.history(1, {"grad": '{"norm": 0.5}', "loss": "NaN"}, style=1)
    row = reader(payload).read(message(payload))
    assert row.grad_norm == 0.5
    assert math.isnan(row.loss or 0.0)


def test_values_that_are_no_numbers_are_absent() -> None:
    payload = nested((("loss",), '"high"'), (("tps",), "null"), (("global_step",), "NaN"))
    assert reader(payload).read(message(payload)) == Row(None, None)


def test_a_very_long_key() -> None:
    keys = MetricKeys("_step", "l" * 200)
    payload = nested((("_step",), "3"), (("l" * 200,), "1.5"))
    assert reader(payload, keys=keys).read(message(payload)) == Row(3, None, 1.5)


def test_a_metric_that_is_logged_now_and_then_is_learned() -> None:
    layout = KeyLayout(MetricNames())
    for step in range(500):
        more = {"train/grad_norm": "1.0"} if step == 333 else {}
        layout.notice(message(writer.row(step, "1.0", 17e8 + step, **more)))
    assert "train/grad_norm" in layout.keys
    assert len(layout.rows) < 10


def test_what_is_learned_is_bounded() -> None:
    layout = KeyLayout(MetricNames())
    for count in range(1000):
        layout.notice(message(writer.history(1, {f"loss{index}": "1" for index in range(count)})))
    assert len(layout.rows) < 200


numbers = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.integers(-(10**15), 10**15).map(str),
    st.sampled_from(["Infinity", "-Infinity", "null", '"text"', "[1]", "true"]),
)
rows = st.dictionaries(st.sampled_from([*NAMES, "eval.loss", "loss.v2", "other"]), numbers)


@given(values=rows, style=st.sampled_from([1, 2]), flat=st.booleans())
def test_the_quick_way_and_the_slow_way_agree(
    values: dict[str, str], style: int, flat: bool
) -> None:
    values = {name: text.replace("inf", "Infinity") for name, text in values.items()}
    if flat or style == 1:
        payload = writer.history(1, values, style=style)
    else:
        payload = nested(*((tuple(name.split(".")), text) for name, text in values.items()))
    quick = reader(payload)
    slow = RowReader(KEYS, KeyLayout(MetricNames()))
    assert quick.read(message(payload)) == slow.read(message(payload))


def rates(*rows: tuple[int | None, float | None]) -> list[float | None]:
    return [
        row.throughput
        for row in StepRate().fill((Row(step, at) for step, at in rows), MetricKeys())
    ]


def test_steps_per_second_between_rows() -> None:
    assert rates((0, 100.0), (10, 105.0), (11, 106.0)) == [None, 2.0, 1.0]


def test_a_row_at_the_same_step_or_time_says_nothing() -> None:
    assert rates((0, 0.0), (0, 1.0), (1, 2.0), (2, 2.0), (4, 5.0)) == [None, None, 0.5, None, 1.0]


def test_a_resumed_run_starts_anew() -> None:
    assert rates((100, 10.0), (50, 90.0), (51, 92.0)) == [None, None, 0.5]
    assert rates((5, 10.0), (6, 9.0), (7, 10.0)) == [None, None, 1.0]


def test_rows_without_step_or_time_are_passed_over() -> None:
    assert rates((1, 1.0), (None, 2.0), (2, None), (3, 5.0)) == [None, None, None, 0.5]


def test_the_usual_time_of_a_step_is_not_moved_by_one_pause() -> None:
    rows = [Row(step, step * 2.0 + (600.0 if step > 7 else 0.0)) for step in range(12)]
    assert usual_step_seconds(rows) == pytest.approx(2.0)
    assert usual_step_seconds(rows[:1]) is None


def test_the_usual_time_of_a_step_is_that_of_training_between_validations() -> None:
    trained = [Row(step, 2.0 * step, loss=2.5) for step in range(0, 40, 10)]
    validated = [Row(5000 + n, 62.0 + n) for n in range(40)]
    assert usual_step_seconds([*trained, *validated]) == pytest.approx(2.0)


def test_rows_that_came_out_of_a_buffer_at_once_tell_no_rate() -> None:
    burst = [Row(step, 100.0 + step * 0.00007) for step in range(300)]
    assert usual_step_seconds(burst) is None
    after = [Row(300 + more, 101.0 + more) for more in range(4)]
    assert usual_step_seconds([*burst, *after]) == pytest.approx(1.0, abs=0.03)
    assert usual_step_seconds([Row(1, 5.0), Row(2, 5.2)]) is None, "too short a time"
    whole_seconds = [Row(step, float(step // 4)) for step in range(20)]
    assert usual_step_seconds(whole_seconds) == pytest.approx(0.25)
