"""What the keys of the log tab do: follow, search, filter, go to, keep, save, page."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual import on
from textual.app import SuspendNotSupported
from textual.widgets import Input
from textual.worker import Worker

from cockpit.model.base import SafeText
from cockpit.model.wording import percent
from screens.base import ActingScreen, spawn
from screens.log_goto import HOW
from screens.log_saving import all_lines, just, page_through, place_of, save
from screens.prompt import Prompt
from widgets.fleet_header import KeyLine
from widgets.painting.line import foreign

if TYPE_CHECKING:
    from screens.run_log import LogTab
    from widgets.log_view import LogView

LABELS: Final = {
    "search": "search the log: words, or /a regular expression/   enter find · esc cancel",
    "goto": f"go to {HOW}",
    "save": "save the whole log as it is shown to this file   enter save · esc cancel",
    "save_shown": "save the lines on the screen to this file   enter save · esc cancel",
}
"""What a line typed here is for."""


class LogKeys(ActingScreen):
    """A screen with a log tab: ``log_tab`` and ``log_view``; ``go_to_log`` shows them."""

    _asking = "search"
    _saving: Worker[None] | None = None

    @property
    def log_tab(self) -> LogTab:
        """What stands between the view and the file."""
        raise NotImplementedError

    @property
    def log_view(self) -> LogView:
        """The log's window."""
        raise NotImplementedError

    def go_to_log(self) -> None:
        """Show the log's tab."""
        raise NotImplementedError

    def _say(self, words: str | None) -> None:
        if words:
            self.cockpit.say(words)

    def action_follow(self) -> None:
        """Follow the end of the log, or hold still."""
        self.go_to_log()
        self.log_tab.follow()

    def action_sideways(self, direction: int) -> None:
        """Show what stands further right, or left, of the log."""
        self.log_view.sideways(direction)

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.go_to_log()
        self.log_view.toggle_wrap()

    def action_sift(self) -> None:
        """Show only warnings and errors, or all lines again."""
        self.go_to_log()
        self.log_tab.sift()

    def action_this_job(self) -> None:
        """Show only the present job's lines, or those of all jobs again."""
        self.go_to_log()
        self._say(self.log_tab.this_job())

    def action_bookmark(self) -> None:
        """Keep the line at the cursor, or forget it."""
        self.go_to_log()
        self._say(self.log_tab.bookmark())

    def action_next_bookmark(self) -> None:
        """Go to the next bookmark."""
        self.go_to_log()
        self._say(self.log_tab.next_bookmark())

    def action_match(self, back: bool) -> None:
        """Go to the next match below, or above."""
        self.log_tab.step(back)

    def action_ask(self, purpose: str) -> None:
        """Ask for a line: what to search for, where to go, where to save."""
        self.go_to_log()
        self._asking = purpose
        self.query_one(KeyLine).display = False
        prompt = self.query_one(Prompt)
        prompt.placeholder = LABELS[purpose]
        if purpose.startswith("save"):
            self.log_view.say(LABELS[purpose])
        prompt.ask(str(place_of("", self.selected or "")) if purpose.startswith("save") else "")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.close_prompt()
        if self._asking == "search":
            self.log_tab.search(event.value)
        elif self._asking == "goto":
            self._say(self.log_tab.go_to(event.value, self.cockpit.now()))
        else:
            self._save(place_of(event.value, self.selected or ""))

    def close_prompt(self) -> None:
        """Take the line away again."""
        self.query_one(Prompt).close()
        self.query_one(KeyLine).display = True
        if self._asking.startswith("save"):
            self.log_view.say("")

    def stop_saving(self) -> bool:
        """End a save that is under way; return whether there was one."""
        if self._saving is None or self._saving.is_finished:
            return False
        self._saving.cancel()
        self.log_view.say("save stopped; nothing is left of it")
        return True

    def _shown(self, line: SafeText) -> str:
        return self.log_view.kept(foreign(line)).plain

    def _save(self, path: Path) -> None:
        self._saving = spawn(self, partial(self._write, path, self._asking), group="save")

    async def _write(self, path: Path, what: str) -> None:
        view, reader = self.log_view, self.log_tab.reader
        held = view.held[slice(*view.sight)]

        if what == "save" and reader is None:
            view.say("only the last lines are available; save the lines on the screen")
            return
        whole = what == "save" and reader is not None
        lines = all_lines(reader) if whole and reader is not None else just(held)

        def tell(share: float) -> None:
            view.say(f"saving, {percent(share)} (esc stops)")

        try:
            count = await save(path, lines, self._shown, tell)
        except FileExistsError:
            view.say("")
            self.cockpit.warn(f"{path} is there already; nothing was written: choose another name")
        except (OSError, TimeoutError) as error:
            view.say("")
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self.cockpit.warn(f"not saved to {path}: {why.lower() or 'no answer in time'}")
        else:
            view.say("")
            self.cockpit.warn(f"saved {count:,} lines to {path}, masked as shown")

    def action_pager(self) -> None:
        """Show the lines that are held in $PAGER, from the cursor on; the app waits."""
        self.go_to_log()
        view = self.log_view
        try:
            with self.app.suspend():
                said = page_through(list(view.held), self._shown, view.sight[0])
        except SuspendNotSupported:
            said = "this terminal cannot be handed to a pager"
        self._say(said)
