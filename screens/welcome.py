"""What a newcomer sees where there is no run file: the demo, and how to write one."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from screens.base import CockpitScreen
from screens.keys import bindings
from widgets.base.painted import Painted
from widgets.key_line import KeyLine
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, frame, text

DEMO: Final = "demo"
"""What the app returns when the demo was chosen."""

_EXAMPLE: Final = """\
[[run]]
name = "my-run"
final_step = 20000
job = { kind = "local", log = "logs/run.log", pid_file = "run.pid" }
wandb = { dir = "wandb" }
checkpoints = { path = "checkpoints", save_every = "15m" }
monitor = { state = "scratch/*_monitoring_state.json" }
records = { logbook = ".agents/logbooks/my-run.md" }"""


class _Page(Painted):
    def __init__(self, demo: str, leave: str) -> None:
        super().__init__()
        self._demo, self._leave = demo, leave

    def paint(self, width: int, height: int) -> list[Content]:
        wide = min(width, 84)
        page = frame(self._body(), wide, min(height, 24), title=text(("cockpit", f"bold {ACCENT}")))
        left = " " * ((width - wide) // 2)
        above = [EMPTY] * max(0, (height - len(page)) // 3)
        return [*above, *(text(left, line) for line in page)]

    def _body(self) -> list[Content]:
        return [
            text(("There is no cockpit.toml here, above, or in your config folder.", STRONG)),
            EMPTY,
            text("  ", (self._demo, f"bold {ACCENT}"), "  try it: seven real small training runs"),
            text("  ", (self._leave, f"bold {ACCENT}"), "  leave"),
            EMPTY,
            text("Or write a ", ("cockpit.toml", STRONG), " where your run lives:"),
            *(text("    ", (line, DIM)) for line in _EXAMPLE.splitlines()),
            EMPTY,
            text(("Leave out what you do not have; then type ", DIM), "cockpit", (" again.", DIM)),
        ]


class WelcomeScreen(CockpitScreen):
    """A short page; it starts nothing by itself."""

    SCOPES = ("welcome", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("welcome")

    def compose(self) -> ComposeResult:
        """Lay out the page and the footer."""
        keys = self.cockpit.keys
        yield _Page(keys.shown("demo"), keys.shown("quit"))
        yield KeyLine()

    def show(self) -> None:
        """Show the footer."""
        self.show_keys()

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here."""
        keys = self.cockpit.keys
        return [*keys.footer("welcome"), (keys.shown("quit"), "quit"), (keys.shown("help"), "keys")]

    def action_demo(self) -> None:
        """Leave and start the demo."""
        self.app.exit(DEMO)
