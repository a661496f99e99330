"""``cockpit serve``: the app without a terminal, masked and read-only, and its listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.console import RenderableType
from textual import events
from textual._compositor import LayoutUpdate
from textual.actions import ActionParseResult
from textual.dom import DOMNode
from textual.keys import _character_to_key
from textual.screen import Screen

from cockpit.app.application import CockpitApp
from cockpit.app.browser_server import Picture, Seats, Server, picture
from cockpit.app.opening import CONFIG, make
from cockpit.app.terminal import CRASHED
from cockpit.model.run import CockpitFile
from screens.hotkeys import ACTIONS
from screens.keys import KeysError

NAMED: Final = {
    "ArrowUp": "up", "ArrowDown": "down", "ArrowLeft": "left", "ArrowRight": "right",
    "Enter": "enter", "Escape": "escape", "Tab": "tab", "Backspace": "backspace",
    "Delete": "delete", "Home": "home", "End": "end", "PageUp": "pageup",
    "PageDown": "pagedown", "F1": "f1",
}  # fmt: skip
"""A browser's names of keys, and the table's."""
_LOOKS: Final = frozenset(each.run for each in ACTIONS if each.looks)
"""What a browser may do. The rest ends this window for all who look, or reaches the clipboard,
files, sources or the shell of this machine."""
_TITLES: Final = {each.run: each.title for each in ACTIONS}
_GUARDED: Final = "act('"
"""How a guarded action begins: it is let through to be refused in its own words."""
GATHER: Final = 0.05
"""Seconds in which paints are gathered into one picture."""


def key_of(name: str) -> events.Key | None:
    """Return the key that a browser names (``ArrowUp``, ``a``), or ``None`` for any other."""
    if name in NAMED:
        return events.Key(NAMED[name], None)
    if len(name) == 1 and name.isprintable():
        return events.Key("space" if name == " " else _character_to_key(name), name)
    return None


class ServedApp(CockpitApp):
    """A window that several people look at from browsers, all at the same picture."""

    on_picture: Callable[[], object] = staticmethod(lambda: None)
    """Called when what is painted may have changed, at most once in ``GATHER`` seconds."""
    _gathers: asyncio.TimerHandle | None = None

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        super()._display(screen, renderable)
        if renderable is not None and self._gathers is None:
            self._gathers = asyncio.get_running_loop().call_later(GATHER, self._gathered)

    def _gathered(self) -> None:
        self._gathers = None
        self.on_picture()

    def picture(self) -> Picture:
        """Return what stands on the screen: nothing before the first paint, or while leaving."""
        if not self.is_running or not self.screen_stack or not self.screen.is_mounted:
            return ()
        with self._context():
            whole = self.screen._compositor.render_update(
                full=True, screen_stack=self._background_screens
            )
        assert isinstance(whole, LayoutUpdate), "a full update is a whole layout"
        rows = ([piece for strip in row for piece in strip] for row in whole.strips)
        return picture(rows, *self.base_colours)

    @property
    def base_colours(self) -> tuple[str, str]:
        """The ink and the ground of what has no colour of its own, as ``#rrggbb``."""
        found = self.theme_variables
        return found.get("ink", found["foreground"])[:7], found["background"][:7]

    def press(self, name: str) -> None:
        """Take a key that a browser names; what is none is not heard."""
        key = key_of(name)
        if key is not None and self.is_running:
            self.post_message(key)

    def seen(self, name: str) -> None:
        """Record nothing: whoever looks on is not known to be on call."""

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what only looks; of any other key of the table say that it is not for a browser."""
        title = _TITLES.get(action, "") if isinstance(action, str) else ""
        if title and action not in _LOOKS and not str(action).startswith(_GUARDED):
            self.say(f"{title}: not from a browser; only looking works here")
            return True
        return await super().run_action(action, default_namespace, namespaces)


Tell = Callable[[str], object]


def serve_app(
    file: CockpitFile, *, run: str | None, port: int, size: tuple[int, int], tell: Tell
) -> int:
    """Serve a window on a run file until a signal; return the exit status, 130 for ctrl+c.

    ``size`` is in columns and rows. ``tell`` prints one line of what a person should know: the
    link, and the next one whenever one was used. Raises ``OSError`` where it cannot listen.
    """
    made = make(file, read_only=True)
    try:
        app = ServedApp(file, made.engine, present=True, read_only=True, run=run, means=made.means)
    except KeysError as error:
        for problem in error.problems:
            tell(f"{file.path}: {problem}")
        return CONFIG
    app.trouble = made.trouble
    asyncio.run(_serve(app, port, size, tell))
    if app.crash_line is not None:
        tell(app.crash_line)
        return CRASHED
    return app.return_code or 0


async def _serve(app: ServedApp, port: int, size: tuple[int, int], tell: Tell) -> None:
    server = Server(app, Seats(), lambda link: tell(f"opened; for the next viewer: {link}"))
    await server.listen(port)
    app.on_picture = server.painted
    tell(f"a read-only window, masked as with --present, on port {server.port} of this machine")
    tell(f"from elsewhere: ssh -L {server.port}:127.0.0.1:{server.port} THIS-MACHINE; ends: ctrl+c")
    tell(f"this link opens once: {server.link}")
    try:
        await app.run_async(headless=True, size=size, mouse=False)
    finally:
        server.close()
