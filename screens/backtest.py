"""A run's past under the rules as they are now: what they would have told, and when."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.content import Content

from cockpit.model.history import Backtested
from screens.ports import Cockpit
from screens.sheet import SheetScreen
from widgets.fleet_header import KeyLine
from widgets.painting.metrics import copied, paint_backtest
from widgets.scrolled import Paged


class BacktestScreen(SheetScreen):
    """Replays a run's rows in a process of its own, which ends with this screen."""

    NAME = "backtest"
    NOTE = "as if live, with the thresholds of the run file"

    def __init__(self, cockpit: Cockpit, run: str) -> None:
        super().__init__(cockpit, run)
        self.status = "replaying every logged row: about 10 s for a million"
        self._found: Backtested | None = None

    def compose(self) -> ComposeResult:
        """Lay out the page and the footer."""
        yield Paged()
        yield KeyLine()

    async def make(self) -> None:
        """Replay the run."""
        try:
            self._found = await self.cockpit.replay(self._run)
        except (OSError, TimeoutError) as error:
            self.status = f"no backtest: {getattr(error, 'strerror', None) or error}"
        else:
            self.page = copied(self._found, self.cockpit.now())

    def lines(self, width: int) -> list[Content]:
        """Return the loss, and each alert with when it would have been told."""
        if self._found is None:
            return []
        return paint_backtest(self._found, self.cockpit.now(), width)
