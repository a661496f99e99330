"""A page of Markdown as a file of another kind, for the command line."""

from __future__ import annotations

from typing import Final

from themes.loader import load_themes
from widgets.painting.export import as_svg, as_text
from widgets.painting.markdown import paint_page

WIDTH: Final = 80
THEME: Final = "cockpit-light"
"""A picture is put into documents, which are light."""


def formatted(page: str, kind: str) -> str:
    """Return a page as ``svg`` or as ``txt``, of 80 columns."""
    lines = paint_page(page.splitlines(), WIDTH)
    return (
        as_text(lines) if kind == "txt" else as_svg(lines, WIDTH, load_themes()[THEME].variables())
    )
