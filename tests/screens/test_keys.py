from __future__ import annotations

import pytest

from docs.reference import key_table
from screens.help import sections
from screens.hotkeys import ACTIONS, ARMED, TOGETHER, WHERES
from screens.keys import Keys, KeysError, mistakable, read_keys


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
