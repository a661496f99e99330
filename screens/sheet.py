"""A whole page about one run, made once, to scroll and to copy; nothing of it acts."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from screens.base import CockpitScreen, spawn
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.base.paged import Paged, Sheet
from widgets.base.painted import Filter
from widgets.painting.line import DIM, STRONG, text


class SheetScreen(CockpitScreen):
    """Shows a page that ``make`` makes; ``status`` says why there is none (yet).

    Who is one composes a ``Paged`` and a ``KeyLine``.
    """

    SCOPES = ("page", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("page")
    NAME: ClassVar[str] = ""
    NOTE: ClassVar[str] = ""

    def __init__(self, cockpit: Cockpit, run: str) -> None:
        super().__init__(cockpit)
        self._run = run
        self.page = ""
        """The page as it is copied."""
        self.status = "making the page"

    def on_mount(self) -> None:
        """Make the page."""
        super().on_mount()
        spawn(self, self._make)

    @property
    def selected(self) -> str | None:
        """Return the run that the page is about."""
        return self._run

    async def make(self) -> None:
        """Make ``page``, or say in ``status`` why there is none."""
        raise NotImplementedError

    def lines(self, width: int) -> list[Content]:
        """Return the made page's lines."""
        raise NotImplementedError

    async def _make(self) -> None:
        await self.make()
        self.show()

    def show(self) -> None:
        """Show the page as it was made."""
        if not self.is_mounted:
            return
        title = text((f"{self.NAME} · {self._run}", STRONG))
        page = self.query_one(Paged)
        body = partial(self._body, self.page, self.status, page.kept)
        page.show(Sheet(body, title, text((self.NOTE, DIM))))
        self.show_keys()

    def _body(self, page: str, status: str, kept: Filter, width: int) -> list[Content]:
        if not page:
            return [text((status, DIM))]
        return [kept(line) for line in self.lines(width)]

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here."""
        return self.cockpit.keys.footer("page")

    def action_sheet_copy(self) -> None:
        """Copy the whole page."""
        if self.page:
            self.cockpit.copy(self.page)
        else:
            self.cockpit.say("there is no page to copy")

    def action_sheet_back(self) -> None:
        """Go back."""
        self.dismiss(None)

    def action_step(self, steps: int) -> None:
        """Scroll by lines."""
        self.query_one(Paged).move(steps)

    def action_turn(self, pages: int) -> None:
        """Scroll by pages."""
        self.query_one(Paged).page(pages)
