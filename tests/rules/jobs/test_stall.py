from __future__ import annotations

from typing import Any

from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import Facet
from cockpit.model.history import History
from cockpit.model.jobs import Stopped
from cockpit.model.observed import Phase, Row
from cockpit.rules.jobs.stall import log_frozen, step_stalled
from cockpit.rules.present import patience
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

FIRST = 45 * 60.0


def stalled(past: History) -> list[Alert]:
    return list(step_stalled(run_spec(), past))


def after(silence: float, **facets: object) -> History:
    trend = folded(losses([2.0] * 100))
    now = T0 + 99 + silence
    return history(now, trend, **{"job": job(), "tracker": tracker(last_step_at=T0 + 99), **facets})


def test_no_step_for_two_cadences_is_a_stall_since_the_last_step() -> None:
    (alert,) = stalled(after(2 * CADENCE + 1))
    assert (alert.id, alert.severity, alert.since) == ("C-06", Severity.ALERT, T0 + 99)
    assert stalled(after(2 * CADENCE)) == []


def test_the_clients_pulse_is_not_training() -> None:
    pulse = T0 + 99 + 500
    value = tracker(
        last_step_at=T0 + 99, last_record_at=pulse, file_mtime=pulse, heartbeat_at=pulse
    )
    assert len(stalled(after(500, tracker=value))) == 1


def test_slow_steps_have_more_patience() -> None:
    slow = folded(losses([2.0] * 20, every=300.0))
    past = history(T0, slow)
    assert patience(run_spec(), past) == 900.0


def test_steps_logged_rarely_have_more_patience() -> None:
    rare = folded([Row(i * 50, T0 + i * 400, 2.0) for i in range(20)])
    assert patience(run_spec(), history(T0, rare)) == 1200.0


def test_old_clients_hold_rows_back() -> None:
    trend = folded(losses([2.0] * 20, every=30.0))
    old = history(T0, trend, tracker=tracker(producer="0.22.3"))
    new = history(T0, trend, tracker=tracker(producer="0.31.0"))
    assert patience(run_spec(), old) == 2 * CADENCE + 64 * 30
    assert patience(run_spec(), new) == 2 * CADENCE + 15
    logged = log("step 19", rows=(Row(19, T0, 2.0),))
    direct = history(T0, trend, tracker=tracker(producer="0.22.3"), log=logged)
    assert patience(run_spec(), direct) == 2 * CADENCE


def test_log_lines_that_step_are_liveness_while_the_tracker_is_flat() -> None:
    rows = (Row(40, T0 + 99 + 480, 2.0),)
    assert stalled(after(500, log=log("step 40", rows=rows))) == []


def test_only_a_job_that_is_said_to_run_can_stall() -> None:
    for phase in (Phase.WAITING, Phase.FAILED, Phase.SUCCEEDED, Phase.UNKNOWN):
        assert stalled(after(5000, job=job(phase))) == []


def test_what_cannot_be_seen_does_not_stall() -> None:
    old: Facet[Any] = Facet(
        value=tracker(last_step_at=T0 + 99), source="w&b", observed_at=T0 + 100, error=blind().error
    )
    assert stalled(after(5000, tracker=old)) == []
    assert stalled(history(T0 + 9000, job=job(), tracker=blind(), log=blind())) == []


def test_a_sleeping_laptop_is_no_stall() -> None:
    now = T0 + 99 + 36_000
    seen: Facet[Any] = Facet(
        value=tracker(last_step_at=T0 + 99), source="w&b", observed_at=T0 + 101
    )
    assert stalled(history(now, folded(losses([2.0] * 100)), job=job(), tracker=seen)) == []


def test_no_first_step_within_45_minutes() -> None:
    early = history(T0 + FIRST, job=job(), tracker=tracker())
    late = history(T0 + FIRST + 1, job=job(), tracker=tracker())
    assert stalled(early) == []
    (alert,) = stalled(late)
    assert (alert.title, alert.since) == ("No training step since the start", T0)


def test_a_relaunch_gets_its_time_to_start() -> None:
    started = T0 + 10_000
    past = after(started + FIRST - T0 - 99, job=job(started_at=started))
    assert stalled(past) == []
    assert len(stalled(after(started + FIRST + 1 - T0 - 99, job=job(started_at=started)))) == 1


