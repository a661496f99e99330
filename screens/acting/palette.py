"""The command palette: every action that works here and every run, found by a few letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.fuzzy import Matcher
from textual.widgets import Input

from screens.base import KeyedModal, acted
from widgets.base.scrolled import Scrolled
from widgets.painting.line import ACCENT, DIM, EMPTY, cut, fit, row, text

NAME: Final = 32


@dataclass(frozen=True)
class Command:
    """Something to choose: ``call`` is the action to run, ``key`` its key if it has one.

    ``why_not`` is why it cannot be chosen now, ``note`` what speaks against it; ``verb`` is its
    name on the command line, by which it is found too.
    """

    title: str
    help: str
    call: str
    key: str = ""
    why_not: str = ""
    note: str = ""
    verb: str = ""


def found(commands: Sequence[Command], words: str) -> list[Command]:
    """Return the commands that match, best first; all of them in their order for no words.

    What is named so comes before what is only described so: Enter takes the first.
    """
    wanted = words.strip()
    if not wanted:
        return list(commands)
    matcher = Matcher(wanted)
    scored = [(matcher.match(f"{each.title} {each.help} {each.verb}"), each) for each in commands]
    hits = [(_nearness(each, wanted), -score, each) for score, each in scored if score > 0]
    return [each for _, _, each in sorted(hits, key=lambda hit: hit[:2])]


def _nearness(each: Command, wanted: str) -> int:
    """Return 0 for a name that begins so, 1 for a word of it that does, then 2, else 3."""
    title, verb, wanted = each.title.casefold(), each.verb, wanted.casefold()
    if title.startswith(wanted) or verb.startswith(wanted):
        return 0
    return 1 if f" {wanted}" in title else 2 if wanted in title else 3


def _said(each: Command) -> Content:
    """Return why it cannot be chosen, else what speaks against it and what it does."""
    if each.why_not:
        return text(("✗ ", "$attention"), (each.why_not, DIM))
    return text((f"▲ {each.note} · ", "$attention") if each.note else "", (each.help, DIM))


class _Choices(Scrolled):
    def __init__(self, commands: Sequence[Command], about: str) -> None:
        super().__init__()
        self.commands = list(commands)
        self._about = about

    def body(self, width: int) -> list[Content]:
        name = max((Content(each.title).cell_length for each in self.commands), default=8)
        name = min(name, NAME, width // 2)
        return [
            self._line(each, name, width, place == self.cursor)
            for place, each in enumerate(self.commands)
        ] or [text(("nothing has these letters", DIM))]

    def _line(self, each: Command, name: int, width: int, chosen: bool) -> Content:
        left = text(fit(text((each.title, DIM if each.why_not else "")), name), "  ", _said(each))
        line = row(cut(left, width), text((each.key, ACCENT)) if each.key else EMPTY, width)
        return line.stylize_before("on $cursor") if chosen else line

    def title(self) -> Content:
        about = (f" · actions on {self._about}", DIM) if self._about else ""
        return text(("commands and runs", "bold"), about)

    def note(self) -> Content:
        return text(("enter runs · esc leaves", DIM))


class _Letters(Input):
    """The line to type in: its keys act in their order."""

    def __init__(self) -> None:
        super().__init__(placeholder="a few letters of what you want", compact=True)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        await acted(self, event)


class PaletteScreen(KeyedModal[str | None], inherit_bindings=False):
    """A list with a line to type in; returns the chosen command's call."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave"),
        Binding("down,ctrl+n", "move(1)", "down"),
        Binding("up,ctrl+p", "move(-1)", "up"),
        Binding("pagedown", "move(10)", "page down"),
        Binding("pageup", "move(-10)", "page up"),
    ]
    DEFAULT_CSS = """
    PaletteScreen { align: center top; background: transparent; }
    PaletteScreen Vertical {
        width: 76; max-width: 100%; height: 16; max-height: 100%; margin: 2 1 0 1;
        background: $background;
    }
    PaletteScreen Input, PaletteScreen Input:focus {
        height: 1; border: none; padding: 0 2; background: $background; color: $ink;
    }
    PaletteScreen _Choices { background: $background; color: $ink; }
    """

    def __init__(self, commands: Sequence[Command], about: str = "") -> None:
        super().__init__()
        self._commands = commands
        self._choices = _Choices(commands, about)
        self._found_by = ""

    def compose(self) -> ComposeResult:
        """Lay out the line to type in and what it finds."""
        with Vertical():
            yield _Letters()
            yield self._choices

    @on(Input.Changed)
    def _typed(self) -> None:
        """Find what has the letters; once for the same letters, so that a choice stays."""
        letters = self.query_one(_Letters).value
        if letters != self._found_by:
            self._found_by = letters
            self._choices.commands = found(self._commands, letters)
            self._choices.cursor = 0
            self._choices.repaint()

    @on(Input.Submitted)
    def _chosen(self) -> None:
        self._typed()
        commands = self._choices.commands
        self.dismiss(commands[self._choices.cursor].call if commands else None)

    def action_move(self, steps: int) -> None:
        """Choose another one."""
        self._typed()
        self._choices.move(steps)

    def action_leave(self) -> None:
        """Leave without a choice."""
        self.dismiss(None)
