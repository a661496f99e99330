from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.history import History, Launched
from cockpit.model.observed import Phase, Row
from cockpit.rules.judge import judge
from cockpit.rules.metrics.resume import first_completed, first_step_wrong, resumed_elsewhere
from tests.rules.making import (
    T0,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    log,
    losses,
    run_spec,
)

LAUNCHED = Launched(at=T0 + 100, job_id="host:1", launch_id="toy-i002", resumes_from=50)


def after(*rows: Row, launched: Launched = LAUNCHED, **more: object) -> History:
    former = losses([2.0] * 60)
    past = history(T0 + 200, folded([*former, *rows]), **{"job": job(), **more})
    return past.model_copy(update={"launched": launched})


def found(past: History) -> list[str]:
    return [alert.title for alert in resumed_elsewhere(run_spec(), past)]


def test_a_resume_from_the_checkpoint_is_silent() -> None:
    assert found(after(Row(51, T0 + 110, 2.0))) == []
    assert found(after(Row(50, T0 + 110, 2.0))) == []


def test_a_restart_from_zero_is_an_alert_at_its_first_row() -> None:
    past = after(Row(0, T0 + 110, 9.0))
    assert found(past) == ["Resumed at step 0, not from 50"]
    assert "C-12" in {alert.id for alert in judge(run_spec(), past)}
    (alert,) = resumed_elsewhere(run_spec(), past)
    assert "stop toy" in alert.next_action and alert.key.endswith(":toy-i002")


def test_the_log_tells_it_too() -> None:
    rows = (Row(59, T0 + 59, 2.0), Row(0, T0 + 111, 9.0))
    past = history(T0 + 200, job=job(), log=log("x", rows=rows))
    past = past.model_copy(update={"launched": LAUNCHED})
    assert found(past) == ["Resumed at step 0, not from 50"]


def test_rows_of_the_former_job_say_nothing() -> None:
    assert found(after()) == []


def test_what_was_seen_once_is_not_forgotten() -> None:
    known = LAUNCHED.model_copy(update={"first_step": 0})
    rows = [Row(step, T0 + 110 + step, 2.0) for step in range(200)]
    assert found(after(*rows, launched=known)) == ["Resumed at step 0, not from 50"]


def test_a_step_that_cannot_have_been_reached_is_another_checkpoint() -> None:
    assert found(after(Row(5000, T0 + 120, 2.0))) == ["Resumed at step 5,000, not from 50"]
    assert found(after(Row(150, T0 + 190, 2.0))) == []


def test_a_clock_that_is_ahead_does_not_accuse_the_former_job_s_last_row() -> None:
    assert found(after(Row(5000, T0 + 105, 2.0))) == []


def test_a_job_that_is_over_is_told_otherwise() -> None:
    ended = job(Phase.FAILED, ended_at=T0 + 150)
    assert found(after(Row(0, T0 + 110, 9.0), job=ended)) == []


def test_from_scratch_there_is_nothing_to_expect() -> None:
    scratch = LAUNCHED.model_copy(update={"resumes_from": None})
    assert found(after(Row(0, T0 + 110, 9.0), launched=scratch)) == []


def restarted(*rows: Row, saved: float = T0 + 90, **more: object) -> History:
    """A job that no cockpit launched, begun at T0 + 100 beside a complete Checkpoint of 46."""
    began = {"job": job(started_at=T0 + 100), "checkpoints": checkpoints(checkpoint(46, saved))}
    return history(T0 + 200, folded([*losses([2.0] * 60), *rows]), **{**began, **more})


def test_a_restart_by_anybody_from_zero_is_an_alert() -> None:
    past = restarted(Row(0, T0 + 110, 9.0))
    (alert,) = resumed_elsewhere(run_spec(), past)
    assert alert.title == "Restarted at step 0 although step 46 was there"
    assert (alert.confidence, alert.since) == ("likely", T0 + 100)
    assert "stop toy" in alert.next_action
    later = [Row(step, T0 + 110 + step, 2.0) for step in range(90)]
    assert found(restarted(*later)) == ["Restarted at step 0 although step 46 was there"]


