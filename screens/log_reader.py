"""Reads logs in pages, and logbooks; finds places in a log.

A place is what an alert speaks of, or what a person types: a line, a text, a step, a moment.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from cockpit.model.alert import Alert
from cockpit.model.base import SafeText
from cockpit.model.logtext import Hit, LogPage, Near
from cockpit.model.report import RunReport
from cockpit.model.wording import moment
from cockpit.model.wording import step as spelled
from cockpit.records.logbook.reading import book_then, read_logbook
from cockpit.runtime.offload import offload
from cockpit.text.safe import safe_lines
from cockpit.text.scrub import scrub_line
from screens.ports import Logs
from widgets.log_view import BEYOND, Quote
from widgets.painting.facts import SEVERITY_STYLE
from widgets.painting.logline import Regex

PAGE: Final = 600
"""Lines read at once; around a place, half before and half after."""


@dataclass(frozen=True)
class LogReader:
    """The log of one run. Raises ``OSError``, ``TimeoutError`` and, searching, ``ValueError``.

    Nothing before ``floor`` is shown. With ``sifts`` only warnings and errors are read: a page
    may then have few lines, or none, and tells how far was looked.
    """

    logs: Logs
    run: str
    floor: int = 0
    sifts: bool = False

    async def tail(self, count: int) -> LogPage:
        """Return the last lines."""
        if self.sifts:
            return await self.more(BEYOND, back=True)
        return since(await self.logs.tail(self.run, count), self.floor)

    async def more(self, offset: int, back: bool) -> LogPage:
        """Return lines that end before ``offset`` (``back``) or start at it."""
        if self.sifts:
            return await self.logs.sift(self.run, offset, PAGE, back, self.floor)
        return since(await self.logs.page(self.run, offset, PAGE, back), self.floor)

    async def around(self, offset: int) -> LogPage:
        """Return lines on both sides of the one that starts at ``offset``."""
        before = await self.more(offset, back=True)
        after = await self.more(offset, back=False)
        lines, offsets = before.lines + after.lines, before.offsets + after.offsets
        gaps, rest = before.gaps, before.rest + after.rest
        if after.gaps:
            gaps, rest = (*gaps, after.gaps[0] + before.rest, *after.gaps[1:]), after.rest
        return LogPage(lines, offsets, before.start, after.end, after.size, gaps, rest)

    async def find(
        self, term: str, offset: int, back: bool, on_progress: Callable[[int], None]
    ) -> Hit | None:
        """Return the next match; ``on_progress`` is given the offset reached, now and then."""
        search = self.logs.find if isinstance(term, Regex) else self.logs.search
        while True:
            hit = await search(self.run, term, offset, back)
            if hit is None or (back and hit.offset < self.floor):
                return None
            if hit.found:
                return hit
            offset = hit.offset
            on_progress(offset)


def since(page: LogPage, floor: int) -> LogPage:
    """Return of a page what starts at ``floor`` or behind it."""
    if page.start >= floor:
        return page
    at = bisect_left(page.offsets, floor)
    end = max(page.end, floor)
    return LogPage(page.lines[at:], page.offsets[at:], min(floor, end), end, page.size)


def held_lines(report: RunReport) -> LogPage:
    """Return the last lines that the source has brought.

    Of remembered ones nobody knows where in the file they stand: they are placed from 0 on,
    and the view must not speak of places.
    """
    log = report.facets.log.value
    if log is None:
        return LogPage((), (), 0, 0, 0)
    if log.offsets:
        return LogPage(log.lines, log.offsets, log.offsets[0], log.size, log.size)
    ends = [0, *accumulate(len(line.plain) + 1 for line in log.lines)]
    return LogPage(log.lines, tuple(ends[:-1]), 0, ends[-1], ends[-1])


MOST: Final = 256_000
"""Bytes; of a longer logbook the end with the newest entries is shown."""
DEADLINE: Final = 10.0


class LogbookText(NamedTuple):
    """A logbook's safe lines, what is to be said of it, and whether its newest entry is last.

    ``stamp`` changes whenever the file does.
    """

    lines: tuple[SafeText, ...]
    note: str
    newest_last: bool
    stamp: tuple[int, ...] = ()


async def read_book(path: str, former: LogbookText | None = None) -> LogbookText:
    """Return a logbook, ``former`` if it still stands so; a note says why it cannot be read."""
    try:
        return await offload(_read, path, former, deadline=DEADLINE)
    except TimeoutError:
        return LogbookText((), "the file did not answer in time", False)


async def read_book_then(path: str, at: float) -> LogbookText:
    """Return a logbook as it stood at a moment; the note says how that is known, or why not."""
    found = await book_then(path, at)
    raw = found.text.encode("utf-8", "replace")
    if not raw:
        return LogbookText((), found.told, False)
    try:
        shown = await offload(_text_of, BytesIO(raw), len(raw), deadline=DEADLINE)
    except TimeoutError:
        return LogbookText((), "unknown: the logbook is too large", False)
    return shown._replace(note=f"{found.told} · {shown.note}")


def _text_of(file: BinaryIO, size: int) -> LogbookText:
    """Return a logbook of ``size`` bytes as it is shown."""
    raw = file.read(MOST)
    book = read_logbook(raw.decode("utf-8", "replace"))
    newest_last = book.newest_first is not True
    if size > MOST and newest_last:
        file.seek(size - MOST)
        raw = file.read(MOST).partition(b"\n")[2]
        book = read_logbook(raw.decode("utf-8", "replace"))
    count = len(book.entries)
    note = f"{count} entr{'y' if count == 1 else 'ies'}"
    if size > MOST:
        note += f" · only the {'end' if newest_last else 'beginning'} is shown"
    return LogbookText(tuple(map(scrub_line, safe_lines(raw))), note, newest_last)


def _read(path: str, former: LogbookText | None) -> LogbookText:
    try:
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if former is not None and former.stamp == stamp:
                return former
            return _text_of(file, status.st_size)._replace(stamp=stamp)
    except OSError as error:
        return LogbookText((), (error.strerror or "cannot be read").lower(), False)


EVIDENCE_TERM: Final = 60
"""Characters of a quoted line that are looked for."""
_STEP: Final = re.compile(r"\bsteps? (\d[\d,]*)(?![\d.])")
_NUMBERED: Final = re.compile(r":(\d+)$")


class Target(NamedTuple):
    """What to look for: the number of a line that begins with ``text``, a text, a step, a time."""

    kind: Literal["line", "text", "step", "time"]
    value: float = 0.0
    text: str = ""


class LogPlace(NamedTuple):
    """Where a target starts, what to mark there, and what it is in words."""

    offset: int
    mark: str
    words: str


def targets_of(report: RunReport, alert: Alert) -> tuple[Target, ...]:
    """Return what an alert speaks of, the surest first; every alert has at least its time."""
    found = [*_quoted(report, alert), *_steps(alert), Target("time", alert.since)]
    order = ("line", "text", "step", "time")
    return tuple(sorted(dict.fromkeys(found), key=lambda target: order.index(target.kind)))


def _quoted(report: RunReport, alert: Alert) -> Iterator[Target]:
    """Yield the log lines that an alert quotes; by number and by text."""
    facet = report.facets.log
    paths = {facet.source, facet.value.path if facet.value is not None else facet.source}
    for each in alert.evidence:
        number = _NUMBERED.search(each.source)
        path = each.source[: number.start()] if number is not None else each.source
        text = each.text.strip(" …")[:EVIDENCE_TERM].strip()
        if path not in paths or not text:
            continue
        if number is not None:
            yield Target("line", int(number[1]), text)
        yield Target("text", text=text)


def _steps(alert: Alert) -> Iterator[Target]:
    for text in (alert.title, *(each.text for each in alert.evidence)):
        for found in _STEP.finditer(text):
            yield Target("step", int(found[1].replace(",", "")))


def triage_targets(report: RunReport) -> tuple[Target, ...]:
    """Return the first line that a triage rests on, where there is one."""
    log = report.facets.log.value
    lines = log.triage.evidence if log is not None and log.triage is not None else ()
    return tuple(Target("text", text=line.text.strip()[:EVIDENCE_TERM]) for line in lines[:1])


def begin_of(report: RunReport) -> int | None:
    """Return where the present job's lines begin, as its launcher noted it, in the log's file."""
    job, log = report.facets.job.value, report.facets.log.value
    mark = None if job is None else job.log_mark
    same = mark is not None and log is not None and log.inode == mark.inode
    return mark.offset if mark is not None and same else None


def quotes_of(report: RunReport) -> tuple[Quote, ...]:
    """Return the texts that open alerts quote from the log, the worst alert's first."""
    quotes = (
        Quote(target.text, SEVERITY_STYLE[alert.severity])
        for alert in report.alerts
        for target in _quoted(report, alert)
        if target.kind == "text"
    )
    return tuple(dict.fromkeys(quotes))


