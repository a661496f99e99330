"""Themes are data: TOML files here, checked, made into Textual's themes.

They are ours and small: values of the model, which are checked by pydantic, would cost every start
more than the files hold.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from textual.theme import Theme

AUTO: Final = {"auto": "cockpit-dark", "auto-safe": "cockpit-dark-safe"}
"""Names that are dark or light as the terminal is: the dark one of each pair of twins."""
_COLOUR: Final = re.compile("#[0-9a-f]{6}")


class Colours(NamedTuple):
    """One accent, three severities (critical, attention, well), text and dim text."""

    background: str
    past: str
    """The background of what is shown of the past."""
    ink: str
    dim: str
    line: str
    accent: str
    critical: str
    critical_line: str
    attention: str
    well: str
    unknown: str
    spark: str
    band: str
    cursor: str
    hit: str


class LogColours(NamedTuple):
    """What the colours of foreign text become."""

    red: str
    green: str
    yellow: str
    blue: str
    magenta: str
    cyan: str


class ThemeFile(NamedTuple):
    """One theme file; ``twin`` is the theme that the theme key toggles to."""

    name: str
    twin: str
    dark: bool
    colors: Colours
    log: LogColours

    def variables(self) -> dict[str, str]:
        """Return the variables that styles may use, without their ``$``."""
        own = {name.replace("_", "-"): colour for name, colour in self.colors._asdict().items()}
        return own | {f"log-{name}": colour for name, colour in self.log._asdict().items()}

    def colourless(self) -> ThemeFile:
        """Return the theme for ``NO_COLOR``: rank by contrast, what needs a person first.

        Taken for its brightness alone a red is dimmer than a green.
        """
        own = self.colors
        first = "#ffffff" if self.dark else "#000000"
        quiet = _between(own.ink, own.dim)
        colours = own._replace(
            **dict.fromkeys(("critical", "critical_line", "attention"), first),
            **dict.fromkeys(("unknown", "accent"), own.ink),
            **dict.fromkeys(("well", "spark"), quiet),
        )
        log = dict.fromkeys(LogColours._fields, own.ink) | {"red": first, "yellow": first}
        return self._replace(colors=colours, log=LogColours(**log))

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


def read_theme(content: Mapping[str, Any]) -> ThemeFile:
    """Return a theme file's content; raises ``ValueError`` for one that is not as it must be."""
    colours, log = (_colours(kind, content.get(name)) for kind, name in _TABLES)
    name, twin, dark = (content.get(each) for each in ("name", "twin", "dark"))
    if not (isinstance(name, str) and isinstance(twin, str) and isinstance(dark, bool)):
        raise ValueError("expected a name, the name of its twin, and whether it is dark")
    if content.keys() != set(ThemeFile._fields):
        raise ValueError(f"expected {', '.join(ThemeFile._fields)} and nothing else")
    return ThemeFile(name, twin, dark, Colours(**colours), LogColours(**log))


_TABLES: Final = ((Colours, "colors"), (LogColours, "log"))


def _colours(kind: type[Colours | LogColours], table: object) -> dict[str, str]:
    found = {k.replace("-", "_"): v for k, v in table.items()} if isinstance(table, dict) else {}
    if found.keys() != set(kind._fields):
        raise ValueError(f"expected the colours {', '.join(kind._fields)}")
    for name, colour in found.items():
        if not isinstance(colour, str) or _COLOUR.fullmatch(colour) is None:
            raise ValueError(f"{name}: expected a colour such as #12151a")
    return found


def _between(one: str, other: str) -> str:
    """Return the colour half way between two."""
    pairs = zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + bytes((a + b) // 2 for a, b in pairs).hex()


@lru_cache(maxsize=1)
def load_themes() -> dict[str, ThemeFile]:
    """Return all themes by name; raises ``ValueError`` for a broken file."""
    texts = [each.read_text("utf-8") for each in Path(__file__).parent.glob("*.toml")]
    found = [read_theme(tomllib.loads(text)) for text in texts]
    return {theme.name: theme for theme in sorted(found, key=lambda theme: theme.name)}
