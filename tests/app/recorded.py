"""The real app, headless, with its frames going to a terminal of the tests' as cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Offset, Size

from cockpit.app.application import CockpitApp
from cockpit.app.cell_output import CellOutput
from tests.emulator import Emulator


@dataclass
class Line:
    """What takes what is written: at once, unless it ``waits``."""

    sent: list[str] = field(default_factory=list)
    waits: bool = False
    failed: bool = False
    then: Callable[[], object] | None = None

    def write(self, data: str) -> None:
        self.sent.append(data)

    def flush(self) -> None:
        pass

    def busy(self, then: Callable[[], object]) -> bool:
        self.then = then
        return self.waits

    def cut(self) -> bool:
        failed, self.failed = self.failed, False
        return failed


class Recorded(CellOutput):
    """Keeps beside it what a terminal shows that gets what Textual itself would have written."""

    def __init__(self, line: Line, size: tuple[int, int]) -> None:
        super().__init__(line)
        self.line = line
        self.plain, self.ours = Emulator(*size), Emulator(*size)
        self.plain_bytes = 0
        self.frames = 0
        self._console = Console(color_system="truecolor", force_terminal=True)

    def take(self, update: RenderableType, size: Size, colours: object) -> None:
        assert isinstance(update, LayoutUpdate | ChopsUpdate)
        written = update.render_segments(self._console)
        self.plain_bytes += len(written.encode())
        self.plain.feed(f"\x1b[?7l{written}")
        super().take(update, size, ColorSystem.TRUECOLOR)

    def send(self, cursor: Offset | None, synchronized: bool, then: Callable[[], object]) -> None:
        before = len(self.line.sent)
        super().send(cursor, synchronized, then)
        self.ours.feed("\x1b[?7l" + "".join(self.line.sent[before:]))
        if not self.line.waits:
            self.frames += 1
            assert self.ours.seen() == self.plain.seen()

    @property
    def written(self) -> int:
        """Bytes so far."""
        return sum(len(each.encode()) for each in self.line.sent)


def recorded(app: CockpitApp, size: tuple[int, int]) -> Recorded:
    """Let an app that runs headless write to a terminal of the tests'; paint it whole."""
    output = Recorded(Line(), size)
    assert app._driver is not None
    vars(app._driver)["cells"] = output
    app.screen.refresh()
    return output
