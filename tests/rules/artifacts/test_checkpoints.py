from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import Facet
from cockpit.model.history import CheckpointMark, History
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Phase, Row
from cockpit.model.run import CheckpointSpec, RunSpec
from cockpit.rules.lineage.checkpoints import checkpoint_not_advancing, rollback_cover_thin
from tests.rules.making import (
    T0,
    blind,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    log,
    run_spec,
    seen,
    tracker,
)

EVERY = 300.0
TORN, WRITING = CheckpointState.INCOMPLETE, CheckpointState.WRITING


def alerts(past: History, run: RunSpec | None = None) -> list[Alert]:
    return list(checkpoint_not_advancing(run or run_spec(), past))


def stepping(stepped: float, value: object, phase: Phase = Phase.RUNNING) -> History:
    return history(
        T0 + stepped, job=job(phase), tracker=tracker(last_step_at=T0 + stepped), checkpoints=value
    )


def test_steps_that_move_two_intervals_past_the_newest_save() -> None:
    saved = checkpoints(checkpoint(100, T0 + 50))
    (alert,) = alerts(stepping(50 + 2 * EVERY + 1, saved))
    assert (alert.id, alert.key, alert.since) == ("C-07", "C-07:toy", T0 + 50)
    assert alerts(stepping(50 + 2 * EVERY, saved)) == []


def test_steps_that_stand_still_make_no_checkpoint_late() -> None:
    saved = checkpoints(checkpoint(100, T0 + 50))
    past = history(T0 + 9000, job=job(), tracker=tracker(last_step_at=T0 + 200), checkpoints=saved)
    assert alerts(past) == []


def test_none_at_all_is_late_after_two_intervals_of_training() -> None:
    assert alerts(stepping(2 * EVERY, checkpoints())) == []
    (alert,) = alerts(stepping(2 * EVERY + 1, checkpoints()))
    assert alert.evidence[0].text == "there is no complete checkpoint"


def test_a_relaunch_gets_its_own_time_to_save() -> None:
    saved = checkpoints(checkpoint(100, T0 - 9000))
    assert alerts(stepping(EVERY, saved)) == []


def test_without_an_interval_nothing_is_late() -> None:
    run = run_spec(checkpoints=CheckpointSpec(path=("/c",)))
    assert alerts(stepping(9000, checkpoints(checkpoint(1, T0))), run) == []


def test_a_listing_that_grows_old_makes_nothing_late() -> None:
    value: Facet[CheckpointsValue] = Facet(
        value=checkpoints(checkpoint(100, T0 + 50)),
        source="/c",
        observed_at=T0 + 60,
        error=blind().error,
    )
    assert alerts(stepping(9000, value)) == []
    assert alerts(stepping(9000, blind())) == []


def test_one_being_written_is_fine_until_it_takes_longer_than_an_interval() -> None:
    fine = checkpoints(checkpoint(100, T0 + 400), checkpoint(200, T0 + 500, WRITING))
    assert alerts(stepping(500 + EVERY, fine)) == []
    (alert,) = alerts(stepping(501 + EVERY, fine))
    assert (alert.key, alert.severity) == ("C-07:toy:step-200", Severity.ALERT)


def test_a_torn_one_of_a_dead_job_is_said_at_once() -> None:
    value = checkpoints(checkpoint(100, T0), checkpoint(104, T0 + 10, TORN))
    (alert,) = alerts(stepping(11, value, Phase.FAILED))
    assert alert.title == "Checkpoint 104 is torn: the job died while writing it"
    assert alert.next_action == "resume from 100, the newest complete checkpoint"


def test_a_torn_one_that_a_later_save_has_overtaken_is_information() -> None:
    value = checkpoints(checkpoint(104, T0, TORN), checkpoint(200, T0 + 990))
    (alert,) = alerts(stepping(1000, value))
    assert alert.severity is Severity.INFO


def test_a_listing_from_before_the_end_shows_no_torn_one() -> None:
    value: Facet[CheckpointsValue] = Facet(
        value=checkpoints(checkpoint(104, T0 + 10, WRITING)), source="/c", observed_at=T0 + 11
    )
    ended = job(Phase.SUCCEEDED, ended_at=T0 + 12)
    assert alerts(history(T0 + 13, job=ended, checkpoints=value)) == []


def stopped_for(pause: float, after: float) -> History:
    """A run that steps each second, is stopped at 100 s, and steps on for ``after`` seconds."""
    times = [*range(101), *(100 + pause + i for i in range(int(after) + 1))]
    rows = [Row(i, T0 + at, 1.0) for i, at in enumerate(times)]
    value = checkpoints(checkpoint(90, T0 + 90))
    return history(
        T0 + 100 + pause + after,
        trend=folded(rows),
        job=job(),
        tracker=tracker(last_step_at=rows[-1].at),
        checkpoints=value,
    )


