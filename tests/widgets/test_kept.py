"""What is kept of a painted run is what painting it anew would give."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from cockpit.model.report import RunReport
from tests.widgets import anything
from tests.widgets import reports as made
from widgets.base.kept import UNPAINTED, kept
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


def looked_again(report: RunReport, after: float) -> RunReport:
    """Return a report as another look makes it that finds all as it was."""
    facets = {
        name: facet.model_copy(update={"observed_at": facet.observed_at + after})
        for name, facet in report.facets.items()
        if facet.observed_at is not None
    }
    return report.model_copy(
        update={
            "checked_at": report.checked_at + after,
            "facets": report.facets.model_copy(update=facets),
            "day": report.day.model_copy(update={"at": report.checked_at + after}),
            "looks": report.looks.model_copy(update={"last": report.checked_at + after}),
        }
    )


@pytest.mark.parametrize("painted", [panel, listed, narrow])
@given(anything.any_report(), st.sampled_from([1.0, 15.0, 600.0, 7200.0]), st.floats(0.0, 1e5))
def test_another_look_that_finds_all_as_it_was_paints_the_same_or_is_painted(
    painted: Callable[[RunReport, float], list[Content]],
    report: RunReport,
    after: float,
    late: float,
) -> None:
    now = report.checked_at + after + late
    found = kept(report, now, (), partial(painted, report, now))
    again = looked_again(report, after)
    if found.holds(again, now, ()):
        assert [line.markup for line in painted(again, now)] == [
            line.markup for line in found.lines
        ]


@pytest.mark.parametrize("painted", [panel, listed, narrow])
@given(anything.any_report(), anything.any_report(), st.floats(0.0, 1e5))
def test_what_is_said_to_be_unpainted_is(
    painted: Callable[[RunReport, float], list[Content]],
    report: RunReport,
    other: RunReport,
    late: float,
) -> None:
    unseen = {name: facet for name, facet in other.facets.items() if name in UNPAINTED}
    facets = report.facets.model_copy(update=unseen)
    again, now = report.model_copy(update={"facets": facets}), report.checked_at + late
    found = kept(report, now, (), partial(painted, report, now))
    assert found.of_look or found.holds(again, now, ())
    assert [line.markup for line in painted(again, now)] == [line.markup for line in found.lines]


def test_who_tells_the_step_goes_by_when_was_looked() -> None:
    """The log is ahead of the tracker for a moment all the time; for longer it is told."""
    report = made.report(
        "ahead", seen=made.facets(tracker=made.tracker(last_step_at=made.NOW - 10))
    )
    told = report.progress.model_copy(update={"step_source": "log"})
    report, now = report.model_copy(update={"progress": told}), report.checked_at + 15.0
    found = kept(report, now, (), partial(panel, report, now))
    again = looked_again(report, 15.0)
    assert not found.holds(again, now, ())
    assert any("by log" in line.plain for line in panel(again, now))
    assert not any("by log" in line.plain for line in found.lines)


def test_most_looks_are_not_painted() -> None:
    """A run that stands still is looked at again and again."""
    seen = made.facets()
    report = made.report("still", seen=seen)
    now = report.checked_at + 20.0
    for painted in (panel, listed, narrow):
        found = kept(report, now, (), partial(painted, report, now))
        assert found.holds(looked_again(report, 15.0), now, ())


def test_what_is_kept_holds_for_no_other_report_size_or_time() -> None:
    report = made.fleet()[0]
    found = kept(report, 100.0, (80, 24), list)
    assert not found.holds(report.model_copy(update={"next_action": "other"}), 100.0, (80, 24))
    assert not found.holds(looked_again(report, -15.0), 100.0, (80, 24)), "an older one"
    assert not found.holds(report, 100.0, (80, 25))
    assert not found.holds(report, 99.0, (80, 24)), "the clock was set back"
