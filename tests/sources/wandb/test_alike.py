"""Rows read together are the rows that each alone gives, whatever stands between them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.metric_keys import MetricKeys
from cockpit.sources.wandb.alike import AlikeRows
from cockpit.sources.wandb.decode import HISTORY, KeyLayout, RowReader, kind_of
from cockpit.sources.wandb.file import Span
from tests.sources.wandb import writer

KEYS = MetricKeys("global_step", "train/loss", "tps", "tok/s", "grad.norm")._replace(lr="lr")
NAMES = ("global_step", "_timestamp", "train/loss", "tps", "grad.norm", "lr", "eval/loss", "note")

figures = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**16), 10**16).map(str),
    st.sampled_from(
        [
            *("NaN", '"NaN"', "Infinity", '"-Infinity"', "null", "true", '"text"', '"a \\n b"'),
            *("1700000000.5", "1e+06", "7.0", "-0", '""', '"nan"', f'"{200 * "x"}"', "{}", "[1]"),
        ]
    ),
)
shapes = st.lists(st.sampled_from(NAMES), max_size=6)
others = st.sampled_from(
    [
        *(writer.record(5, 5, writer.items({"lr": "1"})), writer.stats(17e8), writer.exited(0)),
        writer.record(6, 3, writer.items({"train/loss": "9"})),
        writer.record(7, 2, b"\x0a\xff\x01"),
    ]
)


@st.composite
def logged(draw: st.DrawFn) -> list[bytes]:
    """Records of a trainer that has a few shapes of rows, one much more often than the others."""
    records: list[bytes] = []
    known = draw(st.lists(shapes, min_size=1, max_size=6))
    style = draw(st.sampled_from([1, 2]))
    for _ in range(draw(st.integers(1, 25))):
        if draw(st.integers(0, 5)) == 0:
            records.append(draw(others))
        names = known[max(0, draw(st.integers(-9, len(known) - 1)))]
        items = b"".join(writer.items({name: draw(figures)}, style) for name in names)
        step = draw(st.sampled_from([b"", writer.field(2, b""), writer.field(2, b"\x08\x87\x01")]))
        records.append(writer.record(draw(st.integers(0, 2**40)), 2, items + step))
    return records


def by_itself(reader: RowReader, layout: KeyLayout, span: Span) -> Row | None:
    kind, message = kind_of(span)
    if kind != HISTORY:
        return None
    layout.notice(message)
    try:
        return reader.read(message)
    except ValueError:
        return None


def learned(spans: list[Span]) -> tuple[RowReader, KeyLayout]:
    """A reader that knows the rows before, as the pass has it when a chunk begins."""
    layout = KeyLayout(MetricNames(grad_norm=KEYS.grad_norm))
    for kind, message in map(kind_of, spans):
        if kind == HISTORY:
            layout.notice(message)
    return RowReader(KEYS, layout), layout


@given(logged(), logged())
@example([writer.row(n, "2.5", 17e8 + n) for n in range(5)], [])
def test_rows_read_together_are_as_each_alone(before: list[bytes], now: list[bytes]) -> None:
    spans = [(each, 0, len(each)) for each in (*before, *before, *before, *now)]
    reader, layout = learned(spans[: 3 * len(before)])
    plain = [by_itself(reader, layout, span) for span in spans]
    reader, layout = learned(spans[: 3 * len(before)])
    found = AlikeRows(reader, layout).read(spans, lambda span: by_itself(reader, layout, span))
    assert repr(found) == repr([row for row in plain if row is not None])


def asked(records: list[bytes]) -> tuple[list[Row], list[int]]:
    """The rows, and of which kind the records were that were not read together."""
    spans = [(each, 0, len(each)) for each in records]
    reader, layout = learned(spans)
    kinds: list[int] = []

    def other(span: Span) -> Row | None:
        kinds.append(kind_of(span)[0])
        return by_itself(reader, layout, span)

    return AlikeRows(reader, layout).read(spans, other), kinds


ITEMS = writer.items({"global_step": "7", "_timestamp": "1700000000.5", "train/loss": "2.5"})


@pytest.mark.parametrize(
    "record",
    [
        writer.history(7, {"global_step": "7", "train/loss": "2.5"}) + writer.field(19, b"uuid"),
        writer.field(2, ITEMS),
        writer.record(7, 2, ITEMS + writer.field(9, b"news")),
        writer.record(7, 2, writer.field(2, b"\x08\x07") + ITEMS),
    ],
    ids=["a field behind the row", "no number", "a field in the row", "its step first"],
)
def test_rows_that_another_writer_spells_otherwise_are_read_by_their_keys(record: bytes) -> None:
    found, kinds = asked([record, record, writer.stats(17e8), record])
    assert [(row.step, row.loss) for row in found] == [(7, 2.5)] * 3 and kinds == [HISTORY] * 3
