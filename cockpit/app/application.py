"""The Textual app: screens on an engine. It composes; what is shown and done stands elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from textual.actions import ActionParseResult
from textual.binding import BindingType
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen

from cockpit.app.colours import NoticeApp
from cockpit.app.first_paint import FirstPaint, News
from cockpit.app.frame_taking import FrameFile, LeftFrame
from cockpit.app.session_files import BookmarkFile, KeptBookmarks, KeptView, ViewFile
from cockpit.app.terminal import drawn_line
from cockpit.app.typeahead import stands
from cockpit.config.advice import unread_notice
from cockpit.config.places import state_dir
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.logtext import Bookmark, Key
from cockpit.model.report import FleetReport, RunReport, View
from cockpit.model.run import CockpitFile
from cockpit.model.wording import Noting
from cockpit.runtime.account import ask_operator, login_name
from cockpit.runtime.heap import QuietHeap
from cockpit.text.safe import Charset
from screens.acting.guarded import GuardedActions, Means
from screens.base import CockpitScreen, KeyedModal, spawn
from screens.bookmarks import Bookmarks
from screens.fleet import FleetScreen
from screens.hotkeys import ACTIONS
from screens.keys import Keys, bindings, key_event, read_keys
from screens.ports import CurvesPort, Logs, PastsPort
from widgets.fleet_header import Watch
from widgets.painted import KeyClicked

if TYPE_CHECKING:  # what is only opened later is imported there: the first paint waits for no more
    from cockpit.app.tour import Tour
    from cockpit.model.described import Description
    from cockpit.model.history import Backtested
    from screens.acting.offers import Command
    from screens.mask import Mask

AGES: Final = 5.0
"""Seconds between two looks at the ages, which step by 15 s at least."""
SOON: Final = (0.15, 0.6)
"""Seconds after the start at which to look whether the store had something to tell."""
LEAVE_WITHIN: Final = 0.3
"""Seconds that leaving the engine may take."""
LEFT_ON_PURPOSE: Final = (None, 0, 130)
"""Exit statuses when a person has left; a line that drops, or a kill, gives others."""


class Watching(Protocol):
    """Reports of all runs, as they come; nothing here waits for an answer."""

    @property
    def notices(self) -> Sequence[str]:
        """What a person should know about the cockpit itself, one line each."""

    @property
    def silent(self) -> str:
        """Why nothing of what is shown is news, if so: nobody watches."""

    @property
    def recalled(self) -> asyncio.Event:
        """Set once what was seen of the runs the last time is known."""

    @property
    def logs(self) -> Logs:
        """The logs of the runs, in pages."""

    @property
    def curves(self) -> CurvesPort:
        """Any metric of the runs, as it was logged."""

    @property
    def pasts(self) -> PastsPort:
        """What happened to the runs, and how they were."""

    def report(self) -> FleetReport:
        """Return what is known now, at once."""

    def subscribe(self, callback: Callable[[RunReport], object]) -> Callable[[], None]:
        """Call back with every report that says something new; return how to stop that."""

    def on_ring(self, callback: Callable[[str], object]) -> None:
        """Call back when the bell of this terminal should ring."""

    def prefer(self, visible: Sequence[str]) -> None:
        """Say which runs a person sees: they are read first."""

    async def run(self) -> None:
        """Watch until cancelled."""

    async def poke(self, name: str) -> None:
        """Ask for all facets of a run, now."""

    async def looked_at(self, name: str) -> None:
        """Record that a person has seen a run's alerts, so that none closes unseen."""


