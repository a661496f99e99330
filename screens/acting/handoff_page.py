"""The handoff page: one page about a run, to share or to copy; works in present mode too."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from cockpit.actions.core.action import RefuseError
from cockpit.model.plan import Request
from cockpit.store.store import StoreError
from screens.base import CockpitScreen, spawn
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.base.paged import Paged, Sheet
from widgets.base.painted import Filter
from widgets.key_line import KeyLine
from widgets.painting.line import DIM, STRONG, text
from widgets.painting.plan import paint_markdown


class HandoffPage(CockpitScreen):
    """Shows the page that a handoff would record; changes nothing."""

    SCOPES = ("page", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("page")

    def __init__(self, cockpit: Cockpit, run: str) -> None:
        super().__init__(cockpit)
        self._run = run
        self.page = ""
        self._status = "making the page"

    def compose(self) -> ComposeResult:
        """Lay out the page and the footer."""
        yield Paged()
        yield KeyLine()

    def on_mount(self) -> None:
        """Make the page."""
        super().on_mount()
        spawn(self, self._make)

    @property
    def selected(self) -> str | None:
        """Return the run that the page is about."""
        return self._run

    async def _make(self) -> None:
        operator = self.cockpit.watch_state.operator or "?"
        params = {"to": operator}
        request = Request(action="handoff", run=self._run, operator=operator, params=params)
        try:
            plan = await (await self.cockpit.actions.service()).plan(request)
        except (RefuseError, StoreError, TimeoutError) as error:
            self._status = f"no page: {error}"
        else:
            self.page = plan.page or ""
            self._status = "" if self.page else "no page: there is nothing to tell of this run"
        self.show()

    def show(self) -> None:
        """Show the page as it was made."""
        if not self.is_mounted:
            return
        title = text((f"handoff · {self._run}", STRONG))
        page = self.query_one(Paged)
        body = partial(_body, self.page, self._status, page.kept)
        page.show(Sheet(body, title, text(("nothing is handed over", DIM))))
        self.show_keys()

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


def _body(page: str, status: str, kept: Filter, width: int) -> list[Content]:
    if not page:
        return [text((status, DIM))]
    lines = (kept(Content(line)).plain for line in page.splitlines())
    return [piece for line in lines for piece in paint_markdown(line, width)]
