"""What has been read is set aside, and what nobody uses any more is given back."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from cockpit.runtime.heap import STEP, Heap, give_back

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


def test_it_is_done_for_many_runs_and_once_all_are_read() -> None:
    heap = Heap()
    counts = [1, STEP - 1, STEP, STEP + 1, 2 * STEP + 3, 2 * STEP + 5, 2 * STEP + 5]
    settled = [heap.settle(read, 2 * STEP + 5) for read in counts]
    assert settled == [False, False, True, False, True, True, False]
