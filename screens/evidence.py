"""Places in a log: those an alert speaks of, and those a person types (line, step, time)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from cockpit.model.alert import Alert
from cockpit.model.logtext import Hit
from cockpit.model.report import RunReport
from cockpit.model.wording import moment
from cockpit.model.wording import step as spelled
from screens.ports import Logs
from widgets.log_view import Quote
from widgets.painting.facts import SEVERITY_STYLE

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
        seek = {
            "line": self._numbered_line,
            "text": self._text,
            "step": self._step,
            "time": self._time,
        }
        for target in targets:
            found = await seek[target.kind](target)
            if found is not None:
                return found
        return None

    async def _numbered_line(self, target: Target) -> LogPlace | None:
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
        if near is not None and near.value == step:
            return LogPlace(near.offset, "", f"step {spelled(step)}")
        hit = await self._logs.exact_step(self._run, step)
        if hit is not None and hit.found:
            return LogPlace(hit.offset, "", f"step {spelled(step)}")
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
