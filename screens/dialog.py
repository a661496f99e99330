"""Dialogs: a box in the middle, a line to type in at the foot, and when a confirmation counts.

Keys that were typed before a confirmation could be read never count. Times are those at which the
keys were read from the terminal (``Message.time``), so a program that was slow for a moment judges
the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.widgets import Input

from cockpit.text.safe import clean
from screens.base import ActingScreen, KeyedModal, acted, consume, pressed_at
from screens.keys import Keys, bindings
from widgets.fleet_header import KeyLine, paint_key
from widgets.painted import KeyClicked
from widgets.painting.line import ACCENT, LINE, STRONG, text, that_fit, wrapped
from widgets.scrolled import ListBody, Paged, Row, RowClicked, Sheet

if TYPE_CHECKING:
    from textual.screen import Screen

R = TypeVar("R")
READ_AFTER: Final = 0.3
"""Seconds for which a question must have been visible before an answer counts."""
WIDEST: Final = 112
AROUND: Final = 24
"""Columns that must be left beside a box, else it takes the whole width."""


class DialogBox(Container):
    """What a dialog is drawn in; its inputs lie on a layer above the painted page."""

    DEFAULT_CSS = """
    DialogBox { layers: page typed; background: $background; color: $ink; width: 80; height: 20; }
    DialogBox Paged { layer: page; width: 100%; height: 100%; }
    DialogBox Input, DialogBox Input:focus {
        layer: typed; position: absolute; height: 1; border: none; padding: 0;
        background: $background; color: $ink;
    }
    DialogBox Input:focus { background: $cursor; }
    """


class TextLine(Input):
    """One line to type in: still, without styles of its own, and nothing foreign gets in raw."""

    def __init__(self, value: str = "", *, name: str | None = None) -> None:
        super().__init__(clean(value), name=name, compact=True, select_on_focus=False)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        await acted(self, event)

    def replace(self, text: str, start: int, end: int) -> None:
        """Put text, without its control characters, where another was, or none.

        Whatever is typed or pasted comes through here, over a selection as well.
        """
        super().replace("".join(each for each in text if each.isprintable()), start, end)

    def place(self, x: int, y: int, width: int) -> None:
        """Lie at a place of the box."""
        self.styles.offset = (x, y)
        self.styles.width = max(4, width)


class Dialog(KeyedModal[R], inherit_bindings=False):
    """A box over the screen; its keys are the only ones that work."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    """

    read_from: float | None = None
    """When it is known to have been readable; ``None`` before it was painted."""

    def shown_now(self) -> None:
        """Know that what stands there now could not be read before."""
        self.read_from = Message().time + READ_AFTER

    def unread(self, at: float) -> bool:
        """Return whether what was pressed at that time was pressed before it could be read."""
        return self.read_from is None or at < self.read_from

    def lay_out(self) -> None:
        """Show the dialog as it stands, for the size that the terminal has."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """Lay out for the new size."""
        self.lay_out()

    def box_size(self, wanted: int) -> tuple[int, int]:
        """Return the box's (width, height) for ``wanted`` rows on this terminal."""
        width, height = self.app.size
        wide = width if width < WIDEST + AROUND else WIDEST
        return wide, max(3, min(wanted, height if height <= 30 else height - 4))

    @property
    def inner(self) -> int:
        """The width of the box."""
        return self.box_size(6)[0]

    def fit_box(self, wanted: int) -> tuple[int, int]:
        """Give the box its size and return it."""
        width, height = self.box_size(wanted)
        box = self.query_one(DialogBox)
        box.styles.width, box.styles.height = width, height
        return width, height

    def show_sheet(self, sheet: Sheet, around: int = 4) -> tuple[int, int]:
        """Show a sheet in a box that fits it; return its rows, and the height of the box."""
        page = self.query_one(Paged)
        page.show(sheet)
        rows = len(page.lines_for(self.inner))
        return rows, self.fit_box(rows + around)[1]


