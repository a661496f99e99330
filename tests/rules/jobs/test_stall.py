"""A silent log decides nothing while checkpoints or the tracker show that the job works.

C-23 of a log that a restart has truncated: by what a watch saw, and by the lines' own times.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.alert import Alert, Severity
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet, known
from cockpit.model.history import History
from cockpit.model.jobs import Stopped
from cockpit.model.observed import JobValue, LogValue, OtherMonitor, Phase, Row
from cockpit.model.report import Verdict
from cockpit.rules.jobs.jobstate import monitor_stale
from cockpit.rules.jobs.stall import log_frozen, log_started_over, step_stalled
from cockpit.rules.judge import judge
from cockpit.rules.present import patience
from cockpit.rules.verdict import verdict
from cockpit.sources.logs.source import Logs
from cockpit.watch.reports import case_of, judged
from cockpit.watch.runstate import RunState
from tests.queries import queries_of
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
    tracker,
)
from tests.sources.logs.test_source import run_of

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


SILENT = job(Phase.WAITING, id="pid:7", started_at=T0).model_copy(
    update={"state": "starting", "reason": "launched, no log line yet", "pending_since": T0}
)
SAVE_EVERY = 300.0
EMPTY = LogValue(path="/run.log", size=0, mtime=T0)
SAVED = checkpoints(*(checkpoint(step, T0 + step) for step in (60, 120, 180)))


def signs_of_life_after(at: float, *answers: tuple[str, Any]) -> RunState:
    state = RunState(spec=run_spec(), key="k")
    for name, value in answers:
        facet: Facet[Any] = known(value, name, at)
        state.take(name, facet)
    state.mark_phase(at)
    return state


def keys(state: RunState, at: float) -> dict[str, str]:
    found = judged(case_of(state, at)).alerts
    return {alert.key.removesuffix(":toy"): alert.title for alert in found}


@pytest.mark.parametrize("job_first", [True, False])
def test_what_saves_since_its_start_runs_though_its_log_is_empty(job_first: bool) -> None:
    answers = [("job", SILENT), ("log", EMPTY), ("checkpoints", SAVED)]
    state = signs_of_life_after(T0 + 200, *(answers if job_first else reversed(answers)))
    value = state.facets.job.value
    assert value is not None
    assert (value.phase, value.state, value.pending_since) == (Phase.RUNNING, "running", None)
    assert value.reason is not None and "step 180 was saved" in value.reason
    assert keys(state, T0 + 200) == {"C-23": "The log is empty; training goes on"}
    again: Facet[Any] = known(SILENT, "job", T0 + 201)
    assert not state.take("job", again), "the same answer again is no news"


def test_a_step_of_the_tracker_is_as_good() -> None:
    state = signs_of_life_after(
        T0 + 200, ("job", SILENT), ("log", EMPTY), ("tracker", tracker(last_step_at=T0 + 99))
    )
    assert state.facets.job.value is not None
    assert state.facets.job.value.phase is Phase.RUNNING


def test_what_a_former_job_saved_shows_nothing_of_this_one() -> None:
    old = checkpoints(checkpoint(60, T0 - 60))
    state = signs_of_life_after(T0 + 200, ("job", SILENT), ("log", EMPTY), ("checkpoints", old))
    assert state.facets.job.value == SILENT


def test_once_saves_are_all_that_shows_training_they_show_its_stall() -> None:
    fine, late = T0 + 180 + 3 * SAVE_EVERY, T0 + 181 + 3 * SAVE_EVERY
    answers = (("job", SILENT), ("log", EMPTY), ("checkpoints", SAVED))
    assert "C-06" not in keys(signs_of_life_after(fine, *answers), fine)
    found = keys(signs_of_life_after(late, *answers), late)
    assert found["C-06"] == "No new checkpoint"
    assert "C-04" not in found


def test_a_process_that_shows_nothing_at_all_waits_in_no_queue() -> None:
    within = run_spec().thresholds.first_step_within
    answers = (("job", SILENT), ("log", EMPTY))
    assert keys(signs_of_life_after(T0 + within, *answers), T0 + within) == {}
    late = T0 + within + 1
    (alert,) = judged(case_of(signs_of_life_after(late, *answers), late)).alerts
    assert (alert.id, alert.title) == ("C-06", "Nothing shown since the start")
    assert "cluster" not in alert.next_action


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 3 has"


def told(value: LogValue, of: JobValue, *rows: Row) -> list[Alert]:
    past = history(T0 + 200, job=of, log=value)
    return list(log_started_over(run_spec(), past.model_copy(update={"log_trend": folded(rows)})))


def followed(path: Path, first: str, then: str) -> LogValue:
    logs, queries = Logs(SystemClock()), queries_of([run_of(path)])
    path.write_text(first)
    asyncio.run(logs.observe(queries))
    path.write_text(then)
    value = asyncio.run(logs.observe(queries))["r"].value
    assert value is not None
    return value


def test_what_a_watch_saw_of_the_first_end_is_kept(tmp_path: Path) -> None:
    value = followed(tmp_path / "run.log", f"step 40/99 loss 2\n{OOM}\n", "step 1/99 loss 2\n")
    assert value.begun_anew_at == value.mtime
    rows = [*(Row(step, T0 + step, 2.0) for step in range(41)), Row(1, T0 + 100, 2.0)]
    (alert,) = told(value, job(restarts=1), *rows)
    assert (alert.id, alert.key) == ("C-23", "C-23:toy:begun-anew")
    first, second = (each.text for each in alert.evidence)
    assert "had reached step 40" in first
    assert "out of accelerator memory" in second and OOM in second
    assert "--open-mode=append" in alert.next_action


def test_without_a_cause_it_is_lost_and_without_a_restart_nothing_is_said(tmp_path: Path) -> None:
    value = followed(tmp_path / "run.log", "step 40/99 loss 2\n" * 9, "step 1/99 loss 2\n")
    (alert,) = told(value, job(restarts=1))
    assert alert.evidence[1].text == "what ended the former attempt is lost"
    assert told(value, job()) == [], "copied and truncated by a rotation"


@pytest.mark.parametrize(("first_at", "said"), [(T0 + 20, True), (T0 - 900, False)])
def test_a_log_that_is_read_for_the_first_time_tells_by_its_times(
    first_at: float, said: bool
) -> None:
    rows = [Row(step, first_at + step, 2.0) for step in range(5)]
    assert bool(told(log("x"), job(restarts=1), *rows)) is said
    assert told(log("x"), job(), *rows) == []


def test_a_log_that_is_renamed_under_its_writer_is_followed_on(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    logs, queries = Logs(SystemClock()), queries_of([run_of(path)])
    with path.open("w") as writer:
        print("step 1/99 loss 2", file=writer, flush=True)
        asyncio.run(logs.observe(queries))
        path.rename(tmp_path / "run.log.1")
        print("step 2/99 loss 2", file=writer, flush=True)
        value = asyncio.run(logs.observe(queries))["r"].value
        assert value is not None
        assert (value.path, value.moved_from) == (f"{path}.1", str(path))
        assert [row.step for row in value.rows] == [2], "no row is read twice"
        (alert,) = told(value, job())
        assert alert.evidence[0].text == f"{path} was renamed; its writer goes on in {path}.1"
        print("step 3/99 loss 2", file=writer, flush=True)
    path.write_text("step 4/99 loss 2\n")
    value = asyncio.run(logs.observe(queries))["r"].value
    assert value is not None
    assert (value.path, value.moved_from) == (str(path), None)
    assert [row.step for row in value.rows] == [3, 4]


NOW = T0 + 1000


def test_no_sign_for_more_than_two_cadences_is_stale() -> None:
    past = history(NOW, job=job(), monitor=monitor(NOW - 2 * CADENCE - 1))
    (alert,) = monitor_stale(run_spec(), past)
    assert (alert.id, alert.severity) == ("C-03", Severity.WARNING)
    assert alert.since == NOW - 2 * CADENCE - 1


def test_two_cadences_are_still_fine() -> None:
    past = history(NOW, job=job(), monitor=monitor(NOW - 2 * CADENCE))
    assert list(monitor_stale(run_spec(), past)) == []


def test_it_never_changes_the_verdict() -> None:
    past = history(NOW, job=job(), monitor=monitor(NOW - 900, fresh=False))
    found = judge(run_spec(), past)
    assert [alert.id for alert in found] == ["C-03"]
    assert verdict(run_spec(), past, found) is Verdict.HEALTHY


def test_a_run_without_a_monitor_has_no_stale_one() -> None:
    past = history(NOW, job=job(), monitor=monitor(T0, fresh=False))
    assert list(monitor_stale(run_spec(monitor=None), past)) == []


@pytest.mark.parametrize(
    ("phase", "ordered", "stale"),
    [
        (Phase.SUCCEEDED, None, False),
        (Phase.FAILED, None, True),
        (Phase.CANCELLED, None, True),
        (Phase.CANCELLED, "ada", False),
        (Phase.WAITING, None, True),
    ],
)
def test_a_run_is_watched_until_its_end_is_known_to_be_meant(
    phase: Phase, ordered: str | None, stale: bool
) -> None:
    past = history(NOW, job=job(phase), monitor=monitor(T0, fresh=False), stop_ordered_by=ordered)
    assert bool(list(monitor_stale(run_spec(), past))) is stale


def test_two_monitors_on_one_job_are_said_by_name() -> None:
    rival = OtherMonitor(path="other.json", owner="bob", last_update=NOW - 5, fresh=True)
    past = history(NOW, job=job(), monitor=monitor(NOW, owner="ada", others=(rival,)))
    (alert,) = monitor_stale(run_spec(), past)
    assert alert.key == "C-03:toy:two"
    assert [line.text.split(":")[0] for line in alert.evidence] == ["ada", "bob"]


def test_blindness_does_not_make_it_stale() -> None:
    seen: Facet[Any] = Facet(
        value=monitor(T0), source="m.json", observed_at=T0 + 5, error=blind().error
    )
    assert list(monitor_stale(run_spec(), history(NOW, job=job(), monitor=seen))) == []
    assert list(monitor_stale(run_spec(), history(NOW, job=job(), monitor=blind()))) == []


def test_a_clock_that_leaves_it_open_neither_opens_nor_closes_in_a_watch() -> None:
    doubt = monitor(NOW - 3600, fresh=False, doubt="its clock may be behind")
    watched = {"attended": True}
    once = history(NOW, job=job(), monitor=doubt)
    assert list(monitor_stale(run_spec(), once.model_copy(update=watched))) == []
    stale = history(NOW, job=job(), monitor=monitor(NOW - 3600, fresh=False))
    former = tuple(monitor_stale(run_spec(), stale))
    past = once.model_copy(update={**watched, "open": former})
    assert tuple(monitor_stale(run_spec(), past)) == former
    lost = doubt.model_copy(update={"gone": ("its tunnel session t is gone",)})
    past = history(NOW, job=job(), monitor=lost).model_copy(update=watched)
    (alert,) = monitor_stale(run_spec(), past)
    assert alert.key == "C-03:toy:gone"
    (alert,) = monitor_stale(run_spec(), once)
    assert alert.confidence == "likely" and "may be behind" in alert.evidence[1].text
    assert alert.next_action.startswith("look again")


def test_a_monitor_that_never_wrote_is_stale_after_two_cadences() -> None:
    missing = blind(T0, ErrorKind.NOT_FOUND)
    early = history(T0 + 2 * CADENCE, job=job(), monitor=missing)
    late = history(T0 + 2 * CADENCE + 1, job=job(), monitor=missing)
    assert list(monitor_stale(run_spec(), early)) == []
    assert len(list(monitor_stale(run_spec(), late))) == 1


def test_a_session_that_is_gone_is_said_while_the_file_still_moves() -> None:
    text = "its tunnel session t is gone: no tmux or screen session of that name on this machine"
    cut_off = monitor(NOW).model_copy(update={"gone": (text,)})
    past = history(NOW, job=job(), monitor=cut_off)
    (alert,) = monitor_stale(run_spec(), past)
    assert (alert.id, alert.severity) == ("C-03", Severity.WARNING)
    assert [each.text for each in alert.evidence] == [text]
    assert verdict(run_spec(), past, [alert]) is Verdict.HEALTHY


def test_a_stale_monitor_names_what_is_gone_in_one_alert() -> None:
    gone = monitor(T0, fresh=False).model_copy(update={"gone": ("why",)})
    (alert,) = monitor_stale(run_spec(), history(NOW, job=job(), monitor=gone))
    assert [each.text for each in alert.evidence][1:] == ["why"]
