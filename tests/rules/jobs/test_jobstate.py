"""C-26: a notice that the job is about to be taken away.

A launch of which nobody knows what became of it is said, and nothing else is advised (C-02).

C-14: restarts within the window, by whoever has counted them.
"""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import ErrorKind, Facet, Problem, known
from cockpit.model.history import FormerFailure, History, Launched, PhaseMark, UnsettledLaunch
from cockpit.model.jobs import LiveJob
from cockpit.model.observed import UNCLEAR, JobValue, Phase, Row, Tasks, Triage
from cockpit.model.report import Facets, Verdict
from cockpit.model.run import Thresholds
from cockpit.model.shared_facts import Announced, Notice
from cockpit.rules.jobs.duplicates import IN_HAND, duplicate_job
from cockpit.rules.jobs.jobstate import (
    OVER,
    partial_since,
    pending_too_long,
    preemption_noticed,
    state_unknown,
    walltime_short,
)
from cockpit.rules.jobs.restarts import (
    failure_of,
    flapping,
    left_behind,
    restarted,
    restarts_in,
    same_again,
    same_failure_again,
    sameness,
    signature,
    window,
)
from cockpit.rules.judge import judge
from cockpit.rules.metrics.resume import resumed_elsewhere
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
    monitor,
    run_spec,
    tracker,
)

HALF_HOUR = 1800.0
LATE = T0 + 2 * CADENCE + 1


def test_a_query_that_fails_for_two_cadences_shows_the_other_facets() -> None:
    past = history(
        LATE, job=blind(), log=log("x", mtime=LATE - 1), tracker=tracker(last_step_at=T0 - 900)
    )
    (alert,) = state_unknown(run_spec(), past)
    assert (alert.id, alert.severity, alert.since) == ("C-02", Severity.WARNING, T0)
    told = [line.text for line in alert.evidence]
    assert told[0] == "no answer within 5 s"
    assert told[1] == "log: moving"
    assert told[2].startswith("training steps: no change since ")
    assert told[3] == "checkpoints: unknown"


def test_two_cadences_are_patience() -> None:
    assert list(state_unknown(run_spec(), history(T0 + 2 * CADENCE, job=blind()))) == []


def test_a_state_that_is_not_in_the_table_is_unknown() -> None:
    marks = (PhaseMark(at=T0, phase=Phase.UNKNOWN),)
    value = job(Phase.UNKNOWN, state="REVOKED")
    (alert,) = state_unknown(run_spec(), history(LATE, job=value, phases=marks))
    assert alert.evidence[0].text == 'state "REVOKED"'


def test_a_run_without_a_job_has_no_unknown_state() -> None:
    assert list(state_unknown(run_spec(job=None), history(LATE))) == []


def test_pending_longer_than_half_an_hour_is_a_notice_that_touches_nothing() -> None:
    value = job(Phase.WAITING, pending_since=T0, reason="scale-up", tasks=Tasks(running=1, total=4))
    assert list(pending_too_long(run_spec(), history(T0 + HALF_HOUR, job=value))) == []
    (alert,) = pending_too_long(run_spec(), history(T0 + HALF_HOUR + 1, job=value))
    assert (alert.id, alert.severity, alert.since) == ("C-04", Severity.WARNING, T0)
    assert alert.evidence[0].text == "waiting, 1 of 4 tasks running: scale-up"
    assert "do not touch the cluster" in alert.next_action


def test_what_can_never_start_is_said_at_once() -> None:
    value = job(Phase.WAITING, pending_since=T0, reason="DependencyNeverSatisfied", never=True)
    (alert,) = pending_too_long(run_spec(), history(T0 + 1, job=value))
    assert alert.title == "Job can never start"


