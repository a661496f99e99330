"""What cannot be seen opens no alert about what a run is, and closes none that is open."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Acknowledgement, Alert, Severity
from cockpit.model.facet import ErrorKind, Facet, Problem, known
from cockpit.model.history import History, PhaseMark
from cockpit.model.observed import CheckpointState, CodeValue, OtherMonitor, Phase, Row
from cockpit.model.report import Verdict
from cockpit.model.run import RunSpec
from cockpit.rules import verdict as verdicts
from cockpit.rules.judge import ROWS as UNKNOWN_ROWS
from cockpit.rules.judge import judge, rules_of
from cockpit.rules.metrics.progress import progress
from cockpit.rules.verdict import ROWS, doubt, next_action, reason, row_of, situation, verdict
from tests.house.test_rules import CASES, Case
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
    monitor,
    run_spec,
    seen,
    tracker,
)

NAN = float("nan")


def test_the_worst_comes_first_and_the_monitor_last_of_its_kind() -> None:
    rows = losses([2.0] * 30 + [9.0] * 20 + [NAN])
    past = history(
        T0 + 5000,
        folded(rows),
        job=blind(),
        tracker=tracker(last_step_at=T0 + 50),
        monitor=monitor(T0 - 10_000, fresh=False),
        checkpoints=checkpoints(checkpoint(1, T0), checkpoint(9, T0 + 5, CheckpointState.WRITING)),
    )
    found = judge(run_spec(), past)
    assert [alert.id for alert in found] == ["C-09", "C-07", "C-11", "C-02", "C-03"]


def test_an_alert_does_not_change_while_nothing_but_time_passes() -> None:
    def at(now: float) -> History:
        return history(
            now,
            folded(losses([2.0] * 100)),
            job=job(),
            tracker=tracker(last_step_at=T0 + 99),
            log=log("x", mtime=T0 + 99),
            monitor=monitor(T0),
        )

    assert judge(run_spec(), at(T0 + 5000)) == judge(run_spec(), at(T0 + 5001))
    assert {alert.id for alert in judge(run_spec(), at(T0 + 5000))} == {"C-03", "C-06"}


def test_a_run_of_which_nothing_is_known_has_no_unhealthy_alert() -> None:
    nothing: dict[str, Any] = {
        name: blind(T0) for name in ("job", "log", "tracker", "checkpoints", "monitor", "host")
    }
    found = judge(run_spec(), history(T0 + 1e6, **nothing))
    assert [alert.id for alert in found] == ["C-02"]
    assert judge(run_spec(job=None), History(now=T0)) == ()


instants = st.one_of(st.none(), st.floats(T0 - 1e5, T0 + 1e5))
steps = st.one_of(st.none(), st.integers(-5, 2000))
numbers = st.one_of(st.none(), st.floats())
rows = st.lists(st.builds(Row, steps, instants, numbers, numbers, numbers), max_size=30)
jobs = st.builds(
    job,
    st.sampled_from(list(Phase)),
    id=st.one_of(st.none(), st.just("host:1")),
    reason=st.one_of(st.none(), st.text(max_size=10)),
    exit_code=st.one_of(st.none(), st.sampled_from([0, 1, -9, 137, 143])),
    started_at=instants,
    ended_at=instants,
    pending_since=instants,
)
logs = st.builds(
    lambda lines, at, some: log(*lines, mtime=at, rows=tuple(some)),
    st.lists(st.text(max_size=40), max_size=5),
    st.floats(T0 - 1e5, T0 + 1e5),
    rows,
)
trackers = st.builds(
    tracker, step=steps, loss=numbers, last_step_at=instants, usual_step_s=st.none()
)
items = st.builds(
    checkpoint, st.integers(0, 1200), instants, st.sampled_from(list(CheckpointState))
)
listings = st.lists(items, max_size=4).map(lambda some: checkpoints(*some))
others = st.builds(OtherMonitor, path=st.just("o"), last_update=instants, fresh=st.booleans())
monitors = st.builds(
    lambda at, fresh, rivals: monitor(T0, fresh).model_copy(
        update={"last_update": at, "others": tuple(rivals)}
    ),
    instants,
    st.booleans(),
    st.lists(others, max_size=2),
)
marks = st.builds(PhaseMark, at=st.floats(T0 - 1e5, T0), phase=st.sampled_from(list(Phase)))


def facets(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Known, unknown, stale, or not configured."""
    stale: st.SearchStrategy[object] = st.builds(
        lambda value, at: Facet(value=value, source="s", observed_at=at, error=blind().error),
        values,
        instants,
    )
    bad = st.builds(blind, st.floats(T0 - 1e5, T0), st.sampled_from(list(ErrorKind)))
    return st.one_of(values, stale, bad)