def test_a_restart_by_anybody_that_goes_on_is_silent() -> None:
    assert found(restarted(Row(46, T0 + 110, 2.0), Row(47, T0 + 111, 2.0))) == []
    assert found(restarted(Row(50, T0 + 110, 2.0))) == []


def test_what_the_job_saved_itself_is_not_what_it_should_have_loaded() -> None:
    assert found(restarted(Row(1, T0 + 101, 9.0), saved=T0 + 150)) == []


def test_a_later_restart_by_hand_is_not_measured_by_our_launch() -> None:
    past = restarted(Row(46, T0 + 160, 2.0), job=job(started_at=T0 + 155, id="host:2"))
    past = past.model_copy(update={"launched": LAUNCHED})
    assert found(past) == []


def test_a_lone_low_line_before_the_steps_is_no_step() -> None:
    rows = [Row(0, T0 + 110, 2.0), *(Row(51 + i, T0 + 111 + i, 2.0) for i in range(4))]
    assert found(after(*rows)) == []
    noted = LAUNCHED.model_copy(update={"first_step": 0})
    past = history(T0 + 200, job=job(), log=log("x", rows=tuple(rows)))
    assert found(past.model_copy(update={"launched": noted})) == []
    assert first_completed([(0, 1.0), (50, 2.0), (100, 3.0), (150, 4.0)]) == (0, 1.0)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_only_what_is_before_the_checkpoint_is_wrong_without_a_clock(
    resumed: int, first: int
) -> None:
    launched = LAUNCHED.model_copy(update={"resumes_from": resumed})
    assert (first_step_wrong(launched, first, None, None) is not None) == (first < resumed)


def test_a_first_step_that_may_not_be_the_first_is_only_the_latest() -> None:
    rows = [Row(step, T0 + 110 + step - 401, 2.0) for step in range(401, 560)]
    began = {"job": job(started_at=T0 + 100), "checkpoints": checkpoints(checkpoint(600, T0 + 90))}
    whole = history(T0 + 900, folded(rows), **began)
    assert found(whole) == ["Restarted at step 401 although step 600 was there"]
    assert found(whole.model_copy(update={"rows_from": 0.7, "log_from": 0.7})) == [
        "Restarted at or before step 401 although step 600 was there"
    ]
    untimed = [row._replace(at=None) for row in rows[:48]]
    assert found(history(T0 + 900, folded([*untimed, *rows[48:]]), **began)) == [
        "Restarted at or before step 449 although step 600 was there"
    ]


def test_hours_in_a_queue_are_no_steps_that_the_job_may_have_made() -> None:
    """How far a first step may lie ahead counts from the job's start, not from its submit."""
    queued = LAUNCHED.model_copy(update={"started_at": LAUNCHED.at + 6 * 3600})
    soon = queued.begun + 600
    assert first_step_wrong(queued, 9000, soon, 1.0) is not None
    assert first_step_wrong(LAUNCHED, 9000, soon, 1.0) is None
    assert first_step_wrong(queued, 60, soon, 1.0) is None


def test_lightning_may_go_on_from_an_older_last_ckpt() -> None:
    """Killed between the save of 200 and the next ``last.ckpt``, which still held 150."""

    def by(layout: str, *steps: int) -> History:
        rows = (Row(step, T0 + 110 + step, 2.0) for step in range(154, 190))
        items = (checkpoint(step, T0 + 90).model_copy(update={"layout": layout}) for step in steps)
        return restarted(*rows, checkpoints=checkpoints(*items))

    assert found(by("lightning", 100, 150, 200)) == []
    assert found(by("hf", 100, 150, 200)) == ["Restarted at step 154 although step 200 was there"]
    assert found(by("lightning", 200)) == ["Restarted at step 154 although step 200 was there"]


def test_where_not_every_step_is_logged_the_first_row_is_not_the_first_step() -> None:
    rows = [Row(step, T0 + 110 + step, 9.0) for step in range(10, 40, 10)]
    assert found(after(*rows)) == ["Resumed at or before step 10, not from 50"]
