"""One cause, one alert (SPEC C): what only follows is carried by its cause, under its own key.

Advice is what can be done: by whom, and with what would really be loaded (SPEC A).

What opened and closed within the rows is the same, however the rows came.

What a run that names no job is taken to be, by what its tracker says.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.config.file import load
from cockpit.model.alert import Alert, Severity
from cockpit.model.observed import CheckpointState, Phase, Pick, Row
from cockpit.model.run import RunSpec
from cockpit.model.trend import Trend
from cockpit.rules import replay
from cockpit.rules.judge import ROWS, RULES, judge, with_causes, worst_first
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.present import job_of
from cockpit.rules.replay import BY_ROWS, Happened, Standing, judge_rows
from tests.rules.making import (
    CADENCE,
    T0,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    log,
    losses,
    run_spec,
    tracker,
    windows,
)

RUN = run_spec()
CRITICAL, ALERT, WARNING, INFO = Severity.CRITICAL, Severity.ALERT, Severity.WARNING, Severity.INFO


def opened(id_: str, severity: Severity = ALERT, since: float = T0, part: str = "") -> Alert:
    return Alert(
        id=id_, key=f"{id_}:toy{part}", severity=severity, title=id_, since=since, evidence=(),
        confidence="sure", next_action="look",
    )  # fmt: skip


def causes(*alerts: Alert) -> dict[str, str | None]:
    return {each.key: each.caused_by for each in with_causes(RUN, alerts)}


def test_a_jobs_end_carries_the_stall_the_rate_and_the_still_log() -> None:
    end = opened("C-01", CRITICAL, part=":job-1")
    found = with_causes(RUN, (end, opened("C-05"), opened("C-06"), opened("C-23", INFO)))
    assert found[0].consequences == ("C-05:toy", "C-06:toy", "C-23:toy")
    assert {each.caused_by for each in found[1:]} == {"C-01:toy:job-1"}
    assert [each.key for each in found] == ["C-01:toy:job-1", "C-05:toy", "C-06:toy", "C-23:toy"]


def test_what_was_open_long_before_has_a_cause_of_its_own() -> None:
    assert causes(opened("C-06"), opened("C-05", since=T0 - 2 * CADENCE - 1))["C-05:toy"] is None
    assert causes(opened("C-06"), opened("C-05", since=T0 - 2 * CADENCE))["C-05:toy"] == "C-06:toy"


def test_what_is_worse_than_its_cause_is_told_for_itself() -> None:
    assert causes(opened("C-06", WARNING), opened("C-05", ALERT))["C-05:toy"] is None


def test_a_run_that_is_named_as_a_part_is_none() -> None:
    run = run_spec(name="gpu-idle")
    disk = opened("C-22").model_copy(update={"key": "C-22:gpu-idle:disk:/data"})
    assert [each.caused_by for each in with_causes(run, (opened("C-06"), disk))] == [None, None]


def test_only_the_part_of_a_condition_that_follows_does() -> None:
    found = causes(
        opened("C-06"), opened("C-22", part=":gpu-idle"), opened("C-22", part=":disk:/data")
    )
    assert found == {
        "C-06:toy": None, "C-22:toy:gpu-idle": "C-06:toy", "C-22:toy:disk:/data": None,
    }  # fmt: skip


def test_idle_accelerators_follow_from_the_stall_however_long_they_idle() -> None:
    idle = opened("C-22", since=T0 - 9 * CADENCE, part=":gpu-idle")
    assert causes(opened("C-06"), idle)["C-22:toy:gpu-idle"] == "C-06:toy"


def test_a_loss_that_does_not_go_on_follows_from_the_wrong_checkpoint() -> None:
    early = opened("C-12", since=T0 - 9 * CADENCE, part=":former")
    found = causes(opened("C-17", part=":i2"), opened("C-12"), early)
    assert found == {"C-17:toy:i2": None, "C-12:toy": "C-17:toy:i2", "C-12:toy:former": None}


def test_without_its_cause_it_speaks_for_itself() -> None:
    alone = (opened("C-05"), opened("C-03", WARNING))
    assert with_causes(RUN, alone) == alone


def test_a_stall_that_the_rules_find_carries_the_rate_that_fell_with_it() -> None:
    """Through ``judge``: rows at a level, then three cadences at a fifth of it, then none."""
    level = [*([100.0] * 30), *([20.0] * 4)]
    rows = windows(level)
    end = rows[-1].at or 0.0
    past = history(
        end + 4 * CADENCE, folded(rows), job=job(), log=log("x", mtime=end),
        tracker=tracker(step=len(rows), last_step_at=end),
    )  # fmt: skip
    by_id = {each.id: each for each in judge(RUN, past)}
    assert {"C-05", "C-06"} <= by_id.keys()
    # the rate had been low for cadences before training stopped: no consequence of that
    assert by_id["C-05"].caused_by is None


def test_an_end_takes_the_stall_of_its_last_minutes_along() -> None:
    rows = windows([100.0] * 30)
    end = rows[-1].at or 0.0
    dead = job(Phase.FAILED, exit_code=1, ended_at=end + 30.0)
    past = history(end + 4 * CADENCE, folded(rows), job=dead, tracker=tracker(last_step_at=end))
    found = [each for each in judge(RUN, past) if each.caused_by is None and each.id != "C-03"]
    assert [each.id for each in found] == ["C-01"]


ALERTS = st.builds(
    opened,
    st.sampled_from(
        sorted(
            {
                each
                for row in ROWS.values()
                if row.consequence_of
                for each in (row.id, *row.consequence_of)
            }
        )
    ),
    st.sampled_from(list(Severity)),
    st.floats(T0 - 500.0, T0 + 500.0),
)


@given(st.lists(ALERTS, unique_by=lambda each: each.key))
def test_each_alert_has_one_root_that_carries_it_and_is_no_consequence(given_: list[Alert]) -> None:
    found = {each.key: each for each in with_causes(RUN, given_)}
    assert list(found) == [each.key for each in given_]
    for alert in found.values():
        if alert.caused_by is not None:
            root = found[alert.caused_by]
            assert root.caused_by is None
            assert alert.key in root.consequences
            assert root.severity.rank >= alert.severity.rank
        assert all(found[key].caused_by == alert.key for key in alert.consequences)


@given(st.lists(ALERTS, min_size=1, unique_by=lambda each: each.key))
def test_the_first_one_to_read_is_the_worst_and_no_consequence(given_: list[Alert]) -> None:
    found = worst_first(with_causes(RUN, given_))
    ranks = [each.severity.rank for each in found]
    assert ranks == sorted(ranks, reverse=True)
    assert found[0].caused_by is None
    assert worst_first(reversed(found)) == found


NAN = float("nan")
WHOLE = checkpoint(500, T0)
TORN = checkpoint(550, T0 + 60, CheckpointState.INCOMPLETE)
FROM_500 = Pick(path=WHOLE.path, step=500, why="newest complete by step")
LOADS_550 = Pick(path=TORN.path, step=550, why="newest by step")


def advice(run: RunSpec, **facets: object) -> str:
    trend = folded(losses([2.0] * 40 + [NAN] * 3)) if facets.pop("lost", False) else None
    alerts = judge(run, history(T0 + 200, trend, **facets))
    return max(alerts, key=lambda each: each.severity.rank).next_action


@pytest.mark.parametrize(
    ("escalation", "said"),
    [
        ("reaches", "escalate to ada"),
        ("own", "decide what to do (you own this run)"),
        ("nobody", "tell ada yourself ([notify] has no route, and there is no issue)"),
    ],
)
def test_an_escalation_that_reaches_nobody_is_no_advice(escalation: str, said: str) -> None:
    run = run_spec(escalation=escalation)
    ended = job(Phase.FAILED, exit_code=1, state="failed")
    text = advice(run, job=ended, log=log("RuntimeError: CUDA error: out of memory"))
    assert text.startswith(said), text


def test_a_run_that_trains_on_without_numbers_is_stopped_and_rolled_back() -> None:
    saves = checkpoints(WHOLE).model_copy(update={"relaunch_from": FROM_500})
    lost = tracker(loss=NAN, step=43)
    text = advice(run_spec(), lost=True, job=job(), tracker=lost, checkpoints=saves)
    assert text.startswith("stop toy: ") and "a rollback to step 500" in text
    mine = run_spec(escalation="own")
    text = advice(mine, lost=True, job=job(), tracker=lost, checkpoints=saves)
    assert text.endswith("; then rollback toy to step 500")
    recovered = advice(run_spec(), lost=True, job=job(), tracker=tracker(loss=2.0))
    assert not recovered.startswith("stop") and "do not relaunch" in recovered


def test_what_the_trainer_would_load_decides_between_relaunch_and_rollback() -> None:
    saves = checkpoints(WHOLE, TORN)
    torn = saves.model_copy(update={"relaunch_from": FROM_500, "trainer_would_load": LOADS_550})
    fine = saves.model_copy(update={"relaunch_from": FROM_500, "trainer_would_load": FROM_500})
    ended = {"job": job(Phase.FAILED, exit_code=137), "log": log("step 560", "Killed")}
    assert advice(run_spec(), checkpoints=torn, **ended) == (
        "rollback toy to step 500: the trainer would load step 550"
    )
    named = run_spec(resubmit=["train", "--from", "{checkpoint}"])
    for run, value in ((run_spec(), fine), (named, torn)):
        assert advice(run, checkpoints=value, **ended) == "relaunch toy from step 500"


def test_the_run_file_says_whom_an_escalation_reaches(tmp_path: Path) -> None:
    text = '[cockpit]\noperator = "ada"\n[[run]]\nname = "a"\ndri = "ada"\n'
    text += '[[run]]\nname = "b"\ndri = "bob"\n'
    text += '[[run]]\nname = "c"\ndri = "bob"\nrecords.issue = "https://github.com/o/r/issues/1"\n'
    path = tmp_path / "cockpit.toml"
    path.write_text(text)
    assert [run.escalation for run in load(path).runs] == ["own", "nobody", "reaches"]
    path.write_text(text + '[notify]\nroutes = [{ url_env = "U" }]\n')
    assert [run.escalation for run in load(path).runs] == ["own", "reaches", "reaches"]


EVENTFUL = losses(
    [2.0] * 50 + [3.5] * 40 + [2.0] * 30 + [math.nan] * 2 + [2.0] * 130 + [9.0] * 12 + [2.0] * 40
)
UNWATCHED = ("resumed_elsewhere", "log_mixed")
"""Rules on rows that hold against checkpoints, launches or the log too, which no row tells of."""


def cut_at(rows: list[Row], cuts: list[int]) -> tuple[Trend, Standing, list[Happened]]:
    trend, standing = Trend(), Standing()
    over: list[Happened] = []
    places = [0, *sorted(cuts), len(rows)]
    for begin, end in pairwise(places):
        trend, standing, some = judge_rows(trend, standing, rows[begin:end], RUN)
        over += some
    return trend, standing, over


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(EVENTFUL)), max_size=6))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    assert cut_at(EVENTFUL, cuts) == cut_at(EVENTFUL, [])


def test_what_came_and_went_in_one_batch_is_told_with_both_its_ends() -> None:
    trend, standing, over = cut_at(EVENTFUL, [])
    assert [(each.alert.id, each.opened_step, each.closed_step) for each in over] == [
        ("C-11", 59, 99),
        ("C-09", 120, 221),
        ("C-11", 261, 273),
    ]
    assert not standing.open and trend == advance(Trend(), EVENTFUL, RUN)
    assert "peak 3.5" in over[0].alert.evidence[1].text
    assert "34 logged rows" in over[0].alert.evidence[0].text, "as it was described last"


def test_what_is_open_is_handed_on_and_has_no_end() -> None:
    _, standing, over = cut_at(EVENTFUL[:70], [])
    assert not over and [each.alert.key for each in standing.open] == [f"C-11:{RUN.name}"]
    assert not standing.open[0].over and standing.open[0].opened_step == 59


def test_rows_without_a_time_leave_it_unknown() -> None:
    rows = [row._replace(at=None) for row in EVENTFUL]
    _, _, over = cut_at(rows, [90])
    first = over[0]
    assert (first.opened_at, first.closed_at, first.closed_step) == (None, None, 99)


def test_a_collapse_of_throughput_comes_and_goes_too() -> None:
    rows = windows([1200.0] * 10 + [800.0] * 6 + [1200.0] * 3)
    _, _, over = cut_at(list(rows), [])
    assert [each.alert.id for each in over] == ["C-05"]


def test_every_rule_on_rows_is_asked_row_by_row() -> None:
    on_rows = {rule for rule in RULES if rule.__module__.startswith("cockpit.rules.metrics")}
    assert {rule.__name__ for rule in on_rows - set(BY_ROWS)} == set(UNWATCHED)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST", 2)
    judge = replay.RowJudge(RUN, Trend(), Standing())
    for row in EVENTFUL:
        judge.add(row)
    assert (len(judge.over), judge.left_out, judge.open) == (2, 1, {})


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("running", Phase.RUNNING), ("silent", Phase.RUNNING), ("preempting", Phase.RUNNING),
        ("pending", Phase.WAITING), ("finished", Phase.SUCCEEDED), ("failed", Phase.FAILED),
        ("preempted", Phase.FAILED), ("killed", Phase.CANCELLED), ("crashed", Phase.UNKNOWN),
        ("transmogrified", Phase.UNKNOWN), ("unknown", Phase.UNKNOWN),
    ],
)  # fmt: skip
def test_the_trackers_word_for_the_state_of_a_run_without_a_job(state: str, phase: Phase) -> None:
    told = tracker(state=state, last_step_at=900.0, heartbeat_at=950.0)
    job = job_of(history(1000.0, tracker=told, job_named=False))
    assert job is not None and (job.state, job.phase) == (state, phase)
    assert job.ended_at == (950.0 if phase.terminal else None)
    assert (job.reason is None) == (phase in (Phase.RUNNING, Phase.WAITING))


def test_an_exit_record_is_believed_before_the_state() -> None:
    told = tracker(state="running", exit_code=3, last_record_at=940.0)
    job = job_of(history(1000.0, tracker=told, job_named=False))
    assert job is not None and (job.phase, job.exit_code) == (Phase.FAILED, 3)


def test_a_run_that_has_not_begun_is_none() -> None:
    assert job_of(history(1000.0, tracker=tracker(state="starting"), job_named=False)) is None