def test_a_log_that_shows_no_steps_is_only_a_hint_when_it_is_silent() -> None:
    late = T0 + FIRST + 100
    busy = history(late, job=job(), log=log("preparing", mtime=late - 5))
    silent = history(late, job=job(), log=log("preparing", mtime=T0 + 9))
    assert stalled(busy) == []
    (alert,) = stalled(silent)
    assert alert.confidence == "guess"


def test_lost_nodes_make_it_degraded() -> None:
    lines = log("OwnerDiedError: the owner of this object has died", mtime=T0)
    (alert,) = stalled(after(500, log=lines))
    assert alert.title == "Degraded: no new training steps"
    assert any("OwnerDied" in line.text for line in alert.evidence)


def test_a_frozen_log_while_steps_move_is_information() -> None:
    past = after(1, log=log("hello", mtime=T0 + 99 - 3 * CADENCE))
    (alert,) = log_frozen(run_spec(), past)
    assert (alert.id, alert.severity) == ("C-23", Severity.INFO)
    assert list(log_frozen(run_spec(), after(1, log=log("hello", mtime=T0 + 90)))) == []
    assert list(log_frozen(run_spec(), after(900, log=log("hello", mtime=T0 - 900)))) == []


def test_a_process_that_is_stopped_is_told_before_any_step_is_missed() -> None:
    at = T0 + 1
    halted = job(state="stopped", reason="stopped (state T)", stopped=Stopped(pid=7, since=T0))
    (alert,) = stalled(history(at, job=halted, tracker=tracker(last_step_at=T0, step=5)))
    assert (alert.title, alert.since, alert.severity) == (
        "Stopped by SIGSTOP (state T)", T0, Severity.ALERT,
    )  # fmt: skip
    assert "kill -CONT 7" in alert.next_action and "do not relaunch" in alert.next_action
    held = job(stopped=Stopped(pid=7, since=T0, held=True))
    (alert,) = stalled(history(at, job=held, tracker=tracker(last_step_at=T0, step=5)))
    assert "debugger" in alert.title and "kill" not in alert.next_action


def still(*lines: str, **more: Any) -> Alert:
    past = after(1, log=log(*lines, mtime=T0 - 900, **more))
    (alert,) = log_frozen(run_spec(), past)
    return alert


def test_why_a_log_is_still_is_said_as_far_as_it_shows() -> None:
    torn = still("step 3 loss 2.3", "step 4 lo", torn=True)
    assert "buffer" in torn.evidence[1].text and "python -u" in torn.next_action
    rich = still("┏━━━┳━━━━━━┓", "Epoch 0/9 ━━━━━━ 0/300 0:00:00 • -:--:-- 0.00it/s")
    assert "rich" in rich.evidence[1].text
    assert "buffer" not in rich.evidence[1].text + rich.next_action
    other = still("epoch 3 begins")
    assert other.confidence == "guess" and "or output is buffered" in other.evidence[1].text


def test_what_was_saved_since_the_start_was_trained() -> None:
    run, silent = run_spec(), log("GPU available: True", mtime=T0 + 5)
    late = T0 + run.thresholds.first_step_within + 600
    past = history(late, job=job(), log=silent)
    assert [alert.title for alert in step_stalled(run, past)] == [
        "No training step since the start"
    ]
    saved = checkpoints(checkpoint(100, late - 10))
    past = history(late, job=job(), log=silent, checkpoints=saved)
    assert list(step_stalled(run, past)) == []
    assert [alert.id for alert in log_frozen(run, past)] == ["C-23"]


def test_a_log_whose_stamps_lie_in_the_future_stalls_by_when_it_was_written() -> None:
    rows = losses([2.0] * 100)
    said = log("step", mtime=T0 - 3600 + 99, rows=tuple(rows))  # its clock is an hour ahead
    trend = folded(rows)

    def at(silence: float) -> list[Alert]:
        now = T0 - 3600 + 99 + silence
        past = history(now, trend, job=job(started_at=T0 - 9000), log=said)
        return stalled(past.model_copy(update={"log_trend": trend}))

    assert at(2 * CADENCE) == []
    assert [alert.since for alert in at(2 * CADENCE + 1)] == [T0 - 3600 + 99]
