from __future__ import annotations

import pytest

from cockpit.model.observed import Row
from cockpit.sources.log import FRESH, per_second, read_rows


@pytest.mark.parametrize(
    ("rate", "unit", "expected"),
    [
        (5.0, "it/s", 5.0),
        (2.0, "s/it", 0.5),
        (250.0, "ms/it", 4.0),
        (1200.0, "tok/s", 1200.0),
        (800.0, "tok/s/device", 800.0),
        (0.0, "s/it", None),
        (None, "it/s", None),
        (3.0, None, 3.0),
    ],
)
def test_more_is_better(rate: float | None, unit: str | None, expected: float | None) -> None:
    assert per_second(rate, unit) == expected


def states(*steps: int) -> list[bytes]:
    return [f"step {step} loss 2.5".encode() for step in steps]


def test_lines_without_time_that_were_just_written() -> None:
    rows = read_rows(states(1, 2), mtime=1000.0, since=1000.0 - FRESH, utc=False)
    assert rows == [Row(1, 1000.0, 2.5), Row(2, 1000.0, 2.5)]


@pytest.mark.parametrize("since", [None, 1000.0 - FRESH - 1])
def test_lines_without_time_that_may_be_old(since: float | None) -> None:
    rows = read_rows(states(1, 2), mtime=1000.0, since=since, utc=False)
    assert rows == [Row(1, None, 2.5), Row(2, 1000.0, 2.5)]


def test_other_lines_are_no_rows() -> None:
    lines = [b"loading data", b"", b"\x00\xff\x1b[31m", b"epoch done"]
    assert read_rows(lines, mtime=1000.0, since=None, utc=False) == []
