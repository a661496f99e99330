"""The palette: the next safe action first, what cannot be done now behind what can."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.core.table import TABLE
from cockpit.app.commands import commands as commands_of
from screens.acting.offers import choices, next_verb, offers
from screens.acting.palette import (
    GROUPS,
    NEXT,
    NOT_NOW,
    RUNS,
    Command,
    found,
    in_groups,
    paint_choices,
)
from screens.keys import Keys
from tests.screens.stand_in import StandIn, cockpit
from tests.widgets import reports as made
from tests.widgets.anything import words


def failed(next_action: str = "relaunch from step 8,000") -> Any:
    report = made.failed()
    spec = report.spec.model_copy(update={"resubmit": ("python", "train.py")})
    return report.model_copy(update={"spec": spec, "next_action": next_action})


def listed(report: Any, reading_only: str = "") -> list[Command]:
    return choices(report, offers(report, Keys(), reading_only))


def test_the_next_safe_action_is_first_and_says_why() -> None:
    first = listed(failed())[0]
    assert (first.verb, first.group, first.help) == ("relaunch", NEXT, "relaunch from step 8,000")
    assert [each.group for each in listed(failed())].count(NEXT) == 1


@pytest.mark.parametrize(
    ("advice", "verb"),
    [("escalate to ada; do not relaunch", "escalate"), ("seal run-failed", "seal"),
     ("fix evaluation.py:14, then relaunch", "ack"), ("relaunching it is no default", "ack")],
)  # fmt: skip
def test_advice_names_an_action_only_by_its_own_imperative(advice: str, verb: str) -> None:
    assert next_verb(failed(advice)) == verb


def test_an_action_against_which_something_speaks_is_never_next() -> None:
    listing = listed(made.report("run-well").model_copy(update={"next_action": "relaunch it"}))
    assert all(each.group != NEXT for each in listing)
    assert next(each for each in listing if each.verb == "relaunch").group == NOT_NOW
    assert all(each.group == NOT_NOW for each in listed(failed(), "read-only"))


def test_what_failed_is_not_offered_to_be_sealed() -> None:
    seal = next(each for each in listed(failed()) if each.verb == "seal")
    assert seal.group == NOT_NOW and seal.note == "not finished (FAILED)"


def test_the_runs_stand_there_as_in_the_fleet_the_worst_first() -> None:
    fleet = StandIn(*reversed(made.fleet()))
    app = cockpit(engine=fleet)
    listing = [each.title for each in commands_of(app, ("everywhere",), "") if each.group == RUNS]
    assert listing[0] in ("run-failed", "run-nan") and listing[-1] == "run-well"


def test_every_action_is_listed_once_group_after_group() -> None:
    listing = listed(failed())
    assert sorted(each.verb for each in listing) == sorted(row.verb for row in TABLE)
    places = [GROUPS.index(each.group) for each in listing]
    assert places == sorted(places)


def test_what_can_be_done_comes_before_what_cannot() -> None:
    able, unable = Command("seal", "x", "a"), Command("seal", "x", "b", why_not="not now")
    assert [each.call for each in found([unable, able], "seal")] == ["a", "b"]


@pytest.mark.parametrize("width", [76, 104])
def test_every_description_is_whole(width: int) -> None:
    for each in listed(failed()):
        told = " ".join(line.plain for _, line in paint_choices([each], 0, width, False))
        words_of = told.replace(f" {each.key} ", " ").split()
        assert set((each.why_not or each.note or each.help).split()) <= set(words_of)


commands = st.builds(Command, title=words, help=words, call=words, key=words, why_not=words,
                     note=words, group=st.sampled_from(GROUPS))  # fmt: skip


@given(st.lists(commands, max_size=4).map(in_groups), st.integers(1, 200), st.booleans())
def test_property_no_line_is_too_wide(listing: list[Command], width: int, headed: bool) -> None:
    painted = list(paint_choices(listing, 0, width, headed))
    assert all(line.cell_length <= max(width, 16) for _, line in painted)
    assert {place for place, _ in painted} == set(range(len(listing)))
