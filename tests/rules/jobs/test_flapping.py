"""C-14: restarts within the window, by whoever has counted them."""

from __future__ import annotations

from typing import Any

from cockpit.model.history import History, Launched, PhaseMark
from cockpit.model.observed import Phase, Row
from cockpit.model.run import Thresholds
from cockpit.rules.jobs.restarts import flapping, restarted, restarts_in
from cockpit.rules.metrics.resume import resumed_elsewhere
from tests.rules.making import T0, checkpoint, checkpoints, folded, history, job, monitor, run_spec

HOUR = 3600.0


def found(now: float, *marks: PhaseMark, run: Any = None, **more: Any) -> list[str]:
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
    assert found(T0 + 4 * HOUR, *marks) == ["Keeps restarting: 3 times within 6h"]
    assert found(T0 + 4 * HOUR, *marks[:-1]) == []
    assert found(T0 + 7.2 * HOUR, *marks) == [], "the first lies too long ago"
    twice = run_spec(thresholds=Thresholds(flap_restarts=2))
    assert found(T0 + 4 * HOUR, *marks[:-1], run=twice) != []
    assert found(T0 + 4 * HOUR, *marks, job=job(Phase.SUCCEEDED)) == []


def test_waiting_running_and_not_knowing_are_no_restarts() -> None:
    marks = seen((0, "a", Phase.WAITING), (1, "a", UP), (2, "a", DARK), (3, "a", UP),
                 (3.5, "a", DARK), (4, "a", UP))  # fmt: skip
    assert found(T0 + 4 * HOUR, *marks) == []


def test_what_a_platform_or_a_monitor_counts_lies_in_the_window_or_does_not_count() -> None:
    ours = Launched(at=T0, job_id="host:1", launch_id="toy-i002")
    again = job(restarts=4, launch_id="toy-i002")
    assert found(T0 + HOUR, job=again, launched=ours) != []
    assert found(T0 + 7 * HOUR, job=again, launched=ours) == []
    assert found(T0 + HOUR, job=job(restarts=4)) == []
    path = "/s/20270115-0700_monitoring_state.json"
    assert found(T0 + HOUR, monitor=monitor(T0, restart_count=3, path=path)) != []
    assert found(T0 + HOUR, monitor=monitor(T0, restart_count=3, path="/s/state.json")) == []


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
