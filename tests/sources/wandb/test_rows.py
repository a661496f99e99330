"""Rows found by their keys' bytes are the rows that full decoding gives."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.metric_keys import MetricKeys
from cockpit.sources.wandb.decode import KeyLayout, RowReader, StepRate, kind_of
from cockpit.sources.wandb.file import Span
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


def test_a_metric_of_the_same_end_or_beginning_is_not_taken_for_it() -> None:
    payload = nested((("eval", "loss"), "9.0"), (("train/loss",), "8.0"), (("loss", "v2"), "7.0"))
    assert reader(payload).read(message(payload)).loss is None


def test_an_object_of_an_old_client_is_looked_into() -> None:
    payload = writer.history(1, {"grad": '{"norm": 0.5}', "loss": "NaN"}, style=1)
    row = reader(payload).read(message(payload))
    assert row.grad_norm == 0.5
    assert math.isnan(row.loss or 0.0)


def test_a_very_long_key() -> None:
    keys = MetricKeys("_step", "l" * 200)
    payload = nested((("_step",), "3"), (("l" * 200,), "1.5"))
    assert reader(payload, keys=keys).read(message(payload)) == Row(3, None, 1.5)


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
