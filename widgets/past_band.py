"""The head of the past: which moment it is, and where in the run's time."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from cockpit.model.past import Moment, Then
from widgets.base.painted import Painted
from widgets.painting.past import paint_band, paint_strip


class PastBand(Painted):
    """A band that nobody takes for the present, and the strip that is scrubbed."""

    DEFAULT_CSS = """
    PastBand { height: 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: Then | None = None
        self._moments: Sequence[Moment] = ()
        self._at = self._now = 0.0
        self._why = ""

    def show(
        self, found: Then | None, at: float, now: float, moments: Sequence[Moment], why: str
    ) -> None:
        """Show a moment (``at``) among those kept; ``why``: what keeps it from being read."""
        self._found, self._at, self._now = found, at, now
        self._moments, self._why = moments, why
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the band and the strip."""
        band = paint_band(self._found, self._at, self._now, width, self._why)
        return [band, paint_strip(self._moments, self._at, self._now, width)]
