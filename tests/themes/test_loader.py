"""Themes can be read: in true colour, in 256 and in 16 colours."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.color import Color, ColorSystem
from textual.color import Color as Paint

from themes import loader
from themes.loader import load_themes, read_theme

THEMES = load_themes()
TEXT = ("ink", "accent", "critical", "attention", "well", "unknown", "dim")
LEAST = {"ink": 7.0, "dim": 4.5}


def contrast(one: str, other: str) -> float:
    lights = sorted(
        (0.2126 * _linear(c.r) + 0.7152 * _linear(c.g) + 0.0722 * _linear(c.b))
        for c in (Paint.parse(one), Paint.parse(other))
    )
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _linear(part: int) -> float:
    share = part / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def quantised(colour: str, system: ColorSystem) -> str:
    red, green, blue = Color.parse(colour).downgrade(system).get_truecolor()
    return f"#{red:02x}{green:02x}{blue:02x}"


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("ink", TEXT)
@pytest.mark.parametrize("paper", ["background", "past", "cursor"])
def test_text_is_legible(name: str, ink: str, paper: str) -> None:
    colours = THEMES[name].variables()
    least = LEAST.get(ink, 4.5) - (1.0 if paper == "cursor" else 0.0)
    assert contrast(colours[ink], colours[paper]) >= least


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("system", [ColorSystem.EIGHT_BIT, ColorSystem.STANDARD])
def test_text_is_legible_with_few_colours(name: str, system: ColorSystem) -> None:
    colours = THEMES[name].variables()
    paper = quantised(colours["background"], system)
    least = 4.0 if system is ColorSystem.EIGHT_BIT else 2.5
    for ink in TEXT:
        assert contrast(quantised(colours[ink], system), paper) >= least, ink
    assert quantised(colours["line"], system) != paper


@pytest.mark.parametrize("name", THEMES)
def test_log_colours_are_legible(name: str) -> None:
    colours = THEMES[name].variables()
    for ink, colour in colours.items():
        if ink.startswith("log-"):
            assert contrast(colour, colours["background"]) >= 4.5, ink


@pytest.mark.parametrize("name", THEMES)
def test_severities_differ_from_each_other_even_in_grey(name: str) -> None:
    colours = THEMES[name].variables()
    shown = {colours[each] for each in ("critical", "attention", "well", "unknown", "ink", "dim")}
    assert len(shown) == 6


@pytest.mark.parametrize("name", THEMES)
def test_the_theme_key_goes_there_and_back(name: str) -> None:
    twin = THEMES[THEMES[name].twin]
    assert twin.twin == name
    assert twin.dark is not THEMES[name].dark


def test_a_theme_file_is_checked() -> None:
    folder = Path(loader.__file__).parent
    whole = tomllib.loads((folder / "cockpit-dark.toml").read_text("utf-8"))
    assert read_theme(whole) == THEMES["cockpit-dark"]
    colours = whole["colors"]
    fewer = {name: colour for name, colour in colours.items() if name != "ink"}
    broken: list[dict[str, Any]] = [
        *(
            {"colors": other}
            for other in (fewer, colours | {"ink": "red"}, colours | {"x": "#000000"})
        ),
        *({"colors": colours | {"ink": 5}}, {"colors": 5}, {"log": {}}),
        *({"extra": 1}, {"name": 5}, {"dark": "yes"}),
    ]
    for change in broken:
        with pytest.raises(ValueError):
            read_theme(whole | change)
    for name in whole:
        with pytest.raises(ValueError):
            read_theme({key: value for key, value in whole.items() if key != name})
