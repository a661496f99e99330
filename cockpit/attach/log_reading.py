"""Reads the logs of an engine's runs for its windows: pages, searches, places."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from cockpit.model.logtext import Hit, LogPage, Matches, Near
from cockpit.model.place import Place
from cockpit.model.report import RunReport
from cockpit.platforms.table import kind_of
from cockpit.runtime.offload import offload
from cockpit.sources.logs.anywhere import log_at
from cockpit.sources.logs.counting import count_from
from cockpit.sources.logs.expression import count_expression, find_expression
from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.ranged import Ranged
from cockpit.sources.logs.seek import line_at, nearest_step, nearest_time, step_pattern
from cockpit.sources.logs.sifting import sift

DEADLINE: Final = 10.0
SLICE: Final = 0.15
"""Seconds that one step of a search takes, so that it can be stopped and can tell how far."""
PATIENCE: Final = 2.0
"""Seconds that are spent on looking for a step where only a nearer one is known."""


class LogReading:
    """The logs of the runs whose reports ``report_of`` returns, as they are on the disk now.

    Every method raises ``OSError`` and ``TimeoutError``, ``find`` and ``matches`` also
    ``ValueError`` for an expression that is none or takes too long.
    """

    def __init__(self, report_of: Callable[[str], RunReport | None]) -> None:
        self._report_of = report_of

    def place(self, run: str) -> str | None:
        """Return where the run's log can be read in pages, if it can."""
        report = self._report_of(run)
        return None if report is None else log_place(report)

    async def tail(self, run: str, count: int) -> LogPage:
        """Return the last lines."""
        return await offload(self._file(run).tail, count, deadline=DEADLINE)

    async def page(self, run: str, offset: int, count: int, back: bool) -> LogPage:
        """Return lines that end before ``offset`` (``back``) or start at it."""
        return await offload(self._file(run).page, offset, count, back, deadline=DEADLINE)

    async def search(self, run: str, term: str, offset: int, back: bool) -> Hit | None:
        """Search a moment for a text: on a match, or where the time ran out."""
        file = self._file(run)
        return await offload(file.search, term, offset, back, SLICE, deadline=DEADLINE)

    async def find(self, run: str, expression: str, offset: int, back: bool) -> Hit | None:
        """Search a moment for a person's regular expression."""
        return await find_expression(self._log(run), expression, offset, back)

    async def matches(self, run: str, term: str, regex: bool, offset: int) -> Matches:
        """Count a moment: where matching lines start, from ``offset`` on."""
        if regex:
            return await count_expression(self._log(run), term, offset)
        log = self._log(run)
        return await offload(count_from, log, term, False, offset, SLICE, deadline=DEADLINE)

    async def sift(self, run: str, offset: int, count: int, back: bool, begin: int) -> LogPage:
        """Read warnings and errors alone for a moment: those before ``offset``, or from it on."""
        log = self._log(run)
        return await offload(sift, log, offset, count, back, begin, SLICE, deadline=DEADLINE)

    async def exact_step(self, run: str, step: int) -> Hit | None:
        """Return the newest line that tells exactly this step."""
        end, pattern = 1 << 62, step_pattern(step)
        look = partial(self._file(run).search, pattern, end, True, PATIENCE, True)
        return await offload(look, deadline=DEADLINE)

    async def line_at(self, run: str, number: int) -> int | None:
        """Return where the line of this number (from 1) starts."""
        return await offload(line_at, self._log(run), number, deadline=DEADLINE)

    async def nearest_step(self, run: str, step: int, begin: int) -> Near | None:
        """Return the line after ``begin`` whose training step is nearest."""
        return await offload(nearest_step, self._log(run), step, begin, deadline=DEADLINE)

    async def nearest_time(self, run: str, at: float, begin: int) -> Near | None:
        """Return the line after ``begin`` whose own time is nearest to ``at``."""
        return await offload(nearest_time, self._log(run), at, begin, deadline=DEADLINE)

    def _log(self, run: str) -> Ranged:
        report = self._report_of(run)
        place = None if report is None else _place(report)
        if place is None:
            raise OSError(0, f"no log of {run} can be read from here")
        return log_at(place)

    def _file(self, run: str) -> LogFile:
        return LogFile(self._log(run))


def log_place(report: RunReport) -> str | None:
    """Return where a run's log can be read in pages, if it can."""
    place = _place(report)
    return None if place is None else str(place)


def _place(report: RunReport) -> Place | None:
    log, kind = report.facets.log.value, kind_of(report.spec)
    return None if log is None or kind is None else kind.log_place(report.spec, log)
