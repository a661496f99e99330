"""Alerts over time; and what the journal and the stores of launches become of a history."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Acknowledgement, Alert, Evidence, Severity
from cockpit.model.goodput import JobStart, Looks
from cockpit.model.history import (
    CheckpointMark,
    FormerFailure,
    FullDisk,
    History,
    HostMark,
    Launched,
    PhaseMark,
    Sharer,
    UnsettledLaunch,
)
from cockpit.model.jobs import Snapshot
from cockpit.model.observed import Phase
from cockpit.store.alerts import Kept
from cockpit.store.launches import Stopped
from cockpit.watch.reports import Reconciled, case_of, judged, reconcile, report_of, unruled
from cockpit.watch.runstate import CORE, Diagnosis, Rows, RunState, SettingsSeen
from cockpit.watch.store_writer import Shared
from tests.rules.making import T0, folded, job, log, losses, outage, run_spec, seen, tracker

ADA = Acknowledgement(by="ada", at=5.0)


def alert(key: str, severity: Severity = Severity.ALERT, since: float = 1.0) -> Alert:
    return Alert(
        id=key[:4], key=key, severity=severity, title="t", since=since,
        evidence=(Evidence(text="e", source="s"),), confidence="sure", next_action="n",
    )  # fmt: skip


def merged(known: list[Kept], lately: list[Kept], judged: list[Alert], now: float) -> Reconciled:
    by_key = {kept.alert.key: kept for kept in known}
    return reconcile(by_key, lately, judged, now, grace=60.0, may_close=True)


def test_an_open_alert_keeps_its_time_and_acknowledgement_and_takes_new_evidence() -> None:
    old = Kept(
        number=3, alert=alert("C-05:r").model_copy(update={"acknowledged": ADA}), opened_at=1
    )
    now = alert("C-05:r", since=9.0).model_copy(update={"title": "worse figures"})
    found = merged([old], [], [now], 10.0)
    assert found.open[0].alert.since == 1.0
    assert found.open[0].alert.acknowledged == ADA
    assert found.open[0].alert.title == "worse figures"
    assert found.changed == found.open


@pytest.mark.parametrize(
    ("former", "now", "told"),
    [
        ((20.0, False), (9.0, True), (20.0, False)),
        ((9.0, True), (12.0, False), (12.0, False)),
        ((9.0, True), (5.0, False), (5.0, False)),
        ((9.0, True), (70.0, False), (9.0, True)),
        ((9.0, True), (5.0, True), (5.0, True)),
    ],
)
def test_when_it_began_is_told_by_the_whole_history_not_by_a_part_of_it(
    former: tuple[float, bool], now: tuple[float, bool], told: tuple[float, bool]
) -> None:
    """The log stands in until the tracker's rows are read: that is a part, with coarser times."""
    first, then = (
        alert("C-05:r", since=since).model_copy(update={"since_or_before": bound})
        for since, bound in (former, now)
    )
    found = merged([Kept(number=3, alert=first, opened_at=10)], [], [then], 61.0).open[0].alert
    assert (found.since, found.since_or_before) == told


def test_nothing_closes_before_everything_was_looked_at() -> None:
    old = Kept(number=3, alert=alert("C-05:r"), opened_at=1)
    found = reconcile({"C-05:r": old}, [], [], 10.0, grace=60.0, may_close=False)
    assert found.open == (old,)
    assert found.changed == ()


@pytest.mark.parametrize(
    ("looked_at", "stays"),
    [
        (5.0, True),  # a stopped watch goes on with what it had seen of the job before it died
        (8.0, False),
        (None, False),  # nobody knows the job: whether it closes is decided elsewhere
        (12.0, False),
    ],
)
def test_a_look_from_before_an_alert_was_opened_does_not_close_it(
    looked_at: float | None, stays: bool
) -> None:
    other = Kept(number=3, alert=alert("C-01:r"), opened_at=7)
    known, options = {"C-01:r": other}, {"grace": 60.0, "may_close": True}
    found = reconcile(known, [], [], 10.0, looked_at=looked_at, **options)  # type: ignore[arg-type]
    assert (found.open == (other,)) is stays and bool(found.closed) is not stays
    set_back = reconcile(known, [], [], 6.0, looked_at=5.0, **options)  # type: ignore[arg-type]
    assert set_back.closed, "the clock was set back: nothing is known of before"