def test_a_job_is_late_by_its_schedulers_own_word() -> None:
    value = job(Phase.WAITING, pending_since=T0, expected_start=T0 + 7200)
    assert list(pending_too_long(run_spec(), history(T0 + 7200, job=value))) == []
    (alert,) = pending_too_long(run_spec(), history(T0 + 7201, job=value))
    assert "planned to start it at" in alert.evidence[0].text
    soon = job(Phase.WAITING, pending_since=T0, expected_start=T0 + 60)
    assert list(pending_too_long(run_spec(), history(T0 + HALF_HOUR, job=soon))) == []


def test_a_running_job_is_not_pending() -> None:
    assert list(pending_too_long(run_spec(), history(T0 + 9000, job=job()))) == []


def test_a_job_that_was_looked_at_and_not_recognised_is_said_at_once() -> None:
    value = job(Phase.UNKNOWN, state=UNCLEAR, reason="pid 7 lives, but nothing ties it to this run")
    facet: Facet[JobValue] = Facet(
        value=value,
        source="pid file",
        observed_at=T0,
        error=Problem(kind=ErrorKind.BAD_ANSWER, message=str(value.reason)),
        since=T0,
    )
    (alert,) = state_unknown(run_spec(), history(T0 + 1, job=facet))
    assert (alert.id, alert.severity) == ("C-02", Severity.WARNING)
    assert "nothing ties it" in alert.evidence[0].text and "pid file" in alert.next_action


def test_a_job_of_which_only_a_part_runs_for_long() -> None:
    def found(running: int, since: float | None, phase: Phase = Phase.RUNNING) -> list[str]:
        value = job(phase, tasks=Tasks(running=running, total=4))
        past = history(T0 + 3600, job=value).model_copy(update={"partial_since": since})
        return [each.title for each in pending_too_long(run_spec(), past)]

    assert found(2, T0 + 1799) == ["Job only partly running"]
    assert found(2, T0 + 1800) == []
    assert found(2, None) == [], "since when is not known"


def test_since_when_only_a_part_runs_is_what_looks_in_a_row_have_shown() -> None:
    since, former = None, None
    for at, running in ((1, 4), (2, 3), (3, 2), (4, 4), (5, 1)):
        seen = job(tasks=Tasks(running=running, total=4))
        since = partial_since(since, former, known(seen, "s", T0 + at))
        former = seen
        assert since == {1: None, 2: T0 + 2, 3: T0 + 2, 4: None, 5: T0 + 5}[at]
    assert partial_since(since, former, known(job(Phase.WAITING), "s", T0 + 6)) is None


def test_tasks_that_are_over_wait_for_no_place_and_another_job_begins_anew() -> None:
    most = job(tasks=Tasks(running=3, total=4, over=1))
    assert partial_since(None, None, known(most, "s", T0 + 1)) is None
    some = Tasks(running=2, total=4, over=1)
    assert partial_since(T0, most, known(job(tasks=some), "s", T0 + 1)) == T0
    other = job(id="host:2", started_at=T0 + 5, tasks=some)
    assert partial_since(T0, most, known(other, "s", T0 + 9)) == T0 + 9


def found(now: float = T0 + 60, **facets: Any) -> list[str]:
    past = history(now, **{"job": job(), **facets})
    return [each.evidence[0].text for each in preemption_noticed(run_spec(), past)]


def noticed(at: float) -> Any:
    return log("x", mtime=at, announced=Announced(notice=Notice(line="spot notice", at=at)))


def test_by_the_log_of_this_job_until_it_has_trained_on() -> None:
    assert found(log=noticed(T0 + 50))[0].startswith("spot notice (at ")
    assert found(log=noticed(T0 - 50)) == [], "of the previous job"
    trained = tracker(last_step_at=T0 + 51 + OVER)
    assert found(T0 + 60 + OVER, log=noticed(T0 + 50), tracker=trained) == []
    still = tracker(last_step_at=T0 + 90)
    assert found(T0 + 60 + OVER, log=noticed(T0 + 50), tracker=still) != []


