"""A-6: what may go and what stays; what is not known stays."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.observed import Checkpoint, CheckpointState
from cockpit.model.run import CheckpointSpec
from cockpit.rules.lineage.checkpoints import Decision, Needed, Policy, decide, policy_of
from tests.rules.making import T0, checkpoint, run_spec

COMPLETE, REJECTED = CheckpointState.COMPLETE, CheckpointState.REJECTED


def item(step: int, state: CheckpointState = COMPLETE, **changes: Any) -> Checkpoint:
    made = checkpoint(step, T0, state)
    return made.model_copy(update={"step": step if state is COMPLETE else None, **changes})


def decided(*items: Checkpoint, now: float = T0 + 9000, **policy: Any) -> dict[int, Decision]:
    found = decide(items, Policy(**{"keep": 2, **policy}), Needed(now=now))
    return {each.item.name_step or 0: each for each in found}


def gone(*items: Checkpoint, **more: Any) -> list[int]:
    return [step for step, each in decided(*items, **more).items() if each.delete]


def test_the_newest_stay_by_number_not_by_name() -> None:
    assert gone(item(900), item(1000), item(1100)) == [900]
    assert gone(item(99), item(100), item(1000)) == [99]


def test_copies_of_one_step_count_once() -> None:
    twin = item(1100, path="/t/step-1100")
    assert gone(item(900), item(1000), item(1100), twin) == [900]


def test_what_is_agreed_stays() -> None:
    many = [item(step) for step in (50, 100, 150, 200, 250, 300, 999)]
    assert gone(*many, protect=(150,), permanent_every=100) == [50, 250]
    assert gone(item(10), *many, final_step=11) == [50, 100, 150, 200, 250]


def test_a_temporary_one_is_no_milestone_and_steps_may_count_from_zero() -> None:
    old = item(100, permanent=False)
    assert gone(old, item(199), item(300), item(400), permanent_every=100) == [100]


def test_torn_ones_go_when_they_are_old_enough() -> None:
    torn = item(250, CheckpointState.INCOMPLETE, touched_at=T0)
    assert gone(torn, item(300), save_every=600.0) == [250]
    assert gone(torn, item(300), save_every=600.0, now=T0 + 500) == []
    assert gone(torn, save_every=600.0) == []


def test_what_is_not_known_and_what_is_written_stays() -> None:
    odd = [
        item(1, CheckpointState.UNKNOWN),
        item(2, CheckpointState.WRITING),
        item(3, CheckpointState.INCOMPLETE, touched_at=None),
        checkpoint(4, T0).model_copy(update={"step": None}),
    ]
    assert gone(*odd, item(300), item(400), item(500)) == [300]


def test_a_rejected_one_may_go_and_says_why() -> None:
    bad = item(400, REJECTED, note="rejected by ada: spike")
    found = decided(bad, item(100), item(200))[400]
    assert (found.delete, found.why) == (True, "rejected by ada: spike")


def test_sources_and_what_the_trainer_loads_stay() -> None:
    items = [item(step) for step in (1, 2, 3, 4)]
    needed = Needed(now=T0, trainer_would_load="/c/step-1", sources={"/c/step-2": "launch"})
    found = decide(items, Policy(keep=1), needed)
    assert [each.item.step for each in found if each.delete] == [3]
    assert found[1].why == "launch"


def test_the_policy_is_never_below_the_rollback_depth() -> None:
    run = run_spec(checkpoints=CheckpointSpec(path=("/c",), keep=4, rollback_depth=3))
    assert [policy_of(run, keep).keep for keep in (None, 9, 3, 1, 0)] == [4, 9, 3, 3, 3]
    assert policy_of(run_spec(), 0).keep == 1
    assert policy_of(run_spec()).keep == 10


@given(
    steps=st.lists(st.integers(0, 10**6), unique=True, max_size=40),
    keep=st.integers(-5, 50),
    every=st.sampled_from([None, 1, 7, 100]),
)
def test_the_newest_is_never_deleted_nor_fewer_left_than_asked(
    steps: list[int], keep: int, every: int | None
) -> None:
    found = decide(
        [item(step) for step in steps], Policy(keep=keep, permanent_every=every), Needed(now=T0)
    )
    left = [each.item.step for each in found if not each.delete]
    assert len(left) >= min(len(steps), max(1, keep))
    assert not steps or max(steps) in left
    assert all(each.why for each in found)


def test_suspect_ones_never_take_the_place_of_good_ones() -> None:
    spoilt = [item(step, suspect="loss was nan") for step in (150, 200, 250, 300)]
    good = [item(step) for step in (40, 50, 100)]
    assert gone(*good, *spoilt) == [40, 150, 200]
    kept = decided(*good, *spoilt)
    assert kept[100].why == "one of the newest 2"
    assert kept[300].why == "one of the newest 2 that are suspect"
