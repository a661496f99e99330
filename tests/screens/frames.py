"""Frames of every screen at three sizes in every theme, as text and inks to compare with.

``make snapshots`` writes them anew into ``tests/data/frames``; read the difference before it is
committed: it is what people will see. ``make snapshots ARGS='--svg FOLDER'`` makes a picture of
each screen in each theme at each size out of what is kept there, to look at.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, Final

from textual.pilot import Pilot

from tests.screens.fuzz_ways import WAYS, app_on, reports
from tests.screens.inks import THEMES, Grid, grid, named, picture
from tests.screens.stand_in import text_of

SIZES: Final = ((80, 24), (120, 40), (200, 50))
"""The laptop over SSH, a window, the wall screen."""
ELSEWHERE: Final = frozenset(
    ("fleet as a list", "fleet with a filter", "run searching", "plan under way", "welcome")
)
"""Ways to a screen that stands here already, to steps that take their time, and to what is said of
the machine's own folders."""
WITH_A_LOG: Final = "run log"
"""The one that reads a file; on others its path would be this machine's."""
FRAMES: Final = {name: way for name, way in WAYS.items() if name not in ELSEWHERE}
FOLDER: Final = Path(__file__).resolve().parents[1] / "data" / "frames"
INKS: Final = "inks"
PATIENCE: Final = 10.0
TRIES: Final = 8
"""Reads of a frame before patience ends: where there is little CPU one alone takes seconds, and
Textual takes an app that gets none for one that is done."""
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
            for what, read in ((title, _plain), (f"{title} {INKS}", _inks)):
                parts.append(section(what, await _settle(pilot, what, settled, read)))
    return "".join(parts)


def section(title: str, body: str) -> str:
    """Return one part of a file of frames."""
    return f"== {title}\n{body}\n"


def sections(kept: str) -> dict[str, str]:
    """Return the parts of a file of frames by their titles."""
    parts = re.split(r"^== (.+)\n", kept, flags=re.M)
    return {title: body[:-1] for title, body in zip(parts[1::2], parts[2::2], strict=True)}


def pictures(kept: str, into: Path, name: str, sizes: tuple[str, ...] = ()) -> list[Path]:
    """Write a file of frames as pictures, one for each size (of ``sizes``) and theme."""
    found, made = sections(kept), []
    into.mkdir(parents=True, exist_ok=True)
    for title in (each for each in found if INKS not in each):
        for theme in THEMES if not sizes or title in sizes else ():
            path = into / f"{path_of(name).stem}-{title}-{theme}.svg"
            drawn = picture(found[title], found[f"{title} {INKS}"], theme, f"{title} {name}")
            path.write_text(drawn, "utf-8")
            made.append(path)
    return made


Read = Callable[[Pilot[Any]], Awaitable[str]]


async def _settle(pilot: Pilot[Any], title: str, settled: Settled, read: Read) -> str:
    """Return the frame as soon as it is whole, or what stands there when patience ends."""
    deadline = time.monotonic() + PATIENCE
    for tries in count(1):
        await pilot.pause()
        frame = await read(pilot)
        if settled(title, frame) or (tries >= TRIES and time.monotonic() > deadline):
            break
        await asyncio.sleep(0.01)
    return frame


async def _plain(pilot: Pilot[Any]) -> str:
    return "\n".join(line.rstrip() for line in text_of(pilot.app).splitlines())


async def _inks(pilot: Pilot[Any]) -> str:
    """Return the inks of the screen, painted in one theme after the other."""
    grids: dict[str, Grid] = {pilot.app.theme: grid(pilot)}
    for theme in THEMES:
        if theme not in grids:
            pilot.app.theme = theme
            await pilot.pause()
            grids[theme] = grid(pilot)
    return named([grids[theme] for theme in THEMES])


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
    if sys.argv[1:2] == ["--svg"]:
        for name in sys.argv[3:] or FRAMES:
            pictures(path_of(name).read_text("utf-8"), Path(sys.argv[2]), name)
        return
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or FRAMES:
        with tempfile.TemporaryDirectory() as folder:
            path_of(name).write_text(asyncio.run(frames(name, Path(folder), Still())), "utf-8")


if __name__ == "__main__":
    main()
