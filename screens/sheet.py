"""Pages that open over a screen: the status sheet, the handoff page, a backtest."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from cockpit.actions.core.action import RefuseError
from cockpit.model.history import Backtested
from cockpit.model.plan import Request
from cockpit.model.wording import clocked, clocked_minutes, utc_minute
from cockpit.runtime.account import write_page
from cockpit.runtime.offload import offload
from cockpit.store.store import StoreError
from screens.base import CockpitScreen, spawn
from screens.keys import bindings
from screens.ports import Cockpit
from themes.loader import load_themes
from widgets.fleet_header import KeyLine
from widgets.painted import Filter
from widgets.painting.line import DIM, STRONG, text
from widgets.painting.metrics import copied, paint_backtest
from widgets.painting.pages import as_svg, as_text, change_words, paint_page
from widgets.scrolled import Paged, Sheet

SAVED_WIDTH: Final = 100
"""Columns of a page in a file."""
SAVE_WITHIN: Final = 5.0


class SheetScreen(CockpitScreen):
    """Shows a page that ``make`` makes; ``status`` says why there is none (yet)."""

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

    async def make(self) -> None:
        """Make ``page``, or say in ``status`` why there is none."""
        raise NotImplementedError

    def lines(self, width: int) -> list[Content]:
        """Return the made page's lines."""
        raise NotImplementedError

    def as_read_here(self, page: str) -> str:
        """Return the page as it is read now and here; files and the clipboard take it as it is."""
        return page

    async def _make(self) -> None:
        await self.make()
        self.show()

    def show(self) -> None:
        """Show the page as it was made."""
        if not self.is_mounted:
            return
        title = text((f"{self.NAME} · {self._run}", STRONG))
        page = self.query_one(Paged)
        body = partial(self._body, self.as_read_here(self.page), self.status, page.kept)
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

    def action_sheet_save(self) -> None:
        """Write the page as it is shown into files: Markdown, text and a picture."""
        if self.page:
            spawn(self, self._save)
        else:
            self.cockpit.say("there is no page to save")

    async def _save(self) -> None:
        kept = self.query_one(Paged).kept
        lines = self._body(self.page, "", kept, SAVED_WIDTH)
        files = {
            "md": "".join(f"{kept(Content(line)).plain}\n" for line in self.page.splitlines()),
            "txt": as_text(lines),
            "svg": as_svg(lines, SAVED_WIDTH, load_themes()[self.app.theme].variables()),
        }
        name = f"{self.NAME} {self._run} {utc_minute(self.cockpit.now())}"
        try:
            path = await offload(write_page, name, files, deadline=SAVE_WITHIN)
        except (OSError, TimeoutError) as error:
            self.cockpit.warn(f"the page could not be saved: {error}")
        else:
            self.cockpit.say(f"saved as shown: {path}.md, .txt, .svg")

    def action_sheet_back(self) -> None:
        """Go back."""
        self.dismiss(None)

    def action_step(self, steps: int) -> None:
        """Scroll by lines."""
        self.query_one(Paged).move(steps)

    def action_turn(self, pages: int) -> None:
        """Scroll by pages."""
        self.query_one(Paged).page(pages)


class BacktestScreen(SheetScreen):
    """Replays a run's rows in a process of its own, which ends with this screen."""

    NAME = "backtest"
    NOTE = "as if live, with the thresholds of the run file"

    def __init__(self, cockpit: Cockpit, run: str) -> None:
        super().__init__(cockpit, run)
        self.status = "replaying every logged row: about 10 s for a million"
        self._found: Backtested | None = None

    async def make(self) -> None:
        """Replay the run."""
        try:
            self._found = await self.cockpit.replay(self._run)
        except (OSError, TimeoutError) as error:
            self.status = f"no backtest: {getattr(error, 'strerror', None) or error}"
        else:
            self.page = copied(self._found, self.cockpit.now())

    def lines(self, width: int) -> list[Content]:
        """Return the loss, and each alert with when it would have opened."""
        if self._found is None:
            return []
        return paint_backtest(self._found, self.cockpit.now(), width)


class HandoffPage(SheetScreen):
    """Shows the page that a handoff would record; changes nothing."""

    NAME = "handoff"
    NOTE = "preview, ownership unchanged"

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
