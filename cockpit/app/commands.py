"""What the palette lists and the help tells: what can be done here, and what not now and why."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.report import View
from screens.acting.offers import (
    SETTINGS,
    Command,
    choices,
    in_groups,
    key_of,
    offers,
    open_command,
)
from screens.fleet import ordered
from screens.help import help_page
from screens.hotkeys import ACTIONS
from screens.ports import Cockpit
from themes.loader import load_themes
from widgets.painting.pages import Help


def _offers(cockpit: Cockpit, scopes: Sequence[str]) -> list[Command]:
    if "act" not in scopes:
        return []
    return offers(cockpit.report_of(None), cockpit.keys, cockpit.actions.reading_only)


def help_here(cockpit: Cockpit, scopes: tuple[str, ...]) -> Help:
    """Return the help for these scopes and the selected run."""
    found = _offers(cockpit, scopes)
    notes = {key_of(each.verb): each.why_not or each.note for each in found if not each.now}
    return help_page(cockpit.keys, scopes, notes, cockpit.report_of(None))


def commands(cockpit: Cockpit, scopes: Sequence[str], theme: str) -> list[Command]:
    """Return every command that works in these scopes; ``theme`` is the one in use."""
    acts = choices(cockpit.report_of(None), _offers(cockpit, scopes))
    own = [
        Command(each.title, each.help, each.run, cockpit.keys.shown(each.id))
        for each in ACTIONS
        if each.palette and not each.acts and each.where in scopes
    ]
    runs = ordered(cockpit.reports, View())
    themes = [
        Command(
            f"theme {name}",
            "in use" if name == theme else "use these colours",
            f"theme:{name}",
            group=SETTINGS,
        )
        for name in load_themes()
    ]
    return in_groups([*acts, *map(open_command, runs), *own, *themes])
