"""What verbs use of the UI without opening it: the table of keys, themes, pages as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from screens.hotkeys import ACTIONS
from screens.keys import KeysError, read_keys
from themes.loader import AUTO, load_themes

PAGE_WIDTH: Final = 80
PAGE_THEME: Final = "cockpit-light"
"""A picture is put into documents, which are light."""


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


def formatted(page: str, kind: str) -> str:
    """Return a page of Markdown as ``svg`` or as ``txt``, of 80 columns."""
    from widgets.painting.pages import as_svg, as_text, paint_page  # few calls need Textual

    lines = paint_page(page.splitlines(), PAGE_WIDTH)
    if kind == "txt":
        return as_text(lines)
    return as_svg(lines, PAGE_WIDTH, load_themes()[PAGE_THEME].variables())