def test_the_time_in_which_training_was_stopped_makes_no_checkpoint_late() -> None:
    assert alerts(stopped_for(9000, 0)) == []
    assert alerts(stopped_for(9000, 2 * EVERY - 10)) == []
    (alert,) = alerts(stopped_for(9000, 2 * EVERY - 9 + 1))
    assert alert.since == T0 + 90


def test_a_first_step_after_a_stop_that_is_not_folded_yet_makes_none_late_either() -> None:
    past = stopped_for(1, 0)
    later = past.now + 9000
    value = checkpoints(checkpoint(90, T0 + 90))
    facets = seen(later, job=job(), tracker=tracker(last_step_at=later), checkpoints=value)
    assert alerts(past.model_copy(update={"now": later, "facets": facets})) == []


def test_steps_that_only_the_log_shows_make_it_late_all_the_same() -> None:
    past = stopped_for(1, 0)
    lines = log(rows=tuple(Row(200 + i, past.now + i, 1.0) for i in range(700)))
    value = checkpoints(checkpoint(90, T0 + 90))
    later = past.now + 700
    facets = seen(later, job=job(), tracker=tracker(), log=lines, checkpoints=value)
    (alert,) = alerts(past.model_copy(update={"now": later, "facets": facets}))
    assert alert.id == "C-07"


def hero(depth: int = 3, protect: tuple[int, ...] = ()) -> RunSpec:
    spec = CheckpointSpec(path=("/c",), rollback_depth=depth, protect=protect)
    return run_spec(tier="hero", checkpoints=spec)


def past(*steps: int, marks: tuple[tuple[int, int | None], ...], **more: Any) -> History:
    found = checkpoints(*(checkpoint(step, T0) for step in steps))
    seen = tuple(
        CheckpointMark(at=T0 + index, complete=count, newest=newest)
        for index, (count, newest) in enumerate(marks)
    )
    made = history(T0 + 100, **{"checkpoints": found, "job": job(), **more})
    return made.model_copy(update={"checkpoints": seen})


def fired(run: RunSpec, told: History) -> list[Alert]:
    return list(rollback_cover_thin(run, told))


@pytest.mark.parametrize(
    ("marks", "thin"),
    [
        (((1, 1), (2, 2)), False),
        (((1, 1), (2, 2), (3, 3), (2, 3)), True),
        (((5, 5), (4, 5)), True),
        (((5, 5), (2, 2)), False),
        (((5, 5), (0, None)), True),
        ((), False),
    ],
)
def test_only_what_was_there_can_be_gone(
    marks: tuple[tuple[int, int | None], ...], thin: bool
) -> None:
    assert bool(fired(hero(), past(1, 2, marks=marks))) is thin


def test_an_ordinary_run_needs_one() -> None:
    marks = ((5, 5), (1, 5))
    assert not fired(run_spec(), past(5, marks=marks))
    assert fired(run_spec(), past(marks=((5, 5), (0, None))))


def test_a_protected_one_that_is_gone_is_named() -> None:
    run = hero(1, protect=(100, 200, 900))
    (alert,) = fired(run, past(199, 300, marks=((2, 300),)))
    assert "100" in alert.title and alert.id == "C-08"


def test_what_cannot_be_seen_is_not_gone_and_an_end_in_success_needs_no_cover() -> None:
    marks = ((5, 5), (0, None))
    assert not fired(hero(), past(marks=marks, checkpoints=blind()))
    assert not fired(hero(), past(marks=marks, job=job(Phase.SUCCEEDED)))


def test_with_a_root_that_could_not_be_listed_nothing_is_late_and_nothing_gone() -> None:
    saved = checkpoints(checkpoint(100, T0 + 50))
    partly = saved.model_copy(update={"unlisted": ("gs://bucket/x",)})
    assert alerts(stepping(9000, saved)) and not alerts(stepping(9000, partly))
    marks = ((5, 5), (0, None))
    assert fired(hero(), past(marks=marks))
    assert not fired(hero(), past(marks=marks, checkpoints=partly))


def test_what_a_former_job_left_torn_is_litter_of_the_new_one() -> None:
    began = T0 + 1000
    value = checkpoints(checkpoint(100, T0 + 50), checkpoint(200, T0 + 90, TORN))
    past = history(T0 + 9000, job=job(started_at=began), checkpoints=value,
                   tracker=tracker(last_step_at=T0 + 1100))  # fmt: skip
    (alert,) = alerts(past)
    assert (alert.severity, alert.key) == (Severity.INFO, "C-07:toy:step-200")
    assert alert.title == "Checkpoint 200 is torn: left by an earlier job"
    assert "full disk" not in alert.next_action and "stuck" not in alert.title
    own = checkpoints(checkpoint(100, T0 + 50), checkpoint(200, began + 90, TORN))
    late = past.facets.model_copy(
        update={"checkpoints": seen(T0 + 9000, checkpoints=own).checkpoints}
    )
    (alert,) = alerts(past.model_copy(update={"facets": late}))
    assert alert.severity is Severity.ALERT and "full disk" in alert.next_action


