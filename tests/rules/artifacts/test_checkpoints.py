"""A-6: what may go and what stays; what is not known stays.

Which saves are suspect: by step, and by the trajectory that saved them (SPEC K).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert, Severity
from cockpit.model.facet import Facet
from cockpit.model.history import CheckpointMark, History
from cockpit.model.observed import Checkpoint, CheckpointState, CheckpointsValue, Phase, Row
from cockpit.model.run import CheckpointSpec, RunSpec
from cockpit.model.trend import Trend
from cockpit.rules.lineage.checkpoints import (
    Decision,
    Needed,
    Policy,
    checkpoint_not_advancing,
    decide,
    policy_of,
    rollback_cover_thin,
)
from cockpit.rules.lineage.lineages import with_suspects_marked as marked
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.metrics.resume import resumed_elsewhere
from tests.rules.making import (
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
    seen,
    tracker,
)
from tests.rules.making import (
    tracker as tracked,
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


COMPLETE, REJECTED = CheckpointState.COMPLETE, CheckpointState.REJECTED


def item(step: int, state: CheckpointState = COMPLETE, **changes: Any) -> Checkpoint:
    made = checkpoint(step, T0, state)
    return made.model_copy(update={"step": step if state is COMPLETE else None, **changes})


def decided(*items: Checkpoint, now: float = T0 + 9000, **policy: Any) -> dict[int, Decision]:
    found = decide(items, Policy(**{"keep": 2, **policy}), Needed(now=now))
    return {each.item.name_step or 0: each for each in found}


def gone(*items: Checkpoint, **more: Any) -> list[int]:
    return [step for step, each in decided(*items, **more).items() if each.delete]


def test_the_newest_stay_by_number_not_by_name() -> None:
    assert gone(item(900), item(1000), item(1100)) == [900]
    assert gone(item(99), item(100), item(1000)) == [99]


def test_copies_of_one_step_count_once() -> None:
    twin = item(1100, path="/t/step-1100")
    assert gone(item(900), item(1000), item(1100), twin) == [900]


def test_what_is_agreed_stays() -> None:
    many = [item(step) for step in (50, 100, 150, 200, 250, 300, 999)]
    assert gone(*many, protect=(150,), permanent_every=100) == [50, 250]
    assert gone(item(10), *many, final_step=11) == [50, 100, 150, 200, 250]


def test_a_temporary_one_is_no_milestone_and_steps_may_count_from_zero() -> None:
    old = item(100, permanent=False)
    assert gone(old, item(199), item(300), item(400), permanent_every=100) == [100]


def test_torn_ones_go_when_they_are_old_enough() -> None:
    torn = item(250, CheckpointState.INCOMPLETE, touched_at=T0)
    assert gone(torn, item(300), save_every=600.0) == [250]
    assert gone(torn, item(300), save_every=600.0, now=T0 + 500) == []
    assert gone(torn, save_every=600.0) == []


def test_what_is_not_known_and_what_is_written_stays() -> None:
    odd = [
        item(1, CheckpointState.UNKNOWN),
        item(2, CheckpointState.WRITING),
        item(3, CheckpointState.INCOMPLETE, touched_at=None),
        checkpoint(4, T0).model_copy(update={"step": None}),
    ]
    assert gone(*odd, item(300), item(400), item(500)) == [300]


def test_a_rejected_one_may_go_and_says_why() -> None:
    bad = item(400, REJECTED, note="rejected by ada: spike")
    found = decided(bad, item(100), item(200))[400]
    assert (found.delete, found.why) == (True, "rejected by ada: spike")


def test_sources_and_what_the_trainer_loads_stay() -> None:
    items = [item(step) for step in (1, 2, 3, 4)]
    needed = Needed(now=T0, trainer_would_load="/c/step-1", sources={"/c/step-2": "launch"})
    found = decide(items, Policy(keep=1), needed)
    assert [each.item.step for each in found if each.delete] == [3]
    assert found[1].why == "launch"


def test_the_policy_is_never_below_the_rollback_depth() -> None:
    run = run_spec(checkpoints=CheckpointSpec(path=("/c",), keep=4, rollback_depth=3))
    assert [policy_of(run, keep).keep for keep in (None, 9, 3, 1, 0)] == [4, 9, 3, 3, 3]
    assert policy_of(run_spec(), 0).keep == 1
    assert policy_of(run_spec()).keep == 10


@given(
    steps=st.lists(st.integers(0, 10**6), unique=True, max_size=40),
    keep=st.integers(-5, 50),
    every=st.sampled_from([None, 1, 7, 100]),
)
def test_the_newest_is_never_deleted_nor_fewer_left_than_asked(
    steps: list[int], keep: int, every: int | None
) -> None:
    found = decide(
        [item(step) for step in steps], Policy(keep=keep, permanent_every=every), Needed(now=T0)
    )
    left = [each.item.step for each in found if not each.delete]
    assert len(left) >= min(len(steps), max(1, keep))
    assert not steps or max(steps) in left
    assert all(each.why for each in found)


def test_suspect_ones_never_take_the_place_of_good_ones() -> None:
    spoilt = [item(step, suspect="loss was nan") for step in (150, 200, 250, 300)]
    good = [item(step) for step in (40, 50, 100)]
    assert gone(*good, *spoilt) == [40, 150, 200]
    kept = decided(*good, *spoilt)
    assert kept[100].why == "one of the newest 2"
    assert kept[300].why == "one of the newest 2 that are suspect"


NAN = float("nan")
SAVES = tuple(range(50, 301, 50))


def saves(steps: Sequence[int] = SAVES, start: float = T0) -> list[tuple[int, float]]:
    """Each step's save, one second after its row (``losses`` logs a step a second)."""
    return [(step, start + step + 1) for step in steps]


