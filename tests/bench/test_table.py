"""The table says met only of what was measured and keeps its bar."""

from __future__ import annotations

import importlib.util

import pytest

from bench.table import ROWS, SUBJECTS, Row, flat, line, printed

ROW = Row("a key", "keys", "p50_ms", 1.5, "ms", "bare_p50_ms")
PLAIN = Row("bytes", "idle", "bytes_s", 100, "B/s")


def test_every_row_has_a_subject_that_is_a_benchmark() -> None:
    assert {row.subject for row in ROWS} == set(SUBJECTS)
    for subject in SUBJECTS:
        assert importlib.util.find_spec(f"bench.{subject}") is not None


@pytest.mark.parametrize(
    ("row", "found", "verdict"),
    [
        (ROW, {"p50_ms": 15.0, "bare_p50_ms": 10.0}, "met"),
        (ROW, {"p50_ms": 15.1, "bare_p50_ms": 10.0}, "missed"),
        (ROW, {"p50_ms": 15.0}, "not measured"),
        (ROW, {"p50_ms": 15.0, "bare_p50_ms": 0.0}, "not measured"),
        (PLAIN, {"bytes_s": 100.0}, "met"),
        (PLAIN, {"bytes_s": 100.1}, "missed"),
        (PLAIN, "no answer within 1200 s", "not measured"),
    ],
)
def test_a_row_is_met_missed_or_not_measured(
    row: Row, found: dict[str, float] | str, verdict: str
) -> None:
    told = line(row, found)
    assert told["verdict"] == verdict
    assert verdict in printed(told)


def test_nested_figures_are_named_by_their_path() -> None:
    assert flat({"1000": {"rss_mb": 3}, "ok": 1.5, "said": "x"}) == {"1000.rss_mb": 3.0, "ok": 1.5}
