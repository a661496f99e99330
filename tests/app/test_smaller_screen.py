"""A screen that is made smaller while something of it waits to be painted."""

from __future__ import annotations

from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from cockpit.app.terminal import on_screen


def test_what_lies_below_a_smaller_screen_is_not_painted() -> None:
    lines = [{0: Strip([Segment("ab")])}]
    update = on_screen(ChopsUpdate(lines, [(0, 0, 2), (7, 0, 2)], [[2]]))
    assert isinstance(update, ChopsUpdate) and "ab" in update.render_segments(Console())
    assert on_screen(ChopsUpdate(lines, [(7, 0, 2)], [[2]])) is None
