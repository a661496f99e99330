"""The past: one run's screen as it was, scrubbed with the cursor keys; what happened to any run.

Nothing of a run's screen is of today but the timeline: every value is from the store, of that
moment or before; of log and logbook what stood there by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Input
from textual.worker import Worker

from cockpit.model.history import Happening, Kind, Then, Timeline
from cockpit.text.times import read_moment
from screens.base import ActingScreen, Work, spawn
from screens.dialog import ListScreen, Prompt
from screens.keys import bindings
from screens.log_reader import read_book_then
from screens.ports import Cockpit
from screens.run_layout import Shape, shape_of
from widgets.alert_list import AlertList, HappeningList, next_kind
from widgets.facet_table import CheckpointTable, FacetTable
from widgets.fleet_header import KeyLine
from widgets.log_view import BEYOND, LogView, PastLog
from widgets.logbook_view import LogbookView, PastBand
from widgets.metric_charts import LossChart
from widgets.painting.journal import paint_happening, when_width
from widgets.painting.line import DIM, EMPTY, STRONG, chosen_row, fit, text, wrapped
from widgets.run_header import RunHeader
from widgets.scrolled import ReportView, Row, Scrolled

UNREAD: Final = "reading the log itself"
Start = Callable[[str, Work], Worker[Any]]
"""Does some work, ending the one before it of the same kind."""


class PastFiles:
    """Reads a moment's log and logbook once they are looked at; until then nothing is asked."""

    def __init__(self, cockpit: Cockpit, run: str, start: Start) -> None:
        self.log, self.book = PastLog(), LogbookView()
        self._cockpit = cockpit
        self._run = run
        self._start = start
        self._log_of: Then | None = None
        self._book_of: Then | None = None

    def show_log(self, found: Then) -> None:
        """Show the log of a moment: the lines that were kept, then the log itself."""
        if found is not self._log_of:
            self._log_of = found
            self._show_kept(found, UNREAD)
            self._start("log then", partial(self._read_log, found))

    def show_book(self, found: Then) -> None:
        """Show the logbook of a moment."""
        if found is self._book_of or found.report is None:
            return
        self._book_of, path = found, found.report.spec.records.logbook
        self.book.show((), path or "", "reading" if path else "not in the run file", at_end=False)
        if path is not None:
            self._start("book then", partial(self._read_book, path, found.at))

    def wanted(self, offset: int, back: bool) -> None:
        """Read lines of the log further up, or down."""
        if self._log_of is not None:
            self._start("log then", partial(self._read_log, self._log_of, offset, back))

    async def _read_log(self, found: Then, offset: int = BEYOND, back: bool = True) -> None:
        """Show the log's end as it was, or more lines before ``offset``, or from it on."""
        try:
            page, origin = await self._cockpit.pasts.log_then(self._run, found.at, offset, back)
        except (OSError, TimeoutError, ValueError) as error:
            said = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self._show_kept(found, said or "the log did not answer in time")
            return
        if offset != BEYOND:
            self.log.extend(page, back)
        elif page.lines:
            self.log.show_then(page, origin)
        else:
            self._show_kept(found, "the log had no line by then")

    async def _read_book(self, path: str, at: float) -> None:
        book = await read_book_then(path, at)
        self.book.show(book.lines, path, book.note, at_end=book.newest_last)

    def _show_kept(self, found: Then, why: str) -> None:
        log = None if found.report is None else found.report.facets.log
        lines = () if log is None or log.value is None else log.value.lines
        kept = f"the last {len(lines)} lines then, as kept; " if lines else ""
        self.log.show_kept(lines, f"{kept}{why}")


TABS: Final = ("log", "charts", "checkpoints", "facets", "alerts", "logbook")
TITLES: Final = ("log", "charts", "checkpoints", "sources", "alerts", "logbook")
View = ReportView | LossChart | LogView | LogbookView
TALL: Final = 34
"""Rows from which the loss stands below the tab."""
UNTIL: Final = "up to then"
IS_PAST: Final = "this is the past; esc returns to now"