def judged(past: History, log_trend: Trend | None = None) -> CheckpointsValue:
    log = log_trend or Trend()
    trend = past.trend if past.trend.rows else log
    value = marked(past.model_copy(update={"trend": trend, "log_trend": log})).checkpoints.value
    assert value is not None
    return value


def looked(
    rows: list[Row], found: list[tuple[int, float]], log_trend: Trend | None = None, **more: object
) -> tuple[list[int | None], int | None]:
    """Return the suspect steps and the step that a relaunch takes."""
    items = checkpoints(*(checkpoint(step, at) for step, at in found))
    past = history(T0 + 1e5, folded(rows), checkpoints=items, **more)
    value = judged(past, log_trend)
    pick = value.relaunch_from
    suspect = [item.step for item in value.items if item.suspect]
    return suspect, None if pick is None else pick.step


def broken(at: int, until: int = 301) -> list[Row]:
    return losses([2.0] * at + [NAN] * (until - at))


def test_saves_from_the_first_non_finite_step_on_are_suspect() -> None:
    assert looked(broken(130), saves()) == ([150, 200, 250, 300], 100)
    assert looked(broken(150), saves()) == ([150, 200, 250, 300], 100)
    assert looked(losses([2.0] * 301), saves())[0] == []
    assert looked(broken(10), saves()) == (list(SAVES), None)


def test_the_reason_names_the_step_and_the_value() -> None:
    items = checkpoints(*(checkpoint(step, at) for step, at in saves()))
    value = judged(history(T0 + 1e5, folded(broken(130)), checkpoints=items))
    assert value.items[-1].suspect == "loss nan from step 130"
    assert value.latest_complete == 300
    assert "newest complete that is not suspect" in value.items[1].protected


def test_an_open_spike_counts_from_its_first_step_and_a_closed_one_does_not() -> None:
    spike = losses([2.0 + step % 5 / 100 for step in range(130)] + [9.0] * 171)
    assert looked(spike, saves()) == ([150, 200, 250, 300], 100)
    calm = [*spike[:180], *losses([2.0] * 121, first_step=180)]
    assert looked(calm, saves())[0] == []