histories = st.builds(
    lambda now, some, phases, by, gap, **values: History(
        now=now,
        facets=seen(now, **values),
        trend=folded(some),
        phases=tuple(phases),
        stop_ordered_by=by,
        rows_from=gap,
    ),
    st.floats(T0 - 1e5, T0 + 1e5),
    rows,
    st.lists(marks, max_size=4),
    st.sampled_from([None, None, "ada"]),
    st.sampled_from([0.0, 0.5]),
    job=facets(jobs),
    log=facets(logs),
    tracker=facets(trackers),
    checkpoints=facets(listings),
    monitor=facets(monitors),
)


@given(histories)
def test_no_history_makes_a_rule_raise(past: History) -> None:
    run = run_spec()
    found = judge(run, past)
    assert len({alert.key for alert in found}) == len(found)
    assert [alert.severity.rank for alert in found] == sorted(
        (alert.severity.rank for alert in found), reverse=True
    )
    assert all(alert.evidence and alert.title and alert.next_action for alert in found)
    assert verdict(run, past, found)
    assert next_action(run, past, found)
    assert progress(run, past).text


def alert(severity: Severity, rule: str = "C-05", taken: bool = False) -> Alert:
    return Alert(
        id=rule,
        key=f"{rule}:toy",
        severity=severity,
        title="t",
        since=T0,
        evidence=(),
        confidence="sure",
        next_action=f"do {rule}",
        acknowledged=Acknowledgement(by="ada", at=T0) if taken else None,
    )


@pytest.mark.parametrize(
    ("severities", "word"),
    [
        ([], Verdict.HEALTHY),
        ([Severity.INFO], Verdict.HEALTHY),
        ([Severity.WARNING], Verdict.ATTENTION),
        ([Severity.ALERT, Severity.INFO], Verdict.ATTENTION),
        ([Severity.CRITICAL, Severity.ALERT], Verdict.CRITICAL),
    ],
)
def test_the_table(severities: list[Severity], word: Verdict) -> None:
    past = history(T0, job=job())
    assert verdict(run_spec(), past, [alert(severity) for severity in severities]) is word


def test_the_monitor_never_counts_and_an_acknowledged_alert_does() -> None:
    past = history(T0, job=job())
    assert verdict(run_spec(), past, [alert(Severity.WARNING, "C-03")]) is Verdict.HEALTHY
    assert verdict(run_spec(), past, [alert(Severity.ALERT, taken=True)]) is Verdict.ATTENTION


def test_unknown_only_if_job_log_and_tracker_all_are() -> None:
    blank: dict[str, Any] = {"job": blind(), "log": blind(), "tracker": blind()}
    assert verdict(run_spec(), history(T0, **blank), ()) is Verdict.UNKNOWN
    assert verdict(run_spec(), history(T0, **{**blank, "log": log("x")}), ()) is Verdict.HEALTHY
    assert verdict(run_spec(), history(T0), ()) is Verdict.UNKNOWN


