"""What the screens want of the app around them; no more is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cockpit.model.curve import Curves, Span
    from cockpit.model.described import Description
    from cockpit.model.history import Backtested, PastLog, Then, Timeline
    from cockpit.model.logtext import Hit, LogPage, Matches, Near
    from cockpit.model.report import RunReport, View
    from screens.acting.guarded import GuardedActions
    from screens.bookmarks import Bookmarks
    from screens.keys import Keys
    from widgets.fleet_header import Watch


class Logs(Protocol):
    """The logs of the runs: ``run`` is a run's name, offsets count bytes.

    Every method but ``place`` raises ``OSError`` and ``TimeoutError``; ``find`` and ``matches``
    also ``ValueError`` for an expression that is none or takes too long.
    """

    def place(self, run: str) -> str | None:
        """Return the path of the run's log if it lies where it can be read in pages."""

    async def tail(self, run: str, count: int) -> LogPage:
        """Return the last lines."""

    async def page(self, run: str, offset: int, count: int, back: bool) -> LogPage:
        """Return lines that end before ``offset`` (``back``) or start at it."""

    async def search(self, run: str, term: str, offset: int, back: bool) -> Hit | None:
        """Search a moment for a text: on a match, or where the time ran out."""

    async def find(self, run: str, expression: str, offset: int, back: bool) -> Hit | None:
        """Search a moment for a person's regular expression."""

    async def matches(self, run: str, term: str, regex: bool, offset: int) -> Matches:
        """Count a moment: where matching lines start, from ``offset`` on."""

    async def sift(self, run: str, offset: int, count: int, back: bool, begin: int) -> LogPage:
        """Read warnings and errors alone for a moment: those before ``offset``, or from it on.

        None before ``begin``. The page may have few lines, or none: ask again from its edge.
        """

    async def exact_step(self, run: str, step: int) -> Hit | None:
        """Return the newest line with exactly this step."""

    async def line_at(self, run: str, number: int) -> int | None:
        """Return where the line of this number (from 1) starts."""

    async def nearest_step(self, run: str, step: int, begin: int) -> Near | None:
        """Return the line after ``begin`` whose training step is nearest."""

    async def nearest_time(self, run: str, at: float, begin: int) -> Near | None:
        """Return the line after ``begin`` whose own time is nearest to ``at``."""


class CurvesPort(Protocol):
    """Any metric of the runs, from their trackers' own records."""

    async def curves(self, run: str, metrics: Sequence[str], span: Span) -> Curves:
        """Return these metrics of a run, as far as they are read (``Curve.share``).

        Raises ``TimeoutError`` where no engine answers, ``OSError`` and ``ValueError``.
        """


class PastsPort(Protocol):
    """The past of the runs, from the engine's store.

    Every method raises ``TimeoutError`` where no engine answers, ``OSError`` and ``ValueError``.
    """

    async def timeline(self, run: str) -> Timeline:
        """Return what is known to have happened to a run, and which moments are kept."""

    async def then(self, run: str, at: float) -> Then:
        """Return a run as it was at ``at`` (seconds since the epoch)."""

    async def log_then(self, run: str, at: float, offset: int, back: bool) -> PastLog:
        """Return lines of the log as it was at ``at``: before ``offset`` (``back``), or from it on.

        Raises ``OSError`` where the log is not there any more, or is another text by now.
        """


class Cockpit(Protocol):
    """The app, as its screens see it: they stand below it and may not import it."""

    keys: Keys
    """The keys in use."""
    bookmarks: Bookmarks
    """Places in logs that a person keeps."""

    @property
    def actions(self) -> GuardedActions:
        """The guarded actions."""

    @property
    def presenting(self) -> bool:
        """Whether others look at the screen: names are hidden, what matters is enlarged."""

    @property
    def logs(self) -> Logs:
        """The logs of the runs, in pages."""

    @property
    def curves(self) -> CurvesPort:
        """Any metric of the runs."""

    @property
    def pasts(self) -> PastsPort:
        """What happened to the runs, and how they were."""

    @property
    def reports(self) -> Sequence[RunReport]:
        """Every run's newest report, in the run file's order."""

    @property
    def watch_state(self) -> Watch:
        """Who sits here, and whether this cockpit is watching."""

    @property
    def view(self) -> View:
        """How the fleet was looked at last, in this session or the one before."""

    def keep_view(self, view: View) -> None:
        """Remember how the fleet is looked at."""

    @property
    def notice(self) -> str:
        """The messages to show now, the most important first."""

    def now(self) -> float:
        """Return seconds since the epoch."""

    def report_of(self, name: str | None) -> RunReport | None:
        """Return the newest report of a run (``None``: of the selected one)."""

    def say(self, words: str) -> None:
        """Show one line for a short while, or until something else is said."""

    def warn(self, words: str) -> None:
        """Show one line for a while, whatever else is said meanwhile."""

    def look_again(self, name: str) -> None:
        """Ask every source of a run again."""

    def seen(self, name: str) -> None:
        """Record that a person looks at a run's alerts."""

    def open_run(self, name: str) -> None:
        """Show a run's own screen."""

    def show_news(self) -> None:
        """Show what is known by now, soon."""

    def choose(self, name: str) -> None:
        """Select a run in the fleet: a person has turned to it elsewhere."""

    async def replay(self, run: str) -> Backtested:
        """Return which alerts the rules would have opened on a run so far; raises ``OSError``."""

    async def describe(self, run: str) -> Description:
        """Return what the run's own system tells of its job; raises ``OSError``."""

    def report_fault(self, error: BaseException) -> str:
        """Keep the details of a fault of the cockpit's own; return the one line about it."""

    def copy(self, text: str) -> None:
        """Copy text to the person's own clipboard and say which way it went."""
