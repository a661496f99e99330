"""The rules over a whole history: what opened and closed, at which row, however it was polled."""

from __future__ import annotations

from cockpit.model.observed import Row
from cockpit.rules.byrow import Happened
from cockpit.rules.replay import Replay, replay
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
