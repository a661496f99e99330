"""A window reads of a report only what has changed of it."""

from __future__ import annotations

import json

import pytest

from cockpit.attach.wire import Parts, Texts, WireError, frame
from cockpit.model.facet import ErrorKind, unknown
from cockpit.model.report import RunReport
from tests.widgets import reports as made


def crossed(report: RunReport, texts: Texts | None = None) -> object:
    return json.loads(frame((texts or Texts()).parted(report))[4:])


@pytest.mark.parametrize("report", made.fleet(), ids=lambda report: report.name)
def test_a_report_crosses_whole_in_parts(report: RunReport) -> None:
    there = Parts().joined(crossed(report))
    assert frame({"report": there}) == frame({"report": report}), "as bytes: NaN equals nothing"


def test_what_has_not_changed_is_read_once_and_what_has_is_read_anew() -> None:
    parts, report = Parts(), made.fleet()[0]
    first = parts.joined(crossed(report))
    job = report.facets.job.model_copy(update={"source": "another"})
    facets = report.facets.model_copy(update={"job": job})
    after = report.model_copy(update={"facets": facets, "checked_at": report.checked_at + 60})
    then = parts.joined(crossed(after))
    assert (then.checked_at, then.facets.job.source) == (report.checked_at + 60, "another")
    assert then.spec is first.spec and then.facets.log is first.facets.log


def test_a_value_that_was_looked_at_again_stays_the_same_one_here_and_there() -> None:
    parts, texts, report = Parts(), Texts(), made.fleet()[0]
    first = parts.joined(crossed(report, texts))
    tracker = report.facets.tracker.model_copy(update={"observed_at": report.checked_at + 30})
    facets = report.facets.model_copy(update={"tracker": tracker})
    written = texts._known[report.name]["tracker"]
    then = parts.joined(crossed(report.model_copy(update={"facets": facets}), texts))
    assert texts._known[report.name]["tracker"] is written
    assert then.facets.tracker.observed_at == report.checked_at + 30
    assert then.facets.tracker.value is first.facets.tracker.value is not None
    texts.keep(())
    assert not texts._known


def test_runs_share_what_they_say_alike_and_nothing_is_kept_of_reports_that_are_gone() -> None:
    parts, fleet = Parts(), made.fleet()[:2]
    alike = fleet[1].facets.model_copy(update={"host": fleet[0].facets.host})
    here = [
        parts.joined(crossed(each))
        for each in (fleet[0], fleet[1].model_copy(update={"facets": alike}))
    ]
    assert here[0].facets.host is here[1].facets.host
    here.clear()
    assert not parts._known


def looked_again(report: RunReport, later: float) -> RunReport:
    """Return a report of which every facet was asked for again, and is as it was."""
    seen = {
        name: facet.model_copy(update={"observed_at": facet.observed_at + later})
        for name, facet in report.facets.items()
        if facet.observed_at is not None
    }
    facets = report.facets.model_copy(update=seen)
    return report.model_copy(update={"facets": facets, "checked_at": report.checked_at + later})


def crossed_change(report: RunReport, former: RunReport) -> bytes:
    return frame(Texts().changed(report, former))[4:]


@pytest.mark.parametrize("report", made.fleet(), ids=lambda report: report.name)
def test_looks_that_find_all_as_it_was_cross_in_a_few_bytes(report: RunReport) -> None:
    parts, after = Parts(), looked_again(report, 15.0)
    first = parts.joined(crossed(report))
    change = crossed_change(after, report)
    then = parts.rejoined(json.loads(change), first)
    assert frame({"report": then}) == frame({"report": after})
    seen = sum(facet.observed_at is not None for _, facet in report.facets.items())
    assert len(change) < 100 + 40 * seen < len(frame(Texts().parted(after))) / 2
    assert then.facets.log.value is first.facets.log.value


@pytest.mark.parametrize("former", made.fleet()[:4], ids=lambda report: report.name)
@pytest.mark.parametrize("report", made.fleet(), ids=lambda report: report.name)
def test_any_change_of_a_run_crosses_whole(report: RunReport, former: RunReport) -> None:
    there = Parts().joined(crossed(former))
    after = report.model_copy(update={"spec": former.spec})
    then = Parts().rejoined(json.loads(crossed_change(after, former)), there)
    assert frame({"report": then}) == frame({"report": after})


def test_a_facet_that_fails_or_was_never_seen_is_told_as_that() -> None:
    report = made.fleet()[0]
    there = Parts().joined(crossed(report))
    lost = unknown(ErrorKind.TIMEOUT, "no answer", "a box", report.checked_at)
    never = report.facets.tracker.model_copy(update={"observed_at": None})
    facets = report.facets.model_copy(update={"job": lost, "tracker": never})
    after = report.model_copy(update={"facets": facets})
    then = Parts().rejoined(json.loads(crossed_change(after, report)), there).facets
    assert (then.job.value, then.job.error) == (None, lost.error)
    assert then.tracker.observed_at is None and then.tracker.value == report.facets.tracker.value


@pytest.mark.parametrize(
    "content",
    [None, {}, {"facets": {"nonsense": 1.0}}, {"facets": {"job": True}}, {"facets": {}, "x": 1}],
)
def test_a_change_of_an_unexpected_shape_is_refused(content: object) -> None:
    with pytest.raises(WireError):
        Parts().rejoined(content, made.fleet()[0])


def test_a_change_of_what_was_never_told_is_refused() -> None:
    with pytest.raises(WireError):
        Parts().rejoined({"facets": {}}, None)


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"facets": {"job": "{"}},
        {"facets": {"job": ["{", None]}},
        {"facets": {"job": ["{}", "[]"]}},
        {"facets": 1},
    ],
)
def test_what_is_no_report_is_refused(content: object) -> None:
    with pytest.raises(WireError):
        Parts().joined(content)