class RowKeys:
    """What the keys of a list do, on a screen and in a dialog alike.

    A subclass gives ``rows``. One of those with a key is chosen, and stays chosen whatever comes;
    where none has a key, the page scrolls.
    """

    chosen: str = ""
    """The key of the chosen row."""
    keys: Sequence[str] = ()
    """Those of the rows that can be chosen, from the top."""

    def rows(self) -> Sequence[Row]:
        """Return what is listed by now."""
        return ()

    def show(self) -> None:
        """Show what is listed by now; a page of text stands as it is."""

    @property
    def page(self) -> Paged:
        """The page on which the list stands."""
        return cast("Screen[Any]", self).query_one(Paged)

    def instead(self, keys: Sequence[str], former: Sequence[str]) -> str:
        """Return which row is chosen where the one that was is gone: the one in its place."""
        at = former.index(self.chosen) if self.chosen in former else 0
        return keys[min(at, len(keys) - 1)] if keys else ""

    def body(self) -> ListBody:
        """Return the list as a page's body, its chosen row held."""
        rows = self.rows()
        keys = [row.key for row in rows if row.key]
        if self.chosen not in keys:
            self.chosen = self.instead(keys, self.keys)
        self.keys = keys
        return ListBody(rows, self.chosen)

    def action_step(self, steps: int) -> None:
        """Choose another row, or scroll by lines where none can be chosen."""
        if not self.keys:
            self.page.move(steps)
            return
        at = self.keys.index(self.chosen) + steps
        self.chosen = self.keys[max(0, min(at, len(self.keys) - 1))]
        self.show()
        self.reveal()

    def action_turn(self, pages: int) -> None:
        """Turn pages; the chosen row comes along."""
        page, body = self.page, self.page.sheet.body
        page.page(pages)
        if self.keys and isinstance(body, ListBody):
            last = page.top + page.room
            seen = [key for key in self.keys if page.top <= body.places[key][0] < last]
            self.chosen = [*seen, self.chosen][0 if pages > 0 else max(0, len(seen) - 1)]
            self.show()

    def action_edge(self, end: bool) -> None:
        """Go to the first row, or to the last."""
        self.action_step((1 if end else -1) << 30)

    def on_row_clicked(self, event: RowClicked) -> None:
        """Choose the row; the chosen one is opened, as Enter does."""
        if event.key == self.chosen:
            self.page.post_message(KeyClicked("enter"))
        elif event.key in self.keys:
            self.chosen = event.key
            self.show()

    def reveal(self) -> None:
        """Scroll until the chosen row is in sight."""
        body = self.page.sheet.body
        if isinstance(body, ListBody) and self.keys and self.chosen in body.places:
            first, end = body.places[self.chosen]
            self.page.reveal(0 if self.chosen == self.keys[0] else first, end)


