from __future__ import annotations

from cockpit.rules.lineage import drift
from cockpit.rules.lineage.drift import Memo


def test_it_is_asked_once_for_the_same_objects_and_never_grows_without_bound() -> None:
    asked: list[object] = []

    def size(values: dict[str, int]) -> int:
        asked.append(values)
        return len(values)

    known = Memo(size)
    one, other = {"a": 1}, {"a": 1}
    assert (known(one), known(one), known(other)) == (1, 1, 1)
    assert len(asked) == 2, "equal is not the same: it may change later"
    kept = [{str(number): number} for number in range(drift.MOST)]
    for each in kept:
        known(each)
    assert known(one) == 1 and len(asked) == drift.MOST + 3, "the oldest is made again"
