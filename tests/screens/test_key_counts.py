"""``docs/keys.md`` counts the keys of what is done most: each row is really pressed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from screens.acting.form import AckScreen
from screens.hotkeys import ACTIONS
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
