"""However many questions there are to a locked store, they wait together as long as one."""

from __future__ import annotations

import pytest

from cockpit.store.patience import REFILL, Patience


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def in_vain(patience: Patience, clock: Clock) -> float:
    """Wait as long as is allowed and get nothing; return how long that was."""
    with pytest.raises(OSError), patience.spent(5.0) as wait:
        clock.now += wait
        raise OSError
    return wait


def test_many_waits_in_vain_are_together_hardly_longer_than_one() -> None:
    clock = Clock()
    patience = Patience(clock)
    assert in_vain(patience, clock) == 5.0
    assert sum(in_vain(patience, clock) for _ in range(1000)) == pytest.approx(0.0)
    clock.now += 10.0
    assert in_vain(patience, clock) == pytest.approx(10.0 * REFILL)


def test_what_a_first_wait_did_not_use_is_left_to_the_next() -> None:
    clock = Clock()
    patience = Patience(clock)
    with pytest.raises(OSError), patience.spent(5.0):
        clock.now += 2.0
        raise OSError
    assert in_vain(patience, clock) == pytest.approx(3.0)


def test_one_that_ends_well_restores_it() -> None:
    clock = Clock()
    patience = Patience(clock)
    in_vain(patience, clock)
    with patience.spent(5.0):
        pass
    assert in_vain(patience, clock) == 5.0


def test_it_never_grows_beyond_what_is_asked() -> None:
    clock = Clock()
    patience = Patience(clock)
    in_vain(patience, clock)
    clock.now += 1e6
    assert in_vain(patience, clock) == 5.0