def test_a_success_with_its_seal_is_sealed_until_something_is_open() -> None:
    code = CodeValue(sha="1", sealed="seal/toy/1000")
    done: dict[str, Any] = {"job": job(Phase.SUCCEEDED)}
    past = history(T0, **done, code=code)
    assert verdict(run_spec(), past, ()) is Verdict.SEALED
    assert next_action(run_spec(), past, ()) == "nothing to do: sealed (seal/toy/1000)"
    assert verdict(run_spec(), past, [alert(Severity.CRITICAL)]) is Verdict.CRITICAL
    by_store = history(T0, **done).model_copy(update={"sealed_by": "ada"})
    assert verdict(run_spec(), by_store, ()) is Verdict.SEALED
    assert verdict(run_spec(), history(T0, job=job(Phase.FAILED), code=code), ()) is not (
        Verdict.SEALED
    )
    assert verdict(run_spec(), history(T0, job=job(), code=code), ()) is Verdict.HEALTHY


def test_a_job_that_is_over_is_finished_not_healthy() -> None:
    assert verdict(run_spec(), history(T0, job=job(Phase.SUCCEEDED)), ()) is Verdict.FINISHED
    past = history(T0, job=job(Phase.CANCELLED), stop_ordered_by="ada")
    stopped = alert(Severity.INFO, "C-01")
    assert verdict(run_spec(), past, [stopped]) is Verdict.FINISHED
    assert next_action(run_spec(), past, [stopped]) == "do C-01"
    clean = history(T0, job=job(Phase.SUCCEEDED), stop_ordered_by="ada")
    # stopped, it ended with 0 at step 986 of 100,000
    short = alert(Severity.INFO, "C-19").model_copy(update={"no_success": True})
    assert next_action(run_spec(), clean, [short]) == "do C-19", "it is not sealed"
    assert next_action(run_spec(), clean, ()) == "seal toy"


def test_the_next_action_is_that_of_the_worst_alert_nobody_has_taken() -> None:
    past = history(T0, job=job())
    two = [alert(Severity.CRITICAL, "C-09", taken=True), alert(Severity.ALERT)]
    assert next_action(run_spec(), past, two) == "do C-05"
    assert next_action(run_spec(), past, two[:1]).startswith("nothing new")
    assert next_action(run_spec(), past, ()) == "nothing to do until the next check"


def test_an_unknown_run_says_what_failed() -> None:
    past = history(T0, job=blind())
    assert next_action(run_spec(), past, ()).endswith("somewhere: no answer within 5 s")


@pytest.mark.parametrize(
    ("told", "word", "rules"),
    [
        ({"exit_code": 0, "state": "finished"}, Verdict.FINISHED, []),
        ({"exit_code": 3, "state": "failed"}, Verdict.CRITICAL, ["C-01"]),
        ({"state": "silent", "last_step_at": T0 - 9e6}, Verdict.ATTENTION, ["C-06"]),
        ({"state": "running", "last_step_at": T0}, Verdict.HEALTHY, []),
        ({"state": "silent"}, Verdict.UNKNOWN, []),
    ],
)
def test_without_a_job_in_the_run_file_the_tracker_s_word_counts(
    told: dict[str, Any], word: Verdict, rules: list[str]
) -> None:
    run = run_spec(job=None, final_step=None)
    past = history(T0, tracker=tracker(**told), job_named=False)
    alerts = judge(run, past)
    assert [alert.id for alert in alerts] == rules
    assert verdict(run, past, alerts) is word


def test_rows_that_no_rule_has_seen_are_said_with_an_all_clear() -> None:
    past = history(T0, job=job(), log=log(), tracker=tracker(), rows_from=0.75)
    assert next_action(run_spec(), past, ()) == (
        "nothing to do until the next check; the first 75 % of the rows are not read yet"
    )
    over = history(T0, job=job(Phase.SUCCEEDED), rows_from=0.997)
    assert next_action(run_spec(), over, ()).endswith(
        "; the first 99 % of the rows are not read yet"
    )


