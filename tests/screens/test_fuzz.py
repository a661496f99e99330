"""Nothing that is pressed, pasted, clicked or reloaded breaks a screen; ``make fuzz`` goes on."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
from textual.screen import Screen

import screens
from screens.dialog import ListDialog, ListScreen
from screens.run import TABS
from screens.sheet import SheetScreen
from tests.screens.fuzz import faults_of, steps_of, told
from tests.screens.fuzz_ways import WAYS

SEED = 20_260_311
STEPS = 5
BASES = {ListDialog, ListScreen, SheetScreen}
"""They compose what their subclasses share, and are never shown."""


def every_screen() -> set[type[Screen[Any]]]:
    """Return every screen of the code that can be shown."""
    for module in pkgutil.walk_packages(screens.__path__, "screens."):
        importlib.import_module(module.name)
    found: set[type[Screen[Any]]] = set()
    left: list[type[Screen[Any]]] = [Screen]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if kind.__module__.partition(".")[0] in ("screens", "cockpit"):
            found |= {kind} if kind.compose is not Screen.compose else set()
    return found - BASES


def test_every_screen_and_every_tab_is_fuzzed() -> None:
    assert every_screen() == {way.screen for way in WAYS.values()}
    assert {f"run {tab}" for tab in TABS} <= set(WAYS)


@pytest.mark.parametrize("name", WAYS)
async def test_a_screen_stands_whatever_is_pressed(name: str) -> None:
    seed = SEED + list(WAYS).index(name)
    steps = steps_of(name, seed, STEPS)
    found = await faults_of(name, steps)
    assert not found, told(name, seed, steps, found)