class ListScreen(RowKeys, ActingScreen):
    """A list, or one page of text, over the whole screen: its heading, its rows, its keys."""

    NAME: ClassVar[str] = ""
    """The heading, before the run's name."""
    ASKS: ClassVar[str] = ""
    """What the line to type in asks for, where there is one."""

    def compose(self) -> ComposeResult:
        """Lay out the page, the line to type in, the footer."""
        yield Paged()
        if self.ASKS:
            yield Prompt(self.ASKS)
        yield KeyLine()

    def heading(self) -> Content:
        """Return what stands in the frame at the left."""
        return text((f"{self.NAME} · {self.selected}", STRONG))

    def note(self) -> Content:
        """Return what stands in the frame at the right."""
        return text("")

    def show(self) -> None:
        """Show what is listed by now."""
        if self.is_mounted:
            body = self.body()
            self.page.show(Sheet(body, self.heading(), self.note()))
            self.show_keys()

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here."""
        return self.cockpit.keys.footer(self.SCOPES[0], "list")

    def action_list_back(self) -> None:
        """Close the line to type in, else go back."""
        if self.ASKS and self.query_one(Prompt).is_open:
            self.query_one(Prompt).close()
        else:
            self.dismiss(None)


class ListDialog(RowKeys, Dialog[R], inherit_bindings=False):
    """A list in a box over the screen, its keys at the foot.

    An answer counts once the list could be read.
    """

    SCOPE: ClassVar[str] = ""
    heading: str = ""
    LINE: ClassVar[str] = LINE

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        with DialogBox():
            yield Paged()

    def on_mount(self) -> None:
        """Show the list."""
        self.lay_out()
        self.call_after_refresh(self.shown_now)

    def show(self) -> None:
        """Show what is listed by now."""
        self.lay_out()

    def lay_out(self) -> None:
        """Show what is listed by now, in a box that fits it."""
        if self.is_mounted and self.query(Paged):
            body = self.body()
            foot = self.foot()
            sheet = Sheet(body, text((self.heading, STRONG)), foot=foot, line=self.LINE)
            self.placed(*self.show_sheet(sheet, 3 + len(foot)))

    def placed(self, rows: int, height: int) -> None:
        """Place what lies over the list: it has ``rows`` in a box of ``height``."""

    def foot(self) -> list[Content]:
        """Return what stands below the list: its keys."""
        keys: Keys = getattr(self.app, "keys", None) or Keys()
        leave = [] if self.SCOPE == "leaving" else keys.footer("list")
        return [that_fit(map(paint_key, [*keys.footer(self.SCOPE), *leave]), self.inner - 4, "   ")]

    def action_list_back(self) -> None:
        """Close; nothing is done."""
        self.dismiss(None)


class LeavingScreen(ListDialog[bool]):
    """Returns whether to leave anyway."""

    SCOPE = "leaving"
    heading = "an action is under way"
    LINE = "$attention"
    BINDINGS: ClassVar[list[BindingType]] = bindings("leaving")

    def __init__(self, under_way: Sequence[str]) -> None:
        super().__init__()
        self._under_way = tuple(under_way)

    def rows(self) -> Sequence[Row]:
        """Return what is under way, and what leaving means."""
        named = [text(("● ", ACCENT), (name, STRONG)) for name in self._under_way]
        said = (
            "Quitting now may interrupt a step. Nothing is retried automatically: the journal "
            "says how far it got, and the next start looks up what is unknown."
        )
        return [Row("", lambda width, _: [*named, *wrapped(Content(said), width, 6)])]

    def action_leave_now(self) -> None:
        """Leave: not for a key that was pressed twice before anything could be read."""
        if not self.unread(pressed_at(self)):
            self.dismiss(True)

    def action_leave_not(self) -> None:
        """Stay."""
        self.dismiss(False)


class Prompt(Input):
    """A one-line prompt in the last line; its cursor does not blink."""

    DEFAULT_CSS = """
    Prompt { display: none; }
    Prompt.-open { display: block; }
    """

    def __init__(self, label: str) -> None:
        super().__init__(placeholder=label, compact=True, select_on_focus=False)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        await acted(self, event)

    @property
    def is_open(self) -> bool:
        """True while a person types here."""
        return self.has_class("-open")

    def ask(self, value: str = "") -> None:
        """Open with ``value``, the cursor behind it, in the place of the key line."""
        self.screen.query(KeyLine).set(display=False)
        self.value = value
        self.cursor_position = len(value)
        self.add_class("-open")
        self.display = True
        self.screen.set_focus(self, scroll_visible=False)

    def close(self) -> None:
        """Close; the value stays, and the key line comes back."""
        self.screen.query(KeyLine).set(display=True)
        self.remove_class("-open")
        self.display = False
        self.screen.set_focus(None)


SETTLED: Final = 0.05
"""Seconds after the question was painted before a character counts."""
VISIBLE: Final = READ_AFTER
"""Seconds for which it must have been visible before Enter counts."""
APART: Final = 0.15
"""Seconds by which Enter must follow the key before it; also what ends a stream of type-ahead."""
TOO_EARLY: Final = "ignored keys typed before this opened"
TOO_FAST: Final = "press enter again"
TOO_SOON: Final = "look first, then press enter"
NO_PASTE: Final = "paste is ignored: type it"
_PASSED: Final = frozenset({"escape", "f1", "f2", "f3", "f4", "tab", "up", "down", "pageup",
                            "pagedown", "ctrl+c", "ctrl+d", "ctrl+u"})  # fmt: skip


class Arming:
    """Judges keys by their times in seconds; dropped until ``painted`` says that it can be read."""

    def __init__(self) -> None:
        self._painted: float | None = None
        self._last: float | None = None
        self._stream: float | None = None

    def hide(self) -> None:
        """Nothing can be read: drop what is typed."""
        self._painted = None

    def painted(self, at: float) -> None:
        """Know that the question stands on the screen since ``at``."""
        self._painted = at

    @property
    def ready(self) -> bool:
        """True once there is something to read."""
        return self._painted is not None

    def takes(self, at: float) -> bool:
        """Return whether a character typed at ``at`` counts."""
        early = self._painted is None or at < self._painted + SETTLED
        if early or (self._stream is not None and at - self._stream < APART):
            self._stream = self._last = at
            return False
        self._stream, self._last = None, at
        return True

    def refusal(self, at: float) -> str:
        """Return why an Enter pressed at ``at`` does not count, or nothing."""
        last, self._last = self._last, at
        if self._painted is None or at < self._painted + SETTLED:
            self._stream = at
            return TOO_EARLY
        if at < self._painted + VISIBLE:
            return TOO_SOON
        if last is not None and at - last < APART:
            return TOO_FAST
        return ""


def difference(typed: str, words: str) -> str:
    """Return quietly what keeps ``typed`` from being ``words``; nothing once they are equal."""
    if typed == words:
        return ""
    if words.startswith(typed):
        return f"{len(words) - len(typed)} more" if typed else "type the words above exactly"
    return "does not match: the wrong letters are marked"


class WordsLine(TextLine):
    """Hands on only what a person typed after reading; tells of Enter and of what was dropped."""

    DEFAULT_CSS = """
    WordsLine { display: none; }
    WordsLine.-asked { display: block; }
    """

    @dataclass
    class Entered(Message):
        """Enter was pressed; ``refusal`` is why it does not count, or nothing."""

        refusal: str

    @dataclass
    class Turned(Message):
        """A key that turns the page was pressed: it is the page's, not this line's."""

        pages: int

    @dataclass
    class Dropped(Message):
        """Something that was typed or pasted did not count."""

        why: str

    def __init__(
        self, enter: tuple[str, ...], down: tuple[str, ...] = (), up: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        self._enter = enter
        self._turns = {**dict.fromkeys(down, 1), **dict.fromkeys(up, -1)}
        self.arming = Arming()
        self._words = ""

    def ask(self, words: str) -> None:
        """Ask for ``words``: empty it, and count what is typed from the next frame on."""
        self._words = words
        self.arming.hide()
        self.value = ""
        self.add_class("-asked")
        self.focus(scroll_visible=False)
        self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        if self.has_class("-asked"):
            self.arming.painted(Message().time)

    @property
    def _value(self) -> Text:
        """What was typed, each letter that is not the one asked for marked."""
        shown = super()._value
        for at, letter in enumerate(self.value):
            if letter != self._words[at : at + 1]:
                shown.stylize("bold reverse", at, at + 1)
        return shown

    def _watch_value(self, value: str) -> None:
        """Show the letters that are missing behind what was typed: to be read, never taken."""
        super()._watch_value(value)
        self._suggestion = self._words if self._words.startswith(value) else ""

    def action_cursor_right(self, select: bool = False) -> None:
        """Step over what was typed; the letters behind it are not typed for anybody."""
        if not self.cursor_at_end:
            super().action_cursor_right(select)

    def hide(self) -> None:
        """Ask for nothing."""
        self.arming.hide()
        self.value = ""
        self.remove_class("-asked")
        self.blur()

    async def _on_key(self, event: events.Key) -> None:
        message: Message
        if event.key in self._enter:
            message = self.Entered(self.arming.refusal(event.time))
        elif event.key in self._turns:
            message = self.Turned(self._turns[event.key])
        elif event.key not in _PASSED and not self.arming.takes(event.time):
            message = self.Dropped(TOO_EARLY)
        else:
            return
        consume(event)
        self.post_message(message)

    def _on_paste(self, event: events.Paste) -> None:
        consume(event)
        self.post_message(self.Dropped(NO_PASTE))

    def action_paste(self) -> None:
        """Refuse the app's own clipboard too."""
        self.post_message(self.Dropped(NO_PASTE))
