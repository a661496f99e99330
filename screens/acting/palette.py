"""The command palette: the next safe action, then all that works here, found by a few letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.fuzzy import Matcher
from textual.widgets import Input

from screens.base import KeyedModal, acted
from widgets.painted import Painted
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, fit, frame, row, text, wrapped

NAME: Final = 24
"""Columns that a name may take; a longer one stands on a line of its own."""
MOST: Final = 4
"""Lines that what is said of one command may take."""
NEXT: Final = "Next"
ACT: Final = "Act"
NOT_NOW: Final = "Not now"
RUNS: Final = "Runs"
SCREENS: Final = "Screens and keys"
SETTINGS: Final = "Settings"
GROUPS: Final = (NEXT, ACT, NOT_NOW, RUNS, SCREENS, SETTINGS)
"""In this order they are listed."""


@dataclass(frozen=True)
class Command:
    """Something to choose: ``call`` is the action to run, ``key`` its key if it has one.

    ``why_not`` is why it cannot be chosen now, ``note`` what speaks against it; ``verb`` is its
    name on the command line, by which it is found too. ``group`` is one of ``GROUPS``.
    """

    title: str
    help: str
    call: str
    key: str = ""
    why_not: str = ""
    note: str = ""
    verb: str = ""
    group: str = SCREENS

    @property
    def now(self) -> bool:
        """True if nothing is known that speaks against it."""
        return not (self.why_not or self.note)


def in_groups(commands: Sequence[Command]) -> list[Command]:
    """Return the commands by group, in their order: the first is the one to take."""
    return sorted(commands, key=lambda each: GROUPS.index(each.group))


def offered(offers: Sequence[Command], verb: str, said: str) -> list[Command]:
    """Return guarded actions in their groups: that of ``verb`` is next, because of what ``said``.

    One against which something speaks already is none for now, whoever advised it.
    """
    found = []
    for each in offers:
        if not each.now:
            found.append(replace(each, group=NOT_NOW))
        elif each.verb == verb:
            found.append(replace(each, group=NEXT, help=said or each.help))
        else:
            found.append(replace(each, group=ACT))
    return in_groups(found)


def found(commands: Sequence[Command], words: str) -> list[Command]:
    """Return the commands that match, best first; all of them in their order for no words.

    What is named so comes before what is only described so, and what can be done now before
    what cannot: Enter takes the first.
    """
    wanted = words.strip()
    if not wanted:
        return list(commands)
    matcher = Matcher(wanted)
    scored = [(matcher.match(f"{each.title} {each.help} {each.verb}"), each) for each in commands]
    hits = [
        ((_nearness(each, wanted), not each.now, -score), each)
        for score, each in scored
        if score > 0
    ]
    return [each for _, each in sorted(hits, key=lambda hit: hit[0])]


def _nearness(each: Command, wanted: str) -> int:
    """Return 0 for a name that begins so, 1 for a word of it that does, then 2, else 3."""
    title, verb, wanted = each.title.casefold(), each.verb, wanted.casefold()
    if title.startswith(wanted) or verb.startswith(wanted):
        return 0
    return 1 if f" {wanted}" in title else 2 if wanted in title else 3


def _said(each: Command) -> Content:
    """Return why it cannot be chosen, else what speaks against it, else what it does."""
    if each.why_not:
        return text(("✗ ", "$attention"), (each.why_not, DIM))
    return text(("▲ ", "$attention"), each.note) if each.note else text((each.help, DIM))


def paint_choices(
    commands: Sequence[Command], chosen: int, width: int, headed: bool
) -> Iterator[tuple[int, Content]]:
    """Yield every line with the place of its command; what is said is whole, wrapped if need be.

    With ``headed`` each group begins with its name, which belongs to its first command.
    """
    widest = max((Content(each.title).cell_length for each in commands), default=8)
    name = min(widest, NAME, width * 3 // 10)
    group = ""
    for place, each in enumerate(commands):
        if headed and each.group != group:
            group = each.group
            yield place, text((group, STRONG))
        for line in _lines(each, name, width, place == chosen):
            yield place, line.stylize_before("on $cursor") if place == chosen else line


def _lines(each: Command, name: int, width: int, chosen: bool) -> list[Content]:
    title = text((each.title, "" if each.now else DIM))
    mark = ("▸ " if chosen else "  ", ACCENT)
    key = text((each.key, ACCENT)) if each.key else EMPTY
    room = max(8, width - name - 4 - (key.cell_length + 2 if key.plain else 0))
    pieces = wrapped(_said(each), room, MOST) or [EMPTY]
    lines = []
    if title.cell_length > name:
        lines.append(fit(text(mark, title), width))
        title, mark = EMPTY, ("  ", ACCENT)
    lines.append(row(text(mark, fit(title, name), "  ", pieces[0]), key, width))
    return [*lines, *(fit(text(" " * (name + 4), piece), width) for piece in pieces[1:])]


class _Choices(Painted):
    """The list: the cursor stands on a command, whose lines and heading stay in sight."""

    def __init__(self, commands: Sequence[Command], about: str) -> None:
        super().__init__()
        self.commands = list(commands)
        self.headed = True
        self.cursor = self._top = 0
        self._about = about

    def move(self, steps: int) -> None:
        """Choose another one."""
        self.cursor = max(0, min(self.cursor + steps, len(self.commands) - 1))
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the frame with what is in sight of the list."""
        found = list(paint_choices(self.commands, self.cursor, max(1, width - 4), self.headed))
        lines = [line for _, line in found] or [text(("no match", DIM))]
        own = [at for at, (place, _) in enumerate(found) if place == self.cursor] or [0]
        room = max(1, height - 2)
        self._top = max(own[-1] - room + 1, min(self._top, own[0]))
        self._top = max(0, min(self._top, len(lines) - room))
        more = len(lines) - self._top - room
        foot = text((f"{more:,} more below", DIM)) if more > 0 else EMPTY
        about = f"{self._about} · " if self._about else ""
        note = text((f"{about}{len(self.commands):,} found · enter run · esc cancel", DIM))
        title = text(("Commands and runs", STRONG))
        return frame(lines[self._top : self._top + room], width, height, title, note, foot)


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
        width: 108; max-width: 100%; height: 100%; max-height: 40; margin: 1 1 0 1;
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
            self._choices.headed = not letters.strip()
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
