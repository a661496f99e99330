"""C-24: a reminder for records that are overdue, and silence where nothing is known.

Which saves are this run's: by their order in time, by its rows, by what is known of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.facet import Facet, known
from cockpit.model.history import History, PhaseMark
from cockpit.model.lineage import newest_good, relaunch_pick
from cockpit.model.observed import (
    CheckpointState,
    CheckpointsValue,
    CodeValue,
    Phase,
    RecordsValue,
    Row,
    Whose,
)
from cockpit.model.report import Verdict
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.rules.judge import judge
from cockpit.rules.lineage.lineages import with_lineages_marked as marked
from cockpit.rules.lineage.success import records_overdue, success_without_artifacts
from cockpit.rules.verdict import next_action, verdict
from tests.rules.making import (
    CADENCE,
    T0,
    blind,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    log,
    losses,
    run_spec,
    tracker,
)

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


Saves = Sequence[tuple[int, float]]


def looked(
    saves: Saves, rows: int = 0, started: float | None = T0, **more: object
) -> CheckpointsValue:
    """Return the listing as judged for a run that has logged steps 0 to ``rows`` since T0."""
    made = folded(losses([2.0] * (rows + 1))) if rows else folded([])
    items = checkpoints(*(checkpoint(step, at) for step, at in saves))
    return judged(history(T0 + DAY, made, job=job(started_at=started), checkpoints=items, **more))


def judged(past: History) -> CheckpointsValue:
    value = marked(past).checkpoints.value
    assert value is not None
    return value


def whose(value: CheckpointsValue) -> dict[int | None, Whose]:
    return {item.step: item.whose for item in value.items if item.whose is not Whose.OWN}


def picked(value: CheckpointsValue) -> int | None:
    newest = newest_good(value.items)
    return None if newest is None else newest.step


OLD = [(500, T0 - 2 * DAY), (600, T0 - 2 * DAY + 100), (700, T0 - 2 * DAY + 200)]
NEW = [(100, T0 + 101), (200, T0 + 201), (300, T0 + 301)]


def test_what_lies_there_from_before_and_above_is_another_lineage() -> None:
    value = looked([*NEW, *OLD], rows=310)
    assert whose(value) == dict.fromkeys((500, 600, 700), Whose.OTHER)
    assert (picked(value), value.latest_complete) == (300, 300)
    assert value.mixed is not None
    assert "this run's: steps 100, 200, 300" in value.mixed
    assert "steps 500, 600, 700" in value.mixed


def test_the_same_by_times_alone_is_not_sure_and_not_picked() -> None:
    before = [(step, at - DAY / 4) for step, at in NEW]  # saved before the present job began
    value = looked([*before, *OLD])
    assert whose(value) == dict.fromkeys((500, 600, 700), Whose.UNSURE)
    assert picked(value) == 300 and value.mixed is not None


def test_a_time_far_in_the_future_makes_nothing_another_lineage_for_sure() -> None:
    saves = [(100, T0 + 30 * DAY), (200, T0 - 200), (300, T0 - 100)]
    value = looked(saves)
    assert whose(value) == dict.fromkeys((200, 300), Whose.UNSURE)
    assert value.mixed is not None


def test_the_rows_tell_where_all_times_are_those_of_a_copy() -> None:
    saves = [(step, T0 - 50 + step / 1e5) for step in (100, 200, 300, 500, 600, 700)]
    value = looked(saves, rows=310)
    assert whose(value) == dict.fromkeys((500, 600, 700), Whose.UNSURE)
    assert picked(value) == 300 and value.mixed is not None


def test_a_copy_of_which_nothing_else_is_known_is_not_judged() -> None:
    saves = [(step, T0 - DAY) for step in (100, 200, 300)]
    value = looked(saves)
    assert whose(value) == {} and picked(value) == 300
    assert value.mixed is not None and "times of a copy" in value.mixed
    odd = [(step, T0 - DAY) for step in (100, 150, 300, 310)]
    assert looked(odd, rows=310, started=None).mixed is not None
    assert looked(saves, rows=310, started=None).mixed is None


def test_an_ordinary_run_is_one_lineage() -> None:
    saves = [(step, T0 + step + 1) for step in range(100, 801, 100)]
    assert looked(saves, rows=810).mixed is None
    assert looked(saves, started=None).mixed is None
    assert looked(saves, started=T0 + 780).mixed is None


def test_a_replay_after_a_relaunch_is_no_other_lineage() -> None:
    """It died at 789, had 700 as its last whole one, and saves 700 and what follows again."""
    saves = [(step, T0 + step) for step in range(100, 700, 100)]
    again = [(700, T0 + 5000), (800, T0 + 5100)]
    value = looked([*saves, *again], started=T0 + 4000)
    assert (whose(value), value.mixed, picked(value)) == ({}, None, 800)


def test_a_stretch_that_this_run_has_trained_again_is_kept_and_blocks_nothing() -> None:
    phases = (PhaseMark(at=T0, phase=Phase.RUNNING, job_id="pid:1"),)
    old = [(step, T0 + step) for step in (100, 200, 300, 600, 700)]
    saves = [*old, (400, T0 + 4400), (500, T0 + 4500)]
    value = looked(saves, started=T0 + 4000, phases=phases)
    assert whose(value) == dict.fromkeys((600, 700), Whose.AGAIN)
    assert (value.mixed, picked(value), value.latest_complete) == (None, 500, 500)


def test_a_job_that_has_saved_nothing_yet_keeps_what_is_above_it() -> None:
    again = [Row(step, T0 + 1000 + step, 2.0) for step in range(301, 351)]
    rows = folded([*losses([2.0] * 711), *again])
    saves = [checkpoint(step, T0 + step) for step in range(100, 701, 100)]
    began = job(started_at=T0 + 1250)
    found = judged(history(T0 + DAY, rows, job=began, checkpoints=checkpoints(*saves)))
    assert found.mixed is not None
    assert "has saved nothing yet" in found.mixed and "400" in found.mixed


def test_a_pick_that_no_row_has_reached_is_said_to_be_maybe_another_run_s() -> None:
    saves = [(step, T0 - 2 * DAY + step) for step in (300, 400, 500)]
    items = checkpoints(*(checkpoint(step, at) for step, at in saves))
    items = items.model_copy(update={"relaunch_from": relaunch_pick(items.items)})
    made = folded(losses([2.0] * 51))
    new = judged(history(T0 + DAY, made, job=job(started_at=T0), checkpoints=items))
    assert new.mixed is not None and new.unreached is not None
    assert "the last step that this run has logged is 50" in new.unreached
    again = [Row(step, T0 + 1000 + step, 2.0) for step in range(1, 51)]
    made = folded([*losses([2.0] * 511), *again])
    began = job(started_at=T0 + 950)
    own = judged(history(T0 + DAY, made, job=began, checkpoints=items))
    assert own.mixed is not None and own.unreached is None


def test_what_is_newer_than_the_pointer_may_be_whole_and_another_run_s() -> None:
    old = [checkpoint(step, at, state=CheckpointState.UNKNOWN) for step, at in OLD]
    items = checkpoints(*(checkpoint(step, at) for step, at in NEW), *old)
    rows = folded(losses([2.0] * 311))
    found = judged(history(T0 + DAY, rows, job=job(started_at=T0), checkpoints=items))
    assert found.mixed is not None and "steps 500, 600, 700" in found.mixed


def test_steps_of_a_log_that_counts_otherwise_prove_nothing() -> None:
    """A bar that begins anew each epoch: the present job itself saves beyond its steps."""
    saves = [(step, T0 + step) for step in (300, 600, 900, 1200)]
    value = looked(saves, rows=300)
    assert (whose(value), value.mixed, picked(value)) == ({}, None, 1200)
    none_within = [(step, T0 - DAY + step) for step in (2000, 3000)]
    assert whose(looked(none_within, rows=300)) == {}


def test_a_log_that_is_held_back_proves_nothing_of_later_saves() -> None:
    """Its writer was killed with its last lines in a buffer: the log ends at 310."""
    saves = [(step, T0 - DAY + step) for step in range(100, 701, 100)]
    held_back = log("step 310 loss 2.0", mtime=T0 - DAY + 320)
    value = looked(saves, rows=310, started=None, log=held_back)
    assert (whose(value), value.mixed, picked(value)) == ({}, None, 700)


def test_torn_and_rejected_ones_prove_nothing_and_are_marked_all_the_same() -> None:
    began = job(started_at=T0)
    torn = checkpoint(100, T0 + 500, state=CheckpointState.INCOMPLETE)
    items = checkpoints(torn, checkpoint(200, T0 + 200), checkpoint(300, T0 + 300))
    value = judged(history(T0 + DAY, folded([]), job=began, checkpoints=items))
    assert whose(value) == {} and value.mixed is None
    rejected = checkpoint(700, T0 - DAY, state=CheckpointState.REJECTED)
    items = checkpoints(checkpoint(100, T0 + 100), rejected)
    value = judged(history(T0 + DAY, folded([]), job=began, checkpoints=items))
    assert [item.whose for item in value.items] == [Whose.OWN, Whose.OTHER]
    assert value.mixed is None


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12, unique=True), st.floats(5, 500))
def test_one_trajectory_is_never_mixed(steps: list[int], pace: float) -> None:
    saves = [(step * 10, T0 + step * pace) for step in sorted(steps)]
    value = looked(saves)
    assert whose(value) == {} and value.mixed is None


@given(st.integers(1, 20), st.integers(1, 20))
def test_of_two_trajectories_the_later_one_is_picked(old: int, new: int) -> None:
    former = [(n * 10, T0 - DAY + n * 60) for n in range(1, old + 1)]
    later = [(n * 10 + 5, T0 + n * 60) for n in range(1, new + 1)]
    value = looked([*former, *later])
    above = {step for step, _ in former if step > 15}
    assert set(whose(value)) == above
    assert picked(value) == new * 10 + 5
    assert (value.mixed is not None) == bool(above)


DONE = job(Phase.SUCCEEDED, exit_code=0, ended_at=T0 + 1000)
FINAL = checkpoints(checkpoint(999, T0 + 999))
W_AND_B = tracker(state="finished", exit_code=0, step=999)


def missing(run: RunSpec | None = None, now: float = T0 + 1001, **facets: Any) -> list[Alert]:
    whole = {"job": DONE, "checkpoints": FINAL, "tracker": W_AND_B, **facets}
    return list(success_without_artifacts(run or run_spec(), history(now, **whole)))


def test_a_finished_run_with_everything_in_place_waits_to_be_sealed() -> None:
    assert missing() == []
    past = history(T0 + 1001, job=DONE, checkpoints=FINAL, tracker=W_AND_B)
    assert judge(run_spec(), past) == ()
    assert verdict(run_spec(), past, ()).value == "finished"
    assert next_action(run_spec(), past, ()) == "seal toy"


def test_step_n_is_final_too() -> None:
    assert missing(checkpoints=checkpoints(checkpoint(1000, T0))) == []


def test_a_missing_final_checkpoint() -> None:
    (alert,) = missing(checkpoints=checkpoints(checkpoint(900, T0)))
    assert alert.id == "C-19"
    assert "no complete checkpoint of the final step 1,000" in alert.title


def test_a_tracker_that_did_not_finish() -> None:
    (alert,) = missing(tracker=tracker(state="running", step=999))
    assert 'the tracker says "running"' in alert.title


@pytest.mark.parametrize("kind", ["trackio", "TensorBoard"])
@pytest.mark.parametrize("state", ["running", "silent"])
def test_a_tracker_that_records_no_end_misses_none(kind: str, state: str) -> None:
    assert missing(tracker=tracker(state=state, step=999, tracker=kind)) == []


def test_an_end_that_is_still_to_come_hides_nothing_that_is_missing() -> None:
    """The file that tells it has the time of a server whose clock is ahead."""
    ahead, now = job(Phase.SUCCEEDED, exit_code=0, ended_at=T0 + 5000), T0 + 1001
    value = tracker(state="finished", exit_code=0, step=600)
    first_seen = PhaseMark(at=now - 60, phase=Phase.SUCCEEDED, job_id="host:1")
    for age, phases in ((0.5, ()), (30.0, (first_seen,))):
        seen = known(value, "W&B", now - age)
        past = history(now, job=ahead, tracker=seen, checkpoints=blind(), phases=phases)
        (alert,) = success_without_artifacts(run_spec(), past)
        assert "ended at step 600 of 1,000" in alert.title and alert.since <= now
    before = history(now, job=ahead, tracker=known(value, "W&B", now - 30), checkpoints=blind())
    assert not list(success_without_artifacts(run_spec(), before)), "it may have gone on since"


def test_short_of_the_final_step() -> None:
    value = tracker(state="finished", exit_code=0, step=600)
    (alert,) = missing(tracker=value, checkpoints=blind())
    assert "ended at step 600 of 1,000" in alert.title


def test_the_last_steps_need_not_be_logged() -> None:
    trend = folded([Row(i * 50, T0 + i, 2.0) for i in range(20)])
    value = tracker(state="finished", exit_code=0, step=950)
    assert missing(tracker=value, checkpoints=blind(), trend=trend) == []


def test_the_end_came_too_early() -> None:
    trend = folded([Row(i, T0 + i, 2.0) for i in range(1000)])
    (alert,) = missing(run_spec(expected_duration=5000.0), trend=trend)
    assert "it ran for 16.7m of the expected 83.3m" in alert.title
    assert missing(run_spec(expected_duration=5000.0), trend=trend, rows_from=0.5) == []


def test_the_logbook_entry_has_one_cadence() -> None:
    run = run_spec(tier="hero", records=RecordsSpec(logbook="l.md"))
    old = RecordsValue(logbook="l.md", last_entry_at=T0 + 10)
    new = RecordsValue(logbook="l.md", last_entry_at=T0 + 1002)
    ended = T0 + 1000
    assert missing(run, now=ended + CADENCE, records=old) == []
    assert len(missing(run, now=ended + CADENCE + 1, records=old)) == 1
    assert missing(run, now=ended + CADENCE + 1, records=new) == []


def test_what_cannot_be_seen_is_not_missing() -> None:
    assert missing(checkpoints=blind(), tracker=blind()) == []
    partly = checkpoints(checkpoint(900, T0)).model_copy(update={"unlisted": ("gs://bucket/x",)})
    assert missing(checkpoints=partly) == []


def test_a_failed_run_is_not_judged_by_its_artifacts() -> None:
    assert missing(job=job(Phase.FAILED), checkpoints=checkpoints()) == []


def test_a_hero_run_that_nobody_seals_is_reminded_of_after_a_day() -> None:
    hero, day = run_spec(tier="hero"), T0 + 1000 + 86400.0
    (alert,) = missing(hero, day + 1)
    assert (alert.key, alert.severity.value) == ("C-19:toy:seal", "info")
    assert (alert.since, alert.next_action) == (day, "seal toy")
    assert missing(hero, day) == [] and missing(run_spec(), day + 1) == []
    assert missing(hero, day + 1, code=CodeValue(sha="1", sealed="seal/toy/999")) == []
    past = history(day + 1, job=DONE, checkpoints=FINAL, tracker=W_AND_B)
    assert verdict(hero, past, [alert]).value == "finished"


def test_where_the_repository_is_not_seen_a_seal_may_be_there() -> None:
    """Its tag may be another machine's: what git does not answer is no missing seal."""
    hero, later = run_spec(tier="hero"), T0 + 1001 + 86400.0
    assert missing(hero, later, code=blind()) == []
    (alert,) = missing(hero, later, code=CodeValue(sha="1"))
    assert alert.title == "Finished, not sealed yet"
    assert missing(hero, later, code=blind(), open=(alert,)) == [alert]
