"""Frames of every screen at three sizes, and their inks in every theme, as text to compare with.

``make snapshots`` writes them anew into ``tests/data/frames``; read the difference before it is
committed: it is what people will see.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from textual.pilot import Pilot

from tests.screens.fuzz_ways import WAYS, app_on, reports
from tests.screens.stand_in import text_of
from themes.loader import load_themes

SIZES: Final = ((80, 24), (120, 40), (200, 50))
"""The laptop over SSH, a window, the wall screen."""
THEMES: Final = tuple(load_themes())
ELSEWHERE: Final = frozenset(
    ("fleet as a list", "fleet with a filter", "run searching", "plan under way", "welcome")
)
"""Ways to a screen that stands here already, to steps that take their time, and to what is said of
the machine's own folders."""
THEMED: Final = frozenset(("fleet", "run charts", "plan", "palette"))
"""Screens that have between them every ink; elsewhere the same are painted."""
WITH_A_LOG: Final = "run log"
"""The one that reads a file; on others its path would be this machine's."""
FRAMES: Final = {name: way for name, way in WAYS.items() if name not in ELSEWHERE}
FOLDER: Final = Path(__file__).resolve().parents[1] / "data" / "frames"
PATIENCE: Final = 10.0
Settled = Callable[[str, str], bool]


def path_of(name: str) -> Path:
    """Return the file that holds a screen's frames."""
    return FOLDER / f"{name.replace(', ', '-').replace(' ', '-')}.txt"


async def frames(name: str, folder: Path, settled: Settled) -> str:
    """Come to a screen and return its frames; ``settled(title, frame)`` says when one is whole."""
    way = FRAMES[name]
    app, _ = app_on(way, folder, None if name == WITH_A_LOG else reports())
    parts = []
    async with app.run_test(size=SIZES[0]) as pilot:
        app.theme = THEMES[0]
        await way.come(pilot)
        for size in SIZES:
            await pilot.resize_terminal(*size)
            title = f"{size[0]}x{size[1]}"
            parts.append(section(title, await _settle(pilot, title, settled)))
            if size == SIZES[0] and name in THEMED:
                parts += [await _inked(pilot, theme, settled) for theme in THEMES]
    return "".join(parts)


def section(title: str, body: str) -> str:
    """Return one part of a file of frames."""
    return f"== {title}\n{body}\n"


async def _inked(pilot: Pilot[Any], theme: str, settled: Settled) -> str:
    """Return the inks of the screen in one theme, by how many cells have them."""
    pilot.app.theme = theme
    body = await _settle(pilot, theme, settled, lambda: _inks(pilot))
    if theme == THEMES[-1]:
        pilot.app.theme = THEMES[0]
    return section(theme, body)


def _inks(pilot: Pilot[Any]) -> str:
    cells: Counter[str] = Counter()
    for strip in pilot.app.screen._compositor.render_strips():
        for segment in strip:
            if segment.style is not None and segment.text.strip():
                cells[str(segment.style)] += len(segment.text)
    return "\n".join(f"{count:5} {ink}" for ink, count in sorted(cells.items()))


async def _settle(
    pilot: Pilot[Any], title: str, settled: Settled, read: Callable[[], str] | None = None
) -> str:
    """Return the frame as soon as it is whole, or what stands there when patience ends."""
    deadline = time.monotonic() + PATIENCE
    while True:
        await pilot.pause()
        frame = _plain(pilot) if read is None else read()
        if settled(title, frame) or time.monotonic() > deadline:
            return frame
        await asyncio.sleep(0.01)


def _plain(pilot: Pilot[Any]) -> str:
    return "\n".join(line.rstrip() for line in text_of(pilot.app).splitlines())


class Still:
    """A frame is whole once it has stood still for as long as nothing here takes."""

    def __init__(self) -> None:
        self.seen: tuple[str, str, float] = ("", "", 0.0)

    def __call__(self, title: str, frame: str) -> bool:
        now = time.monotonic()
        if self.seen[:2] != (title, frame):
            self.seen = title, frame, now
        return now - self.seen[2] > 0.4


def main() -> None:
    """Write every screen's frames anew; those of which the name is given alone."""
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or FRAMES:
        with tempfile.TemporaryDirectory() as folder:
            path_of(name).write_text(asyncio.run(frames(name, Path(folder), Still())), "utf-8")


if __name__ == "__main__":
    main()
