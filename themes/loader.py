"""Themes are data: TOML files here, checked, made into Textual's themes."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, StringConstraints
from textual.theme import Theme

AUTO: Final = {"auto": "cockpit-dark", "auto-safe": "cockpit-dark-safe"}
"""Names that are dark or light as the terminal is: the dark one of each pair of twins."""
Colour = Annotated[str, StringConstraints(pattern="^#[0-9a-f]{6}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-")
    )


class Colours(_Strict):
    """One accent, three severities (critical, attention, well), text and dim text."""

    background: Colour
    past: Colour
    """The background of what is shown of the past."""
    ink: Colour
    dim: Colour
    line: Colour
    accent: Colour
    critical: Colour
    critical_line: Colour
    attention: Colour
    well: Colour
    unknown: Colour
    spark: Colour
    band: Colour
    cursor: Colour
    hit: Colour


class LogColours(_Strict):
    """What the colours of foreign text become."""

    red: Colour
    green: Colour
    yellow: Colour
    blue: Colour
    magenta: Colour
    cyan: Colour


class ThemeFile(_Strict):
    """One theme file; ``twin`` is the theme that the theme key toggles to."""

    name: str
    twin: str
    dark: bool
    colors: Colours
    log: LogColours

    def variables(self) -> dict[str, str]:
        """Return the variables that styles may use, without their ``$``."""
        own = self.colors.model_dump(by_alias=True)
        return own | {f"log-{name}": colour for name, colour in self.log.model_dump().items()}

    def colourless(self) -> ThemeFile:
        """Return the theme for ``NO_COLOR``: rank by contrast, what needs a person first.

        Taken for its brightness alone a red is dimmer than a green.
        """
        own = self.colors
        first = "#ffffff" if self.dark else "#000000"
        quiet = _between(own.ink, own.dim)
        colours = own.model_copy(
            update=dict.fromkeys(("critical", "critical_line", "attention"), first)
            | dict.fromkeys(("unknown", "accent"), own.ink)
            | dict.fromkeys(("well", "spark"), quiet)
        )
        log = dict.fromkeys(LogColours.model_fields, own.ink) | {"red": first, "yellow": first}
        return self.model_copy(update={"colors": colours, "log": LogColours(**log)})

    def textual(self) -> Theme:
        """Return it as Textual knows themes."""
        own = self.colors
        return Theme(
            name=self.name,
            dark=self.dark,
            primary=own.accent,
            secondary=own.spark,
            accent=own.accent,
            warning=own.attention,
            error=own.critical,
            success=own.well,
            foreground=own.ink,
            background=own.background,
            surface=own.background,
            panel=own.cursor,
            variables=self.variables(),
        )


def _between(one: str, other: str) -> str:
    """Return the colour half way between two."""
    pairs = zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + bytes((a + b) // 2 for a, b in pairs).hex()


@lru_cache(maxsize=1)
def load_themes() -> dict[str, ThemeFile]:
    """Return all themes by name; raises ``pydantic.ValidationError`` for a broken file."""
    texts = [each.read_text("utf-8") for each in Path(__file__).parent.glob("*.toml")]
    found = [ThemeFile.model_validate(tomllib.loads(text)) for text in texts]
    return {theme.name: theme for theme in sorted(found, key=lambda theme: theme.name)}