def test_by_the_platform_and_by_the_client() -> None:
    assert found(job=job(reason="worker is being preempted")) != []
    assert "told to make room at" in found(job=job(preempted_at=T0 + 30))[0]
    assert found(job=job(Phase.FAILED, preempted_at=T0 + 30)) == []
    assert found(job=job(reason="preemptible priority class")) == []
    assert found(tracker=tracker(state="preempting")) == ['W&B says "preempting"']
    assert found(job=job(Phase.FAILED, reason="preempted")) == []


def test_what_was_taken_before_and_runs_again_is_not_about_to_be_taken() -> None:
    """Iris counts: it says so of a job for the rest of its life."""
    assert found(job=job(reason="4 of 4 tasks run, preempted 1 time")) == []
    assert found(job=job(reason="3 of 4 tasks run (1 preempted), preempted 12 times")) == []
    both = "4 of 4 tasks run, preempted 2 times; its worker is being reclaimed"
    assert found(job=job(reason=both)) != []


def test_a_client_of_the_job_before_this_one_has_marked_itself_alone() -> None:
    marked = {"state": "preempting", "heartbeat_at": T0 - 60}
    assert found(tracker=tracker(**marked)) == []
    assert found(tracker=tracker(**{**marked, "heartbeat_at": T0 + 5})) != []


LEFT = LiveJob(
    id="12", name="train", why="held leftover of toy-i002: never let go", launch_id="toy-i002",
    started_at=T0,
)  # fmt: skip


def told(phase: Phase, age: float) -> list[str]:
    value = job(phase, id="13", launch_id="toy-i003", held=(LEFT,), rivals_source="slurm here")
    facets = Facets(job=known(value, "slurm here", T0 + age))
    alerts = list(duplicate_job(run_spec(), History(now=T0 + age, facets=facets)))
    for alert in alerts:
        assert (alert.id, alert.key, alert.severity) == ("C-25", "C-25:held:toy", Severity.WARNING)
        assert alert.since == T0 and "cockpit stop toy --only held" in alert.next_action
    return [alert.title for alert in alerts]


def test_what_a_launch_has_left_held_is_told_and_is_no_second_writer() -> None:
    for phase in (Phase.RUNNING, Phase.FAILED):
        assert told(phase, IN_HAND + 1) == ["Held job left over from toy-i002: 12"]


def test_a_launch_that_is_still_under_way_has_left_nothing() -> None:
    assert told(Phase.RUNNING, IN_HAND) == []


LOST = UnsettledLaunch(
    launch_id="toy-i002", action="relaunch", by="ada", since=T0 + 100, text="sbatch: timed out"
)


def judged(value: JobValue) -> tuple[tuple[Alert, ...], str, Verdict]:
    past = history(T0 + 120, job=value).model_copy(update={"unsettled": (LOST,)})
    alerts = judge(run_spec(), past)
    return alerts, next_action(run_spec(), past, alerts), verdict(run_spec(), past, alerts)


def of_launch(alerts: tuple[Alert, ...]) -> Alert:
    (found,) = [alert for alert in alerts if alert.key == "C-02:toy:launch:toy-i002"]
    return found


def test_a_lost_launch_is_unknown_and_no_other_is_advised() -> None:
    dead = job(Phase.FAILED, exit_code=1, ended_at=T0 + 90, launch_id="toy-i001")
    alerts, advice, _ = judged(dead)
    found = of_launch(alerts)
    assert found.severity is Severity.ALERT and found.since == T0 + 100
    assert found.title == "Launch toy-i002 unknown: it may run"
    texts = [each.text for each in found.evidence]
    assert "sbatch: timed out" in texts and any("relaunch by ada" in text for text in texts)
    assert any("asked for it: no job of it is listed" in text for text in texts)
    assert all("start nothing else" in alert.next_action for alert in alerts if alert.id == "C-01")
    assert advice.startswith("start nothing else: ") and "toy-i002" in advice