class Seeker:
    """Looks in one log from ``begin`` on: where the present job's lines do, unless it is given.

    ``find`` finds a text. Raises as a reader does.
    """

    def __init__(
        self,
        logs: Logs,
        report: RunReport,
        find: Callable[[str], Awaitable[Hit | None]],
        *,
        begin: int | None = None,
    ) -> None:
        self._logs = logs
        self._run = report.name
        self._find = find
        self._begin = begin if begin is not None else begin_of(report) or 0

    async def first(self, targets: Sequence[Target]) -> LogPlace | None:
        """Return the first target that stands in the log."""
        for target in targets:
            seek: Callable[[Target], Awaitable[LogPlace | None]]
            seek = getattr(self, f"_{target.kind}")
            if (found := await seek(target)) is not None:
                return found
        return None

    async def _line(self, target: Target) -> LogPlace | None:
        """Return the line of a number, if it still reads as it was quoted."""
        number = int(target.value)
        offset = await self._logs.line_at(self._run, number)
        if offset is None:
            return None
        page = await self._logs.page(self._run, offset, 1, False)
        if not any(target.text in line.plain for line in page.lines):
            return None
        return LogPlace(offset, target.text, f"line {number:,}")

    async def _text(self, target: Target) -> LogPlace | None:
        hit = await self._find(target.text)
        return None if hit is None else LogPlace(hit.offset, target.text, "its line")

    async def _step(self, target: Target) -> LogPlace | None:
        """Return the line of exactly this step, else of the nearest one that is logged."""
        step = int(target.value)
        near = await self._logs.nearest_step(self._run, step, self._begin)
        exact: Near | Hit | None = near if near is not None and near.value == step else None
        if exact is None:
            hit = await self._logs.exact_step(self._run, step)
            exact = hit if hit is not None and hit.found else None
        if exact is not None:
            return LogPlace(exact.offset, "", f"step {spelled(step)}")
        if near is None:
            return None
        nearest = spelled(int(near.value))
        return LogPlace(near.offset, "", f"step {nearest}, the nearest to {spelled(step)}")

    async def _time(self, target: Target) -> LogPlace | None:
        near = await self._logs.nearest_time(self._run, target.value, self._begin)
        if near is None:
            return None
        return LogPlace(near.offset, "", f"the line nearest to {moment(target.value)}")


