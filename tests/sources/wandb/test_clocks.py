from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.sources.wandb.metrics import SAME, Stamps, offset_of
from cockpit.sources.wandb.metrics import ClockReading as Look

T0 = 1_800_000_000.0
OFF = st.floats(-50_000, 50_000)


@given(OFF, st.floats(0, 15), st.floats(0, 3000))
def test_property_a_row_between_two_beats_tells_the_offset(
    off: float, beat: float, quiet: float
) -> None:
    """The client's own records bracket the row, however long nothing was logged since."""
    row = Stamps(T0 + 10 + off, T0 + 9, T0 + 10 + beat, T0 + 10 + beat + quiet)
    found = offset_of(row, T0 + 10 + beat + quiet, None)
    assert abs(found - off) <= 76
    if abs(off) <= 5:
        assert found == 0.0


@given(st.floats(10, 50_000), st.floats(0, 4))
def test_property_a_row_after_the_last_write_is_ahead(off: float, lag: float) -> None:
    found = offset_of(Stamps(T0 + off), T0 + lag, None)
    assert found == pytest.approx(off - lag, abs=1e-3)


def test_a_whole_machine_ahead_is_told_by_the_client_s_own_beat() -> None:
    hung = Stamps(T0 + 7200, T0 + 7195, T0 + 7210, T0 + 7200 + 480)
    assert offset_of(hung, T0 + 482, None) == pytest.approx(7198)


def test_a_file_that_is_only_touched_changes_nothing() -> None:
    seen = Look(Stamps(T0 + 7200), T0, 7200.0)
    assert offset_of(Stamps(T0 + 7200), T0 + 480, seen) == 7200.0
    quiet = Look(Stamps(T0), T0, 0.0)
    assert offset_of(Stamps(T0), T0 + 480, quiet) == 0.0


def test_new_rows_from_before_the_last_look_tell_a_clock_that_is_behind() -> None:
    seen = Look(Stamps(T0 - 1234), T0, 0.0)
    assert offset_of(Stamps(T0 - 1204), T0 + 30, seen) == -1234.0


def test_a_clock_that_is_set_right_in_mid_run_is_believed_again() -> None:
    seen = Look(Stamps(T0 + 7200), T0, 7200.0)
    assert offset_of(Stamps(T0 + 29), T0 + 30, seen) == 0.0
    assert offset_of(Stamps(T0 + 3629), T0 + 30, seen) == 3599.0


@given(st.lists(st.floats(0, 15), min_size=1, max_size=20))
def test_property_an_estimate_only_grows_by_the_lag(lags: list[float]) -> None:
    """Rows come late, never early: the largest estimate is the best."""
    former = None
    offsets = []
    for at, lag in enumerate(lags):
        row, mtime = T0 + 20 * at + 3600, T0 + 20 * at + lag
        off = offset_of(Stamps(row), mtime, former)
        former = Look(Stamps(row), mtime, off)
        offsets.append(off)
    assert offsets == sorted(offsets)
    assert 3600 - SAME < offsets[-1] <= 3600


def test_a_copied_file_is_not_behind() -> None:
    assert offset_of(Stamps(T0), T0 + 1234, None) == 0.0
    assert offset_of(Stamps(T0), T0 + 86_400 * 30, None) == 0.0
    assert offset_of(Stamps(T0, T0 - 5, T0 + 5, T0 + 20), T0 + 7200, None) == 0.0


def test_a_time_zone_is() -> None:
    assert offset_of(Stamps(T0), T0 + 8 * 3600 + 3, None) == pytest.approx(-8 * 3600, abs=4)
