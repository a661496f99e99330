"""A run's goodput against lives whose truth is known, watched and unwatched."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.facet import known
from cockpit.model.goodput import Goodput, JobStart, Looks, headline, losses
from cockpit.model.history import FormerFailure, History, Launched, PhaseMark
from cockpit.model.observed import Phase, Row, Writer
from cockpit.rules.goodput import goodput
from tests.rules.making import CADENCE, T0, folded, history, job, run_spec, tracker

RUN = run_spec()
WATCHED = Looks(since=T0 - 1.0, last=T0 + 1e6)
H = 3600.0


def steps(first: int, last: int, begin: float) -> list[Row]:
    return [Row(step, begin + (step - first), 2.0) for step in range(first, last + 1)]


def mark(phase: Phase, at: float, job_id: str = "1", since: float | None = None) -> PhaseMark:
    return PhaseMark(at=T0 + at, phase=phase, job_id=job_id,
                     since=None if since is None else T0 + since)  # fmt: skip


def life(now: float, rows: list[Row], marks: list[PhaseMark], **more: Any) -> History:
    phase = marks[-1].phase if marks else Phase.RUNNING
    job_id = marks[-1].job_id if marks else "1"
    value = more.pop("job", None) or job(phase, id=job_id, started_at=None)
    looks, starts = more.pop("looks", WATCHED), more.pop("starts", ())
    past = history(T0 + now, folded(rows), job=value, tracker=tracker(), **more)
    return past.model_copy(update={"phases": tuple(marks), "looks": looks, "starts": starts})


def account(past: History) -> Goodput:
    found = goodput(RUN, past)
    assert found is not None
    assert found.split.wall_s == pytest.approx(found.until - found.since)
    return found


DEATH = [
    mark(Phase.WAITING, 0), mark(Phase.RUNNING, 600), mark(Phase.FAILED, 2000),
    mark(Phase.WAITING, 5000, "2"), mark(Phase.RUNNING, 5400, "2"),
]  # fmt: skip
"""Queued for 600 s, 100 s to the first step, dead after step 1200 at 1900 s and seen so at 2000 s,
relaunched at 5000 s, queued for 400 s, 100 s to its first step, 1001."""
ROWS = [*steps(1, 1200, T0 + 700.0), *steps(1001, 2000, T0 + 5500.0)]


def test_a_life_with_a_death_is_split_to_the_second() -> None:
    found = account(life(6500, ROWS, DEATH))
    split = found.split
    assert split.waiting_s == pytest.approx(600 + 400, abs=2)
    assert split.starting_s == pytest.approx(100 + 100, abs=2)
    assert split.stalled_s == pytest.approx(2000 - 1899, abs=2)  # until it was seen to be dead
    assert split.down_s == pytest.approx(3000, abs=2)
    assert split.rework_s == pytest.approx(199, abs=2)
    assert split.productive_s == pytest.approx(1199 + 800, abs=2)
    assert split.unwatched_s == 0.0
    assert found.steps_lost == 200
    assert found.share == pytest.approx(1999 / 6499, abs=0.001)
    assert (found.since, found.until) == (T0, T0 + 6499.0)


def test_what_nobody_saw_is_neither_productive_nor_lost() -> None:
    looks = Looks(since=T0 - 1, last=T0 + 1e6, gaps=((T0 + 2500, T0 + 4000),))
    found = account(life(6500, ROWS, DEATH, looks=looks))
    assert found.split.unwatched_s == pytest.approx(1500)
    assert found.split.down_s == pytest.approx(1500, abs=2)
    assert found.share == pytest.approx(1999 / (6499 - 1500), abs=0.001)
    assert any("nobody saw" in line for line in found.evidence)


def test_steps_in_a_time_that_nobody_watched_count_all_the_same() -> None:
    looks = Looks(since=T0 - 1, last=T0 + 1e6, gaps=((T0 + 800, T0 + 1800),))
    found = account(life(6500, ROWS, DEATH, looks=looks))
    assert found.split.unwatched_s == 0.0


def test_what_the_system_dates_needs_no_watching() -> None:
    nobody = Looks(since=T0 + 6000, last=T0 + 6500)
    dated = [
        mark(Phase.WAITING, 6000, since=0), mark(Phase.RUNNING, 6000, since=600),
        mark(Phase.FAILED, 6000, since=1900), mark(Phase.WAITING, 6000, "2", since=5000),
        mark(Phase.RUNNING, 6000, "2", since=5400),
    ]  # fmt: skip
    split = account(life(6500, ROWS, dated, looks=nobody)).split
    assert split.waiting_s == pytest.approx(1000, abs=2)
    assert split.down_s == pytest.approx(3100, abs=2)


def test_a_new_job_found_by_somebody_who_did_not_watch_leaves_the_gap_unwatched() -> None:
    marks = [mark(Phase.RUNNING, 0), mark(Phase.RUNNING, 6000, "2")]
    looks = Looks(since=T0, last=T0 + 6500, gaps=((T0 + 1000, T0 + 6000),))
    found = account(life(6500, ROWS, marks, looks=looks))
    assert found.split.down_s == 0.0
    assert found.split.unwatched_s == pytest.approx(5500 - 1899, abs=2)
    assert found.restarts.unknown == 1


def test_a_stall_is_a_stall_and_a_dead_job_goes_on_losing_time() -> None:
    rows, running = steps(1, 600, T0), [mark(Phase.RUNNING, 0)]
    stalled = account(life(600 + 1 * H, rows, running)).split
    assert stalled.stalled_s == pytest.approx(H, abs=5)
    dead = account(life(700 + 1 * H, rows, [*running, mark(Phase.FAILED, 700)])).split
    assert dead.down_s == pytest.approx(H)
    assert dead.stalled_s == pytest.approx(101, abs=2)


def test_while_steps_come_the_account_ends_with_the_newest() -> None:
    found = account(life(600 + CADENCE, steps(1, 600, T0), [mark(Phase.RUNNING, 0)]))
    assert (found.until, found.share) == (T0 + 599.0, 1.0)


def test_success_ends_the_account() -> None:
    done = job(Phase.SUCCEEDED, id="1", started_at=T0, ended_at=T0 + 610)
    marks = [mark(Phase.RUNNING, 0), mark(Phase.SUCCEEDED, 620, since=610)]
    found = account(life(90 * H, steps(1, 600, T0), marks, job=done))
    assert found.until == T0 + 610.0


def test_restarts_are_ours_the_orchestrators_or_nobodys() -> None:
    ours = (JobStart(T0, "1"), JobStart(T0 + 5000, "2"))
    found = account(life(6500, ROWS, DEATH, starts=ours)).restarts
    assert (found.ours, found.requeues, found.unknown) == (1, 0, 0)
    assert account(life(6500, ROWS, DEATH)).restarts.unknown == 1
    requeued = [each.model_copy(update={"job_id": "1"}) for each in DEATH]
    assert account(life(6500, ROWS, requeued)).restarts.requeues == 1
    told = job(id="1", started_at=T0 + 5400, restarts=3)
    assert account(life(6500, ROWS, requeued, job=told)).restarts.requeues == 3


SECOND = steps(1001, 2000, T0 + 5500.0)
"""What is read after a relaunch under another W&B id, or in another log: the second life alone."""


def test_a_former_attempt_whose_rows_are_elsewhere_makes_the_account_unknown() -> None:
    found = account(life(6500, SECOND, DEATH))
    assert found.share is None and found.steps_lost is None
    assert found.share_why == "the steps of 1 former attempt are not in the rows that are read"
    assert found.split.starting_s == pytest.approx(100, abs=2), "of the life whose rows are read"
    assert found.split.unwatched_s == pytest.approx(1400, abs=2), "steps or none: nobody can tell"
    assert headline(found) == f"goodput unknown: {found.share_why}"
    assert "steps lost: unknown" in losses(found)


def test_a_log_that_a_requeue_has_truncated_tells_nobody_what_was_lost() -> None:
    requeued = job(id="1", started_at=T0 + 5400, restarts=1)
    first, second = steps(1, 40, T0 + 700.0), steps(1, 30, T0 + 5500.0)
    seen = [mark(Phase.RUNNING, 5440, since=5400)]
    watched = account(life(5530, [*first, *second], seen, job=requeued))
    assert (watched.restarts.total, watched.steps_lost) == (1, 40), "a watch had read it before"
    fresh = account(life(5530, second, seen, job=requeued))
    assert (fresh.restarts.total, fresh.steps_lost, fresh.share) == (1, None, None)
    assert fresh.share_why == "the steps of 1 former attempt are not in the rows that are read"
    marks = [each.model_copy(update={"job_id": "1"}) for each in DEATH]
    both = account(life(5530, second, marks, job=requeued))
    assert both.share_why == fresh.share_why, "one that was seen is not counted twice"


@pytest.mark.parametrize("resumes_at", [41, 30])
def test_a_requeue_whose_rows_are_appended_leaves_nothing_unknown(resumes_at: int) -> None:
    rows = [*steps(1, 40, T0 + 700.0), *steps(resumes_at, 80, T0 + 5500.0)]
    seen = [mark(Phase.RUNNING, 5440, since=5400)]
    for began in (T0 + 5400, T0 + 600):  # of the present attempt, or of the job
        found = account(life(5540, rows, seen, job=job(id="1", started_at=began, restarts=1)))
        assert found.steps_lost == 41 - resumes_at


def test_what_a_relaunch_lost_is_known_by_the_journal() -> None:
    launch = Launched(at=T0 + 5000, job_id="2", launch_id="toy-i002", resumes_from=1000,
                      failed_step=1200)  # fmt: skip
    past = life(6500, SECOND, DEATH, starts=(JobStart(T0, "1"), JobStart(T0 + 5000, "2")))
    found = account(past.model_copy(update={"launched": launch}))
    assert (found.share, found.steps_lost, found.restarts.ours) == (None, 200, 1)


def test_a_former_attempt_that_never_stepped_leaves_nothing_unknown() -> None:
    failure = FormerFailure(at=T0 + 2000, job_id="1", name="small_code_bug")
    past = life(6500, SECOND, DEATH).model_copy(update={"former_failures": (failure,)})
    begun = past.model_copy(update={"trend": folded(steps(1, 1000, T0 + 5500.0))})
    assert account(begun).share is not None


def test_a_first_look_at_a_run_that_goes_on_says_that_it_does_not_know_what_was_before() -> None:
    found = account(life(200, steps(104, 150, T0 + 100.0), [mark(Phase.RUNNING, 0)]))
    assert found.share is None and found.steps_lost is None
    assert "first row that is read is step 104" in (found.share_why or "")
    assert losses(found).startswith("restarts: unknown · steps lost: unknown")
    every = [Row(step, T0 + step, 2.0) for step in range(500, 5001, 500)]
    assert account(life(6000, every, [mark(Phase.RUNNING, 0)])).share is not None


def test_two_that_write_one_run_make_no_restart() -> None:
    other = Writer(name="run-a", since=T0 + 700, last_record_at=T0 + 6400)
    past = life(6500, ROWS, [mark(Phase.RUNNING, 600)])
    told = known(tracker(writers=(other,)), "W&B", T0 + 6500)
    both = past.model_copy(update={"facets": past.facets.model_copy(update={"tracker": told})})
    found = account(both)
    assert (found.restarts.total, found.share, found.steps_lost) == (0, None, None)
    assert "two jobs write to W&B run toy" in (found.share_why or "")


def test_two_launches_are_a_restart_though_only_the_second_job_was_seen() -> None:
    seen = [mark(Phase.RUNNING, 5005, "2", since=5005)]
    starts = (JobStart(T0, "1"), JobStart(T0 + 5000, "2"))
    found = account(life(6500, SECOND, seen, starts=starts))
    assert (found.restarts.ours, found.restarts.total, found.share) == (1, 1, None)
    only = Launched(at=T0 + 5000, job_id="2", launch_id="toy-i001", resumes_from=1000)
    past = life(6500, SECOND, seen, starts=starts[1:]).model_copy(update={"launched": only})
    assert account(past).restarts.ours == 1, "it went on with what somebody else had begun"


def test_a_relaunch_under_the_same_id_is_ours_and_no_requeue() -> None:
    cancelled = [
        mark(Phase.RUNNING, 600), mark(Phase.CANCELLED, 2000), mark(Phase.RUNNING, 5400),
    ]  # fmt: skip
    starts = (JobStart(T0, "1"), JobStart(T0 + 5000, "1"))
    found = account(life(6500, ROWS, cancelled, starts=starts)).restarts
    assert (found.ours, found.requeues, found.unknown) == (1, 0, 0)


def test_a_step_that_went_back_under_a_job_that_ran_on_is_a_restart_in_place() -> None:
    found = account(life(6500, ROWS, [mark(Phase.RUNNING, 600)]))
    assert found.restarts.unknown == 1
    assert found.split.starting_s == pytest.approx(5500 - 1899 + 100, abs=5)


def test_accelerator_hours_are_what_the_job_held_in_vain_or_unknown_with_the_reason() -> None:
    held = job(id="2", started_at=T0 + 5400, accelerators=64)
    found = account(life(6500, ROWS, DEATH, job=held))
    lost = found.split.rework_s + found.split.starting_s + found.split.stalled_s
    assert found.accelerator_hours_lost == pytest.approx(lost * 64 / H)
    untold = account(life(6500, ROWS, DEATH))
    assert untold.accelerator_hours_lost is None
    assert untold.accelerators_why == "the job's host is not in cockpit.toml"


def test_rows_that_are_not_read_yet_are_not_counted() -> None:
    past = life(6500, ROWS, DEATH, rows_from=0.4)
    found = account(past)
    assert found.since == T0 + 700.0
    assert any("rows not read" in line for line in found.evidence)


def test_a_job_whose_steps_nobody_times_is_not_said_to_start() -> None:
    untimed = [Row(step, None, 2.0) for step in range(5)]
    marks = [mark(Phase.WAITING, 0), mark(Phase.RUNNING, 600)]
    found = account(life(6500, untimed, marks))
    assert (found.split.waiting_s, found.split.starting_s) == (600.0, 0.0)
    assert found.split.unwatched_s == pytest.approx(5900)
    silent = account(life(6500, [], marks))
    assert silent.split.starting_s == pytest.approx(5900)


def test_a_run_of_which_nothing_is_known_has_no_account() -> None:
    assert goodput(RUN, history(T0)) is None
    blank = life(100, [], [])
    assert goodput(RUN, blank.model_copy(update={"now": T0})) is None


def test_the_document_is_flat_and_adds_up() -> None:
    document = account(life(6500, ROWS, DEATH)).document()
    parts = [value for name, value in document.items() if name.endswith("_s") and name != "wall_s"]
    assert sum(parts) == pytest.approx(document["wall_s"])
    assert document["restarts"] == {
        "ours": 0,
        "requeues": 0,
        "unknown": 1,
        "total": 1,
        "known": True,
    }
    assert document["since"].endswith("Z")


def test_a_clock_that_is_an_hour_ahead_leaves_no_time_unwatched() -> None:
    """The log of another machine, whose newest step lies in the future."""
    marks = [mark(Phase.WAITING, 0, since=0), mark(Phase.RUNNING, 600, since=600)]
    ahead = account(life(2000, steps(1, 1301, T0 + 700.0 + H), marks))
    right = account(life(2000, steps(1, 1301, T0 + 700.0), marks))
    assert (ahead.split, ahead.since, ahead.until) == (right.split, right.since, right.until)
    assert ahead.split.unwatched_s == 0.0
    assert any("dated up to 1h in the future" in line for line in ahead.evidence)
    assert not any("future" in line for line in right.evidence)


def test_one_write_in_the_future_is_the_first_step_seen_until_now() -> None:
    marks = [mark(Phase.RUNNING, 0, since=0)]
    found = account(life(600, [Row(100, T0 + 600 + H, 2.0)], marks))
    assert (found.split.starting_s, found.split.unwatched_s) == (600.0, 0.0)


def test_a_clock_that_was_set_while_steps_came_tells_when_none_was_made() -> None:
    """By their last one they would have begun before the job did."""
    marks = [mark(Phase.RUNNING, 0, since=0)]
    found = account(life(600, [*steps(1, 400, T0 + 100.0), *steps(401, 500, T0 + 500 + H)], marks))
    assert found.share is None and found.until == T0 + 600
    assert found.evidence[0] == "steps are dated up to 60m in the future: they are not counted"
