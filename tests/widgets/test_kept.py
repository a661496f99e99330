"""What is kept of a painted run is what painting it anew would give."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from textual.content import Content

from cockpit.model.report import RunReport
from tests.widgets import reports as made
from widgets.base.kept import kept
from widgets.painting.panel import paint_panel
from widgets.run_list import columns, paint_row

HOPS = 4
AFTER = (0.0, 1800.0, 86_400.0)
"""Seconds after a report at which it is still shown."""


def panel(report: RunReport, now: float) -> list[Content]:
    return paint_panel(report, now, 120, 24)


def listed(report: RunReport, now: float) -> list[Content]:
    return paint_row(report, now, 160, columns([report], now, 160), high=9)


def narrow(report: RunReport, now: float) -> list[Content]:
    return paint_row(report, now, 80, columns([report], now, 80))


def moments(begin: float, end: float) -> Iterator[float]:
    """Some moments between two, the last possible one among them."""
    end = min(end, begin + 1e6)
    yield from (begin + (end - begin) * share for share in (0.1, 0.5, 0.9))
    yield max(begin, math.nextafter(end, begin) - 1e-3)


@pytest.mark.parametrize("painted", [panel, listed, narrow])
@pytest.mark.parametrize("report", made.fleet(), ids=lambda report: report.name)
def test_what_is_kept_is_what_painting_anew_would_give(
    report: RunReport, painted: Callable[[RunReport, float], list[Content]]
) -> None:
    for after in AFTER:
        now = report.checked_at + after
        for _ in range(HOPS):
            found = kept(report, now, (), partial(painted, report, now))
            for moment in moments(found.begin, found.end):
                assert found.holds(report, moment, ())
                assert [line.markup for line in painted(report, moment)] == [
                    line.markup for line in found.lines
                ]
            if math.isinf(found.end):
                break
            now = found.end


def test_what_is_kept_holds_for_no_other_report_size_or_time() -> None:
    report = made.fleet()[0]
    found = kept(report, 100.0, (80, 24), list)
    assert not found.holds(report.model_copy(), 100.0, (80, 24))
    assert not found.holds(report, 100.0, (80, 25))
    assert not found.holds(report, 99.0, (80, 24)), "the clock was set back"
