"""One run in a panel of the fleet: a slot that shows whichever run it is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from textual.content import Content
from textual.message import Message

from cockpit.model.report import RunReport
from widgets.base.kept import Kept, kept
from widgets.base.painted import Painted
from widgets.painting.panel import paint_panel


@dataclass
class RunClicked(Message):
    """A person clicked on a run of the fleet."""

    name: str


class RunPanel(Painted):
    """A slot of the grid: shows whichever run it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.report: RunReport | None = None
        self._now = 0.0
        self._marks = (False, False)
        self._standing: Kept | None = None
        """The one that stands there: nothing does for a slot without a run."""
        self._kept: Kept | None = None
        """What was painted last: most panels stand as they stood, whatever is pressed or told."""

    def show(
        self, report: RunReport | None, now: float, selected: bool, liked: bool = False
    ) -> None:
        """Show a run at a moment; nothing is written if that changes nothing."""
        self.report, self._now, self._marks = report, now, (selected, liked)
        if not self._stands_so():
            self.repaint()

    def aged(self, now: float) -> bool:
        """Return whether an age in it may read otherwise by now."""
        found = self._standing
        return self.report is not None and not (found is not None and found.lasts(now))

    def _stands_so(self) -> bool:
        """Return whether what stands there is what would be painted, without painting it.

        A cursor that moves is shown to every panel of the fleet.
        """
        found, report = self._standing, self.report
        if found is None or report is None or found.about[2:] != (self._marks,):
            return False
        same = found.holds(report, self._now, found.about)
        if same and found.report is not report:  # the next question is a short one
            self._standing = found._replace(report=report)
        return same and self._form == getattr(self.app, "paint_form", None)

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the panel's lines."""
        if self.report is None:
            self._standing = None
            return []
        about = (width, height, self._marks)
        if self._kept is None or not self._kept.holds(self.report, self._now, about):
            paint = partial(paint_panel, self.report, self._now, width, height, *self._marks)
            self._kept = kept(self.report, self._now, about, paint)
        elif self._kept.report is not self.report:  # the next question is a short one
            self._kept = self._kept._replace(report=self.report)
        self._standing = self._kept
        return self._kept.lines

    def on_click(self) -> None:
        """Tell which run was clicked."""
        if self.report is not None:
            self.post_message(RunClicked(self.report.name))
