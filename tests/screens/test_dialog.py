"""Dialogs, and when a confirmation counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult

from screens.dialog import (
    APART,
    TOO_EARLY,
    TOO_FAST,
    TOO_SOON,
    VISIBLE,
    Arming,
    TextLine,
    difference,
)


class OneLine(App[None]):
    def compose(self) -> ComposeResult:
        yield TextLine("abc")


@pytest.mark.parametrize(("selects", "left"), [(False, "abcx31my"), (True, "x31my")])
async def test_no_control_character_is_pasted_behind_or_over_what_stands_there(
    selects: bool, left: str
) -> None:
    app = OneLine()
    async with app.run_test() as pilot:
        line = app.query_one(TextLine)
        line.focus()
        if selects:
            await pilot.press("shift+home")
        await pilot.pause()
        assert line.selection.is_empty is not selects
        line.post_message(events.Paste("x\x9b31m\u202ey"))
        await pilot.pause()
        assert line.value == left


def armed(at: float = 100.0) -> Arming:
    arming = Arming()
    arming.painted(at)
    return arming


def test_a_person_who_reads_types_and_presses_enter_is_taken() -> None:
    arming = armed()
    assert all(arming.takes(101.0 + n * 0.08) for n in range(18))
    assert arming.refusal(103.0) == ""


def test_what_was_typed_before_it_was_painted_never_counts() -> None:
    arming = Arming()
    assert not any(arming.takes(99.0 + n / 100) for n in range(30))
    assert arming.refusal(99.5) == TOO_EARLY
    arming.painted(100.0)
    assert not arming.takes(99.99)
    assert not arming.takes(100.01)


def test_a_stream_of_type_ahead_that_goes_on_over_the_first_frame_is_dropped_whole() -> None:
    arming = armed()
    assert not any(arming.takes(99.5 + n * 0.1) for n in range(40))
    assert arming.takes(104.0)


def test_enter_in_one_burst_with_the_words_does_not_count() -> None:
    arming = armed()
    assert all(arming.takes(101.0) for _ in range(18))
    assert arming.refusal(101.0) == TOO_FAST
    assert arming.refusal(101.0 + APART + 0.01) == ""


def test_a_held_enter_never_counts() -> None:
    arming = armed()
    assert arming.takes(101.0)
    assert all(arming.refusal(101.0 + n / 30) == TOO_FAST for n in range(1, 90))


def test_enter_counts_only_once_it_was_visible_for_a_while() -> None:
    arming = armed()
    assert arming.refusal(100.0 + VISIBLE - 0.01) == TOO_SOON
    assert arming.refusal(100.0 + VISIBLE + APART) == ""


def test_asked_anew_everything_begins_anew() -> None:
    arming = armed()
    arming.hide()
    assert not arming.ready
    assert arming.refusal(150.0) == TOO_EARLY
    arming.painted(200.0)
    assert arming.refusal(200.2) == TOO_SOON


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30))
def test_property_nothing_before_the_first_frame_ever_counts(times: list[float]) -> None:
    arming = Arming()
    arming.painted(10.0)
    for at in sorted(times):
        assert not arming.takes(at)
        assert arming.refusal(at)


def test_the_hint_says_quietly_what_differs() -> None:
    assert difference("", "stop x") == "type the words above exactly"
    assert difference("stop", "stop x") == "2 more"
    assert difference("stop x", "stop x") == ""
    assert difference("stop xy", "stop x") == "does not match: the wrong letters are marked"
    assert difference("stopx", "stop x") == "does not match: the wrong letters are marked"
    assert difference("Stop", "stop") == "does not match: the wrong letters are marked"