class CockpitApp(NoticeApp):
    """The cockpit on one run file; without one, a welcome."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("everywhere")
    CSS = """
    Screen { background: $background; color: $ink; }
    PastScreen, PastScreen Input, PastScreen Input:focus { background: $past; }
    PaletteScreen, Dialog { background: transparent; }
    Input, Input:focus { background-tint: $ink 0%; & > .input--placeholder { color: $dim; } }
    """

    def __init__(  # noqa: PLR0913 - what the verb that opens it hands over
        self,
        file: CockpitFile | None,
        engine: Watching | None,
        *,
        read_only: bool = False,
        present: bool = False,
        ascii: bool = False,  # noqa: A002
        clock: Clock | None = None,
        run: str | None = None,
        means: Means | None = None,
        views: ViewFile | None = None,
        bookmarks: BookmarkFile | None = None,
        frames: FrameFile | None = None,
    ) -> None:
        super().__init__()
        self._views = KeptView(views, self)
        self._left = LeftFrame(frames, self, self)
        self.file = file or CockpitFile(path="")
        self.keys: Keys = replace(read_keys(self.file.keys), looking=read_only or present)
        self._kept_bookmarks = KeptBookmarks(bookmarks, self.say)
        self.bookmarks = Bookmarks(self._keep_bookmarks)
        self._engine = engine
        self._clock = clock or SystemClock()
        if ascii or self.file.ui.ascii:
            self.charset = Charset.ASCII
        self._first = run
        self._reports: dict[str, RunReport] = {}
        self._stood: tuple[object, ...] = ()
        self._news = News(self, self._show, self.live_wanted.set)
        """What came from the engine since: a key paints what it changes, and none of the news."""
        if engine is not None:
            self._reports = {each.name: each for each in engine.report().runs}
        self._at_work = Watch(operator=self.file.operator or "", read_only=read_only or present)
        self.actions = GuardedActions(self, self, means or Means(), present=present)
        self.trouble = ""
        self.tour: Tour | None = None
        self._first_paint = FirstPaint(self, self.shown)
        self._watching: asyncio.Task[None] | None = None
        self._heap = QuietHeap()
        self._mask: Mask | None = None
        if present:
            self._mask = self._masking()
        if (wrong := self.set_theme(self.file.ui.theme)) is not None:
            self.warned.append(wrong)
        self.set_keymap(self.keys.keymap())

    def _masking(self) -> Mask:
        from screens.mask import Mask

        people = {login_name(), self._at_work.operator}
        mask = Mask.of(self.file, people, self._mask)
        mask.meet(self.reports)
        return mask

    def get_default_screen(self) -> Screen[str | None]:
        """Return the first screen."""
        if self._engine is not None:
            return FleetScreen(self)
        from cockpit.app.first_run import config_place, look_around
        from screens.welcome import WelcomeScreen

        return WelcomeScreen(self, config_place(), partial(look_around, Path.cwd(), self._clock))

    async def on_mount(self) -> None:
        """Show what is known, then start to watch."""
        self.app_resume_signal.subscribe(self, self._resumed)
        recalled = None if self._engine is None else self._engine.recalled
        self._first_paint.wait(recalled, self._take_all)
        if self._engine is None:
            return
        self._news.begin(self.reports)
        self._engine.subscribe(self._news.take)
        self._engine.on_ring(self.ring)
        self._watching = asyncio.create_task(self._engine.run())
        self._watching.add_done_callback(self._watch_ended)
        self._heap.begin()
        self.set_interval(AGES, self._in_time)
        for seconds in SOON:
            self.set_timer(seconds, self._take_all)
        if not self._at_work.operator:
            spawn(self, self._ask_operator)
        if self._first is not None and self._first in self._reports:
            self.open_run(self._first)
        spawn(self, self._load_bookmarks)
        self.actions.look_for_interrupted()
        if (unread := unread_notice(self.file)) is not None:
            self.say(unread)

    def on_exit_app(self) -> None:
        """Take the frame that the next session begins with."""
        self._left.take()

    async def stop_work(self) -> None:
        """Leave the engine."""
        self._heap.end()
        await asyncio.gather(self._views.save(), self._kept_bookmarks.save(), self._left.save())
        if self.return_code in LEFT_ON_PURPOSE:
            self.actions.planning.end_all()
        if self._watching is not None and not self._watching.done():
            self._watching.cancel()
            await asyncio.wait([self._watching], timeout=LEAVE_WITHIN)

    @property
    def presenting(self) -> bool:
        """Whether others look at the screen: names are hidden, what matters is enlarged."""
        return self._mask is not None

    @property
    def logs(self) -> Logs:
        """The logs of the runs, in pages."""
        assert self._engine is not None, "a run is shown only where an engine tells of it"
        return self._engine.logs

    @property
    def curves(self) -> CurvesPort:
        """Any metric of the runs."""
        assert self._engine is not None, "a run is shown only where an engine tells of it"
        return self._engine.curves

    @property
    def pasts(self) -> PastsPort:
        """What happened to the runs, and how they were."""
        assert self._engine is not None, "a run is shown only where an engine tells of it"
        return self._engine.pasts

    @property
    def reports(self) -> Sequence[RunReport]:
        """Every run's newest report, in the run file's order."""
        return tuple(self._reports.values())

    @property
    def watch_state(self) -> Watch:
        """Who sits here, and whether this cockpit is watching."""
        silent = self._engine.silent if self._engine is not None else ""
        return self._at_work._replace(stopped=self._at_work.stopped or silent)

    @property
    def notice(self) -> str:
        """What to tell, what matters most first: nothing harmless takes a warning's place."""
        notices = self._engine.notices if self._engine is not None else ()
        going = [f"● {each} is under way" for each in self.actions.under_way]
        left = self.actions.news_brief if self._front is not None and self._front.BRIEF_NEWS else ""
        here = () if self._front is None else self._front.SCOPES
        tour = "" if self.tour is None else self.tour.line(self.keys, here)
        standing = [*going, left, self.trouble, *notices[::-1], tour]
        said = [*self.warned[::-1], self.said, *standing]
        return " · ".join(dict.fromkeys(filter(None, said)))

    @property
    def view(self) -> View:
        """How the fleet was looked at last, in this session or the one before."""
        return self._views.view

    def keep_view(self, view: View) -> None:
        """Remember how the fleet is looked at."""
        self._views.keep(view)

    async def _load_bookmarks(self) -> None:
        await self.shown.wait()  # the first frame shows none
        self.bookmarks.load(await self._kept_bookmarks.load())
        self.show_news()

    def _keep_bookmarks(self, changes: Mapping[Key, Bookmark | None]) -> None:
        self._kept_bookmarks.keep(changes)
        spawn(self, self._kept_bookmarks.save, group="bookmarks")

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._clock.now() if self._left.now is None else self._left.now

    def paint_filter(self, line: Content) -> Content:
        """Return a painted line as it may be shown: masked, in ASCII, as was asked for."""
        if self._mask is not None:
            line = self._left.filtered(line, self._mask)
        return line if isinstance(self._left.now, Noting) else drawn_line(line, self.charset)

    @property
    def paint_form(self) -> object:
        """What ``paint_filter`` goes by: as long as it is equal, so is what becomes of a line."""
        return (
            self._mask,
            0 if self._mask is None else self._mask.knows,
            self.charset,
            self._left.now,
        )

    def ring(self, sequence: str) -> None:
        """Ring the terminal, if the run file asks for that: otherwise it stays quiet."""
        asked = any(route.kind == "terminal" for route in self.file.notify.routes)
        if asked and self._driver is not None:
            self._driver.write(sequence)

    @property
    def _front(self) -> CockpitScreen | None:
        """The screen in front if it shows reports; none while leaving or under a dialog."""
        screen = self.screen_stack[-1] if self.screen_stack else None
        return screen if isinstance(screen, CockpitScreen) and stands(screen) else None

    def repaint_footer(self) -> None:
        """Paint the last line of the screen in front anew."""
        if self._front is not None:
            with self.faults_of(self._front):
                self._front.show_keys()

    def look_again(self, name: str) -> None:
        """Ask every source of a run again."""
        if self._engine is not None:
            spawn(self, partial(self._engine.poke, name))

    def seen(self, name: str) -> None:
        """Record that a person looks at a run's alerts."""
        if self._engine is not None:
            spawn(self, partial(self._engine.looked_at, name))

    def open_run(self, name: str) -> None:
        """Show a run's own screen."""
        from screens.run import RunScreen

        self.choose(name)
        if isinstance(self.screen, RunScreen):
            self.switch_screen(RunScreen(self, name))
        else:
            self.push_screen(RunScreen(self, name))

    def choose(self, name: str) -> None:
        """Select a run in the fleet: a person has turned to it elsewhere."""
        for screen in self.screen_stack:
            if isinstance(screen, FleetScreen):
                screen.choose(name)

    def show_news(self) -> None:
        """Show what is known by now, soon."""
        if self.is_running:
            self._show()

    def _take_all(self) -> None:
        if self._engine is not None:
            self._reports = {each.name: each for each in self._engine.report().runs}
            self._news.taken(self.reports)
        self._show()

    def _in_time(self) -> None:
        known = () if self._engine is None else self._engine.report().runs
        if self._front is None or self._front.aged(self.now()) or self._about(known) != self._stood:
            self._take_all()
        self._send_cells()  # what a write has lost, though nothing has changed since
        self._heap.look(self._typeahead.idle)

    def _show(self) -> None:
        """Show the news on every screen that can be seen: a dialog hides none of what is below."""
        self._reports.update(self._news.taken())
        if self._mask is not None:
            self._mask.meet(self.reports)
        for screen in reversed(self.screen_stack):
            if isinstance(screen, CockpitScreen | KeyedModal) and stands(screen):
                with self.faults_of(screen):
                    screen.show()
            if not screen.is_modal:
                break
        if self._engine is not None and self._front is not None:
            self._engine.prefer(self._front.runs_in_view)
        self._stood = self._about(self.reports)

    def _about(self, reports: Sequence[RunReport]) -> tuple[object, ...]:
        """Return all that is shown of reports, but for their ages."""
        return reports, self.notice, self.watch_state, tuple(self.actions.news), self.paint_form

    def _watch_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        said = "" if error is None else self.report_fault(error)
        self._at_work = self._at_work._replace(stopped=said or "the engine has ended")
        self._show()

    async def _ask_operator(self) -> None:
        found = await ask_operator(self.file)
        self._at_work = self._at_work._replace(operator=found.name)
        if found.notice is not None:
            self.warn(found.notice)
        if self._mask is not None:
            self._mask = self._masking()
        self._show()

    def _scopes(self) -> tuple[str, ...]:
        return getattr(self.screen, "SCOPES", ("everywhere",))

    def report_of(self, name: str | None) -> RunReport | None:
        """Return the newest report of a run (``None``: of the selected one)."""
        front = self._front.selected if self._front is not None else None
        return self._reports.get(name or front or "")

    def on_key_clicked(self, event: KeyClicked) -> None:
        """Press a key that was clicked."""
        self.post_message(key_event(event.key))

    def action_check(self) -> None:
        """Look at every source of the selected run again."""
        report = self.report_of(None)
        if report is None:
            self.say(CockpitScreen.NO_RUN if self._front is None else self._front.NO_RUN)
        else:
            self.say(f"looking at {report.name} again")
            self.look_again(report.name)

    def action_copy(self) -> None:
        """Choose what to copy of the selected run."""
        report = self.report_of(None)
        if report is None:
            self.say(CockpitScreen.NO_RUN if self._front is None else self._front.NO_RUN)
        else:
            from screens.copying import CopyScreen, copies

            chooser = CopyScreen(report.name, copies(report))
            self.push_screen(chooser, lambda chosen: self.copy(chosen) if chosen else None)

    async def replay(self, run: str) -> Backtested:
        """Return which alerts the rules would have opened on a run so far; raises ``OSError``."""
        from cockpit.app.replaying import replayed

        return await replayed(self.file.path, run)

    async def describe(self, run: str) -> Description:
        """Return what the run's own system tells of its job; raises ``OSError``."""
        from cockpit.app.replaying import described

        return await described(self.file.path, run)

    def copy(self, text: str) -> None:
        """Copy text to the person's own clipboard and say which way it went."""
        from screens.copying import COPIED, copy_text

        write = self._driver.write if self._driver else len

        async def copied() -> None:
            self.say(await copy_text(text, write, state_dir() / COPIED))

        spawn(self, copied)

    def action_help(self) -> None:
        """Show all keys."""
        from cockpit.app.commands import help_here
        from screens.help import HelpScreen

        self.push_screen(HelpScreen(self, help_here(self, self._scopes())))

    def action_palette(self) -> None:
        """Find a command or a run."""
        from screens.acting.offers import PaletteScreen

        report = self.report_of(None)
        about = report.name if report is not None else ""
        self.push_screen(PaletteScreen(self._commands(), about), partial(self._run_command, about))

    def _commands(self) -> list[Command]:
        from cockpit.app.commands import commands

        return commands(self, self._scopes(), self.theme)

    async def _run_command(self, about: str, call: str | None) -> None:
        """Do what was chosen; an action is done to the run that stood above the list."""
        if call is None:
            return
        kind, _, name = call.partition(":")
        if kind == "open_run":
            self.open_run(name)
        elif kind == "act":
            self.actions.act(name, about or None)
        elif kind == "theme":
            self.choose_theme(name)
        elif any(each.run == call and each.where == "everywhere" for each in ACTIONS):
            await self.run_action(call, self)
        else:
            await self.run_action(call, self.screen)

    def action_suspend(self) -> None:
        """Stop this window and give the shell its terminal; not in the middle of an action."""
        if self.actions.under_way:
            self.say(f"{self.actions.under_way[0]} is under way: a stop would hold it up")
        else:
            self.action_suspend_process()

    def _resumed(self, _: object) -> None:
        """Show what is so by now, on a terminal that was another program's meanwhile."""
        self._take_all()
        for screen in self.screen_stack:
            screen.refresh(layout=True)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key runs; the tour goes on by it."""
        done = await super().run_action(action, default_namespace, namespaces)
        if self.tour is not None and self.tour.pressed(action):
            self.repaint_footer()
        return done

    async def action_quit(self, code: int = 0) -> None:
        """Leave with an exit status; while an action is under way, ask first."""
        leave = partial(self.exit, return_code=code)
        if self.actions.may_leave(leave):
            leave()