def test_an_open_climb_counts_from_where_the_level_left_and_a_closed_one_does_not() -> None:
    climb = losses([2.0] * 100 + [2.8] * 201)  # the level, a median of 50 rows, leaves at 125
    assert looked(climb, saves()) == ([150, 200, 250, 300], 100)
    items = checkpoints(*(checkpoint(step, at) for step, at in saves()))
    value = judged(history(T0 + 1e5, folded(climb), checkpoints=items))
    assert value.items[-1].suspect == "loss climb from step 125"
    assert looked([*climb, *losses([2.0] * 20, first_step=301)], saves())[0] == []


def test_after_a_rollback_the_replayed_steps_are_good_and_the_old_saves_are_not() -> None:
    again = [Row(step, T0 + 1000 + step, 2.0) for step in range(101, 301)]
    rows = [*broken(130), *again]
    fresh = saves((150, 200, 250, 300), T0 + 1000)
    assert looked(rows, [*saves((50, 100)), *fresh])[0] == []
    assert looked(rows, [*saves((50, 100, 250, 300)), *fresh[:2]]) == ([250, 300], 200)
    early = [*broken(130), *again[:60]]
    assert looked(early, [*saves((50, 100, 300)), fresh[0]]) == ([300], 150)


def test_a_replay_that_breaks_again_is_judged_by_its_own_first_step() -> None:
    again = [Row(s, T0 + 1000 + s, 2.0 if s < 240 else NAN) for s in range(101, 301)]
    fresh = saves((150, 200, 250, 300), T0 + 1000)
    assert looked([*broken(130), *again], [*saves((50, 100)), *fresh]) == ([250, 300], 200)


def test_an_older_trajectory_that_was_sound_stays_good() -> None:
    sound = losses([2.0] * 301)
    again = [Row(s, T0 + 1000 + s, 2.0 if s < 180 else NAN) for s in range(101, 231)]
    found = [*saves((50, 100, 250, 300)), (150, T0 + 1151.0), (200, T0 + 1201.0)]
    assert looked([*sound, *again], found) == ([200], 300)


def test_a_relaunch_from_within_stays_suspect_until_the_numbers_are_back() -> None:
    on = [Row(s, T0 + 1000 + s, NAN) for s in range(201, 231)]
    assert looked([*broken(130), *on], saves((100, 150, 200)))[0] == [150, 200]
    sound = [Row(s, T0 + 2000 + s, 2.0) for s in range(231, 340)]
    found = [*saves((100, 150, 200)), (300, T0 + 2301.0)]
    assert looked([*broken(130), *on, *sound[:50]], found)[0] == [150, 200, 300]
    assert looked([*broken(130), *on, *sound], found)[0] == [150, 200]


def test_the_present_job_s_saves_are_its_own_where_rows_have_no_time() -> None:
    rows = [row._replace(at=None) for row in broken(130)]
    again = [Row(step, None, 2.0) for step in range(101, 301)]
    found = [*saves((100, 300)), (150, T0 + 1151.0)]
    began = job(Phase.RUNNING, started_at=T0 + 1000)
    assert looked([*rows, *again], found, job=began)[0] == [300]


def test_the_log_alone_is_enough_and_a_tracker_behind_it_too() -> None:
    assert looked([], saves(), folded(broken(130))) == ([150, 200, 250, 300], 100)
    behind = losses([2.0] * 120)
    tail = folded(losses([NAN] * 101, first_step=200))
    assert looked(behind, saves(), tail) == ([200, 250, 300], 150)


