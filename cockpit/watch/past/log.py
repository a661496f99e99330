"""A run's log up to a moment of its past, from the log itself: nothing that was written later."""

from __future__ import annotations

from typing import Final, NamedTuple

from cockpit.model.logtext import LogPage
from cockpit.model.observed import LogValue
from cockpit.model.past import PastLog, Then
from cockpit.model.run import RunSpec
from cockpit.model.wording import moment
from cockpit.platforms.table import kind_of
from cockpit.sources.logs.anywhere import log_at
from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.ranged import Ranged
from cockpit.sources.logs.seek import written_by

PAGE: Final = 600
"""Lines that are read at once."""
CHANGED: Final = "the log was rotated or truncated since"


class _End(NamedTuple):
    """Where the log ended then, and by what that is known."""

    offset: int
    told: str


def log_then(run: RunSpec, found: Then, offset: int, back: bool) -> PastLog:
    """Return lines as they stood at a moment: before ``offset``, or from it on, none later.

    Blocks. Raises ``OSError`` where the log is not there any more, or is another text by now.
    """
    kept = None if found.report is None else found.report.facets.log.value
    kind = kind_of(run)
    place = None if kind is None else kind.log_place(run, kept)
    if place is None:
        raise OSError(0, "its log cannot be read from here")
    log = log_at(place).newest()
    if kept is not None and kept.lines:
        end = _recorded(LogFile(log), kept, found.recorded_at or found.at)
    else:
        end = _stamped(log, found.at)
    page = LogFile(log).page(min(offset, end.offset), PAGE, back)
    return PastLog(_until(page, end.offset), end.told)


def _recorded(log: LogFile, kept: LogValue, at: float) -> _End:
    """Return where it ended when a look recorded it, if those lines still stand there."""
    page = log.page(kept.size, len(kept.lines) + 1, back=True)
    then = [line.plain for line in kept.lines]
    if page.size < kept.size:
        raise OSError(0, CHANGED)
    if page.end < kept.size:  # its last line was being written
        then.pop()
    now = [line.plain for line in page.lines]
    if not then or now[-len(then) :] != then:  # without a whole line nothing vouches for it
        raise OSError(0, CHANGED)
    return _End(page.end, f"from its file, up to {moment(at)}")


def _stamped(log: Ranged, at: float) -> _End:
    """Return where the last line ends that says that it was written by then."""
    end = written_by(log, at)
    if end is None:
        raise OSError(0, "no line is kept, and those of the log have no timestamp with a date")
    if end == 0:
        raise OSError(0, "the log that is there now begins later")
    return _End(end, f"from its file, up to {moment(at)} by its lines' own times")


def _until(page: LogPage, end: int) -> LogPage:
    """Return of a page what begins before ``end``, in a log that ends there."""
    count = sum(offset < end for offset in page.offsets)
    return LogPage(
        page.lines[:count], page.offsets[:count], min(page.start, end), min(page.end, end), end
    )
