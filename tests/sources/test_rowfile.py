"""Rows of a JSON-lines history: each line as Python's own reader takes it, only faster."""

from __future__ import annotations

import io
import json
import math

import pytest

from cockpit.model.observed import Row
from cockpit.sources.curves import EVERY, RowFile


def rows_of(*lines: bytes) -> tuple[list[Row], RowFile]:
    file = RowFile(io.BytesIO(b"\n".join(lines)))
    return list(file), file


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        (b'{"step": 7, "loss": NaN}', math.nan),
        (b'{"step": 7, "loss": -Infinity}', -math.inf),
        (b'{"step": 7.0, "loss": "Infinity"}', math.inf),
        (b'{"step": 7, "loss": 1e999}', math.inf),
        (b'{"step": 7, "loss": 3}', 3.0),
        (b'{"step": 7, "loss": 1' + b"0" * 400 + b"}", None),
        (b'{"step": 7, "loss": [2.0]}', None),
        (b'\xef\xbb\xbf{"step": 7, "loss": 2.5}', 2.5),
        (b'{"step": 7, "loss": 2.5, "note": "\\ud800"}', 2.5),
        (b'{"step": 6, "step": 7, "loss": 2.5}', 2.5),
    ],
)
def test_a_row_is_read_however_its_line_is_written(line: bytes, loss: float | None) -> None:
    (row,), file = rows_of(line)
    assert row.step == 7 and file.bad == 0
    assert row.loss == loss or (loss is not None and math.isnan(loss))


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": true}',
        b'{"step": 1.5}',
        b'{"step": 9007199254740993}',
        b'{"step": 1}x',
        b"[" * 5000,
        b'{"loss": 1.0}',
        b"[1]",
        b'{"step": 1, "note": "\xff"}',
    ],
)
def test_a_line_that_is_no_row_is_counted_and_left_out(line: bytes) -> None:
    (row,), file = rows_of(line, json.dumps({"step": 2}).encode())
    assert (row.step, file.bad, file.first_bad) == (2, 1, 1)


def test_rows_without_a_time_are_taken_one_per_ten_seconds_from_the_last_one_with_one() -> None:
    rows, _ = rows_of(b'{"step": 1}', b'{"step": 2, "time": 500}', b'{"step": 3}')
    assert [row.at for row in rows] == [0.0, 500.0, 500.0 + EVERY]


def test_a_row_may_tell_its_learning_rate_and_its_batch() -> None:
    (row, plain), _ = rows_of(b'{"step": 3, "lr": 3e-4, "batch_size": 512}', b'{"step": 4}')
    assert (row.lr, row.batch, row.skipped) == (3e-4, 512.0, None)
    assert (plain.lr, plain.batch) == (None, None)
