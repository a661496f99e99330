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
from textual.geometry import Size
from textual.screen import Screen

from cockpit.app.application import CockpitApp
from cockpit.app.browser_picture import Picture, picture
from cockpit.app.browser_server import NOWHERE, Address, Seats, Server
from cockpit.app.opening import CONFIG, make
from cockpit.app.terminal import CRASHED
from cockpit.model.report import Verdict
from cockpit.model.run import CockpitFile
from screens.hotkeys import ACTIONS
from screens.keys import KeysError, key_event

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
SETTLES: Final = 0.15
"""Seconds in which sizes are gathered: a window that is drawn larger sends many."""
LEAST, MOST = (30, 10), (300, 100)
"""Columns and rows that the screen may take from a window."""
AT_FIRST: Final = (120, 40)
"""Its columns and rows before anybody looks."""


def key_of(name: str) -> events.Key | None:
    """Return the key that a browser names (``ArrowUp``, ``a``), or ``None`` for any other."""
    if name in NAMED:
        return key_event(NAMED[name])
    if len(name) == 1 and name.isprintable():
        return key_event("space" if name == " " else name)
    return None


class ServedApp(CockpitApp):
    """A window that several people look at from browsers, all at the same picture."""

    on_picture: Callable[[], object] = staticmethod(lambda: None)
    """Called when what is painted may have changed, at most once in ``GATHER`` seconds."""
    _gathers: asyncio.TimerHandle | None = None
    follows: bool = True
    """Whether its size is that of a viewer's window."""
    _wanted: Size | None = None
    _sizes: asyncio.TimerHandle | None = None

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

    def about(self) -> dict[str, object]:
        """Return what a page shows beside the picture.

        ``critical`` is the number of such runs, ``None`` where nobody watches; ``keys`` are names
        and titles of those that look.
        """
        ink, ground = self.base_colours
        critical = sum(each.verdict is Verdict.CRITICAL for each in self.reports)
        screen = self.screen_stack[-1] if self.screen_stack else None
        scope = getattr(screen, "SCOPE", "")
        return {
            "width": self.size.width,
            "ink": ink,
            "ground": ground,
            "critical": None if self.watch_state.stopped else critical,
            "keys": self.keys.footer(*([scope, "list"] if scope else self._scopes()), looks=True),
        }

    def press(self, name: str) -> None:
        """Take a key that a browser names; what is none is not heard."""
        key = key_of(name)
        if key is not None and self.is_running:
            self.post_message(key)

    def tap(self, column: int, row: int) -> None:
        """Take a click on a cell; beside the screen there is none."""
        if self.is_running and self.size.contains(column, row):
            for kind in (events.MouseDown, events.MouseUp):
                self.post_message(
                    kind(None, column, row, 0, 0, 1, False, False, False, column, row)
                )

    def fit(self, size: tuple[int, int]) -> None:
        """Take the size of a window, once it has stayed the same for a moment."""
        self._wanted = Size(*(max(a, min(b, c)) for a, b, c in zip(LEAST, size, MOST, strict=True)))
        if self.follows and self._sizes is None and self._wanted != self.size:
            self._sizes = asyncio.get_running_loop().call_later(SETTLES, self._take_size)

    def _take_size(self) -> None:
        self._sizes = None
        if self._driver is None or not self.is_running:
            self.fit(self._wanted or self.size)  # it starts
        elif self._wanted is not None and self._wanted != self.size:
            self._driver._size = self._wanted
            self.post_message(events.Resize(self._wanted, self._wanted))

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
    file: CockpitFile,
    *,
    run: str | None,
    port: int,
    size: tuple[int, int] | None,
    tell: Tell,
    address: Address = NOWHERE,
) -> int:
    """Serve a window on a run file until a signal; return the exit status, 130 for ctrl+c.

    ``size`` is in columns and rows; ``None``: that of a viewer's window. ``tell`` prints one line
    of what a person should know: the link, and the next one whenever one was used. ``address`` is
    where a proxy offers the page. Raises ``OSError`` where it cannot listen.
    """
    made = make(file, read_only=True)
    try:
        app = ServedApp(file, made.engine, present=True, read_only=True, run=run, means=made.means)
    except KeysError as error:
        for problem in error.problems:
            tell(f"{file.path}: {problem}")
        return CONFIG
    app.trouble = made.trouble
    app.follows = size is None
    asyncio.run(_serve(app, port, size or AT_FIRST, tell, address))
    if app.crash_line is not None:
        tell(app.crash_line)
        return CRASHED
    return app.return_code or 0


async def _serve(
    app: ServedApp, port: int, size: tuple[int, int], tell: Tell, address: Address
) -> None:
    def opened(link: str) -> None:
        tell(f"opened; for the next viewer: {link}")

    server = Server(app, Seats(), opened, address)
    await server.listen(port)
    app.on_picture = server.painted
    tell(f"a read-only window, masked as with --present, on port {server.port} of this machine")
    tell(f"from elsewhere: ssh -L {server.port}:127.0.0.1:{server.port} THIS-MACHINE; ends: ctrl+c")
    tell(f"this link opens once: {server.link}")
    try:
        await app.run_async(headless=True, size=size, mouse=False)
    finally:
        server.close()
