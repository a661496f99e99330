"""C-14: restarts within the window, by whoever has counted them."""

from __future__ import annotations

from typing import Any

from cockpit.model.history import Launched, PhaseMark
from cockpit.model.observed import Phase
from cockpit.model.run import Thresholds
from cockpit.rules.jobs.flapping import flapping
from tests.rules.making import T0, history, job, monitor, run_spec

HOUR = 3600.0


def found(now: float, *marks: PhaseMark, run: Any = None, **more: Any) -> list[str]:
    facets: dict[str, Any] = {"job": job(), **more}
    launched = facets.pop("launched", None)
    past = history(now, phases=marks, **facets).model_copy(update={"launched": launched})
    return [each.title for each in flapping(run or run_spec(), past)]


def seen(*jobs: tuple[float, str, Phase]) -> list[PhaseMark]:
    return [PhaseMark(at=T0 + at * HOUR, phase=phase, job_id=name) for at, name, phase in jobs]


UP, DOWN, DARK = Phase.RUNNING, Phase.FAILED, Phase.UNKNOWN


def test_three_restarts_in_six_hours_and_no_longer() -> None:
    marks = seen((0, "a", UP), (1, "a", DOWN), (1.1, "b", UP), (2, "c", UP), (3, "c", DOWN),
                 (3.1, "c", UP))  # fmt: skip
    assert found(T0 + 4 * HOUR, *marks) == ["it flaps: 3 restarts within 6h"]
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