def test_what_leaves_its_trend_only_where_rows_are_few_did_not() -> None:
    every_fifth = [Row(5 * n, T0 + 5 * n, 2.0 if n < 35 else 6.0) for n in range(61)]
    few = folded(every_fifth)
    assert few.loss.is_open
    assert looked([], saves(), few)[0] == [200, 250, 300], "the log alone is believed"
    assert looked(losses([2.0] * 301), saves(), few)[0] == [], "all rows say that it is sound"
    behind = losses([2.0] * 160)
    assert looked(behind, saves(), few)[0] == [200, 250, 300], "they do not reach so far"


def test_rows_that_are_not_read_may_hide_an_earlier_beginning() -> None:
    tail = losses([NAN] * 101, first_step=200)
    assert looked(tail, saves(), rows_from=0.5)[0] == list(SAVES)
    assert looked([], saves(), folded(tail), rows_from=0.5)[0] == list(SAVES)
    assert looked(tail, saves())[0] == [200, 250, 300]


def test_the_tracker_s_newest_value_counts_before_its_row_is_folded() -> None:
    value = tracked(step=240, loss=NAN, last_step_at=T0 + 240)
    assert looked(losses([2.0] * 231), saves(), tracker=value) == ([250, 300], 200)


def test_one_without_a_step_goes_by_its_time() -> None:
    early, late = (
        checkpoint(1, T0 + at).model_copy(update={"step": None, "name_step": None, "path": path})
        for at, path in ((100, "/c/a.pt"), (200, "/c/b.pt"))
    )
    value = judged(history(T0 + 1e5, folded(broken(130)), checkpoints=checkpoints(early, late)))
    assert [item.suspect is not None for item in value.items] == [False, True]
    assert value.relaunch_from is not None and value.relaunch_from.path == "/c/a.pt"


VALUES = st.sampled_from([2.0, 2.1, 9.0, NAN, None])
PARTS = st.lists(st.tuples(st.integers(0, 60), st.lists(VALUES, max_size=40)), max_size=5)


@given(PARTS, st.integers(1, 17))
def test_it_does_not_matter_how_rows_are_cut_into_batches(
    parts: list[tuple[int, list[float | None]]], size: int
) -> None:
    rows = [Row(first + n, T0 + n, loss) for first, part in parts for n, loss in enumerate(part)]
    run, by_parts = run_spec(), Trend()
    for start in range(0, len(rows), size):
        by_parts = advance(by_parts, rows[start : start + size], run)
    whole = advance(Trend(), rows, run)
    assert by_parts.taints.model_dump_json() == whole.taints.model_dump_json()
    again = Trend.model_validate_json(whole.model_dump_json())
    assert again.model_dump_json() == whole.model_dump_json()


def test_who_goes_back_to_before_the_suspect_ones_has_not_restarted_wrongly() -> None:
    again = [Row(step, T0 + 1000 + step, 2.0) for step in range(101, 160)]
    items = checkpoints(*(checkpoint(step, at) for step, at in saves((50, 100, 250, 300))))

    def restarted(former: list[Row]) -> list[str]:
        by_hand = job(Phase.RUNNING, started_at=T0 + 1050)
        past = history(T0 + 1e5, folded([*former, *again]), checkpoints=items, job=by_hand)
        past = past.model_copy(update={"facets": marked(past)})
        return [alert.title for alert in resumed_elsewhere(run_spec(), past)]

    assert restarted(broken(130)) == []
    assert restarted(losses([2.0] * 301)) == ["Restarted at step 101 although step 300 was there"]


def test_one_that_no_row_speaks_for_is_taken_with_a_remark() -> None:
    rows = [Row(step, T0 + step, 2.0 if step < 130 else NAN) for step in range(0, 301, 20)]
    items = checkpoints(*(checkpoint(step, at) for step, at in saves((100, 125, 150))))
    value = judged(history(T0 + 1e5, folded(rows), checkpoints=items))
    assert [item.suspect is not None for item in value.items] == [False, False, True]
    assert value.items[0].note is None
    remark = "saved between step 120, still good, and step 140, where loss was nan"
    assert value.items[1].note == remark
    assert value.relaunch_from is not None and remark in value.relaunch_from.why