def test_a_critical_that_is_held_open_is_read_before_what_the_rules_say_now() -> None:
    held = Kept(number=3, alert=alert("C-09:r", Severity.CRITICAL), opened_at=1)
    now = [alert("C-07:r")]
    kept = reconcile({"C-09:r": held}, [], now, 10.0, grace=60.0, may_close=False).open
    run = state()
    run.open = {each.alert.key: each for each in kept}
    case = case_of(run, T0 + 60)
    told = report_of(judged(case), tuple(each.alert for each in kept), run), unruled(case, run)
    assert [[each.id for each in report.alerts] for report in told] == [["C-09", "C-07"]] * 2


def test_one_that_returns_within_the_grace_is_the_same_alert() -> None:
    gone = Kept(
        number=3, alert=alert("C-05:r").model_copy(update={"acknowledged": ADA}), opened_at=1,
        closed_at=20.0,
    )  # fmt: skip
    again = merged([], [gone], [alert("C-05:r", since=50.0)], 70.0).open[0]
    assert (again.number, again.closed_at, again.alert.since) == (3, None, 1.0)
    assert again.alert.acknowledged == ADA
    later = merged([], [gone], [alert("C-05:r", since=90.0)], 81.0).open[0]
    assert (later.number, later.alert.since, later.alert.acknowledged) == (0, 90.0, None)


def test_an_acknowledgement_ends_with_its_time_and_when_it_gets_worse() -> None:
    until = Acknowledgement(by="ada", at=5.0, until=30.0)
    old = Kept(alert=alert("C-05:r").model_copy(update={"acknowledged": until}), opened_at=1)
    assert merged([old], [], [alert("C-05:r")], 29.0).open[0].alert.acknowledged == until
    assert merged([old], [], [alert("C-05:r")], 30.0).open[0].alert.acknowledged is None
    worse = alert("C-05:r", Severity.CRITICAL)
    assert merged([old], [], [worse], 10.0).open[0].alert.acknowledged is None


KEYS = st.lists(st.sampled_from(["C-01:r", "C-05:r", "C-07:r", "C-09:r"]), unique=True)


@given(st.lists(KEYS, max_size=8))
def test_open_is_always_what_the_rules_say_and_each_key_is_open_once(
    rounds: list[list[str]],
) -> None:
    known: dict[str, Kept] = {}
    closed: list[Kept] = []
    opened = ended = 0
    for now, keys in enumerate(rounds, start=1):
        at = now * 1000.0
        found = reconcile(
            known, closed, [alert(key) for key in keys], at, grace=60.0, may_close=True
        )
        opened += sum(kept.opened_at == at for kept in found.open)
        ended += len(found.closed)
        known = {kept.alert.key: kept for kept in found.open}
        closed = [*found.closed, *closed]
        assert [each.alert.key for each in found.open] == keys
    assert opened - ended == len(known)


def state(**shared: Any) -> RunState:
    over = job(Phase.FAILED, exit_code=143, started_at=T0, ended_at=T0 + 50)
    facets = seen(T0 + 60, job=over, log=log("step 1 loss 1"))
    assert facets.log.value is not None and facets.log.value.triage is not None
    found = Diagnosis((over,), facets.log.value.triage)
    return RunState(run_spec(), "/x#toy", facets=facets, shared=Shared(**shared), diagnosis=found)


def titles(found: RunState) -> list[str]:
    return [alert.title for alert in judged(case_of(found, T0 + 60)).alerts if alert.id == "C-01"]


def test_a_stop_of_our_own_is_told_with_its_name() -> None:
    ours = Stopped(job_ids=("host:1",), by="bob", at=T0 + 40)
    assert titles(state(stops=(ours,))) == ["Stopped by bob"]


def test_a_stop_of_another_job_or_of_a_former_one_is_not() -> None:
    other = Stopped(job_ids=("host:2",), by="bob", at=T0 + 40)
    former = Stopped(job_ids=("host:1",), by="bob", at=T0 - 400)
    assert titles(state(stops=(other, former))) == ["Stopped by someone unknown"]