_STEP_TYPED: Final = re.compile(r"(?:step\s*)?(\d{1,3}(?:[, ]\d{3})+|\d{1,15})", re.IGNORECASE)
_LINE: Final = re.compile(r"(?:line\s+|:)([\d,]{1,15})", re.IGNORECASE)
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)\s*%")
_AGO: Final = re.compile(r"-?\s*(\d{1,6})\s*([smhd])(?:\s+ago)?")
_TIME: Final = re.compile(
    r"(?:(?:(\d{4})[-/])?(\d\d)[-/](\d\d)[T ]+)?(\d\d?):(\d\d)(?::(\d\d))?\s*(Z|UTC)?",
    re.IGNORECASE,
)
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
HOW: Final = "a step (8,004), a time (03:12, 11-21 03:12 UTC, 2h ago), :line or 40 %"


class Share(NamedTuple):
    """A part of the log, from 0 to 1."""

    part: float
    kind: Literal["share"] = "share"


def target_of(typed: str, now: float) -> Target | Share | None:
    """Return what was typed; ``None`` if it is nothing of ``HOW``.

    A time without a day is the last such one before ``now`` (epoch seconds), in the reader's zone
    unless it says UTC; without a year it is of this one, or of the last.
    """
    words = typed.strip()
    if found := _SHARE.fullmatch(words):
        return Share(min(1.0, float(found[1]) / 100))
    if found := _LINE.fullmatch(words):
        return Target("line", float(found[1].replace(",", "") or 0))
    if found := _STEP_TYPED.fullmatch(words):
        return Target("step", float(re.sub("[, ]", "", found[1])))
    if found := _AGO.fullmatch(words):
        return Target("time", now - float(found[1]) * _SECONDS[found[2]])
    if found := _TIME.fullmatch(words):
        at = _instant_of(found, now)
        return None if at is None else Target("time", at)
    return None


def _instant_of(found: re.Match[str], now: float) -> float | None:
    zone = UTC if found[7] else None
    today = datetime.fromtimestamp(now, zone)
    hour, minute, second = int(found[4]), int(found[5]), int(found[6] or 0)
    year, month, day = found[1] or today.year, found[2] or today.month, found[3] or today.day
    try:
        at = datetime(int(year), int(month), int(day), hour, minute, second, tzinfo=zone)
        if found[1] is None and at.timestamp() > now:
            dated = found[2] is not None
            at = at.replace(year=at.year - 1) if dated else at - timedelta(days=1)
        return at.timestamp()
    except (ValueError, OverflowError, OSError):  # no such day
        return None
