"""Whether another process that acted still lives: never guessed."""

from __future__ import annotations

import os

import pytest

from cockpit.records.lease.state import lives, still_working, this_holder, under_way


def test_this_process_lives() -> None:
    assert lives(this_holder()) is True


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"host": "another"}, None),
        ({"machine": "0" * 32}, None),
        ({"space": "pid:[1]"}, None),
        ({"ticks": 1}, False),
        ({"pid": 2**22 + 1}, False),
    ],
)
def test_another_one_is_told_apart(change: dict[str, object], expected: bool | None) -> None:
    assert lives(this_holder().model_copy(update=change)) is expected


def test_a_restart_is_known_only_where_the_machine_has_an_id() -> None:
    here = this_holder()
    before = here.model_copy(update={"boot": "an-earlier-boot"})
    assert lives(before) is (None if here.machine is None else False)
    assert lives(before.model_copy(update={"machine": None})) is None


def test_an_entry_that_this_process_does_no_more_was_left_behind() -> None:
    me = this_holder()
    assert me.pid == os.getpid()
    assert still_working(me, "store", 7) is False
    with under_way("store", 7):
        assert still_working(me, "store", 7) is True
        assert still_working(me, "store", 8) is False
    assert still_working(me, "store", 7) is False
