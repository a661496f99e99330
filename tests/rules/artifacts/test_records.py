"""C-24: a reminder for records that are overdue, and silence where nothing is known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.facet import Facet
from cockpit.model.history import History, PhaseMark
from cockpit.model.observed import Phase, RecordsValue
from cockpit.model.report import Verdict
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.rules.judge import judge
from cockpit.rules.lineage.success import records_overdue
from cockpit.rules.verdict import verdict
from tests.rules.making import CADENCE, T0, blind, history, job, run_spec

NOW = T0 + 100_000
DAY = 86400.0
URL = "https://github.com/a/b/issues/1"


def hero(**changes: Any) -> RunSpec:
    records = RecordsSpec(logbook="/x/toy.md", issue=URL)
    return run_spec(**{"tier": "hero", "records": records, "monitor": None, **changes})


def records(last: float | None, **changes: Any) -> RecordsValue:
    plain = {"logbook": "/x/toy.md", "last_entry_at": last, "pushed": True, "issue": URL}
    return RecordsValue(**{**plain, **changes})


def overdue(
    past: History, run: RunSpec | None = None, alerts: tuple[Alert, ...] = ()
) -> list[Alert]:
    return list(records_overdue(run or hero(), past, alerts))


def past(value: RecordsValue | Facet[Any], phase: Phase = Phase.RUNNING, **more: Any) -> History:
    return history(NOW, job=more.pop("job", job(phase)), records=value, **more)


def spike(since: float, severity: Severity = Severity.ALERT, rule: str = "C-11") -> Alert:
    return Alert(
        id=rule, key=f"{rule}:toy", severity=severity, title="loss spike", since=since,
        evidence=(Evidence(text="x", source="y"),), confidence="sure", next_action="look",
    )  # fmt: skip


def marks(*pairs: tuple[float, Phase]) -> tuple[PhaseMark, ...]:
    return tuple(PhaseMark(at=at, phase=phase, job_id="1") for at, phase in pairs)


def test_a_kept_logbook_needs_no_reminder() -> None:
    value = records(NOW - CADENCE, issue_updated_at=NOW - 100, issue_seen_at=NOW)
    assert overdue(past(value)) == []


def test_two_silent_cadences_of_a_living_job_are_overdue() -> None:
    limit = 2 * CADENCE + 60
    assert overdue(past(records(NOW - limit))) == []
    (alert,) = overdue(past(records(NOW - limit - 1)))
    assert (alert.id, alert.key, alert.severity) == ("C-24", "C-24:toy:logbook", Severity.INFO)
    assert alert.since == NOW - 1
    assert overdue(past(records(NOW - DAY), Phase.FAILED)) == []
    assert overdue(past(records(NOW - DAY), Phase.UNKNOWN)) == []


@pytest.mark.parametrize(
    ("every", "silent", "fires"),
    [
        ("1 cadence", 200, True),
        ("4 cadences", 200, False),
        ("4 cadences", 600, True),
        ("30m", 3000, False),
        ("30m", 3700, True),
        ("whenever", 200, True),
    ],
)
def test_the_run_file_says_how_often(every: str, silent: float, fires: bool) -> None:
    run = hero(records=RecordsSpec(logbook="/x/toy.md", log_every=every))
    assert bool(overdue(past(records(NOW - silent)), run)) is fires


def test_a_logbook_without_any_entry_counts_from_the_jobs_start() -> None:
    assert overdue(past(records(None), job=job(started_at=NOW - CADENCE))) == []
    assert len(overdue(past(records(None), job=job(started_at=NOW - 3 * CADENCE)))) == 1


def test_an_event_wants_its_entry_within_a_cadence() -> None:
    ended = NOW - CADENCE - 1
    seen = marks((T0, Phase.RUNNING), (ended, Phase.FAILED))
    (alert,) = overdue(past(records(ended - 100), Phase.FAILED, phases=seen))
    assert alert.since == ended + CADENCE and "failed" in alert.evidence[0].text
    recent = marks((T0, Phase.RUNNING), (NOW - CADENCE, Phase.FAILED))
    assert overdue(past(records(ended - 100), Phase.FAILED, phases=recent)) == []


def test_an_entry_of_the_events_own_minute_tells_of_it() -> None:
    ended = NOW - 5000
    seen = marks((T0, Phase.RUNNING), (ended, Phase.FAILED))
    assert overdue(past(records(ended - 59), Phase.FAILED, phases=seen)) == []
    assert overdue(past(records(ended + 900), Phase.FAILED, phases=seen)) == []


def test_an_alert_is_an_event_and_the_first_one_counts() -> None:
    value = records(NOW - 1000)
    alerts = (spike(NOW - 400), spike(NOW - 300, Severity.CRITICAL, "C-09"))
    (alert,) = overdue(past(value), alerts=alerts)
    assert "C-11" in alert.evidence[0].text and alert.since == NOW - 400 + CADENCE
    assert len(overdue(past(value), alerts=alerts)) == 1, "silence and event are one cause"


@pytest.mark.parametrize(
    "alert",
    [
        spike(NOW - 400, Severity.WARNING),
        spike(NOW - 400, Severity.ALERT, "C-19"),
        spike(NOW - 400, Severity.CRITICAL, "C-03"),
        spike(NOW - CADENCE + 1),
    ],
)
def test_what_is_small_told_elsewhere_or_new_is_no_overdue_event(alert: Alert) -> None:
    assert overdue(past(records(NOW - 500), Phase.FAILED), alerts=(alert,)) == []


def test_what_was_seen_first_and_what_was_not_seen_are_no_events() -> None:
    seen = marks((NOW - 9000, Phase.FAILED), (NOW - 8000, Phase.UNKNOWN), (NOW - 5, Phase.FAILED))
    assert overdue(past(records(NOW - DAY), Phase.FAILED, phases=seen)) == []


def test_a_finished_and_recorded_run_is_left_alone() -> None:
    seen = marks((T0, Phase.RUNNING), (NOW - 9 * DAY, Phase.SUCCEEDED))
    value = records(NOW - 9 * DAY, issue_updated_at=NOW - 9 * DAY, issue_seen_at=NOW)
    assert overdue(past(value, Phase.SUCCEEDED, phases=seen)) == []
    missing = records(NOW - 10 * DAY)
    assert overdue(past(missing, Phase.SUCCEEDED, phases=seen)) == [], "C-19 asks for it"


def test_an_unpushed_logbook_is_said_after_a_cadence() -> None:
    assert overdue(past(records(NOW - CADENCE, pushed=False), Phase.FAILED)) == []
    (alert,) = overdue(past(records(NOW - 500, pushed=False), Phase.FAILED))
    assert alert.key == "C-24:toy:push" and "push" in alert.next_action
    assert overdue(past(records(NOW - 500, pushed=None), Phase.FAILED)) == []
    seen = marks((NOW - 900, Phase.FAILED))
    (alert,) = overdue(past(records(None, pushed=False), Phase.FAILED, phases=seen))
    assert alert.since == NOW - 900 + CADENCE + 60
    assert overdue(past(records(None, pushed=False), Phase.FAILED)) == []


def test_a_silent_issue_is_said_after_a_day() -> None:
    def value(age: float, seen: float = NOW) -> RecordsValue:
        return records(NOW, issue_updated_at=seen - age, issue_seen_at=seen)

    assert overdue(past(value(DAY))) == []
    (alert,) = overdue(past(value(DAY + 1)))
    assert alert.key == "C-24:toy:issue" and alert.since == NOW - 1
    assert overdue(past(value(DAY - 1, seen=NOW - 9 * DAY))) == [], "seen long ago: unknown now"
    assert overdue(past(records(NOW))) == [], "an unknown issue"
    assert overdue(past(value(DAY + 1), Phase.FAILED)) == []


def test_ordinary_runs_and_unknown_records_have_no_reminder() -> None:
    value = records(NOW - 9 * DAY, pushed=False, issue_updated_at=T0, issue_seen_at=NOW)
    assert len(overdue(past(value))) == 3
    assert overdue(past(value), hero(tier="ordinary")) == []
    assert overdue(past(value), hero(records=RecordsSpec())) == []
    assert overdue(past(blind())) == []
    stale: Facet[Any] = Facet(
        value=records(NOW - 100, pushed=True), source="s", observed_at=NOW - 90,
        error=blind().error,
    )  # fmt: skip
    assert overdue(past(stale)) == [], "not known to be silent since"


def test_it_is_judged_with_the_others_and_never_changes_the_verdict() -> None:
    run, found = hero(), past(records(NOW - 9 * DAY))
    alerts = judge(run, found)
    assert [alert.id for alert in alerts] == ["C-24"]
    assert verdict(run, found, alerts) is Verdict.HEALTHY
    later = found.model_copy(update={"now": NOW + 1})
    assert judge(run, later) == alerts, "nothing ticks"


def test_a_failure_found_by_another_rule_wants_an_entry() -> None:
    ended = NOW - 5000
    found = past(records(ended - 500), job=job(Phase.FAILED, ended_at=ended, exit_code=1))
    assert [alert.id for alert in judge(hero(), found)] == ["C-01", "C-24"]


instants = st.one_of(st.none(), st.floats(T0 - 1e6, T0 + 1e6))
values = st.builds(
    records,
    instants,
    pushed=st.sampled_from([True, False, None]),
    issue_updated_at=instants,
    issue_seen_at=instants,
)
seen_marks = st.lists(
    st.builds(
        PhaseMark, at=st.floats(T0 - 1e6, T0 + 1e6), phase=st.sampled_from(list(Phase)),
    ),
    max_size=4,
)  # fmt: skip


@given(values, st.sampled_from(list(Phase)), seen_marks, st.floats(T0 - 1e6, T0 + 1e6))
def test_each_cause_opens_one_reminder_that_has_begun(
    value: RecordsValue, phase: Phase, some: list[PhaseMark], now: float
) -> None:
    found = overdue(
        history(now, job=job(phase), records=value, phases=tuple(some)), alerts=(spike(T0),)
    )
    assert len({alert.key for alert in found}) == len(found)
    assert all(alert.since <= now and alert.severity is Severity.INFO for alert in found)