def test_a_run_of_which_nothing_is_there_is_to_be_started() -> None:
    missing = Facet[Any](
        source="pid file /r/a.pid",
        error=Problem(kind=ErrorKind.NOT_FOUND, message="no pid file /r/a.pid"),
    )
    named: dict[str, Any] = {"job": missing, "log": missing, "tracker": missing}
    said = next_action(run_spec(), history(T0, **named), ())
    assert said == "start toy, or fix where cockpit.toml looks for it: no pid file /r/a.pid"
    said = next_action(run_spec(), history(T0, **{**named, "log": blind()}), ())
    assert said.startswith("check why no source of toy can be read: no pid file")
    seen: dict[str, Any] = {
        **named,
        "log": blind(),
        "checkpoints": known(checkpoints(checkpoint(3, T0)), "here", T0),
    }
    said = next_action(run_spec(), history(T0, **seen), ())
    assert said.startswith(
        "check why no source but the checkpoints of toy can be read: no pid file"
    )


def lagging(age: float, kind: ErrorKind | None = ErrorKind.TIMEOUT) -> Facet[Any]:
    error = None if kind is None else Problem(kind=kind, message="no answer within 4 s")
    return Facet[Any](value=log("x"), source="run.log", observed_at=T0 - age, error=error)


@pytest.mark.parametrize("kind", [ErrorKind.TIMEOUT, None])
def test_a_log_that_lags_more_than_a_cadence_makes_no_run_healthy(kind: ErrorKind | None) -> None:
    run = run_spec()
    late = history(T0, job=job(), log=lagging(run.cadence + 30, kind))
    assert verdict(run, late, ()) is Verdict.UNKNOWN
    assert next_action(run, late, ()).startswith("log 1m behind: ")
    in_time = history(T0, job=job(), log=lagging(run.cadence, kind))
    assert verdict(run, in_time, ()) is Verdict.HEALTHY


def test_a_lag_of_seconds_is_no_now() -> None:
    run, late = run_spec(cadence=1.0), history(T0, job=job(), log=lagging(3))
    assert reason(run, late, ()) == "its log is not read in time: a few seconds behind"
    assert next_action(run, late, ()).startswith("log a few seconds behind: ")


def test_a_log_that_never_answered_lags_since_it_was_first_asked() -> None:
    problem = Problem(kind=ErrorKind.TIMEOUT, message="no answer within 4 s")
    never = Facet[Any](source="run.log", error=problem, since=T0)
    run = run_spec()
    assert verdict(run, history(T0 + 1, job=job(), log=never), ()) is Verdict.HEALTHY
    assert verdict(run, history(T0 + 90, job=job(), log=never), ()) is Verdict.UNKNOWN


def test_of_a_host_that_is_gone_not_the_log_alone_is_blamed() -> None:
    run, late = run_spec(), lagging(600)
    dark = history(T0, job=blind(), tracker=blind(), log=late)
    assert next_action(run, dark, ()).startswith(f"check why no source of {run.name} can be read")
    never = Facet[Any](source="run.log", error=late.error, since=T0 - 600)
    said = next_action(run, history(T0, job=job(), log=never), ())
    assert said.startswith("log not read for 10m: "), "what was never read has no lag"


def test_a_log_that_lags_takes_nothing_from_what_is_known_otherwise() -> None:
    run, late = run_spec(), lagging(600)
    over = history(T0, job=job(Phase.FAILED), log=late)
    assert verdict(run, over, ()) is Verdict.FINISHED, "a job that is over writes no more"
    alive = history(T0, job=job(), log=late)
    assert verdict(run, alive, [alert(Severity.ALERT)]) is Verdict.ATTENTION
    gone = history(T0, job=job(), log=lagging(600, ErrorKind.NOT_FOUND))
    assert verdict(run, gone, ()) is Verdict.HEALTHY, "what is not there does not lag"