def test_one_whose_job_is_seen_is_no_trouble() -> None:
    alerts, _, word = judged(job(Phase.RUNNING, id="86", launch_id="toy-i002"))
    found = of_launch(alerts)
    assert found.severity is Severity.INFO and "job 86" in found.title
    assert word is Verdict.HEALTHY


def test_a_job_that_it_left_held_is_named() -> None:
    held = LiveJob(id="87", name="toy", why="held leftover of toy-i002", launch_id="toy-i002")
    alerts, _, _ = judged(
        job(Phase.RUNNING, id="86", launch_id="toy-i001", held=(held,), rivals_source="slurm here")
    )
    told = of_launch(alerts).evidence
    assert ("87: held leftover of toy-i002", "slurm here") in [(e.text, e.source) for e in told]


RUN = run_spec()  # saves every 300 s
SAVED = checkpoints(checkpoint(100, T0))


def test_a_limit_before_the_next_save_is_said_once_it_is_known() -> None:
    (alert,) = walltime_short(RUN, history(T0 + 1, job=job(ends_by=T0 + 299), checkpoints=SAVED))
    assert alert.id == "C-26" and alert.since == T0
    assert "goes on after it" not in alert.next_action


def test_a_job_that_is_signalled_before_its_limit_may_save_then() -> None:
    value = job(ends_by=T0 + 299, signal_before_end=("USR1", 120.0))
    (alert,) = walltime_short(RUN, history(T0 + 1, job=value, checkpoints=SAVED))
    assert alert.severity is Severity.WARNING
    assert alert.next_action.startswith("see that it saves at USR1, which comes at ")
    (alert,) = walltime_short(RUN, history(T0 + 200, job=value, checkpoints=SAVED))
    assert "USR1, which came at " in alert.next_action


@pytest.mark.parametrize(
    "value",
    [
        job(ends_by=T0 + 300),
        job(),
        job(Phase.WAITING, ends_by=T0 + 10),
        job(Phase.FAILED, ends_by=T0 + 10),
    ],
)
def test_a_limit_that_leaves_time_or_is_none_is_fine(value: JobValue) -> None:
    assert list(walltime_short(RUN, history(T0 + 1, job=value, checkpoints=SAVED))) == []


def test_the_time_counts_from_the_start_of_a_job_that_has_not_saved() -> None:
    late = job(started_at=T0 + 100, ends_by=T0 + 399)
    assert list(walltime_short(RUN, history(T0 + 101, job=late, checkpoints=SAVED)))
    enough = job(started_at=T0 + 100, ends_by=T0 + 401)
    assert not list(walltime_short(RUN, history(T0 + 101, job=enough, checkpoints=SAVED)))


def test_a_run_that_is_done_before_loses_nothing() -> None:
    rows = losses([2.0] * 100)  # a step a second: 10 are left
    run = run_spec(final_step=109)
    value = tracker(last_step_at=T0 + 99, step=99, usual_step_s=1.0)
    past = history(
        T0 + 100, folded(rows), job=job(ends_by=T0 + 200), tracker=value, checkpoints=SAVED
    )
    assert list(walltime_short(run, past)) == []
    assert list(walltime_short(RUN, past)), "with 900 steps left it does"


def test_what_goes_on_after_it_is_named() -> None:
    after = LiveJob(id="43", name="hero", why="afterany 42")
    value = job(ends_by=T0 + 10, queued=(after,))
    (alert,) = walltime_short(RUN, history(T0 + 1, job=value, checkpoints=SAVED))
    assert "43 continues after it" in alert.next_action


def test_saves_that_are_overdue_promise_no_next_one() -> None:
    past = history(T0 + 650, job=job(ends_by=T0 + 700), checkpoints=SAVED)
    assert list(walltime_short(RUN, past)) == []


HOUR = 3600.0


