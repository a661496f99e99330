"""Many blocking looks in one hop: in order, each with its own trouble, one that hangs apart."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from cockpit.runtime.offload import Call, is_stuck, offload, offload_each
from tests.waiting import until

GATE = threading.Event()


@pytest.fixture(autouse=True)
def gate() -> Iterator[None]:
    """Let whatever hangs go on in the end."""
    GATE.clear()
    yield
    GATE.set()


class Looks:
    """Counts the calls for each item, and the threads that made them."""

    def __init__(self) -> None:
        self.made: Counter[int] = Counter()
        self.threads: set[int] = set()
        self.hanging: set[int] = set()

    def call(self, item: int) -> Call[int]:
        return Call(lambda: self._look(item), ("look", id(self), item))

    def _look(self, item: int) -> int:
        self.made[item] += 1
        self.threads.add(threading.get_ident())
        if item in self.hanging:
            GATE.wait()
        if item == 3:
            raise OSError("no such thing")
        return item * item


async def test_a_thousand_looks_take_one_hop_and_each_has_its_own_outcome() -> None:
    looks = Looks()
    found = await offload_each(
        [looks.call(item) for item in range(1000)], deadline=30.0, brief=30.0
    )
    assert [each.value for each in found if each.error is None] == [
        item * item for item in range(1000) if item != 3
    ]
    with pytest.raises(OSError, match="no such thing"):
        _ = found[3].value
    assert len(looks.threads) == 1 and set(looks.made.values()) == {1}


async def test_one_that_hangs_keeps_no_other_from_being_looked_at() -> None:
    looks = Looks()
    looks.hanging = {1}
    calls = [looks.call(item) for item in (0, 1, 2)]
    asked = asyncio.create_task(offload_each(calls, deadline=60.0, brief=0.05))
    await asyncio.to_thread(until, lambda: looks.made[1] and looks.made[2])
    GATE.set()
    assert [each.value for each in await asked] == [0, 1, 4]


async def test_one_that_hangs_still_is_left_out_of_the_hop_and_asked_no_more() -> None:
    looks = Looks()
    looks.hanging = {1}
    calls = [looks.call(item) for item in (0, 1, 2)]
    hung = asyncio.create_task(offload(calls[1].work, deadline=60.0, key=calls[1].key))
    await asyncio.to_thread(until, lambda: looks.made[1])
    hung.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hung
    again = await offload_each(calls, deadline=0.1, brief=30.0)
    assert looks.made[1] == 1
    assert (again[0].value, again[2].value) == (0, 4)
    assert isinstance(again[1].error, TimeoutError)
    looks.hanging.clear()
    GATE.set()
    until(lambda: not is_stuck(calls[1].key))
    assert (await offload_each(calls, deadline=30.0, brief=30.0))[1].value == 1