JOBS: dict[str, Any] = {
    **{phase.value: job(phase, ended_at=T0 - 900 if phase.terminal else None) for phase in Phase},
    "dark": blind(), "old": known(job(), "s", T0 - 9e5), "unnamed": None,
}  # fmt: skip
LOGS: dict[str, Any] = {
    "moves": log("x", mtime=T0),
    "late": lagging(600),
    "dark": blind(),
    "": None,
}
TRACKERS: dict[str, Any] = {
    "steps": tracker(last_step_at=T0), "still": tracker(last_step_at=T0 - 9e5),
    "empty": tracker(state="silent"), "dark": blind(), "": None,
}  # fmt: skip
OPEN: tuple[list[Severity], ...] = (
    [],
    [Severity.INFO],
    [Severity.WARNING],
    [Severity.ALERT],
    [Severity.CRITICAL],
)
REST: tuple[dict[str, Any], ...] = (
    {}, {"sealed_by": "ada"}, {"not_read_yet": "log: not asked yet"}, {"job_named": False},
)  # fmt: skip


def states() -> Iterator[tuple[RunSpec, History, list[Alert]]]:
    """Every combination of what the facets, the alerts and the store can say."""
    run = run_spec()
    for who, text, curve, rest in product(JOBS.values(), LOGS.values(), TRACKERS.values(), REST):
        facets = {"job": who, "log": text, "tracker": curve}
        given = {name: value for name, value in facets.items() if value is not None}
        past = history(T0, **given).model_copy(update=rest)
        for severities in OPEN:
            yield run, past, [alert(severity) for severity in severities]
    yield run, history(T0, job=job()), [alert(Severity.WARNING, "C-03")]


def test_every_combination_is_in_exactly_one_row_and_every_row_is_needed() -> None:
    met: dict[str, set[Verdict]] = {}
    for run, past, alerts in states():
        found = situation(run, past, alerts)
        holding = [
            row
            for at, row in enumerate(ROWS)
            if row.holds(found) and not any(each.holds(found) for each in ROWS[:at])
        ]
        assert [row.name for row in holding] == [row_of(found).name]
        assert verdict(run, past, alerts) is holding[0].verdict
        assert reason(run, past, alerts).strip()
        met.setdefault(holding[0].name, set()).add(holding[0].verdict)
    assert met.keys() == {row.name for row in ROWS}


def test_what_is_dark_or_in_doubt_is_never_called_well() -> None:
    for run, past, alerts in states():
        word = verdict(run, past, alerts)
        facets = past.facets
        dark = not (facets.job.known or facets.log.known or facets.tracker.known)
        if dark or past.not_read_yet is not None:
            assert word is not Verdict.HEALTHY
        if any(each.severity is Severity.CRITICAL for each in alerts):
            assert word is Verdict.CRITICAL


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("critical", {"job": job(), "open": [Severity.CRITICAL]}, "C-05 t"),
        ("open", {"job": job(), "open": [Severity.WARNING]}, "C-05 t"),
        ("dark", {"job": blind()},
         "job, log and W&B are unknown: somewhere: no answer within 5 s"),
        ("behind", {"job": job(), "log": lagging(600)}, "its log is not read in time: 10m behind"),
        ("trains on", {"job": job(Phase.SUCCEEDED, ended_at=T0 - 900),
                       "tracker": tracker(last_step_at=T0)},
         "its job is over, but steps were logged until 2027-01-15 08:00:00Z"),
        ("sealed", {"job": job(Phase.SUCCEEDED), "code": CodeValue(sha="1", sealed="seal/toy/9")},
         "sealed (seal/toy/9)"),
        ("finished", {"job": job(Phase.CANCELLED)}, "its job is over: cancelled"),
        ("doubt", {"job": blind(), "log": log("x", mtime=T0 - 9e5)},
         "somewhere: no answer within 5 s, and nothing shows it moving"),
        ("healthy", {"job": job()}, "running, no open alerts"),
    ],
)  # fmt: skip
def test_each_row_by_its_own_situation(name: str, given: dict[str, Any], why: str) -> None:
    alerts = [alert(severity) for severity in given.pop("open", [])]
    past = history(T0, **given)
    assert row_of(situation(run_spec(), past, alerts)).name == name
    assert reason(run_spec(), past, alerts) == why