def flapping_found(now: float, *marks: PhaseMark, run: Any = None, **more: Any) -> list[str]:
    facets: dict[str, Any] = {"job": job(), **more}
    launched = facets.pop("launched", None)
    past = history(now, phases=marks, **facets).model_copy(
        update={"launched": launched, "restarts": restarts_in(marks)}
    )
    return [each.title for each in flapping(run or run_spec(), past)]


def seen(*jobs: tuple[float, str, Phase]) -> list[PhaseMark]:
    return [PhaseMark(at=T0 + at * HOUR, phase=phase, job_id=name) for at, name, phase in jobs]


UP, DOWN, DARK = Phase.RUNNING, Phase.FAILED, Phase.UNKNOWN


def test_three_restarts_in_six_hours_and_no_longer() -> None:
    marks = seen((0, "a", UP), (1, "a", DOWN), (1.1, "b", UP), (2, "c", UP), (3, "c", DOWN),
                 (3.1, "c", UP))  # fmt: skip
    assert flapping_found(T0 + 4 * HOUR, *marks) == ["Keeps restarting: 3 times within 6h"]
    assert flapping_found(T0 + 4 * HOUR, *marks[:-1]) == []
    assert flapping_found(T0 + 7.2 * HOUR, *marks) == [], "the first lies too long ago"
    twice = run_spec(thresholds=Thresholds(flap_restarts=2))
    assert flapping_found(T0 + 4 * HOUR, *marks[:-1], run=twice) != []
    assert flapping_found(T0 + 4 * HOUR, *marks, job=job(Phase.SUCCEEDED)) == []


def test_waiting_running_and_not_knowing_are_no_restarts() -> None:
    marks = seen((0, "a", Phase.WAITING), (1, "a", UP), (2, "a", DARK), (3, "a", UP),
                 (3.5, "a", DARK), (4, "a", UP))  # fmt: skip
    assert flapping_found(T0 + 4 * HOUR, *marks) == []


def test_what_a_platform_or_a_monitor_counts_lies_in_the_window_or_does_not_count() -> None:
    ours = Launched(at=T0, job_id="host:1", launch_id="toy-i002")
    again = job(restarts=4, launch_id="toy-i002")
    assert flapping_found(T0 + HOUR, job=again, launched=ours) != []
    assert flapping_found(T0 + 7 * HOUR, job=again, launched=ours) == []
    assert flapping_found(T0 + HOUR, job=job(restarts=4)) == []
    path = "/s/20270115-0700_monitoring_state.json"
    assert flapping_found(T0 + HOUR, monitor=monitor(T0, restart_count=3, path=path)) != []
    assert (
        flapping_found(T0 + HOUR, monitor=monitor(T0, restart_count=3, path="/s/state.json")) == []
    )


def flaps(now: float, *restarts: float, **more: Any) -> list[str]:
    past = history(now, **{"job": job(), **more}).model_copy(update={"restarts": restarts})
    return [alert.title for alert in flapping(run_spec(), past)]


def test_three_restarts_in_six_hours_flap_until_they_lie_further_back() -> None:
    hours = [T0 + 3600 * hour for hour in (0, 2, 5, 7)]
    assert flaps(hours[1] + 1, *hours[:2]) == []
    assert flaps(hours[2] + 1, *hours[:3]) == ["Keeps restarting: 3 times within 6h"]
    assert flaps(hours[0] + 6 * 3600 + 1, *hours[:3]) == []
    assert flaps(hours[3] + 1, *hours) == ["Keeps restarting: 3 times within 6h"]
    assert flaps(hours[2] + 1, *hours[:3], job=job(Phase.SUCCEEDED, ended_at=hours[2])) == []


def test_another_execution_is_known_by_its_id_or_its_start() -> None:
    first = job(id="7", started_at=T0)
    assert restarted(first, job(id="8", started_at=T0))
    assert restarted(first, job(id="7", started_at=T0 + 3600))
    assert not restarted(first, job(id="7", started_at=T0 + 1))
    assert not restarted(first, job(id="7", started_at=None))


