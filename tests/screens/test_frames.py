"""Every screen is painted as the files say, at three sizes, in every theme."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.screens.frames import (
    FRAMES,
    INKS,
    SIZES,
    frames,
    path_of,
    pictures,
    section,
    sections,
)
from tests.screens.inks import GROUND, THEMES
from themes.loader import load_themes


@pytest.mark.parametrize("name", FRAMES)
async def test_a_screen_is_painted_as_its_file_says(name: str, tmp_path: Path) -> None:
    wanted = path_of(name).read_text("utf-8")
    seen = await frames(name, tmp_path, lambda title, frame: section(title, frame) in wanted)
    if seen != wanted:
        sizes = tuple({title.split()[0] for title in _other(seen, wanted)})
        pictures(wanted, tmp_path / "wanted", name, sizes)
        pictures(seen, tmp_path / "seen", name, sizes)
    why = (
        f"pictures of {{both}} in {tmp_path}; `make snapshots` writes it anew: read the difference"
    )
    assert seen == wanted, why.format(both="what is wanted and what is seen")


def _other(seen: str, wanted: str) -> list[str]:
    """Return the titles of the parts that differ."""
    new, old = sections(seen), sections(wanted)
    return [title for title in new if old.get(title) != new[title]]


def test_no_frame_is_of_a_screen_that_is_gone_and_each_has_its_sizes() -> None:
    folder = path_of("fleet").parent
    assert {path.name for path in folder.iterdir()} == {path_of(name).name for name in FRAMES}
    titles = [f"{width}x{height}{part}" for width, height in SIZES for part in ("", f" {INKS}")]
    for name in FRAMES:
        assert re.findall(r"^== (.+)$", path_of(name).read_text("utf-8"), re.M) == titles


def test_every_ink_is_a_colour_of_the_themes() -> None:
    for name in FRAMES:
        for title, body in sections(path_of(name).read_text("utf-8")).items():
            assert INKS not in title or "#" not in body, f"{name}, {title}"


def test_a_kept_frame_is_a_picture_in_each_theme(tmp_path: Path) -> None:
    made = pictures(path_of("plan").read_text("utf-8"), tmp_path, "plan", ("80x24",))
    assert [path.name for path in made] == [f"plan-80x24-{theme}.svg" for theme in THEMES]
    for path, theme in zip(made, THEMES, strict=True):
        colours, drawn = load_themes()[theme].variables(), path.read_text("utf-8")
        assert colours["critical"] in drawn and colours[GROUND] in drawn
        words = "".join(ElementTree.fromstring(drawn).itertext()).replace("\xa0", " ")
        assert "Cannot run now: 1 check blocks it." in words
