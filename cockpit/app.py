"""The Textual app: screens on an engine. It composes; what is shown and done stands elsewhere."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.content import Content
from textual.screen import Screen

from cockpit.config import operator
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile
from cockpit.model.words import to_ascii
from cockpit.sources.offload import offload
from cockpit.terminal import INTERRUPTED, TerminalApp, run_in_terminal
from cockpit.watch.who import login_name
from screens.base import CockpitScreen
from screens.clipboard import copy_text, identity
from screens.fleet import FleetScreen
from screens.help import HelpScreen
from screens.keys import ACTIONS, Keys, KeysError, bindings, read_keys
from screens.mask import Mask
from screens.palette import Command, PaletteScreen
from screens.ports import WatchEngine
from screens.run import RunScreen
from screens.welcome import DEMO, WelcomeScreen
from themes.loader import load_themes
from widgets.fleet_header import Watch

AGES: Final = 5.0
"""Seconds between two looks at the ages, which step by 15 s at least."""
SOON: Final = (0.15, 0.6, 2.0)
"""Seconds after the start at which to look whether the store had something to tell."""
NEWS: Final = 0.25
"""Seconds in which news is gathered before it is painted."""
NOTICE: Final = 10.0
ASK_WITHIN: Final = 5.0
LEAVE_WITHIN: Final = 0.3
"""Seconds that the engine may spend on its last words."""
CONFIG: Final = 2


class CockpitApp(TerminalApp):
    """The cockpit on one run file; without one, a welcome."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("everywhere")
    CSS = """
    Screen { background: $background; color: $ink; }
    PaletteScreen { background: transparent; }
    """

    def __init__(
        self,
        file: CockpitFile | None,
        engine: WatchEngine | None,
        read_only: bool = False,
        present: bool = False,
        ascii: bool = False,  # noqa: A002
        clock: Clock | None = None,
        run: str | None = None,
    ) -> None:
        super().__init__()
        self.file = file or CockpitFile(path="")
        self.keys: Keys = read_keys(self.file.keys)
        self._engine = engine
        self._clock = clock or SystemClock()
        self._ascii = ascii or self.file.ui.ascii
        self._first = run
        self._reports: dict[str, RunReport] = {}
        if engine is not None:
            self._reports = {each.name: each for each in engine.report().runs}
        self._at_work = Watch(operator=self.file.operator or "", read_only=read_only or present)
        self._said = ""
        self.trouble = ""
        self._gathering = False
        self._watching: asyncio.Task[None] | None = None
        self._mask = self._masking() if present else None
        self._set_theme()
        self.set_keymap(self.keys.keymap())

    def _set_theme(self) -> None:
        themes = load_themes()
        for theme in themes.values():
            self.register_theme(theme.textual())
        wanted = self.file.ui.theme
        self.theme = wanted if wanted in themes else "cockpit-dark"
        if wanted not in themes:
            self._said = f"no theme {wanted!r}; there are: {', '.join(themes)}"

    def _masking(self) -> Mask:
        people = {login_name(), socket.gethostname(), self._at_work.operator}
        return Mask.of(self.file, people)

    def get_default_screen(self) -> Screen[str | None]:
        """Return the first screen."""
        return WelcomeScreen(self) if self._engine is None else FleetScreen(self)

    async def on_mount(self) -> None:
        """Show what is known, then start to watch."""
        if self._engine is None:
            return
        self._engine.subscribe(self._news)
        self._watching = asyncio.create_task(self._engine.run())
        self._watching.add_done_callback(self._watch_ended)
        self.set_interval(AGES, self._take_all)
        for seconds in SOON:
            self.set_timer(seconds, self._take_all)
        if not self._at_work.operator:
            self.run_worker(self._ask_operator(), exit_on_error=False)
        if self._first is not None and self._first in self._reports:
            self.open_run(self._first)

    async def stop_work(self) -> None:
        """Give the engine a moment for its last words."""
        if self._watching is not None and not self._watching.done():
            self._watching.cancel()
            await asyncio.wait({self._watching}, timeout=LEAVE_WITHIN)

    @property
    def reports(self) -> Sequence[RunReport]:
        """Every run's newest report, in the run file's order."""
        return tuple(self._reports.values())

    @property
    def watch_state(self) -> Watch:
        """Who sits here, and whether this cockpit is watching."""
        return self._at_work

    @property
    def notice(self) -> str:
        """What was said last, else what the engine has to say about itself."""
        notices = self._engine.notices if self._engine is not None else ()
        return self._said or (notices[-1] if notices else self.trouble)

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._clock.now()

    def paint_filter(self, line: Content) -> Content:
        """Return a painted line as it may be shown: masked, in ASCII, as was asked for."""
        if self._mask is not None:
            line = self._mask(line)
        if self._ascii:
            line = Content(to_ascii(line.plain), list(line.spans))
        return line

    def say(self, words: str) -> None:
        """Show one line in the footer for a while."""
        self._said = words
        self._repaint_footer()
        self.set_timer(NOTICE, partial(self._unsay, words))

    def _unsay(self, words: str) -> None:
        if self._said == words:
            self._said = ""
            self._repaint_footer()

    @property
    def _front(self) -> CockpitScreen | None:
        """The screen in front if it shows reports; none while leaving or under a dialog."""
        screen = self.screen_stack[-1] if self.screen_stack else None
        return screen if isinstance(screen, CockpitScreen) and screen.is_mounted else None

    def _repaint_footer(self) -> None:
        if self._front is not None:
            self._front.show_keys()

    def look_again(self, name: str) -> None:
        """Ask every source of a run again."""
        if self._engine is not None:
            self.run_worker(self._engine.poke(name), exit_on_error=False)

    def seen(self, name: str) -> None:
        """Record that a person looks at a run's alerts."""
        if self._engine is not None:
            self.run_worker(self._engine.looked_at(name), exit_on_error=False)

    def open_run(self, name: str) -> None:
        """Show a run's own screen."""
        if isinstance(self.screen, RunScreen):
            self.switch_screen(RunScreen(self, name))
        else:
            self.push_screen(RunScreen(self, name))

    def report_fault(self, error: BaseException) -> str:
        """Show a fault of the cockpit's own, besides keeping its details."""
        said = super().report_fault(error)
        if self.is_running and self.crash_line is None:
            self.say(said)
        return said

    def _news(self, report: RunReport) -> None:
        self._reports[report.name] = report
        if not self._gathering:
            self._gathering = True
            self.set_timer(NEWS, self._show)

    def _take_all(self) -> None:
        if self._engine is not None:
            self._reports = {each.name: each for each in self._engine.report().runs}
        self._show()

    def _show(self) -> None:
        self._gathering = False
        if self._front is not None:
            self._front.show()

    def _watch_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        said = "" if error is None else self.report_fault(error)
        self._at_work = self._at_work._replace(stopped=said or "the engine has ended")
        self._show()

    async def _ask_operator(self) -> None:
        name = await offload(operator, self.file, deadline=ASK_WITHIN)
        self._at_work = self._at_work._replace(operator=name or login_name())
        if self._mask is not None:
            self._mask = self._masking()
        self._show()

    def _scopes(self) -> tuple[str, ...]:
        if isinstance(self.screen, RunScreen):
            return ("run", "log", "charts", "everywhere")
        where = "welcome" if isinstance(self.screen, WelcomeScreen) else "fleet"
        return (where, "everywhere")

    def _chosen_run(self) -> RunReport | None:
        name = self._front.selected if self._front is not None else None
        return self._reports.get(name or "")

    def action_check(self) -> None:
        """Look at every source of the selected run again."""
        report = self._chosen_run()
        if report is None:
            self.say("no run is selected")
        else:
            self.say(f"looking at {report.name} again")
            self.look_again(report.name)

    def action_copy(self) -> None:
        """Copy what identifies the selected run."""
        report = self._chosen_run()
        if report is None:
            self.say("no run is selected")
        else:
            self.run_worker(self._copy(report), exit_on_error=False)

    async def _copy(self, report: RunReport) -> None:
        driver = self._driver
        self.say(await copy_text(identity(report), driver.write if driver else len))

    def action_theme(self) -> None:
        """Toggle between the dark and the light twin."""
        self.theme = load_themes()[self.theme].twin

    def action_help(self) -> None:
        """Show all keys."""
        self.push_screen(HelpScreen(self.keys, self._scopes()))

    def action_palette(self) -> None:
        """Find a command or a run."""
        self.push_screen(PaletteScreen(self._commands()), self._run_command)

    def _commands(self) -> list[Command]:
        scopes = self._scopes()
        own = [
            Command(each.title, each.help, each.id, self.keys.shown(each.id))
            for each in ACTIONS
            if each.palette and each.where in scopes
        ]
        runs = [
            Command(each.name, f"open, {each.verdict.value}", f"open_run:{each.name}")
            for each in self.reports
        ]
        return [*own, *runs]

    async def _run_command(self, call: str | None) -> None:
        if call is None:
            return
        kind, _, name = call.partition(":")
        if kind == "open_run":
            self.open_run(name)
        elif any(each.id == call and each.where == "everywhere" for each in ACTIONS):
            await self.run_action(call, self)
        else:
            await self.run_action(call, self.screen)

    async def action_quit(self) -> None:
        """Leave."""
        self.exit()

    def action_interrupt(self) -> None:
        """Leave as an interrupt does."""
        self.exit(return_code=INTERRUPTED)


