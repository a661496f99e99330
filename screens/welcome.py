"""What a newcomer sees where there is no run file: what lies around, the demo, how to write one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import ClassVar, Final, NamedTuple

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from cockpit.text.safe import clean
from screens.base import CockpitScreen, spawn
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.fleet_header import KeyLine
from widgets.painted import Painted
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    STRONG,
    chosen_row,
    cut,
    fit,
    frame,
    text,
    wrapped,
)

DEMO: Final = "demo"
"""What the app returns when the demo was chosen."""
INIT: Final = "init "
"""What it returns before the source that a run file shall be made from."""
MOST: Final = 6
"""Lines of the list of what was found."""
WIDEST: Final = 96

_EXAMPLE: Final = """\
[[run]]
name = "my-run"
final_step = 20000
job = { kind = "local", log = "logs/run.log", pid_file = "run.pid" }
wandb = { dir = "wandb" }
checkpoints = { path = "checkpoints", save_every = "15m" }
monitor = { state = "scratch/*_monitoring_state.json" }
records = { logbook = ".agents/logbooks/my-run.md" }"""


class Around(NamedTuple):
    """What one look has found: (how ``init`` is asked for it, what it is); or why nothing."""

    found: tuple[tuple[str, str], ...]
    trouble: str = ""


class Welcome(NamedTuple):
    """What the page shows; ``looking`` while not everything has answered."""

    place: str
    keys: tuple[str, str, str]
    found: tuple[tuple[str, str], ...] = ()
    troubles: tuple[str, ...] = ()
    at: int = 0
    looking: bool = True


class _Page(Painted):
    shown = Welcome("", ("", "", ""))

    def paint(self, width: int, height: int) -> list[Content]:
        wide = min(width, WIDEST)
        body = paint_welcome(self.shown, max(1, wide - 4), height - 2)
        page = frame(body, wide, min(height, len(body) + 2), text(("cockpit", f"bold {ACCENT}")))
        left = " " * ((width - wide) // 2)
        above = [EMPTY] * max(0, (height - len(page)) // 3)
        return [*above, *(text(left, line) for line in page)]


def paint_welcome(shown: Welcome, width: int, height: int) -> list[Content]:
    """Return the page's lines; the example stands below where it has room as a whole."""
    said = f"No cockpit.toml found here, in a parent folder, or in {clean(shown.place, 200)}."
    make, demo, leave = (text("  ", fit(text((key, f"bold {ACCENT}")), 7)) for key in shown.keys)
    made = "make a cockpit.toml from it: asks for the rest, overwrites nothing"
    lines = [
        *wrapped(text((said, STRONG)), width, 2),
        EMPTY,
        *_paint_found(shown, width),
        EMPTY,
        *([cut(text(make, made), width)] if shown.found else []),
        cut(text(demo, "try the demo: seven small real training runs"), width),
        cut(text(leave, "quit"), width),
    ]
    example = [
        EMPTY,
        text("Or write a ", ("cockpit.toml", STRONG), " where your run lives:"),
        *(cut(text("    ", (line, DIM)), width) for line in _EXAMPLE.splitlines()),
        *wrapped(
            text(("Every line except name is optional. Save it, then run cockpit.", DIM)), width, 2
        ),
    ]
    return [*lines, *example] if len(lines) + len(example) <= height else lines


def _paint_found(shown: Welcome, width: int) -> list[Content]:
    """Return what was found around here, the selected one in sight, and what did not answer."""
    lines = [cut(text((f"? {clean(each, 300)}", "$unknown")), width) for each in shown.troubles]
    if shown.looking:
        lines.append(text(("looking for state files, logbooks, W&B runs and your jobs …", DIM)))
    if not shown.found:
        none = "Nothing here to make one from: no state file, logbook, W&B run or job of yours."
        known = not (shown.looking or shown.troubles)
        return [*wrapped(Content(none), width, 2), *lines] if known else lines
    first = max(0, min(shown.at - MOST + 1, len(shown.found) - MOST))
    rows = []
    for number, each in enumerate(shown.found[first : first + MOST], first):
        what, kind = (clean(words, 300) for words in each)
        said = text(Content(what), "  ", (kind, DIM))
        rows.append(chosen_row(said, width, number == shown.at))
    hidden = len(shown.found) - len(rows)
    more = [text((f"  {hidden} more", DIM))] if hidden else []
    return [text(("Found here", STRONG)), *rows, *more, *lines]


class WelcomeScreen(CockpitScreen):
    """A short page; it looks around, and changes nothing by itself."""

    SCOPES = ("welcome", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("welcome")

    def __init__(
        self, cockpit: Cockpit, place: str, look: Callable[[], AsyncIterator[Around]]
    ) -> None:
        super().__init__(cockpit)
        keys = cockpit.keys
        self._look = look
        self._shown = Welcome(place, (keys.shown("make"), keys.shown("demo"), keys.shown("quit")))

    def compose(self) -> ComposeResult:
        """Lay out the page and the footer."""
        yield _Page()
        yield KeyLine()

    def on_mount(self) -> None:
        """Show the page, then look around."""
        super().on_mount()
        spawn(self, self._look_around)

    async def _look_around(self) -> None:
        try:
            async for seen in self._look():
                troubles = (seen.trouble,) if seen.trouble else ()
                self._shown = self._shown._replace(
                    found=(*self._shown.found, *seen.found),
                    troubles=(*self._shown.troubles, *troubles),
                )
                self.show()
        finally:
            self._shown = self._shown._replace(looking=False)
            self.show()

    def show(self) -> None:
        """Show what is known, and the footer."""
        if self.is_mounted:
            page = self.query_one(_Page)
            page.shown = self._shown
            page.repaint()
            self.show_keys()

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here."""
        keys = self.cockpit.keys
        own = [each for each in keys.footer("welcome") if self._shown.found or each[1] != "make"]
        return [*own, (keys.shown("quit"), "quit"), (keys.shown("help"), "keys")]

    def action_step(self, steps: int) -> None:
        """Select another suggestion."""
        last = len(self._shown.found) - 1
        self._shown = self._shown._replace(at=max(0, min(self._shown.at + steps, last)))
        self.show()

    def action_make(self) -> None:
        """Leave, and make a run file from what is selected."""
        if self._shown.found:
            self.app.exit(INIT + self._shown.found[self._shown.at][0])
        else:
            self.cockpit.say("nothing was found here to make a cockpit.toml from")

    def action_demo(self) -> None:
        """Leave and start the demo."""
        self.app.exit(DEMO)
