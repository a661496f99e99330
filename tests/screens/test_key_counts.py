"""``docs/keys.md`` counts the keys of what is done most: each row is really pressed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.reference import key_table
from screens.acting.form import AckScreen
from screens.help import sections
from screens.hotkeys import ACTIONS, ARMED, TOGETHER, WHERES
from screens.keys import Keys, KeysError, mistakable, read_keys
from screens.run import RunScreen
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import failed, until
from tests.screens.stand_in import StandIn, StandInApp, cockpit, text_of, typed
from tests.widgets import reports as made

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "keys.md").read_text(encoding="utf-8")
ROWS = {
    row[1].strip(): (re.findall(r"`([^`]+)`", row[2]), int(row[3]))
    for row in re.finditer(r"^\| ([^|`]+) \|([^|]*)\| (\d+) \|$", TEXT, re.M)
}
TYPES_TEXT = {"plan", "form", "entry"}
"""Scopes in which a letter is a letter."""
App = StandInApp
Done = Callable[[App, StandInService], bool]


def acted(app: App, service: StandInService, action: str) -> bool:
    return [each[0].action for each in service.acted] == [action]


DONE: dict[str, Done] = {
    "see what is wrong, since when, and what to do next": lambda app, _: (
        failed().alerts[0].title[:12] in text_of(app)
    ),
    "open the evidence in the log": lambda app, _: (
        isinstance(app.screen, RunScreen) and "no alert" not in text_of(app)
    ),
    "acknowledge the worst alert": lambda app, service: acted(app, service, "ack"),
    "relaunch, confirmed by its words": lambda app, service: acted(app, service, "relaunch"),
    "go to the next run's screen": lambda app, _: (
        isinstance(app.screen, RunScreen) and app.screen.selected != "run-failed"
    ),
}


def test_every_row_is_counted_and_pressed() -> None:
    assert ROWS.keys() == DONE.keys()
    for keys, count in ROWS.values():
        assert count == sum(len(each) if " " in each else 1 for each in keys)


@pytest.mark.parametrize("what", DONE)
async def test_the_keys_do_what_the_document_says(what: str) -> None:
    service = StandInService()
    others = (each for each in made.fleet() if each.name != "run-failed")
    app = cockpit(engine=StandIn(failed(), *others), service=service)
    assert isinstance(app, StandInApp)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.1)
        for key in ROWS[what][0]:
            if " " in key:
                await until(pilot, lambda: "Type  " in text_of(app))
            if " " in key or isinstance(app.screen, AckScreen):
                await pilot.pause(0.4)  # what stands there could be read
            if " " in key:
                await typed(pilot, key)
                await pilot.pause(0.2)
            else:
                await pilot.press(key)
        await until(pilot, lambda: DONE[what](app, service))


def test_whatever_scrolls_has_the_keys_of_vi_and_the_arrows() -> None:
    pairs = {"down": "j", "up": "k", "pagedown": "ctrl+d", "pageup": "ctrl+u", "home": "g",
             "end": "G"}  # fmt: skip
    lacking = [
        (each.id, arrow)
        for each in ACTIONS
        if each.where not in TYPES_TEXT
        for arrow in each.keys.split()
        if arrow in pairs and pairs[arrow] not in each.keys.split()
    ]
    assert lacking == []
    scrolling = {each.where for each in ACTIONS if "down" in each.keys.split()}
    assert scrolling >= {"fleet", "run", "list", "welcome", *TYPES_TEXT - {"entry"}}


def test_no_key_means_two_things_in_one_place() -> None:
    assert set().union(*TOGETHER) == set(WHERES)
    for together in TOGETHER:
        keys = [key for each in ACTIONS if each.where in together for key in each.keys.split()]
        assert len(keys) == len(set(keys))


def test_no_key_is_harmless_on_one_screen_and_writes_on_another() -> None:
    """Any screen may follow any other; only those that wait until they were read may differ."""
    assert mistakable(Keys()) == []
    writing = {each.where for each in ACTIONS if each.writes}
    assert writing == {"plan", "ack", "leaving", "entry", "journal", "act"}
    in_sight = [each.id for each in ACTIONS if each.writes and each.where == "act"]
    assert in_sight == ["veto"], "it only ever keeps something from being done"
    assert set(ARMED) < writing


def test_a_row_that_only_looks_changes_nothing_elsewhere() -> None:
    """A browser may press it: it neither ends the window for all nor leaves the screen."""
    looking = {each.id for each in ACTIONS if each.looks}
    assert not [each.id for each in ACTIONS if each.looks and (each.writes or each.acts)]
    assert not looking & {"quit", "interrupt", "suspend", "copy", "sheet_copy", "check", "pager"}
    for run in {each.run for each in ACTIONS}:
        assert len({each.looks for each in ACTIONS if each.run == run}) == 1, run


def test_help_and_readme_hold_every_action() -> None:
    shown = [title for _, rows in sections(Keys(), ("fleet",)) for _, title, _ in rows]
    assert sorted(shown) == sorted(action.title for action in ACTIONS)
    table = key_table()
    assert all(f"`{action.id}`" in table and action.help in table for action in ACTIONS)


def test_every_scope_has_a_title() -> None:
    assert {action.where for action in ACTIONS} == set(WHERES)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"fliter": "F"}, 'keys.fliter: there is no such action; did you mean "filter"?'),
        ({"zzz": "F"}, "keys.zzz: there is no such action; known: open, filter"),
        ({"filter": "ctrl+enter"}, "keys.filter: 'ctrl+enter' is not a key"),
        ({"filter": 3}, "keys.filter: 3 is not a key"),
        ({"filter": []}, "keys.filter: [] is not a key"),
        ({"filter": "s"}, 'keys.filter: "s" already means sort'),
        ({"filter": "q"}, 'keys.filter: "q" already means quit'),
        ({"settle": "s"}, 'keys.settle: "s" is sort elsewhere; a key that writes may mean'),
        ({"sort": "S"}, 'keys.settle: "S" is sort elsewhere; a key that writes may mean'),
    ],
)
def test_a_wrong_key_is_told_in_one_clear_line(settings: dict[str, object], told: str) -> None:
    with pytest.raises(KeysError) as error:
        read_keys(settings)
    assert any(problem.startswith(told) for problem in error.value.problems)


def test_a_window_that_only_looks_offers_no_action_in_its_footer() -> None:
    scopes = ("run", "act", "everywhere")
    acting = {each.title for each in ACTIONS if each.acts}
    assert acting & {title for _, title in Keys().footer(*scopes)}
    left = {title for _, title in Keys(looking=True).footer(*scopes)}
    assert not acting & left and {"palette", "keys"} <= left


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("back (cockpit rollback toy --to 500 --move yes), or", "back (b rollback to 500), or"),
        ("it runs: stop it first (cockpit stop toy)", "it runs: stop it first (x stop)"),
        ("cockpit stop toy --only held cancels it", "cockpit stop toy --only held cancels it"),
        ("the cockpit stopped", "the cockpit stopped"),
    ],
)
def test_a_sentence_names_the_key_instead_of_the_call(said: str, shown: str) -> None:
    assert Keys().in_words(said) == shown
