"""The handoff page: one page about the run, to share or to copy; works in present mode too."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.content import Content

from cockpit.actions.core.action import RefuseError
from cockpit.model.plan import Request
from cockpit.model.wording import clocked, clocked_minutes
from cockpit.store.store import StoreError
from screens.sheet import SheetScreen
from widgets.fleet_header import KeyLine
from widgets.painted import Filter
from widgets.painting.line import DIM, text
from widgets.painting.pages import change_words, paint_page
from widgets.scrolled import Paged


class HandoffPage(SheetScreen):
    """Shows the page that a handoff would record; changes nothing."""

    NAME = "handoff"
    NOTE = "preview, ownership unchanged"

    def compose(self) -> ComposeResult:
        """Lay out the page and the footer."""
        yield Paged()
        yield KeyLine()

    async def make(self) -> None:
        """Plan a handoff, of which only the page is taken."""
        operator = self.cockpit.watch_state.operator or "?"
        report = self.cockpit.report_of(self._run)
        params = {"to": (report.spec.dri if report is not None else None) or "nobody yet"}
        request = Request(action="handoff", run=self._run, operator=operator, params=params)
        try:
            plan = await (await self.cockpit.actions.service()).plan(request)
        except (RefuseError, StoreError, TimeoutError) as error:
            self.status = f"no page: {error}"
        else:
            self.page = plan.page or ""
            self.status = "" if self.page else "no page: nothing to tell about this run"

    def as_read_here(self, page: str) -> str:
        """Return the page with its times on the reader's clock, and their ages; not in quotes."""
        now = self.cockpit.now()
        return change_words(page, lambda words: clocked_minutes(clocked(words, now), now))

    def _body(self, page: str, status: str, kept: Filter, width: int) -> list[Content]:
        """Mask before anything is wrapped: a name over two lines is a name too."""
        if not page:
            return [text((status, DIM))]
        return paint_page([kept(Content(line)).plain for line in page.splitlines()], width)
