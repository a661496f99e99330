from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from cockpit.model.alert import Acknowledgement, Alert, Severity
from cockpit.model.facet import ErrorKind, Facet, Problem, known
from cockpit.model.history import History
from cockpit.model.observed import CodeValue, Phase
from cockpit.model.report import Verdict
from cockpit.model.run import RunSpec
from cockpit.rules import verdict as verdicts
from cockpit.rules.judge import judge
from cockpit.rules.verdict import ROWS, next_action, reason, row_of, situation, verdict
from tests.rules.making import (
    T0,
    blind,
    checkpoint,
    checkpoints,
    history,
    job,
    log,
    run_spec,
    tracker,
)


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
