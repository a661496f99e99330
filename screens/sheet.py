"""Pages that open over a screen: the status sheet, the handoff page, a backtest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.content import Content

from cockpit.actions.core.action import RefuseError
from cockpit.model.history import Backtested
from cockpit.model.plan import Request
from cockpit.model.wording import clock_time, clocked, clocked_minutes, utc_minute
from cockpit.runtime.account import write_page
from cockpit.runtime.offload import offload
from cockpit.store.store import StoreError
from screens.base import spawn
from screens.dialog import ListScreen
from screens.keys import bindings
from screens.ports import Cockpit
from themes.loader import load_themes
from widgets.painted import Filter
from widgets.painting.line import DIM, EMPTY, STRONG, cut, text, wrapped
from widgets.painting.metrics import copied, paint_backtest
from widgets.painting.pages import (
    TASK_MARKS,
    as_svg,
    as_text,
    change_words,
    paint_page,
    tasks_table,
    why_no_tasks,
)
from widgets.scrolled import Row

SAVED_WIDTH: Final = 100
"""Columns of a page in a file."""
SAVE_WITHIN: Final = 5.0


class SheetScreen(ListScreen):
    """Shows a page that ``make`` makes; ``status`` says why there is none (yet)."""

    SCOPES = ("page", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("page", "list")
    NOTE: ClassVar[str] = ""

    MAKING: ClassVar[str] = "making the page"

    def __init__(self, cockpit: Cockpit, run: str) -> None:
        super().__init__(cockpit)
        self._run = run
        self.text = ""
        """The page as it is copied."""
        self.status = self.MAKING

    def on_mount(self) -> None:
        """Make the page."""
        super().on_mount()
        spawn(self, self._make)

    @property
    def selected(self) -> str | None:
        """Return the run that the page is about."""
        return self._run

    async def make(self) -> None:
        """Make ``text``, or say in ``status`` why there is none; may raise what actions raise."""
        raise NotImplementedError

    def lines(self, page: Sequence[str], width: int) -> list[Content]:
        """Return the lines of the made page, of which names are masked already."""
        raise NotImplementedError

    def as_read_here(self, page: str) -> str:
        """Return the page as it is read now and here; files and the clipboard take it as it is."""
        return page

    async def _make(self) -> None:
        try:
            await self.make()
        except (OSError, RefuseError, StoreError, TimeoutError) as error:
            self.status = f"no page: {getattr(error, 'strerror', None) or error}"
        self.show()

    def rows(self) -> list[Row]:
        """Return the page as it was made."""
        page, kept = self.as_read_here(self.text), self.page.kept
        return [Row("", lambda width, _: self.painted(page, kept, width))]

    def note(self) -> Content:
        """Return what this page is."""
        return text((self.NOTE, DIM))

    def painted(self, page: str, kept: Filter, width: int) -> list[Content]:
        """Return the page's lines, or why there are none.

        Masked before anything is wrapped: a name over two lines is a name too.
        """
        if not page:
            return [text((self.status, DIM))]
        return self.lines([kept(Content(line)).plain for line in page.splitlines()], width)

    def action_sheet_copy(self) -> None:
        """Copy the whole page."""
        if self.text:
            self.cockpit.copy(self.text)
        else:
            self.cockpit.say("there is no page yet")

    def action_sheet_save(self) -> None:
        """Write the page as it is shown into files: Markdown, text and a picture."""
        if self.text:
            spawn(self, self._save)
        else:
            self.cockpit.say("there is no page yet")

    async def _save(self) -> None:
        kept = self.page.kept
        lines = self.painted(self.text, kept, SAVED_WIDTH)
        files = {
            "md": "".join(f"{kept(Content(line)).plain}\n" for line in self.text.splitlines()),
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


class BacktestScreen(SheetScreen):
    """Replays a run's rows in a process of its own, which ends with this screen."""

    NAME = "backtest"
    NOTE = "as if live, with the thresholds of the run file"
    MAKING = "replaying every logged row: about 10 s for a million"
    _found: Backtested | None = None

    async def make(self) -> None:
        """Replay the run."""
        self._found = await self.cockpit.replay(self._run)
        self.text = copied(self._found, self.cockpit.now())

    def painted(self, page: str, kept: Filter, width: int) -> list[Content]:
        """Return the loss, and each alert with when it would have opened."""
        if self._found is None:
            return super().painted(page, kept, width)
        return [kept(line) for line in paint_backtest(self._found, self.cockpit.now(), width)]


class DescribeScreen(SheetScreen):
    """What the job's own system tells of it, asked when this opens."""

    NAME = "describe"
    NOTE = "by the job's own system, secrets masked"
    MAKING = "asking the job's system"

    async def make(self) -> None:
        """Ask."""
        found = await self.cockpit.describe(self._run)
        self.status = found.problem or ""
        head = f"{found.system} · job {found.job or 'unknown'} · at {clock_time(found.at)}"
        self.text = "" if found.problem else f"{head}\n\n{found.text}"

    def lines(self, page: Sequence[str], width: int) -> list[Content]:
        """Return what was told, long lines wrapped below their own beginning."""
        lines: list[Content] = []
        for each in page:
            words = each.lstrip()
            left = " " * min(len(each) - len(words), width // 2)
            lines += [text(left, one) for one in wrapped(Content(words), width - len(left), 6)]
            lines += [] if words else [EMPTY]
        return lines


class TasksScreen(SheetScreen):
    """The tasks of an array or a sweep, those that failed first; follows the run."""

    NAME = "tasks"
    NOTE = "as far as its system still lists them"

    def show(self) -> None:
        """Show the tasks as they are known now."""
        report, now = self.cockpit.report_of(self._run), self.cockpit.now()
        if report is not None:
            facet = report.facets.job
            self.text = "\n".join(tasks_table(facet, now))
            self.status = why_no_tasks(facet, now)
        super().show()

    async def make(self) -> None:
        """Nothing is asked for: the report has them."""

    def lines(self, page: Sequence[str], width: int) -> list[Content]:
        """Return the table, each task in its phase's colour."""
        styles = {mark: style for mark, style in TASK_MARKS.values()}
        return [cut(text((line, styles.get(line[:1], STRONG))), width) for line in page]


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
        plan = await (await self.cockpit.actions.service()).plan(request)
        self.text = plan.page or ""
        self.status = "" if self.text else "no page: nothing to tell about this run"

    def as_read_here(self, page: str) -> str:
        """Return the page with its times on the reader's clock, and their ages; not in quotes."""
        now = self.cockpit.now()
        return change_words(page, lambda words: clocked_minutes(clocked(words, now), now))

    def lines(self, page: Sequence[str], width: int) -> list[Content]:
        """Return the page with its headings set apart."""
        return paint_page(page, width)


PAGES: Final[dict[str, type[SheetScreen]]] = {
    "page": HandoffPage, "backtest": BacktestScreen, "describe": DescribeScreen,
    "tasks": TasksScreen,
}  # fmt: skip
"""Pages of a run, by the id of their key."""
