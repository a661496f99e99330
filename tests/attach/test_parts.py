"""A window reads of a report only what has changed of it."""

from __future__ import annotations

import json

import pytest

from cockpit.attach.parts import Parts, Texts
from cockpit.attach.wire import WireError, frame
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