def run_app(
    file: CockpitFile | None,
    engine: WatchEngine | None = None,
    *,
    read_only: bool = False,
    present: bool = False,
    ascii: bool = False,  # noqa: A002
    run: str | None = None,
) -> int:
    """Open the cockpit on a run file (``None``: the welcome) and return the exit status.

    Without an ``engine`` one is made, with the store. ``run`` is opened at once.
    """
    trouble = ""
    if file is not None and engine is None:
        engine, trouble = _engine(file)
    try:
        app = CockpitApp(file, engine, read_only, present, ascii, run=run)
    except KeysError as error:
        path = file.path if file is not None else "cockpit.toml"
        sys.stderr.writelines(f"{path}: {problem}\n" for problem in error.problems)
        return CONFIG
    app.trouble = trouble
    code = run_in_terminal(app, mouse=app.file.ui.mouse)
    if app.return_value == DEMO:
        os.execv(sys.executable, [sys.executable, "-m", "cockpit", "demo"])
    return code


def _engine(file: CockpitFile) -> tuple[WatchEngine, str]:
    """Return an engine, and what is to be told if it has to do without its store."""
    from cockpit.config import store_path
    from cockpit.store.store import Store, StoreError
    from cockpit.watch.engine import Engine

    try:
        return Engine(file, store=Store(store_path()), clock=SystemClock()), ""
    except StoreError as error:
        return Engine(file, store=None, clock=SystemClock()), f"nothing is remembered: {error}"