def test_one_without_its_data_is_not_called_unfinished() -> None:
    bare = checkpoint(200, T0 + 90, TORN).model_copy(update={"emptied": True})
    (alert,) = alerts(stepping(90 + EVERY + 1, checkpoints(checkpoint(100, T0 + 300), bare)))
    assert alert.title == "Checkpoint 200 is without its data" and "removed" in alert.next_action


def test_one_cause_that_befell_twelve_is_one_alert() -> None:
    bare = [
        checkpoint(step, T0 + step, TORN).model_copy(update={"emptied": True, "note": "no data"})
        for step in range(10, 130, 10)
    ]
    (alert,) = alerts(stepping(EVERY, checkpoints(*bare), Phase.FAILED))
    assert alert.title == "12 checkpoints are without their data"
    assert (alert.key, alert.severity) == ("C-07:toy:step-10", Severity.ALERT)
    assert [each.text for each in alert.evidence] == [
        "no data",
        "12 like it: 10, 20, 30, 40, 50, 60, …, 120",
    ]
    (more,) = alerts(stepping(EVERY, checkpoints(*bare[:3]), Phase.FAILED))
    assert more.key == alert.key, "it stays the same while more follow"
    torn = [checkpoint(step, T0 + step, TORN) for step in (100, 200, 300)]
    (old,) = alerts(
        history(
            T0 + 9000,
            job=job(started_at=T0 + 5000),
            checkpoints=checkpoints(*torn),
            tracker=tracker(last_step_at=T0 + 5100),
        )
    )
    assert (old.severity, old.title[:15]) == (Severity.INFO, "3 checkpoints a")


def spoilt(*steps: int) -> list[Checkpoint]:
    why = "loss nan from step 130"
    return [checkpoint(s, T0 + s).model_copy(update={"suspect": why}) for s in steps]


def test_suspect_ones_are_no_rollback_cover() -> None:
    good = [checkpoint(step, T0 + step) for step in (50, 100)]
    run = run_spec(tier="hero", checkpoints=CheckpointSpec(path=("/c",), rollback_depth=3))

    def cover(marks: list[tuple[int, int]], *items: Checkpoint) -> list[Alert]:
        past = history(T0 + 900, job=job(), checkpoints=checkpoints(*items))
        seen_marks = tuple(CheckpointMark(at=T0 + n, complete=c, newest=n) for n, c in marks)
        return list(rollback_cover_thin(run, past.model_copy(update={"checkpoints": seen_marks})))

    kept = [(50, 1), (100, 2), (150, 3), (200, 4)]
    assert cover(kept, *good, *spoilt(150, 200)) == []
    (alert,) = cover(kept, good[1], *spoilt(150, 200))
    assert "1 complete checkpoints, of 2" in alert.evidence[0].text
    assert "2 suspect not counted" in alert.evidence[0].text


def kept_of_an_hour(count: int, keep: int | None = 5) -> list[Alert]:
    """An hour of steps, saved every 5 minutes, of which the newest ``count`` are there."""
    rows = [Row(step, T0 + 60 * step, 2.0) for step in range(61)]
    now = T0 + 3600
    saved = [checkpoint(60 - 5 * back, now - EVERY * back) for back in reversed(range(count))]
    past = history(now, folded(rows), job=job(), tracker=tracker(last_step_at=now),
                   checkpoints=checkpoints(*saved))  # fmt: skip
    spec = CheckpointSpec(path=("/c",), save_every=EVERY, rollback_depth=4, keep=keep)
    return fired(run_spec(tier="hero", checkpoints=spec), past)


def test_fewer_than_the_policy_should_have_left_by_now_is_thin_from_the_first_look() -> None:
    (alert,) = kept_of_an_hour(2)
    assert alert.evidence[0].text == (
        "2 complete checkpoints, of 5 that the policy should have kept; rollback depth 4"
    )
    assert kept_of_an_hour(4) == []
    assert kept_of_an_hour(2, keep=2) == [], "a policy that keeps two can leave no more"
    assert kept_of_an_hour(2, keep=None) == [], "how many it keeps is not known"
    assert kept_of_an_hour(0) == [], "nothing was saved at all: C-07 says so"