class PastScreen(ActingScreen):
    """A run at a moment: its head, one tab, what was wrong, and the timeline to scrub."""

    NO_RUN = IS_PAST
    SCOPES = ("past", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("past", "act", "list")
    DEFAULT_CSS = """
    PastScreen #body { layout: vertical; height: 1fr; }
    PastScreen #panel { height: 1fr; }
    PastScreen #curve { height: 14; }
    PastScreen #wrong { height: 12; }
    PastScreen #beside { height: 9; }
    PastScreen #body.-bare #panel { display: none; }
    PastScreen #body.-bare #beside, PastScreen #body.-bare.-wide #beside {
        width: 1fr; height: 1fr; margin-left: 0;
    }
    PastScreen #body.-wide { layout: horizontal; }
    PastScreen #body.-wide #panel { width: 1fr; }
    PastScreen #body.-wide #beside { width: 45%; height: 1fr; margin-left: 1; }
    """

    def __init__(self, cockpit: Cockpit, run: str, at: float | None = None) -> None:
        super().__init__(cockpit)
        self._run = run
        self._at = self._wanted = at
        self._tab = "alerts"
        self._found: Then | None = None
        self._timeline: Timeline | None = None
        self._why = ""
        self._files = PastFiles(cockpit, run, self._start)
        self._views: dict[str, View] = {
            "log": self._files.log,
            "charts": LossChart(UNTIL),
            "checkpoints": CheckpointTable(),
            "facets": FacetTable(),
            "alerts": AlertList(),
            "logbook": self._files.book,
        }
        self._wrong = AlertList()
        self._wrong.steered = False
        self._wrong.id = "wrong"
        self._curve = LossChart(UNTIL)
        self._curve.id = "curve"

    def compose(self) -> ComposeResult:
        """Lay out the band, the head of then, a tab, the timeline and the footer."""
        yield PastBand()
        yield RunHeader(TITLES)
        with Container(id="body"):
            with Vertical(id="panel"):
                yield from self._views.values()
                yield self._curve
            with Vertical(id="beside"):
                yield self._wrong
                yield HappeningList()
        yield Prompt("go to a time: 03:12, 2h ago, 2026-03-11 08:57; esc cancel")
        yield KeyLine()

    @property
    def runs_in_view(self) -> tuple[str, ...]:
        """The run. Nothing here shows how it is now."""
        return (self._run,)

    @property
    def at(self) -> float:
        """The moment that is shown, in seconds since the epoch."""
        return self.cockpit.now() if self._at is None else self._at

    @property
    def wanted(self) -> float:
        """The moment that is shown next, once it is read."""
        return self.at if self._wanted is None else self._wanted

    def on_mount(self) -> None:
        """Read the timeline, then the moment."""
        super().on_mount()
        spawn(self, self._read_timeline, group="timeline", exclusive=True)

    def show(self) -> None:
        """Show the moment as far as it is read."""
        if not self.is_mounted:
            return
        now, found = self.cockpit.now(), self._found
        moments = () if self._timeline is None else self._timeline.moments
        self.query_one(PastBand).show(found, self.at, now, moments, self._why)
        report = None if found is None else found.report
        header = self.query_one(RunHeader)
        lacks = "" if found is None else next(iter(found.lacks), "")
        nothing = (self._why or "reading the store") if found is None else lacks
        header.show(self._run, report, self.at, TABS.index(self._tab), lost=nothing)
        for name, view in self._views.items():
            view.display = name == self._tab and report is not None
            if report is not None and name == self._tab:
                self._show_view(view)
        self._lay_out()
        self.query_one(HappeningList).show(self._timeline, now, self._why)
        self.show_keys()

    def _show_view(self, view: View) -> None:
        assert self._found is not None and self._found.report is not None
        if isinstance(view, LossChart):
            view.show(self._found.report)
        elif isinstance(view, ReportView):
            view.show(self._found.report, self.at)
        elif view is self._files.log:
            self._files.show_log(self._found)
        else:
            self._files.show_book(self._found)

    def _start(self, group: str, work: Work) -> Worker[Any]:
        return spawn(self, work, group=group, exclusive=True)

    @on(LogView.Wanted)
    def _log_wanted(self, event: LogView.Wanted) -> None:
        self._files.wanted(event.offset, event.back)

    def _lay_out(self) -> None:
        shape = shape_of(*self.app.size)
        body = self.query_one("#body")
        body.set_class(shape is not Shape.ALONE, "-wide")
        report = None if self._found is None else self._found.report
        body.set_class(report is None, "-bare")
        roomy = shape is not Shape.ALONE and report is not None
        self._wrong.display = roomy and self._tab != "alerts"
        self._curve.display = roomy and self._tab != "charts" and self.app.size.height >= TALL
        for view in (self._wrong, self._curve):
            if view.display:
                self._show_view(view)

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here: none that acts."""
        return self.cockpit.keys.footer("past", "list", "everywhere")

    async def _read_timeline(self) -> None:
        try:
            self._timeline = await self.cockpit.pasts.timeline(self._run)
        except (OSError, TimeoutError, ValueError) as error:
            self._fail(error)
            return
        self._why = ""
        self.show()
        times = self._timeline.times
        changes = [each.at for each in self._timeline.moments if each.changed]
        last = next(iter([*changes[-1:], *times[-1:]]), self.cockpit.now())
        self._go(last if self._wanted is None else self._wanted)

    def _read(self, at: float) -> None:
        self._wanted = at
        spawn(self, partial(self._read_then, at), group="then", exclusive=True)

    async def _read_then(self, at: float) -> None:
        """Read a moment, then show it: until then the former one stands, under its own time."""
        try:
            found = await self.cockpit.pasts.then(self._run, at)
        except (OSError, TimeoutError, ValueError) as error:
            self._found, self._at = None, at
            self._fail(error)
            return
        self._found, self._at, self._why = found, at, ""
        self.show()

    def _fail(self, error: BaseException) -> None:
        said = getattr(error, "strerror", None) or str(error) or "no answer"
        self._why = f"cannot read the past: {said}"
        self.show()

    def _go(self, at: float) -> None:
        """Show another moment."""
        self.query_one(HappeningList).stand_at(at)
        self._read(at)

    def action_scrub(self, steps: int) -> None:
        """Go to the moment before, or to the next one."""
        times = () if self._timeline is None else self._timeline.times
        before = [each for each in times if each < self.wanted]
        after = [each for each in times if each > self.wanted]
        wanted = before[-1:] if steps < 0 else after[:1]
        if wanted:
            self._go(wanted[0])
        else:
            self.cockpit.say(f"no {'earlier' if steps < 0 else 'later'} moment is known")

    def action_step(self, steps: int) -> None:
        """Go to the happening below in the timeline, or above."""
        view = self.query_one(HappeningList)
        former, here = view.cursor, view.at_cursor
        view.move(steps)
        found = view.at_cursor
        if found is None or (view.cursor == former and (here is None or here.at == self.wanted)):
            self.cockpit.say(f"nothing {'before' if steps > 0 else 'after'} that is known")
            return
        self._read(found.at)

    def action_edge(self, end: bool) -> None:
        """Go to the last moment that is known, or to the first."""
        times = () if self._timeline is None else self._timeline.times
        if times:
            self._go(times[-1 if end else 0])
        else:
            self.cockpit.say("no moment is known")

    def action_past_only(self) -> None:
        """List one kind of happening alone, or all again."""
        view = self.query_one(HappeningList)
        view.only()
        view.stand_at(self.wanted)

    def action_past_goto(self) -> None:
        """Ask for a time."""
        self.query_one(Prompt).ask()

    @on(Input.Submitted)
    def _goto(self, event: Input.Submitted) -> None:
        self.query_one(Prompt).close()
        try:
            self._go(read_moment(event.value, self.cockpit.now(), None))
        except ValueError as error:
            self.cockpit.say(str(error))

    def action_list_back(self) -> None:
        """Leave the line to type in, else return to the present."""
        if self.query_one(Prompt).is_open:
            self.query_one(Prompt).close()
        else:
            self.dismiss(self._run)

    action_past_back = action_list_back

    def action_tab(self, name: str) -> None:
        """Show a tab."""
        self._tab = name
        self.show()

    def action_next_tab(self) -> None:
        """Show the tab to the right."""
        self.action_tab(TABS[(TABS.index(self._tab) + 1) % len(TABS)])

    def action_turn(self, pages: int) -> None:
        """Turn pages of the tab."""
        view = self._views[self._tab]
        if isinstance(view, Scrolled | LogView):
            view.page(pages)

    def action_act(self, verb: str) -> None:
        """Say that nothing can be done to what is past."""
        self.cockpit.say(IS_PAST)

    def action_about(self, what: str) -> None:
        """Say that this is the past."""
        self.cockpit.say(IS_PAST)


MOST: Final = 500
"""Events that are listed; each run's own timeline has all of its own."""
EVERY: Final = 60.0
AGAIN: Final = 5.0
"""Seconds after which the runs are asked anew: with all answers, and without some."""
FEW: Final = 6
"""Runs that are named where a reason is that of many."""
NAME: Final = 24
"""Columns that a run's name may take."""


class HappenedScreen(ListScreen):
    """Asks for each run's timeline, once in a while anew; Enter shows the run as it was then."""

    SCOPES = ("happened", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("happened", "list")

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit)
        self._found: dict[str, Timeline] = {}
        self._troubles: dict[str, str] = {}
        self._kind: Kind | None = None
        self._left = 0
        """Runs whose past is still to be read."""
        self._asked = float("-inf")

    def show(self) -> None:
        """Show what is known by now, and ask anew where that is old or could not be read."""
        now, every = self.cockpit.now(), AGAIN if self._troubles else EVERY
        if self.is_mounted and not self._left and abs(now - self._asked) >= every:
            self._asked = now
            spawn(self, self._read)
        super().show()

    async def _read(self) -> None:
        names = [each.name for each in self.cockpit.reports]
        self._left = len(names)
        for gone in (self._found.keys() | self._troubles.keys()) - set(names):
            self._found.pop(gone, None)
            self._troubles.pop(gone, None)
        for name in names:
            try:
                self._found[name] = await self.cockpit.pasts.timeline(name)
                self._troubles.pop(name, None)
            except (OSError, TimeoutError, ValueError) as error:
                said = getattr(error, "strerror", None) or str(error) or "no answer in time"
                self._troubles[name] = said
            self._left -= 1
            self.show()

    @property
    def selected(self) -> str | None:
        """Return the run of the chosen event."""
        return self.chosen.partition(" ")[2] or None

    def _events(self) -> list[tuple[str, int, Happening]]:
        """Return all events of the kind that is listed, newest first.

        Each with its run, and its number among that run's from the oldest on: what is read of
        another run moves no cursor.
        """
        found = []
        for run, past in self._found.items():
            listed = past.of_kind(self._kind)
            found += [(run, len(listed) - at, each) for at, each in enumerate(listed)]
        return sorted(found, key=lambda one: -one[2].at)

    def _missing(self) -> list[str]:
        """Return what is missing and why, a line for each reason with the runs that lack it."""
        unread, lacking = dict[str, list[str]](), dict[str, list[str]]()
        for run, why in self._troubles.items():
            unread.setdefault(why, []).append(run)
        for run, past in self._found.items():
            for why in past.lacks:
                lacking.setdefault(why, []).append(run)
        return [
            *(f"cannot read the past of {_named(runs)}: {why}" for why, runs in unread.items()),
            *(f"{_named(runs)}: {why}" for why, runs in lacking.items()),
        ]

    def rows(self) -> list[Row]:
        """Return the events, and above them why some are missing."""
        every, now = self._events(), self.cockpit.now()
        events = every[:MOST]
        wide = min(NAME, max((Content(run).cell_length for run, _, _ in events), default=0))
        when = when_width([each for *_, each in events], now)

        def paint(run: str, each: Happening, width: int, chosen: bool) -> list[Content]:
            line = paint_happening(each, now, width - wide - 4, when, named=self._kind is None)
            return [chosen_row(text(fit(text((run, STRONG)), wide), "  ", line), width, chosen)]

        said, read = self._missing(), self._found.keys() | self._troubles.keys()
        if not events and not said:
            all_read = all(each.name in read for each in self.cockpit.reports)
            said = ["nothing has happened yet" if all_read else "reading the store"]
        told = [Row("", partial(_remark, each)) for each in said]
        found = [
            Row(f"{number}:{each.at} {run}", partial(paint, run, each))
            for run, number, each in events
        ]
        return [*told, *found]

    def heading(self) -> Content:
        """Return what is listed."""
        only = "" if self._kind is None else f" · {self._kind.value} only"
        return text(("past of the fleet", STRONG), (only, DIM))

    def note(self) -> Content:
        """Return how many runs are still to be read, else how much of all is listed."""
        if self._left:
            return text((f"{self._left} runs still to read", DIM))
        every = len(self._events())
        return text((f"the newest {MOST:,} of {every:,}", DIM)) if every > MOST else EMPTY

    def action_happened_open(self) -> None:
        """Show the run of the chosen event as it was then."""
        at, _, run = self.chosen.partition(":")[2].partition(" ")
        if run:
            self.app.push_screen(PastScreen(self.cockpit, run, float(at)))
        else:
            self.cockpit.say("nothing has happened yet")

    def action_happened_only(self) -> None:
        """List one kind of event alone, in turn, or all again."""
        every = [each for past in self._found.values() for each in past.happenings]
        self._kind = next_kind(every, self._kind)
        self.show()


def _named(runs: Sequence[str]) -> str:
    """Return the names of a few runs, and how many more there are."""
    more = f" and {len(runs) - FEW} more" if len(runs) > FEW + 1 else ""
    return ", ".join(runs[:FEW] if more else runs) + more


def _remark(words: str, width: int, chosen: bool) -> list[Content]:
    return [*wrapped(text((words, DIM)), width, 3), EMPTY]
