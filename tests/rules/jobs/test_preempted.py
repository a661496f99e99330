"""C-26: a notice that the job is about to be taken away."""

from __future__ import annotations

from typing import Any

from cockpit.model.observed import Phase
from cockpit.model.shared_facts import Announced, Notice
from cockpit.rules.jobs.jobstate import OVER, preemption_noticed
from tests.rules.making import T0, history, job, log, run_spec, tracker


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
