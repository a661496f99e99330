from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.alert import Alert
from cockpit.model.facet import known
from cockpit.model.history import PhaseMark
from cockpit.model.observed import CodeValue, Phase, RecordsValue, Row
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.rules.judge import judge
from cockpit.rules.lineage.success import success_without_artifacts
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
    run_spec,
    tracker,
)

DONE = job(Phase.SUCCEEDED, exit_code=0, ended_at=T0 + 1000)
FINAL = checkpoints(checkpoint(999, T0 + 999))
W_AND_B = tracker(state="finished", exit_code=0, step=999)


def missing(run: RunSpec | None = None, now: float = T0 + 1001, **facets: Any) -> list[Alert]:
    whole = {"job": DONE, "checkpoints": FINAL, "tracker": W_AND_B, **facets}
    return list(success_without_artifacts(run or run_spec(), history(now, **whole)))


def test_a_finished_run_with_everything_in_place_waits_to_be_sealed() -> None:
    assert missing() == []
    past = history(T0 + 1001, job=DONE, checkpoints=FINAL, tracker=W_AND_B)
    assert judge(run_spec(), past) == ()
    assert verdict(run_spec(), past, ()).value == "finished"
    assert next_action(run_spec(), past, ()) == "seal toy"


def test_step_n_is_final_too() -> None:
    assert missing(checkpoints=checkpoints(checkpoint(1000, T0))) == []


def test_a_missing_final_checkpoint() -> None:
    (alert,) = missing(checkpoints=checkpoints(checkpoint(900, T0)))
    assert alert.id == "C-19"
    assert "no complete checkpoint of the final step 1,000" in alert.title


def test_a_tracker_that_did_not_finish() -> None:
    (alert,) = missing(tracker=tracker(state="running", step=999))
    assert 'the tracker says "running"' in alert.title


@pytest.mark.parametrize("kind", ["trackio", "TensorBoard"])
@pytest.mark.parametrize("state", ["running", "silent"])
def test_a_tracker_that_records_no_end_misses_none(kind: str, state: str) -> None:
    assert missing(tracker=tracker(state=state, step=999, tracker=kind)) == []


def test_an_end_that_is_still_to_come_hides_nothing_that_is_missing() -> None:
    """The file that tells it has the time of a server whose clock is ahead."""
    ahead, now = job(Phase.SUCCEEDED, exit_code=0, ended_at=T0 + 5000), T0 + 1001
    value = tracker(state="finished", exit_code=0, step=600)
    first_seen = PhaseMark(at=now - 60, phase=Phase.SUCCEEDED, job_id="host:1")
    for age, phases in ((0.5, ()), (30.0, (first_seen,))):
        seen = known(value, "W&B", now - age)
        past = history(now, job=ahead, tracker=seen, checkpoints=blind(), phases=phases)
        (alert,) = success_without_artifacts(run_spec(), past)
        assert "ended at step 600 of 1,000" in alert.title and alert.since <= now
    before = history(now, job=ahead, tracker=known(value, "W&B", now - 30), checkpoints=blind())
    assert not list(success_without_artifacts(run_spec(), before)), "it may have gone on since"


def test_short_of_the_final_step() -> None:
    value = tracker(state="finished", exit_code=0, step=600)
    (alert,) = missing(tracker=value, checkpoints=blind())
    assert "ended at step 600 of 1,000" in alert.title


def test_the_last_steps_need_not_be_logged() -> None:
    trend = folded([Row(i * 50, T0 + i, 2.0) for i in range(20)])
    value = tracker(state="finished", exit_code=0, step=950)
    assert missing(tracker=value, checkpoints=blind(), trend=trend) == []


def test_the_end_came_too_early() -> None:
    trend = folded([Row(i, T0 + i, 2.0) for i in range(1000)])
    (alert,) = missing(run_spec(expected_duration=5000.0), trend=trend)
    assert "it ran for 16.7m of the expected 83.3m" in alert.title
    assert missing(run_spec(expected_duration=5000.0), trend=trend, rows_from=0.5) == []


def test_the_logbook_entry_has_one_cadence() -> None:
    run = run_spec(tier="hero", records=RecordsSpec(logbook="l.md"))
    old = RecordsValue(logbook="l.md", last_entry_at=T0 + 10)
    new = RecordsValue(logbook="l.md", last_entry_at=T0 + 1002)
    ended = T0 + 1000
    assert missing(run, now=ended + CADENCE, records=old) == []
    assert len(missing(run, now=ended + CADENCE + 1, records=old)) == 1
    assert missing(run, now=ended + CADENCE + 1, records=new) == []


def test_what_cannot_be_seen_is_not_missing() -> None:
    assert missing(checkpoints=blind(), tracker=blind()) == []
    partly = checkpoints(checkpoint(900, T0)).model_copy(update={"unlisted": ("gs://bucket/x",)})
    assert missing(checkpoints=partly) == []


def test_a_failed_run_is_not_judged_by_its_artifacts() -> None:
    assert missing(job=job(Phase.FAILED), checkpoints=checkpoints()) == []


def test_a_hero_run_that_nobody_seals_is_reminded_of_after_a_day() -> None:
    hero, day = run_spec(tier="hero"), T0 + 1000 + 86400.0
    (alert,) = missing(hero, day + 1)
    assert (alert.key, alert.severity.value) == ("C-19:toy:seal", "info")
    assert (alert.since, alert.next_action) == (day, "seal toy")
    assert missing(hero, day) == [] and missing(run_spec(), day + 1) == []
    assert missing(hero, day + 1, code=CodeValue(sha="1", sealed="seal/toy/999")) == []
    past = history(day + 1, job=DONE, checkpoints=FINAL, tracker=W_AND_B)
    assert verdict(hero, past, [alert]).value == "finished"


def test_where_the_repository_is_not_seen_a_seal_may_be_there() -> None:
    """Its tag may be another machine's: what git does not answer is no missing seal."""
    hero, later = run_spec(tier="hero"), T0 + 1001 + 86400.0
    assert missing(hero, later, code=blind()) == []
    (alert,) = missing(hero, later, code=CodeValue(sha="1"))
    assert alert.title == "Finished, not sealed yet"
    assert missing(hero, later, code=blind(), open=(alert,)) == [alert]
