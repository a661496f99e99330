"""Which saves are suspect: by step, and by the trajectory that saved them (SPEC K)."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.history import History
from cockpit.model.observed import CheckpointsValue, Phase, Row
from cockpit.model.trend import Trend
from cockpit.rules.lineage.lineages import with_suspects_marked as marked
from cockpit.rules.metrics.numerics import advance
from cockpit.rules.metrics.resume import resumed_elsewhere
from tests.rules.making import T0, checkpoint, checkpoints, folded, history, job, losses, run_spec
from tests.rules.making import tracker as tracked

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