def test_jobs_of_another_id_are_restarts_and_one_that_was_out_of_sight_is_none() -> None:
    words = [("1", Phase.RUNNING), ("1", Phase.UNKNOWN), ("1", Phase.RUNNING), ("1", Phase.FAILED),
             ("2", Phase.WAITING), ("2", Phase.RUNNING), ("3", Phase.RUNNING)]  # fmt: skip
    marks = [PhaseMark(at=at, phase=word[1], job_id=word[0]) for at, word in enumerate(words)]
    assert restarts_in(marks) == (5, 6)


def lives(*ends: int, pause: float = 60.0) -> History:
    """Return a job whose steps begin again at 1 after each of these, beside a save at 300."""
    rows, at = [], T0
    for end in ends:
        rows += [Row(step, at + step, 2.0) for step in range(1, end + 1)]
        at += end + pause
    saved = checkpoints(checkpoint(300, T0 + 300))
    return history(at, folded(rows), job=job(started_at=T0), checkpoints=saved)


def test_restarts_inside_one_job_are_told_by_its_steps() -> None:
    past = lives(400, 60, 60, 20)
    (flaps,) = flapping(run_spec(), past)
    assert flaps.title == "Keeps restarting: 3 times within 6h"
    assert "3 restarts inside the job" in flaps.evidence[0].text
    (wrong,) = resumed_elsewhere(run_spec(), past)
    assert wrong.title == "Restarted at step 1 although step 300 was there"
    assert "again, inside itself" in wrong.evidence[1].text
    assert list(flapping(run_spec(), lives(400, 60, 60))) == []
    launched = Launched(at=T0, job_id="host:1", launch_id="toy-i001", resumes_from=None)
    ours = past.model_copy(update={"launched": launched})
    assert list(resumed_elsewhere(run_spec(), ours)) == [wrong], "whoever launched the job"


def test_rows_that_come_late_are_no_restart() -> None:
    assert list(flapping(run_spec(), lives(400, 60, 60, 20, pause=0.0))) == []


BOOM = (
    "step 10 loss 2.3",
    "Traceback (most recent call last):",
    '  File "/home/a/train.py", line 3, in <module>',
    "ValueError: bad shape (3, 4)",
)


def failed(*lines: str, launch: str = "toy-i002", **more: Any) -> History:
    value = job(Phase.FAILED, exit_code=1, ended_at=T0 + 77, launch_id=launch)
    return history(T0 + 90, **{"job": value, "log": log(*(lines or BOOM)), **more})


def former(**more: Any) -> FormerFailure:
    plain: dict[str, Any] = {"at": T0, "job_id": "toy-i001", "name": "complex_code_bug"}
    return FormerFailure(**{**plain, **more})


def triage_of(text: str) -> Triage:
    return Triage(name="x", action="escalate", confidence="sure",
                  evidence=(Triage.Line(line=1, text=text),))  # fmt: skip


def test_a_signature_is_the_line_without_its_figures() -> None:
    one = signature(triage_of("2026-01-02 03:04:05 E rank 3 at 0xdeadbeef1: lost 17.5 GiB"))
    two = signature(triage_of("2026-09-09 13:14:15 E rank 5 at 0xcafe1234a: lost 3 GiB"))
    assert one == two
    assert one != signature(triage_of("2026-01-02 03:04:05 E rank 3: found 17.5 GiB"))


def test_what_may_be_relaunched_once_is_the_same_wherever_it_stopped() -> None:
    one, two = (triage_of(text).model_copy(update={"name": "killed"}) for text in ("a", "b"))
    assert signature(one) == signature(two) == "killed"


