"""All keys that work, made from the table; what the codes and the signs mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input

from cockpit.model.report import RunReport
from screens.dialog import ListScreen, Prompt
from screens.hotkeys import ACTIONS, WHERES, Hotkey
from screens.keys import Keys, bindings, shown
from screens.ports import Cockpit
from widgets.painting.line import DIM, STRONG, text
from widgets.painting.pages import NOT_NOW, Help, Section, paint_help
from widgets.scrolled import Row

_MOVES: Final = ("step(", "turn(", "row(", "edge(", "sideways(")
"""The actions that only scroll or move the cursor: they are listed last."""


def sections(
    keys: Keys, wheres: tuple[str, ...], notes: Mapping[str, str] | None = None
) -> list[Section]:
    """Return the help's sections: acting first, then what works here, then the rest.

    ``notes`` is why an action cannot be done now, by its id.
    """
    act = [where for where in wheres if where == "act"]
    here = [*act, *(where for where in wheres if where != "act")]
    order = [*here, *(where for where in WHERES if where not in here)]
    moving = [each for each in ACTIONS if each.where in here and each.run.startswith(_MOVES)]
    found = [
        (WHERES[where], [each for each in ACTIONS if each.where == where and each not in moving])
        for where in order
    ]
    found.insert(len(here), ("Move", moving))

    def row(each: Hotkey) -> tuple[str, str, str]:
        note = (notes or {}).get(each.id, "")
        names = " ".join(map(shown, keys.of(each.id)))
        return names, each.title, f"{each.help}  {NOT_NOW}{note}" if note else each.help

    return [(title, list(map(row, rows))) for title, rows in found if rows]


def help_page(
    keys: Keys,
    wheres: tuple[str, ...],
    notes: Mapping[str, str] | None = None,
    report: RunReport | None = None,
) -> Help:
    """Return what the page holds for a screen's scopes and the selected run."""
    found = sections(keys, wheres, notes)
    here = {WHERES[where] for where in wheres} | {"Move"}
    about = {WHERES["act"]: f"Act on {report.name}"} if report is not None else {}
    return Help(
        [(about.get(title, title), rows) for title, rows in found if title in here],
        [section for section in found if section[0] not in here],
        [] if report is None else [alert.id for alert in report.alerts],
        None if report is None else report.spec.thresholds,
    )


class HelpScreen(ListScreen):
    """A page over the screen; the same key that opened it closes it, ``/`` filters it."""

    SCOPES = ("help", "everywhere")
    ASKS = "filter: words of a key, code or sign"
    BINDINGS: ClassVar[list[BindingType]] = bindings("help", "list")

    def __init__(self, cockpit: Cockpit, page: Help) -> None:
        super().__init__(cockpit)
        self._help = page

    def rows(self) -> list[Row]:
        """Return the page, of what has the words."""
        words = self.query_one(Prompt).value.strip()
        page = self._help._replace(words=words, rows=self.page.room)
        return [Row("", lambda width, _: paint_help(page, width))]

    def heading(self) -> Content:
        """Return what the page is."""
        return text(("Keys, codes and signs", STRONG))

    def note(self) -> Content:
        """Return by which words it is filtered."""
        words = self.query_one(Prompt).value.strip()
        return text((f"with {words!r}" if words else "", DIM))

    @on(Input.Changed)
    def _typed(self) -> None:
        self.page.top = 0
        self.show()

    def action_help_filter(self) -> None:
        """Ask for words."""
        self.query_one(Prompt).ask(self.query_one(Prompt).value)

    def action_list_back(self) -> None:
        """Show everything again, or close."""
        prompt = self.query_one(Prompt)
        if prompt.is_open or prompt.value:
            prompt.value = ""
            prompt.close()
        else:
            self.dismiss(None)

    def action_help_close(self) -> None:
        """Keep what was found, or close."""
        prompt = self.query_one(Prompt)
        if prompt.is_open:
            prompt.close()
        else:
            self.dismiss(None)
