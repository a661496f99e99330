"""A deadline does not run while its process is stopped."""

from __future__ import annotations

from cockpit.runtime.awake import Awake


def test_only_what_one_lap_may_take_is_counted() -> None:
    now = [100.0]
    left = Awake(10.0, 2.0, lambda: now[0])
    now[0] += 1.5
    assert left.left() == 8.5
    now[0] += 3600.0
    assert left.left() == 6.5
    for _ in range(4):
        now[0] += 2.0
        last = left.left()
    assert last == -1.5