def test_the_same_line_again_opens_an_alert_until_the_next_job() -> None:
    now = failure_of(run_spec(), failed())
    assert now is not None and now.job_id == "toy-i002"
    before = former(signature=now.signature, step=5_000)
    past = failed().model_copy(update={"former_failures": (before,)})
    (alert,) = same_failure_again(run_spec(), past)
    assert (alert.id, alert.severity) == ("C-14", Severity.ALERT)
    assert "escalate to ada" in alert.next_action and "2 times" in alert.title
    running = past.model_copy(update={"facets": history(T0, job=job()).facets})
    assert list(same_failure_again(run_spec(), running)) == []


def test_a_failure_is_not_its_own_repetition() -> None:
    now = failure_of(run_spec(), failed())
    assert now is not None and same_again([now], now) == ()


def test_the_same_place_counts_and_another_one_does_not() -> None:
    here = former(job_id="b", step=10_060)
    assert sameness(former(step=10_000), here) is not None
    assert sameness(former(step=9_900), here) is None
    assert sameness(former(step=None), here) is None
    assert (window(100), window(100_000)) == (50, 1000)


def test_what_a_person_stopped_is_no_failure() -> None:
    assert failure_of(run_spec(), history(T0, job=job(Phase.CANCELLED))) is None
    past = failed("step 3 loss 1", "KeyboardInterrupt").model_copy(
        update={"former_failures": (former(step=3),)}
    )
    assert list(same_failure_again(run_spec(), past)) == []


def test_a_stop_that_we_ordered_opens_nothing() -> None:
    past = failed(tracker=tracker(step=10)).model_copy(
        update={"former_failures": (former(step=10),), "stop_ordered_by": "ada"}
    )
    assert list(same_failure_again(run_spec(), past)) == []


def test_the_last_step_is_the_furthest_that_anyone_saw() -> None:
    found = failure_of(run_spec(), failed(tracker=tracker(step=44)))
    assert found is not None and found.step == 44


def test_a_requeued_job_that_fails_again_has_failed_twice() -> None:
    values = [
        job(Phase.FAILED, exit_code=1, launch_id="toy-i002", started_at=T0 + at, restarts=count)
        for count, at in ((0, 0.0), (1, 500.0))
    ]
    first, again = (
        failure_of(run_spec(), history(T0 + 900, job=value, log=log(*BOOM))) for value in values
    )
    assert first is not None and again is not None
    assert same_again([first], again) and first.job_id == "toy-i002"


def test_a_failure_is_left_behind_once_another_job_of_the_run_is_the_present_one() -> None:
    run = run_spec()
    first, none = left_behind(run, failed(), None)
    assert first is not None and none is None
    assert left_behind(run, failed(), first) == (first, None)
    next_job = history(T0 + 200, job=job(launch_id="toy-i003"))
    assert left_behind(run, next_job, first) == (None, first)
    later = job(Phase.FAILED, exit_code=1, ended_at=T0 + 500, launch_id="toy-i003")
    at_once = history(T0 + 510, job=later, log=log(*BOOM))
    now, former = left_behind(run, at_once, first)
    assert former == first and now is not None and now.job_id == "toy-i003"


def test_a_failure_is_kept_while_its_job_cannot_be_seen_or_goes_by_another_id() -> None:
    run = run_spec()
    first, _ = left_behind(run, failed(), None)
    assert left_behind(run, history(T0 + 200), first) == (first, None)
    renamed, former = left_behind(run, failed(launch="toy-i009"), first)
    assert former is None and renamed is not None and renamed.job_id == "toy-i009"


def test_what_a_scheduler_gives_every_job_and_what_a_person_stopped_is_left_out() -> None:
    run, line = run_spec(), "slurmstepd: error: *** JOB 7 CANCELLED AT 01:02 DUE TO TIME LIMIT ***"
    limited = failed(line)
    found = failure_of(run, limited)
    assert found is not None and found.name == "walltime"
    assert left_behind(run, limited, None) == (None, None)
    stopped = failed().model_copy(update={"stop_ordered_by": "ada"})
    assert left_behind(run, stopped, None) == (None, None)