def test_the_table_in_the_documentation_is_the_one_in_the_code() -> None:
    lines = [line.split("  ") for line in (verdicts.__doc__ or "").splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()][:2] for line in lines if line[0]]
    told = [row for row in rows if len(row) == 2 and row[1] in set(Verdict)]
    assert told == [[row.name, row.verdict.value] for row in ROWS]


LATE = T0 + 4 * CADENCE


@pytest.mark.parametrize(
    ("facets", "now", "says"),
    [
        ({"job": job()}, T0, None),
        ({"job": job(Phase.WAITING)}, T0, None),
        ({"job": known(job(), "somebody", T0)}, T0 + 170, None),
        ({"job": known(job(), "somebody", T0)}, T0 + 1020, "the job was last queried 17m ago"),
        ({"job": blind(), "log": log()}, T0, None),
        ({"job": blind(), "log": log()}, LATE, "somewhere: no answer within 5 s, and nothing"),
        ({"job": blind(), "log": log(), "tracker": tracker(last_step_at=LATE)}, LATE, None),
        ({"job": job(Phase.UNKNOWN, state="REVOKED")}, T0, 'the job\'s state is "REVOKED", and'),
    ],
)  # fmt: skip
def test_healthy_is_what_was_asked_lately_or_moves(
    facets: dict[str, Any], now: float, says: str | None
) -> None:
    past = history(now, **facets)
    found = doubt(run_spec(), past)
    assert found is None if says is None else found is not None and found.startswith(says)
    word = verdict(run_spec(), past, ())
    assert word is (Verdict.HEALTHY if says is None else Verdict.UNKNOWN)
    assert says is None or says in next_action(run_spec(), past, ())


def test_only_a_log_and_no_job_named_is_no_sign_of_health() -> None:
    past = history(T0, log=log("step 1"), job_named=False)
    assert verdict(run_spec(job=None), past, ()) is Verdict.UNKNOWN
    assert "no step seen; no job is configured" in next_action(run_spec(job=None), past, ())


HELD = ("C-13", "C-15", "C-16", "C-17", "C-18", "C-22")
"""What rests on looks that may fail while the job is known to run."""
AWAY: dict[str, Any] = {name: blind() for name in ("log", "tracker", "host", "code", "checkpoints")}


def case_of(condition: str) -> Case:
    """Return a situation that opens a condition."""
    return CASES[rules_of(UNKNOWN_ROWS[condition])[0].__name__]()


def dark(condition: str, phase: Phase = Phase.RUNNING) -> tuple[set[str], set[str]]:
    """Return the keys that a situation has opened, and those after all but the job went dark."""
    case = case_of(condition)
    opened = tuple(each for each in judge(case.run, case.past) if each.id == condition)
    past = history(T0 + 60, job=job(phase), open=opened, **AWAY)
    after = {each.key for each in judge(case.run, past) if each.id == condition}
    return {each.key for each in opened}, after


@pytest.mark.parametrize("condition", HELD)
def test_an_open_alert_outlasts_blindness_and_ends_with_its_job(condition: str) -> None:
    opened, after = dark(condition)
    assert opened and after == opened
    assert dark(condition, Phase.SUCCEEDED)[1] == set()


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.WAITING, Phase.UNKNOWN])
def test_nothing_opens_of_a_run_of_which_nothing_is_seen(phase: Phase) -> None:
    for condition in HELD:
        run = case_of(condition).run
        past: History = history(T0 + 1, job=job(phase), **AWAY)
        assert not [each.key for each in judge(run, past) if each.id in HELD]
    assert not judge(run_spec(), History(now=T0))
