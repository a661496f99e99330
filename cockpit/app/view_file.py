"""How a person looked at a fleet, kept between sessions: one small file for each run file."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from cockpit.app.private_file import private_file, write_private
from cockpit.model.view import GROUPS, SORTS, View
from cockpit.runtime.offload import offload

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

SAVE_AFTER: Final = 2.0
"""Seconds in which changes of a view are gathered."""
SAVE_WITHIN: Final = 0.3
"""Seconds that leaving waits for it."""
MOST: Final = 65_536
"""Bytes of such a file; what is larger was not written here."""


class ViewFile:
    """The view of one run file in ``folder``; both methods block."""

    def __init__(self, folder: Path, run_file: str) -> None:
        self.path = private_file(folder, run_file)

    def load(self) -> View:
        """Return the view that was kept; a plain one where there is none that can be read."""
        try:
            with self.path.open("rb") as file:
                found = View.model_validate_json(file.read(MOST))
        except (OSError, ValidationError):
            return View.model_construct()
        known = found.sort in SORTS and found.group in GROUPS
        return found if known else found.model_copy(update={"sort": SORTS[0], "group": GROUPS[0]})

    def save(self, view: View) -> None:
        """Keep a view, readable by its owner alone; what cannot be kept is forgotten."""
        write_private(self.path, view.model_dump_json())


class KeptView:
    """The view of a session: kept a moment after it was changed, and when the session ends.

    ``views`` is where; without one it lasts as long as the session.
    """

    def __init__(self, views: ViewFile | None, timers: MessagePump) -> None:
        self._views = views
        self._timers = timers
        self.view = View.model_construct() if views is None else views.load()
        self._saved = self.view
        self._waiting = False

    def keep(self, view: View) -> None:
        """Remember a view, soon: a cursor that moves is not written at every key."""
        self.view = view
        if self._views is not None and view != self._saved and not self._waiting:
            self._waiting = True
            self._timers.set_timer(SAVE_AFTER, self.save)

    async def save(self) -> None:
        """Write what is not written yet, off the event loop: a home may lie far away."""
        self._waiting = False
        if self._views is None or self.view == self._saved:
            return
        self._saved = self.view
        with suppress(TimeoutError):
            await offload(partial(self._views.save, self.view), deadline=SAVE_WITHIN)
