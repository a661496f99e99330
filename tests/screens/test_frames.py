"""Every screen is painted as the files say, at three sizes, in every theme."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.screens.frames import FRAMES, SIZES, THEMED, THEMES, frames, path_of, section


@pytest.mark.parametrize("name", FRAMES)
async def test_a_screen_is_painted_as_its_file_says(name: str, tmp_path: Path) -> None:
    wanted = path_of(name).read_text("utf-8")
    seen = await frames(name, tmp_path, lambda title, frame: section(title, frame) in wanted)
    assert seen == wanted, "`make snapshots` writes it anew; read the difference"


def test_no_frame_is_of_a_screen_that_is_gone_and_each_has_its_sizes_and_themes() -> None:
    folder = path_of("fleet").parent
    assert {path.name for path in folder.iterdir()} == {path_of(name).name for name in FRAMES}
    for name in FRAMES:
        titles = [f"{width}x{height}" for width, height in SIZES]
        titles[1:1] = THEMES if name in THEMED else ()
        assert re.findall(r"^== (.+)$", path_of(name).read_text("utf-8"), re.M) == titles
