"""The table of keys for those who show no screen: what ``[keys]`` may say, what is wrong in it."""

from __future__ import annotations

from collections.abc import Mapping

from screens.hotkeys import ACTIONS
from screens.keys import KeysError, read_keys
from themes.loader import AUTO, load_themes


def key_actions() -> dict[str, tuple[str, str]]:
    """Return each action of the UI: its id, its keys (separated by blanks), what it does."""
    return {each.id: (each.keys, each.help) for each in ACTIONS}


def theme_names() -> tuple[str, ...]:
    """Return what ``[ui] theme`` may be."""
    return (*AUTO, *load_themes())


def key_problems(settings: Mapping[str, object]) -> tuple[str, ...]:
    """Return what is wrong in ``[keys]``, one line each."""
    try:
        read_keys(settings)
    except KeysError as error:
        return error.problems
    return ()
