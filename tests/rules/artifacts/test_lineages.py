"""Which saves are this run's: by their order in time, by its rows, by what is known of it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.history import History, PhaseMark
from cockpit.model.lineage import newest_good, relaunch_pick
from cockpit.model.observed import CheckpointState, CheckpointsValue, Phase, Row, Whose
from cockpit.rules.lineage.lineages import with_lineages_marked as marked
from tests.rules.making import T0, checkpoint, checkpoints, folded, history, job, log, losses

DAY = 86_400.0
Saves = Sequence[tuple[int, float]]


def looked(
    saves: Saves, rows: int = 0, started: float | None = T0, **more: object
) -> CheckpointsValue:
    """Return the listing as judged for a run that has logged steps 0 to ``rows`` since T0."""
    made = folded(losses([2.0] * (rows + 1))) if rows else folded([])
    items = checkpoints(*(checkpoint(step, at) for step, at in saves))
    return judged(history(T0 + DAY, made, job=job(started_at=started), checkpoints=items, **more))


def judged(past: History) -> CheckpointsValue:
    value = marked(past).checkpoints.value
    assert value is not None
    return value


def whose(value: CheckpointsValue) -> dict[int | None, Whose]:
    return {item.step: item.whose for item in value.items if item.whose is not Whose.OWN}


def picked(value: CheckpointsValue) -> int | None:
    newest = newest_good(value.items)
    return None if newest is None else newest.step


OLD = [(500, T0 - 2 * DAY), (600, T0 - 2 * DAY + 100), (700, T0 - 2 * DAY + 200)]
NEW = [(100, T0 + 101), (200, T0 + 201), (300, T0 + 301)]


def test_what_lies_there_from_before_and_above_is_another_lineage() -> None:
    value = looked([*NEW, *OLD], rows=310)
    assert whose(value) == dict.fromkeys((500, 600, 700), Whose.OTHER)
    assert (picked(value), value.latest_complete) == (300, 300)
    assert value.mixed is not None
    assert "this run's: steps 100, 200, 300" in value.mixed
    assert "steps 500, 600, 700" in value.mixed


def test_the_same_by_times_alone_is_not_sure_and_not_picked() -> None:
    before = [(step, at - DAY / 4) for step, at in NEW]  # saved before the present job began
    value = looked([*before, *OLD])
    assert whose(value) == dict.fromkeys((500, 600, 700), Whose.UNSURE)
    assert picked(value) == 300 and value.mixed is not None


def test_a_time_far_in_the_future_makes_nothing_another_lineage_for_sure() -> None:
    saves = [(100, T0 + 30 * DAY), (200, T0 - 200), (300, T0 - 100)]
    value = looked(saves)
    assert whose(value) == dict.fromkeys((200, 300), Whose.UNSURE)
    assert value.mixed is not None


def test_the_rows_tell_where_all_times_are_those_of_a_copy() -> None:
    saves = [(step, T0 - 50 + step / 1e5) for step in (100, 200, 300, 500, 600, 700)]
    value = looked(saves, rows=310)
    assert whose(value) == dict.fromkeys((500, 600, 700), Whose.UNSURE)
    assert picked(value) == 300 and value.mixed is not None


def test_a_copy_of_which_nothing_else_is_known_is_not_judged() -> None:
    saves = [(step, T0 - DAY) for step in (100, 200, 300)]
    value = looked(saves)
    assert whose(value) == {} and picked(value) == 300
    assert value.mixed is not None and "times of a copy" in value.mixed
    odd = [(step, T0 - DAY) for step in (100, 150, 300, 310)]
    assert looked(odd, rows=310, started=None).mixed is not None
    assert looked(saves, rows=310, started=None).mixed is None


def test_an_ordinary_run_is_one_lineage() -> None:
    saves = [(step, T0 + step + 1) for step in range(100, 801, 100)]
    assert looked(saves, rows=810).mixed is None
    assert looked(saves, started=None).mixed is None
    assert looked(saves, started=T0 + 780).mixed is None


def test_a_replay_after_a_relaunch_is_no_other_lineage() -> None:
    """It died at 789, had 700 as its last whole one, and saves 700 and what follows again."""
    saves = [(step, T0 + step) for step in range(100, 700, 100)]
    again = [(700, T0 + 5000), (800, T0 + 5100)]
    value = looked([*saves, *again], started=T0 + 4000)
    assert (whose(value), value.mixed, picked(value)) == ({}, None, 800)


def test_a_stretch_that_this_run_has_trained_again_is_kept_and_blocks_nothing() -> None:
    phases = (PhaseMark(at=T0, phase=Phase.RUNNING, job_id="pid:1"),)
    old = [(step, T0 + step) for step in (100, 200, 300, 600, 700)]
    saves = [*old, (400, T0 + 4400), (500, T0 + 4500)]
    value = looked(saves, started=T0 + 4000, phases=phases)
    assert whose(value) == dict.fromkeys((600, 700), Whose.AGAIN)
    assert (value.mixed, picked(value), value.latest_complete) == (None, 500, 500)


def test_a_job_that_has_saved_nothing_yet_keeps_what_is_above_it() -> None:
    again = [Row(step, T0 + 1000 + step, 2.0) for step in range(301, 351)]
    rows = folded([*losses([2.0] * 711), *again])
    saves = [checkpoint(step, T0 + step) for step in range(100, 701, 100)]
    began = job(started_at=T0 + 1250)
    found = judged(history(T0 + DAY, rows, job=began, checkpoints=checkpoints(*saves)))
    assert found.mixed is not None
    assert "has saved nothing yet" in found.mixed and "400" in found.mixed


def test_a_pick_that_no_row_has_reached_is_said_to_be_maybe_another_run_s() -> None:
    saves = [(step, T0 - 2 * DAY + step) for step in (300, 400, 500)]
    items = checkpoints(*(checkpoint(step, at) for step, at in saves))
    items = items.model_copy(update={"relaunch_from": relaunch_pick(items.items)})
    made = folded(losses([2.0] * 51))
    new = judged(history(T0 + DAY, made, job=job(started_at=T0), checkpoints=items))
    assert new.mixed is not None and new.unreached is not None
    assert "the last step that this run has logged is 50" in new.unreached
    again = [Row(step, T0 + 1000 + step, 2.0) for step in range(1, 51)]
    made = folded([*losses([2.0] * 511), *again])
    began = job(started_at=T0 + 950)
    own = judged(history(T0 + DAY, made, job=began, checkpoints=items))
    assert own.mixed is not None and own.unreached is None


def test_what_is_newer_than_the_pointer_may_be_whole_and_another_run_s() -> None:
    old = [checkpoint(step, at, state=CheckpointState.UNKNOWN) for step, at in OLD]
    items = checkpoints(*(checkpoint(step, at) for step, at in NEW), *old)
    rows = folded(losses([2.0] * 311))
    found = judged(history(T0 + DAY, rows, job=job(started_at=T0), checkpoints=items))
    assert found.mixed is not None and "steps 500, 600, 700" in found.mixed


def test_steps_of_a_log_that_counts_otherwise_prove_nothing() -> None:
    """A bar that begins anew each epoch: the present job itself saves beyond its steps."""
    saves = [(step, T0 + step) for step in (300, 600, 900, 1200)]
    value = looked(saves, rows=300)
    assert (whose(value), value.mixed, picked(value)) == ({}, None, 1200)
    none_within = [(step, T0 - DAY + step) for step in (2000, 3000)]
    assert whose(looked(none_within, rows=300)) == {}


def test_a_log_that_is_held_back_proves_nothing_of_later_saves() -> None:
    """Its writer was killed with its last lines in a buffer: the log ends at 310."""
    saves = [(step, T0 - DAY + step) for step in range(100, 701, 100)]
    held_back = log("step 310 loss 2.0", mtime=T0 - DAY + 320)
    value = looked(saves, rows=310, started=None, log=held_back)
    assert (whose(value), value.mixed, picked(value)) == ({}, None, 700)


def test_torn_and_rejected_ones_prove_nothing_and_are_marked_all_the_same() -> None:
    began = job(started_at=T0)
    torn = checkpoint(100, T0 + 500, state=CheckpointState.INCOMPLETE)
    items = checkpoints(torn, checkpoint(200, T0 + 200), checkpoint(300, T0 + 300))
    value = judged(history(T0 + DAY, folded([]), job=began, checkpoints=items))
    assert whose(value) == {} and value.mixed is None
    rejected = checkpoint(700, T0 - DAY, state=CheckpointState.REJECTED)
    items = checkpoints(checkpoint(100, T0 + 100), rejected)
    value = judged(history(T0 + DAY, folded([]), job=began, checkpoints=items))
    assert [item.whose for item in value.items] == [Whose.OWN, Whose.OTHER]
    assert value.mixed is None


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12, unique=True), st.floats(5, 500))
def test_one_trajectory_is_never_mixed(steps: list[int], pace: float) -> None:
    saves = [(step * 10, T0 + step * pace) for step in sorted(steps)]
    value = looked(saves)
    assert whose(value) == {} and value.mixed is None


@given(st.integers(1, 20), st.integers(1, 20))
def test_of_two_trajectories_the_later_one_is_picked(old: int, new: int) -> None:
    former = [(n * 10, T0 - DAY + n * 60) for n in range(1, old + 1)]
    later = [(n * 10 + 5, T0 + n * 60) for n in range(1, new + 1)]
    value = looked([*former, *later])
    above = {step for step, _ in former if step > 15}
    assert set(whose(value)) == above
    assert picked(value) == new * 10 + 5
    assert (value.mixed is not None) == bool(above)
