"""What has been read is set aside, and what nobody uses any more is given back."""

from __future__ import annotations

import gc
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.runtime.heap import STEP, YOUNG, Heap, give_back

BLOCK = 8192


def resident() -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(next(each for each in text.splitlines() if "RssAnon" in each).split()[1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps nothing")
def test_what_was_freed_among_what_stays_is_given_back() -> None:
    blocks = [bytes([1]) * BLOCK for _ in range(4000)]
    kept = blocks[::8]
    del blocks
    before = resident()
    give_back()
    assert before - resident() > len(kept) * 7 * BLOCK / 2


@pytest.fixture
def collector() -> Iterator[None]:
    former = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*former)


@pytest.mark.usefixtures("collector")
def test_it_is_done_for_many_runs_and_once_all_are_read() -> None:
    heap = Heap()
    counts = [1, STEP - 1, STEP, STEP + 1, 2 * STEP + 3, 2 * STEP + 5, 2 * STEP + 5]
    settled = [heap.settle(read, 2 * STEP + 5) for read in counts]
    assert settled == [False, False, True, False, True, True, False]


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize(("runs", "collected"), [(1, True), (STEP, False)])
def test_what_replaces_the_answers_of_many_runs_is_not_looked_through_each_time(
    runs: int, collected: bool
) -> None:
    gc.set_threshold(700, 10, 10)
    Heap().settle(runs, runs)
    begun: list[int] = []

    def note(phase: str, told: dict[str, int]) -> None:
        if phase == "start":
            begun.append(told["generation"])

    kept = [[number] for number in range(2000)]
    gc.collect()
    gc.callbacks.append(note)
    try:
        for _ in range(5):
            kept = [[number] for number in range(2000)]
    finally:
        gc.callbacks.remove(note)
    assert len(kept) == 2000 and bool(begun) == collected
    assert gc.get_threshold()[2] == 10  # the oldest is still looked through, some time


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("own", [YOUNG, (0, 10, 10), (20_000, 5, 5)])
def test_a_collector_that_was_set_is_left_alone(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    Heap().settle(STEP, STEP)
    assert gc.get_threshold() == own
