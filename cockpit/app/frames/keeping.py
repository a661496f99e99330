"""The session's end of it: the fleet as it is when a person leaves is kept for the next start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.strip import Strip

from cockpit.app.frames.kept import Frame
from cockpit.app.frames.taking import FrameFile, NotKeptError, filtered, style_of, taken
from cockpit.app.typeahead import stands
from cockpit.model.instant import Noting
from screens.fleet import FleetScreen

if TYPE_CHECKING:
    from collections.abc import Callable

    from cockpit.app.application import CockpitApp


class LeftFrame:
    """Takes the frame once, when the app is told to end: nothing is painted from then on."""

    def __init__(self, file: FrameFile | None, app: CockpitApp) -> None:
        self._file = file
        self._app = app
        self._taken: Frame | None = None
        self.now: float | None = None
        """The moment to paint for while the frame is taken, and ever after."""

    def take(self) -> None:
        """Take the frame of the fleet, if it can be told anew later."""
        fleet = next(
            (each for each in self._app.screen_stack if isinstance(each, FleetScreen)), None
        )
        fits = fleet is not None and stands(fleet) and fleet.size == self._app.size
        if self._file is None or fleet is None or not fits or self._app.theme_chosen:
            return
        if all(each.not_read_yet is not None for each in self._app.reports):
            return  # nothing is known yet: what was kept before says more

        def paint(now: float) -> Sequence[Strip]:
            self.now = now
            fleet.show()
            return fleet._compositor.render_strips()

        at, app = self._app.now(), self._app
        try:
            mark = style_of(paint(at)[-1], app.colours) + ";7"
            dark = app.current_theme.dark
            self._taken = taken(paint, at, app.charset, dark, mark, app.colours)
        except NotKeptError:
            return
        except Exception as error:  # noqa: BLE001 - no fault of a screen keeps anybody from leaving
            self._app.keep_fault(error)

    def filtered(self, line: Content, keep: Callable[[Content], Content]) -> Content:
        """Return a line as it may be shown, whatever was noted in it."""
        return filtered(line, self.now, keep) if isinstance(self.now, Noting) else keep(line)

    async def save(self) -> None:
        """Write what was taken."""
        if self._file is not None and self._taken is not None:
            await self._file.save(self._taken, self._app.size)
