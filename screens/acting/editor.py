"""The logbook editor: a new entry below the tail of the file, with its saving always in sight."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widgets import TextArea

from cockpit.model.records import Opened, Recorded, SaveStage
from cockpit.model.report import RunReport
from cockpit.records.logbook.entry_text import TEMPLATES
from cockpit.records.logbook.reading import meant
from screens.base import CockpitScreen, acted, consume, spawn
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.fleet_header import KeyLine
from widgets.logbook_view import SaveState
from widgets.painting.line import DIM, STRONG, text, wrapped
from widgets.painting.plan import paint_markdown
from widgets.scrolled import Paged, Sheet

if TYPE_CHECKING:
    from cockpit.actions.telling.log_entry import Logbooks


_BY_THE_SCREEN: Final = ("undo", "redo", "cursor_page_up", "cursor_page_down")
"""What a text area does whose keys stand in the cockpit's own table."""


class EntryArea(TextArea, inherit_bindings=False):
    """Plain text as a person writes it; nothing foreign gets in raw, nothing blinks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        each
        for each in TextArea.BINDINGS
        if not (isinstance(each, Binding) and each.action in _BY_THE_SCREEN)
    ]

    DEFAULT_CSS = """
    EntryArea, EntryArea:focus {
        height: 1fr; border: none; padding: 0 2; background: $background; color: $ink;
    }
    EntryArea .text-area--cursor-line { background: $background; }
    EntryArea .text-area--cursor, EntryArea:light .text-area--cursor {
        background: $ink; color: $background;
    }
    EntryArea .text-area--selection { background: $cursor; }
    """

    def __init__(self) -> None:
        super().__init__("", soft_wrap=True, show_line_numbers=False)
        self.cursor_blink = False
        self.highlight_cursor_line = False

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "tab" and not self.read_only:
            consume(event)
            self.insert("  ")
        elif event.key != "enter":
            await acted(self, event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.text = typed(event.text)

    def get_cursor_left_location(self) -> tuple[int, int]:
        """Step over a whole character: never between a letter and its accents."""
        return self._whole(*super().get_cursor_left_location(), -1)

    def get_cursor_right_location(self) -> tuple[int, int]:
        """Step over a whole character: never between a letter and its accents."""
        return self._whole(*super().get_cursor_right_location(), 1)

    def _whole(self, row: int, column: int, step: int) -> tuple[int, int]:
        line = self.document.get_line(row)
        while 0 < column < len(line) and _joins(line[column]):
            column += step
        return row, column

    def _refresh_size(self) -> None:
        """Bring the cursor back inside first: undoing, Textual scrolls to where it stood.

        It puts it right only afterwards, and text that has become shorter has no such line.
        """
        self.selection = self._validate_selection(self.selection)
        super()._refresh_size()


def _joins(character: str) -> bool:
    """Return whether a character belongs to the one before it: an accent, a skin tone."""
    return (
        unicodedata.category(character) in ("Mn", "Me") or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def typed(words: str) -> str:
    """Return text without what no keyboard types: escape sequences and their like."""
    lines = words.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join("".join(c for c in line if c == "\t" or c.isprintable()) for line in lines)


QUIET: Final = 0.5
"""Seconds without a key after which the draft is kept."""
AT_MOST: Final = 2.0
"""Seconds after which the draft is kept of whoever types without a pause."""
TAIL_ROWS: Final = 12
MASKED: Final = "a secret was masked; check the text and save again"


class EditorScreen(CockpitScreen):
    """Begins with the draft that was left, else with an entry prefilled from what is observed."""

    SCOPES = ("entry",)
    BINDINGS: ClassVar[list[BindingType]] = bindings("entry")
    DEFAULT_CSS = """
    EditorScreen Paged { height: auto; }
    """

    def __init__(self, cockpit: Cockpit, books: Logbooks, report: RunReport) -> None:
        super().__init__(cockpit)
        self._books = books
        self._report = report
        self._opened: Opened | None = None
        self._kept = self._words = ""
        self._warned_about: str | None = None
        self._warned_lost: str | None = None
        self._prefilled = ""
        self._diff: tuple[str, ...] | None = None
        self._template = 0
        self._warned_template = ""
        self._timer: Timer | None = None
        self._unkept_since = 0.0
        self._saving = self._gone = False
        self._is_open = asyncio.Event()
        self.recorded: Recorded | None = None

    def compose(self) -> ComposeResult:
        """Lay out the file's tail, the entry, how saving stands, the keys."""
        yield Paged()
        yield EntryArea()
        yield SaveState()
        yield KeyLine()

    def on_mount(self) -> None:
        """Begin."""
        super().on_mount()
        self.query_one(EntryArea).disabled = True
        spawn(self, self._open)

    async def on_unmount(self) -> None:
        """Keep what was typed, however the program is left."""
        self._gone = True
        await self.keep()

    @property
    def selected(self) -> str | None:
        """Return the run that is written about."""
        return self._report.name

    @property
    def text(self) -> str:
        """What stands in the editor."""
        return self.query_one(EntryArea).text

    async def on_key(self, event: events.Key) -> None:
        """Take no letter for a command while there is no text to type in: it was meant for that."""
        opening = not self._is_open.is_set()
        if event.is_printable and (opening or self._diff is not None):
            consume(event)
            said = "the entry is not here yet   esc cancel" if opening else "esc for the text"
            self.query_one(SaveState).show_text(said, bad=True)

    def opens_for(self, event: events.Event) -> asyncio.Event | None:
        """Let what is typed wait for the entry to stand here; leaving waits for nothing."""
        bound = isinstance(event, events.Key) and event.key in self._bindings.key_to_bindings
        return None if bound else self._is_open

    async def _open(self) -> None:
        try:
            await self._read()
        finally:
            self._is_open.set()

    async def _read(self) -> None:
        opened = await self._books.open(self._report, self.cockpit.now())
        self._opened = opened
        area = self.query_one(EntryArea)
        area.load_text(typed(opened.text if opened.draft else _with_room_to_type(opened.text)))
        self._kept = self._words = area.text
        self._prefilled = "" if opened.draft else area.text
        area.disabled = False
        area.focus(scroll_visible=False)
        area.move_cursor(_begin_at(area.text))
        said = "draft restored" if opened.draft else ""
        self.query_one(SaveState).show_text(opened.trouble or said, bad=bool(opened.trouble))
        self.show()

    def show(self) -> None:
        """Show the file's tail and how saving stands."""
        if not self.is_mounted:
            return
        page, opened = self.query_one(Paged), self._opened
        path = opened.path if opened is not None else self._report.spec.records.logbook or ""
        note = opened.note if opened is not None else ""
        if self._diff is not None:
            body, name, note = partial(_changes, self._diff), "will be committed ", "esc the text"
        else:
            tail = opened.tail if opened is not None else ("reading the file …",)
            body, name = partial(_tail, tail), "logbook "
        sheet = Sheet(body, text((name, STRONG), (path, DIM)), text((note, DIM)))
        page.show(sheet, from_top=self._diff is not None)
        rows = len(page.lines_for(self.app.size.width)) + 2
        high = max(3, min(rows, TAIL_ROWS, self.app.size.height // 3))
        page.styles.height = high if self._diff is None else "1fr"
        page.top = page.top if self._diff is not None else 1 << 30
        page.repaint()
        self.show_keys()

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here: once it is saved, nothing is left but to leave."""
        keys = self.cockpit.keys
        offered = keys.footer("entry")
        if self._saving or not self._is_saved:
            return [each for each in offered if each[0] != keys.shown("entry_retry")]
        pushed = self.recorded is not None and self.recorded.stage is SaveStage.PUSHED
        leave, left = keys.shown("entry_leave"), [] if pushed else [keys.shown("entry_retry")]
        words = {key: word for key, word in offered if key in left} | {leave: "close"}
        return list(words.items())

    @property
    def _is_saved(self) -> bool:
        return self.recorded is not None and self.recorded.stage is not SaveStage.NOTHING

    @on(TextArea.Changed)
    def _changed(self) -> None:
        self._words = self.text
        now = asyncio.get_running_loop().time()
        if self._timer is None:
            self._unkept_since = now
        elif now - self._unkept_since >= AT_MOST:
            return
        else:
            self._timer.stop()
        self._timer = self.set_timer(QUIET, self._keep_later)

    def _keep_later(self) -> None:
        self._timer = None
        spawn(self, self.keep, group="draft", exclusive=True)

    async def keep(self) -> str:
        """Keep what was typed as a draft, unless it is kept, saved, or only what was prefilled.

        Returns why it is not kept, or nothing.
        """
        words = self._words
        if self._opened is None or words == self._kept or self._is_saved or self._saving:
            return ""
        by = self.cockpit.watch_state.operator
        trouble = await self._books.keep(self._report, words, by)
        self._kept = self._kept if trouble else words
        if not self._gone:
            said = f"the draft is not saved: {trouble}" if trouble else "draft kept"
            warning = self._warning()
            state = self.query_one(SaveState)
            state.show_text(" · ".join(filter(None, (warning, said))), bad=bool(trouble or warning))
        return trouble

    def _warning(self) -> str:
        """Return what must stand below the text whatever harmless is said there, or nothing."""
        if self._opened is not None and self._opened.trouble:
            return self._opened.trouble
        return MASKED if self.text == self._warned_about else ""

    def action_entry_save(self) -> None:
        """Save, commit, push; the state stands below the text."""
        state = self.query_one(SaveState)
        if self._opened is None or self._saving:
            return
        if self._is_saved:
            state.show_text("this entry is saved; esc close")
        elif not self.text.strip():
            state.show_text("nothing to save", bad=True)
        elif self._opened.trouble:
            state.show_text(self._opened.trouble, bad=True)
        elif (masked := self._books.masked(self.text)) != self.text:
            self._warned_about = masked
            self.query_one(EntryArea).load_text(masked)
            state.show_text(MASKED, bad=True)
        else:
            self._work(self._save())

    async def action_entry_diff(self) -> None:
        """Show what saving would change in the file, or the text again."""
        if self._opened is None:
            return
        if self._diff is not None:
            self._show_diff(None)
            return
        try:
            self._show_diff(await self._books.diff(self._report, _without_blank(self.text)))
        except (OSError, TimeoutError) as error:
            said = f"no diff: {error or 'no answer in time'}"
            self.query_one(SaveState).show_text(said, bad=True)

    def _show_diff(self, diff: tuple[str, ...] | None) -> None:
        area = self.query_one(EntryArea)
        self._diff = diff
        area.display = diff is None
        self.set_focus(area if diff is None else None, scroll_visible=False)
        self.show()

    async def action_entry_template(self) -> None:
        """Begin as the next kind of event; what a person typed goes only when asked twice."""
        state, area = self.query_one(SaveState), self.query_one(EntryArea)
        if self._opened is None or self._saving or self._is_saved or self._diff is not None:
            return
        keys = self.cockpit.keys
        if self.text not in (self._prefilled, self._warned_template):
            self._warned_template = self.text
            again, undo = keys.shown("entry_template"), keys.shown("entry_undo")
            state.show_text(f"{again} again replaces your text; {undo} brings it back", bad=True)
            return
        place = (self._template + 1) % len(TEMPLATES)
        name = list(TEMPLATES)[place]
        try:
            words = await self._books.begin(self._report, name, self.cockpit.now())
        except (OSError, TimeoutError) as error:
            state.show_text(f"no template: {error or 'no answer in time'}", bad=True)
            return
        self._template = place
        area.replace(typed(_with_room_to_type(words)), (0, 0), area.document.end)
        self._prefilled = self._kept = area.text
        area.move_cursor(_begin_at(area.text))
        state.show_text(f"template {place + 1} of {len(TEMPLATES)}: {name}")

    def action_entry_undo(self) -> None:
        """Undo the last change."""
        self.query_one(EntryArea).action_undo()

    def action_entry_redo(self) -> None:
        """Do again what was undone."""
        self.query_one(EntryArea).action_redo()

    def action_turn(self, pages: int) -> None:
        """Turn the page: of the diff where it is shown, else of the text."""
        area = self.query_one(EntryArea)
        if self._diff is not None:
            self.query_one(Paged).page(pages)
        else:
            (area.action_cursor_page_down if pages > 0 else area.action_cursor_page_up)()

    def action_entry_retry(self) -> None:
        """Push again, or save again if nothing was saved."""
        if self._saving:
            return
        if not self._is_saved:
            self.action_entry_save()
        elif self.recorded is not None and self.recorded.stage is SaveStage.PUSHED:
            self.query_one(SaveState).show_text("up to date")
        else:
            self._work(self._push_again())

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it as the app's own work: it goes on when this screen is left."""
        self._saving = True
        self.cockpit.actions.go_on_with(work)

    async def _save(self) -> None:
        self.query_one(EntryArea).read_only = True
        words = _without_blank(self.text)
        by = self.cockpit.watch_state.operator
        saved = await self._books.save(self._report, words, self._show_stage, by)
        self._show_stage(saved, last=True)

    async def _push_again(self) -> None:
        self._show_stage(await self._books.retry(self._report), last=True)

    def _show_stage(self, recorded: Recorded, *, last: bool = False) -> None:
        self.recorded = recorded
        self._saving = not last
        if self._gone:
            if last and recorded.trouble:
                self.cockpit.warn(f"logbook of {self._report.name}: {recorded.trouble}")
            return
        self.query_one(EntryArea).read_only = self._saving or self._is_saved
        self.query_one(SaveState).show(recorded)
        self.show_keys()

    async def action_entry_leave(self) -> None:
        """Leave; what is not saved stays as a draft. If it cannot, that is said first."""
        if self._diff is not None:
            self._show_diff(None)
            return
        trouble = await self.keep()
        if trouble and self._warned_lost != self.text:
            self._warned_lost = self.text
            said = f"the draft is not saved: {trouble} · esc again discards it"
            self.query_one(SaveState).show_text(said, bad=True)
            return
        if trouble:
            self.cockpit.warn(f"logbook of {self._report.name}: the draft is lost: {trouble}")
        elif self._opened is not None and not self._is_saved and self.text != self._prefilled:
            self.cockpit.say("draft kept: it will be here when you come back")
        self.dismiss(None)


def _tail(tail: tuple[str, ...], width: int) -> list[Content]:
    if not tail:
        return [text(("the file has no lines yet", DIM))]
    return [piece for line in tail for piece in paint_markdown(line, width)]


def _changes(diff: tuple[str, ...], width: int) -> list[Content]:
    """Return a diff's lines: what comes and what goes by sign and by colour."""
    styles = {"+": "$well", "-": "$critical", "@": DIM}
    found = [text((line, styles.get(line[:1], ""))) for line in diff]
    lines = [piece for line in found for piece in wrapped(line, width, 40) or [text("")]]
    return lines or [text(("nothing: the entry is already in the file", DIM))]


def _begin_at(words: str) -> tuple[int, int]:
    """Return where a person begins to write: behind the decision's label, else at the end."""
    lines = words.split("\n")
    row = _to_decide(lines)
    row = len(lines) - 1 if row is None else row
    return row, len(lines[row])


def _with_room_to_type(words: str, room: str = " ") -> str:
    """Return an entry with a blank behind the label that is to be filled in first."""
    lines = words.split("\n")
    row = _to_decide(lines)
    if row is not None:
        lines[row] = lines[row].rstrip(" ") + room
    return "\n".join(lines)


def _to_decide(lines: Sequence[str]) -> int | None:
    """Return the row of the decision's empty label, else of the first empty one."""
    empty = [row for row, line in enumerate(lines) if line.rstrip(" *_`").endswith(":")]
    decision = (row for row in empty if meant(lines[row].strip(" -+*_`:")) == "Decision")
    return next(decision, empty[0] if empty else None)


def _without_blank(words: str) -> str:
    """Return an entry without the blank of ``_with_room_to_type``, if it is left."""
    return _with_room_to_type(words, room="")