def test_a_run_that_stands_still_has_no_eta() -> None:
    rows = losses([2.0] * 100)
    facets = seen(T0 + 9000, job=job(), tracker=tracker(step=99, last_step_at=T0 + 99))
    hung = RunState(
        run_spec(), "key", facets=facets, rows=Rows(trend=folded(rows), complete=True, any=True),
        looked=CORE,
    )  # fmt: skip
    found = judged(case_of(hung, T0 + 9000))
    assert "C-06" in [alert.id for alert in found.alerts]
    assert (found.progress.step, found.progress.eta_s) == (99, None)
    steps = judged(case_of(hung, T0 + 100))
    assert steps.progress.eta_s is not None


def test_neither_what_has_not_been_seen_for_long_nor_a_loss_that_is_nan_has_an_eta() -> None:
    facets = seen(T0 + 100, job=job(), tracker=tracker(step=99, last_step_at=T0 + 99))
    rows = Rows(trend=folded(losses([2.0] * 100)), complete=True, any=True)
    found = judged(case_of(RunState(run_spec(), "key", facets=facets, rows=rows), T0 + 9000))
    assert [alert.id for alert in found.alerts] == [], "nothing was looked at since: no stall"
    assert (found.progress.step, found.progress.eta_s) == (99, None)
    lost = Rows(trend=folded(losses([2.0] * 97 + [math.nan] * 3)), complete=True, any=True)
    found = judged(case_of(RunState(run_spec(), "key", facets=facets, rows=lost), T0 + 100))
    assert [alert.id for alert in found.alerts] == ["C-09"]
    assert found.progress.eta_s is None


def test_failures_and_the_last_launch_reach_the_rules() -> None:
    failure = FormerFailure(at=T0, job_id="i1", name="killed")
    launched = Launched(at=T0, job_id="host:1", launch_id="toy-i002")
    past = case_of(state(failures=(failure,), launched=launched), T0 + 60).history
    assert (past.former_failures, past.launched) == ((failure,), launched)


def test_a_rule_is_given_all_that_is_remembered() -> None:
    launched = Launched(at=T0, job_id="host:1", launch_id="toy-i002")
    used = Snapshot(launch_id="toy-i002", at=T0, action="relaunch", command=("train",))
    shared = Shared(
        used=used,
        failures=(FormerFailure(at=T0, job_id="host:0", name="killed"),),
        launched=launched,
        stops=(Stopped(at=T0 + 9, job_ids=("host:1",), by="ada"),),
        sealed="ada",
        starts=(JobStart(T0, "host:1"),),
        unsettled=(
            UnsettledLaunch(launch_id="toy-i003", action="relaunch", by="ada", since=T0 + 5),
        ),
    )
    settings = SettingsSeen()
    for name, rate in (("host:0", 0.1), ("host:1", 0.2)):
        told = tracker(config={"lr": rate}, last_record_at=T0)
        settings.update(seen(T0, job=job(id=name), tracker=told))
    state = RunState(
        run_spec(job=None),
        "key",
        facets=seen(T0, job=job(), log=log(rows_begin=50)),
        rows=Rows(trend=folded(losses([2.0])), skipped=0.5, any=True),
        log_trend=folded(losses([2.0])),
        phases=[PhaseMark(at=T0, phase=Phase.RUNNING)],
        seen_restarts=(T0,),
        marks=[CheckpointMark(at=T0, complete=1, newest=10)],
        shared=shared,
        sharers=(Sharer(run="other", what="output root /x"),),
        outages=(outage(),),
        full_disks=(FullDisk(machine="m", mount="/", runs=("toy", "b"), key="C-22:b:disk:/"),),
        attended=True,
        looks=Looks(since=T0, last=T0),
        partial_since=T0,
        host=HostMark(gpus=8),
        settings=settings,
        open={"C-05:r": Kept(alert=alert("C-05:r"), opened_at=1)},
    )
    given, empty = case_of(state, T0 + 10).history, History(now=0.0)
    same = [name for name in History.model_fields if getattr(given, name) == getattr(empty, name)]
    assert same == [], "a part of the history that case_of() does not fill"
