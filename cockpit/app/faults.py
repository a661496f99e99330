"""A fault in one screen closes that screen, not the cockpit; the first screen is made anew."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import Screen

from cockpit.app.typeahead import lives

MOMENT: Final = 5.0
"""Seconds within which a second fault ends the program: what was made anew fails as well."""


class ScreenFaults:
    """Contains the faults of an app's screens: ``keep`` writes a fault's details, ``tell`` tells.

    ``keep`` returns the one line about a fault. ``clock`` gives monotonic seconds.
    """

    def __init__(
        self,
        app: App[Any],
        keep: Callable[[BaseException], str],
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._keep = keep
        self._tell = tell
        self._clock = clock
        self._last: float | None = None
        self._closing: WeakSet[Screen[Any]] = WeakSet()

    def contains(self, error: Exception, pump: MessagePump | None) -> bool:
        """Return whether the program goes on; then what failed is closed soon, and reported."""
        app, screen = self._app, _screen_of(pump)
        if screen is not None and screen in self._closing:
            self._keep(error)
            return True
        now, last = self._clock(), self._last
        self._last = now
        again = last is not None and now - last < MOMENT
        if again or not (app.is_running and app._is_mounted):
            return False
        if screen is not None:
            self._closing.add(screen)
        return app.call_later(self._contain, screen, self._keep(error))

    async def _contain(self, screen: Screen[Any] | None, said: str) -> None:
        """Close a screen that failed, with what was opened from it, and say so."""
        stack = self._app._screen_stack
        if screen is None or screen not in stack:
            self._tell(said)
        elif screen is stack[0]:
            await self._make_anew(screen)
            self._tell(f"the {_name(screen)} was rebuilt: {said}")
        else:
            self._answer_here()
            while screen in stack:
                self._app.screen.dismiss(None)
            self._tell(f"the {_name(screen)} was closed: {said}")

    async def _make_anew(self, failed: Screen[Any]) -> None:
        """Put a new first screen in the place of the one that failed, below what is open."""
        app = self._app
        self._answer_here()
        made, mounted = app._get_screen(app.get_default_screen())
        app._load_screen_css(made)
        app._screen_stack[0] = made
        if app.screen is made:
            made.post_message(events.ScreenResume())
        app.screen_change_signal.publish(app.screen)
        await mounted
        await app._replace_screen(failed)

    def _answer_here(self) -> None:
        """Let the app hear the answers that a failed screen waits for: it hears nothing more."""
        for screen in self._app._screen_stack:
            for waiting in screen._result_callbacks:
                if not lives(waiting.requester) or waiting.requester in self._closing:
                    waiting.requester = self._app


def _screen_of(pump: MessagePump | None) -> Screen[Any] | None:
    while pump is not None and not isinstance(pump, Screen):
        pump = pump._parent
    return pump


def _name(screen: Screen[Any]) -> str:
    """Return what a person calls a screen: ``RunScreen`` is the run screen."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(screen).__name__).lower()
