"""The rules over a whole history: what opened and closed, at which row, however it was polled."""

from __future__ import annotations

from cockpit.model.observed import Row
from cockpit.rules.replay import Happened, Replay, replay
from tests.rules.making import CADENCE, T0, losses, run_spec, windows


def told(found: Replay) -> list[tuple[str, int | None, int | None]]:
    return [(each.alert.id, each.opened_step, each.closed_step) for each in found.ended()]


def at(found: Replay) -> Happened:
    (one,) = found.ended()
    return one


def test_a_spike_that_came_and_went_is_told_by_its_rows() -> None:
    found = replay(losses([2.0] * 50 + [3.1] * 15 + [2.0] * 50), run_spec())
    assert told(found) == [("C-11", 59, 74)]
    assert "peak 3.1" in at(found).alert.evidence[1].text
    assert (at(found).opened_at, at(found).closed_at) == (T0 + 59, T0 + 74)


def test_what_is_open_at_the_end_has_no_end() -> None:
    found = replay(losses([2.0, float("nan"), float("nan")]), run_spec())
    assert told(found) == [("C-09", 1, None)] and at(found).closed_at is None


def test_two_events_of_one_kind_are_two() -> None:
    again = [2.0] * 50 + [3.1] * 15
    found = replay(losses(again + again + [2.0] * 20), run_spec())
    assert told(found) == [("C-11", 59, 74), ("C-11", 124, 139)]


def test_a_silence_opens_when_a_watch_would_have_seen_it_and_closes_with_the_next_row() -> None:
    rows = [*losses([2.0] * 100), *losses([2.0] * 5, first_step=100)]
    late = [row._replace(at=(row.at or 0.0) + 5000) for row in rows[100:]]
    found = replay([*rows[:100], *late], run_spec())
    assert told(found) == [("C-06", 99, 100)]
    opened = (at(found).opened_at or 0.0) - (T0 + 99)
    assert opened == 3 * CADENCE, "the first look after two cadences without a step"
    assert at(found).closed_at == T0 + 5100
    assert at(found).alert.confidence == "guess", "its job may have been dead for all we know"
    assert "whether its job was running" in at(found).alert.evidence[-1].text


def test_rows_that_are_always_far_apart_are_no_silence() -> None:
    """As live: before the second row nobody can know the pace."""
    rows = [Row(step, T0 + 500.0 * step, 2.0) for step in range(200)]
    assert told(replay(rows, run_spec())) == [("C-06", 0, 1)]


def test_throughput_that_collapses_is_told() -> None:
    found = replay(windows([1200.0] * 10 + [800.0] * 6 + [1200.0] * 3), run_spec())
    (one,) = found.ended()
    assert one.alert.id == "C-05" and one.closed_step is not None


def test_a_resume_after_a_spike_ends_it() -> None:
    rows = [*losses([2.0] * 50 + [4.0] * 30), *losses([2.0] * 100, first_step=30)]
    assert told(replay(rows, run_spec())) == [("C-11", 59, 30)]


def grown(batch: float | None, pace: float = 4.0) -> list[Row]:
    """Return rows whose batch doubles on the way, told or not: a step then takes ``pace``."""
    small = [Row(i, T0 + i * 2.0, 2.0, batch=batch) for i in range(400)]
    large = None if batch is None else 2 * batch
    at = T0 + 800
    return [*small, *(Row(400 + i, at + i * pace, 2.0, batch=large) for i in range(200))]


def test_a_step_of_a_batch_twice_as_large_is_not_slow() -> None:
    assert [name for name, *_ in told(replay(grown(None), run_spec()))] == ["C-05"]
    assert told(replay(grown(256.0), run_spec())) == []


def test_a_collapse_beside_a_larger_batch_is_one_and_names_it() -> None:
    collapsed = at(replay(grown(256.0, pace=9.0), run_spec())).alert
    assert collapsed.id == "C-05" and collapsed.confidence == "likely"
    assert "samples/s" in collapsed.evidence[1].text
    assert collapsed.evidence[-1].text == "batch 256 at the baseline, 512 now"


def test_rows_that_begin_to_tell_their_batch_are_held_against_nothing_before() -> None:
    mixed = [*grown(None)[:400], *grown(0.001)[400:]]
    assert told(replay(mixed, run_spec())) == []


def test_a_restart_that_does_not_fit_tells_the_learning_rates() -> None:
    rows = [row._replace(lr=3e-4) for row in losses([2.0 + (i % 7) / 1e4 for i in range(300)])]
    again = losses([2.5 + (i % 7) / 1e4 for i in range(200)], first_step=250)
    found = replay([*rows, *(row._replace(lr=1e-3) for row in again)], run_spec())
    (mismatch,) = [each.alert for each in found.ended() if each.alert.id == "C-12"]
    lines = [each.text for each in mismatch.evidence]
    assert "learning rate 0.0003 before the restart, 0.001 after it" in lines
