"""Keys of the log tab: follow, search, filter, go to a place, bookmark, save, open in the pager."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual import on
from textual.app import SuspendNotSupported
from textual.widgets import Input
from textual.worker import Worker

from cockpit.model.base import SafeText
from cockpit.model.wording import percent
from cockpit.runtime.offload import offload
from screens.base import ActingScreen, spawn
from screens.dialog import Prompt
from screens.log_reader import HOW, LogReader
from widgets.painting.line import foreign

if TYPE_CHECKING:
    from screens.run_log import LogTab
    from widgets.log_view import LogView


DEADLINE: Final = 20.0
PAGER: Final = "less"
Shown = Callable[[SafeText], str]
"""Says how a line may be shown."""


def place_of(typed: str, run: str) -> Path:
    """Return the file that a person means: by default one named by the run, in this folder."""
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in run).strip(".")
    path = Path(typed.strip() or f"{name or 'run'}-log.txt").expanduser()
    return path.absolute() if typed.strip() else path


async def all_lines(reader: LogReader) -> AsyncIterator[tuple[Sequence[SafeText], float]]:
    """Yield the lines of a log as it is shown, page by page, and which share of it that was.

    What is written after the first page is not waited for. Raises as a reader does.
    """
    at, end = reader.floor, 0
    while True:
        page = await reader.more(at, back=False)
        end = end or page.size
        yield page.lines, min(1.0, page.end / max(1, end))
        if page.end <= at or page.end >= end:
            return
        at = page.end


async def just(lines: Sequence[SafeText]) -> AsyncIterator[tuple[Sequence[SafeText], float]]:
    """Yield these lines, as ``all_lines`` does."""
    yield lines, 1.0


async def save(
    path: Path,
    lines: AsyncIterator[tuple[Sequence[SafeText], float]],
    shown: Shown,
    tell: Callable[[float], None],
) -> int:
    """Write lines into a new file that only its owner can read; return how many.

    ``tell`` is given the share that is done. Raises ``OSError``, ``TimeoutError``.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = await offload(os.open, path, flags, 0o600, deadline=DEADLINE)
    count = 0
    try:
        async for part, share in lines:
            text = "".join(f"{shown(line)}\n" for line in part).encode()
            await offload(_write, file, text, deadline=DEADLINE)
            count += len(part)
            tell(share)
    except BaseException:
        os.unlink(path)  # noqa: PTH108 - at once: what ends this may be the app's end
        raise
    finally:
        os.close(file)
    return count


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def page_through(lines: Sequence[SafeText], shown: Shown, at: int) -> str | None:
    """Show lines in ``$PAGER`` from the one of number ``at`` (0: the first) on; it has the screen.

    Return why not, in one line, if it could not be begun.
    """
    words = shlex.split(os.environ.get("PAGER") or PAGER) or [PAGER]
    if Path(words[0]).name in ("less", "more", "most"):
        words.append(f"+{at + 1}")
    with tempfile.NamedTemporaryFile("w", suffix=".log", encoding="utf-8") as file:
        file.writelines(f"{shown(line)}\n" for line in lines)
        file.flush()
        try:
            subprocess.run([*words, file.name], check=False)
        except OSError as error:
            return f"{words[0]} cannot be run: {(error.strerror or str(error)).lower()}"
    return None


LABELS: Final = {
    "search": "search the log: words, or /a regular expression/   enter find · esc cancel",
    "goto": f"go to {HOW}",
    "save": "save the whole log as it is shown to this file   enter save · esc cancel",
    "save_shown": "save the lines on the screen to this file   enter save · esc cancel",
}
"""What a line typed here is for."""


class LogKeys(ActingScreen):
    """A screen with a log tab: ``log_view``, and ``log_tab`` between it and the file."""

    log_tab: LogTab
    log_view: LogView
    _asking = "search"
    _saving: Worker[None] | None = None

    def go(self, tab: str) -> None:
        """Show a tab."""
        raise NotImplementedError

    def _say(self, words: str | None) -> None:
        if words:
            self.cockpit.say(words)

    def action_follow(self) -> None:
        """Follow the end of the log, or hold still."""
        self.go("log")
        self.log_tab.follow()

    def action_sideways(self, direction: int) -> None:
        """Show what stands further right, or left, of the log."""
        self.log_view.sideways(direction)

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.go("log")
        self.log_view.toggle_wrap()

    def action_sift(self) -> None:
        """Show only warnings and errors, or all lines again."""
        self.go("log")
        self.log_tab.sift()

    def action_this_job(self) -> None:
        """Show only the present job's lines, or those of all jobs again."""
        self.go("log")
        self._say(self.log_tab.this_job())

    def action_bookmark(self) -> None:
        """Keep the line at the cursor, or forget it."""
        self.go("log")
        self._say(self.log_tab.bookmark())

    def action_next_bookmark(self) -> None:
        """Go to the next bookmark."""
        self.go("log")
        self._say(self.log_tab.next_bookmark())

    def action_match(self, back: bool) -> None:
        """Go to the next match below, or above."""
        self.log_tab.step(back)

    def action_ask(self, purpose: str) -> None:
        """Ask for a line: what to search for, where to go, where to save."""
        self.go("log")
        self._asking = purpose
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
        self.go("log")
        view = self.log_view
        try:
            with self.app.suspend():
                said = page_through(list(view.held), self._shown, view.sight[0])
        except SuspendNotSupported:
            said = "this terminal cannot be handed to a pager"
        self._say(said)
