"""The moment, and how long something took."""

from __future__ import annotations

import asyncio

import pytest

from cockpit.runtime.moment import Jumps


class Settable:
    def __init__(self) -> None:
        self.steady = 100.0
        self.offset = 1_800_000_000.0

    def now(self) -> float:
        return self.steady + self.offset

    def monotonic(self) -> float:
        return self.steady

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("jump", [7200.0, -7200.0, 45.0])
def test_what_was_before_is_as_long_ago_as_it_really_is(jump: float) -> None:
    clock = Settable()
    jumps, before = Jumps(clock), clock.now()
    clock.steady += 50
    clock.offset += jump
    after, _ = jumps.look()
    clock.steady += 10
    assert jumps.since(before) == pytest.approx(60)
    assert jumps.since(after) == pytest.approx(10)
    assert jumps.since(before - 5000) == pytest.approx(5060)


def test_an_instant_that_no_clock_has_shown_passed_with_the_jump() -> None:
    clock = Settable()
    jumps, before = Jumps(clock), clock.now()
    clock.offset += 7200
    jumps.look()
    clock.steady += 10
    assert jumps.since(before + 3600) == pytest.approx(10)
    assert jumps.since(before + 9000) == pytest.approx(-1790), "it has not come yet"


def test_there_and_back_again_is_no_time() -> None:
    clock = Settable()
    jumps, before = Jumps(clock), clock.now()
    for jump in (7200.0, -3600.0, -3600.0):
        clock.steady += 10
        clock.offset += jump
        jumps.look()
    assert jumps.since(before) == pytest.approx(30)


def test_it_is_said_for_a_while() -> None:
    clock = Settable()
    jumps = Jumps(clock)
    said = [jumps.notice]
    for steady, offset in ((0, 3.0), (0, 7200.0), (300, 0.0), (301, 0.0)):  # first it is steered
        clock.steady += steady
        clock.offset += offset
        said.append(jumps.notice)
    assert said[:2] == [None, None] and said[4] is None
    assert said[2] is not None and said[2] == said[3]
    assert said[2].startswith("this machine's clock jumped 2h ahead (it says ")
