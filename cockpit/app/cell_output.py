"""Writes the frames of the app to the terminal as cells, and only those that differ.

This is the only place that knows the private updates of the compositor of Textual. Tests compare
what it makes of them with what they write themselves, and fail when another Textual paints
otherwise. ``COCKPIT_OUTPUT=plain`` leaves it out: then everything is written as Textual paints it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Final, Protocol

from rich.color import ColorSystem
from rich.console import RenderableType
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.geometry import Offset, Size
from textual.strip import Strip

from cockpit.app.output.encoder import PLAIN, Cell, Pen, cells_of, pen_of
from cockpit.app.output.stage import Stage, in_gnu_screen, stage_here

_RENDERED: Final = re.compile(r"(?:\x1b\]8;([^\x1b\x07]*)\x1b\\)?(?:\x1b\[([\d;]*)m)?x")


def placed(update: RenderableType, colours: ColorSystem) -> Iterator[tuple[int, int, list[Cell]]]:
    """Yield row, column and cells of an update; raises ``TypeError`` for one of another kind."""
    if isinstance(update, LayoutUpdate):
        strips = _of_layout(update)
    elif isinstance(update, ChopsUpdate):
        strips = _of_chops(update)
    else:
        raise TypeError(f"Textual paints a {type(update).__name__}, which is not known here")
    for y, x, strip in strips:
        cells: list[Cell] = []
        for text, style, control in strip:
            if not control:
                cells += _segment(text, style, colours)
        yield y, x, cells


def _of_layout(update: LayoutUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, line in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in line:
            yield y, x, strip
            x += strip.cell_length


def _of_chops(update: ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, start, end in update.spans:
        for chop_end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= end and chop_end > start:
                yield y, x, strip if chop_end <= end else strip.crop(0, end - x)


@lru_cache(maxsize=8192)
def _segment(text: str, style: Style | None, colours: ColorSystem) -> list[Cell]:
    return cells_of(text, PLAIN if style is None else _pen(style, colours))


@lru_cache(maxsize=4096)
def _pen(style: Style, colours: ColorSystem) -> Pen:
    """Return a style as the terminal takes it, by what it renders itself to."""
    found = _RENDERED.match(style.render("x", color_system=colours))
    return PLAIN if found is None else pen_of(found[2] or "", found[1] or "")


SWITCH: Final = "COCKPIT_OUTPUT"
"""The variable that turns this off: ``plain``; anything else leaves it on."""

_TRIED: Final = 4
"""Blanks that a terminal is asked to write once more than the one it is given."""


class Line(Protocol):
    """What is written to the terminal goes through this."""

    def write(self, data: str) -> None:
        """Hand over what shall be written."""

    def flush(self) -> None:
        """Let it be written."""

    def busy(self, then: Callable[[], object]) -> bool:
        """Return whether something waits to be written; if so ``then`` is called when it is out."""

    def cut(self) -> bool:
        """Return whether since the last call a write has failed."""


def wanted_here(variables: Mapping[str, str]) -> bool:
    """Return whether frames go as cells here."""
    return variables.get(SWITCH, "") != "plain"


def colours_here(variables: Mapping[str, str], found: ColorSystem | None) -> ColorSystem | None:
    """Return which colours to write with: those found, but true ones only where they arrive.

    COLORTERM is the word of the terminal around GNU screen, which takes a true colour for others.
    """
    lost = in_gnu_screen(variables) and not variables.get("TEXTUAL_COLOR_SYSTEM")
    return ColorSystem.EIGHT_BIT if lost and found is ColorSystem.TRUECOLOR else found


class CellOutput:
    """Keeps what the terminal shows; sends what differs once it has taken what was sent before."""

    def __init__(self, line: Line) -> None:
        self.stage = stage_here(os.environ)
        self._line = line
        self._begun = False
        self.kept = False
        """Whether a frame of the session before was on the terminal when this one began."""
        self._asked_at: tuple[int, int] | None = None

    def take(self, update: RenderableType, size: Size, colours: ColorSystem) -> None:
        """Take an update; raises ``TypeError`` for one that is not known."""
        self.stage.resize(*size)
        for y, x, cells in placed(update, colours):
            self.stage.put(y, x, cells)
        self._begun = True

    def send(self, cursor: Offset | None, synchronized: bool, then: Callable[[], object]) -> None:
        """Write what differs; while the terminal is busy nothing, and ``then`` is called after."""
        if not self._begun or self._line.busy(then):
            return
        if self._line.cut():
            self.stage.doubt()
        place = None if cursor is None else (cursor.y, cursor.x)
        text = self.stage.frame(place, synchronized=synchronized)
        if text:
            self._line.write(text)
            self._line.flush()

    def question(self, rows: int) -> str:
        """Return what finds out whether the terminal repeats letters (REP), on its last row.

        It says where its cursor is then. Many that go by the name of one that does do not.
        """
        self._asked_at = 1 + _TRIED, rows - 1
        asked = f"\x1b[{rows};1H\N{NO-BREAK SPACE}\x1b[{_TRIED}b\x1b[6n"
        return asked + self.stage.overwritten(rows - 1, 1 + _TRIED)

    def answered(self, x: int, y: int) -> None:
        """Take the answer: where the cursor was (0 first).

        Keys read like one, too: F3 with ctrl and shift is a cursor in the sixth column of the top.
        """
        if (x, y) == self._asked_at:
            self.stage.can_repeat()

    def begin(self, stage: Stage | None) -> None:
        """Begin with what the terminal shows already; ``None``: nobody knows."""
        self.kept = stage is not None and not stage.doubted
        self.stage = stage or self.stage
        if stage is None:
            self.stage.doubt()

    def doubt(self) -> None:
        """Forget what the terminal shows: all is written again. From any thread or signal."""
        self.stage.doubt()


class CellApp(App[str]):
    """An app whose frames go as cells, where its driver has a ``CellOutput``."""

    live_wanted: asyncio.Event
    """Set once what is so now is more to a person than what was kept of the last session."""

    def __init__(self) -> None:
        super().__init__()
        found = self.console._color_system
        self.console._color_system = colours_here(os.environ, found)

    @property
    def cells(self) -> CellOutput | None:
        """Where the frames go; ``None``: Textual writes them itself."""
        found = getattr(self._driver, "cells", None)
        return found if isinstance(found, CellOutput) else None

    @property
    def colours(self) -> ColorSystem:
        """Which colours this terminal has, by its own word; where it has none, all."""
        return getattr(self.console, "_color_system", None) or ColorSystem.TRUECOLOR

    def report_fault(self, error: BaseException) -> str:
        """Keep a fault's details and report it; return the line about it."""
        raise NotImplementedError

    def display_cells(self, update: RenderableType) -> None:
        """Paint an update, in place of Textual's own way."""
        cells = self.cells
        if cells is not None and self._running and not self._closed:
            with self._else_plainly():
                cells.take(update, self.size, self.colours)
            self._send_cells()
        self.post_display_hook()

    def repaint(self) -> None:
        """Paint the whole screen anew: something else has written on the terminal."""
        if self.cells is None:
            self.refresh()
        else:
            self.cells.doubt()
            self.live_wanted.set()
            self._send_cells()

    def action_repaint(self) -> None:
        """Paint the whole screen anew."""
        self.repaint()

    def still_that_size(self, size: Size) -> None:
        """Paint anew what a terminal lost that was made smaller and as large as before at once.

        Where the size is another one, everything is painted anyway.
        """
        if self.cells is None or not self.cells.stage.doubted:
            return
        self.live_wanted.set()
        if self.cells.stage.size == size:
            self.call_later(self._send_cells)

    def _send_cells(self) -> None:
        """Write what differs from what the terminal shows, now or once it has taken the former."""
        cells = self.cells
        if cells is not None and self.screen_stack and not self._closed:
            with self._else_plainly():
                later = partial(self.call_later, self._send_cells)
                cells.send(self._text_cursor, self._sync_available, later)

    @property
    def _text_cursor(self) -> Offset | None:
        """Where text is typed: what composes it there looks for the terminal's cursor.

        Elsewhere that is hidden, and stays where the last cell was written.
        """
        if not hasattr(self.focused, "cursor_screen_offset"):
            return None
        return self.screen.outer_size.clamp_offset(self.cursor_position)

    @contextmanager
    def _else_plainly(self) -> Iterator[None]:
        """Let Textual write, should what stands here have a fault: nobody is left blind."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is
            vars(self._driver)["cells"] = None
            self.report_fault(error)
            self.call_later(self.refresh)
